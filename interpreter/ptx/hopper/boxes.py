"""The elements that a box or a column of a tensor map touches: where they are in global and where in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .map_rules import INTERLEAVES, SWIZZLES
from .maps import Corners, TensorMap

NAN = 0x7FF7_7FF7_7FF7_7FF7
"""What the fill `nan` writes, cut to the element: on an H200 so for every type of float."""


class Box(NamedTuple):
    """A box or column at some coordinates: the addresses of its elements, and which of them lie inside the array (by
    number)."""

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
    tensor, coordinates = unfolded(tensor, coordinates)
    extents = _extents(tensor, writes)
    addresses = np.full((1,) * len(tensor.shape), tensor.address, np.uint64).view(np.int64)
    inside = np.ones(addresses.shape, np.bool_)
    steps = (1, *tensor.element_strides[1:])
    for axis, (first, count) in enumerate(zip(coordinates, tensor.counts, strict=True)):
        along = first + np.arange(count, dtype=np.int64) * steps[axis]
        shape = [1] * len(tensor.shape)
        shape[-1 - axis] = count
        addresses = addresses + (along * tensor.strides[axis]).reshape(shape)
        inside = inside & ((along >= 0) & (along < extents[axis])).reshape(shape)
    return Box(addresses.reshape(-1), np.flatnonzero(inside))


def column_at(tensor: TensorMap, coordinates: Sequence[int], offsets: Sequence[int], writes: bool = False) -> Box:
    """The elements of a column of pixels, the channels of each running fastest, and which are read or written.

    The column begins `offsets` behind the coordinates, and what the corners say of the pixels is shifted alike.
    """
    tensor, coordinates = unfolded(tensor, coordinates)
    extents, along = _extents(tensor, writes), coordinates[0] + np.arange(tensor.box[0], dtype=np.int64)
    addresses = np.uint64(tensor.address).view(np.int64) + (along * tensor.strides[0])[None, :]
    inside = ((along >= 0) & (along < extents[0]))[None, :]
    for axis, places in enumerate(pixels_at(tensor, coordinates[1:], offsets).T, 1):
        addresses = addresses + (places * tensor.strides[axis])[:, None]
        inside = inside & ((places >= 0) & (places < extents[axis]))[:, None]
    return Box(addresses.reshape(-1), np.flatnonzero(inside))


def pixels_at(tensor: TensorMap, start: Sequence[int], offsets: Sequence[int]) -> NDArray[np.int64]:
    """Where the pixels of a column from a start on are, along each dimension but the innermost one.

    Behind the last pixel of a dimension the walk goes on at its first one, a step further along the next dimension;
    there is no end to the images.
    """
    spans = spans_of(tensor)
    shifts = [*offsets, *[0] * (len(start) - len(offsets))]
    found, place = (
        np.empty((tensor.box[1], len(start)), np.int64),
        [n + by for n, by in zip(start, shifts, strict=True)],
    )
    for row in found:
        row[:] = place
        for axis, step in enumerate(tensor.element_strides[1:]):
            place[axis] += step
            if axis == len(spans) or place[axis] - shifts[axis] <= spans[axis][1]:
                break
            place[axis] = spans[axis][0] + shifts[axis]
    return found


def offsets_of(given: Sequence[int]) -> list[int]:
    """What hardware makes of offsets: two it cuts to 8 bits, three it adds up in one number, with 5 bits for each."""
    if len(given) < 3:
        return [offset & (0xFF if len(given) == 2 else 0xFFFF) for offset in given]
    together = sum(offset << 5 * axis for axis, offset in enumerate(given))
    return [together >> 5 * axis & 0x1F for axis in range(3)]


def spans_of(tensor: TensorMap) -> list[tuple[int, int]]:
    """The first and the last pixel that columns go through along each dimension of pixels, without offsets."""
    assert tensor.corners is not None
    ends = zip(tensor.corners.lower, tensor.shape[1:], tensor.corners.upper, strict=False)
    return [(lower, extent - 1 + upper) for lower, extent, upper in ends]


def unfolded(tensor: TensorMap, coordinates: Sequence[int]) -> tuple[TensorMap, Sequence[int]]:
    """An interleaved array as one that is not, with a dimension more, and the coordinates in it; another as it is.

    Its innermost dimension counts pixels of so many bytes, which are the new dimension here; the last but one counts
    slices of channels, of which a copy takes one.
    """
    nbytes = INTERLEAVES[tensor.interleave]
    if not nbytes:
        return tensor, coordinates
    count, place, corners = nbytes // tensor.itemsize, coordinates[-2], tensor.corners
    box = (count, *tensor.box[:-2], 1, tensor.box[-1])
    if corners is not None:
        box = (count, tensor.box[1])
        corners = Corners((*corners.lower, place), (*corners.upper, place + 1 - tensor.shape[-2]))
    plain = replace(
        tensor, shape=(count, *tensor.shape), strides=(tensor.itemsize, nbytes, *tensor.strides[1:]), box=box,
        element_strides=(1, *tensor.element_strides), interleave="none", corners=corners,
    )  # fmt: skip
    return plain, (0, *coordinates)


def _extents(tensor: TensorMap, writes: bool) -> list[int]:
    extents = list(tensor.shape)
    if writes:
        extents[0] = -(-extents[0] * tensor.itemsize // UNIT) * UNIT // tensor.itemsize
    return extents


def swizzled(addresses: NDArray[np.int64], swizzle: str) -> NDArray[np.int64]:
    """Where addresses of shared memory go: 16-byte pieces change places with others of their row of the pattern."""
    span = SWIZZLES[swizzle]
    return addresses if not span else addresses ^ ((addresses >> 7 & (span >> 4) - 1) << 4)


@cache
def _steps(count: int, itemsize: int) -> NDArray[np.int64]:
    return np.arange(count, dtype=np.int64) * itemsize


def packed(tensor: TensorMap, count: int, start: int) -> NDArray[np.int64]:
    """The addresses of a box's elements in shared memory, from `start` on. Rows shorter than what the swizzle mixes
    begin that far apart, but not those of interleaved arrays."""
    places = _steps(count, tensor.itemsize)
    inner = tensor.box[0] * tensor.itemsize
    if tensor.interleave == "none" and 0 < inner < SWIZZLES[tensor.swizzle]:
        rows, along = np.divmod(places, inner)
        places = rows * SWIZZLES[tensor.swizzle] + along
    return swizzled(places + start, tensor.swizzle)
