"""The interface of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ..artifact import Artifact, Request
from ..grid import Extents
from ..options import CompileOptions
from ..tensor_map import Im2colMap, TensorMap

if TYPE_CHECKING:
    from tilewright.interpreter import Counters


class Device(Protocol):
    """Something that runs kernels: it loads a module once, launches it on arguments, and reaches their memory."""

    @property
    def name(self) -> str:
        """The name that `TILEWRIGHT_DEVICE` and `kernel.on(...)` know it by."""
        ...

    @property
    def target(self) -> str:
        """What code is made for, as the cache key names it."""
        ...

    @property
    def properties(self) -> Mapping[str, int]:
        """Facts about the device by name."""
        ...

    def compile(self, request: Request) -> Artifact:
        """Make the code of a kernel, or find it where it is kept. Raises CompilationError."""
        ...

    def load(self, artifact: Artifact) -> Any:
        """Make code ready to launch; the handle is for this device's `launch` alone."""
        ...

    def takes(self, payload: Sequence[Any]) -> bool:
        """Whether `launch` takes these arguments as they are, and of arrays no more than their addresses."""
        ...

    def memory(self, payload: Sequence[Any]) -> AbstractContextManager[list[Any]]:
        """While open, the arguments as this device can reach them; copies are written back on leaving."""
        ...

    def launch(
        self, handle: Any, grid: Extents, payload: Sequence[Any], options: CompileOptions, stream: Any = None
    ) -> Counters | None:
        """Run every program of the grid on arguments that `memory` gave, or that the device `takes`.

        A GPU queues them on the stream. Returns what was executed where the device counts it.
        """
        ...

    def encode_tensor_map(self, tensor: TensorMap) -> bytes:
        """128 bytes for a kernel's parameter, which only this device can read. Raises DeviceError where there are no
        tensor copies, and errors of its own for what it refuses."""
        ...

    def encode_im2col_map(self, tensor: Im2colMap) -> bytes:
        """The same for copies of columns of pixels (im2col mode)."""
        ...
