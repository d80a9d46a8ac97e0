"""Tiles in shared memory: how they are moved between a thread's registers and their places there.

An element's offset is the XOR of a part for its thread and one for its register (see `analysis/shared_accesses.py`).
The part of the thread is computed once; a register's part is added to the address as a constant where the two share no
bits, and XORed into it where they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from tilewright.lang import LinearLayout, ScalarType, byte_width

from ..analysis.shared_accesses import Access, load_access, store_access
from ..targets import Needs
from .context import Lowering
from .memory import Words, from_memory, pack, to_memory, unpack, words_for
from .text import SHARED

STMATRIX = Needs(90, 78)


class Addresses:
    """The addresses of a thread's accesses to one buffer. `moving` is XORed into all, a number of the bits `moves`."""

    def __init__(self, to: Lowering, base: str, access: Access, moving: str = "0", moves: int = 0) -> None:
        self.to = to
        self.base = base
        self.mask = moves
        for image in access.thread:
            self.mask |= image
        own = to.sum_of_bits(access.thread)
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


def store_tile(
    to: Lowering, base: str, memory: LinearLayout, layout: LinearLayout, element: ScalarType, values: Sequence[str]
) -> None:
    """Write a thread's registers into a buffer at `base`."""
    size = byte_width(element)
    access = store_access(memory, layout, size, to.target.meets(STMATRIX))
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
    return tuple(LoadedTile(to, base, load_access(memory, layout, byte_width(element)), element))


class LoadedTile(Sequence[str]):
    """A thread's registers from a buffer at `base`, each group of them loaded where one is first asked for."""

    def __init__(self, to: Lowering, base: str, access: Access, element: ScalarType) -> None:
        self.element = element
        self.access = access
        self.addresses = Addresses(to, base, self.access)
        self.group_of = {register: number for number, group in enumerate(self.access.groups) for register in group}
        self.known: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.group_of)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self[register] for register in range(*index.indices(len(self))))
        if index not in range(len(self)):
            raise IndexError(index)
        if index not in self.known:
            number = self.group_of[index]
            loaded = load_group(self.addresses, self.access, number, self.element)
            self.known |= zip(self.access.groups[number], loaded, strict=True)
        return self.known[index]


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
