"""How a tile moves from one layout to another: by renaming registers, or through shared memory, without bank conflicts.

In memory the lowest offset bits are a vector, next come the bits that choose the bank, then the rest. The vector is
what both sides hold in a thread's own registers (or, on a side that uses matrix instructions, in a row of 16 bytes).
Lanes that access memory in the same phase differ in some tile bits, `a` when they write and `c` when they read; all
must fall into different banks both times. So bits of `a` and `c` are paired, and a bank bit is the XOR of its pair:
this is a swizzle, computed instead of looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

from tilewright.lang import LinearLayout, tile_layouts

from .pieces import Pieces, pieces
from .placement import LANE, REGISTER, slots

OFFSET = tile_layouts.OFFSET
Vector = tuple[int, ...]
#: The widest access of a thread and what all banks hold together, in bytes.
VECTOR_BYTES, BANKS_BYTES = 16, 128
#: What a conversion takes of shared memory at a time, if its pieces can be so small.
MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Conversion:
    """`registers[r]` is the source register of register r of the result, where no thread needs another's; else the
    tile goes through shared memory piece by piece, of each of them element `memory(offset)` at each offset."""

    registers: tuple[int, ...] | None
    pieces: Pieces | None = None
    memory: LinearLayout | None = None
    bytes: int = 0


@cache
def conversion(src: LinearLayout, dst: LinearLayout, size: int) -> Conversion:
    """The plan for elements of `size` bytes."""
    have, want = slots(src), slots(dst)
    if all(mine == other or mine is None for mine, other in zip(want.bits, have.bits, strict=True)):
        known = {place: register for register, place in enumerate(have.registers)}
        if all(place in known for place in want.registers):
            return Conversion(tuple(known[place] for place in want.registers))
    count = max(1, prod(src.shape) * size // MOST_BYTES)
    parts = pieces(src, dst, [*_vector(src, dst, size), *src.bases[REGISTER][:2], *dst.bases[REGISTER][:2]], count)
    return Conversion(None, parts, memory_layout(parts.src, parts.dst, size), prod(parts.src.shape) * size)


def memory_layout(src: LinearLayout, dst: LinearLayout, size: int) -> LinearLayout:
    """Where each element of the tile stands in shared memory."""
    vector = _vector(src, dst, size)
    return swizzle(src.shape, size, vector, phase(src, vector, size), phase(dst, vector, size))


def swizzle(
    shape: tuple[int, ...], size: int, vector: list[Vector], writes: list[Vector], reads: list[Vector]
) -> LinearLayout:
    """The memory layout with this vector in which neither phase has bank conflicts."""
    banks = (BANKS_BYTES // size >> len(vector)).bit_length() - 1
    both = [bit for bit in writes if bit in reads]
    only_written = [bit for bit in writes if bit not in both]
    only_read = [bit for bit in reads if bit not in both]
    bases = [*vector, *both]
    paired: list[tuple[Vector, Vector]] = list(zip(only_written, only_read, strict=False))
    bases += [written for written, _ in paired]
    rest = only_written[len(paired) :] + only_read[len(paired) :]
    placed = {*bases, *rest, *(read for _, read in paired)}
    rest += [bit for bit in _tile_bits(shape) if bit not in placed]
    free = max(0, banks - len(bases) + len(vector))
    bases += rest[:free]
    bases += [tuple(map(sum, zip(written, read, strict=True))) for written, read in paired]
    return LinearLayout.from_bases({OFFSET: bases + rest[free:]}, dict(tile_layouts.tile_dims(shape)))


def row_major(shape: tuple[int, ...]) -> LinearLayout:
    """A tile in shared memory element after element."""
    return LinearLayout.from_bases({OFFSET: _tile_bits(shape)}, dict(tile_layouts.tile_dims(shape)))


def _vector(src: LinearLayout, dst: LinearLayout, size: int) -> list[Vector]:
    """The tile bits of a vector, lowest first."""
    held, wanted = ([v for v in layout.bases[REGISTER] if any(v)] for layout in (src, dst))
    for layout, others in ((dst, held), (src, wanted)):
        for row, _ in matrix_rows(layout, size):
            if all(bit in others for bit in row):
                return row
    most = (VECTOR_BYTES // size).bit_length() - 1
    return [bit for bit in wanted if bit in held][:most]


def matrix_rows(layout: LinearLayout, size: int) -> list[tuple[list[Vector], list[Vector]]]:
    """The tile bits of the 16 bytes that a matrix instruction moves at once, and those that number 8 such rows.

    In the plain form a row is what a 32-bit register of four lanes holds; in the transposed one, for elements of 16
    bits, one element of each of eight lanes. There is none for a layout with replicas in lanes.
    """
    registers, lanes = list(layout.bases[REGISTER]), list(layout.bases[LANE])
    packed = (4 // size).bit_length() - 1
    if size > 4 or not all(map(any, lanes)):
        return []
    found = [([*registers[:packed], *lanes[:2]], lanes[2:])] if len(registers) >= packed else []
    if size == 2 and registers:
        found.append((lanes[2:], [registers[0], *lanes[:2]]))
    return found


def phase(layout: LinearLayout, vector: list[Vector], size: int) -> list[Vector]:
    """The tile bits in which the lanes differ that access memory at the same time.

    A phase moves at most 128 bytes: 32 lanes of up to 4 bytes, 16 of 8, or 8 of 16. In a matrix instruction these are
    the rows, which the high lane bits number.
    """
    for row, numbers in matrix_rows(layout, size):
        if set(row) == set(vector):
            return numbers
    lanes = layout.bases[LANE]
    lanes_at_once = 5 - max(0, (size << len(vector) >> 2).bit_length() - 1)
    return [bit for bit in lanes[:lanes_at_once] if any(bit) and bit not in vector]


def _tile_bits(shape: tuple[int, ...]) -> list[Vector]:
    """The unit vectors of a tile, last dimension first."""
    return [
        tuple(1 << bit if at == axis else 0 for at in range(len(shape)))
        for axis in reversed(range(len(shape)))
        for bit in range(shape[axis].bit_length() - 1)
    ]
