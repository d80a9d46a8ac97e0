"""The compiler: from tile IR to a cubin, in one process.

The room for layout choice, the passes and the lowering to LLVM for each target. It meets the interpreter only in
`lang`'s IR and never imports it.
"""

import typing

from . import _lazy
from .errors import (
    AssemblerError,
    BadOption,
    LoweringError,
    NoAssembler,
    NotCompiledYet,
    NotOnTarget,
    RegistersExceeded,
    SharedMemoryExceeded,
    UnknownTarget,
)
from .targets import TARGETS, Target

if typing.TYPE_CHECKING:  # imported when first asked for (_lazy.py), since a kept kernel needs only the targets
    from .compile import STAGES, Compiled, Metadata, compile_module
    from .cubin import resources
    from .not_lowered import NOT_LOWERED
    from .nvjitlink import assemble
    from .occupancy import assemble_kernel
    from .pipeline import ROUNDING_PASSES

__all__ = [
    "AssemblerError",
    "BadOption",
    "Compiled",
    "LoweringError",
    "Metadata",
    "NOT_LOWERED",
    "NoAssembler",
    "NotCompiledYet",
    "NotOnTarget",
    "ROUNDING_PASSES",
    "RegistersExceeded",
    "STAGES",
    "SharedMemoryExceeded",
    "TARGETS",
    "Target",
    "UnknownTarget",
    "assemble",
    "assemble_kernel",
    "compile_module",
    "resources",
]


def __getattr__(name: str) -> typing.Any:
    return _lazy.late(__name__, name)
