"""The state spaces: where the bytes of an address are, and what is wrong with an address that has none.

Generic addresses are the real ones for global memory; the other spaces have windows far above any real address. Every
access resolves its addresses to elements of typed views (`Cells`) before anything is touched. `load`, `store` and
`update` are the ways to memory: what is checked and counted about an access, they see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MemoryAccessError
from ..memory import Buffer, Memory
from ..numerics import FORMATS
from .access import Access
from .frame import Frame, Index, spread
from .hopper.clusters import row_of
from .syntax import Address, Register
from .types import Array

if TYPE_CHECKING:
    from .site import Site

WINDOWS = {space: (0x7D + number) << 56 for number, space in enumerate(("shared", "local", "param", "const"))}
"""Where the generic addresses of a space begin."""

_SPAN = np.uint64(56)

_ITEM_BYTES = {name: row.storage.itemsize for row in FORMATS.values() for name in (str(row.storage),)}
_ITEM_BYTES |= {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"bool": 1}


class Cells(NamedTuple):
    """Elements that some threads touch: a typed view, positions in it, and which of the threads (None for all).

    home: the memory that the view shows. start: the byte at which the view begins, counted from the last multiple of 16
    at or below the start of that memory.
    """

    view: Array
    position: NDArray[np.intp]
    chosen: NDArray[np.intp] | None
    home: Buffer | Rows
    start: int = 0


class Rows:
    """Memory with one row a thread or a block: `size` bytes each."""

    def __init__(self, rows: int, size: int, fill: int, per: int) -> None:
        self.size = size
        self.per = per
        self.stride = -(-size // 16) * 16
        self.bytes = np.full(rows * self.stride, fill, np.uint8)
        self._views: dict[np.dtype[np.generic], Array] = {}

    def typed(self, dtype: np.dtype[np.generic]) -> Array:
        """All rows as elements of a type."""
        found = self._views.get(dtype)
        if found is None:
            found = self._views[dtype] = self.bytes.view(dtype)
        return found


def window_of(addresses: Array) -> Array:
    """Which window a generic address lies in, as a place in `WINDOWS`; global memory is behind them all."""
    top = (addresses >> _SPAN).astype(np.int64) - 0x7D
    return np.where((top >= 0) & (top < len(WINDOWS)), top, len(WINDOWS))


def in_shared(site: Site, frame: Frame, index: Index, addresses: Array) -> Array:
    """Generic addresses as ones of shared memory. Raises MemoryAccessError for others."""
    outside = window_of(addresses) != 0
    if outside.any():
        at = int(np.argmax(outside))
        what = f"`{site.instruction.opcode}` at byte address {int(addresses[at]):#x}, which is not in shared memory"
        raise site.fault(MemoryAccessError, what, frame, int(frame.indices(index)[at]))
    return addresses - np.uint64(WINDOWS["shared"])


def load(access: Access, frame: Frame, index: Index, addresses: Array) -> list[Array]:
    """What stands at the addresses: an array for each element of the access, with one value for each address.

    addresses: uint64, one for each thread of `index`; for global memory also a single one for all.
    """
    cells = resolve(access, access.space, frame, index, addresses)
    if frame.watch is not None:
        frame.watch.load(access, cells, index, addresses)
    return [gathered(cells, number, len(addresses)) for number in range(access.count)]


def store(access: Access, frame: Frame, index: Index, addresses: Array, values: Sequence[Array]) -> None:
    """Write one value of each element to each address; where two meet, the later thread's stays."""
    cells = resolve(access, access.space, frame, index, addresses)
    if access.kind == "atomic":
        now = (gathered(cells, number, len(addresses)) for number in range(access.count))
        frame.changes += any((old != new).any() for old, new in zip(now, values, strict=True))
    else:
        frame.changes += any(isinstance(part.home, Buffer) for part in cells)
    before = None if frame.watch is None else frame.watch.store(access, cells, index, addresses, values)
    for number, value in enumerate(values):
        scatter(cells, number, value)
    if frame.watch is not None and before is not None:
        frame.watch.stored(before, values)


def update(access: Access, frame: Frame, index: Index, addresses: Array) -> list[Cells]:
    """The elements at the addresses, for an atomic operation."""
    cells = resolve(access, access.space, frame, index, addresses)
    if frame.watch is not None:
        frame.watch.update(access, cells, index, addresses)
    return cells


def addresses_of(frame: Frame, operand: Address, space: str) -> Array:
    """What an address in brackets is now, for each thread of the frame."""
    base = operand.base
    if isinstance(base, Register):
        found = spread(frame.registers[base.index], frame.count)
        return (found + np.array(operand.offset & (1 << base.bits) - 1, found.dtype)).astype(np.uint64)
    start = 0 if base is None else frame.program.address_of(base, generic=space == "generic")
    return np.full(frame.count, start + operand.offset & (1 << 64) - 1, np.uint64)


def gathered(cells: list[Cells], number: int, count: int) -> Array:
    """The values of elements, `number` further on than the addresses."""
    if len(cells) == 1 and cells[0].chosen is None:
        view, position = cells[0].view, cells[0].position
        return view[number:].take(position) if number else view.take(position)
    out = np.empty(count, cells[0].view.dtype)
    for view, position, chosen, _, _ in cells:
        out[slice(None) if chosen is None else chosen] = view[position + number]
    return out


def scatter(cells: list[Cells], number: int, values: Array) -> None:
    """Store values to elements, `number` further on than the addresses; where two meet, the later thread's stays."""
    for view, position, chosen, _, _ in cells:
        part = values if chosen is None or len(values) == 1 else values[chosen]
        view[position + number if number else position] = part


def resolve(access: Access, space: str, frame: Frame, index: Index, addresses: Array) -> list[Cells]:
    """The elements at the addresses, 64 bits wide, one a thread. Raises MemoryAccessError for one that may not be."""
    if space == "generic":
        return _generic(access, frame, index, addresses)
    if space in ("global", "const"):
        return _global(access, frame, index, addresses)
    return [_row_cells(access, space, frame, index, addresses)]


def _generic(access: Access, frame: Frame, index: Index, addresses: Array) -> list[Cells]:
    if int(addresses.max(initial=0)) < WINDOWS["shared"]:
        return _global(access, frame, index, addresses)
    window = window_of(addresses)
    cells: list[Cells] = []
    threads = frame.indices(index)
    for number, space in enumerate((*WINDOWS, "global")):
        chosen = np.flatnonzero(window == number)
        if len(chosen):
            local = addresses[chosen] - np.uint64(WINDOWS.get(space, 0))
            for part in resolve(access, space, frame, threads[chosen], local):
                inner = chosen if part.chosen is None else chosen[part.chosen]
                cells.append(part._replace(chosen=inner))
    return cells


def _row_cells(access: Access, space: str, frame: Frame, index: Index, addresses: Array) -> Cells:
    """Elements of shared, local or parameter memory."""
    rows = {"shared": frame.shared, "local": frame.local, "param": frame.launch.parameters}[space]
    size = access.size
    blocks: NDArray[np.intp] | None = None
    if space == "shared" and frame.cluster > 1:
        addresses, blocks = row_of(access, frame, frame.indices(index), spread(addresses, frame.size(index)))
    if len(addresses):
        worst = int(addresses.max())
        misaligned = size > 1 and int(np.bitwise_or.reduce(addresses)) & (size - 1)
        if worst + size > rows.size or misaligned or (access.writes and space == "param"):
            raise _row_fault(access, space, rows, frame, index, addresses)
    unit = access.dtype.itemsize
    position = addresses.view(np.int64) // unit if unit > 1 else addresses.view(np.int64)
    if rows.per:
        threads = frame.indices(index)
        row = blocks if blocks is not None else threads if rows.per == 1 else threads // rows.per
        position = position + row * (rows.stride // unit)
    return Cells(rows.typed(access.dtype), position, None, rows)


def _row_fault(
    access: Access, space: str, rows: Rows, frame: Frame, index: Index, addresses: Array
) -> MemoryAccessError:
    size = np.uint64(access.size)
    outside = (addresses > np.uint64(max(rows.size - access.size, 0))) | (rows.size < access.size)
    bad = outside | (addresses % size != 0) | (access.writes and space == "param")
    at = int(np.argmax(bad))
    address = int(addresses[at])
    where = f"{access.what} at {space} address {address:#x}"
    if outside[at]:
        what = f"{where}, out of bounds: there are {rows.size} bytes"
    elif address % access.size:
        what = f"{where}: misaligned, it needs a multiple of {access.size}"
    else:
        what = f"{where}, which is read-only"
    return access.site.fault(MemoryAccessError, what, frame, int(frame.indices(index)[at]))


def _global(access: Access, frame: Frame, index: Index, addresses: Array) -> list[Cells]:
    """Elements of the launch's buffers."""
    memory = frame.launch.memory
    if not len(addresses):
        return []
    low, high = int(addresses.min()), int(addresses.max())
    if high >= 1 << 63:
        raise _global_fault(access, memory, frame, index, addresses)
    buffer = memory.holding(low, high + access.size)
    if buffer is not None:
        return [_cells(access, buffer, frame, index, addresses, None)]
    where = memory.locate(addresses.view(np.int64))
    found: list[Cells] = []
    for number in np.unique(where).tolist():
        if number < 0:
            raise _global_fault(access, memory, frame, index, addresses)
        chosen = np.flatnonzero(where == number)
        found.append(_cells(access, memory.extents[number], frame, index, addresses, chosen))
    return found


def _cells(
    access: Access, buffer: Buffer, frame: Frame, index: Index, every: Array, chosen: NDArray[np.intp] | None
) -> Cells:
    """Elements of one buffer, for the chosen ones of all addresses."""
    size, unit = access.size, access.dtype.itemsize
    addresses = every if chosen is None else every[chosen]
    misaligned = size > 1 and int(np.bitwise_or.reduce(addresses)) & (size - 1)
    outside = int(addresses.min()) < buffer.start or int(addresses.max()) + size > buffer.end
    if misaligned or outside or (access.writes and buffer.readonly):
        raise _global_fault(access, frame.launch.memory, frame, index, every)
    view, origin = buffer.typed(access.dtype)
    position = (addresses.view(np.int64) - origin) >> (unit.bit_length() - 1)
    return Cells(view, position, chosen, buffer, origin - buffer.start // 16 * 16)


def _global_fault(access: Access, memory: Memory, frame: Frame, index: Index, addresses: Array) -> MemoryAccessError:
    """The error for the first thread whose address is bad."""
    at = next(n for n, a in enumerate(addresses.tolist()) if _is_bad(access, memory, a))
    what = _explain(access, memory, int(addresses[at]))
    return access.site.fault(MemoryAccessError, what, frame, int(frame.indices(index)[at]))


def _is_bad(access: Access, memory: Memory, address: int) -> bool:
    if address >= 1 << 63 or address % access.size:
        return True
    buffer = memory.holding(address, address + access.size)
    return buffer is None or (access.writes and buffer.readonly)


def _explain(access: Access, memory: Memory, address: int) -> str:
    """What is wrong with an access to an address."""
    size, verb = access.size, access.what
    where = f"byte address {address:#x}"
    if address == 0:
        return f"{verb} at a null pointer"
    buffer = memory.holding(address, address + 1) if address < 1 << 63 else None
    if buffer is None:
        return f"{verb} at {where}, which is in no argument{_nearest(memory, address)}"
    touched = f"{verb} at {element_of(buffer, address)}"
    if address % size:
        return f"{touched}: misaligned, {where} is no multiple of {size}"
    if address + size <= buffer.end:
        return f"{touched}, which is read-only"
    return f"{touched}, out of bounds: it ends {buffer.end - address} bytes further ({where})"


def element_of(buffer: Buffer, address: int) -> str:
    """The element of an argument at an address, also outside; its byte where the argument's dtype is not known."""
    pointer = buffer.start if buffer.origin is None else buffer.origin
    number, rest = divmod(address - pointer, _ITEM_BYTES.get(buffer.dtype, 1))
    inside = f" (byte {rest} of it)" if rest else ""
    return f"{'element' if buffer.dtype in _ITEM_BYTES else 'byte'} {number}{inside} of {buffer.describe()}"


def _nearest(memory: Memory, address: int) -> str:
    """Which element of the closest argument would be at an address, and how far outside that is."""
    buffer = memory.nearest(address) if address < 1 << 62 else None
    if buffer is None:
        return ""
    if address < buffer.start:
        return f": it would be {element_of(buffer, address)}, {buffer.start - address} bytes before it"
    return f": it would be {element_of(buffer, address)}, {address - buffer.end} bytes past its end"
