"""The 16 barriers of each thread block: who has arrived, how many must, and who waits for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import BarrierError
from .frame import Frame, Index
from .order import Arrival
from .types import Array

if TYPE_CHECKING:
    from .machine import Machine
    from .site import Site

BARRIERS = 16
Threads = NDArray[np.intp]


class _Wait(NamedTuple):
    """Threads that wait at barriers: the basic block, the instruction, the threads, and the barrier's key of each.

    `counts`: whether they come back to the instruction, for how many of the arrivals brought a predicate that holds.
    """

    number: int
    site: Site
    threads: Threads
    keys: Threads
    counts: bool

    def only(self, chosen: NDArray[np.bool_]) -> _Wait:
        """Some of the threads."""
        return self._replace(threads=self.threads[chosen], keys=self.keys[chosen])


class Barriers:
    """All barriers of a chunk. A barrier's key is its thread block, in the chunk, times 16, plus its number."""

    def __init__(self, machine: Machine, frame: Frame) -> None:
        self._machine, self._frame = machine, frame
        keys = frame.blocks * BARRIERS
        self._arrived = np.zeros(keys, np.int64)
        self._wanted = np.zeros(keys, np.int64)  # 0: all threads of the block that have not exited
        self._holds = np.zeros(keys, np.int64)  # of the arrivals, those whose predicate holds
        self._kinds = np.zeros(keys, np.int64)  # 1 more than whether the arrivals bring predicates
        self._counted = np.zeros((2, frame.count), np.int64)
        self._back = np.zeros(frame.count, np.bool_)
        self._waits: list[_Wait] = []
        self._arrivals: list[Arrival] = []

    @property
    def waiting(self) -> bool:
        """Whether any thread waits at a barrier."""
        return bool(self._waits)

    def places(self) -> Iterator[tuple[int, Threads]]:
        """The basic blocks where threads wait, with them."""
        for number in sorted({wait.number for wait in self._waits}):
            yield number, np.sort(np.concatenate([wait.threads for wait in self._waits if wait.number == number]))

    def state(self) -> tuple[Array, ...]:
        """Of each barrier how many have arrived, how many must, and what they brought."""
        return self._arrived, self._wanted, self._holds

    def describe(self, thread: int) -> str:
        """How many have arrived at the barrier where a thread waits, of how many, and who never will."""
        key = next((int(key) for wait in self._waits for key in wait.keys[wait.threads == thread]), None)
        if key is None:
            return ""
        block = self._frame.alive.reshape(self._frame.blocks, -1)[key // BARRIERS]
        alive = int(block.sum())
        exited = len(block) - alive
        gone = f", and {exited} thread{'s' * (exited > 1)} of the block ha{'ve' if exited > 1 else 's'} exited"
        wanted = int(self._wanted[key]) or alive
        return f"; barrier {key % BARRIERS} has {self._arrived[key]} of {wanted} arrivals{gone if exited else ''}"

    def passes(self, index: Index, wanted: int) -> bool:
        """Whether all threads of the chunk arrive at once at an unused barrier, so that none has to wait."""
        whole = index is None and not self._waits and not self._arrived.any() and wanted in (0, self._frame.threads)
        if whole and self._frame.watch is not None:
            self._frame.watch.order.whole()
        return whole

    def come_back(self, index: Index) -> tuple[Threads, NDArray[np.bool_]]:
        """The threads, and which of them a barrier has let go that counted predicates. These come but once."""
        threads = self._frame.indices(index)
        back = self._back[threads]
        self._back[threads] = False
        return threads, back

    def counted(self, threads: Threads) -> NDArray[np.int64]:
        """Of the barrier that let threads go last: the arrivals whose predicate held, and all: [2, threads]."""
        return self._counted[:, threads]

    def arrive(
        self, site: Site, index: Index, barrier: Array, wanted: Array, stays: bool, brought: Array | None = None
    ) -> None:
        """Threads arrive at the barriers of their numbers; with `stays` they wait there, in the instruction's block.

        brought: predicates, of which the barrier counts those that hold.
        """
        frame = self._frame
        threads = frame.indices(index)
        beyond = barrier >= BARRIERS
        if beyond.any():
            at = int(np.argmax(beyond))
            what = f"`{site.instruction.opcode}` of barrier {int(barrier[at])}, but there are {BARRIERS}"
            raise site.fault(BarrierError, what, frame, int(threads[at]))
        keys = threads // frame.threads * BARRIERS + barrier.astype(np.intp)
        np.add.at(self._arrived, keys, 1)
        differs = (self._wanted[keys] != wanted) & (self._arrived[keys] > 0) & (self._wanted[keys] != 0)
        if differs.any():
            at = int(np.argmax(differs))
            what = f"`{site.instruction.opcode}` for {int(wanted[at])} threads, others wait there for another number"
            raise site.fault(BarrierError, what, frame, int(threads[at]))
        kind = 1 if brought is None else 2
        if (mixed := (self._kinds[keys] + kind == 3)).any():
            what = f"`{site.instruction.opcode}`, where others wait that bring {'no ' * (kind - 1)}predicates"
            raise site.fault(BarrierError, what, frame, int(threads[np.argmax(mixed)]))
        self._wanted[keys], self._kinds[keys] = wanted, kind
        if brought is not None:
            np.add.at(self._holds, keys, brought)
        if stays:
            self._waits.append(_Wait(site.block, site, threads, keys, brought is not None))
        elif frame.watch is not None:
            self._arrivals.append(Arrival(keys, frame.watch.order.known(threads)))
        self._release()

    def threads_left(self) -> None:
        """Some threads have exited: barriers no longer wait for them."""
        if self._waits:
            self._release()

    def _release(self) -> None:
        """Let go whoever waits at a barrier where all have arrived."""
        alive = self._frame.alive.reshape(self._frame.blocks, -1).sum(1).repeat(BARRIERS)
        done = (self._arrived > 0) & (self._arrived >= np.where(self._wanted > 0, self._wanted, alive))
        if not done.any():
            return
        found = np.array((self._holds, self._arrived))
        for each in (self._arrived, self._wanted, self._holds, self._kinds):
            each[done] = 0
        freed = [wait.only(done[wait.keys]) for wait in self._waits]
        self._waits = [rest for wait in self._waits if len((rest := wait.only(~done[wait.keys])).threads)]
        freed = [wait for wait in freed if len(wait.threads)]
        self._check_warps(freed)
        self._order(done, freed)
        for wait in freed:
            if wait.counts:
                self._counted[:, wait.threads], self._back[wait.threads] = found[:, wait.keys], True
                self._machine.go(wait.number, wait.threads)
            else:
                self._machine.leave(wait.number, wait.threads)

    def _order(self, done: NDArray[np.bool_], freed: list[_Wait]) -> None:
        """What threads did before their barrier comes before what others do behind it."""
        if self._frame.watch is not None and freed:
            keys = np.concatenate([wait.keys for wait in freed])
            threads = np.concatenate([wait.threads for wait in freed])
            self._frame.watch.order.meet(keys, threads, [part.only(done[part.keys]) for part in self._arrivals])
        self._arrivals = [rest for part in self._arrivals if len((rest := part.only(~done[part.keys])).keys)]

    def _check_warps(self, freed: list[_Wait]) -> None:
        """An aligned barrier must be executed by all threads of a warp together, in one instruction."""
        aligned = [wait for wait in freed if _is_aligned(wait.site)]
        if not aligned:
            return
        warp, alive = self._frame.warp, self._frame.alive
        present = np.bincount(warp[alive], minlength=int(warp[-1]) + 1)
        for number in {wait.number for wait in aligned}:
            threads = np.concatenate([wait.threads for wait in aligned if wait.number == number])
            here = np.bincount(warp[threads], minlength=len(present))
            short = (here > 0) & (here < present)
            if short.any():
                thread = int(threads[np.argmax(short[warp[threads]])])
                which = int(warp[thread])
                site = next(wait.site for wait in aligned if wait.number == number)
                what = (
                    f"only {here[which]} of the {present[which]} threads of a warp are at `{site.instruction.opcode}`"
                )
                raise site.fault(BarrierError, f"barrier divergence: {what}", self._frame, thread)


def _is_aligned(site: Site) -> bool:
    """`bar` is `barrier.aligned`."""
    parts = site.instruction.opcode.split(".")
    return parts[0] == "bar" or "aligned" in parts
