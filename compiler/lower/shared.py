"""Tiles in shared memory: which registers of a thread form a vector there, where it stands, and how it is moved.

All is linear over F2. The offset of an element is the XOR of one part for each bit of the thread's index that is set
and one for each bit of the register's. The part of the thread is computed once; a register's part is added to the
address as a constant where the two share no bits, and XORed into it where they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tilewright.lang import LinearLayout, ScalarType, byte_width, tile_layouts

from ..analysis.placement import LANE, REGISTER, WARP
from ..targets import Needs
from .context import Lowering
from .memory import Words, from_memory, pack, to_memory, unpack, words_for
from .text import SHARED

OFFSET = tile_layouts.OFFSET
VECTOR_BYTES = 16
STMATRIX = Needs(90, 78)


@dataclass(frozen=True, slots=True)
class Access:
    """How a thread's registers meet a buffer. Offsets are in bytes.

    `groups[g]` lists the registers of one instruction's operands, in order; `offsets[g]` is the part that they add.
    `thread[i]` is what bit i of the thread's index adds. `matrix` says that the instruction is `ldmatrix` or
    `stmatrix`, for which `thread` addresses rows; `transposed` its form.
    """

    groups: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    thread: tuple[int, ...]
    matrix: int = 0
    transposed: bool = False


@cache
def images(memory: LinearLayout, layout: LinearLayout, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The byte offset that each register bit and each bit of the thread's index stands for."""
    inverse = memory.invert()

    def offset(vector: Sequence[int]) -> int:
        return inverse.apply(dict(zip(inverse.in_names, vector, strict=True)))[OFFSET] * size

    threads = (*layout.bases[LANE], *layout.bases[WARP])
    return tuple(map(offset, layout.bases[REGISTER])), tuple(map(offset, threads))


@cache
def vectors(memory: LinearLayout, layout: LinearLayout, size: int, widest: int = VECTOR_BYTES) -> Access:
    """Plain accesses: each of as many neighbours as are in one thread's registers, up to `widest` bytes."""
    registers, threads = images(memory, layout, size)
    chosen: list[int] = []
    while size << len(chosen) < widest and size << len(chosen) in registers:
        chosen.append(registers.index(size << len(chosen)))
    while any(image % (size << len(chosen)) for at, image in enumerate(registers + threads) if at not in chosen):
        chosen.pop()  # the rest of the offset must keep the vector aligned
    return Access(*_grouped(registers, chosen), threads)


@cache
def matrices(memory: LinearLayout, layout: LinearLayout, size: int) -> Access | None:
    """Accesses by matrix instructions; None where the tile does not fall into rows of 16 bytes for them.

    In the plain form four lanes hold a row: each a 32-bit word, numbered by the low lane bits. In the transposed one,
    for elements of 16 bits, eight lanes hold a row, numbered by the high lane bits, and a register holds two rows.
    """
    registers, threads = images(memory, layout, size)
    lanes, warps = threads[:5], threads[5:]
    word = [
        registers.index(size << bit) if size << bit in registers else -1 for bit in range((4 // size).bit_length() - 1)
    ]
    plain = size <= 4 and -1 not in word and lanes[:2] == (4, 8)
    if plain:
        rows = lanes[2:]
    elif size == 2 and lanes[2:] == (2, 4, 8) and registers:
        word = [next((at for at, image in enumerate(registers) if image % 16 == 0 and image), -1)]
        rows = (registers[word[0]] if word[0] >= 0 else 1, *lanes[:2])
    else:
        return None
    if any(image % 16 for image in (*rows, *warps)) or not all(rows):
        return None
    others = [at for at, image in enumerate(registers) if at not in word]
    if any(registers[at] % 16 for at in others):
        return None
    more = others[:2]
    thread = (*rows, *(registers[at] for at in more), *(0 for _ in range(2 - len(more))), *warps)
    return Access(*_grouped(registers, [*word, *more]), thread, 1 << len(more), not plain)


def _grouped(registers: Sequence[int], chosen: Sequence[int]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The registers by groups that differ in the chosen bits only, and the offset of each group."""
    groups: list[tuple[int, ...]] = []
    offsets: list[int] = []
    for first in range(1 << len(registers)):
        if any(first >> bit & 1 for bit in chosen):
            continue
        group = [first]
        for bit in chosen:
            group += [register | 1 << bit for register in group]
        offset = 0
        for bit, image in enumerate(registers):
            offset ^= image if first >> bit & 1 else 0
        groups.append(tuple(group))
        offsets.append(offset)
    return tuple(groups), tuple(offsets)


class Addresses:
    """The addresses of a thread's accesses to one buffer. `moving` is XORed into all, a number of the bits `moves`."""

    def __init__(self, to: Lowering, base: str, access: Access, moving: str = "0", moves: int = 0) -> None:
        self.to = to
        self.base = base
        self.mask = moves
        for image in access.thread:
            self.mask |= image
        own = xor_of_bits(to, access.thread)
        parts = [part for part in (own, moving) if part != "0"] or ["0"]
        self.own = parts[0] if len(parts) == 1 else to.text.value(f"xor i32 {parts[0]}, {parts[1]}")
        self.known: dict[int, str] = {}

    def at(self, offset: int) -> str:
        """The address of what stands `offset` from this thread's first element."""
        mixed, apart = offset & self.mask, offset & ~self.mask
        if mixed not in self.known:
            own = self.own
            if mixed and own == "0":
                own = str(mixed)
            elif mixed:
                own = self.to.text.value(f"xor i32 {own}, {mixed}")
            self.known[mixed] = self._plus(self.base, own)
        return self._plus(self.known[mixed], str(apart))

    def _plus(self, base: str, offset: str) -> str:
        return base if offset == "0" else self.to.text.value(f"getelementptr i8, {SHARED} {base}, i32 {offset}")


def xor_of_bits(to: Lowering, images_: Sequence[int]) -> str:
    """The XOR of the images of all bits of the thread's index that are set; bits that move alike move together."""
    moves: dict[int, int] = {}
    for index, image in enumerate(images_):
        for bit in range(image.bit_length()):
            if image >> bit & 1:
                moves[bit - index] = moves.get(bit - index, 0) | 1 << index
    total = "0"
    for shift, mask in moves.items():
        part = to.text.at_entry(f"and i32 {to.thread}, {mask}")
        if shift:
            part = to.text.at_entry(f"{'shl' if shift > 0 else 'lshr'} i32 {part}, {abs(shift)}")
        total = part if total == "0" else to.text.at_entry(f"xor i32 {total}, {part}")
    return total


def store_tile(
    to: Lowering, base: str, memory: LinearLayout, layout: LinearLayout, element: ScalarType, values: Sequence[str]
) -> None:
    """Write a thread's registers into a buffer at `base`."""
    size = byte_width(element)
    access = matrices(memory, layout, size) if to.target.meets(STMATRIX) else None
    access = access or vectors(memory, layout, size)
    addresses = Addresses(to, base, access)
    for group, offset in zip(access.groups, access.offsets, strict=True):
        held = [to_memory(to, element, values[register]) for register in group]
        address = addresses.at(offset)
        if access.matrix:
            words = pack(to, Words(access.matrix, 32, 4 // size, element), held)
            _matrix_store(to, access, address, words)
        else:
            _vector_store(to, address, words_for(element, len(group)), held)


def load_tile(
    to: Lowering, base: str, memory: LinearLayout, layout: LinearLayout, element: ScalarType
) -> tuple[str, ...]:
    """A thread's registers from a buffer at `base`."""
    size = byte_width(element)
    access = matrices(memory, layout, size) or vectors(memory, layout, size)
    addresses = Addresses(to, base, access)
    result = [""] * sum(map(len, access.groups))
    for number, group in enumerate(access.groups):
        for register, value in zip(group, load_group(addresses, access, number, element), strict=True):
            result[register] = value
    return tuple(result)


def load_group(addresses: Addresses, access: Access, number: int, element: ScalarType) -> list[str]:
    """The elements of one group of registers, by one instruction."""
    to, address = addresses.to, addresses.at(access.offsets[number])
    if access.matrix:
        got = unpack(to, Words(access.matrix, 32, 4 // byte_width(element), element), _matrix_load(to, access, address))
    else:
        got = _vector_load(to, address, words_for(element, len(access.groups[number])))
    return [from_memory(to, element, value) for value in got]


def _vector_store(to: Lowering, address: str, words: Words, held: Sequence[str]) -> None:
    if words.bits == 8:
        to.text.effect(f"store i8 {held[0]}, {SHARED} {address}, align 1")
        return
    packed = pack(to, words, held)
    kind, value = words.type, packed[0]
    if words.count > 1:
        kind, value = f"<{words.count} x {words.type}>", "poison"
        for index, word in enumerate(packed):
            value = to.text.value(f"insertelement {kind} {value}, {words.type} {word}, i32 {index}")
    to.text.effect(f"store {kind} {value}, {SHARED} {address}, align {words.count * words.bits // 8}")


def _vector_load(to: Lowering, address: str, words: Words) -> list[str]:
    """The elements, as they stand in memory."""
    align = words.count * words.bits // 8
    kind = words.type if words.count == 1 else f"<{words.count} x {words.type}>"
    got = to.text.value(f"load {kind}, {SHARED} {address}, align {align}")
    if words.bits == 8:
        return [got]
    if words.count == 1:
        return unpack(to, words, [got])
    return unpack(to, words, [to.text.value(f"extractelement {kind} {got}, i32 {i}") for i in range(words.count)])


def _matrix_name(action: str, access: Access) -> str:
    return f"llvm.nvvm.{action}.sync.aligned.m8n8.x{access.matrix}{'.trans' if access.transposed else ''}.b16.p3"


def _matrix_load(to: Lowering, access: Access, address: str) -> list[str]:
    count = access.matrix
    kind = "i32" if count == 1 else f"{{ {', '.join(['i32'] * count)} }}"
    made = to.text.call(kind, _matrix_name("ldmatrix", access), [(SHARED, address)])
    return [made] if count == 1 else [to.text.value(f"extractvalue {kind} {made}, {i}") for i in range(count)]


def _matrix_store(to: Lowering, access: Access, address: str, words: Sequence[str]) -> None:
    to.text.call("void", _matrix_name("stmatrix", access), [(SHARED, address), *(("i32", word) for word in words)])
