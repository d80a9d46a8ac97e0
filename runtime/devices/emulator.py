"""The PTX emulator as a device: a GPU of any generation on a machine without one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from .._lazy import compiled, emulate, emulated_tensor_map, parsed_ptx, target_names
from ..artifact import Artifact, Request
from ..errors import DeviceError, did_you_mean
from ..grid import Extents
from ..options import CompileOptions
from ..staging import on_host
from ..tensor_map import Im2colMap, TensorMap, check_tensor_copies

if TYPE_CHECKING:
    from tilewright.interpreter import Counters

DEFAULT_TARGET = "sm_90a"


class EmulatorDevice:
    """Compiles kernels for a target and executes their PTX on host memory. Data elsewhere is copied in and out."""

    def __init__(self, target: str = "") -> None:
        """Raises DeviceError for a target that nothing compiles for."""
        self.target = target or DEFAULT_TARGET
        self.name = f"emulator:{self.target}"
        if self.target not in (known := target_names()):
            raise DeviceError(f"there is no target {self.target!r} to compile for", did_you_mean(self.target, known))

    @property
    def properties(self) -> Mapping[str, int]:
        return {"cores": os.cpu_count() or 1, "warp_size": 32}

    def compile(self, request: Request) -> Artifact:
        """Make PTX, or find it where it is kept. Raises CompilationError."""
        return compiled(request, self.target)

    def load(self, artifact: Artifact) -> Any:
        """Parse the PTX. Raises PtxError for an instruction that the emulator does not know."""
        return parsed_ptx(artifact)

    def takes(self, payload: Sequence[Any]) -> bool:
        return False  # each access is checked, for which an address is too little

    def memory(self, payload: Sequence[Any]) -> AbstractContextManager[list[Any]]:
        return on_host(payload)

    def launch(
        self, handle: Any, grid: Extents, payload: Sequence[Any], options: CompileOptions, stream: Any = None
    ) -> Counters:
        """Run the kernel, now: the host has no streams. Raises InterpreterError when a thread fails."""
        return emulate(handle, grid, payload, options)

    def encode_tensor_map(self, tensor: TensorMap) -> bytes:
        """The emulator's own record. Raises ArgumentError for what the driver refuses, and DeviceError for a target
        without tensor copies."""
        check_tensor_copies(self.target)
        return emulated_tensor_map(tensor, TensorMap)

    def encode_im2col_map(self, tensor: Im2colMap) -> bytes:
        """The emulator's own record. Raises as `encode_tensor_map` does."""
        check_tensor_copies(self.target)
        return emulated_tensor_map(tensor, Im2colMap)
