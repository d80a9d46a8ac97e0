"""Where the elements of a tile are: which of them each register of each thread holds, and who holds each.

A *slot* is one register of one thread. Slots are numbered warp by warp, lane by lane, register by register; elements
are numbered row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import LayoutError, LinearLayout, TileType, Type, tile_layouts

from ..values import Shape

LANES = 32
WARP, LANE, REGISTER, OFFSET = tile_layouts.WARP, tile_layouts.LANE, tile_layouts.REGISTER, tile_layouts.OFFSET
Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """How a distributed layout shares a tile out.

    elements: the number of the element in each slot, [warps, lanes, registers]. holder: the lowest slot that holds each
    element, [numel]. An element that nobody holds is a LayoutError when these are made.
    """

    shape: Shape
    elements: Index
    holder: Index

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self.elements.shape[0] * self.elements.shape[1]

    @property
    def registers(self) -> int:
        """How many registers a thread has for the tile."""
        return self.elements.shape[2]

    @property
    def replicated(self) -> bool:
        """Whether some element is held more than once."""
        return self.elements.size > len(self.holder)

    @property
    def thread_of(self) -> Index:
        """The number of each slot's thread."""
        return np.arange(self.elements.size) // self.registers

    @property
    def warp_of(self) -> Index:
        """The number of each slot's warp."""
        return np.arange(self.elements.size) // (self.elements.shape[1] * self.registers)

    def coordinates(self) -> tuple[Index, ...]:
        """The index of the element in each slot along each dimension of the tile, [warps, lanes, registers] each."""
        return np.unravel_index(self.elements, self.shape)

    def slot_name(self, slot: int) -> str:
        """A slot, for messages."""
        warp, lane, register = np.unravel_index(slot, self.elements.shape)
        return f"warp {warp}, lane {lane}, register {register}"

    def element_name(self, element: int) -> str:
        """An element by its index, for messages."""
        return str(tuple(map(int, np.unravel_index(element, self.shape))))


@lru_cache(256)
def places_of(layout: LinearLayout) -> Places:
    """The places of a distributed layout, a dimension that it lacks having size 1.

    Raises LayoutError for a layout that maps anything else than registers, lanes and warps.
    """
    sizes = dict(layout.ins)
    names = (WARP, LANE, REGISTER)
    grid = np.ix_(*(np.arange(sizes.get(name, 1)) for name in names))
    point = {name: axis for name, axis in zip(names, grid, strict=True) if name in sizes}
    whole = tuple(sizes.get(name, 1) for name in names)
    flat = numbered([np.broadcast_to(axis, whole) for axis in layout.apply(point).values()], layout.shape)
    held, holder = np.unique(flat, return_index=True)
    if len(held) < prod(layout.shape):
        raise LayoutError(f"{layout} leaves elements out")
    return Places(layout.shape, flat, holder)


def placed(type_: Type) -> Places | None:
    """The places of a tile's elements; None for a scalar, which every thread has."""
    if not isinstance(type_, TileType):
        return None
    assert type_.layout is not None
    return places_of(type_.layout)


@lru_cache(64)
def offsets_of(layout: LinearLayout) -> Index:
    """Where each element of a tile in shared memory is, counted in elements."""
    size = prod(layout.shape)
    flat = numbered(list(layout.apply({OFFSET: np.arange(size)}).values()), layout.shape)
    held, offsets = np.unique(flat, return_index=True)
    if len(held) < size:
        raise LayoutError(f"{layout} gives elements the same place in memory")
    return offsets


def flipped(elements: Index, shape: Shape, axis: int, bit: int) -> Index:
    """The elements of a tile whose index along a dimension differs in a bit."""
    between = prod(shape[axis + 1 :])
    return elements + np.where(elements // between >> bit & 1, -1, 1) * (between << bit)


def numbered(index: Sequence[Index], shape: Sequence[int]) -> Index:
    """Elements by their index along each dimension, as numbers row by row; of a scalar element 0."""
    flat = np.zeros(index[0].shape if index else (1,), np.intp)
    for component, extent in zip(index, shape, strict=True):
        flat = flat * extent + component
    return flat


def find(have: Index, have_group: Index, want: Index, want_group: Index) -> Index:
    """For each wanted number a position in `have` that has it in the same group, the first one; -1 where there is none.

    Groups, like threads or warps, are numbered too. All are vectors.
    """
    span = int(max(have.max(), want.max(initial=0))) + 1
    keys, wanted = have_group * span + have, want_group * span + want
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    return np.where(keys[order[at]] == wanted, order[at], -1)
