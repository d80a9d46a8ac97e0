"""The deletion test: a kernel's PTX without one of its barriers, waits, commits, fences, swizzles or masks.

Each is there for a reason, so that something must show when it is missing: the emulator reports a race, a value that
nobody wrote or an access out of bounds, results differ, or a swizzle's absence costs bank conflicts. What shows nothing
is either not needed, and then the compiler should not make it, or it is needed in a launch that was not tried. So
launches are chosen to need all: arrays lie far apart, so that whoever leaves one meets no other, and a kernel is
launched again as a single program with arrays that overlap, since barriers stand where arguments may alias.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np

from tilewright.compiler import Compiled, compile_module
from tilewright.interpreter import Buffer, InterpreterError, Options, PtxModule, TrapError, load_ptx, run_ptx
from tilewright.lang import Effect, Module, PointerType, Value, element_of

from ..__main__ import seed_range
from ..cases import Grid
from ..choices import RecordedChoices
from ..generator import generate_kernel
from ..kernels import REFUSALS, TARGETS, compiler_options
from ..launches import Launch, launched
from .sites import KINDS, ORDERING, Site, replaced, sites_of

Arguments = Sequence[Any]
READS = frozenset((Effect.READ, Effect.READ_WRITE))
WRITES = frozenset((Effect.WRITE, Effect.READ_WRITE))

_FUEL = 3_000_000
#: How many times the instructions of the kernel as it is a launch may take.
_PATIENCE = 4
#: Bytes around each array that belong to nobody.
_GUARD = 1 << 20
#: How far one array begins behind another where they overlap: so many times 16 bytes, or elements of what is not
#: aligned to 16 bytes.
SHIFTS = (1, 4, 0)
_ALIGNED = 16
#: What is said of a site that no launch comes to.
UNREACHED = "not reached"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the arrays of launch `number` lie: apart from each other; or, with a single program, each of the arguments
    `order` begins `shift` of the steps of SHIFTS behind the one before it."""

    number: int = 0
    order: tuple[int, ...] = ()
    shift: int = 0

    @property
    def apart(self) -> bool:
        return not self.order

    def __str__(self) -> str:
        many = f", arguments {self.order} {self.shift} steps apart" if self.order else ""
        return f"launch {self.number}{many}"


APART = Placement()


@dataclass(eq=False)
class Specimen:
    """A kernel and the launches to try it in, each a list of the arguments of its IR: arrays, numbers, bytes.

    All launches must fit the assumptions under which the module was made. `thorough`: whether arrays are laid over each
    other two by two as well, which takes many launches.
    """

    name: str
    module: Module
    launches: Sequence[Arguments]
    grid: Grid
    target: str = "sm_90a"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    thorough: bool = True

    @cached_property
    def compiled(self) -> Compiled:
        """The kernel as PTX, compiled with the options, which are named as `compile_module` does."""
        return compile_module(self.module, self.target, **self.options, until="ptx")

    @property
    def ptx(self) -> str:
        return str(self.compiled.stages["ptx"])


@dataclass(frozen=True, slots=True)
class Run:
    """What a launch left in the arrays, by the numbers of the arguments, and what it cost."""

    results: Mapping[int, bytes]
    conflicts: int
    lanes: int
    issued: int


def launch(specimen: Specimen, module: PtxModule, placement: Placement, fuel: int = _FUEL) -> Run:
    """Run PTX as a specimen is launched. Raises what the emulator reports."""
    arguments = placed(specimen.launches[placement.number], placement)
    given = [Buffer.of(f"a{at}", v) if isinstance(v, np.ndarray) else v for at, v in enumerate(arguments)]
    metadata = specimen.compiled.metadata
    grid = specimen.grid if placement.apart else (1, 1, 1)
    options = Options(fuel=fuel)
    threads, printed = (32 * metadata.num_warps, 1, 1), io.StringIO()
    counters = run_ptx(module, metadata.name, grid, threads, given, options, metadata.shared, printed)
    results = {at: each.tobytes() for at, each in enumerate(arguments) if isinstance(each, np.ndarray)}
    return Run(results, counters.total.conflicts, counters.total.lanes, counters.issued)


def placed(arguments: Arguments, placement: Placement) -> list[Any]:
    """New arrays with the same contents, each in the middle of bytes of its own, and aligned as well as it is."""
    made = [_alone(each) if isinstance(each, np.ndarray) else each for each in arguments]
    if placement.order:
        room = np.zeros(2 * _GUARD + sum(arguments[at].nbytes for at in placement.order), np.uint8)
        start = _GUARD + -(room.ctypes.data + _GUARD) % 64
        for number, at in enumerate(placement.order):
            step = arguments[at].itemsize if arguments[at].ctypes.data % _ALIGNED else _ALIGNED
            start += placement.shift * step * (number > 0)
            made[at] = _view(room, start - start % step, arguments[at])
    return made


def _alone(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    room = np.zeros(2 * _GUARD + array.nbytes, np.uint8)
    return _view(room, _GUARD + (array.ctypes.data - room.ctypes.data - _GUARD) % 64, array)


def _view(room: np.ndarray[Any, Any], start: int, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    view = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a mutant was caught (`RaceError`, `results`, `conflicts`, ...; "" if it was not), and what was said: of one
    that was not caught UNREACHED, or nothing."""

    site: Site
    by: str
    told: str = ""
    line: int = 0


@dataclass(slots=True)
class Report:
    """All verdicts on a kernel. `line` of one is where the emulator says it is in the kernel's source."""

    name: str
    verdicts: list[Verdict] = field(default_factory=list[Verdict])

    @property
    def survivors(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if not verdict.by]

    def row(self) -> str:
        """Kernel, sites, and how many of them were caught by what."""
        kinds = Counter(verdict.site.kind for verdict in self.verdicts)
        ways = Counter(verdict.by or verdict.told or "SURVIVED" for verdict in self.verdicts)
        sites = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return f"{self.name:<32} {sites or 'no sites':<58} {', '.join(f'{n} {way}' for way, n in ways.most_common())}"

    def __str__(self) -> str:
        lines = (f"    {each.told or 'survives'}: {each.site}" for each in self.survivors)
        return "\n".join([self.row(), *lines])


def examine(specimen: Specimen, kinds: Sequence[str] = ()) -> Report:
    """Run a kernel without each of its sites (of some kinds), in one launch after the other until one shows it.

    Raises what the kernel as it is does wrong with its arrays apart; an overlap in which it does anything wrong, since
    what it loads there is an address or a number of rounds, is left out.
    """
    report, base = Report(specimen.name), _Base(specimen)
    for site in sites_of(specimen.ptx):
        if not kinds or site.kind in kinds:
            report.verdicts.append(base.verdict(site))
    return report


class _Base:
    """The kernel as it is, launched in each way once."""

    def __init__(self, specimen: Specimen) -> None:
        self.specimen, self.module = specimen, load_ptx(specimen.ptx)
        self.apart = [Placement(number) for number in range(len(specimen.launches))]
        whole = {each: launch(specimen, self.module, each) for each in self.apart}
        self.fuel = _PATIENCE * max(run.issued for run in whole.values())
        self.runs: dict[Placement, Run | None] = {**whole}

    def placements(self, site: Site) -> Iterator[Placement]:
        """All that may show a site: apart first, then all arrays over each other, then two of which one is written."""
        yield from self.apart
        if site.kind not in ORDERING:
            return
        for pairs in (False, True)[: 1 + self.specimen.thorough]:
            for shift in SHIFTS:
                for each in self.apart:
                    yield from (
                        dataclasses.replace(each, order=order, shift=shift) for order in self.orders(each, pairs)
                    )

    def orders(self, apart: Placement, pairs: bool) -> list[tuple[int, ...]]:
        launch_, written = self.specimen.launches[apart.number], touched(self.specimen.module, WRITES)
        arrays = tuple(at for at, each in enumerate(launch_) if isinstance(each, np.ndarray))
        if pairs:
            return [pair for pair in permutations(arrays, 2) if written & set(pair)]
        return [arrays, arrays[::-1]] if written and len(arrays) > 1 else []

    def run(self, placement: Placement) -> Run | None:
        """None where what is loaded is an address or a number of rounds, and so goes wrong."""
        if placement not in self.runs:
            try:
                self.runs[placement] = launch(self.specimen, self.module, placement, self.fuel)
            except InterpreterError:
                self.runs[placement] = None
        return self.runs[placement]

    def verdict(self, site: Site) -> Verdict:
        mutant = load_ptx(replaced(self.specimen.ptx, site))
        for placement in self.placements(site):
            expected = self.run(placement)
            if expected is None:
                continue
            try:
                got = launch(self.specimen, mutant, placement, self.fuel)
            except InterpreterError as error:
                return Verdict(site, type(error).__name__, f"{placement}: {error}", error.location.line)
            if by := difference(got, expected, site):
                return Verdict(site, by, str(placement))
        return Verdict(site, "", "" if self.reaches(site) else UNREACHED)

    def reaches(self, site: Site) -> bool:
        """Whether any launch comes to a site at all."""
        stopped = load_ptx(replaced(self.specimen.ptx, dataclasses.replace(site, instead="trap;")))
        for placement in self.apart:
            try:
                launch(self.specimen, stopped, placement, self.fuel)
            except TrapError:
                return True
        return False


def touched(module: Module, effects: frozenset[Effect]) -> frozenset[int]:
    """The numbers of the arguments through which something with such an effect may be done; all through loops."""
    arguments = module.kernel.arguments
    found: set[Value] = set()
    queue = [each.operands[0] for each in module.walk() if each.definition.effect in effects and each.operands]
    while queue:
        value = queue.pop()
        if value in found or not isinstance(element_of(value.type), PointerType):
            continue
        found.add(value)
        if value not in arguments:
            queue += value.producer.operands if value.producer is not None and not value.producer.regions else arguments
    return frozenset(at for at, argument in enumerate(arguments) if argument in found)


def difference(got: Run, expected: Run, site: Site) -> str:
    """In what a run of a mutant differs from the kernel's own; less order costs less, and shows in results only."""
    if got.results != expected.results:
        return "results"
    if site.kind in ORDERING:
        return ""
    return "conflicts" if got.conflicts > expected.conflicts else "accesses" if got.lanes > expected.lanes else ""


# --- generated kernels ---


def specimen_of(launch_: Launch, name: str, target: str) -> Specimen:
    """A launch of a kernel in source, as the harness makes them."""
    values = launch_.values()
    packed = zip(launch_.module.kernel.arguments, launch_.packed(values), strict=True)
    arguments = [values[argument.name] if isinstance(given, Buffer) else given for argument, given in packed]
    random = np.random.default_rng(0)
    for at in touched(launch_.module, WRITES) - touched(launch_.module, READS):
        filled = arguments[at].view(np.uint8)
        filled[...] = random.integers(0, 256, filled.shape)  # that a store changes something
    options = compiler_options(launch_.options)
    return Specimen(name, launch_.module, [arguments], launch_.grid, target, options, thorough=False)


def generated(seeds: Iterable[int], kinds: Sequence[str]) -> Iterator[Report]:
    """The reports on the kernels of the seeds, in a rotation of targets; those that are not compiled yet left out."""
    for seed in seeds:
        with launched(generate_kernel(RecordedChoices(seed))) as each:
            specimen = specimen_of(each, f"seed {seed}", TARGETS[seed % len(TARGETS)])
            try:
                yield examine(specimen, kinds)
            except REFUSALS:
                continue


def table(reports: Iterable[Report]) -> Iterator[str]:
    """The lines of the reports as they come, with what was not caught, and their sum."""
    every = Report("all")
    for report in reports:
        every.verdicts += report.verdicts
        yield str(report)
    yield every.row()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table for generated kernels. Status 1 where a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.difftest.mutants.deletion", description=__doc__)
    parser.add_argument("--seeds", type=seed_range, required=True, help="a:b, or one seed")
    parser.add_argument(
        "--kinds", nargs="+", default=ORDERING, choices=KINDS, help="what to leave out; all that orders if not given"
    )
    given = parser.parse_args(arguments)
    survived = 0
    for line in table(generated(given.seeds, given.kinds)):
        survived += "SURVIVED" in line
        print(line, flush=True)
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
