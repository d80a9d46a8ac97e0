"""What is checked about every access to shared and global memory.

Two accesses of different threads to the same byte, one of them a write and not both of them strong, must be ordered by
barriers; between blocks, where barriers order nothing, by messages. Strong is only what is so for both threads, which
other scopes and widths are not. A write of the value that is there already counts as harmless: threads that hold copies
of one element may all store it. See `order` for what orders, `shadow` for what is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MemoryAccessError
from ..memory import Buffer
from .access import GRID, Access
from .copies import Copy
from .errors import UninitializedError
from .frame import Frame, Index
from .history import History
from .order import Order
from .races import Race, party
from .scopes import left_out, of_other_width, stores
from .shadow import COLLECTIVE, PENDING, SHIFT, STAMPS, THREAD, UNWRITTEN, Records, Shadow, firsts
from .spaces import Cells, Rows, element_of, gathered
from .stack import Stack
from .taint import Holes
from .traffic import Traffic
from .types import Array

CONFLICTS = {
    "read": ("write", "atomic"),
    "peek": ("write",),
    "write": ("write", "atomic", "read", "peek"),
    "atomic": ("write", "read"),
}
"""For each kind of access the kinds that it must be ordered with."""
APART = {"peek": ("atomic",), "atomic": ("atomic", "peek")}
"""For each kind of strong access the kinds that it must be ordered with where one leaves the other out."""

_UNORDERED = "not ordered with"
_IN_FLIGHT = "without a wait for"
_SCOPE = "which a scope keeps apart from"
_WIDTH = "which is not of the very same bytes, and so not strong beside"
_CONSTANT = "whose bytes must not change in this launch, beside"
Mask = NDArray[np.bool_]
Threads = NDArray[np.intp]


class Touch(NamedTuple):
    """One instruction's accesses to one piece of memory: by which threads, to which granules, as which records."""

    access: Access
    part: Cells
    shadow: Shadow
    threads: Threads
    where: Array
    mine: Records
    limit: int | Records

    @property
    def late(self) -> int | Records:
        """`limit`, to stand beside the granules."""
        return self.limit if isinstance(self.limit, int) else _wide(self.limit, self.where)


class Doubts(NamedTuple):
    """Accesses (rows of a touch, and which of their granules) beside records that may not be ordered before them."""

    kind: str
    rows: Threads
    granules: Records
    records: Records

    def only(self, chosen: Mask) -> Doubts:
        """Some of them."""
        return Doubts(self.kind, self.rows[chosen], self.granules[chosen], self.records[chosen])


class Watch:
    """The checks of a frame. `holding`: what engines are going to read."""

    def __init__(self, frame: Frame, history: History, traffic: Traffic) -> None:
        self.frame, self.history, self._traffic = frame, history, traffic
        self.order = Order(frame, history.clock, history.published)
        self.ids = frame.number + frame.first * frame.threads
        self.shared = Shadow(len(frame.shared.bytes), history.bits["shared"], unwritten=True)
        self.stack = Stack(frame)
        self.holding: list[Touch] = []

    def load(self, access: Access, cells: list[Cells], index: Index, addresses: Array) -> None:
        """Check reads, one for each address, or all of a single one."""
        self.stack.load(access, cells, index)
        for touch in self._touches(access, cells, index, addresses):
            for doubts in self._doubts(touch):
                self.report(touch, doubts)
            self._remember(touch)

    def store(
        self, access: Access, cells: list[Cells], index: Index, addresses: Array, values: Sequence[Array]
    ) -> list[Touch]:
        """Check writes that are about to be done; `stored` wants the result."""
        self.stack.store(access, cells, index)
        touches = list(self._touches(access, cells, index, addresses))
        for touch in touches:
            for doubts in self._doubts(touch):
                self.report(touch, self._changed(touch, doubts, values) if len(doubts.rows) else doubts)
        return touches

    def _changed(self, touch: Touch, doubts: Doubts, values: Sequence[Array]) -> Doubts:
        """Those without writes that meet other writes of what is there already, which are kept beside them."""
        if doubts.kind == "scope":
            written = stores(self.history.clock, doubts.records)
            return doubts.only(~written | self._differ(touch, doubts.rows, values))
        if doubts.kind != "write":
            return doubts
        wrong = (doubts.records >= PENDING) | self._differ(touch, doubts.rows, values)
        same = doubts.only(~wrong)
        touch.shadow.keep("write", same.granules, same.records)
        return doubts.only(wrong)

    def stored(self, touches: list[Touch], values: Sequence[Array]) -> None:
        """Remember writes that have been done, and report where threads met at one byte with different values."""
        for touch in touches:
            if touch.access.kind == "atomic":
                self._remember(touch)
                touch.shadow.fill(touch.where)
                continue
            lost = self._write(touch, touch.mine)
            if len(lost.rows):
                self.report(touch, lost.only(self._differ(touch, lost.rows, values)))

    def update(self, access: Access, cells: list[Cells], index: Index, addresses: Array) -> None:
        """Check atomic operations that are about to be done."""
        for touch in self._touches(access, cells, index, addresses):
            for doubts in self._doubts(touch):
                self.report(touch, doubts)
            self._remember(touch)
            writes = touch.shadow.last["write"]
            bare = writes.take(touch.where) == UNWRITTEN
            if bare.any():
                self._update_bare(touch, bare)
                self._holes(touch, bare & _wide(firsts(touch.where), touch.where))
                touch.shadow.fill(touch.where)

    def _update_bare(self, touch: Touch, bare: Mask) -> None:
        """Raise an UninitializedError for an atomic operation on unwritten bytes, if it computes with them."""
        access, site = touch.access, touch.access.site
        if "exch" not in site.instruction.opcode.split("."):
            thread = int(touch.threads[np.nonzero(bare)[0][0]])
            what = f"{access.verb} {access.size} bytes of shared memory that nobody wrote"
            raise site.fault(UninitializedError, what, self.frame, thread)

    def begin_copy(self, copy: Copy) -> None:
        """Check asynchronous copies that begin: from now on nobody may touch their targets or write their sources."""
        history, number = self.history, len(self.history.copies)
        history.copies.append(copy.write)
        for piece in copy.pieces:
            for touch in self._touches(piece.access, piece.cells, copy.threads[piece.rows], copy.sources[piece.rows]):
                for doubts in self._doubts(touch):
                    self.report(touch, doubts)
                touch.shadow.hold(touch.where, 1)
                copy.held.append((piece.rows if touch.part.chosen is None else piece.rows[touch.part.chosen], touch))
        (touch,) = self._touches(copy.write, copy.target, copy.threads, copy.destinations)
        for doubts in self._doubts(touch):
            self.report(touch, doubts)
        lost = self._write(touch, self.ids[copy.threads] + (PENDING | number << SHIFT | COLLECTIVE))
        if len(lost.rows):
            winners = np.searchsorted(copy.threads, (lost.records & THREAD) - self.ids[0])
            self.report(touch, lost.only(~copy.same(lost.rows, winners)))
        copy.written = touch

    def end_copy(self, copy: Copy, waited: Mask) -> None:
        """Some of the copies have been waited for: as if their threads had read and written just now."""
        touch, clock = copy.written, self.history.clock
        assert touch is not None
        mine = self.ids[copy.threads] + (clock.stamp(copy.write) << SHIFT)
        touch.shadow.last["write"][touch.where[waited]] = _wide(mine, touch.where)[waited]
        mine = self.ids[copy.threads] + (clock.stamp(copy.read) << SHIFT)
        for rows, held in copy.held:
            chosen = waited[rows]
            where = held.where[chosen]
            held.shadow.hold(where, -1)
            self._remember(held._replace(threads=held.threads[chosen], where=where, mine=mine[rows][chosen]))

    def _touches(self, access: Access, cells: list[Cells], index: Index, addresses: Array) -> Iterator[Touch]:
        mine: Records | None = None
        for part in cells:
            shadow = self.shadow(part.home)
            threads = index if part.chosen is None else self.frame.indices(index)[part.chosen]
            self._count(access, part, threads, addresses)
            if shadow is None:
                continue
            if mine is None:
                stamp = self.history.clock.stamp(access) << SHIFT
                mine = self.ids + (stamp | COLLECTIVE if access.collective else stamp)
            if len(addresses) == 1 and part.chosen is None:
                part = part._replace(position=np.broadcast_to(part.position, self.frame.size(index)))
            own = mine if threads is None else mine[threads]
            limit = self.order.limit(threads) if shadow is self.shared and self.frame.cluster == 1 else 1
            yield Touch(access, part, shadow, self.frame.indices(threads), shadow.granules(access, part), own, limit)

    def _count(self, access: Access, part: Cells, threads: Index, addresses: Array) -> None:
        """Add an access to the traffic."""
        addresses = addresses if part.chosen is None else addresses[part.chosen]
        if isinstance(part.home, Buffer):
            self._traffic.touch_global(access.number, self.frame, threads, addresses)
        elif part.home is self.frame.shared:
            self._traffic.touch_shared(access.number, access.size, self.frame, threads, addresses)

    def shadow(self, home: Buffer | Rows) -> Shadow | None:
        """The records of a piece of memory; None for what cannot race."""
        if isinstance(home, Buffer):
            return None if home.readonly else self.history.shadow(home)
        return self.shared if home is self.frame.shared else None

    def _doubts(self, touch: Touch) -> Iterator[Doubts]:
        """The records that a touch conflicts with and that are not ordered before it."""
        limit = touch.late
        if touch.shadow.reserved is not None and not touch.access.object:
            self.refuse_object(touch, touch.shadow.reserved.take(touch.where))
        for kind in CONFLICTS[touch.access.kind]:
            last, other = touch.shadow.last.get(kind), touch.shadow.other.get(kind)
            if last is None:
                continue
            found = last.take(touch.where)
            late = found >= limit
            if not late.any():
                continue
            yield self._unordered(touch, kind, late, found)
            if other is not None:
                yield self._unordered(touch, kind, late, other.take(touch.where))
        if touch.access.writes and touch.shadow.held is not None:
            yield self.held(touch, touch.shadow.held.take(touch.where) > 0)
        for kind in APART.get(touch.access.kind, ()) if self.history.narrow else ():
            for table in (touch.shadow.last, touch.shadow.other):
                if kind in table:
                    found = table[kind].take(touch.where)
                    yield self._left_out(touch, self._unordered(touch, kind, found >= touch.late, found))

    def _left_out(self, touch: Touch, doubts: Doubts) -> Doubts:
        """Those that a scope or width keeps apart from the touch."""
        threads = touch.threads[doubts.rows]
        out = left_out(self.frame, self.history.clock, touch.access, threads, doubts.records)
        return doubts.only(out)._replace(kind="scope")

    def _unordered(self, touch: Touch, kind: str, late: Mask, found: Records) -> Doubts:
        access = touch.access
        doubts = Doubts(kind, np.nonzero(late)[0], touch.where[late], found[late])
        if kind == "write":
            bare = doubts.records == UNWRITTEN
            if bare.any():
                if not access.writes and not access.object:
                    self._holes(touch, late & (found == UNWRITTEN))
                doubts = doubts.only(~bare)
        if access.constant:
            return doubts
        threads = touch.threads[doubts.rows]
        return doubts.only(self.order.unordered(threads, doubts.records, access.collective) & (doubts.records > 0))

    def _holes(self, touch: Touch, bare: Mask) -> None:
        """Tell the frame which bytes of a load were never written."""
        access = touch.access
        octets = bare.reshape(len(bare), -1).repeat(1 << touch.shadow.bits, axis=1)[:, : access.size]
        rows = np.logical_or.reduce(octets, axis=1)
        self.frame.holes.append(Holes(access, "shared", touch.threads[rows], octets[rows] * np.uint8(0xFF)))

    def refuse_object(self, touch: Touch, inside: Mask) -> None:
        """Raise a MemoryAccessError for an access to an mbarrier by other instructions than its own."""
        if inside.any():
            row = int(np.nonzero(inside)[0][0])
            granule = int(touch.where[inside][0])
            what = f"{touch.access.what} at {self._address(touch, granule)}, where an mbarrier is"
            raise touch.access.site.fault(MemoryAccessError, what, self.frame, int(touch.threads[row]))

    def held(self, touch: Touch, held: Mask) -> Doubts:
        """Writes to what a copy in flight has yet to read."""
        rows, granules = np.nonzero(held)[0], touch.where[held]
        records = np.zeros(len(rows), np.int64)
        for copy in self.frame.copies.pending if len(rows) else ():
            for _, source in copy.held:
                if source.shadow is touch.shadow:
                    owner = dict(zip(source.where.reshape(-1).tolist(), _spread(source).tolist(), strict=True))
                    found = np.array([owner.get(granule, 0) for granule in granules.tolist()], np.int64)
                    records = np.where(found > 0, found, records)
        for source in self.holding if len(rows) else ():
            if source.shadow is touch.shadow:
                records = np.where(np.isin(granules, source.where), source.mine[0], records)
        return Doubts("source", rows, granules, records).only(records > 0)

    def _differ(self, touch: Touch, rows: Threads, values: Sequence[Array]) -> Mask:
        """Where writes of some rows of a touch are not what is in memory."""
        part = touch.part._replace(position=touch.part.position[rows], chosen=None)
        chosen = rows if touch.part.chosen is None else touch.part.chosen[rows]
        differ = np.zeros(len(rows), np.bool_)
        for number, value in enumerate(values):
            differ |= gathered([part], number, len(rows)) != (value if len(value) == 1 else value[chosen])
        return differ

    def _remember(self, touch: Touch) -> None:
        """Remember accesses that are not plain writes; strong ones talk by that."""
        access, shadow, where = touch.access, touch.shadow, touch.where
        last, other = shadow.pair(access.kind)
        old = last.take(where)
        late = old >= touch.late
        before = (old[late], other[where[late]]) if late.any() else ()
        shadow.note(access.kind, where, _wide(touch.mine, where))
        if access.reach < GRID and access.kind == "atomic":  # of those that meet at one place one is the last
            met = last.take(where)
            self.report(touch, self._left_out(touch, Doubts("", np.nonzero(met)[0], where[met > 0], met[met > 0])))
        for records in before:
            apart = self.order.unordered(touch.threads[np.nonzero(late)[0]], records)
            shadow.keep(access.kind, where[late][apart], records[apart])
        if access.kind in ("atomic", "peek"):
            self._talk(touch)

    def _talk(self, touch: Touch) -> None:
        """What strong accesses learn and tell at their places."""
        access, shadow, where, threads = touch.access, touch.shadow, touch.where, touch.threads
        if access.updates or not access.writes:
            self.order.hear(threads, shadow.received(where), access)
        for reach, sends in enumerate(self.order.write(threads, access)) if access.writes else ():
            if sends.any():
                shadow.send(reach, where[sends], self.history.clock.next)
        if access.updates:  # of those that meet at one place the others find what the first has released
            rest = np.flatnonzero(~firsts(where))
            self.order.hear(threads[rest], shadow.received(where[rest]), access)

    def _write(self, touch: Touch, records: Records) -> Doubts:
        """Remember writers; those whose record another thread of the same instruction replaced."""
        mine = _wide(records, touch.where)
        writes = touch.shadow.last["write"]
        writes[touch.where] = mine
        back = writes.take(touch.where)
        lost = back != mine
        doubts = Doubts("write", np.nonzero(lost)[0], touch.where[lost], back[lost])
        if len(doubts.rows):
            touch.shadow.keep("write", doubts.granules, records[doubts.rows])
        return doubts

    def report(self, touch: Touch, doubts: Doubts, because: str = "") -> None:
        """Keep one race for each pair of instructions; `because` says what is missing if it is not the usual."""
        if not len(doubts.rows):
            return
        stamps, firsts = np.unique(doubts.records >> SHIFT, return_index=True)
        for stamp, at in zip(stamps.tolist(), firsts.tolist(), strict=True):
            row, thread = int(doubts.rows[at]), int(doubts.records[at] & THREAD)
            if stamp < PENDING >> SHIFT:
                stamp &= STAMPS
                thread = self.history.issuers.get(stamp, thread)
            thread -= int(self.ids[0])
            access, why = self._first(touch, doubts.kind, stamp)
            first, second = party(access, self.frame, thread), party(touch.access, self.frame, int(touch.threads[row]))
            self.history.races.add(Race(self._address(touch, int(doubts.granules[at])), second, first, because or why))

    def _first(self, touch: Touch, kind: str, stamp: int) -> tuple[Access, str]:
        """The access that a stamp stands for, and what is wrong about coming after it."""
        if stamp >= PENDING >> SHIFT:
            return self.history.copies[stamp - (PENDING >> SHIFT)], _IN_FLIGHT
        why = {"source": _IN_FLIGHT, "scope": _SCOPE}.get(kind, _CONSTANT if touch.access.constant else _UNORDERED)
        access = self.history.clock.access(stamp)
        return access, _WIDTH if kind == "scope" and of_other_width(touch.access, access) else why

    def _address(self, touch: Touch, granule: int) -> str:
        byte = granule << touch.shadow.bits
        home = touch.part.home
        if isinstance(home, Buffer):
            return element_of(home, byte + home.start // 16 * 16)
        return f"shared address {byte % home.stride:#x}"


def _wide(per_thread: Array, where: Array) -> Array:
    """Values of each thread, to stand beside the granules of each."""
    return per_thread if where.ndim == 1 else per_thread[:, None]


def _spread(touch: Touch) -> Records:
    """The record of each granule of a touch."""
    return np.broadcast_to(_wide(touch.mine, touch.where), touch.where.shape).reshape(-1)
