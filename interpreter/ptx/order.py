"""Which accesses of other threads come before what a thread does next: happens-before, from PTX order.

Every fact here is a stamp: "what those threads did before it is ordered before me". Barriers of a whole block and of
whole warps are by far the most common, so each block and each warp has one such stamp. Where others meet (counted and
partial barriers, masks of some lanes) a matrix follows, with one stamp for each pair of threads of a block. Releases
and acquires are the business of `messages`. Threads that have exited count as having arrived everywhere. What runs
earlier in the emulator is not ordered by that; neither are the lanes of a warp that run together.

Hopper's engines copy and multiply beside the threads. What they did has slots in place of threads: one for each warp
group's products, the others for mbarriers. Where a program has them, and where blocks form clusters, a row of the
matrix has more columns: all threads of the cluster, the slots of its blocks, and once more the threads, up to which
stamp what they did has passed a proxy fence on its way here, as what an engine is to see of it must have. The last
column of every row has what messages have told from outside the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .access import GRID
from .fences import Fences, Known
from .frame import WARP, Frame, Index
from .messages import Messages, Published
from .shadow import COLLECTIVE, ENGINE, PENDING, SHIFT, STAMPS, THREAD, Clock, Records

if TYPE_CHECKING:
    from .access import Access

Threads = NDArray[np.intp]

SLOTS = 64
"""Slots of a block."""
GROUPS = 8
"""How many of them are those of warp groups; mbarriers share the others."""


class Arrival(NamedTuple):
    """Threads that arrived at the barriers `keys` and went on: what they knew then."""

    keys: Threads
    known: Known

    def only(self, chosen: NDArray[np.bool_]) -> Arrival:
        """Some of the threads."""
        return Arrival(self.keys[chosen], self.known[chosen])


class Order:
    """What the threads of a frame know of each other."""

    def __init__(self, frame: Frame, clock: Clock, published: Published) -> None:
        self._frame, self._clock = frame, clock
        self._published = published
        self._messages: Messages | None = None
        self._blocks = np.zeros(frame.blocks, np.int64)
        self._warps: NDArray[np.int64] | None = None
        self._told: list[Known] = []
        self._pairs: Known | None = None
        self._even: int | None = 0
        self._limits: Records | None = None
        self._first = frame.first * frame.threads
        self._warps_each = -(-frame.threads // WARP)
        self._cluster = frame.cluster
        self._span = frame.cluster * frame.threads
        self._slots = frame.cluster * SLOTS if frame.program.asynchronous else 0
        self.width = self._span + (self._slots + self._span if self._slots else 0) + 1
        self._wide = self.width > frame.threads + 1
        self.fences = Fences(frame, self.width) if frame.program.relaxed else None

    def limit(self, threads: Threads | None) -> int | Records:
        """Records of one's own block below this are ordered: one for all, or one a thread."""
        if self._even is not None:
            return self._even << SHIFT
        if self._limits is None:
            self._limits = np.repeat(self._blocks << SHIFT, self._frame.threads)
        return self._limits if threads is None else self._limits[threads]

    def unordered(self, threads: Threads, records: Records, collective: bool = False) -> NDArray[np.bool_]:
        """Where a record is another thread's, and not ordered before what the thread beside it does next."""
        if self._slots:
            engines = (records & ENGINE != 0) & (records < PENDING)
            if engines.any():
                late = self._engines_late(threads, records)
                rest = ~engines
                late[rest] = self.unordered(threads[rest], records[rest], collective)
                return late
        other, stamp = (records & THREAD) - self._first, records >> SHIFT
        each = self._frame.threads
        block = threads // each
        near = other // each == block
        seen = np.where(near, self._blocks[block], 0)
        if self._warps is not None:
            warp = self._warp(threads)
            seen = np.maximum(seen, np.where(near & (self._warp(other) == warp), self._warps[warp], 0))
        if self._pairs is not None:
            close = other // self._span == threads // self._span
            seen = np.maximum(seen, np.where(close, self._pairs[threads, other % self._span], 0))
        late = stamp >= seen
        if self._messages is not None:
            late &= ~self._messages.ordered(threads, other, stamp)
        return late if collective else late & ((other != threads) | (records & COLLECTIVE != 0))

    def _engines_late(self, threads: Threads, records: Records) -> NDArray[np.bool_]:
        """The same for records of engines; what is none counts as one."""
        slot, stamp = (records & THREAD) - self._frame.first * SLOTS, records >> SHIFT & STAMPS
        close = slot // self._slots == threads // self._span
        late = np.ones(len(records), np.bool_)
        if self._pairs is not None:
            late &= ~close | (stamp >= self._pairs[threads, self._span + slot % self._slots])
        if self._messages is not None:
            late &= close | ~self._messages.ordered_blocks(threads, slot // SLOTS, stamp)
        return late

    def whole(self, blocks: NDArray[np.bool_] | None = None) -> None:
        """All threads of these blocks, or of every block, have met."""
        now = self._clock.next
        if blocks is not None:
            alive = self._frame.alive.reshape(self._frame.blocks, -1).any(1)
            blocks = None if not (alive & ~blocks).any() else blocks
        if blocks is None:
            self._blocks[:] = now
            self._even = now
        else:
            self._blocks[blocks] = now
            self._even = self._limits = None
        if self._wide and self._pairs is not None:
            rows = self._pairs.reshape(self._frame.blocks, -1, self.width)
            chosen = np.arange(len(rows)) if blocks is None else np.flatnonzero(blocks)
            rows[chosen] = rows[chosen].max(1, keepdims=True)
        if self._messages is not None:
            threads = self._frame.number
            threads = threads if blocks is None else threads[np.repeat(blocks, self._frame.threads)]
            self._messages.meet(threads // self._frame.threads, threads)

    def meet(self, keys: Threads, threads: Threads, arrivals: Sequence[Arrival]) -> None:
        """Threads leave the barriers `keys` (the block times 16 plus the number), where some arrived and went on."""
        frame = self._frame
        present = np.bincount(keys)
        alive = frame.alive.reshape(frame.blocks, -1).sum(1)
        whole = present == alive[np.arange(len(present)) // 16]
        for arrival in arrivals:
            whole[arrival.keys[arrival.keys < len(whole)]] = False
        whole &= present > 0
        if whole.any():
            self.whole(np.bincount(np.flatnonzero(whole) // 16, minlength=frame.blocks) > 0)
        part = ~whole[keys]
        if part.any():
            self._join(keys[part], threads[part], arrivals)

    def warps(self, threads: Threads | None, masks: Records) -> None:
        """Threads meet those of their warp that their masks name."""
        frame, now = self._frame, self._clock.next
        if self._warps is None:
            self._warps = np.zeros(frame.blocks * self._warps_each, np.int64)
        if threads is None and self._pairs is None and (masks == masks[0]).all():
            self._warps[:] = now
            if self._messages is not None:
                self._messages.meet(self._warp(frame.number), frame.number)
            return
        threads = frame.number if threads is None else threads
        warp = self._warp(threads)
        here = np.bincount(warp, minlength=len(self._warps))
        alive = np.bincount(self._warp(np.flatnonzero(frame.alive)), minlength=len(self._warps))
        lowest, highest = np.full(len(here), masks.max()), np.zeros(len(here), masks.dtype)
        np.minimum.at(lowest, warp, masks)
        np.maximum.at(highest, warp, masks)
        whole = (here == alive) & (lowest == highest)
        self._warps[whole & (here > 0)] = now
        if self._messages is not None:
            self._messages.meet(warp[whole[warp]], threads[whole[warp]])
        part = np.ones(len(warp), np.bool_) if self._pairs is not None else ~whole[warp]
        if part.any():
            _, keys = np.unique(warp[part] << 32 | masks[part].astype(np.int64), return_inverse=True)
            self._join(keys, threads[part], ())

    def known(self, threads: Threads) -> Known:
        """What threads know now, themselves included."""
        frame, now = self._frame, self._clock.next
        each = frame.threads
        rows = np.zeros((len(threads), self.width), np.int32) if self._pairs is None else self._pairs[threads]
        place = threads // each % self._cluster
        for rank in range(self._cluster):
            here = place == rank if self._cluster > 1 else slice(None)
            own = rows[here, rank * each : (rank + 1) * each]
            own = np.maximum(own, self._blocks[threads[here] // each].astype(np.int32)[:, None])
            if self._warps is not None:
                warp = self._warp(threads[here])
                same = np.arange(each) // WARP == (warp % self._warps_each)[:, None]
                own = np.maximum(own, np.where(same, self._warps[warp].astype(np.int32)[:, None], 0))
            rows[here, rank * each : (rank + 1) * each] = own
        if self._messages is not None:
            rows[:, : self._span] = np.maximum(rows[:, : self._span], self._messages.known(threads))
            rows[:, -1] = self._messages.learned(threads)
        rows[np.arange(len(threads)), threads % self._span] = now
        return rows

    def learn(self, threads: Threads, rows: Known) -> None:
        """Threads learn what rows, or a single one, say."""
        matrix = self._matrix()
        matrix[threads] = np.maximum(matrix[threads], rows)
        if self._messages is not None:
            self._messages.learn(threads, rows[..., -1])

    def advance(self, threads: Threads, slots: Threads | int) -> None:
        """Threads know all that the engines of slots, numbered through the frame, have done."""
        self._matrix()[threads, self._span + slots % self._slots] = self._clock.next

    def fence_proxy(self, index: Index) -> None:
        """All that threads know has passed a proxy fence."""
        threads = self._frame.indices(index)
        rows = self.known(threads)
        matrix, passed = self._matrix(), slice(self._span + self._slots, -1)
        matrix[threads, passed] = np.maximum(matrix[threads, passed], rows[:, : self._span])

    def engine(self, slot: int) -> int:
        """What records of a slot, numbered through the frame, have beside the stamp."""
        return ENGINE | slot + self._frame.first * SLOTS

    def column(self, slot: int) -> int:
        """The column of a slot."""
        return self._span + slot % self._slots

    def unseen(self, thread: int, row: Known, records: Records, written: bool) -> NDArray[np.bool_]:
        """Which records an engine at work for a thread, that knows `row`, must not stand beside.

        `written` says that they are writes: those of threads need a proxy fence.
        """
        late = np.ones(len(records), np.bool_)
        engines = (records & ENGINE != 0) & (records < PENDING)
        plain = (records < PENDING) & ~engines
        other, stamp = (records & THREAD) - self._first, records >> SHIFT & STAMPS
        close = plain & (other // self._span == thread // self._span)
        first = self._span + self._slots if written else 0
        late[close] = stamp[close] >= row[first + other[close] % self._span]
        slot = (records & THREAD) - self._frame.first * SLOTS
        close = engines & (slot // self._slots == thread // self._span)
        late[close] = stamp[close] >= row[self._span + slot[close] % self._slots]
        if self._messages is not None:
            block = np.where(engines, slot // SLOTS, other // self._frame.threads)
            far = (records < PENDING) & (block // self._cluster != thread // self._span)
            mine = np.full(len(records), thread)
            told = self._messages.ordered(mine, other, stamp)
            told[engines] = self._messages.ordered_blocks(mine, block, stamp)[engines]
            late[far] = ~told[far]
        return late

    def _matrix(self) -> Known:
        if self._pairs is None:
            self._pairs = np.zeros((self._frame.count, self.width), np.int32)
        return self._pairs

    @property
    def messages(self) -> Messages:
        """What has been published and learned; until it is asked for, nothing."""
        if self._messages is None:
            self._messages = Messages(self._frame, self._published)
        return self._messages

    def fence(self, index: Index, reach: int) -> None:
        """Threads pass a fence that reaches so far."""
        threads = self._frame.indices(index)
        if self.fences is not None:
            self.learn(threads, self.fences.awaited(threads, reach))
        self._recall(threads)
        heard = self.messages.fence(threads, self.told(threads), reach)
        if self._slots:
            self._hear(threads, heard)
            self._publish(threads, reach)
        self.prepare(threads, reach)

    def prepare(self, threads: Threads, reach: int) -> None:
        """What threads know may be told by relaxed arrivals, as a fence that reaches so far has it."""
        if self.fences is not None:
            self.fences.prepare(threads, self.known(threads), reach)

    def hear(self, threads: Threads, messages: Records, access: Access) -> None:
        """Threads have made a strong read of places where the last messages are so old: [reaches, threads]."""
        messages = messages[: access.reach + 1]
        if messages.any():
            self.messages.acquire(threads, messages, access.acquires)
            if self._slots and access.acquires:
                self._hear(threads, messages)

    def write(self, threads: Threads, access: Access) -> list[NDArray[np.bool_]]:
        """Threads make a strong write: which of them publish something by that, for each reach up to its own."""
        if access.releases:
            self._recall(threads)
            self.messages.release(threads, self.told(threads), access.reach)
            if self._slots:
                self._publish(threads, access.reach)
            sends = [np.ones(len(threads), np.bool_)] * (access.reach + 1)
        else:
            sends = [] if self._messages is None else self._messages.relax(threads, access.reach)
        if len(sends) > GRID and sends[GRID].any():
            self.messages.sent(threads[sends[GRID]], self._clock.next)
        return sends

    def _publish(self, threads: Threads, reach: int) -> None:
        """What threads know of engines and fences may be learned by others, as `messages` has it of threads."""
        spans = (self._frame.threads, self._span)
        if not self._told:
            self._told = [np.zeros((self._frame.count // span, self.width), np.int32) for span in spans]
        for told, span in zip(self._told[: reach + 1], spans, strict=False):
            np.maximum.at(told, threads // span, self._matrix()[threads])

    def _hear(self, threads: Threads, messages: Records) -> None:
        """Threads have heard messages of each reach: what has been published beside them."""
        beside = np.arange(self.width) >= self._span
        for told, message in zip(self._told, messages, strict=False):
            who = threads[message > 0]
            self.learn(who, np.where(beside, told[who // (self._frame.count // len(told))], 0))

    def _recall(self, threads: Threads) -> None:
        """Threads are about to publish: what they know of other blocks of their cluster goes with it."""
        if self._cluster > 1 and self._pairs is not None:
            each = self._frame.threads
            own = np.arange(self._span) // each == (threads // each % self._cluster)[:, None]
            self.messages.recall(threads, np.where(own, 0, self._pairs[threads, : self._span]))

    def end(self) -> None:
        """The threads have ended."""
        if self._messages is not None:
            self._messages.end()

    def told(self, threads: Threads) -> Records:
        """For each thread of the frame what some of these know of it; of themselves, all until now."""
        frame = self._frame
        found = np.zeros((frame.blocks, frame.threads), np.int64)
        block = threads // frame.threads
        here = np.bincount(block, minlength=frame.blocks) > 0
        found[here] = self._blocks[here][:, None]
        if self._pairs is not None:
            starts = np.flatnonzero(np.diff(block, prepend=-1))
            rows = np.maximum.reduceat(self._pairs[threads], starts, axis=0)
            rank = block[starts] % self._cluster * frame.threads
            own = np.take_along_axis(rows, rank[:, None] + np.arange(frame.threads), axis=1)
            found[here] = np.maximum(found[here], own)
        flat = found.reshape(-1)
        if self._warps is not None:
            warp = self._warp(frame.number)
            among = np.bincount(self._warp(threads), minlength=len(self._warps)) > 0
            np.maximum(flat, np.where(among, self._warps, 0)[warp], out=flat)
        flat[threads] = self._clock.next
        return flat

    def _join(self, keys: Threads, threads: Threads, arrivals: Sequence[Arrival]) -> None:
        """Threads with the same key learn what all of them, and those that arrived there, know."""
        rows = self.known(threads)
        wanted = np.unique(keys)
        givers = [Arrival(keys, rows)]
        givers += [arrival.only(np.isin(arrival.keys, wanted)) for arrival in arrivals]
        every = np.concatenate([giver.keys for giver in givers])
        order = np.argsort(every, kind="stable")
        starts = np.flatnonzero(np.diff(every[order], prepend=-1))
        joined = np.maximum.reduceat(np.concatenate([giver.known for giver in givers])[order], starts, axis=0)
        self.learn(threads, joined[np.searchsorted(wanted, keys)])

    def _warp(self, threads: Threads) -> Threads:
        """The warp of threads of the frame, numbered through it."""
        each = self._frame.threads
        return threads // each * self._warps_each + threads % each // WARP
