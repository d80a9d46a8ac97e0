"""The language as kernels import it: `import tilewright.language as tl`."""

from tilewright.lang.language import *  # noqa: F403
from tilewright.lang.language import __all__ as __all__
