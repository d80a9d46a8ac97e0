"""What loads and stores mean.

A load copies; a lane that is masked off reads `other`, or 0. A store writes the active lanes in the order of their
programs, row-major inside a program: where several go to one address, the last one stays. An access outside its
argument (or outside all of them, for a pointer of unknown origin), misaligned, or a store to a read-only array raises
MemoryAccessError for the first such lane in that order, and writes nothing.
"""

from __future__ import annotations

import numpy as np

from tilewright.lang import Operation

from ..batch import Batch
from ..values import Array, BatchValue, compact, dense, lead, stretched, widened
from .lanes import Access, Lanes, element_index, lanes
from .regions import Piece, Region, aligned, differ, pieces, read, region_of, span, write
from .tables import Prepare, Runner


def load(operation: Operation) -> Runner:
    """The values at the addresses where the mask holds; elsewhere `other`, or 0 when there is none."""
    access = Access.of(operation, writes=False)

    def run(
        batch: Batch, pointer: BatchValue, mask: BatchValue | None = None, other: BatchValue | None = None
    ) -> BatchValue:
        found = None
        region = region_of(pointer, mask)
        if region is not None:
            found = _load_region(access, batch, region, other)
        if found is None:
            found = _gather(access, batch, pointer, mask, other)
        return access.from_memory(found)

    return run


def _load_region(access: Access, batch: Batch, region: Region, other: BatchValue | None) -> Array | None:
    """Load by slices; None where that does not pay, or an address is not right."""
    ends = span(region)
    if ends is None:
        return _filled(access, region.lead, other)
    region = _sized(region, 1 if other is None else lead(other))
    buffer = access.home(batch.memory, *ends)
    if buffer is None or not aligned(region, access.memory.itemsize):
        return None
    parts = pieces(region)
    if parts is None:
        return None
    if _covers(parts, region):
        out = np.empty((region.lead, *region.shape), access.memory)
    else:
        out = _filled(access, region.lead, other)
    for piece in parts:
        read(piece, buffer, out)
    return out


def _sized(region: Region, others: int) -> Region:
    """The region for one program only, if it is the same for all; for as many as `other` is given for, if more."""
    if others > region.lead:
        return region._replace(base=widened(region.base, others), lead=others)
    varied = any(isinstance(end, np.ndarray) for bound in region.bounds for end in bound)
    if region.lead > 1 and others == 1 and not varied and (region.base == region.base[0]).all():
        return region._replace(base=region.base[:1], lead=1)
    return region


def _covers(parts: list[Piece], region: Region) -> bool:
    """Whether the pieces fill every element of every program."""
    whole = tuple((0, extent) for extent in region.shape)
    return all(piece.inside == whole for piece in parts) and sum(p.last - p.first for p in parts) == region.lead


def _filled(access: Access, count: int, other: BatchValue | None) -> Array:
    """A new array with what masked-off lanes read, as stored in memory."""
    if other is None:
        return np.zeros((count, *access.shape), access.memory)
    values = access.to_memory(dense(other))
    return np.array(widened(values, max(count, len(values))), order="C")


def _gather(
    access: Access, batch: Batch, pointer: BatchValue, mask: BatchValue | None, other: BatchValue | None
) -> Array:
    """Load address by address."""
    addresses, *rest = (compact(dense(value)) for value in (pointer, mask, other) if value is not None)
    buffer = batch.memory.argument(access.root)
    if buffer is None and len(batch.memory.extents) == 1:
        buffer = batch.memory.extents[0]
    if buffer is not None and len(buffer.typed(access.memory)[0]):
        _, origin = buffer.typed(access.memory)
        active = rest[0] if mask is not None else None
        if active is not None:
            addresses = np.where(active, addresses, origin)
        index = element_index(access, buffer, addresses)
        if index is not None:
            values = buffer.typed(access.memory)[0][index]
            return stretched(_picked(access, values, active, rest[1:]), access.shape)
    return _load_lanes(access, batch, pointer, mask, other)


def _picked(access: Access, values: Array, active: Array | None, other: list[Array]) -> Array:
    """The gathered values where active, what masked-off lanes read elsewhere."""
    if active is None:
        return values
    return np.where(active, values, access.to_memory(other[0]) if other else access.memory.type(0))


def _load_lanes(
    access: Access, batch: Batch, pointer: BatchValue, mask: BatchValue | None, other: BatchValue | None
) -> Array:
    """Load lane by lane, from as many buffers as it takes."""
    count = max(lead(value) for value in (pointer, mask, other) if value is not None)
    out = np.ascontiguousarray(widened(_filled(access, count, other), count))
    flat = out.reshape(-1)
    for group in lanes(access, batch, pointer, mask, count):
        flat[group.number] = group.memory[group.element]
    return out


def store(operation: Operation) -> Runner:
    """Write the values to the addresses where the mask holds, the last one where several go to one address."""
    access = Access.of(operation, writes=True)

    def run(batch: Batch, pointer: BatchValue, value: BatchValue, mask: BatchValue | None = None) -> None:
        raw = access.to_memory(dense(value))
        region = region_of(pointer, mask)
        if region is None or not _store_region(access, batch, region, raw):
            _scatter(access, batch, pointer, raw, mask)

    return run


def _store_region(access: Access, batch: Batch, region: Region, raw: Array) -> bool:
    """Store by slices; False where that does not pay, or an address is not right, and then not all is written."""
    ends = span(region)
    if ends is None:
        return True
    buffer = access.home(batch.memory, *ends)
    if buffer is None or not aligned(region, access.memory.itemsize):
        return False
    parts = pieces(region)
    if parts is None:
        return False
    raw = raw[-1:] if region.lead == 1 else widened(raw, region.lead)
    written = [write(piece, buffer, raw) for piece in parts]
    batch.memory.version += any(written)
    return None not in written


def _scatter(access: Access, batch: Batch, pointer: BatchValue, raw: Array, mask: BatchValue | None) -> None:
    """Store lane by lane, in order."""
    count = max(len(raw), *(lead(v) for v in (pointer, mask) if v is not None))
    values = widened(raw, count).reshape(-1)
    for group in list(lanes(access, batch, pointer, mask, count)):
        batch.memory.version += put_in_order(group, values[group.number])


def put_in_order(group: Lanes, values: Array) -> bool:
    """Write values one after the other, so that the last one stays where several go to one address.

    NumPy does not promise an order, so the outcome is read back; only if some value is not there were there several.
    Whether memory may have changed.
    """
    memory, _, index = group
    changes = differ(memory[index], values)
    memory[index] = values
    bits = f"u{memory.dtype.itemsize}"
    if not (memory[index].view(bits) == values.view(bits)).all():
        last = len(index) - 1 - np.unique(index[::-1], return_index=True)[1]
        memory[index[last]] = values[last]
    return changes


MEMORY: dict[str, Prepare] = {"load": load, "store": store}
