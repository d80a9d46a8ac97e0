"""How the registers of a thread meet a tile in shared memory, and how many wavefronts that takes.

All is linear over F2. The offset of an element is the XOR of one part for each bit of the thread's index that is set
and one for each bit of the register's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from tilewright.lang import LinearLayout, f2, tile_layouts

from .placement import REGISTER, columns, slots, thread_columns

#: The widest access of a thread, and a row of a matrix, in bytes; bytes of a bank; banks.
VECTOR_BYTES, BANK_BYTES, BANKS = 16, 4, 32
LANE_BITS = 5


@dataclass(frozen=True, slots=True)
class Access:
    """How a thread's registers meet a buffer. Offsets are in bytes.

    `groups[g]` lists the registers of one instruction's operands, in order; `offsets[g]` is the part that they add.
    `thread[i]` is what bit i of the thread's index adds. `matrix` is how many matrices one `ldmatrix` or `stmatrix`
    moves, for which `thread` addresses rows, 0 for plain accesses; `transposed` is the form.
    """

    groups: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    thread: tuple[int, ...]
    matrix: int = 0
    transposed: bool = False


def store_access(memory: LinearLayout, layout: LinearLayout, size: int, stmatrix: bool) -> Access:
    """How a tile is written; `stmatrix` says whether the target has it. Every lane must have elements of its own."""
    silent = slots(layout).replica_mask & (1 << LANE_BITS) - 1
    access = matrices(memory, layout, size) if stmatrix and not silent else None
    return access or vectors(memory, layout, size)


def load_access(memory: LinearLayout, layout: LinearLayout, size: int) -> Access:
    """How a tile is read."""
    return matrices(memory, layout, size) or vectors(memory, layout, size)


@cache
def part_access(memory: LinearLayout, layout: LinearLayout, first: tuple[int, ...], size: int) -> Access:
    """How a part of a tile is read, in a layout of its own: that which begins at `first`, a multiple of its extents;
    the whole tile for ()."""
    dims = dict(tile_layouts.tile_dims(memory.shape))
    access = load_access(memory, LinearLayout.from_bases(layout.bases, dims), size)
    (start,), _ = images(memory, LinearLayout.from_bases({REGISTER: [first]}, dims), size) if first else ((0,), ())
    return replace(access, offsets=tuple(offset ^ start for offset in access.offsets))


@cache
def images(memory: LinearLayout, layout: LinearLayout, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The byte offset that each register bit and each bit of the thread's index stands for."""
    inverse = memory.invert().columns
    registers, threads = (
        tuple(f2.multiply(inverse, column) * size for column in part)
        for part in (columns(layout, REGISTER), thread_columns(layout))
    )
    return registers, threads


@cache
def vectors(memory: LinearLayout, layout: LinearLayout, size: int, widest: int = VECTOR_BYTES) -> Access:
    """Plain accesses: each of as many neighbours as are in one thread's registers, up to `widest` bytes."""
    registers, threads = images(memory, layout, size)
    echelon = f2.eliminate(registers)
    chosen: list[int] = []
    while size << len(chosen) < widest and (mask := echelon.solve(size << len(chosen))) is not None:
        chosen.append(mask)
    while any(image % (size << len(chosen)) for image in threads):
        chosen.pop()  # the thread's part of the offset must keep the vector aligned
    return Access(*_grouped(registers, chosen, _others(registers, chosen, chosen)), threads)


@cache
def matrices(memory: LinearLayout, layout: LinearLayout, size: int) -> Access | None:
    """Accesses by matrix instructions; None where the tile does not fall into rows of 16 bytes for them.

    In the plain form four lanes hold a row: each a 32-bit word, numbered by the low lane bits. In the transposed one,
    for elements of 16 bits, eight lanes hold a row, numbered by the high lane bits, and a register holds two rows.
    """
    registers, threads = images(memory, layout, size)
    lanes, warps = threads[:LANE_BITS], threads[LANE_BITS:]
    found = [f2.solve(registers, size << bit) for bit in range((4 // size).bit_length() - 1)]
    word = neighbours = [mask for mask in found if mask is not None]
    plain = size <= 4 and len(word) == len(found) and lanes[:2] == (4, 8)
    if plain:
        rows = lanes[2:]
    elif size == 2 and lanes[2:] == (2, 4, 8) and registers:
        word, neighbours = (
            [1 << at for at, image in enumerate(registers) if image and image % VECTOR_BYTES == 0][:1],
            [],
        )
        rows = (f2.multiply(registers, word[0]) if word else 1, *lanes[:2])
    else:
        return None
    others = _others(registers, word, neighbours)
    more = [f2.multiply(registers, mask) for mask in others]
    if not all(rows) or any(image % VECTOR_BYTES for image in (*rows, *warps, *more)):
        return None
    together = min(2, len(others))
    thread = (*rows, *more[:together], *(0 for _ in range(2 - together)), *warps)
    groups = _grouped(registers, [*word, *others[:together]], others[together:])
    return Access(*groups, thread, 1 << together, not plain)


def _others(registers: Sequence[int], chosen: Sequence[int], neighbours: Sequence[int]) -> list[int]:
    """Sums of register bits that make a basis together with the chosen ones, none with a neighbour's offset in it."""
    leads = {mask.bit_length() - 1 for mask in f2.rref(chosen)}
    others: list[int] = []
    for at in range(len(registers)):
        if at not in leads:
            mask, offset = 1 << at, registers[at]
            for neighbour in neighbours:
                mask ^= neighbour if offset & f2.multiply(registers, neighbour) else 0
            others.append(mask)
    return others


def _grouped(
    registers: Sequence[int], chosen: Sequence[int], others: Sequence[int]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The registers by groups that differ in the chosen sums of bits only, and the offset of each group."""
    firsts = [0]
    for mask in others:
        firsts += [first ^ mask for first in firsts]
    groups: list[tuple[int, ...]] = []
    for first in firsts:
        group = [first]
        for mask in chosen:
            group += [register ^ mask for register in group]
        groups.append(tuple(group))
    return tuple(groups), tuple(f2.multiply(registers, first) for first in firsts)


# Wavefronts


def wavefronts(access: Access, size: int, silent: int = 0) -> int:
    """The wavefronts that an access of a tile of elements of `size` bytes takes in a warp.

    The lanes whose index has one of the bits of `silent` stay away. A request is served in phases: all lanes together
    for up to 4 bytes a lane, 16 for 8 bytes, 8 for 16 bytes or a row of a matrix. A phase takes as many wavefronts as
    the most different words that one bank gives. All being linear, each bank that gives any gives as many.
    """
    if access.matrix:
        return len(access.groups) * access.matrix * _in_a_phase(access.thread[:3], VECTOR_BYTES)
    width = size * len(access.groups[0])
    at_once = LANE_BITS - _bits(max(1, width // BANK_BYTES))
    speaking = [at for at in range(LANE_BITS) if not silent >> at & 1]
    phases = 1 << sum(at >= at_once for at in speaking)
    return len(access.groups) * phases * _in_a_phase([access.thread[at] for at in speaking if at < at_once], width)


def _in_a_phase(lanes: Sequence[int], width: int) -> int:
    own = [1 << bit for bit in range(_bits(max(1, width // BANK_BYTES)))]
    words = [*own, *(image // BANK_BYTES for image in lanes)]
    return 1 << f2.rank(words) - f2.rank([word % BANKS for word in words])


def _bits(count: int) -> int:
    return count.bit_length() - 1


def exchange_wavefronts(
    memory: LinearLayout, src: LinearLayout, dst: LinearLayout, size: int, stmatrix: bool
) -> tuple[int, int]:
    """The wavefronts in which all warps write a tile, and those in which they read it.

    Of replicas one thread writes, so that whole warps may have nothing to write.
    """
    silent = slots(src).replica_mask
    warps = len(thread_columns(src)) - LANE_BITS
    writing = 1 << warps - (silent >> LANE_BITS).bit_count()
    written = wavefronts(store_access(memory, src, size, stmatrix), size, silent)
    return written * writing, wavefronts(load_access(memory, dst, size), size) << warps
