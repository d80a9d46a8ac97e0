"""A launch in the terms of the reference interpreter. Imported at the first launch, for the interpreter is large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.interpreter import Buffer, Options, execute
from tilewright.lang import Module, knobs, parse_type

from ..arguments import ArrayArgument
from ..grid import Extents
from ..options import CompileOptions


def interpret(module: Module, grid: Extents, payload: Sequence[Any], options: CompileOptions) -> None:
    """Run the kernel on arguments in host memory. Raises InterpreterError when a program fails."""
    names = [argument.name for argument in module.kernel.arguments]
    arguments = [host_buffer(name, part) for name, part in zip(names, payload, strict=True)]
    execute(module, arguments, grid, run_options(options))


def run_options(options: CompileOptions) -> Options:
    """The executor's options: from the launch, and from the knobs."""
    return Options(
        debug=options.debug or knobs.debug,
        seed=knobs.seed,
        fuel=knobs.fuel,
        chunk_bytes=knobs.chunk_bytes,
        mma=knobs.mma,
    )


def host_buffer(name: str, part: Any) -> Any:
    """An array as the buffer of its bytes; numbers as they are."""
    if not isinstance(part, ArrayArgument):
        return part
    public = parse_type(part.dtype).facts.public  # as NumPy and messages spell it
    return Buffer(name, part.lowest, part.nbytes, part.readonly, part.owner, part.shape, public, origin=part.address)
