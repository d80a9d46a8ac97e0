"""What orders threads besides barriers: a release by one, and an acquire by another that may have seen it.

A strong write with release semantics, or one behind a fence, publishes all that its thread did and knew before. A
strong read with acquire semantics, or one with a fence behind it, learns of what was published; barriers pass that on.
A scope says who can learn: the threads of the block, of the cluster, or of the grid. Both sides must reach the other:
threads of different clusters learn of each other by wide releases, acquires and fences alone. What has been learned may
have come over any distance, though. Who publishes widely passes on what it learned narrowly, and who learns of a thread
in its block learns what that had learned from afar.

This is coarser than the rest: whoever acquires at a place where something was released learns of everything that had
been published anywhere, in that scope, by then. It may miss a race in a kernel with several flags, and never reports
one too many. Of threads that run what counts is what they have published by now; of blocks that have ended only what
their clusters had published when the message was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .access import CLUSTER, GRID
from .frame import Frame
from .shadow import Records

Mask = NDArray[np.bool_]
Threads = NDArray[np.intp]


class Published:
    """What the threads of earlier frames had published in the whole grid, and when their clusters did.

    The last is kept as sorted numbers: a cluster times 2**32, plus when one of its threads published something.
    """

    def __init__(self, blocks: int) -> None:
        self._blocks, self._cluster = blocks, 1
        self._stamps: NDArray[np.int32] | None = None
        self._times: list[Records] = []

    def add(self, frame: Frame, stamps: Records, times: list[Records]) -> None:
        """The threads of a frame have ended."""
        if self._stamps is None:
            self._stamps = np.zeros((self._blocks, frame.threads), np.int32)
        stamps = stamps.reshape(frame.blocks, -1)
        some = stamps.any(1)
        self._stamps[frame.first : frame.first + frame.blocks][some] = stamps[some]
        self._cluster = frame.cluster
        self._times.append(np.unique(np.concatenate(times)) if times else np.zeros(0, np.int64))

    def ordered(self, learned: Records, blocks: Threads, places: Threads | None, stamps: Records) -> Mask:
        """Which stamps of blocks' threads (by their places; None for any) had been published by what was learned."""
        if self._stamps is None:
            return np.zeros(len(stamps), np.bool_)
        if len(self._times) > 1:
            self._times = [np.concatenate(self._times)]
        of, times = blocks // self._cluster << 32, self._times[0]
        after = times.searchsorted(of | stamps, "right")
        known = after < len(times)
        known[known] = times[after[known]] <= (of | learned)[known]
        return known & (stamps < (self._stamps[blocks].max(1) if places is None else self._stamps[blocks, places]))


class _Reach:
    """What the threads of a frame have published to, and learned from, their group: so many (`span`) in a row.

    A stamp for each thread. published: what the thread did before it can be learned. learned: what was published before
    it is ordered before what the thread does next. seen: what a fence will add to that. fenced: whether the thread has
    passed a fence; covered: what fences have made ready to be published. relayed: for each group, what those of its
    threads that published had learned at each reach.
    """

    def __init__(self, frame: Frame, span: int) -> None:
        self.group = frame.number // span
        self.published, self.learned, self.seen, self.covered = np.zeros((4, frame.count), np.int64)
        self.fenced = np.zeros(frame.count, np.bool_)
        self.relayed = np.zeros((GRID + 1, frame.count // span), np.int64)

    def known(self, threads: Threads) -> Records:
        """For each thread of the frame what the threads have learned of it here."""
        most = np.zeros(self.relayed.shape[1], np.int64)
        np.maximum.at(most, self.group[threads], self.learned[threads])
        return np.minimum(self.published, most[self.group])


class Messages:
    """What the threads of a frame have published and learned, within blocks, within clusters, and in the whole grid."""

    def __init__(self, frame: Frame, earlier: Published) -> None:
        self._frame, self._earlier = frame, earlier
        self._cluster = frame.cluster * frame.threads
        self._times: list[Records] = []
        self._reaches = tuple(_Reach(frame, span) for span in (frame.threads, self._cluster, frame.count))

    def fence(self, threads: Threads, told: Records, reach: int) -> Records:
        """Threads pass a fence. `told`: for each thread of the frame what these know.

        The messages of each reach that they have seen and learn of now: [reaches, threads].
        """
        heard = []
        for number, each in enumerate(self._reaches[: reach + 1]):
            heard.append(each.seen[threads])
            self._learn(number, threads, heard[-1])
            each.seen[threads] = 0
            each.fenced[threads] = True
        for number, known in self._cumulated(threads, told, reach):
            covered = self._reaches[number].covered
            np.maximum(covered, known, out=covered)
        return np.array(heard)

    def release(self, threads: Threads, told: Records, reach: int) -> None:
        """Threads publish what they know."""
        for number, known in self._cumulated(threads, told, reach):
            published = self._reaches[number].published
            np.maximum(published, known, out=published)
            self._relay(number, threads)

    def relax(self, threads: Threads, reach: int) -> list[Mask]:
        """Threads write without release semantics: which of them publish at each reach, because of a fence."""
        sends = []
        for number, each in enumerate(self._reaches[: reach + 1]):
            fenced = each.fenced[threads]
            clusters = np.unique(threads[fenced] // self._cluster)
            published, covered = (x.reshape(-1, self._cluster) for x in (each.published, each.covered))
            published[clusters] = np.maximum(published[clusters], covered[clusters])
            self._relay(number, threads[fenced])
            sends.append(fenced)
        return sends

    def acquire(self, threads: Threads, messages: Records, at_once: bool) -> None:
        """Threads have read places where the last messages of each reach are so old; they learn now, or at a fence."""
        for number, message in enumerate(messages):
            seen = self._reaches[number].seen
            if at_once:
                self._learn(number, threads, message)
            else:
                seen[threads] = np.maximum(seen[threads], message)

    def meet(self, keys: Threads, threads: Threads) -> None:
        """Threads with the same key, of one block, tell each other what they have learned."""
        for each in self._reaches:
            most = np.zeros(int(keys.max(initial=0)) + 1, np.int64)
            np.maximum.at(most, keys, each.learned[threads])
            each.learned[threads] = most[keys]

    def ordered(self, threads: Threads, other: Threads, stamps: Records) -> Mask:
        """Where stamps of other threads, numbered from the first of the frame on, are ordered before threads."""
        inside = (other >= 0) & (other < self._frame.count)
        here = np.where(inside, other, 0)
        found = np.zeros(len(threads), np.bool_)
        if not inside.all():
            found[~inside] = self._ended(threads[~inside], other[~inside], stamps[~inside])
        for each in self._reaches:
            near = inside & (each.group[threads] == each.group[here])
            found |= near & (stamps < each.learned[threads]) & (stamps < each.published[here])
        return found

    def _ended(self, threads: Threads, other: Threads, stamps: Records) -> Mask:
        each, learned = self._frame.threads, self._reaches[GRID].learned[threads]
        return self._earlier.ordered(learned, self._frame.first + other // each, other % each, stamps)

    def ordered_blocks(self, threads: Threads, blocks: Threads, stamps: Records) -> Mask:
        """Where stamps of other clusters' blocks are ordered before threads, whichever of its threads each published.

        That is all there is to know of blocks that have ended, and of engines, which have no thread.
        """
        grid, frame = self._reaches[GRID], self._frame
        inside = (blocks >= 0) & (blocks < frame.blocks)
        here = grid.published.reshape(frame.blocks, -1).max(1)[np.where(inside, blocks, 0)]
        learned = grid.learned[threads]
        found = inside & (stamps < learned) & (stamps < here)
        found[~inside] = self._earlier.ordered(learned[~inside], frame.first + blocks[~inside], None, stamps[~inside])
        return found

    def known(self, threads: Threads) -> NDArray[np.int64]:
        """What threads have learned of each thread of their cluster: [threads, threads of a cluster]."""
        there = threads[:, None] // self._cluster * self._cluster + np.arange(self._cluster)
        found = np.zeros(there.shape, np.int64)
        for each in self._reaches:
            known = np.minimum(each.learned[threads][:, None], each.published[there])
            np.maximum(found, np.where(each.group[threads][:, None] == each.group[there], known, 0), out=found)
        return found

    def recall(self, threads: Threads, told: NDArray[np.int32]) -> None:
        """What threads know of others of their cluster by barriers is as if these had published it there.

        told: [threads, threads of a cluster]. Who hears from them must be able to learn it.
        """
        each, clusters = self._reaches[CLUSTER], threads // self._cluster
        np.maximum.at(each.published.reshape(-1, self._cluster), clusters, told)
        each.learned[threads] = np.maximum(each.learned[threads], told.max(1))

    def learned(self, threads: Threads) -> Records:
        """What threads have learned from anywhere."""
        return self._reaches[GRID].learned[threads]

    def learn(self, threads: Threads, stamps: NDArray[np.integer[Any]]) -> None:
        """Threads learn from others of their cluster what those have learned from anywhere."""
        learned = self._reaches[GRID].learned
        learned[threads] = np.maximum(learned[threads], stamps)

    def end(self) -> None:
        """The frame's threads have ended."""
        self._earlier.add(self._frame, self._reaches[GRID].published, self._times)

    def sent(self, threads: Threads, now: int) -> None:
        """Threads have published something in the whole grid."""
        self._times.append(np.unique(self._frame.first // self._frame.cluster + threads // self._cluster) << 32 | now)

    def _cumulated(self, threads: Threads, told: Records, reach: int) -> Iterator[tuple[int, Records]]:
        """What threads may tell at each reach up to one: what they were told of, and learned at those below."""
        for number, each in enumerate(self._reaches[: reach + 1]):
            yield number, told
            told = np.maximum(told, each.known(threads))

    def _relay(self, number: int, threads: Threads) -> None:
        """Threads publish at a reach: who hears of it learns what they have learned from farther away."""
        each = self._reaches[number]
        for wider in range(number + 1, GRID + 1):
            np.maximum.at(each.relayed[wider], each.group[threads], self._reaches[wider].learned[threads])

    def _learn(self, number: int, threads: Threads, message: Records) -> None:
        """Threads learn at a reach what was published before a message, if there was one (above 0)."""
        each = self._reaches[number]
        each.learned[threads] = np.maximum(each.learned[threads], message)
        for wider in range(number + 1, GRID + 1):
            learned = self._reaches[wider].learned
            relayed = np.where(message > 0, each.relayed[wider][each.group[threads]], 0)
            learned[threads] = np.maximum(learned[threads], relayed)
