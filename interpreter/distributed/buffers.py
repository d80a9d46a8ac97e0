"""What ops on buffers mean: a buffer is a range of bytes of shared memory, which all of its versions share.

The value of a buffer is [program, (first byte, version, stages)]. Who uses a version that is not the last one, a stage
that does not exist, bytes to which a copy is on its way or that were never written, or bytes of another thread with no
barrier in between, gets a DistributionError.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import Operation, TileType, Value, byte_width, element_of

from ..batch import Batch, Index
from ..errors import DistributionError
from ..meanings import Prepare, Runner
from ..meanings.buffers import part_of_stage
from ..meanings.memory import load
from ..meanings.tables import int_attribute
from ..values import Array, dense, storage, widened
from .moves import collect, meet, name_of, spread
from .places import Places, offsets_of, placed
from .shared import MANY, POISON, SETTLED, BlockBatch, Copy


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """How the elements of a buffer's stages lie in it: `cells[stage]` are their bytes, from the buffer's first."""

    operation: Operation
    buffer: Value
    size: int
    cells: NDArray[np.intp]

    @classmethod
    def of(cls, operation: Operation, buffer: Value) -> Stages:
        type_ = buffer.type
        assert isinstance(type_, TileType) and type_.layout is not None
        size = byte_width(type_.element)
        first = offsets_of(type_.layout).reshape(type_.shape[0], -1) * size
        cells = first[:, :, None] + np.arange(size)
        return cls(operation, buffer, size, cells.reshape(type_.shape[0], -1))

    def only(self, part: tuple[slice, ...]) -> Stages:
        """The stages cut down to a part of each."""
        type_ = self.buffer.type
        assert isinstance(type_, TileType)
        cells = self.cells.reshape(*type_.shape, self.size)[(slice(None), *part)]
        return replace(self, cells=cells.reshape(type_.shape[0], -1))

    def at(self, batch: BlockBatch, held: Array, index: Array) -> Access:
        """A stage of the newest version. Raises DistributionError."""
        base, version, stages = widened(held, batch.count).T
        stage = widened(index, batch.count)
        newest = np.array([batch.shared.versions[int(b)][row] for b, row in zip(base, batch.rows, strict=True)])
        self.refuse(batch, version != newest, "an older version than the last one is used")
        self.refuse(batch, (stage < 0) | (stage >= stages), "there is no such stage")
        return Access(self, batch, batch.rows[:, None], base[:, None] + self.cells[stage])

    def refuse(self, batch: Batch, wrong: Array, why: str) -> None:
        """Raise DistributionError if anything is wrong, in the first program in which it is."""
        if not wrong.any():
            return
        row = int(np.argwhere(wrong)[0][0])
        what = f"{self.operation.name} of {name_of(self.buffer)}: {why}"
        if wrong.ndim > 1:
            what += f"; at element {int(np.argwhere(wrong)[0][1]) // self.size} of the stage"
        raise DistributionError(what, self.operation.location, batch.program(row))

    def renewed(self, batch: BlockBatch, held: Array) -> Array:
        """The next version of the buffer."""
        made = np.array(widened(held, batch.count))
        made[:, 1] += 1
        for row, (base, version, _) in zip(batch.rows, made, strict=True):
            batch.shared.versions[int(base)][row] = version
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """The bytes [program, byte] of a stage, about to be read or written."""

    stages: Stages
    batch: BlockBatch
    rows: NDArray[np.intp]
    cells: NDArray[np.intp]

    def some(self, programs: Index) -> Access:
        """The access of some of the programs."""
        return Access(self.stages, self.batch.take(programs), self.rows[programs], self.cells[programs])

    def read(self, reader: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Read by these threads."""
        at, now = (self.rows, self.cells), self.batch.shared.barriers[self.rows]
        shared = self.batch.shared
        self.arrived("read")
        late = (shared.written[at] == now) & (shared.writer[at] != reader)
        self.stages.refuse(self.batch, late, "read, with no barrier since another thread wrote it")
        again = (shared.read[at] == now) & (shared.reader[at] != reader)
        shared.reader[at], shared.read[at] = np.where(again, MANY, reader), now
        return shared.bytes[at]

    def write(self, writer: NDArray[np.int32], group: NDArray[np.int32] | int) -> None:
        """Make these threads the writers; by a copy of this group, or at once."""
        at, now = (self.rows, self.cells), self.batch.shared.barriers[self.rows]
        shared = self.batch.shared
        on_its_way = shared.group[at] > SETTLED
        self.stages.refuse(self.batch, on_its_way, "written, while a copy into it is on its way")
        late = (shared.written[at] == now) & (shared.writer[at] != writer)
        self.stages.refuse(self.batch, late, "written, with no barrier since another thread wrote it")
        late = (shared.read[at] == now) & (shared.reader[at] != writer)
        self.stages.refuse(self.batch, late, "written, with no barrier since another thread read it")
        shared.writer[at], shared.written[at], shared.group[at] = writer, now, group

    def excuse(self) -> None:
        """Let what was never written be read all the same: a copy that was not wanted left it so."""
        group = self.batch.shared.group
        at = self.rows, self.cells
        group[at] = np.where(group[at] == POISON, SETTLED, group[at])

    def arrived(self, verb: str) -> None:
        group = self.batch.shared.group[self.rows, self.cells]
        self.stages.refuse(self.batch, group > SETTLED, f"{verb} before the copy into it was waited for")
        self.stages.refuse(self.batch, group == POISON, f"{verb}, but never written")


def threads_of(places: Places, size: int, several: bool) -> NDArray[np.int32]:
    """The thread of each byte of a tile: the first that holds the element; or MANY, if all `several` of them count."""
    thread, elements = places.thread_of, places.elements.reshape(-1)
    first = thread[places.holder]
    if several:
        shared = np.zeros(len(first), np.bool_)
        shared[elements[thread != first[elements]]] = True
        first = np.where(shared, MANY, first)
    return np.repeat(first, size).astype(np.int32)


def local_alloc(operation: Operation) -> Runner:
    """The bytes at `scratch`, as poison."""
    base, stages, type_ = int_attribute(operation, "scratch"), int_attribute(operation, "stages"), operation.result.type
    assert isinstance(type_, TileType)
    nbytes = stages * prod(type_.shape[1:]) * byte_width(type_.element)
    if base < 0:
        raise DistributionError("local_alloc: the buffer has no place in shared memory", operation.location)

    def run(batch: BlockBatch) -> Array:
        shared, rows = batch.shared, batch.rows
        if base + nbytes > shared.bytes.shape[1]:
            what = f"local_alloc: bytes {base} to {base + nbytes} of {shared.bytes.shape[1]} of shared memory"
            raise DistributionError(what, operation.location)
        if (shared.group[rows, base : base + nbytes] > SETTLED).any():
            what = "local_alloc: a copy into another buffer is on its way to these bytes"
            raise DistributionError(what, operation.location, batch.program(0))
        shared.group[rows, base : base + nbytes] = POISON
        versions = shared.versions.setdefault(base, np.zeros(len(shared.bytes), np.int64))
        versions[rows] += 1
        return np.stack([np.full(batch.count, base), versions[rows], np.full(batch.count, stages)], axis=1)

    return run


def local_store(operation: Operation) -> Runner:
    """Each element by the thread that holds it first; those that hold it too must have the same."""
    buffer, _, tile = operation.operands
    stages, places = Stages.of(operation, buffer), placed(tile.type)
    assert places is not None
    writer = threads_of(places, stages.size, several=False)

    def run(batch: BlockBatch, held: Array, index: Array, value: Array) -> Array:
        access = stages.at(batch, held, index)
        access.write(writer, SETTLED)
        tiles = widened(collect(batch, operation, tile, value), batch.count)
        batch.shared.bytes[access.rows, access.cells] = as_bytes(tiles)
        return stages.renewed(batch, held)

    return run


def local_load(operation: Operation) -> Runner:
    """Each thread reads what it holds of the tile."""
    buffer, result = operation.operands[0], operation.result
    stages, places, dtype = Stages.of(operation, buffer), placed(result.type), storage(element_of(result.type))
    assert places is not None
    stages = stages.only(part_of_stage(operation))
    reader = threads_of(places, stages.size, several=True)

    def run(batch: BlockBatch, held: Array, index: Array) -> Array:
        found = stages.at(batch, held, index).read(reader)
        return spread(np.ascontiguousarray(found).view(dtype), result.type)

    return run


def async_copy(operation: Operation) -> Runner:
    """Note what is to be copied, for the programs that enable it."""
    pointer, buffer, _, _, *mask = operation.operands
    meet(operation, [pointer, *mask])
    stages, places = Stages.of(operation, buffer), placed(pointer.type)
    assert places is not None
    loads, writer = load(operation), threads_of(places, stages.size, several=False)

    def run(batch: BlockBatch, addresses: Array, held: Array, index: Array, enabled: Array, *masks: Array) -> Array:
        flags = widened(enabled, batch.count)
        stages.at(batch, held, index).some(np.flatnonzero(~flags)).excuse()
        chosen = np.flatnonzero(flags)
        if len(chosen):
            pairs = zip((pointer, *mask), (addresses, *masks), strict=True)
            whole = [widened(collect(batch, operation, *pair), batch.count)[chosen] for pair in pairs]

            def fetch(now: BlockBatch, numbers: Index) -> NDArray[np.uint8]:
                return as_bytes(widened(dense(loads(now, *(tile[numbers] for tile in whole))), now.count))

            access = stages.at(batch, held, index).some(chosen)
            rows = access.rows[:, 0]
            group = batch.shared.committed[rows] + np.int32(1)
            access.write(writer, group[:, None])
            batch.shared.copies.append(Copy(operation, rows, np.arange(len(rows)), group, access.cells, fetch))
        return stages.renewed(batch, held)

    return run


def as_bytes(tiles: Array) -> NDArray[np.uint8]:
    """Tiles as [program, byte]."""
    return np.ascontiguousarray(tiles).view(np.uint8).reshape(len(tiles), -1)


def async_commit(operation: Operation) -> Runner:
    """One group more."""

    def run(batch: BlockBatch) -> None:
        batch.shared.committed[batch.rows] += 1

    return run


def async_wait(operation: Operation) -> Runner:
    """The copies of all groups but the last `pending` land."""
    pending = int_attribute(operation, "pending")

    def run(batch: BlockBatch, *buffers: Array) -> object:
        batch.shared.wait(batch, pending)
        return buffers[0] if len(buffers) == 1 else buffers or None

    return run


def barrier(operation: Operation) -> Runner:
    """All threads wait for one another."""

    def run(batch: BlockBatch) -> None:
        batch.shared.barriers[batch.rows] += 1

    return run


BUFFERS: dict[str, Prepare] = {
    "local_alloc": local_alloc,
    "async_copy": async_copy,
    "async_commit": async_commit,
    "async_wait": async_wait,
    "local_store": local_store,
    "local_load": local_load,
    "barrier": barrier,
}
