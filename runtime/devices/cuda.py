"""NVIDIA GPUs, through the CUDA driver."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any

from tilewright.lang import CompilationError

from .._lazy import compiled, target_names
from ..arguments import ArrayArgument
from ..artifact import Artifact, Request
from ..errors import ArgumentError, CudaError, DeviceError
from ..grid import Extents
from ..options import CompileOptions
from ..packing import packer
from ..tensor_map import Im2colMap, TensorMap, check_tensor_copies
from .choose import place_of
from .cuda_driver import CUBINS, Driver, driver, version_text
from .cuda_memory import on_gpu
from .cuda_tensor_map import im2col_map, tensor_map

#: The driver's names of what `properties` tells.
ATTRIBUTES: dict[str, str] = {
    "multiprocessor_count": "MULTIPROCESSOR_COUNT",
    "max_shared_mem": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "max_num_regs": "MAX_REGISTERS_PER_BLOCK",
    "warpSize": "WARP_SIZE",
    "sm_clock_rate": "CLOCK_RATE",
    "mem_clock_rate": "MEMORY_CLOCK_RATE",
    "mem_bus_width": "GLOBAL_MEMORY_BUS_WIDTH",
    "l2_cache_size": "L2_CACHE_SIZE",
    "compute_capability_major": "COMPUTE_CAPABILITY_MAJOR",
    "compute_capability_minor": "COMPUTE_CAPABILITY_MINOR",
}
#: Bytes of a launch that each argument gets: as many as the longest has.
SLOT = 8
#: Shared bytes that a block may have without asking.
FREE_SHARED = 48 * 1024
#: What the driver says about a cubin that it does not take.
REFUSED = frozenset(
    {
        "CUDA_ERROR_INVALID_IMAGE",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "CUDA_ERROR_UNKNOWN",
        "CUDA_ERROR_NOT_SUPPORTED",
    }
)


class LoadedKernel:
    """A function on a GPU, and how it is launched.

    When nobody holds it any more, `dropped` is called, unless a graph may hold the function: `is_captured`.
    """

    def __init__(
        self,
        function: Any,
        facts: Mapping[str, Any],
        packers: Sequence[Callable[[Any], bytes]],
        dropped: Callable[[], None],
    ) -> None:
        self.function = function
        self.threads = int(facts["threads"])
        self.dynamic_shared = int(facts["dynamic_shared"])
        self.cooperative = bool(facts["cooperative"])
        self.packers = tuple(packers)
        self.is_captured = False
        self._ending = weakref.finalize(self, dropped)
        self._ending.atexit = False  # the driver may be gone by then, and frees everything itself

    def capture(self) -> None:
        """Note that a graph may hold the function from now on, so that it must stay where it is for good."""
        self.is_captured = True
        self._ending.detach()


class CudaDevice:
    """One GPU, in its primary context, which torch and every other CUDA library in the process share.

    Arrays on it are used in place. Host arrays are copied in and out, which waits for the kernel.

    A module is unloaded some time after its kernel was dropped: when the next one is loaded, since a kernel may be
    dropped at any moment, such as in the middle of a capture. (The driver waits for launches that still run.) A module
    whose kernel was ever queued on a stream that was captured, or might have been, is never unloaded, and neither is
    any at the process's end.
    """

    def __init__(self, ordinal: int = 0, api: Driver | None = None) -> None:
        """Raises DeviceError where there is no such GPU, or no driver that runs our code."""
        self.driver = api or driver()
        self.ordinal = ordinal
        self.name = f"cuda:{ordinal}"
        count = int(self.driver.call("cuDeviceGetCount"))
        if ordinal >= count:
            raise DeviceError(f"there is no device {self.name!r}: the driver sees {count} GPU{'s' * (count != 1)}")
        self.device = self.driver.call("cuDeviceGet", ordinal)
        self.target = target_for(self.properties, target_names())
        self.context = self.driver.call("cuDevicePrimaryCtxRetain", self.device)
        self._dropped: deque[Any] = deque()

    @property
    def properties(self) -> Mapping[str, int]:
        return self._properties

    @cached_property
    def _properties(self) -> Mapping[str, int]:
        kinds = self.driver.api.CUdevice_attribute
        wanted = {name: getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{own}") for name, own in ATTRIBUTES.items()}
        return {n: int(self.driver.call("cuDeviceGetAttribute", kind, self.device)) for n, kind in wanted.items()}

    @property
    def description(self) -> str:
        """The GPU's name, memory and capability, for people."""
        name = self.driver.call("cuDeviceGetName", 256, self.device).partition(b"\0")[0].decode()
        memory = int(self.driver.call("cuDeviceTotalMem", self.device)) / 2**30
        major, minor = (self.properties[f"compute_capability_{part}"] for part in ("major", "minor"))
        return f"{name}, {memory:.0f} GiB, capability {major}.{minor}, compiled for as {self.target}"

    def compile(self, request: Request) -> Artifact:
        """Make code for this GPU, or find it where it is kept. Raises CompilationError."""
        return compiled(request, self.target)

    def load(self, artifact: Artifact) -> LoadedKernel:
        """Load the cubin, or else the PTX through the driver's own assembler. Raises CudaError and ArgumentError."""
        facts = artifact.facts
        packers = tuple(packer(type_) for type_ in facts["parameters"])
        with self.driver.current(self.context):
            self._unload()
            module = self._load_module(artifact)
            function = self.driver.call("cuModuleGetFunction", module, artifact.name.encode())
            shared = int(facts["dynamic_shared"])
            if shared > FREE_SHARED:
                kind = self.driver.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self.driver.call("cuFuncSetAttribute", function, kind, shared)
        return LoadedKernel(function, facts, packers, partial(self._dropped.append, module))

    def _unload(self) -> None:
        """Unload the modules of dropped kernels; captures in other threads neither forbid nor notice it."""
        if not self._dropped:
            return
        relaxed = self.driver.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self.driver.call("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            while self._dropped:
                self.driver.call("cuModuleUnload", self._dropped.popleft())
        finally:
            self.driver.call("cuThreadExchangeStreamCaptureMode", before)

    def _load_module(self, artifact: Artifact) -> Any:
        why = f"the driver, of CUDA {version_text(self.driver.version)}, takes PTX only"
        if self.driver.version >= CUBINS:
            try:
                return self.driver.call("cuModuleLoadData", artifact.stage("cubin"))
            except CompilationError as error:  # no assembler, or one that refuses
                why = str(error)
            except CudaError as error:
                if error.code not in REFUSED:
                    raise
                why = str(error)
        try:
            return self.driver.call("cuModuleLoadData", artifact.ptx.encode() + b"\0")
        except CudaError as error:
            what = f"{artifact.name}: the driver does not take the PTX, {error}"
            raise CudaError(f"{what}\nand it could not have a cubin: {why}", error.code) from error

    def takes(self, payload: Sequence[Any]) -> bool:
        return all(place_of(part) == self.name for part in payload if isinstance(part, ArrayArgument))

    def memory(self, payload: Sequence[Any]) -> AbstractContextManager[list[Any]]:
        """The payload itself where it lies on this GPU. Raises DeviceError for arrays on another one."""
        for part in payload:
            if isinstance(part, ArrayArgument) and (place := place_of(part)) not in ("cpu", self.name):
                raise DeviceError(f"an argument lies on {place}, and the kernel was sent to {self.name}")
        return on_gpu(self.driver, self.context, payload)

    def launch(
        self,
        handle: LoadedKernel,
        grid: Extents,
        payload: Sequence[Any],
        options: CompileOptions,
        stream: Any = None,
    ) -> None:
        """Queue the kernel; it may run later. Allocates nothing and waits for nothing. Raises CudaError."""
        self.driver.check_process()
        numbers = [part.address if isinstance(part, ArrayArgument) else part for part in payload]
        packed = [pack(number).ljust(SLOT, b"\0") for pack, number in zip(handle.packers, numbers, strict=True)]
        storage = ctypes.create_string_buffer(b"".join(packed), max(1, SLOT * len(packed)))
        start = ctypes.addressof(storage)
        pointers = (ctypes.c_void_p * max(1, len(packed)))(*range(start, start + SLOT * len(packed), SLOT))
        queue = stream_handle(stream, self.ordinal)
        shape = (*grid, handle.threads, 1, 1, handle.dynamic_shared, queue)
        with self.driver.current(self.context):
            if not handle.is_captured and self._may_be_captured(queue):
                handle.capture()
            if handle.cooperative:
                self.driver.call("cuLaunchCooperativeKernel", handle.function, *shape, ctypes.addressof(pointers))
            else:
                self.driver.call("cuLaunchKernel", handle.function, *shape, ctypes.addressof(pointers), 0)

    def encode_tensor_map(self, tensor: TensorMap) -> bytes:
        """The driver's bytes, for an address on this GPU. Raises ArgumentError, CudaError, and DeviceError for a GPU
        without tensor copies."""
        check_tensor_copies(self.target)
        with self.driver.current(self.context):
            return tensor_map(self.driver, tensor)

    def encode_im2col_map(self, tensor: Im2colMap) -> bytes:
        """The driver's bytes, for an address on this GPU. Raises as `encode_tensor_map` does."""
        check_tensor_copies(self.target)
        with self.driver.current(self.context):
            return im2col_map(self.driver, tensor)

    def _may_be_captured(self, stream: int) -> bool:
        """Whether a stream records a graph; also where the driver won't say, as of the default stream meanwhile."""
        status, *found = self.driver.api.cuStreamIsCapturing(stream)
        return bool(status) or found[0] != self.driver.api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE


def target_for(properties: Mapping[str, int], targets: Sequence[str]) -> str:
    """The target whose code runs on a GPU: its own, or an earlier one of its generation.

    Code of a target with a letter (`sm_90a`) runs on that very capability alone. Raises DeviceError.
    """
    major, minor = properties["compute_capability_major"], properties["compute_capability_minor"]
    own = f"sm_{major}{minor}"
    for name in (f"{own}a", own, *(f"sm_{major}{earlier}" for earlier in range(minor - 1, -1, -1))):
        if name in targets:
            return name
    raise DeviceError(f"nothing compiles for this GPU, which is {own}", f"the targets: {', '.join(targets)}")


def stream_handle(stream: Any, ordinal: int) -> int:
    """The driver's handle of a stream: of the given one, else of torch's current one, else of the default stream.

    Taken are numbers, None, and objects of torch (`cuda_stream`), CuPy (`ptr`) and the protocol `__cuda_stream__`.
    Raises ArgumentError.
    """
    if stream is None:
        torch: Any = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return 0
        return int(torch.cuda.current_stream(ordinal).cuda_stream)
    if isinstance(stream, int):
        return int(stream)
    if hasattr(stream, "__cuda_stream__"):
        method: Any = stream.__cuda_stream__
        pair: Any = method() if callable(method) else method
        return int(pair[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    raise ArgumentError(f"a {type(stream).__name__} is no stream: {stream!r}", "pass a torch stream or its handle")


def place_at(address: int) -> str:
    """The GPU whose memory holds an address, "cuda:N". Raises DeviceError and CudaError."""
    api = driver()
    kind = api.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return f"cuda:{int(api.call('cuPointerGetAttribute', kind, address))}"
