"""Which device a launch goes to: the one asked for, else the one whose memory the data is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.lang import knobs

from .._lazy import cuda_device, cuda_place, emulator_device, interpreter_device
from ..arguments import ArrayArgument
from ..errors import DeviceError
from .base import Device


def _interpreter(detail: str) -> Device:
    if detail:
        raise DeviceError("the interpreter is one device", "its name is 'interpreter'")
    return interpreter_device()


def _cuda(detail: str) -> Device:
    if detail and not (detail.isascii() and detail.isdigit()):
        raise DeviceError(f"there is no device 'cuda:{detail}'", "GPUs are numbered: cuda:0, cuda:1, ...")
    return cuda_device(int(detail or 0))


#: What opens the devices of a kind, given what stands behind the colon of their names ("" where nothing does).
DEVICES: dict[str, Callable[[str], Device]] = {
    "interpreter": _interpreter,
    "emulator": emulator_device,
    "cuda": _cuda,
}
_open: dict[str, Device] = {}


def find_device(name: str) -> Device:
    """The device of this name (`interpreter`, `emulator:sm_90a`, `cuda:0`), opened once. Raises DeviceError."""
    if name not in _open:
        kind, colon, detail = str(name).partition(":")
        if kind not in DEVICES or (colon and not detail):
            raise DeviceError(
                f"there is no device {name!r} in this version", f"the devices that exist: {', '.join(sorted(DEVICES))}"
            )
        device = DEVICES[kind](detail)
        _open[name] = _open.setdefault(device.name, device)
    return _open[name]


def choose_device(requested: str, payload: Sequence[Any]) -> Device:
    """The device for a launch: `requested` (from `kernel.on`), else the knob `device`, else by the data.

    Arrays in host memory, or no arrays at all, mean the interpreter; CUDA arrays mean that GPU, as does `cuda` without
    a number. Raises DeviceError when the arrays lie on several devices, or the device does not exist here.
    """
    named = requested or knobs.device
    if named and named != "cuda":
        return find_device(named)
    places = sorted({place_of(part) for part in payload if isinstance(part, ArrayArgument)})
    if named:
        places = [place for place in places if place != "cpu"] or ["cuda:0"]  # host arrays are copied
    if len(places) > 1:
        raise DeviceError(
            f"the arguments lie on {' and '.join(places)}", "move them to one device, or choose one: kernel.on(...)"
        )
    if not places or places[0] == "cpu":
        return find_device("interpreter")
    try:
        return find_device(places[0])
    except DeviceError as error:
        raise DeviceError(
            f"the kernel goes to {places[0]}, which can't be used: {error}",
            'run it on a copy of the data: kernel.on("interpreter")[grid](...), or TILEWRIGHT_DEVICE=interpreter',
        ) from error


def place_of(array: ArrayArgument) -> str:
    """Where an array lies: "cpu" or "cuda:N". Raises DeviceError and CudaError.

    What speaks `__cuda_array_interface__` alone doesn't say on which GPU it is; the driver knows.
    """
    return cuda_place(array.address) if array.device == "cuda" else array.device
