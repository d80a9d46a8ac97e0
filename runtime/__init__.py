"""Running kernels: `jit`, specialization, the cache key, launching, and the devices that kernels run on."""

from ._lazy import encode, kernel_key
from .arguments import ArrayArgument, array_argument
from .devices import Device, InterpreterDevice, find_device
from .errors import ArgumentError, DeviceError, GridError, LaunchError, OptionError
from .host import cdiv, next_power_of_2
from .kernels import CompiledKernel, JITFunction, jit
from .options import CompileOptions
from .specialization import Specialization, specialize

__all__ = [
    "ArgumentError",
    "ArrayArgument",
    "CompileOptions",
    "CompiledKernel",
    "Device",
    "DeviceError",
    "GridError",
    "InterpreterDevice",
    "JITFunction",
    "LaunchError",
    "OptionError",
    "Specialization",
    "array_argument",
    "cdiv",
    "encode",
    "find_device",
    "jit",
    "kernel_key",
    "next_power_of_2",
    "specialize",
]
