"""What orders threads besides barriers: a release by one, and an acquire by another that may have seen it.

A strong write with release semantics, or one behind a fence, publishes all that its thread did and knew before. A
strong read with acquire semantics, or one with a fence behind it, learns of what was published; barriers pass that on.
This is coarser than the rest: whoever acquires at a place where something was released learns of everything that had
been published anywhere by then. It may miss a race in a kernel with several flags, and never reports one too many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .frame import Frame
from .shadow import Records

Threads = NDArray[np.intp]


class Published:
    """What the threads of earlier frames had published: for each block of the grid the latest stamp of any thread."""

    def __init__(self, blocks: int) -> None:
        self.stamps = np.zeros(blocks, np.int64)


class Messages:
    """What the threads of a frame have published and learned, a stamp for each thread.

    published: what the thread did before it can be learned. learned: what was published before it is ordered before
    what the thread does next. seen: what a fence will add to that. fenced: whether the thread has passed a fence;
    covered: what fences have made ready to be published.
    """

    def __init__(self, frame: Frame, earlier: Published) -> None:
        self._frame, self._earlier = frame, earlier
        self._published, self._learned, self._seen, self._covered = np.zeros((4, frame.count), np.int64)
        self._fenced = np.zeros(frame.count, np.bool_)

    def fence(self, threads: Threads, told: Records) -> None:
        """Threads pass a fence. `told`: for each thread of the frame what these know of it."""
        self._learned[threads] = np.maximum(self._learned[threads], self._seen[threads])
        self._fenced[threads] = True
        np.maximum(self._covered, told, out=self._covered)

    def release(self, told: Records) -> None:
        """Threads publish what they know."""
        np.maximum(self._published, told, out=self._published)

    def relax(self, threads: Threads) -> NDArray[np.bool_]:
        """Threads write without release semantics: which of them publish all the same, because of a fence."""
        fenced = self._fenced[threads]
        blocks = np.bincount(threads[fenced] // self._frame.threads, minlength=self._frame.blocks) > 0
        by_block = self._published.reshape(self._frame.blocks, -1)
        by_block[blocks] = np.maximum(by_block[blocks], self._covered.reshape(by_block.shape)[blocks])
        return fenced

    def acquire(self, threads: Threads, message: Records, at_once: bool) -> None:
        """Threads have read a place where the last message is so old; they learn it now, or at their next fence."""
        into = self._learned if at_once else self._seen
        into[threads] = np.maximum(into[threads], message)

    def meet(self, keys: Threads, threads: Threads) -> None:
        """Threads with the same key tell each other what they have learned."""
        most = np.zeros(int(keys.max(initial=0)) + 1, np.int64)
        np.maximum.at(most, keys, self._learned[threads])
        self._learned[threads] = most[keys]

    def ordered(self, threads: Threads, other: Threads, stamps: Records) -> NDArray[np.bool_]:
        """Where stamps of other threads, numbered from the first of the frame on, are ordered before threads."""
        inside = (other >= 0) & (other < self._frame.count)
        earlier = self._earlier.stamps[self._frame.first + other // self._frame.threads]
        published = np.where(inside, self._published[np.where(inside, other, 0)], earlier)
        return (stamps < self._learned[threads]) & (stamps < published)

    def end(self) -> None:
        """The frame's threads have ended."""
        first, blocks = self._frame.first, self._frame.blocks
        self._earlier.stamps[first : first + blocks] = self._published.reshape(blocks, -1).max(1)
