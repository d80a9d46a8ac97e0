"""Threads that go round in circles: whether all that are ready to run do what they did before, for ever.

What a thread does follows from its place, its registers and the memory that it reads. While nothing changes that
threads tell each other by (global memory, strong writes of what is not there already, mbarriers, clocks, exits:
`Frame.changes`), plain writes to shared and local memory say the same in every order of execution, or the program has a
race, which is told instead. So if all threads are once more where they were, with registers, barriers and such memory
as they were, and each that was ready has run in between, they will be there again and again: they poll for something
that nobody is left to do. Loops that read no memory and poll nothing are none of this; they end with the budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .frame import Frame, Index
from .liveness import successors
from .types import Array

if TYPE_CHECKING:
    from .machine import Machine
    from .syntax import Instruction

_PATIENCE = 256
"""How many basic blocks run without a change before anybody looks."""
_CALM = 4096
"""How many of them until a seed no longer draws who runs: threads in step come round sooner."""
_OWN = ("param", "const", "local")
"""Spaces where no other thread writes."""


class _State(NamedTuple):
    """What the threads do next follows from it, while nothing changes."""

    changes: int
    registers: list[Array | None]
    others: tuple[Array, ...]


class Circles:
    """What the machine asks before each basic block that it runs."""

    def __init__(self, machine: Machine, frame: Frame) -> None:
        self._machine, self._frame = machine, frame
        self._changes = -1
        self._since = 0
        self._next = _PATIENCE
        self._then: _State | None = None
        self._asked: _State | None = None
        self._numbers: frozenset[int] = frozenset()
        self._differed = 0
        self._went: set[int] = set()
        self._ran = np.zeros(frame.count, np.bool_)
        self._polls: dict[int, list[tuple[bool, Instruction]]] = {}
        for access in frame.program.accesses:
            if (access.updates or not access.writes) and access.space not in _OWN:
                row = access.kind == "read", access.site.instruction
                self._polls.setdefault(access.site.block, []).append(row)
        self._strong = {number for number, rows in self._polls.items() if not all(weak for weak, _ in rows)}

    @property
    def calm(self) -> bool:
        """Whether nothing has changed for long."""
        return self._since > _CALM

    @property
    def spins(self) -> bool:
        """Whether threads have polled for some time, while others may be at what they poll for."""
        return self._then is not None and not self._went.isdisjoint(self._strong)

    def went(self, number: int, index: Index) -> None:
        """Threads run a basic block."""
        if self._then is not None:
            self._went.add(number)
            self._ran[slice(None) if index is None else index] = True

    def closed(self) -> bool:
        """Whether the threads that are ready have closed a circle."""
        changes, numbers = self._frame.changes, self._machine.ready.keys()
        if self._changes != changes:
            self._changes, self._since, self._next, self._then = changes, 0, _PATIENCE, None
            return False
        self._since += 1
        if self._then is not None and self._repeats(self._then):
            return True
        if self._since >= self._next:
            self._next = 2 * self._since
            self._then, self._numbers = self._state(), frozenset(numbers)
            self._went, self._ran = set(), np.zeros(self._frame.count, np.bool_)
        return False

    def asked_before(self) -> bool:
        """Whether all is as it was when this was asked last. If not, what follows is another circle."""
        before, self._asked, self._changes = self._asked, self._state(), -1
        return before is not None and before.changes == self._asked.changes and self._same(before)

    def poll(self, number: int) -> Instruction | None:
        """What threads at a basic block poll by, of what ran in their circle: the next one, a strong access if any."""
        found, seen, work = list[tuple[bool, int, "Instruction"]](), {number}, [number]
        for at in work:  # it grows
            found += [(weak, len(found), row) for weak, row in self._polls.get(at, ())]
            following = successors(self._frame.program, self._frame.program.blocks[at]) & self._went - seen
            seen |= following
            work += sorted(following)
        return min(found, key=lambda each: each[:2])[2] if found else None

    def _repeats(self, then: _State) -> bool:
        """Whether the state is that one, all that are ready have run since, and some of them poll."""
        if self._machine.ready.keys() != self._numbers or self._went.isdisjoint(self._polls):
            return False
        return self._same(then) and bool(self._ran[self._machine.standing() >= 0].all())

    def _same(self, then: _State) -> bool:
        registers = self._frame.registers
        if self._differed < len(registers) and not _equal(registers[self._differed], then.registers[self._differed]):
            return False
        for number, (now, before) in enumerate(zip(registers, then.registers, strict=True)):
            if now is not before and not _equal(now, before):
                self._differed = number
                return False
        return all(map(np.array_equal, self._others(), then.others))

    def _state(self) -> _State:
        return _State(self._frame.changes, list(self._frame.registers), tuple(each.copy() for each in self._others()))

    def _others(self) -> tuple[Array, ...]:
        machine, frame = self._machine, self._frame
        return machine.standing(), *machine.barriers.state(), frame.shared.bytes, frame.local.bytes


def _equal(now: Array | None, then: Array | None) -> bool:
    if now is None or then is None:
        return now is then
    return np.array_equal(now, then)
