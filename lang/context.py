"""Where operations go while a kernel is being turned into IR: the current builder, generator and options.

The frontend enters `building(...)`; every `tl` function and every operator of a `tensor` finds the builder by
`current()`, so that kernel code needs no extra argument.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from .dtypes import dtype
from .ir import Block, Builder


@dataclass(frozen=True, slots=True)
class Options:
    """What launch options change in the IR itself.

    `debug` keeps device asserts; with `sanitize_overflow` it adds one to each `+ - *` on integers below 64 bits.
    `input_precision` is what `tl.dot` of float32 uses when the kernel names none.
    """

    debug: bool = False
    sanitize_overflow: bool = True
    input_precision: str = "tf32"


class Generator(Protocol):
    """What device functions, and operations that take one, need of the code generator."""

    def call(self, function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Emit a call of a device function; its result as a frontend value."""
        ...

    def inline_region(self, function: Callable[..., Any], types: Sequence[dtype]) -> Block:
        """A block whose arguments are scalars of `types`, ended by a `yield` of what `function` returns on them.

        Raises RegionResult when these do not have the types that the first half of `types` names.
        """
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """The current builder, with what goes with it. `generator` is None where no kernel source is being compiled."""

    builder: Builder
    generator: Generator | None = None
    options: Options = Options()


_CONTEXT: ContextVar[Context | None] = ContextVar("tilewright_context", default=None)


@contextmanager
def building(
    builder: Builder, generator: Generator | None = None, options: Options | None = None
) -> abc.Generator[Context]:
    """Make `builder` the current one inside the `with`."""
    context = Context(builder, generator, Options() if options is None else options)
    token = _CONTEXT.set(context)
    try:
        yield context
    finally:
        _CONTEXT.reset(token)


def _context() -> Context:
    context = _CONTEXT.get()
    if context is None:
        raise RuntimeError("tl functions work inside a @tilewright.jit kernel only; launch it as kernel[grid](...)")
    return context


def current() -> Builder:
    """The current builder. Raises RuntimeError outside of a kernel."""
    return _context().builder


def current_options() -> Options:
    """The current options. Raises RuntimeError outside of a kernel."""
    return _context().options


def current_generator() -> Generator:
    """The current code generator. Raises RuntimeError where there is none."""
    generator = _context().generator
    if generator is None:
        raise RuntimeError("a function can be passed to tl.reduce inside a @tilewright.jit kernel only")
    return generator
