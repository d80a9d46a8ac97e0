"""The deletion test: a kernel's PTX without one of its barriers, waits, commits, fences, swizzles or masks.

Each is there for a reason, so that something must show when it is missing: the emulator reports a race, a value that
nobody wrote or an access out of bounds, results differ, or a swizzle's absence costs bank conflicts. What shows nothing
is either not needed, and then the compiler should not make it, or it is needed in a launch that was not tried. So
launches are chosen to need all: arrays lie far apart, so that whoever leaves one meets no other, and a kernel is
launched again as a single program with arrays that overlap, since barriers stand where arguments may alias. `reasons`
finds out why what is left shows nothing.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, permutations
from typing import Any, Protocol

import numpy as np

from tilewright.compiler import Compiled, compile_module
from tilewright.interpreter import Buffer, Counters, InterpreterError, Options, PtxModule, load_ptx, run_ptx
from tilewright.lang import Effect, Module, PointerType, Value, element_of

from ..cases import Grid
from .reasons import reason
from .sites import ORDERING, Site, replaced, sites_of

Arguments = Sequence[Any]
READS = frozenset((Effect.READ, Effect.READ_WRITE))
WRITES = frozenset((Effect.WRITE, Effect.READ_WRITE))

_FUEL = 3_000_000
#: How many times the instructions of the kernel as it is a launch may take.
_PATIENCE = 4
#: Bytes around each array that belong to nobody.
_GUARD = 1 << 20
#: How far one array begins behind another where they overlap: so many times 16 bytes, or elements of what is not
#: aligned to 16 bytes. Three, since elements may lie three apart.
SHIFTS = (1, 4, 0, 3)
_ALIGNED = 16


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the arrays of launch `number` lie: apart from each other; or, with a single program, each of the arguments
    `order` begins `shift` of the steps of SHIFTS behind the one before it; if `unaligned`, of elements."""

    number: int = 0
    order: tuple[int, ...] = ()
    shift: int = 0
    unaligned: bool = False

    @property
    def apart(self) -> bool:
        return not self.order

    def __str__(self) -> str:
        step = "elements" if self.unaligned else "steps"
        many = f", arguments {self.order} {self.shift} {step} apart" if self.order else ""
        return f"launch {self.number}{many}"


APART = Placement()


class Subject(Protocol):
    """PTX, and how to launch it or a mutant of it."""

    name: str

    @property
    def ptx(self) -> str: ...

    @property
    def apart(self) -> Sequence[Placement]:
        """The launches with arrays apart from each other."""
        ...

    def overlaps(self, *, unaligned: bool = False) -> Iterator[Placement]:
        """The launches with arrays over each other."""
        ...

    def launch(self, module: PtxModule, placement: Placement, fuel: int = _FUEL) -> Run:
        """Raises what the emulator reports."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """What a launch left in the arrays, by the numbers of the arguments, and what it cost."""

    results: Mapping[int, bytes]
    conflicts: int
    lanes: int
    issued: int

    @classmethod
    def of(cls, arguments: Arguments, counters: Counters) -> Run:
        results = {at: each.tobytes() for at, each in enumerate(arguments) if isinstance(each, np.ndarray)}
        return cls(results, counters.total.conflicts, counters.total.lanes, counters.issued)


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

    @property
    def apart(self) -> Sequence[Placement]:
        return [Placement(number) for number in range(len(self.launches))]

    def overlaps(self, *, unaligned: bool = False) -> Iterator[Placement]:
        """All arrays over each other, then two of which one is written."""
        for pairs in (False, True)[: 1 + self.thorough]:
            for shift in SHIFTS:
                for each in self.apart:
                    for order in self._orders(self.launches[each.number], pairs):
                        yield Placement(each.number, order, shift, unaligned)

    def _orders(self, arguments: Arguments, pairs: bool) -> list[tuple[int, ...]]:
        written = touched(self.module, WRITES)
        arrays = tuple(at for at, each in enumerate(arguments) if isinstance(each, np.ndarray))
        if pairs:
            return [pair for pair in permutations(arrays, 2) if written & set(pair)]
        return [arrays, arrays[::-1]] if written and len(arrays) > 1 else []

    def launch(self, module: PtxModule, placement: Placement, fuel: int = _FUEL) -> Run:
        arguments = placed(self.launches[placement.number], placement)
        given = [Buffer.of(f"a{at}", v) if isinstance(v, np.ndarray) else v for at, v in enumerate(arguments)]
        metadata = self.compiled.metadata
        grid = self.grid if placement.apart else (1, 1, 1)
        threads, options, printed = (32 * metadata.num_warps, 1, 1), Options(fuel=fuel), io.StringIO()
        return Run.of(
            arguments, run_ptx(module, metadata.name, grid, threads, given, options, metadata.shared, printed)
        )


def placed(arguments: Arguments, placement: Placement) -> list[Any]:
    """New arrays with the same contents, each in the middle of bytes of its own, and aligned as well as it is."""
    made = [_alone(each) if isinstance(each, np.ndarray) else each for each in arguments]
    if placement.order:
        room = np.zeros(2 * _GUARD + sum(arguments[at].nbytes for at in placement.order), np.uint8)
        start = _GUARD + -(room.ctypes.data + _GUARD) % 64
        for number, at in enumerate(placement.order):
            fine = placement.unaligned or arguments[at].ctypes.data % _ALIGNED
            step = arguments[at].itemsize if fine else _ALIGNED
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
    that was not caught the reason, if it was found."""

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

    @property
    def unexplained(self) -> list[Verdict]:
        """The survivors for which no reason was found."""
        return [verdict for verdict in self.survivors if not verdict.told]

    def row(self) -> str:
        """Kernel, sites, and how many of them were caught by what."""
        kinds = Counter(verdict.site.kind for verdict in self.verdicts)
        ways = Counter(verdict.by or verdict.told or "SURVIVED" for verdict in self.verdicts)
        sites = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return f"{self.name:<32} {sites or 'no sites':<58} {', '.join(f'{n} {way}' for way, n in ways.most_common())}"

    def __str__(self) -> str:
        lines = (f"    {each.told or 'survives'}: {each.site}" for each in self.survivors)
        return "\n".join([self.row(), *lines])


def examine(subject: Subject, kinds: Sequence[str] = ()) -> Report:
    """Run a kernel without each of its sites (of some kinds), in one launch after the other until one shows it.

    Raises what the kernel as it is does wrong with its arrays apart; an overlap in which it does anything wrong, since
    what it loads there is an address or a number of rounds, is left out.
    """
    report, base = Report(subject.name), Base(subject)
    for site in sites_of(subject.ptx):
        if not kinds or site.kind in kinds:
            report.verdicts.append(base.verdict(site))
    return report


class Base:
    """The kernel as it is, launched in each way once."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.module = subject, load_ptx(subject.ptx)
        whole = {each: subject.launch(self.module, each) for each in subject.apart}
        self.fuel = _PATIENCE * max(run.issued for run in whole.values())
        self.runs: dict[Placement, Run | None] = {**whole}

    def run(self, placement: Placement) -> Run | None:
        """None where what is loaded is an address or a number of rounds, and so goes wrong."""
        if placement not in self.runs:
            try:
                self.runs[placement] = self.subject.launch(self.module, placement, self.fuel)
            except InterpreterError:
                self.runs[placement] = None
        return self.runs[placement]

    def verdict(self, site: Site) -> Verdict:
        overlaps = self.subject.overlaps() if site.kind in ORDERING else ()
        return self.caught(site, chain(self.subject.apart, overlaps)) or Verdict(site, "", reason(self, site))

    def caught(self, site: Site, placements: Iterable[Placement]) -> Verdict | None:
        """How one of some launches shows that a site is missing; None if none does."""
        mutant = load_ptx(replaced(self.subject.ptx, site))
        for placement in placements:
            expected = self.run(placement)
            if expected is None:
                continue
            try:
                got = self.subject.launch(mutant, placement, self.fuel)
            except InterpreterError as error:
                return Verdict(site, type(error).__name__, f"{placement}: {error}", error.location.line)
            if by := difference(got, expected, site):
                return Verdict(site, by, str(placement))
        return None


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
