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

from .placement import LANE, REGISTER, slots

OFFSET = tile_layouts.OFFSET
Vector = tuple[int, ...]
#: The widest access of a thread and what all banks hold together, in bytes.
VECTOR_BYTES, BANKS_BYTES = 16, 128


@dataclass(frozen=True, slots=True)
class Conversion:
    """`registers[r]` is the source register of register r of the result, where no thread needs another's; else the
    tile goes through shared memory, element `memory(offset)` at each offset."""

    registers: tuple[int, ...] | None
    memory: LinearLayout | None
    bytes: int


@cache
def conversion(src: LinearLayout, dst: LinearLayout, size: int) -> Conversion:
    """The plan for elements of `size` bytes."""
    have, want = slots(src), slots(dst)
    if all(mine == other or mine is None for mine, other in zip(want.bits, have.bits, strict=True)):
        known = {place: register for register, place in enumerate(have.registers)}
        if all(place in known for place in want.registers):
            return Conversion(tuple(known[place] for place in want.registers), None, 0)
    return Conversion(None, memory_layout(src, dst, size), prod(src.shape) * size)


def memory_layout(src: LinearLayout, dst: LinearLayout, size: int) -> LinearLayout:
    """Where each element of the tile stands in shared memory."""
    vector = _vector(src, dst, size)
    banks = (BANKS_BYTES // size >> len(vector)).bit_length() - 1
    writes, reads = _phase(src, vector, size), _phase(dst, vector, size)
    both = [bit for bit in writes if bit in reads]
    only_written = [bit for bit in writes if bit not in both]
    only_read = [bit for bit in reads if bit not in both]
    bases = [*vector, *both]
    paired: list[tuple[Vector, Vector]] = list(zip(only_written, only_read, strict=False))
    bases += [written for written, _ in paired]
    rest = only_written[len(paired) :] + only_read[len(paired) :]
    placed = {*bases, *rest, *(read for _, read in paired)}
    rest += [bit for bit in _tile_bits(src.shape) if bit not in placed]
    free = max(0, banks - len(bases) + len(vector))
    bases += rest[:free]
    bases += [tuple(map(sum, zip(written, read, strict=True))) for written, read in paired]
    return LinearLayout.from_bases({OFFSET: bases + rest[free:]}, dict(tile_layouts.tile_dims(src.shape)))


def _vector(src: LinearLayout, dst: LinearLayout, size: int) -> list[Vector]:
    """The tile bits of a vector, lowest first."""
    held, wanted = ([v for v in layout.bases[REGISTER] if any(v)] for layout in (src, dst))
    for row, others in ((matrix_row(dst, size), held), (matrix_row(src, size), wanted)):
        if row is not None and all(bit in others for bit in row):
            return row
    most = (VECTOR_BYTES // size).bit_length() - 1
    return [bit for bit in wanted if bit in held][:most]


def matrix_row(layout: LinearLayout, size: int) -> list[Vector] | None:
    """The tile bits of the 16 bytes that a matrix instruction moves for 4 lanes; None for a layout that has no such.

    The plain form: what a 32-bit register holds, then the lowest two lane bits.
    """
    packed = (4 // size).bit_length() - 1 if size <= 4 else -1
    registers, lanes = layout.bases[REGISTER], layout.bases[LANE]
    row = [*registers[:packed], *lanes[:2]]
    fits = packed >= 0 and len(registers) >= packed and all(map(any, lanes))
    return row if fits and len(row) == packed + 2 else None


def _phase(layout: LinearLayout, vector: list[Vector], size: int) -> list[Vector]:
    """The tile bits in which the lanes differ that access memory at the same time.

    A phase moves at most 128 bytes: 32 lanes of up to 4 bytes, 16 of 8, or 8 of 16. In a matrix instruction these are
    the rows, which the high lane bits number.
    """
    row = matrix_row(layout, size)
    lanes = layout.bases[LANE]
    if row is not None and set(row) == set(vector):
        return list(lanes[2:])
    lanes_at_once = 5 - max(0, (size << len(vector) >> 2).bit_length() - 1)
    return [bit for bit in lanes[:lanes_at_once] if any(bit) and bit not in vector]


def _tile_bits(shape: tuple[int, ...]) -> list[Vector]:
    """The unit vectors of a tile, last dimension first."""
    return [
        tuple(1 << bit if at == axis else 0 for at in range(len(shape)))
        for axis in reversed(range(len(shape)))
        for bit in range(shape[axis].bit_length() - 1)
    ]
