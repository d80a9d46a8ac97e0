"""The compiler: from tile IR to a cubin, in one process.

The room for layout choice, the passes and the lowering to LLVM for each target. It meets the interpreter only in
`lang`'s IR and never imports it.
"""

from .not_lowered import NOT_LOWERED

__all__ = ["NOT_LOWERED"]
