"""The reference interpreter as a device."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tilewright.lang import Module

from .._lazy import interpret
from ..artifact import Artifact, Request, uncompiled
from ..errors import DeviceError
from ..grid import Extents
from ..options import CompileOptions
from ..staging import on_host
from ..tensor_map import Im2colMap, TensorMap


class InterpreterDevice:
    """Runs tile IR in NumPy on host memory. Data elsewhere is copied in and out."""

    name = "interpreter"
    target = "interpreter"

    @property
    def properties(self) -> Mapping[str, int]:
        return {"cores": os.cpu_count() or 1}

    def compile(self, request: Request) -> Artifact:
        """Tile IR, which is what the executor runs. Raises CompilationError."""
        return uncompiled(request, self.target)

    def load(self, artifact: Artifact) -> Module:
        """The module itself: the executor plans it at its first launch, and keeps the plan while the module lives."""
        return artifact.module

    def takes(self, payload: Sequence[Any]) -> bool:
        return False  # each access is checked, for which an address is too little

    def memory(self, payload: Sequence[Any]) -> AbstractContextManager[list[Any]]:
        return on_host(payload)

    def launch(
        self, handle: Module, grid: Extents, payload: Sequence[Any], options: CompileOptions, stream: Any = None
    ) -> None:
        """Run the kernel, now: the host has no streams. Raises InterpreterError when a program fails."""
        interpret(handle, grid, payload, options)

    def encode_tensor_map(self, tensor: TensorMap) -> bytes:
        """Raises DeviceError: tile IR has no tensor copies."""
        raise DeviceError("the interpreter has no tensor maps", "a GPU and the emulator have")

    def encode_im2col_map(self, tensor: Im2colMap) -> bytes:
        """Raises DeviceError, as `encode_tensor_map` does."""
        raise DeviceError("the interpreter has no tensor maps", "a GPU and the emulator have")
