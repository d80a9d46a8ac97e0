"""The CUDA driver: found, started, and every call of it checked."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from .._lazy import cuda_driver
from ..errors import CudaError, DeviceError

#: The least CUDA version of a driver, and the driver's own: it must know the PTX that kernels compile to, 8.8.
FLOOR = (12, 9)
FLOOR_DRIVER = 575
#: From this version on, a driver takes the cubins that our assembler makes; below, it assembles the PTX itself.
CUBINS = (13, 0)

_DEAD = "the GPU's context is lost, and no later call can succeed: start a new process"
#: What to do about an error, by the driver's name of it.
HINTS: dict[str, str] = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": f"a kernel accessed memory that is not there; {_DEAD}",
    "CUDA_ERROR_MISALIGNED_ADDRESS": f"a kernel made a misaligned access; {_DEAD}",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": f"a kernel executed an instruction that this GPU lacks, or trapped; {_DEAD}",
    "CUDA_ERROR_LAUNCH_FAILED": f"a kernel failed while it ran; {_DEAD}",
    "CUDA_ERROR_ASSERT": f"a device_assert failed; its message is on standard error; {_DEAD}",
    "CUDA_ERROR_LAUNCH_TIMEOUT": f"a kernel ran longer than the system allows; {_DEAD}",
    "CUDA_ERROR_ECC_UNCORRECTABLE": f"the GPU's memory is faulty; {_DEAD}",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": f"a kernel's stack overflowed; {_DEAD}",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": _DEAD,
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "the GPU was lost, or another process has it for itself; nvidia-smi shows which",
    "CUDA_ERROR_NO_DEVICE": "no GPU is visible; nvidia-smi and CUDA_VISIBLE_DEVICES say why",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the driver's library and its kernel module differ; restart the machine",
    "CUDA_ERROR_OUT_OF_MEMORY": "the GPU's memory is full",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the kernel needs more registers than a block may have; use fewer warps",
    "CUDA_ERROR_INVALID_IMAGE": "the driver does not take the code; it may be older than the assembler",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the code was made for another generation of GPUs",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is older than the code's PTX version; update it",
    "CUDA_ERROR_NOT_INITIALIZED": "a forked process cannot use its parent's GPU; start it by spawn",
}


def version_text(version: tuple[int, int]) -> str:
    """A CUDA version as people write it."""
    return f"{version[0]}.{version[1]}"


class Driver:
    """The driver's functions by name. `api` is the binding; tests give one that fails."""

    def __init__(self, api: Any) -> None:
        """Start the driver. Raises DeviceError where it is missing, too old, or sees no GPU."""
        self.api = api
        self.process = os.getpid()
        try:
            number = int(self.call("cuDriverGetVersion"))
        except (RuntimeError, OSError) as error:
            if isinstance(error, CudaError):
                raise
            raise DeviceError("there is no NVIDIA driver on this machine (libcuda)", is_absent=True) from error
        self.version = number // 1000, number % 1000 // 10
        if self.version < FLOOR:
            raise DeviceError(
                f"the NVIDIA driver is one of CUDA {version_text(self.version)}, "
                f"and kernels need CUDA {version_text(FLOOR)}",
                f"update it to {FLOOR_DRIVER} or later; the emulator runs compiled kernels without one",
            )
        try:
            self.call("cuInit", 0)
        except CudaError as error:
            absent = error.code == "CUDA_ERROR_NO_DEVICE"
            raise DeviceError(
                f"the NVIDIA driver does not start: {error.code}", error.hint, is_absent=absent
            ) from error

    def call(self, function: str, *arguments: Any) -> Any:
        """The results of a function: none, one, or several as a tuple. Raises CudaError."""
        status, *results = getattr(self.api, function)(*arguments)
        if status:
            raise self.error(function, status)
        return results[0] if len(results) == 1 else tuple(results) or None

    def error(self, function: str, status: Any) -> CudaError:
        """The error for a status."""
        _, text = self.api.cuGetErrorString(status)
        code = str(getattr(status, "name", status))
        said = text.decode() if isinstance(text, bytes) else "unknown"
        return CudaError(f"{function}: {code}: {said}", code, HINTS.get(code, ""))

    def check_process(self) -> None:
        """Raises DeviceError in a fork of the process that started the driver."""
        if os.getpid() != self.process:
            raise DeviceError(
                "the GPU was opened by the process that this one was forked from", "start processes by spawn"
            )

    def current(self, context: Any) -> AbstractContextManager[None]:
        """While open, a context is the calling thread's."""
        return _UNCHANGED if int(self.call("cuCtxGetCurrent")) == int(context) else self._pushed(context)

    @contextmanager
    def _pushed(self, context: Any) -> Generator[None]:
        self.call("cuCtxPushCurrent", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent")


#: What leaves the current context as it is.
_UNCHANGED = nullcontext()


@cache
def driver() -> Driver:
    """The driver, started once. Raises DeviceError."""
    try:
        api = cuda_driver()
    except (ImportError, RuntimeError) as error:
        what = f"the CUDA driver can't be reached: {error}"
        raise DeviceError(what, "pip install cuda-bindings", is_absent=True) from error
    return Driver(api)
