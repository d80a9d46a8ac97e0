"""The compiler: from tile IR to a cubin, in one process.

The room for layout choice, the passes and the lowering to LLVM for each target. It meets the interpreter only in
`lang`'s IR and never imports it.
"""

from .compile import STAGES, Compiled, Metadata, compile_module
from .cubin import resources
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
from .not_lowered import NOT_LOWERED
from .nvjitlink import assemble
from .targets import TARGETS, Target

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
    "RegistersExceeded",
    "STAGES",
    "SharedMemoryExceeded",
    "TARGETS",
    "Target",
    "UnknownTarget",
    "assemble",
    "compile_module",
    "resources",
]
