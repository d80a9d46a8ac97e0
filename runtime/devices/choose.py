"""Which device a launch goes to: the one asked for, else the one whose memory the data is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.lang import knobs

from ..arguments import ArrayArgument
from ..errors import DeviceError
from .base import Device
from .interpreter import InterpreterDevice

#: The devices that exist here, by name.
DEVICES: dict[str, Callable[[], Device]] = {"interpreter": InterpreterDevice}
_open: dict[str, Device] = {}


def find_device(name: str) -> Device:
    """The device of this name, opened once. Raises DeviceError for one that does not exist here."""
    if name not in DEVICES:
        raise DeviceError(
            f"there is no device {name!r} in this version", f"the devices that exist: {', '.join(sorted(DEVICES))}"
        )
    if name not in _open:
        _open[name] = DEVICES[name]()
    return _open[name]


def choose_device(requested: str, payload: Sequence[Any]) -> Device:
    """The device for a launch: `requested` (from `kernel.on`), else the knob `device`, else by the data.

    Arrays in host memory, or no arrays at all, mean the interpreter; CUDA arrays mean that GPU. Raises DeviceError
    when the arrays lie on several devices, or when the one they lie on does not exist here.
    """
    named = requested or knobs.device
    if named:
        return find_device(named)
    places = sorted({part.device for part in payload if isinstance(part, ArrayArgument)})
    if len(places) > 1:
        raise DeviceError(
            f"the arguments lie on {' and '.join(places)}", "move them to one device, or choose one: kernel.on(...)"
        )
    if places and places[0] != "cpu":
        if "cuda" not in DEVICES:
            raise DeviceError(
                f"the arguments lie on {places[0]}, and this version has no compiler for it",
                'run a copy of the data in the reference: kernel.on("interpreter")[grid](...), '
                "or TILEWRIGHT_DEVICE=interpreter",
            )
        return find_device("cuda")
    return find_device("interpreter")
