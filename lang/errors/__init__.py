"""The catalogue of errors: every mistake that a kernel can hold has one class here.

`CATALOGUE` lists them all; a test compares the full text of each for one real mistake.
"""

import inspect

from . import memory, operations, syntax
from .base import CompilationError, CompilerBug, Span, TilewrightError

__all__ = ["CATALOGUE", "CompilationError", "CompilerBug", "Span", "TilewrightError"]

#: Every concrete class of mistake, by name.
CATALOGUE: tuple[type[CompilationError], ...] = tuple(
    sorted(
        (
            value
            for module in (memory, operations, syntax)
            for value in vars(module).values()
            if inspect.isclass(value) and issubclass(value, CompilationError) and value is not CompilationError
        ),
        key=lambda kind: kind.__name__,
    )
)
