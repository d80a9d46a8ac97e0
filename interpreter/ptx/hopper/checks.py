"""What is checked about the accesses of an engine: copies in flight, and products that read shared memory.

An engine works for a thread and may count on what that thread knew when it started it. What threads wrote, the engine
sees by another proxy: it must have passed a proxy fence. From the start until the end, nobody may touch what the engine
writes, or write what it reads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import Location

from ...memory import Buffer
from ..access import Access
from ..errors import UninitializedError
from ..fences import Known
from ..races import Party, Race, party
from ..shadow import COLLECTIVE, ENGINE, PENDING, SHIFT, STAMPS, THREAD, UNWRITTEN, Records, Shadow
from ..spaces import Cells, Rows
from ..types import Array
from ..watch import CONFLICTS, Doubts, Touch, Watch

_PROXY = "with no `fence.proxy.async` behind"
_NOTHING = np.empty(0, np.uint8)


class Place(NamedTuple):
    """Elements of memory that an engine touches: a typed view of it, and positions there; `start` as in `Cells`."""

    home: Buffer | Rows
    view: Array
    position: NDArray[np.intp]
    start: int = 0

    def granules(self, shadow: Shadow) -> Records:
        """The pieces of memory that a shadow remembers, each once."""
        unit = self.view.dtype.itemsize
        first = (self.position * unit + self.start) >> shadow.bits
        count = max(1, unit >> shadow.bits)
        found = first if count == 1 else (first[:, None] + np.arange(count)).reshape(-1)
        return np.unique(found[np.flatnonzero(np.diff(found, prepend=-1))])  # neighbours first: most are


class Work:
    """What an engine does at one instruction for a thread that knows `row`."""

    def __init__(self, watch: Watch, thread: int, row: Known) -> None:
        self._watch, self._thread, self._row = watch, thread, row
        self._reads: list[Touch] = []
        self._writes: list[Touch] = []

    def reads(self, access: Access, place: Place) -> None:
        """It is going to read."""
        touch = self._touch(access, place)
        if touch is not None:
            self._check(touch)
            touch.shadow.hold(touch.where, 1, each_once=True)
            self._watch.holding.append(touch)
            self._reads.append(touch)

    def writes(self, access: Access, place: Place) -> None:
        """It is going to write."""
        touch = self._touch(access, place)
        if touch is not None:
            self._check(touch)
            touch.shadow.pair(access.kind)[0][touch.where] = touch.mine
            self._writes.append(touch)

    def end_reads(self, record: int) -> None:
        """It has read; `record` is who may be known to have done it, without a stamp."""
        for touch in self._reads:
            touch.shadow.hold(touch.where, -1, each_once=True)
            self._watch.holding = [other for other in self._watch.holding if other is not touch]
            mine = np.full(len(touch.where), record | self._stamp(touch.access) << SHIFT)
            before = touch.shadow.pair("read")[0].take(touch.where)
            touch.shadow.note("read", touch.where, mine)
            touch.shadow.keep("read", touch.where, before)
        self._reads = []

    def end_writes(self, record: int, home: int | None = None) -> None:
        """It has written, all or one of the places."""
        for number, touch in enumerate(self._writes):
            if home is None or home == number:
                records = touch.shadow.pair(touch.access.kind)[0]
                own = touch.where[records.take(touch.where) == touch.mine]
                records[own] = record | self._stamp(touch.access) << SHIFT

    def _stamp(self, access: Access) -> int:
        history = self._watch.history
        stamp = history.clock.stamp(access)
        history.issuers[stamp] = int(self._watch.ids[self._thread])
        return stamp

    def _touch(self, access: Access, place: Place) -> Touch | None:
        watch = self._watch
        shadow = watch.shadow(place.home)
        if shadow is None or not len(place.position):
            return None
        where = place.granules(shadow)
        number = len(watch.history.copies)
        watch.history.copies.append(access)
        mine = np.full(len(where), PENDING | number << SHIFT | COLLECTIVE | int(watch.ids[self._thread]))
        part = Cells(_NOTHING, where, None, place.home)
        return Touch(access, part, shadow, np.full(len(where), self._thread), where, mine, 1)

    def _check(self, touch: Touch) -> None:
        shadow, where = touch.shadow, touch.where
        if shadow.reserved is not None:
            self._watch.refuse_object(touch, shadow.reserved.take(where))
        for kind in CONFLICTS[touch.access.kind]:
            for table in (shadow.last, shadow.other):
                if kind in table:
                    self._beside(touch, kind, table[kind].take(where))
        if touch.access.writes and shadow.held is not None:
            self._watch.report(touch, self._watch.held(touch, shadow.held.take(where) > 0))

    def _beside(self, touch: Touch, kind: str, records: Records) -> None:
        """Report records of one kind that are not ordered before the work."""
        bare = records == UNWRITTEN
        if bare.any() and touch.access.kind != "write":
            self._unwritten(touch, int(np.argmax(bare)))
        rows = np.flatnonzero((records > 0) & ~bare)
        records = records[rows]
        order, wrote = self._watch.order, kind in ("write", "atomic")
        late = order.unseen(self._thread, self._row, records, written=False)
        doubts = Doubts(kind, rows, touch.where[rows], records)
        self._watch.report(touch, doubts.only(late))
        if wrote and not late.all():
            stale = ~late & order.unseen(self._thread, self._row, records, written=True)
            stale &= ~self._by_engines(records)
            self._watch.report(touch, doubts.only(stale), _PROXY)

    def _by_engines(self, records: Records) -> NDArray[np.bool_]:
        """Which accesses need no proxy fence: engines made them, by the same proxy, or `cp.async` did.

        The ISA counts `cp.async` among the writes that need one; compilers (Triton, CUTLASS) go without.
        """
        clock = self._watch.history.clock
        stamps, inverse = np.unique(records >> SHIFT & STAMPS, return_inverse=True)
        known = [0 < stamp < clock.next and _without_fence(clock.access(stamp)) for stamp in stamps.tolist()]
        return np.array(known, np.bool_)[inverse]

    def _unwritten(self, touch: Touch, row: int) -> None:
        site, byte = touch.access.site, int(touch.where[row]) << touch.shadow.bits
        rows = touch.part.home
        assert isinstance(rows, Rows)
        what = f"{touch.access.what} at shared address {byte % rows.stride:#x}, which nobody wrote"
        raise site.fault(UninitializedError, what, self._watch.frame, self._thread)


def _without_fence(access: Access) -> bool:
    return access.asynchronous or access.site.instruction.opcode.startswith("cp.async")


def check_end(watch: Watch, block: int, location: Location) -> None:
    """A block of a cluster ends, and its memory with it: what other blocks did there must be ordered before that."""
    frame, shadow = watch.frame, watch.shared
    threads = np.arange(block * frame.threads, (block + 1) * frame.threads)
    row = watch.order.known(threads).max(0)
    first, count = block * frame.shared.stride >> shadow.bits, frame.shared.stride >> shadow.bits
    for table in (shadow.last, shadow.other):
        for each in table.values():
            records = each[first : first + count]
            plain = (records > 0) & (records < ENGINE)
            foreign = plain & (((records & THREAD) - watch.ids[0]) // frame.threads != block)
            late = np.flatnonzero(foreign)
            late = late[watch.order.unseen(int(threads[0]), row, records[late], written=False)]
            for number in late[:1].tolist():
                stamp, other = int(records[number]) >> SHIFT, int(records[number] & THREAD) - int(watch.ids[0])
                one = party(watch.history.clock.access(stamp), frame, other)
                end = Party("end of the block", location, frame.thread_of(0), frame.block_of(int(threads[0])))
                address = f"shared address {number << shadow.bits:#x}"
                watch.history.races.add(Race(address, end, one, "not ordered with"))
