"""What can go wrong between the call of a kernel and its launch, one class a mistake."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.lang import TilewrightError

from ._lazy import close_names


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
    """The device that was asked for does not exist here, or the data does not let it be chosen."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint naming the closest known name, or all of them when none is close."""
    names = sorted(known)
    close = close_names(name, names)
    return f"did you mean {close[0]}?" if close else f"known names: {', '.join(names)}"
