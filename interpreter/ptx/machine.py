"""The scheduler: which threads of a chunk run next.

Threads that stand at the start of the same basic block run it together. Of the blocks where threads stand, the one
that comes first in the text runs, so that threads that parted in a branch or left a loop at different times meet again
behind it. Now and then another one runs instead, so that threads which spin on what others must do don't starve them.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ..errors import OutOfFuelError, place
from .barriers import Barriers
from .counters import Tally
from .errors import BarrierError
from .frame import WARP, Frame, Index

_FAIR = 256
"""How many basic blocks run in a row by their place in the text."""

Threads = NDArray[np.intp]


class Machine:
    """The threads of a frame, by the basic block that they are to run next."""

    def __init__(self, frame: Frame, tally: Tally) -> None:
        self.frame = frame
        self.tally = tally
        self.blocks = frame.program.blocks
        self.barriers = Barriers(self, frame)
        self._ready: dict[int, list[Index]] = {}
        self._order: list[int] = []
        self._held: dict[int, Threads] = {}
        self._warp: Threads | None = None

    @property
    def warp(self) -> Threads:
        """The warp of each thread, numbered through the chunk."""
        if self._warp is None:
            number, threads = self.frame.number, self.frame.threads
            self._warp = number // threads * -(-threads // WARP) + number % threads // WARP
        return self._warp

    @property
    def all_waiting(self) -> bool:
        """Whether nothing is ready to run."""
        return not self._order

    def run(self) -> None:
        """Run all threads to their end. Raises what goes wrong on the way."""
        frame, launch, turn = self.frame, self.frame.launch, 0
        self.go(0, None)
        while self._order:
            turn += 1
            number = self._next(turn)
            index = self._take(number)
            block = self.blocks[number]
            cost = len(block.instructions)
            launch.issued += cost
            if launch.fuel is not None and launch.issued > launch.fuel:
                what = f"still running after {launch.fuel} instructions, the budget of the launch (options.fuel)"
                raise OutOfFuelError(what, block.location, frame.block_of(int(frame.indices(index)[0])))
            if block.gate is not None:
                index = block.gate(self, frame, index)
                if index is not None and not len(index):
                    self._check()
                    continue
            self.tally.add(number, index, self)
            for step in block.steps:
                step(frame, index)
            assert block.end is not None
            block.end(self, frame, index)
            self._check()

    def _check(self) -> None:
        if not self._order and (self._held or self.barriers.waiting):
            self._stuck()

    def _next(self, turn: int) -> int:
        """The block to run: the first one; at every so manieth turn another."""
        if turn % _FAIR or len(self._order) == 1:
            return heappop(self._order)
        number = sorted(self._order)[turn // _FAIR % len(self._order)]
        self._order.remove(number)
        heapify(self._order)
        return number

    def _take(self, number: int) -> Index:
        groups = self._ready.pop(number)
        return groups[0] if len(groups) == 1 else self.merged([g for g in groups if g is not None])

    def merged(self, groups: list[Threads]) -> Index:
        """Several groups of threads as one."""
        index = np.concatenate(groups)
        if len(index) == self.frame.count:
            return None
        index.sort()
        return index

    def go(self, number: int, index: Index) -> None:
        """Send threads to a block."""
        if index is not None:
            if not len(index):
                return
            if len(index) == self.frame.count:
                index = None
        groups = self._ready.get(number)
        if groups is None:
            self._ready[number] = [index]
            heappush(self._order, number)
        else:
            groups.append(index)

    def finish(self, index: Index) -> None:
        """Threads have exited."""
        self.frame.alive[slice(None) if index is None else index] = False
        self.barriers.threads_left()

    def hold(self, number: int, index: Threads) -> None:
        """Keep threads at the gate of a block."""
        if len(index):
            self._held[number] = index

    def fetch(self, number: int, index: Index) -> Index:
        """Those that arrive at the gate of a block together with those held there."""
        held = self._held.pop(number, None)
        return index if held is None else self.merged([held, self.frame.indices(index)])

    def _stuck(self) -> None:
        """Report that every thread that has not exited waits."""
        waits = [(self.blocks[number], index) for number, index in self._held.items()]
        waits += [(self.blocks[number], index) for number, index in self.barriers.places()]
        frame, lines = self.frame, list[str]()
        for block, index in sorted(waits, key=lambda wait: -len(wait[1])):
            opcode = block.instructions[0][0].opcode
            thread = int(index[0])
            who = f"for example thread {frame.thread_of(thread)} of block {frame.block_of(thread)}"
            lines.append(f"  {place(block.location)}: {len(index)} threads wait in `{opcode}`, {who}")
        first = max(waits, key=lambda wait: len(wait[1]))
        what = "every thread that has not exited waits for others\n" + "\n".join(lines)
        raise BarrierError(what, first[0].location)
