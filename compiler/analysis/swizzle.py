"""Where the elements of a tile stand in shared memory, so that lanes which access it together meet different banks.

In memory the lowest offset bits are a vector, next come the bits that choose the bank, then the rest. The vector is
what both sides hold in a thread's own registers, or, on a side that uses matrix instructions, in a row of 16 bytes.
Lanes that access memory in the same phase differ in some directions of the tile, `a` when they write and `c` when they
read; all must fall into different banks both times. So directions of `a` and `c` are paired, and the segment, which the
bank does not tell, has the XOR of each pair: this is a swizzle, computed instead of looked up.

Directions are vectors over F2, as flat columns of layouts. What threads differ in never touches the vector, so that
each thread's accesses are aligned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tilewright.lang import LinearLayout, f2, tile_layouts

from .placement import LANE, REGISTER, WARP, columns, thread_columns
from .shared_accesses import BANK_BYTES, BANKS, VECTOR_BYTES, load_access, store_access, wavefronts

OFFSET = tile_layouts.OFFSET
#: What all banks hold together.
BANKS_BYTES = BANKS * BANK_BYTES


@cache
def memory_layout(src: LinearLayout, dst: LinearLayout, size: int) -> LinearLayout:
    """Where each element of `size` bytes stands in shared memory, written from `src` and read in `dst`.

    Registers must hold no replicas. Of the vectors that there could be, the one that costs least is taken.
    """
    found = [
        swizzle(src.shape, size, vector, phase(src, vector, size), phase(dst, vector, size), threads)
        for vector, threads in _candidates(src, dst, size)
    ]
    return min(found, key=lambda memory: exchange_cost(memory, src, dst, size))


def vector_of(src: LinearLayout, dst: LinearLayout, size: int) -> list[int]:
    """The bits of a vector of the memory layout."""
    bases = memory_layout(src, dst, size).columns
    access = load_access(memory_layout(src, dst, size), dst, size)
    width = VECTOR_BYTES // size if access.matrix else len(access.groups[0])
    return [*bases[: width.bit_length() - 1]]


def exchange_cost(memory: LinearLayout, src: LinearLayout, dst: LinearLayout, size: int) -> int:
    """The instructions of a thread to write and to read a tile, and the wavefronts of a warp."""
    accesses = store_access(memory, src, size, True), load_access(memory, dst, size)
    return sum(len(access.groups) + wavefronts(access, size) for access in accesses)


def swizzle(
    shape: tuple[int, ...],
    size: int,
    vector: Sequence[int],
    writes: Sequence[int],
    reads: Sequence[int],
    threads: Sequence[int] = (),
) -> LinearLayout:
    """The memory layout with this vector in which neither phase has bank conflicts, if there is one.

    `writes` and `reads` are independent of the vector. What threads differ in, where it is more than one bit of the
    tile, stands in `threads`. Bits below the vector of a bank do not tell banks apart, so what they tell apart is best
    in both phases or in none.
    """
    both, written, read = _common(vector, writes, reads)
    pairs = min(len(written), len(read))
    unpaired = [*written[pairs:], *read[pairs:]]
    rest = independent([*vector, *both, *written, *read], [*threads, *tile_bits(shape)])
    in_a_word = max(0, (BANK_BYTES // size).bit_length() - 1 - len(vector))
    low = [*both, *rest][:in_a_word]
    both, rest = ([bit for bit in bits if bit not in low] for bits in (both, rest))
    free = max(0, (BANKS_BYTES // size).bit_length() - 1 - len([*vector, *low, *both]) - pairs)
    rest = [*unpaired, *rest]
    banked = [*both, *written[:pairs]]
    # In the order of the writer's lanes: a copy from global memory goes by sectors of 32 bytes, and takes twice the
    # requests where the halves of one do not stay neighbours.
    banked.sort(key=lambda bit: writes.index(bit) if bit in writes else len(writes))
    bases = [*vector, *low, *banked, *rest[:free]]
    bases += [one ^ other for one, other in zip(written, read, strict=False)]
    bases += rest[free:]
    return LinearLayout(((OFFSET, 1 << len(bases)),), tile_layouts.tile_dims(shape), tuple(bases))


def _common(
    vector: Sequence[int], writes: Sequence[int], reads: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """A basis of what both span beside the vector, and what each has beside that."""
    both = [bit for bit in writes if bit in reads]
    written, read = ([bit for bit in bits if bit not in both] for bits in (writes, reads))
    while kernel := f2.eliminate([*vector, *both, *written, *read]).kernel:
        relation = kernel[0] >> len(vector) + len(both)
        ones = [bit for at, bit in enumerate(written) if relation >> at & 1]
        others = [bit for at, bit in enumerate(read) if relation >> len(written) + at & 1]
        total = 0
        for bit in ones:
            total ^= bit
        both.append(total)
        written.remove(ones[0])
        read.remove(others[0])
    return both, written, read


def row_major(shape: tuple[int, ...]) -> LinearLayout:
    """A tile in shared memory element after element."""
    bits = tile_bits(shape)
    return LinearLayout(((OFFSET, 1 << len(bits)),), tile_layouts.tile_dims(shape), tuple(bits))


# Vectors


@dataclass(frozen=True, slots=True)
class Row:
    """The tile bits of the 16 bytes that a matrix instruction moves at once, those that number 8 such rows, and what
    else threads differ in."""

    bits: tuple[int, ...]
    numbers: tuple[int, ...]
    threads: tuple[int, ...]


def _candidates(src: LinearLayout, dst: LinearLayout, size: int) -> list[tuple[list[int], list[int]]]:
    """The vectors that there could be, lowest bit first, each with what threads differ in when they access it."""
    held, wanted = columns(src, REGISTER), columns(dst, REGISTER)
    mine, theirs = thread_columns(src), thread_columns(dst)
    found: list[tuple[list[int], list[int]]] = []
    for layout, others, threads in ((dst, held, mine), (src, wanted, theirs)):
        for row in matrix_rows(layout, size):
            if all(f2.solve(others, bit) is not None for bit in row.bits):
                found.append((list(row.bits), [*row.threads, *threads]))
    of_src = {row.bits: row for row in matrix_rows(src, size)}
    for row in matrix_rows(dst, size):
        if row.bits in of_src:
            found.append((list(row.bits), [*of_src[row.bits].threads, *row.threads]))
    found.append((_plain(src, dst, size), [*mine, *theirs]))
    rows = [(vector, threads) for vector, threads in found if _is_apart(vector, threads)]
    return [(vector, _oblique(threads)) for vector, threads in rows]


def _is_apart(vector: Sequence[int], threads: Sequence[int]) -> bool:
    return f2.rank([*vector, *threads]) == len(vector) + f2.rank(threads)


def _oblique(threads: Sequence[int]) -> list[int]:
    """The directions, those of several bits first, if there are any."""
    several = [bit for bit in threads if bit & bit - 1]
    return [*several, *(bit for bit in threads if not bit & bit - 1)] if several else []


def _plain(src: LinearLayout, dst: LinearLayout, size: int) -> list[int]:
    """A vector of what both hold in registers: the registers' own bits first, then sums of them."""
    held, wanted = columns(src, REGISTER), columns(dst, REGISTER)
    threads = [*thread_columns(src), *thread_columns(dst)]
    common, _, _ = _common((), [bit for bit in wanted if bit], [bit for bit in held if bit])
    most = (VECTOR_BYTES // size).bit_length() - 1
    vector: list[int] = []
    for bit in common:
        if len(vector) < most and _is_apart([*vector, bit], threads):
            vector.append(bit)
    return vector


def matrix_rows(layout: LinearLayout, size: int) -> list[Row]:
    """The rows of the matrix instructions that a layout admits; none for one with replicas in lanes.

    In the plain form a row is what a 32-bit register of four lanes holds; in the transposed one, for elements of 16
    bits, one element of each of eight lanes. The register bit that tells two elements of a word may be any.
    """
    registers, lanes, warps = (columns(layout, name) for name in (REGISTER, LANE, WARP))
    packed = (4 // size).bit_length() - 1
    if size > 4 or f2.rank([*registers, *lanes]) < len(registers) + len(lanes):
        return []
    words = [registers[:packed]] if len(registers) >= packed else []
    if packed == 1:
        words += [(bit,) for bit in registers[1:]]
    found = [Row((*word, *lanes[:2]), lanes[2:], (*lanes[2:], *warps)) for word in words]
    if size == 2 and registers:
        found.append(Row(lanes[2:], (registers[0], *lanes[:2]), (*lanes[:2], *warps)))
    return found


def phase(layout: LinearLayout, vector: Sequence[int], size: int) -> list[int]:
    """The directions in which the lanes differ that access memory at the same time, independent of the vector.

    A phase moves at most 128 bytes: 32 lanes of up to 4 bytes, 16 of 8, or 8 of 16. In a matrix instruction these are
    the rows, which the high lane bits number.
    """
    for row in matrix_rows(layout, size):
        if set(row.bits) == set(vector):
            return list(row.numbers)
    lanes_at_once = 5 - max(0, (size << len(vector) >> 2).bit_length() - 1)
    return independent(vector, columns(layout, LANE)[:lanes_at_once])


# Bits


def independent(known: Sequence[int], more: Sequence[int]) -> list[int]:
    """Those of some vectors that are no sum of the known ones and of those before them."""
    pivots = f2.eliminate([*known, *more]).pivots >> len(known)
    return [vector for at, vector in enumerate(more) if pivots >> at & 1]


def tile_bits(shape: tuple[int, ...]) -> list[int]:
    """The bits of a tile's flat index, those of the last dimension first."""
    found: list[int] = []
    start = 0
    for extent in shape:
        bits = extent.bit_length() - 1
        found = [*(1 << start + bit for bit in range(bits)), *found]
        start += bits
    return found
