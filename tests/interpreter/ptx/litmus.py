"""Messages by the book: straight-line programs of a few threads in some blocks, with scopes, and a clock for each.

A program is a list of steps in an order that they may happen in; each names its thread, and barriers take all threads
of a block or cluster. Flags count: each `Send` adds one, and each `Wait` waits until all sends of its flag have come,
so that whom a wait hears of does not depend on the order of execution. This is the plain twin of what the emulator does
with a few stamps: it keeps every access, the whole clock of every thread, and decides by PTX's memory model which
release synchronizes with which acquire.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tests.interpreter.ptx.programs import HEADER
from tilewright.interpreter import Buffer, Options, load_ptx, run_ptx
from tilewright.interpreter.ptx import RaceError

FLAGS = 8
"""The place of the first flag, each of 8 bytes; data lie below."""


@dataclass(frozen=True)
class Data:
    """A plain load (`ld`) or store (`st`) of a cell."""

    thread: int
    kind: str
    cell: int = 0


@dataclass(frozen=True)
class Send:
    """One more for a flag. form: `red`, `atom` or, for a flag that is sent once, `st`. sem: `relaxed` or `release`.
    width: in bytes, of which the lowest 4 count."""

    thread: int
    sem: str
    scope: str
    flag: int = 0
    form: str = "st"
    width: int = 4


@dataclass(frozen=True)
class Wait:
    """Wait for all sends of a flag. form: `ld`, or `atom`, which adds 0. sem: `relaxed` or `acquire`."""

    thread: int
    sem: str
    scope: str
    flag: int = 0
    form: str = "ld"
    width: int = 4


@dataclass(frozen=True)
class Fence:
    """`fence.acq_rel`, `fence.sc` or `membar`."""

    thread: int
    scope: str
    kind: str = "fence.acq_rel"


@dataclass(frozen=True)
class Meet:
    """All threads of a block (`bar`) or of a cluster (`cluster`) meet, as `thread` does."""

    thread: int
    kind: str = "bar"


Step = Data | Send | Wait | Fence | Meet
Clock = tuple[int, ...]


@dataclass(frozen=True)
class Machine:
    """How many blocks there are, of how many threads, in clusters of how many blocks."""

    blocks: int
    threads: int = 1
    cluster: int = 1

    @property
    def count(self) -> int:
        """All threads."""
        return self.blocks * self.threads

    def group(self, thread: int, scope: str) -> int:
        """Which block or cluster of those that a scope speaks of a thread is in; all are in one for `gpu`."""
        return {"cta": thread // self.threads, "cluster": thread // self.threads // self.cluster}.get(scope, 0)

    def met(self, step: Meet) -> list[int]:
        """The threads that meet."""
        scope = "cta" if step.kind == "bar" else "cluster"
        return [t for t in range(self.count) if self.group(t, scope) == self.group(step.thread, scope)]

    def strong(self, one: Release | Acquire | Send | Wait, other: Release | Acquire | Send | Wait) -> bool:
        """Whether two operations are morally strong: each in the scope of the other, and to the same bytes."""
        if isinstance(one, Send | Wait) and isinstance(other, Send | Wait) and one.width != other.width:
            return False
        return all(self.group(one.thread, s) == self.group(other.thread, s) for s in (one.scope, other.scope))


@dataclass(frozen=True)
class Release:
    """The first operation of a release pattern: what its thread knew then."""

    thread: int
    scope: str
    clock: Clock


@dataclass(frozen=True)
class Acquire:
    """The last operation of an acquire pattern."""

    thread: int
    scope: str


class _Book:
    """The clocks of all threads, the releases of each flag, and what threads have read that a fence may come after."""

    def __init__(self, machine: Machine, program: Sequence[Step]) -> None:
        self._machine, self._program = machine, program
        self.clocks = [[0] * machine.count for _ in range(machine.count)]
        self._fences: list[list[Release]] = [[] for _ in range(machine.count)]
        self._released: dict[int, list[tuple[Send, Release]]] = {}
        self._waited: list[list[Wait]] = [[] for _ in range(machine.count)]

    def do(self, step: Step) -> None:
        """A step happens."""
        clock = self.clocks[step.thread]
        clock[step.thread] += 1
        if isinstance(step, Meet):
            met = self._machine.met(step)
            joined = [max(self.clocks[t][u] for t in met) for u in range(self._machine.count)]
            for t in met:
                self.clocks[t] = list(joined)
        elif isinstance(step, Send):
            own = [Release(step.thread, step.scope, tuple(clock))] if step.sem == "release" else []
            self._released.setdefault(step.flag, []).extend((step, r) for r in own + self._fences[step.thread])
        elif isinstance(step, Wait):
            self._waited[step.thread].append(step)
            if step.sem == "acquire":
                self._learn(step, Acquire(step.thread, step.scope))
        elif isinstance(step, Fence):
            for wait in self._waited[step.thread]:
                self._learn(wait, Acquire(step.thread, step.scope))
            self._fences[step.thread].append(Release(step.thread, step.scope, tuple(clock)))

    def _learn(self, wait: Wait, last: Acquire) -> None:
        """An acquire pattern is complete: which releases it synchronizes with, in whatever order the sends came."""
        strong, clock = self._machine.strong, self.clocks[wait.thread]
        sends = [s for s in self._program if isinstance(s, Send) and s.flag == wait.flag]
        observed = all(strong(s, wait) for s in sends)
        for send, first in self._released.get(wait.flag, ()):
            if observed and strong(first, last) and all(strong(send, s) for s in sends):
                clock[:] = [max(pair) for pair in zip(clock, first.clock, strict=True)]


def racing(machine: Machine, program: Sequence[Step]) -> set[tuple[int, int]]:
    """The pairs of steps on data (earlier first) that race."""
    return {(a, b) for a, b in _unordered(machine, program) if _conflict(program[a], program[b])}


def mixing(machine: Machine, program: Sequence[Step]) -> set[tuple[int, int]]:
    """The pairs of steps on flags that race because they are of different widths."""
    return {(a, b) for a, b in _unordered(machine, program) if _mix(program[a], program[b])}


def _unordered(machine: Machine, program: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """The pairs of steps of different threads of which the first is not ordered before the second."""
    book, done = _Book(machine, program), list[tuple[Step, Clock, Clock]]()
    for step in program:
        earlier = tuple(book.clocks[step.thread])
        book.do(step)
        done.append((step, earlier, tuple(book.clocks[step.thread])))
    for (a, (one, _, before)), (b, (other, earlier, after)) in combinations(enumerate(done), 2):
        known = earlier if isinstance(other, Wait) else after
        if one.thread != other.thread and known[one.thread] < before[one.thread]:
            yield a, b


def _conflict(one: Step, other: Step) -> bool:
    return (
        isinstance(one, Data) and isinstance(other, Data) and one.cell == other.cell and "st" in (one.kind, other.kind)
    )


def _mix(one: Step, other: Step) -> bool:
    if not isinstance(one, Send | Wait) or not isinstance(other, Send | Wait) or one.flag != other.flag:
        return False
    reads = [isinstance(step, Wait) and step.form == "ld" for step in (one, other)]
    return one.width != other.width and not all(reads)


def reported(machine: Machine, program: Sequence[Step], seed: int = 0, chunk: int = 1 << 21) -> set[tuple[int, int]]:
    """The pairs of steps on data, or of different widths on flags, that the emulator reports."""
    module = load_ptx(ptx(machine, program))
    buffers, shape = [Buffer.of("a", np.zeros(32, np.uint32))], (machine.cluster,)
    options = Options(seed=seed, fuel=100_000, chunk_bytes=chunk)
    try:
        run_ptx(module, "k", (machine.blocks,), (32 * machine.threads,), buffers, options, cluster=shape)
    except RaceError as error:
        ends = (sorted((r.first.location.line, r.second.location.line)) for r in error.races)
        pairs = {(a - 1, b - 1) for a, b in ends}
        return {(a, b) for a, b in pairs if isinstance(program[a], Data) or _mix(program[a], program[b])}
    return set()


def ptx(machine: Machine, program: Sequence[Step]) -> str:
    """The module that executes a program, each thread in a warp of its own; step `n` is line `n + 1` of `k`."""
    lines = [
        "mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %t, %i, %n, %t;",
        "and.b32 %n, %t, 31; setp.ne.u32 %p, %n, 0; @%p exit; shr.u32 %t, %t, 5;",
    ]
    for thread in range(machine.count):
        lines.append(f"setp.ne.u32 %p, %t, {thread}; @%p bra N{thread};")
        for number, step in enumerate(program):
            here = machine.met(step) if isinstance(step, Meet) else (step.thread,)
            if thread in here:
                lines += [f".loc 1 {number + 1} 1", _text(program, number, thread)]
        lines.append(f"ret; N{thread}:")
    head = ".reg .b32 %t, %i, %n, %y, %y32; .reg .b64 %a, %y64; .reg .pred %p, %q; ld.param.u64 %a, [a];"
    return f'{HEADER}.file 1 "k"\n.visible .entry k(.param .u64 a)\n{{\n{head}\n' + "\n".join(lines) + "\nret;\n}\n"


def _text(program: Sequence[Step], number: int, thread: int) -> str:
    step = program[number]
    if isinstance(step, Data):
        place = f"[%a+{4 * step.cell}]"
        return f"ld.global.u32 %y, {place};" if step.kind == "ld" else f"st.global.u32 {place}, {number + 1};"
    if isinstance(step, Meet):
        return "barrier.sync 0;" if step.kind == "bar" else "barrier.cluster.arrive; barrier.cluster.wait;"
    if isinstance(step, Fence):
        return f"{step.kind}.{'gl' if (step.kind, step.scope) == ('membar', 'gpu') else step.scope};"
    place, how, bits = f"[%a+{4 * FLAGS + 8 * step.flag}]", f"{step.sem}.{step.scope}.global", 8 * step.width
    if isinstance(step, Send):
        into = f"%y{bits}, " if step.form == "atom" else ""
        return (
            f"st.{how}.u{bits} {place}, 1;" if step.form == "st" else f"{step.form}.{how}.add.u{bits} {into}{place}, 1;"
        )
    count = sum(isinstance(s, Send) and s.flag == step.flag for s in program)
    add = f"atom.{how}.add.u{bits} %y{bits}, {place}, 0;"
    read = f"ld.{how}.u{bits} %y{bits}, {place};" if step.form == "ld" else add
    test = f"cvt.u32.u{bits} %y, %y{bits}; setp.ne.u32 %q, %y, {count};"
    return f"W{number}_{thread}: {read} {test} @%q bra W{number}_{thread};"
