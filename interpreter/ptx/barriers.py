"""The 16 barriers of each thread block: who has arrived, how many must, and who waits for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .errors import BarrierError
from .frame import Frame, Index
from .types import Array

if TYPE_CHECKING:
    from .machine import Machine
    from .site import Site

BARRIERS = 16
Threads = NDArray[np.intp]


class Barriers:
    """All barriers of a chunk. A barrier's key is its thread block, in the chunk, times 16, plus its number."""

    def __init__(self, machine: Machine, frame: Frame) -> None:
        self._machine, self._frame = machine, frame
        keys = frame.blocks * BARRIERS
        self._arrived = np.zeros(keys, np.int64)
        self._wanted = np.zeros(keys, np.int64)  # 0: all threads of the block that have not exited
        self._waits: list[tuple[int, Site, Threads, Threads]] = []  # block, site, threads, keys

    @property
    def waiting(self) -> bool:
        """Whether any thread waits at a barrier."""
        return bool(self._waits)

    def places(self) -> Iterator[tuple[int, Threads]]:
        """The basic blocks where threads wait, with them."""
        for number in sorted({wait[0] for wait in self._waits}):
            yield number, np.sort(np.concatenate([wait[2] for wait in self._waits if wait[0] == number]))

    def passes(self, index: Index, wanted: int) -> bool:
        """Whether all threads of the chunk arrive at once at an unused barrier, so that none has to wait."""
        whole = index is None and not self._waits and not self._arrived.any()
        return whole and wanted in (0, self._frame.threads)

    def arrive(self, site: Site, number: int, index: Index, barrier: Array, wanted: Array, stays: bool) -> None:
        """Threads arrive at the barriers of their numbers; with `stays` they wait there, at basic block `number`."""
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
        self._wanted[keys] = wanted
        if stays:
            self._waits.append((number, site, threads, keys))
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
        self._arrived[done] = 0
        self._wanted[done] = 0
        waits, self._waits = self._waits, []
        freed: list[tuple[int, Site, Threads]] = []
        for number, site, threads, keys in waits:
            out = done[keys]
            if out.any():
                freed.append((number, site, threads[out]))
            if not out.all():
                self._waits.append((number, site, threads[~out], keys[~out]))
        self._check_warps(freed)
        for number, _, threads in freed:
            self._machine.go(number + 1, threads)

    def _check_warps(self, freed: list[tuple[int, Site, Threads]]) -> None:
        """An aligned barrier must be executed by all threads of a warp together, in one instruction."""
        aligned = [entry for entry in freed if _is_aligned(entry[1])]
        if not aligned:
            return
        warp, alive = self._machine.warp, self._frame.alive
        present = np.bincount(warp[alive], minlength=int(warp[-1]) + 1)
        sites: dict[int, list[Threads]] = {}
        for number, _, threads in aligned:
            sites.setdefault(number, []).append(threads)
        for number, groups in sites.items():
            threads = np.concatenate(groups)
            here = np.bincount(warp[threads], minlength=len(present))
            short = (here > 0) & (here < present)
            if short.any():
                thread = int(threads[np.argmax(short[warp[threads]])])
                which = int(warp[thread])
                site = next(entry[1] for entry in aligned if entry[0] == number)
                what = (
                    f"only {here[which]} of the {present[which]} threads of a warp are at `{site.instruction.opcode}`"
                )
                raise site.fault(BarrierError, f"barrier divergence: {what}", self._frame, thread)


def _is_aligned(site: Site) -> bool:
    """`bar` is `barrier.aligned`."""
    parts = site.instruction.opcode.split(".")
    return parts[0] == "bar" or "aligned" in parts
