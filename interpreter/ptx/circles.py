"""Threads that go round in circles: whether all that are ready to run repeat what they did, with nothing changed.

While nobody writes and nobody arrives anywhere, what a thread does follows from its registers and its place alone. So
if all ready threads are once more where they were, with the registers that they had, and each has run in between, they
will be there for ever: they poll for something that nobody is left to do. Loops that read no memory and poll nothing
are none of this; they end with the budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .frame import Frame, Index
from .types import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PATIENCE = 256
"""How many basic blocks run without a change before anybody looks."""
_POLLS = frozenset(("load", "atomic", "async"))

Ready = dict[int, list[Index]]


class Circles:
    """What the machine asks before each basic block that it runs."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._changes = -1
        self._since = 0
        self._next = _PATIENCE
        self._places: NDArray[np.intp] | None = None
        self._numbers: frozenset[int] = frozenset()
        self._registers: list[Array | None] = []
        self._differed = 0
        self._went: set[int] = set()
        self._polling = frozenset(
            block.number for block in frame.program.blocks
            if any(form.family in _POLLS for _, form, _ in block.instructions)
        )  # fmt: skip

    def went(self, number: int) -> None:
        """A basic block runs."""
        self._went.add(number)

    def closed(self, ready: Ready) -> bool:
        """Whether the threads that are ready have closed a circle."""
        if self._changes != self._frame.changes:
            self._changes, self._since, self._next, self._places = self._frame.changes, 0, _PATIENCE, None
            return False
        self._since += 1
        if self._since < _PATIENCE:
            return False
        if self._places is not None and self._same(ready):
            return True
        if self._since >= self._next:
            self._next = 2 * self._since
            self._places, self._registers = self._where(ready), list(self._frame.registers)
            self._numbers, self._went = frozenset(ready), set()
        return False

    def _same(self, ready: Ready) -> bool:
        if self._went.isdisjoint(self._polling) or ready.keys() != self._numbers or not self._numbers <= self._went:
            return False
        registers = self._frame.registers
        if self._differed < len(registers) and not _equal(registers[self._differed], self._registers[self._differed]):
            return False
        for number, (now, then) in enumerate(zip(registers, self._registers, strict=True)):
            if now is not then and not _equal(now, then):
                self._differed = number
                return False
        assert self._places is not None
        return np.array_equal(self._where(ready), self._places)

    def _where(self, ready: Ready) -> NDArray[np.intp]:
        """The basic block at which each thread stands, -1 for one that waits or has exited."""
        places = np.full(self._frame.count, -1)
        for number, groups in ready.items():
            for group in groups:
                places[slice(None) if group is None else group] = number
        return places


def _equal(now: Array | None, then: Array | None) -> bool:
    if now is None or then is None:
        return now is then
    return np.array_equal(now, then)
