"""What a launch executed, counted the way a profiler counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.lang import Location

from .traffic import Traffic

if TYPE_CHECKING:
    from .frame import Frame, Index
    from .program import Program

#: Of the words of a barrier's opcode those that say that a warp waits there.
_WAITS = frozenset(("sync", "wait"))


@dataclass(frozen=True, slots=True)
class Row:
    """The counts of one instruction, or of all instructions of a line.

    threads, warps: how many executed it; guarded instructions count for all. global_requests, sectors; shared_requests,
    wavefronts, conflicts: see `traffic`. tensor: matrix instructions, by warp. waits: barriers a warp waited at, of
    mbarriers each try. lanes: how many threads accessed global or shared memory, guarded instructions only where their
    guard held. store_requests, store_sectors: what of the global ones is stores, atomics among them.
    """

    threads: int = 0
    warps: int = 0
    global_requests: int = 0
    sectors: int = 0
    shared_requests: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    tensor: int = 0
    waits: int = 0
    lanes: int = 0
    store_requests: int = 0
    store_sectors: int = 0

    def __add__(self, other: Row) -> Row:
        return Row(*(getattr(self, name) + getattr(other, name) for name in Row.__slots__))


class Executed(NamedTuple):
    """An instruction, as far as counters need it: its basic block, the numbers of its accesses, and of its writes."""

    opcode: str
    family: str
    location: Location
    block: int
    accesses: tuple[int, ...]
    writes: tuple[int, ...]
    tensor: bool
    waits: bool


class Counted(NamedTuple):
    """An instruction that was executed: its class, the place in the source that it comes from, and its counts."""

    opcode: str
    family: str
    location: Location
    row: Row


def _waits(opcode: str, family: str) -> bool:
    """Whether a warp waits there for others to arrive."""
    base, *words = opcode.split(".")
    return (family == "barrier" and not _WAITS.isdisjoint(words)) or (base == "mbarrier" and words[0].endswith("_wait"))


def instructions_of(program: Program) -> tuple[Executed, ...]:
    """All instructions of a program."""
    accesses: dict[int, list[int]] = {}
    writes: dict[int, list[int]] = {}
    for access in program.accesses:
        for found in (accesses, writes) if access.writes else (accesses,):
            found.setdefault(id(access.site.instruction), []).append(access.number)
    return tuple(
        Executed(
            instruction.opcode, form.family, program.location_of(instruction), block.number,
            tuple(accesses.get(id(instruction), ())), tuple(writes.get(id(instruction), ())),
            tensor=form.family == "mma", waits=_waits(instruction.opcode, form.family),
        )
        for block in program.blocks
        for instruction, form, _ in block.instructions
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counters:
    """What a launch executed.

    threads, warps: instructions by class (`load`, `float`, `mma`, ...), executed by threads and by warps, in which some
    threads may be inactive; guarded instructions count for all. issued: how many the emulator went through, each for as
    many threads as stood there together. Without checks there is no memory traffic in them. The rest is what
    `instructions` is made from: of each block, how many threads and warps executed it, and of each access the traffic.
    """

    threads: Counter[str] = field(default_factory=Counter[str])
    warps: Counter[str] = field(default_factory=Counter[str])
    issued: int = 0
    executed: tuple[Executed, ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def instructions(self) -> list[Counted]:
        """Each instruction that was executed, in the order of the text."""
        traffic = self.traffic
        found: list[Counted] = []
        for each in self.executed:
            threads, warps = self.blocks[each.block]
            if threads:
                numbers = list(each.accesses)
                far, near = traffic.requests[:, numbers].sum(1).tolist()
                sectors, wavefronts = traffic.units[:, numbers].sum(1).tolist()
                conflicts = wavefronts - int(traffic.phases[1, numbers].sum())
                tensor, waits = warps * each.tensor, warps * each.waits
                lanes = int(traffic.lanes[:, numbers].sum())
                stored = [int(counts[0, list(each.writes)].sum()) for counts in (traffic.requests, traffic.units)]
                row = Row(threads, warps, far, sectors, near, wavefronts, conflicts, tensor, waits, lanes, *stored)
                found.append(Counted(each.opcode, each.family, each.location, row))
        return found

    @property
    def total(self) -> Row:
        """All instructions together."""
        return sum((each.row for each in self.instructions), Row())

    @property
    def lines(self) -> dict[Location, Row]:
        """By line of the source, columns and callers aside; in the order of the lines."""
        found: dict[Location, Row] = {}
        for each in self.instructions:
            line = Location(each.location.source, each.location.line, 0)
            found[line] = found.get(line, Row()) + each.row
        return dict(sorted(found.items(), key=lambda item: (item[0].source, item[0].line)))

    def table(self) -> str:
        """The lines and their sum as text."""
        rows = [(f"{where.source}:{where.line}", row) for where, row in self.lines.items()]
        cells = [_HEADS, *([name, *(show(row) for _, show in _COLUMNS)] for name, row in [*rows, ("all", self.total)])]
        widths = [max(len(line[k]) for line in cells) for k in range(len(_HEADS))]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in cells
        )


def _ratio(upper: int, lower: int) -> str:
    return f"{upper / lower:.2f}" if lower else ""


def _count(name: str) -> Callable[[Row], str]:
    return lambda row: str(getattr(row, name) or "")


_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("warps", _count("warps")),
    ("global", _count("global_requests")),
    ("sectors", _count("sectors")),
    ("per request", lambda row: _ratio(row.sectors, row.global_requests)),
    ("shared", _count("shared_requests")),
    ("wavefronts", _count("wavefronts")),
    ("conflicts", _count("conflicts")),
    ("tensor", _count("tensor")),
    ("waits", _count("waits")),
)
_HEADS = ["line", *(name for name, _ in _COLUMNS)]


class Tally:
    """Executions of each basic block, by threads and by warps, and the traffic of each access."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._threads = [0] * len(program.blocks)
        self._warps = [0] * len(program.blocks)
        self.traffic = Traffic(len(program.accesses))

    def add(self, number: int, index: Index, frame: Frame) -> None:
        """Threads execute a block."""
        if index is None:
            self._threads[number] += frame.count
            self._warps[number] += frame.blocks * -(-frame.threads // 32)
        else:
            warps = frame.warp[index]  # ascending, as the threads are
            self._threads[number] += len(index)
            self._warps[number] += int(np.count_nonzero(warps[1:] != warps[:-1])) + 1

    def counters(self, issued: int) -> Counters:
        """The sums."""
        program, blocks = self._program, tuple(zip(self._threads, self._warps, strict=True))
        threads, warps = Counter[str](), Counter[str]()
        for families, (by_threads, by_warps) in zip(program.families, blocks, strict=True):
            for family, count in families.items():
                threads[family] += count * by_threads
                warps[family] += count * by_warps
        return Counters(threads, warps, issued, program.executed, blocks, self.traffic)
