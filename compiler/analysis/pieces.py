"""A tile that moves through shared memory in pieces, because all of it would take too much.

A piece is what has the same value in some tile bits that both layouts keep in a thread's registers, and nowhere else.
So all pieces lie in the same threads, and each is a tile of its own, from which those bits are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.lang import LinearLayout, f2

from .placement import REGISTER, columns


@dataclass(frozen=True, slots=True)
class Pieces:
    """The layouts of every piece, and for each its registers in the whole: those that it comes from, and goes to."""

    src: LinearLayout
    dst: LinearLayout
    registers: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def pieces(src: LinearLayout, dst: LinearLayout, kept: Sequence[int], most: int) -> Pieces:
    """Up to `most` pieces, a power of two; `kept` are bits in which none may differ from another."""
    held = columns(src, REGISTER)
    common = [bit for bit in columns(dst, REGISTER) if bit in held and bit not in kept and _is_free(bit, src, dst)]
    apart = common[max(0, len(common) - most.bit_length() + 1) :]
    numbers = [_registers(layout, apart) for layout in (src, dst)]
    return Pieces(_without(src, apart), _without(dst, apart), tuple(zip(*numbers, strict=True)))


def _is_free(bit: int, *layouts: LinearLayout) -> bool:
    """Whether a column is one bit of the tile, which no other column has a part in."""
    return not bit & bit - 1 and all(sum(bool(each & bit) for each in layout.columns) == 1 for layout in layouts)


def _registers(layout: LinearLayout, apart: Sequence[int]) -> list[tuple[int, ...]]:
    """The registers of each piece. Its number has a bit for each bit in which the pieces differ."""
    own = columns(layout, REGISTER)
    places = [own.index(bit) for bit in apart]
    found: list[list[int]] = [[] for _ in range(1 << len(apart))]
    for register in range(1 << len(own)):
        found[f2.gather(register, places)].append(register)
    return [tuple(registers) for registers in found]


def _without(layout: LinearLayout, apart: Sequence[int]) -> LinearLayout:
    """The layout of a piece: the bits in which pieces differ are gone, those above them move down.

    >>> layout = LinearLayout.from_bases({"register": [(1,), (2,)], "lane": [(4,)], "warp": []}, {"dim0": 8})
    >>> print(_without(layout, [2]))
    #linear<register=[[1]], lane=[[2]], warp=[] -> [dim0:4]>
    """
    gone = sum(apart)
    left = [place for place in range(sum(extent.bit_length() - 1 for extent in layout.shape)) if not gone >> place & 1]
    outs: list[tuple[str, int]] = []
    start = 0
    for name, extent in layout.outs:
        outs.append((name, extent >> (gone >> start & extent - 1).bit_count()))
        start += extent.bit_length() - 1
    ins = tuple((name, size >> len(apart) if name == REGISTER else size) for name, size in layout.ins)
    return LinearLayout(ins, tuple(outs), tuple(f2.gather(bit, left) for bit in layout.columns if bit not in apart))
