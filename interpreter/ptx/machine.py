"""The scheduler: which threads of a chunk run next.

Threads that stand at the start of the same basic block run it together. Of the blocks where threads stand, the one
that comes first in the text runs, so that threads that parted in a branch or left a loop at different times meet again
behind it. Now and then another one runs instead, so that threads which spin on what others must do don't starve them.
A seed other than 0 draws blocks, and lets some warps fall behind; lanes of a warp that stand together stay together.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import Location

from .barriers import Barriers
from .circles import Circles
from .counters import Tally
from .deadlock import deadlock, out_of_fuel
from .frame import Frame, Index
from .hopper.checks import check_end
from .syntax import Instruction
from .taint import Taint

if TYPE_CHECKING:
    from .program import Block

_FAIR, _FAIRER = 256, 2
"""One basic block in so many is not the first one in the text; the second while threads poll."""
_CHANCE = 0.25
"""With a seed, how likely another block than the first one runs, or only some of the warps that stand at it."""

Threads = NDArray[np.intp]


class Machine:
    """The threads of a frame, by the basic block that they are to run next."""

    def __init__(self, frame: Frame, tally: Tally, seed: int) -> None:
        self.frame = frame
        self._random = Random(seed) if seed else None
        self.tally = tally
        self.blocks = frame.program.blocks
        self.barriers = Barriers(self, frame)
        self.ready: dict[int, list[Index]] = {}
        self._order: list[int] = []
        self._held: dict[int, Threads] = {}
        self.circles = Circles(self, frame)
        frame.engines.machine = self

    @property
    def all_waiting(self) -> bool:
        """Whether nothing is ready to run."""
        return not self._order

    def run(self) -> None:
        """Run all threads to their end. Raises what goes wrong on the way."""
        frame, launch, turn = self.frame, self.frame.launch, 0
        self.go(0, None)
        while self._order or self._revive():
            turn += 1
            if self.circles.closed():
                self._revive_all()
            number = self._next(turn)
            index = self._some(number, self.take(number))
            self.circles.went(number, index)
            block = self.blocks[number]
            launch.issued += len(block.instructions)
            if launch.fuel is not None and launch.issued > launch.fuel:
                raise out_of_fuel(frame, block, index)
            frame.copies.drift()
            frame.engines.drift(turn)
            if block.gate is not None:
                if frame.taint is not None:
                    frame.taint.arrive(block, index)
                index = block.gate(self, frame, index)
                if index is not None and not len(index):
                    continue
            self.tally.add(number, index, frame)
            self._steps(block, index)
            assert block.end is not None
            block.end(self, frame, index)

    def _steps(self, block: Block, index: Index) -> None:
        """Run the instructions of a block, but for its end."""
        frame = self.frame
        flying = frame.flying and not block.touched.isdisjoint(frame.flying)
        if frame.taint is not None:
            for instruction, _, _ in block.instructions if flying else ():
                frame.engines.products.refuse(instruction, index)
            frame.taint.run(block, 0, index)
            return
        for number, step in enumerate(block.steps):
            if flying:
                self._refuse(block.instructions[number][0], index)
            step(frame, index)
            if frame.holes:
                frame.taint = Taint(frame)
                frame.taint.begin(block.instructions[number][0])
                frame.taint.run(block, number + 1, index)
                return

    def _refuse(self, instruction: Instruction, index: Index) -> None:
        """Raise BarrierError where threads touch registers of products in flight; those that a guard keeps may not."""
        if instruction.guard is not None:
            found = self.frame.registers[instruction.guard.register.index]
            active = found if index is None or len(found) == 1 else found[index]
            index = self.frame.narrowed(index, active != instruction.guard.negated)
        if index is None or len(index):
            self.frame.engines.products.refuse(instruction, index)

    def _revive(self) -> bool:
        """Nothing is ready: let the engines work. Whether anything is ready now. Raises BarrierError for a deadlock."""
        engines = self.frame.engines
        while not self._order:
            if not (self._held or self.barriers.waiting or engines.waiting):
                return False
            self._revive_all()
        return True

    def _revive_all(self) -> None:
        """No thread gets on, at best some go round in circles: let the engines work, or those that try to wait give up.

        Raises BarrierError for a deadlock.
        """
        engines = self.frame.engines
        if not engines.settle() and (self.circles.asked_before() or not engines.hurry()):
            raise deadlock(self)

    def _next(self, turn: int) -> int:
        """The block to run: the first one; at every so manieth turn, or by the luck of a seed, another."""
        fair = _FAIRER if self.circles.spins else _FAIR
        if self._lucky():
            assert self._random is not None
            number = self._random.choice(sorted(self._order))
            self._order.remove(number)
            heapify(self._order)
            return number
        if turn % fair or len(self._order) == 1:
            return heappop(self._order)
        number = sorted(self._order)[turn // fair % len(self._order)]
        self._order.remove(number)
        heapify(self._order)
        return number

    def _lucky(self) -> bool:
        """Whether a seed has something else done than what comes first."""
        return self._random is not None and not self.circles.calm and self._random.random() < _CHANCE

    def take(self, number: int) -> Index:
        """All threads that stand at a block, which they leave."""
        groups = self.ready.pop(number)
        return groups[0] if len(groups) == 1 else self.merged([g for g in groups if g is not None])

    def _some(self, number: int, index: Index) -> Index:
        """All threads that stand at a block, or those of some warps; the others come back to it."""
        if not self._lucky():
            return index
        assert self._random is not None
        threads, salt = self.frame.indices(index), self._random.getrandbits(32) | 1
        chosen = (self.frame.warp[threads] + 1) * salt >> 16 & 1 != 0
        if not chosen.any() or chosen.all():
            return index
        self.go(number, threads[~chosen])
        return threads[chosen]

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
        groups = self.ready.get(number)
        if groups is None:
            self.ready[number] = [index]
            heappush(self._order, number)
        else:
            groups.append(index)

    def leave(self, number: int, index: Threads) -> None:
        """Threads have waited long enough at the gate of a block."""
        self.tally.add(number, index, self.frame)
        self.go(number + 1, index)

    def finish(self, index: Index, where: Location | None = None) -> None:
        """Threads have exited, at a place in the source."""
        frame = self.frame
        frame.alive[slice(None) if index is None else index] = False
        frame.changes += 1
        if frame.cluster > 1 and frame.watch is not None:
            for block in np.unique(frame.indices(index) // frame.threads).tolist():
                if not frame.alive[block * frame.threads : (block + 1) * frame.threads].any():
                    check_end(frame.watch, block, where or frame.program.entry_location)
        self.barriers.threads_left()
        self.frame.engines.meetings.complete()

    def hold(self, number: int, index: Threads) -> None:
        """Keep threads at the gate of a block."""
        if len(index):
            self._held[number] = index

    def fetch(self, number: int, index: Index) -> Index:
        """Those that arrive at the gate of a block together with those held there."""
        held = self._held.pop(number, None)
        return index if held is None else self.merged([held, self.frame.indices(index)])

    def waits(self) -> Iterator[tuple[int, Threads, str]]:
        """The blocks at whose gates threads wait, with them and what is known of what the first one waits for."""
        for number, threads in self._held.items():
            yield number, threads, ""
        for number, threads in self.barriers.places():
            yield number, threads, self.barriers.describe(int(threads[0]))
        yield from self.frame.engines.waits()

    def standing(self) -> Threads:
        """The block that each thread is to run, -2 less its number if the thread waits there, -1 if it has exited."""
        places = np.full(self.frame.count, -1)
        for number, groups in self.ready.items():
            for group in groups:
                places[slice(None) if group is None else group] = number
        for number, threads, _ in self.waits():
            places[threads] = -2 - number
        return places
