"""The late imports of this room: what is slow to import and not needed before a kernel runs, or fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.lang import DeviceFunction, Module, TilewrightError

if TYPE_CHECKING:
    from .grid import Extents
    from .options import CompileOptions


def interpret(module: Module, grid: Extents, payload: Sequence[Any], options: CompileOptions) -> None:
    """Run a kernel in the reference; the first call imports the interpreter. Raises InterpreterError."""
    from .devices.execution import interpret

    interpret(module, grid, payload, options)


def explain(error: TilewrightError, functions: Iterable[DeviceFunction]) -> None:
    """Give a fault of a running kernel a report with source lines. Other errors are left as they are."""
    from .report import explain

    explain(error, functions)


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
