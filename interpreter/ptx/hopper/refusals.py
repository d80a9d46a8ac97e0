"""Coordinates that tensor copies cannot have: they are illegal instructions on an H200."""

from __future__ import annotations

from collections.abc import Sequence

from .boxes import spans_of, unfolded
from .maps import TensorMap


def refusal(tensor: TensorMap, coordinates: Sequence[int], writes: bool = False) -> str:
    """What is wrong with the coordinates of a box or column, nothing if hardware takes them.

    A box begins at a multiple of 16 bytes, a column within its corners. Nothing is written before the array, and no
    column whose corners leave it.
    """
    nbytes = coordinates[0] * tensor.itemsize
    if nbytes % 16 and tensor.interleave == "none":
        return f"coordinate 0 is {coordinates[0]}: {nbytes} bytes, no multiple of 16"
    before = next((axis for axis, first in enumerate(coordinates) if first < 0), None)
    if writes and before is not None:
        at = f"coordinate {before} is {coordinates[before]}"
        return f"{at}: a box may be read from before the array, not written there"
    return "" if tensor.corners is None else _outside(tensor, coordinates, writes)


def _outside(tensor: TensorMap, coordinates: Sequence[int], writes: bool) -> str:
    plain, start = unfolded(tensor, coordinates)
    first = len(plain.shape) - len(tensor.shape)
    for axis, (place, (low, high)) in enumerate(zip(start[1:], spans_of(plain), strict=False), 1 - first):
        if not low <= place <= high:
            return f"coordinate {axis} is {place}: a column begins within the corners, from {low} to {high}"
    for axis, (low, high) in enumerate(spans_of(plain) if writes else (), 1 - first):
        if low < 0 or high >= plain.shape[axis + first]:
            what = f"the corners leave the array along dimension {axis}, with pixels from {low} to {high}"
            return f"{what}: they may be read from outside, not written there"
    return ""
