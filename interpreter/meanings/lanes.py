"""Accesses address by address: where each active lane lands, and the error when one lands outside.

A *lane* is one element of a tile of pointers in one program. Lanes are ordered by program, then row-major.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import Operation, PointerType, bit_width, byte_width, element_of, shape_of

from ..batch import Batch
from ..errors import MemoryAccessError
from ..memory import Buffer, Memory, Root
from ..values import Array, BatchValue, Int64s, Rows, dense, storage, widened
from .provenance import root_of


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """What is known about a memory op before it runs.

    `value` is the dtype of batch values, `memory` the one that elements are moved in: same width, plain integers where
    NumPy is slower with the real one.
    """

    operation: Operation
    root: Root | None
    shape: tuple[int, ...]
    value: np.dtype[Any]
    memory: np.dtype[Any]
    writes: bool

    @classmethod
    def of(cls, operation: Operation, writes: bool) -> Access:
        """The access that a memory op makes; its pointer is its first operand."""
        pointer = operation.operands[0]
        element = element_of(pointer.type)
        assert isinstance(element, PointerType)
        value = storage(element.pointee)
        plain = value.kind in "iuf" and bit_width(element.pointee) >= 8
        memory = value if plain else np.dtype(f"u{byte_width(element.pointee)}")
        return cls(operation, root_of(pointer), shape_of(pointer.type), value, memory, writes)

    def from_memory(self, raw: Array) -> Array:
        """Elements as stored, as a batch value: any byte but 0 is a true i1."""
        if self.value is self.memory:
            return raw
        return raw != 0 if self.value.kind == "b" else raw.view(self.value)

    def to_memory(self, value: Array) -> Array:
        """A batch value as it is stored: i1 as the byte 0 or 1."""
        return value if self.value is self.memory else value.view(self.memory)

    def home(self, memory: Memory, low: int, high: int) -> Buffer | None:
        """The buffer for elements at addresses from `low` to `high`; None if there is none or it refuses the op."""
        end = high + self.memory.itemsize
        buffer = memory.argument(self.root) or memory.holding(low, end)
        if buffer is None or low < buffer.start or end > buffer.end or (self.writes and buffer.readonly):
            return None
        return buffer


class Lanes(NamedTuple):
    """Active lanes that land in one buffer: their flat numbers, ascending, and the elements of `memory` they touch."""

    memory: Array
    number: Rows
    element: Rows


def lanes(access: Access, batch: Batch, pointer: BatchValue, mask: BatchValue | None, count: int) -> Iterator[Lanes]:
    """All active lanes of `count` programs, by buffer. Raises MemoryAccessError if any may not be accessed."""
    addresses = widened(dense(pointer), count).reshape(-1)
    active = None if mask is None else widened(dense(mask), count).reshape(-1)
    number = np.arange(len(addresses)) if active is None else np.flatnonzero(active)
    if active is not None:
        addresses = addresses[number]
    if not len(number):
        return
    for buffer, chosen in _by_buffer(access, batch.memory, addresses):
        touched, ours = (addresses, number) if chosen is None else (addresses[chosen], number[chosen])
        index = None if buffer is None else element_index(access, buffer, touched)
        if buffer is None or index is None:
            raise fault(access, batch, addresses, number)
        yield Lanes(buffer.typed(access.memory)[0], ours, index)


def _by_buffer(access: Access, memory: Memory, addresses: Int64s) -> Iterator[tuple[Buffer | None, Rows | None]]:
    """The buffers that addresses belong to, with the positions of their addresses (None for all of them)."""
    own = memory.argument(access.root)
    if own is not None or not memory.extents:
        yield own, None
        return
    extent = memory.locate(addresses)
    first = int(extent[0])
    if (extent == first).all():
        yield (memory.extents[first] if first >= 0 else None), None
        return
    for which in np.unique(extent).tolist():
        yield (memory.extents[which] if which >= 0 else None), np.flatnonzero(extent == which)


def element_index(access: Access, buffer: Buffer, addresses: Int64s) -> Rows | None:
    """Positions in the buffer's typed view, shaped like the addresses; None if one is outside, misaligned or sealed."""
    view, origin = buffer.typed(access.memory)
    offset = addresses - origin
    size = access.memory.itemsize
    if access.writes and buffer.readonly:
        return None
    if int(offset.view(np.uint64).max()) >= len(view) * size:
        return None
    if size == 1:
        return offset
    if int(np.bitwise_or.reduce(offset, axis=None)) & (size - 1):
        return None
    return offset >> (size.bit_length() - 1)


def fault(access: Access, batch: Batch, addresses: Int64s, number: NDArray[Any]) -> MemoryAccessError:
    """The error for the first lane that may not be accessed, given the active ones with their flat numbers."""
    memory, size = batch.memory, access.memory.itemsize
    own = memory.argument(access.root)
    starts, ends, sealed = (
        np.array([getattr(buffer, field) for buffer in ([own] if own else memory.extents)])
        for field in ("start", "end", "readonly")
    )
    if len(starts):
        which = np.maximum(np.searchsorted(starts, addresses, side="right") - 1, 0)
        bad = (addresses < starts[which]) | (addresses > ends[which] - size) | (addresses % size != 0)
        if access.writes:
            bad |= sealed[which]
    else:
        bad = np.ones(len(addresses), np.bool_)
    lane = int(np.argmax(bad))
    row, element = divmod(int(number[lane]), prod(access.shape))
    what = _explain(access, memory, own, int(addresses[lane]))
    if access.shape:
        what += f"; at index {tuple(map(int, np.unravel_index(element, access.shape)))} of the tile"
    return MemoryAccessError(what, access.operation.location, batch.program(row))


_KINDS = {
    "load": "load from",
    "store": "store to",
    "atomic_load": "atomic load from",
    "atomic_store": "atomic store to",
}


def _explain(access: Access, memory: Memory, own: Buffer | None, address: int) -> str:
    """What is wrong with an access to an address."""
    size = access.memory.itemsize
    verb = _KINDS.get(access.operation.name, "atomic access to")
    buffer = own or memory.holding(address, address + size)
    where = f"byte address {address:#x}"
    element = element_of(access.operation.operands[0].type)
    assert isinstance(element, PointerType)
    if address == 0:
        return f"{verb} a null pointer"
    if buffer is None:
        return f"{verb} {where}, which is in no argument{_distance(memory, address)}"
    if address % size:
        return f"{verb} {where} in {buffer.describe()}: misaligned, {element.pointee} needs a multiple of {size}"
    pointer = buffer.start if buffer.origin is None else buffer.origin
    touched = f"{verb} element {(address - pointer) // size} of {buffer.describe()}"
    if buffer.start <= address <= buffer.end - size:
        return f"{touched}, which is read-only"
    first, last = -((pointer - buffer.start) // size), (buffer.end - pointer) // size - 1
    holds = f"it has elements {first} to {last}" if first <= last else "it has none"
    unit = "" if buffer.dtype in ("", str(access.value)) else f" of type {element.pointee}"
    return f"{touched}, out of bounds: {holds}{unit} ({where})"


def _distance(memory: Memory, address: int) -> str:
    """How far an address is from the closest buffer."""
    buffer = memory.nearest(address)
    if buffer is None:
        return ""
    if address < buffer.start:
        return f"; {buffer.start - address} bytes before {buffer.describe()}"
    if address >= buffer.end:
        return f"; {address - buffer.end} bytes past the end of {buffer.describe()}"
    return f"; it straddles the end of {buffer.describe()}"
