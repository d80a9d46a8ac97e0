"""What can go wrong between the call of a kernel and its launch, one class a mistake."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.lang import TilewrightError, close_names


class LaunchError(TilewrightError, TypeError):
    """A kernel was called with a grid, an argument or an option that it does not take."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what}\nhint: {hint}" if hint else what)
        self.hint = hint


class GridError(LaunchError):
    """The grid is not one to three whole numbers of at least 0."""


class ArgumentError(LaunchError):
    """An argument is missing, given twice, unknown, or of a kind that kernels do not take."""


class OptionError(LaunchError):
    """A launch option has a value that it does not take."""


class DeviceError(LaunchError):
    """The device that was asked for does not exist here, or the data does not let it be chosen.

    `is_absent`: there is no such device, as opposed to one that can't be used.
    """

    def __init__(self, what: str, hint: str = "", *, is_absent: bool = False) -> None:
        super().__init__(what, hint)
        self.is_absent = is_absent


class CudaError(TilewrightError, RuntimeError):
    """The CUDA driver refused, or a GPU failed. `code` is the driver's name of the error."""

    def __init__(self, what: str, code: str = "", hint: str = "") -> None:
        super().__init__(f"{what}\nhint: {hint}" if hint else what)
        self.code = code
        self.hint = hint


class MissingPackage(TilewrightError, ImportError):
    """What was asked for needs an optional package that is not installed."""

    def __init__(self, what: str, package: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed\nhint: pip install {package}")


class CacheWarning(UserWarning):
    """Compiled kernels can't be kept on disk. They run all the same; each new process compiles them again."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint naming the closest known name, or all of them when none is close."""
    names = sorted(known)
    close = close_names(name, names)
    return f"did you mean {close[0]}?" if close else f"known names: {', '.join(names)}"
