"""Blocked layouts: in which the lanes of a warp touch neighbouring bytes, in wide vectors."""

from __future__ import annotations

from functools import cache
from math import prod

from tilewright.lang import LinearLayout, tile_layouts

from .axis_info import AxisInfo

WARP_SIZE = 32
#: The widest single access of a thread, in bytes.
VECTOR_BYTES = 16


def default_layout(shape: tuple[int, ...], num_warps: int) -> LinearLayout:
    """One element a thread at a time, the last dimension fastest."""
    return blocked(shape, 1, tuple(reversed(range(len(shape)))), num_warps)


def fastest_first(info: AxisInfo) -> tuple[int, ...]:
    """The dimensions of a tile of pointers, by contiguity; the later one of equals comes first."""
    return tuple(sorted(range(len(info.contiguity)), key=lambda axis: (-info.contiguity[axis], -axis)))


def vector_elements(info: AxisInfo, axis: int, size: int) -> int:
    """How many neighbours along an axis one access may take: contiguous, aligned, and within 16 bytes."""
    return max(1, min(info.contiguity[axis], info.divisibility[axis] // size, VECTOR_BYTES // size))


@cache
def blocked(shape: tuple[int, ...], vector: int, order: tuple[int, ...], num_warps: int) -> LinearLayout:
    """`vector` elements a thread along the first dimension of `order`, then lanes, then warps along it, and on."""
    own = [1] * len(shape)
    own[order[0]] = vector
    left = [extent // mine for extent, mine in zip(shape, own, strict=True)]
    lanes = spread(WARP_SIZE, left, order)
    left = [max(1, extent // taken) for extent, taken in zip(left, lanes, strict=True)]
    warps = spread(num_warps, left, order)
    return tile_layouts.blocked(own, lanes, warps, order, shape)


def spread(count: int, left: list[int], order: tuple[int, ...]) -> list[int]:
    """Share `count` out over the dimensions, in order, no more than is left in each; what is over repeats the last."""
    taken = [1] * len(left)
    for axis in order:
        taken[axis] = min(left[axis], count // prod(taken))
    taken[order[-1]] *= count // prod(taken)
    return taken
