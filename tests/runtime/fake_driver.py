"""A made-up CUDA driver for the tests of the device, and a kernel to run on it."""

import ctypes
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import tilewright
import tilewright.language as tl
from tilewright.runtime import CudaDevice
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.devices import cuda
from tilewright.runtime.devices.cuda_driver import Driver


class Status(IntEnum):
    """What the made-up driver returns."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906


class FakeApi:
    """A driver that keeps host memory for its own, notes its calls, and fails where it is told to."""

    CUdevice_attribute = SimpleNamespace(
        **{f"CU_DEVICE_ATTRIBUTE_{name}": name for name in cuda.ATTRIBUTES.values()},
    )
    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL="ordinal")
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0)

    def __init__(self, version: int = 13000, gpus: int = 2, **failures: Status) -> None:
        self.version, self.gpus, self.failures = version, gpus, failures
        self.calls: list[str] = []
        self.launched: list[tuple[Any, ...]] = []
        self.images: list[bytes] = []
        self.modes, self.capturing = ["global"], 0
        self.unloaded: list[tuple[int, str]] = []
        self.memory: dict[int, Any] = {}
        self.stack: list[int] = [0]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            if name in self.failures:
                return (self.failures[name],)
            result = getattr(self, f"do_{name}", lambda *_: ())(*arguments)
            return (Status.CUDA_SUCCESS, *result)

        return call

    def cuGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return Status.CUDA_SUCCESS, b"what the driver says"

    def do_cuDriverGetVersion(self) -> tuple[int]:
        return (self.version,)

    def do_cuDeviceGetCount(self) -> tuple[int]:
        return (self.gpus,)

    def do_cuDeviceGet(self, ordinal: int) -> tuple[int]:
        return (ordinal,)

    def do_cuDeviceGetAttribute(self, kind: str, device: int) -> tuple[int]:
        return ({"COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0}.get(kind, 32),)

    def do_cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int]:
        return (100 + device,)

    def do_cuCtxGetCurrent(self) -> tuple[int]:
        return (self.stack[-1],)

    def do_cuCtxPushCurrent(self, context: int) -> tuple[()]:
        self.stack.append(context)
        return ()

    def do_cuCtxPopCurrent(self) -> tuple[int]:
        return (self.stack.pop(),)

    def do_cuModuleLoadData(self, image: bytes) -> tuple[int]:
        self.images.append(image)
        return (6 + len(self.images),)

    def do_cuModuleUnload(self, module: int) -> tuple[()]:
        self.unloaded.append((module, self.modes[-1]))
        return ()

    def do_cuThreadExchangeStreamCaptureMode(self, mode: str) -> tuple[str]:
        self.modes.append(mode)
        return (self.modes[-2],)

    def do_cuStreamIsCapturing(self, stream: int) -> tuple[int]:
        return (self.capturing,)

    def do_cuModuleGetFunction(self, module: int, name: bytes) -> tuple[int]:
        return (8,)

    def do_cuMemAlloc(self, size: int) -> tuple[int]:
        block = ctypes.create_string_buffer(size + 256)
        address = -(-ctypes.addressof(block) // 256) * 256
        self.memory[address] = block
        return (address,)

    def do_cuMemFree(self, address: int) -> tuple[()]:
        del self.memory[address]
        return ()

    def do_cuMemcpyHtoD(self, target: int, source: int, size: int) -> tuple[()]:
        ctypes.memmove(target, source, size)
        return ()

    do_cuMemcpyDtoH = do_cuMemcpyHtoD

    def do_cuPointerGetAttribute(self, kind: str, address: int) -> tuple[int]:
        return (address >> 40,)

    def do_cuLaunchKernel(self, function: int, *rest: Any) -> tuple[()]:
        *shape, pointers, extra = rest
        self.launched.append((function, *shape, self.stack[-1], pointers))
        return ()

    do_cuLaunchCooperativeKernel = do_cuLaunchKernel


def artifact(*types: str, **changes: Any) -> Artifact:
    facts = {"threads": 128, "dynamic_shared": 0, "parameters": list(types), "cooperative": False, **changes}
    made: dict[str, Any] = {"ptx": "// ptx", "cubin": b"ELF"}
    return Artifact("key", "k", "sm_90a", made, facts, lambda: None)  # type: ignore[arg-type, return-value]


def gpu(api: FakeApi, ordinal: int = 0) -> CudaDevice:
    return CudaDevice(ordinal, Driver(api))


@tilewright.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=inside), mask=inside)
