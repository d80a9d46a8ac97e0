"""Matrix descriptors of `wgmma`: where the elements of an operand in shared memory are.

An operand is made of core matrices, 8 rows of 16 bytes. A descriptor says where it begins, how far core matrices lie
apart along the two directions (leading and stride offset), and how the 16-byte pieces are swizzled. K-major operands
have k running along the 16 bytes; the others (`transposed`, for 16-bit types) the rows of a or the columns of b. With a
swizzle a row of core matrices side by side is as long as the pattern.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .boxes import swizzled

SWIZZLES = ("none", "128B", "64B", "32B")
"""By the two bits of a descriptor."""
_SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
_WINDOW = (1 << 18) - 1
"""Descriptors reach the first 256 KB of shared memory."""


class Descriptor(NamedTuple):
    """A descriptor's fields, in bytes; `base` counts rows of 128 bytes by which the pattern begins late."""

    start: int
    leading: int
    stride: int
    base: int
    swizzle: str
    reserved: int

    @classmethod
    def of(cls, bits: int) -> Descriptor:
        """The fields of the 64 bits."""
        start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        used = 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62
        return cls(start, leading, stride, bits >> 49 & 7, SWIZZLES[bits >> 62], bits & ~used)


@cache
def _grid(rows: int, depth: int, itemsize: int, swizzle: str, transposed: bool) -> tuple[NDArray[np.int64], ...]:
    """For each element [rows, depth]: bytes within a repeat of the pattern, and how often leading and stride count."""
    row, k = np.arange(rows)[:, None], np.arange(depth)[None]
    span, piece = _SPANS[swizzle], 16 // itemsize
    if not transposed:
        inner = row % 8 * span + k * itemsize % 16
        chunk = k // piece
        across = (chunk, row // 8) if swizzle == "none" else (chunk * 0, row // 8)
        inner = inner + (0 if swizzle == "none" else 16 * chunk)
        leading, stride = across
    else:
        wide = span // itemsize
        inner = k % 8 * span + row % wide * itemsize
        outer, along = row // wide, k // 8
        leading, stride = (along, outer) if swizzle == "none" else (outer, along)
    shape = (rows, depth)
    return tuple(np.broadcast_to(x, shape).astype(np.int64) for x in (inner, leading, stride))


def addresses(descriptor: Descriptor, rows: int, depth: int, itemsize: int, transposed: bool) -> NDArray[np.int64]:
    """Where the elements [rows, depth] of an operand are in shared memory, `rows` being those of a, or columns of b."""
    inner, leading, stride = _grid(rows, depth, itemsize, descriptor.swizzle, transposed)
    linear = descriptor.start + inner + leading * descriptor.leading + stride * descriptor.stride
    shift = descriptor.base << 7
    return (swizzled(linear - shift, descriptor.swizzle) + shift) & _WINDOW
