"""The reference interpreter as a device."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tilewright.interpreter import Buffer, Options, execute
from tilewright.lang import Module, knobs, parse_type

from ..arguments import ArrayArgument
from ..grid import Extents
from ..options import CompileOptions
from ..staging import on_host


class InterpreterDevice:
    """Runs tile IR in NumPy on host memory. Data elsewhere is copied in and out."""

    name = "interpreter"
    target = "interpreter"

    @property
    def properties(self) -> Mapping[str, int]:
        return {"cores": os.cpu_count() or 1}

    def load(self, module: Module) -> Module:
        """The module itself: the executor plans it at its first launch, and keeps the plan while the module lives."""
        return module

    def memory(self, payload: Sequence[Any]) -> AbstractContextManager[list[Any]]:
        return on_host(payload)

    def launch(self, handle: Module, grid: Extents, payload: Sequence[Any], options: CompileOptions) -> None:
        """Run the kernel. Raises InterpreterError when a program fails."""
        names = [argument.name for argument in handle.kernel.arguments]
        arguments = [_buffer(name, part) for name, part in zip(names, payload, strict=True)]
        execute(handle, arguments, grid, run_options(options))


def run_options(options: CompileOptions) -> Options:
    """The executor's options: from the launch, and from the knobs."""
    return Options(debug=options.debug or knobs.debug, seed=knobs.seed, fuel=knobs.fuel, chunk_bytes=knobs.chunk_bytes)


def _buffer(name: str, part: Any) -> Any:
    if not isinstance(part, ArrayArgument):
        return part
    public = parse_type(part.dtype).facts.public  # as NumPy and messages spell it
    return Buffer(name, part.lowest, part.nbytes, part.readonly, part.owner, part.shape, public, origin=part.address)
