"""A launch of a kernel in source: the function, its arguments as bits, and the IR that they lead to."""

from __future__ import annotations

import linecache
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import Buffer
from tilewright.lang import Module, PointerType, ScalarType
from tilewright.runtime import JITFunction

from .cases import Grid
from .generator import GeneratedKernel, Parameter, arguments
from .storage import dtype_of

Bits = NDArray[np.uint8]
#: What a launch leaves in each array, by the names of the parameters.
Results = dict[str, Bits]
_NAME = "generated"


@dataclass(eq=False)
class Launch:
    """A kernel, the arguments of a launch, its grid and its options. Every run gets new copies of the arrays."""

    function: JITFunction
    parameters: Sequence[Parameter]
    constants: Mapping[str, Any]
    grid: Grid
    options: Mapping[str, int | bool]

    @property
    def num_warps(self) -> int:
        return self.options["num_warps"]

    def values(self) -> dict[str, Any]:
        """The arguments by name: new arrays, and numbers."""
        return arguments(self.parameters)

    @cached_property
    def module(self) -> Module:
        """The kernel's IR, as the frontend makes it for these arguments. Raises CompilationError."""
        made = self.function.warmup(**self.values(), **self.constants, grid=self.grid, device="interpreter")
        return made.module

    def buffers(self, values: Mapping[str, Any]) -> list[Any]:
        """The arguments of the module's kernel for the interpreter: buffers and numbers."""
        return [
            Buffer.of(p.name, values[p.name]) if isinstance(p.type, PointerType) else values[p.name]
            for p in self.module.kernel.arguments
        ]

    def packed(self, values: Mapping[str, Any]) -> list[Any]:
        """The same for the emulator, where a number is the bytes that a launcher passes."""
        return [
            Buffer.of(p.name, values[p.name]) if isinstance(p.type, PointerType) else _bytes_of(values[p.name], p.type)
            for p in self.module.kernel.arguments
        ]

    def formats(self) -> dict[str, ScalarType]:
        """The element type of each array, by name."""
        return {parameter.name: parameter.type.element for parameter in self.parameters if parameter.is_array}

    def run_on(self, device: str) -> Results:
        """Launch on a device of the runtime."""
        values = self.values()
        self.function.on(device)[self.grid](**values, **self.constants, **self.options)
        return results_of(values)


def results_of(values: Mapping[str, Any]) -> Results:
    """The bytes of the arrays among some arguments."""
    return {name: np.array(array).view(np.uint8) for name, array in values.items() if isinstance(array, np.ndarray)}


def _bytes_of(value: Any, type_: Any) -> bytes:
    return np.array([value]).astype(dtype_of(type_)).tobytes()


@contextmanager
def launched(kernel: GeneratedKernel) -> Generator[Launch]:
    """The launch of a generated kernel, whose text is there to be read (and shown in messages) while this is open."""
    file = f"<{_NAME} {id(kernel)}>"
    linecache.cache[file] = (len(kernel.source), None, kernel.source.splitlines(keepends=True), file)
    module = ModuleType(_NAME)
    try:
        exec(compile(kernel.source, file, "exec"), vars(module))
        yield Launch(module.kernel, kernel.parameters, kernel.constants, kernel.grid, kernel.options)
    finally:
        del linecache.cache[file]
