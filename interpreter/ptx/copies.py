"""Asynchronous copies from global to shared memory: `cp.async`, its groups and its waits.

A copy reads its source and writes its target at any moment between the instruction and a wait that covers it. With
seed 0 that is the last moment, the wait; other seeds draw an earlier one for some. Until a thread has waited, what its
copies will write must not be read or written by anybody, and what they will read must not be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .access import Access
from .frame import Frame, Index
from .spaces import Cells, gathered, resolve, scatter
from .types import Array

if TYPE_CHECKING:
    from .watch import Touch

Threads = NDArray[np.intp]

_SOON = 0.25
"""How likely a copy is done before the next basic block runs."""


class Piece(NamedTuple):
    """A part of the sources: of the copies `rows`, the elements of an access from number `first` of their bytes on."""

    rows: Threads
    first: int
    access: Access
    cells: list[Cells]


class Copy:
    """One instruction's copies, one a thread.

    threads: of the frame. group: of each, which of its thread's groups it belongs to. destinations, sources: the
    addresses. target: the cells in shared memory. nbytes: how many bytes of each are read; zeros follow. landed,
    waited: which of them have been done, and waited for. written, held: what a watch has noted about them.
    """

    def __init__(
        self, read: Access, write: Access, frame: Frame, threads: Threads, group: NDArray[np.int32],
        destinations: Array, sources: Array, nbytes: NDArray[np.intp],
    ) -> None:  # fmt: skip
        self.read, self.write, self.threads, self.group = read, write, threads, group
        self.destinations, self.sources, self.nbytes = destinations, sources, nbytes
        self.landed = np.zeros(len(threads), np.bool_)
        self.waited = np.zeros(len(threads), np.bool_)
        self.target = resolve(write, "shared", frame, threads, destinations)
        self.pieces = list(self._pieces(frame))
        self.written: Touch | None = None
        self.held: list[tuple[Threads, Touch]] = []

    def _pieces(self, frame: Frame) -> Iterator[Piece]:
        """The sources that are read whole, and byte by byte those that are not."""
        octet = self.read.narrowed(np.dtype(np.uint8))
        full = self.nbytes == self.read.size
        partial = (self.nbytes > 0) & ~full
        wanted = [(0, full, self.read)]
        wanted += [(at, partial & (self.nbytes > at), octet) for at in range(self.read.size if partial.any() else 0)]
        for first, chosen, access in wanted:
            rows = np.flatnonzero(chosen)
            if len(rows):
                addresses = self.sources[rows] + np.uint64(first)
                yield Piece(rows, first, access, resolve(access, "global", frame, self.threads[rows], addresses))

    def land(self, rows: NDArray[np.bool_]) -> None:
        """Do some of the copies, unless they are done."""
        rows = rows & ~self.landed
        if not rows.any():
            return
        octets = np.zeros((len(self.threads), self.read.size), np.uint8)
        for piece in self.pieces:
            elements = octets.view(piece.access.dtype)
            for number in range(piece.access.count):
                elements[piece.rows, piece.first + number] = gathered(piece.cells, number, len(piece.rows))
        (cells,) = self.target
        chosen = cells._replace(position=cells.position[rows])
        for number, lane in enumerate(octets.view(self.write.dtype)[rows].T):
            scatter([chosen], number, lane)
        self.landed |= rows

    def same(self, first: Threads, second: Threads) -> NDArray[np.bool_]:
        """Whether pairs of the copies read the same bytes."""
        return (self.sources[first] == self.sources[second]) & (self.nbytes[first] == self.nbytes[second])


class Copies:
    """The copies of a frame that have not been waited for, in the order of their instructions."""

    def __init__(self, frame: Frame, seed: int) -> None:
        self._frame = frame
        self._groups = np.zeros(frame.count, np.int32)
        self._random = Random(seed) if seed else None
        self.pending: list[Copy] = []

    def issue(
        self, read: Access, write: Access, index: Index, destinations: Array, sources: Array, nbytes: NDArray[np.intp]
    ) -> None:
        """Threads start copies, each `read.size` bytes of which the first `nbytes` are read and the rest are zeros."""
        frame = self._frame
        threads = frame.indices(index)
        copy = Copy(read, write, frame, threads, self._groups[threads], destinations, sources, nbytes)
        if frame.watch is not None:
            frame.watch.begin_copy(copy)
        self.pending.append(copy)

    def commit(self, index: Index) -> None:
        """What threads have started since their last commit becomes a group."""
        self._groups[slice(None) if index is None else index] += 1

    def wait(self, index: Index, leave: int | None) -> None:
        """Threads wait for all their groups but the last `leave`; None stands for everything, committed or not."""
        if not self.pending:
            return
        frame = self._frame
        waits = np.zeros(frame.count, np.bool_)
        waits[slice(None) if index is None else index] = True
        last = self._groups + 1 if leave is None else self._groups - leave
        for copy in self.pending:
            rows = waits[copy.threads] & (copy.group < last[copy.threads]) & ~copy.waited
            if rows.any():
                copy.land(rows)
                copy.waited |= rows
                if frame.watch is not None:
                    frame.watch.end_copy(copy, rows)
        self.pending = [copy for copy in self.pending if not copy.waited.all()]

    def drift(self) -> None:
        """Time passes: by the luck of the seed some copies are done."""
        if self._random is not None:
            for copy in self.pending:
                if self._random.random() < _SOON:
                    copy.land(np.ones(len(copy.threads), np.bool_))
