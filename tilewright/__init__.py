"""Tilewright: a block-level kernel language for GPUs, with a NumPy reference that defines what kernels mean."""

from tilewright.lang import CompilationError, CompilerBug, TilewrightError, constexpr_function, knobs
from tilewright.runtime import JITFunction, LaunchError, cdiv, jit, next_power_of_2

from . import language

__version__ = "0.1.0"

__all__ = [
    "CompilationError",
    "CompilerBug",
    "JITFunction",
    "LaunchError",
    "TilewrightError",
    "cdiv",
    "constexpr_function",
    "jit",
    "knobs",
    "language",
    "next_power_of_2",
]
