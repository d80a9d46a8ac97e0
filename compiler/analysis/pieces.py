"""A tile that moves through shared memory in pieces, because all of it would take too much.

A piece is what has the same value in some tile bits that both layouts keep in a thread's registers. So all pieces lie
in the same threads, and each is a tile of its own, from which those bits are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.lang import LinearLayout, tile_layouts

from .placement import REGISTER

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The layouts of every piece, and for each its registers in the whole: those that it comes from, and goes to."""

    src: LinearLayout
    dst: LinearLayout
    registers: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def pieces(src: LinearLayout, dst: LinearLayout, kept: Sequence[Vector], most: int) -> Pieces:
    """Up to `most` pieces, a power of two; `kept` are bits in which none may differ from another."""
    held = src.bases[REGISTER]
    common = [bit for bit in dst.bases[REGISTER] if bit in held and bit not in kept]
    apart = common[max(0, len(common) - most.bit_length() + 1) :]
    numbers = [_registers(layout, apart) for layout in (src, dst)]
    return Pieces(_without(src, apart), _without(dst, apart), tuple(zip(*numbers, strict=True)))


def _registers(layout: LinearLayout, apart: Sequence[Vector]) -> list[tuple[int, ...]]:
    """The registers of each piece. Its number has a bit for each bit in which the pieces differ."""
    bases = layout.bases[REGISTER]
    found: list[list[int]] = [[] for _ in range(1 << len(apart))]
    for register in range(1 << len(bases)):
        number = sum((register >> bases.index(bit) & 1) << at for at, bit in enumerate(apart))
        found[number].append(register)
    return [tuple(registers) for registers in found]


def _without(layout: LinearLayout, apart: Sequence[Vector]) -> LinearLayout:
    """The layout of a piece: the bits in which pieces differ are gone, those above them move down.

    >>> layout = LinearLayout.from_bases({"register": [(1,), (2,)], "lane": [(4,)], "warp": []}, {"dim0": 8})
    >>> print(_without(layout, [(2,)]))
    #linear<register=[[1]], lane=[[2]], warp=[] -> [dim0:4]>
    """
    masks = [sum(bit[axis] for bit in apart) for axis in range(len(layout.shape))]
    bases = {
        name: [tuple(map(_squeezed, bit, masks)) for bit in vectors if name != REGISTER or bit not in apart]
        for name, vectors in layout.bases.items()
    }
    shape = tuple(extent >> mask.bit_count() for extent, mask in zip(layout.shape, masks, strict=True))
    return LinearLayout.from_bases(bases, dict(tile_layouts.tile_dims(shape)))


def _squeezed(number: int, mask: int) -> int:
    """A number without the bits of a mask, which are 0 in it."""
    if not number:
        return 0
    bit = number.bit_length() - 1
    return 1 << bit - (mask & (1 << bit) - 1).bit_count()
