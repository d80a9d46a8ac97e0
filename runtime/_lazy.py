"""The late imports of this room: what is slow to import and not needed before a kernel runs, or fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.lang import DeviceFunction, Module, TilewrightError

from .errors import MissingPackage

if TYPE_CHECKING:
    from tilewright.interpreter import Counters

    from .artifact import Artifact, Request
    from .calls import Calls
    from .compiled import CompiledKernel
    from .devices import Device
    from .grid import Extents
    from .kernels import JITFunction
    from .options import CompileOptions
    from .profile import Profile
    from .tensor_map import SomeMap

#: The modules of this room that are imported when one of these names is first asked of the face.
MODULES: dict[str, tuple[str, ...]] = {
    "aot": ("compile_ahead", "load_kernel", "specialize_text"),
    "arguments": ("ArrayArgument", "array_argument"),
    "artifact": ("Artifact",),
    "cache": ("KernelCache", "kernel_cache"),
    "compiled": ("CompiledKernel", "KernelMetadata"),
    "devices": ("Device", "find_device"),
    "devices.cuda": ("CudaDevice",),
    "devices.emulator": ("EmulatorDevice",),
    "devices.interpreter": ("InterpreterDevice",),
    "tensor_map": ("Im2colMap", "TensorMap"),
    "doctor": ("Finding", "diagnose"),
    "key": ("encode", "kernel_key"),
    "options": ("CompileOptions",),
    "profile": ("PROFILE_COLUMNS", "Profile", "ProfileRow"),
    "profiling": ("record_launches",),
    "specialization": ("Specialization", "specialize"),
    "store": ("BadEntry", "Entry", "Kept", "Store"),
}


def late(face: str, name: str) -> Any:
    """The value of a name that the face does not hold yet; for `__getattr__`. Raises AttributeError."""
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __package__), name)
    raise AttributeError(f"module {face!r} has no attribute {name!r}")


def calls_of(kernel: JITFunction) -> Calls:
    """What a kernel needs at its first call."""
    from .calls import Calls

    return Calls(kernel)


def interpreter_device() -> Device:
    """The reference as a device."""
    from .devices.interpreter import InterpreterDevice

    return InterpreterDevice()


def emulator_device(target: str) -> Device:
    """The emulator of a target ("" is the usual one) as a device. Raises DeviceError."""
    from .devices.emulator import EmulatorDevice

    return EmulatorDevice(target)


def cuda_device(ordinal: int) -> Device:
    """A GPU as a device. Raises DeviceError and CudaError."""
    from .devices.cuda import CudaDevice

    return CudaDevice(ordinal)


def cuda_place(address: int) -> str:
    """The GPU whose memory holds an address, "cuda:N". Raises DeviceError and CudaError."""
    from .devices.cuda import place_at

    return place_at(address)


def interpret(module: Module, grid: Extents, payload: Sequence[Any], options: CompileOptions) -> None:
    """Run a kernel in the reference; the first call imports the interpreter. Raises InterpreterError."""
    from .devices.execution import interpret

    interpret(module, grid, payload, options)


def compiled(request: Request, target: str) -> Artifact:
    """A kernel compiled for a target, or kept from before. Raises CompilationError."""
    from .cache import kernel_cache

    return kernel_cache.compiled(request, target)


def compile_to_ptx(module: Module, target: str, options: CompileOptions) -> tuple[dict[str, str], dict[str, Any]]:
    """The stages up to PTX, and the facts that a launch needs. Raises CompilationError and OptionError."""
    from .compilation import compile_to_ptx

    return compile_to_ptx(module, target, options)


def assemble_ptx(name: str, ptx: str, target: str, dynamic_shared: int, waits: bool) -> tuple[bytes, dict[str, int]]:
    """The cubin of PTX, and what the kernel uses. Raises NoAssembler and AssemblerError."""
    from .compilation import assemble_ptx

    return assemble_ptx(name, ptx, target, dynamic_shared, waits)


def emulate(kernel: Any, grid: Extents, payload: Sequence[Any], options: CompileOptions) -> Counters:
    """Run loaded PTX in the emulator, and tell what it executed. Raises InterpreterError."""
    from .devices.emulation import emulate

    return emulate(kernel, grid, payload, options)


def emulated_tensor_map(tensor: SomeMap, kind: type[SomeMap]) -> bytes:
    """A tensor map of a kind for the emulator. Raises ArgumentError."""
    from .devices.emulation import emulated_tensor_map

    return emulated_tensor_map(tensor, kind)


def checked_tensor_map(tensor: SomeMap, kind: type[SomeMap]) -> SomeMap:
    """The same tensor map, of a kind, with plain integers. Raises ArgumentError for what the driver would refuse."""
    from .devices.tensor_map_rules import checked_tensor_map

    return checked_tensor_map(tensor, kind)


def profile_of(kernel: CompiledKernel, extents: Extents, counters: Counters | None) -> Profile:
    """The profile of a launch; without counters, of one that ran no program."""
    from .profiling import profile_of

    return profile_of(kernel, extents, counters)


def profiled_device(requested: str) -> str:
    """The device for a profile. Raises DeviceError."""
    from .profiling import profiled_device

    return profiled_device(requested)


def pandas_module(what: str) -> Any:
    """pandas, for what needs it. Raises MissingPackage."""
    try:
        return import_module("pandas")
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise  # it is there, and broken
        raise MissingPackage(what, "pandas") from None


def parsed_ptx(artifact: Artifact) -> Any:
    """A kernel's PTX, ready for `emulate`. Raises PtxError."""
    from .devices.emulation import parsed_ptx

    return parsed_ptx(artifact)


def target_names() -> tuple[str, ...]:
    """The targets that kernels compile for."""
    from tilewright.compiler import TARGETS

    return tuple(TARGETS)


def cuda_driver() -> Any:
    """The binding of the CUDA driver. Raises ImportError where the package or the driver is missing."""
    return import_module("cuda.bindings.driver")


def explain(error: TilewrightError, functions: Iterable[DeviceFunction]) -> None:
    """Give a fault of a running kernel a report with source lines. Other errors are left as they are."""
    from .report import explain

    explain(error, functions)


def llvm_version() -> str:
    """The versions of llvmlite and of the LLVM inside. Raises ImportError where it is missing."""
    import llvmlite  # pyright: ignore[reportMissingTypeStubs]
    import llvmlite.binding  # pyright: ignore[reportMissingTypeStubs]

    binding: Any = llvmlite.binding
    numbers: tuple[int, ...] = binding.llvm_version_info
    return f"{llvmlite.__version__}, LLVM {'.'.join(map(str, numbers))}"


def small_floats() -> dict[np.dtype[Any], str]:
    """The name in signatures of each float dtype that NumPy itself lacks."""
    import ml_dtypes

    return {
        np.dtype(ml_dtypes.bfloat16): "bf16",
        np.dtype(ml_dtypes.float8_e5m2): "fp8e5",
        np.dtype(ml_dtypes.float8_e4m3fn): "fp8e4nv",
        np.dtype(ml_dtypes.float8_e5m2fnuz): "fp8e5b16",
        np.dtype(ml_dtypes.float8_e4m3fnuz): "fp8e4b8",
    }


def package_version(package: str) -> str:
    """The installed version of a package, "" where it is missing."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
