"""The language as kernels import it: `import tilewright.language as tl`."""

from .lang.language import *  # noqa: F403
from .lang.language import __all__ as __all__
