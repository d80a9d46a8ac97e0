"""The shared memory of programs: bytes, who wrote and read each of them since which barrier, and copies on their way.

An asynchronous copy reads and lands when it is waited for, not before: the latest moment that the instruction allows.
Until then its bytes are nobody's. What a thread wrote another thread may use after a barrier, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import Operation

from ..batch import Batch, Index
from ..errors import DistributionError

Ints = NDArray[np.int32]
#: In place of a thread: several of them.
MANY = -2
#: What a byte is that no copy is on its way to: settled, or never written.
SETTLED, POISON = 0, -1
#: What is kept for each byte of shared memory, in bytes.
KEPT = 21


@dataclass(slots=True, eq=False)
class Copy:
    """An asynchronous copy that has not landed: for which programs, into which bytes, and in which group of each.

    `fetch(batch, numbers)` reads what is copied, [program, byte], for the programs of a batch, by their `numbers` among
    those that the copy was started for.
    """

    operation: Operation
    rows: Index
    numbers: Index
    group: Ints
    cells: NDArray[np.intp]
    fetch: Callable[[BlockBatch, Index], NDArray[np.uint8]]

    def part(self, some: Index) -> Copy:
        """The copy for some of its programs."""
        rows, numbers = self.rows[some], self.numbers[some]
        return Copy(self.operation, rows, numbers, self.group[some], self.cells[some], self.fetch)


class SharedMemory:
    """The shared memory of each of `programs` programs, `nbytes` each. All arrays are [program, byte].

    group: the group of the copy that is on its way to a byte, SETTLED, or POISON. writer, written: the thread that
    wrote last, and how many barriers there had been. reader, read: the same of the last read.
    """

    def __init__(self, programs: int, nbytes: int) -> None:
        size = programs, -(-nbytes // 16) * 16
        self.bytes = np.zeros(size, np.uint8)
        self.group = np.full(size, POISON, np.int32)
        self.writer, self.written, self.reader, self.read = (np.full(size, -1, np.int32) for _ in range(4))
        self.barriers = np.zeros(programs, np.int32)
        self.committed = np.zeros(programs, np.int32)
        #: For the first byte of each buffer how often it was written, by which old values are told from new ones.
        self.versions: dict[int, NDArray[np.int64]] = {}
        self.copies: list[Copy] = []

    def wait(self, batch: BlockBatch, pending: int) -> None:
        """Land the copies of all but the last `pending` groups, for the programs of a batch."""
        position = np.full(len(self.bytes), -1)
        position[batch.rows] = np.arange(len(batch.rows))
        left: list[Copy] = []
        for copy in self.copies:
            lands = (position[copy.rows] >= 0) & (copy.group <= self.committed[copy.rows] - pending)
            if lands.any():
                self.land(copy.part(np.flatnonzero(lands)), batch, position)
            if not lands.all():
                left.append(copy.part(np.flatnonzero(~lands)))
        self.copies = left

    def land(self, copy: Copy, batch: BlockBatch, position: Index) -> None:
        """Read and write what is copied; `position` tells for each program where in the batch it is."""
        at = copy.rows[:, None], copy.cells
        self.bytes[at] = copy.fetch(batch.take(position[copy.rows]), copy.numbers)
        self.group[at], self.written[at] = SETTLED, self.barriers[at[0]]

    def finish(self, batch: BlockBatch) -> None:
        """The programs end. Raises DistributionError for a copy that was not waited for."""
        for copy in self.copies:
            what = "async_copy: the program ends, and has not waited for this copy"
            raise DistributionError(what, copy.operation.location, batch.program(int(copy.rows[0])))


@dataclass(slots=True, eq=False)
class BlockBatch(Batch):
    """Programs with their shared memory; row i of a value belongs to row `rows[i]` of that."""

    shared: SharedMemory = field(kw_only=True)
    rows: Index = field(kw_only=True)

    @classmethod
    def of(cls, batch: Batch, nbytes: int) -> BlockBatch:
        """A batch with new shared memory."""
        shared = SharedMemory(batch.count, nbytes)
        return cls(*_fields(batch), shared=shared, rows=np.arange(batch.count))

    def take(self, rows: Index) -> BlockBatch:
        return BlockBatch(*_fields(Batch.take(self, rows)), shared=self.shared, rows=self.rows[rows])


def _fields(batch: Batch) -> tuple[Any, ...]:
    return tuple(getattr(batch, each.name) for each in fields(Batch))


def exchange(operation: Operation, batch: Batch) -> None:
    """What an op with scratch memory does there: threads write, all wait, and threads read.

    The IR says where that memory begins and not where it ends, so that its first byte stands for it. Raises
    DistributionError if that byte is still in use.
    """
    scratch = operation.attributes.get("scratch", -1)
    assert isinstance(batch, BlockBatch) and isinstance(scratch, int)
    if scratch < 0:
        return
    shared, rows = batch.shared, batch.rows
    now = shared.barriers[rows]
    used = np.maximum(shared.written[rows, scratch], shared.read[rows, scratch]) == now
    for wrong, why in (
        (shared.group[rows, scratch] > SETTLED, "a copy is on its way to its shared memory"),
        (used, "its shared memory was used with no barrier since"),
    ):
        if wrong.any():
            what = f"{operation.name}: {why} (byte {scratch})"
            raise DistributionError(what, operation.location, batch.program(int(np.argmax(wrong))))
    shared.barriers[rows] = now + 1
    shared.read[rows, scratch], shared.reader[rows, scratch], shared.group[rows, scratch] = now + 1, MANY, POISON
