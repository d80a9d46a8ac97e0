"""How a profile is made: where a kernel runs to be profiled, and from the emulator's counters to rows by line."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from tilewright.compiler import AssemblerError, NoAssembler
from tilewright.interpreter import Counters
from tilewright.lang import CompilationError, DeviceFunction, Location, knobs, language

from .calls import LISTENERS
from .devices.choose import DEVICES
from .errors import DeviceError
from .grid import Extents
from .profile import Profile, ProfileRow, Resources, merged

if TYPE_CHECKING:
    from .compiled import CompiledKernel

EMULATOR = "emulator"
#: What the emulator calls the source of an instruction that the compiler gave no line.
PTX = "PTX"


def profiled_device(requested: str) -> str:
    """The device for a profile: the one asked for, else the knob's if it counts, else the usual emulator.

    Raises DeviceError for a kind of device that keeps no counts.
    """
    name = requested or (knobs.device if kind_of(knobs.device) == EMULATOR else EMULATOR)
    if kind_of(name) in DEVICES.keys() - {EMULATOR}:
        raise DeviceError(f"{name} can't profile: it does not count", 'the emulator does: device="emulator:sm_90a"')
    return name


def kind_of(device: str) -> str:
    """The kind in a device's name."""
    return device.partition(":")[0]


def profile_of(kernel: CompiledKernel, extents: Extents, counters: Counters | None) -> Profile:
    """The profile of a launch; without counters, of one that ran no program."""
    own = [value for value in vars(language).values() if isinstance(value, DeviceFunction)]
    functions = {function.qualified: function for function in (*own, *kernel.kernel.calls.functions())}
    rows = merged(tuple(_rows(counters or Counters(), functions)))
    x, y, z = extents
    launches = int(0 not in extents)
    resources = _resources(kernel)
    assumptions = dict(kernel.assumptions)
    return Profile(kernel.name, kernel.key, kernel.device.name, assumptions, resources, launches, x * y * z, rows)


def _rows(counters: Counters, functions: dict[str, DeviceFunction]) -> Iterable[ProfileRow]:
    """A row for each instruction."""
    for each in counters.instructions:
        row = each.row
        yield ProfileRow(
            *_place(each.location, functions),
            {each.family: row.warps},
            loads=row.global_requests - row.store_requests,
            load_sectors=row.sectors - row.store_sectors,
            stores=row.store_requests,
            store_sectors=row.store_sectors,
            shared=row.shared_requests,
            wavefronts=row.wavefronts,
            conflicts=row.conflicts,
            waits=row.waits,
        )


def _place(location: Location, functions: dict[str, DeviceFunction]) -> tuple[str, int, str]:
    """File, line and text of a place, or for want of the file the function's name."""
    if location.source == PTX:
        return "", 0, "no line"
    try:
        source = functions[location.source].source
    except (KeyError, CompilationError):
        return location.source, location.line, ""
    return source.file, location.line, source.lines[location.line - source.first].strip()


def _resources(kernel: CompiledKernel) -> Resources:
    num_warps = kernel.options.num_warps
    try:
        used = kernel.metadata
    except (NoAssembler, AssemblerError):  # the kernel ran all the same
        return Resources(num_warps, None, None, int(kernel.artifact.facts["dynamic_shared"]))
    return Resources(num_warps, used.registers, used.spills, used.shared)


class Recorder:
    """Profiles of the launches that it is told of, summed by kernel, specialization and device."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Profile] = {}
        self._lock = Lock()

    def __call__(self, kernel: CompiledKernel, extents: Extents, counters: Counters) -> None:
        profile, place = profile_of(kernel, extents, counters), (kernel.key, kernel.device.name)
        with self._lock:
            self._found[place] = self._found[place] + profile if place in self._found else profile

    @property
    def profiles(self) -> list[Profile]:
        """The sums, in the order of first launches."""
        with self._lock:
            return list(self._found.values())


@contextmanager
def record_launches() -> Generator[Recorder]:
    """Profile every launch on the emulator, of all kernels in all threads, until the `with` block ends."""
    recorder = Recorder()
    LISTENERS.append(recorder)
    try:
        yield recorder
    finally:
        LISTENERS.remove(recorder)
