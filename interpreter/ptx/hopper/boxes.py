"""The elements that a box of a tensor map touches: where they are in global memory, and where in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .maps import SWIZZLES, TensorMap

NAN = 0x7FF7_7FF7_7FF7_7FF7
"""What the fill `nan` writes, cut to the element: on an H200 so for every type of float."""


class Box(NamedTuple):
    """A box at some coordinates: the addresses of its elements, and which of them lie inside the array (by number)."""

    addresses: NDArray[np.int64]
    inside: NDArray[np.intp]

    @property
    def total(self) -> int:
        """How many elements there are, inside or not."""
        return len(self.addresses)


UNIT = 16
"""Bytes that are written at once: where an array's rows end between two of these, an H200 writes up to the next."""


def box_at(tensor: TensorMap, coordinates: Sequence[int], writes: bool = False) -> Box:
    """The elements of a box that begins at coordinates, the innermost dimension running fastest, and which of them are
    read or written."""
    extents = list(tensor.shape)
    if writes:
        extents[0] = -(-extents[0] * tensor.itemsize // UNIT) * UNIT // tensor.itemsize
    addresses = np.full((1,) * len(tensor.shape), tensor.address, np.int64)
    inside = np.ones(addresses.shape, np.bool_)
    steps = (1, *tensor.element_strides[1:])
    for axis, (first, count) in enumerate(zip(coordinates, tensor.counts, strict=True)):
        along = first + np.arange(count, dtype=np.int64) * steps[axis]
        shape = [1] * len(tensor.shape)
        shape[-1 - axis] = count
        addresses = addresses + (along * tensor.strides[axis]).reshape(shape)
        inside = inside & ((along >= 0) & (along < extents[axis])).reshape(shape)
    return Box(addresses.reshape(-1), np.flatnonzero(inside.reshape(-1)))


def swizzled(addresses: NDArray[np.int64], swizzle: str) -> NDArray[np.int64]:
    """Where addresses of shared memory go: 16-byte pieces change places with others of their row of the pattern."""
    span = SWIZZLES[swizzle]
    return addresses if not span else addresses ^ ((addresses >> 7 & (span >> 4) - 1) << 4)


@cache
def _steps(count: int, itemsize: int) -> NDArray[np.int64]:
    return np.arange(count, dtype=np.int64) * itemsize


def packed(tensor: TensorMap, count: int, start: int) -> NDArray[np.int64]:
    """The addresses of a box's elements in shared memory, from `start` on. Rows shorter than what the swizzle mixes
    begin that far apart."""
    places, inner = _steps(count, tensor.itemsize), tensor.box[0] * tensor.itemsize
    if 0 < inner < SWIZZLES[tensor.swizzle]:
        rows, along = np.divmod(places, inner)
        places = rows * SWIZZLES[tensor.swizzle] + along
    return swizzled(places + start, tensor.swizzle)
