"""Running kernels: `jit`, specialization, the cache, launching, and the devices that kernels run on."""

import typing

from . import _lazy
from .errors import (
    ArgumentError,
    CacheWarning,
    CudaError,
    DeviceError,
    GridError,
    LaunchError,
    MissingPackage,
    OptionError,
)
from .host import cdiv, next_power_of_2
from .kernels import JITFunction, jit

if typing.TYPE_CHECKING:  # imported when first asked for
    from .aot import compile_ahead, load_kernel, specialize_text
    from .arguments import ArrayArgument, array_argument
    from .artifact import Artifact
    from .cache import KernelCache, kernel_cache
    from .compiled import CompiledKernel, KernelMetadata
    from .devices import Device, find_device
    from .devices.cuda import CudaDevice
    from .devices.emulator import EmulatorDevice
    from .devices.interpreter import InterpreterDevice
    from .doctor import Finding, diagnose
    from .key import encode, kernel_key
    from .options import CompileOptions
    from .profile import PROFILE_COLUMNS, Profile, ProfileRow
    from .profiling import record_launches
    from .specialization import Specialization, specialize
    from .store import BadEntry, Entry, Kept, Store
    from .tensor_map import Im2colMap, TensorMap

__all__ = [
    "ArgumentError",
    "ArrayArgument",
    "Artifact",
    "BadEntry",
    "CacheWarning",
    "CompileOptions",
    "CompiledKernel",
    "CudaDevice",
    "CudaError",
    "Device",
    "DeviceError",
    "EmulatorDevice",
    "Entry",
    "Finding",
    "GridError",
    "Im2colMap",
    "InterpreterDevice",
    "JITFunction",
    "Kept",
    "KernelCache",
    "KernelMetadata",
    "LaunchError",
    "MissingPackage",
    "OptionError",
    "PROFILE_COLUMNS",
    "Profile",
    "ProfileRow",
    "Specialization",
    "Store",
    "TensorMap",
    "array_argument",
    "cdiv",
    "compile_ahead",
    "diagnose",
    "encode",
    "find_device",
    "jit",
    "kernel_cache",
    "kernel_key",
    "load_kernel",
    "next_power_of_2",
    "record_launches",
    "specialize",
    "specialize_text",
]


def __getattr__(name: str) -> typing.Any:
    return _lazy.late(__name__, name)
