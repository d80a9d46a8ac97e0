"""The late imports of this room: what is slow to import and not needed before a kernel runs, or fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.lang import DeviceFunction, Module, TilewrightError

if TYPE_CHECKING:
    from .grid import Extents
    from .options import CompileOptions
    from .specialization import Specialization


def encode(value: Any) -> bytes:
    """The canonical bytes of a compile-time value: equal for equal type and bits, on every machine.

    Raises Unencodable, an ArgumentError, for values without a canonical form.
    """
    from .key import encode

    return encode(value)


def kernel_key(function: DeviceFunction, specialization: Specialization, options: CompileOptions, target: str) -> str:
    """The key of a kernel, in hexadecimal. Raises Unencodable when a compile-time value has no canonical form."""
    from .key import kernel_key

    return kernel_key(function, specialization, options, target)


def interpret(module: Module, grid: Extents, payload: Sequence[Any], options: CompileOptions) -> None:
    """Run a kernel in the reference; the first call imports the interpreter. Raises InterpreterError."""
    from .devices.execution import interpret

    interpret(module, grid, payload, options)


def explain(error: TilewrightError, functions: Iterable[DeviceFunction]) -> None:
    """Give a fault of a running kernel a report with source lines. Other errors are left as they are."""
    from .report import explain

    explain(error, functions)


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


def close_names(name: str, names: Sequence[str]) -> list[str]:
    """The best of `names` that looks like a misspelt `name`, if any does."""
    from difflib import get_close_matches

    return get_close_matches(name, names, n=1)


def package_version(package: str) -> str:
    """The installed version of a package, "" where it is missing."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
