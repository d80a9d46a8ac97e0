"""mbarriers: objects in shared memory that threads arrive at and wait for, and that count bytes of copies as well.

A phase is complete when all expected arrivals have come and no bytes are outstanding. Who arrives (`.release`) tells
what it knows; who finds a phase complete (`.acquire`) learns that and what the phase's copies have done. Both scopes
must contain both threads. Where none is named that is the cluster, not the block as PTX has it: libraries signal other
blocks so. The objects are kept beside the memory; ordinary accesses to where one lies are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..access import BLOCK, CLUSTER
from ..errors import BarrierError
from ..fences import Known
from ..order import GROUPS, SLOTS
from ..types import Array

if TYPE_CHECKING:
    from ..frame import Frame
    from ..site import Site
    from .engines import Engines

Threads = NDArray[np.intp]

MOST_ARRIVALS = (1 << 20) - 1
MOST_BYTES = (1 << 20) - 1
_PHASE = 32
_WARP = 32
"""How far up a state has the phase; the pending count is below."""


@dataclass(slots=True)
class Mbarrier:
    """One object. `expected` arrivals a phase, `pending` of which have yet to come; `nbytes` outstanding.

    told: what those that arrived in this phase knew; known: the same of all phases before it; each once for who learns
    from the mbarrier's own block alone, and for who learns from its cluster. slot: see `order`.
    """

    slot: int
    expected: int
    pending: int
    nbytes: int = 0
    phase: int = 0
    told: list[Known | None] = field(default_factory=lambda: [None, None])
    known: list[Known | None] = field(default_factory=lambda: [None, None])

    @property
    def state(self) -> int:
        """What `mbarrier.arrive` returns."""
        return self.phase << _PHASE | self.pending


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals of threads at the mbarriers `keys`: how many each stands for (0 for none), and bytes to be expected
    before that. reach: how far they tell. drop: the expected count sinks by them. complete: whether they may complete
    the phase."""

    threads: Threads
    keys: Threads
    counts: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    releases: bool
    reach: int = CLUSTER
    drop: bool = False
    complete: bool = True


class Mbarriers:
    """The mbarriers of a frame, by key: where they are in the memory of all blocks, counted in 8 bytes."""

    def __init__(self, frame: Frame, engines: Engines) -> None:
        self._frame, self._engines = frame, engines
        self._found: dict[int, Mbarrier] = {}
        self._made = np.zeros(frame.blocks, np.int64)

    def init(self, site: Site, threads: Threads, keys: Threads, counts: Array) -> None:
        """Make mbarriers. Raises BarrierError for a bad count, and where there is one already."""
        each = self._frame.shared.stride // 8
        for thread, key, count in zip(threads.tolist(), keys.tolist(), counts.tolist(), strict=True):
            if not 1 <= count <= MOST_ARRIVALS:
                raise self._fault(site, thread, key, f"with a count of {count}, which is 1 to {MOST_ARRIVALS}")
            if key in self._found:
                raise self._fault(site, thread, key, "where one is already, without `mbarrier.inval`")
            block = key // each
            slot = block * SLOTS + GROUPS + int(self._made[block]) % (SLOTS - GROUPS)
            self._made[block] += 1
            self._found[key] = Mbarrier(slot, count, count)
            self._reserve(key, True)
        self._frame.changes += 1

    def inval(self, site: Site, threads: Threads, keys: Threads) -> None:
        """End mbarriers."""
        for thread, key in zip(threads.tolist(), keys.tolist(), strict=True):
            self.at(site, thread, key)
            del self._found[key]
            self._reserve(key, False)

    def at(self, site: Site, thread: int, key: int) -> Mbarrier:
        """The mbarrier of a key. Raises BarrierError where there is none."""
        found = self._found.get(key)
        if found is None:
            raise self._fault(site, thread, key, "where no mbarrier is")
        return found

    def arrive(self, site: Site, arrivals: Arrivals) -> NDArray[np.uint64]:
        """Threads expect bytes and arrive. The state of each just before its warp arrived."""
        states = np.zeros(len(arrivals.threads), np.uint64)
        for key, rows in _groups(arrivals.keys):
            barrier = self.at(site, int(arrivals.threads[rows[0]]), key)
            self._release(barrier, key, arrivals, rows)
            counts = arrivals.counts[rows]
            if not arrivals.drop and arrivals.complete and int(counts.sum()) <= barrier.pending:
                before = barrier.pending - self._before_warps(arrivals.threads[rows], counts)
                states[rows] = (barrier.phase << _PHASE) + before
                total = int(counts.sum()), int(arrivals.nbytes[rows].sum())
                self._arrive(site, barrier, key, int(arrivals.threads[rows[0]]), *total)
                continue
            for row in rows.tolist():
                states[row] = barrier.state
                thread, count, nbytes = (int(x[row]) for x in (arrivals.threads, arrivals.counts, arrivals.nbytes))
                if arrivals.drop:
                    barrier.expected -= count
                self._arrive(site, barrier, key, thread, count, nbytes, arrivals.complete)
        return states

    def _release(self, barrier: Mbarrier, key: int, arrivals: Arrivals, rows: Threads) -> None:
        """Some of the threads, which arrive at one mbarrier, tell what they know, or knew at a fence."""
        watch, threads = self._frame.watch, arrivals.threads[rows]
        if watch is None:
            return
        own = threads // self._frame.threads == key // (self._frame.shared.stride // 8)
        fences = watch.order.fences if arrivals.counts[rows].any() else None
        for reach, some in ((BLOCK, threads[own]), (CLUSTER, threads[~own])):
            if not len(some) or reach > arrivals.reach:
                continue
            if arrivals.releases:
                self._tell(barrier, watch.order.known(some).max(0), reach)
            elif fences is not None:
                self._tell(barrier, fences.ready(some, reach).max(0), reach)

    def _before_warps(self, threads: Threads, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many arrivals there were before those of each thread's warp, which arrives as one."""
        per_block = self._frame.threads
        warps = threads // per_block * -(-per_block // _WARP) + threads % per_block // _WARP
        first = np.diff(warps, prepend=-1) != 0
        return (np.cumsum(counts) - counts)[first][np.cumsum(first) - 1]

    def expect(self, site: Site, threads: Threads, keys: Threads) -> None:
        """One arrival more is pending in this phase for each thread."""
        for thread, key in zip(threads.tolist(), keys.tolist(), strict=True):
            barrier = self.at(site, thread, key)
            barrier.pending += 1
            if barrier.pending > MOST_ARRIVALS:
                raise self._fault(site, thread, key, f"which then has {barrier.pending} arrivals pending: overflow")

    def _arrive(
        self, site: Site, barrier: Mbarrier, key: int, thread: int, count: int, nbytes: int, complete: bool = True
    ) -> None:
        if count > barrier.pending or barrier.expected < 0:
            what = f"which has {barrier.pending} of {barrier.expected} arrivals pending"
            more = f" and {barrier.nbytes} bytes outstanding" if barrier.nbytes else ""
            raise self._fault(site, thread, key, f"with {count} arrivals at one {what}{more}: underflow")
        if not complete and count >= barrier.pending:
            raise self._fault(site, thread, key, f"would complete the phase: {barrier.pending} arrivals are pending")
        barrier.pending -= count
        self.count(site, thread, key, barrier, nbytes)

    def count(self, site: Site, thread: int, key: int, barrier: Mbarrier, nbytes: int) -> None:
        """More bytes are outstanding, or fewer if negative; the phase may be complete by that."""
        barrier.nbytes += nbytes
        if abs(barrier.nbytes) > MOST_BYTES:
            raise self._fault(site, thread, key, f"which then has {barrier.nbytes} bytes outstanding: overflow")
        self._frame.changes += 1
        if barrier.pending == 0 and barrier.nbytes == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            for reach, told in enumerate(barrier.told):
                barrier.known[reach] = _joined(barrier.known[reach], told)
            barrier.told = [None, None]
            self._engines.wake()

    def signal(self, site: Site, thread: int, key: int, nbytes: int, slot_stamp: int | None) -> None:
        """A copy is done: so many bytes fewer are outstanding. `slot_stamp` is what the slot has got to."""
        barrier = self.at(site, thread, key)
        watch = self._frame.watch
        if watch is not None and slot_stamp is not None:
            row = np.zeros(watch.order.width, np.int32)
            row[watch.order.column(barrier.slot)] = slot_stamp
            self._tell(barrier, row, BLOCK)
        self.count(site, thread, key, barrier, -nbytes)

    def _tell(self, barrier: Mbarrier, row: Known, reach: int) -> None:
        """Something is told to those that learn from as far as this."""
        for each in range(reach, CLUSTER + 1):
            barrier.told[each] = _joined(barrier.told[each], row)

    def done(self, site: Site, threads: Threads, keys: Threads, wanted: Array, parity: bool) -> NDArray[np.bool_]:
        """Whether the phases that states or parities name are complete."""
        found = np.zeros(len(threads), np.bool_)
        for key, rows in _groups(keys):
            barrier = self.at(site, int(threads[rows[0]]), key)
            if parity:
                found[rows] = (wanted[rows] & 1) != barrier.phase & 1
                continue
            phases = (wanted[rows] >> np.uint64(_PHASE)).astype(np.int64)
            stale = (phases > barrier.phase) | (phases < barrier.phase - 1)
            if stale.any():
                at = int(np.argmax(stale))
                what = f"for the state of phase {int(phases[at])}, but it is in phase {barrier.phase}"
                raise self._fault(site, int(threads[rows[at]]), key, what)
            found[rows] = phases != barrier.phase
        return found

    def acquire(self, site: Site, threads: Threads, keys: Threads, reach: int, at_once: bool) -> None:
        """Threads have found a phase complete, and learn of it, from so far away, now or at their next fence."""
        watch = self._frame.watch
        if watch is None:
            return
        for key, rows in _groups(keys):
            known = self.at(site, int(threads[rows[0]]), key).known
            for each, row in enumerate(known[: reach + 1]):
                if row is None:
                    continue
                if at_once or watch.order.fences is None:
                    watch.order.learn(threads[rows], row)
                else:
                    watch.order.fences.wait(threads[rows], row, each)

    def describe(self, key: int) -> str:
        """The state of an mbarrier, for messages."""
        barrier = self._found.get(key)
        if barrier is None:
            return ""
        waits = f"; the mbarrier at {self.place(key)} is in phase {barrier.phase}"
        return f"{waits}, {barrier.pending} of {barrier.expected} arrivals and {barrier.nbytes} bytes short"

    def place(self, key: int) -> str:
        """Where an mbarrier is, for messages."""
        block, at = divmod(key, self._frame.shared.stride // 8)
        who = f" of block {self._frame.launch.place(self._frame.first + block)}" if self._frame.cluster > 1 else ""
        return f"shared address {8 * at:#x}{who}"

    def _reserve(self, key: int, inside: bool) -> None:
        watch = self._frame.watch
        if watch is not None:
            shadow = watch.shared
            if shadow.reserved is None:
                shadow.reserved = np.zeros(shadow.size, np.bool_)
            shadow.reserved[8 * key >> shadow.bits : (8 * key + 7 >> shadow.bits) + 1] = inside

    def _fault(self, site: Site, thread: int, key: int, what: str) -> BarrierError:
        where = f"`{site.instruction.opcode}` at {self.place(key)}"
        return site.fault(BarrierError, f"{where}, {what}", self._frame, thread)


def _joined(known: Known | None, row: Known | None) -> Known | None:
    if known is None or row is None:
        return row if known is None else known
    return np.maximum(known, row)


def _groups(keys: Threads) -> Iterator[tuple[int, Threads]]:
    """Each key with the places where it stands."""
    if len(keys) and (keys == keys[0]).all():
        yield int(keys[0]), np.arange(len(keys))
        return
    for key in np.unique(keys).tolist():
        yield key, np.flatnonzero(keys == key)


def pending_count(states: Array) -> Array:
    """The pending count of states."""
    return (states & np.uint64((1 << _PHASE) - 1)).astype(np.uint32)
