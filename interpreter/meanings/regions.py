"""Affine accesses as strided views: which slices of a buffer a tile of pointers touches, program by program.

A tile of affine pointers under a box touches, in each program, one strided block of memory. Blocks of neighbouring
programs of the same extent whose first addresses form an arithmetic progression (or a progression of progressions, as
on a grid of several axes) are one view with more dimensions. So a whole batch is often one copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..memory import Buffer
from ..values import Affine, Array, BatchValue, Box, Int64s, widened

#: A run of equal steps: how many, and how far apart in bytes.
Level: TypeAlias = tuple[int, int]
#: From and to along each dimension of the tile.
Range: TypeAlias = tuple[tuple[int, int], ...]

#: Blocks of fewer elements are cheaper to gather than to slice one by one.
WORTH_A_SLICE = 256
#: Up to so many blocks are sliced one by one however small they are.
FEW = 8


class Region(NamedTuple):
    """What an access touches: in program p, `base[p]` plus the byte strides times the indices inside the bounds.

    `base` has shape (lead,). Each bound is a pair of ints, the same for all programs, or of arrays (lead,).
    """

    base: Int64s
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    bounds: tuple[tuple[Any, Any], ...]
    lead: int


class Piece(NamedTuple):
    """The programs [first, last), as nested `levels`, whose blocks are one strided view from `address`."""

    first: int
    last: int
    levels: tuple[Level, ...]
    inside: Range
    address: int
    strides: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the view: the levels, then the block."""
        return (*(count for count, _ in self.levels), *(hi - lo for lo, hi in self.inside))

    @property
    def steps(self) -> tuple[int, ...]:
        """The byte strides of the view."""
        return (*(step for _, step in self.levels), *self.strides)

    def of(self, tile: Array) -> Array:
        """The same elements of a batch value of shape (count, *shape), as a view of the shape of this piece."""
        rows = tile[self.first : self.last]
        split = rows.reshape((*(count for count, _ in self.levels), *rows.shape[1:]))
        block = tuple(slice(lo, hi) for lo, hi in self.inside)
        return split[(..., *block)]  # the ellipsis keeps even a single element a view


def region_of(pointer: BatchValue, mask: BatchValue | None) -> Region | None:
    """The region of an affine access under a box; None if the access is not of that kind."""
    if isinstance(pointer, Affine):
        base, strides, shape = pointer.base, pointer.strides, pointer.shape
    elif isinstance(pointer, np.ndarray) and pointer.ndim == 1:
        base, strides, shape = pointer, (), ()
    else:
        return None
    if mask is None:
        return Region(base, strides, shape, tuple((0, extent) for extent in shape), len(base))
    if not isinstance(mask, Box):
        return None
    count = max(len(base), mask.lead)
    bounds: list[tuple[Any, Any]] = []
    for bound, extent in zip(mask.bounds, shape, strict=True):
        lo, hi = (0, extent) if bound is None else bound
        if bound is not None and _constant(bound[0]) and _constant(bound[1]):
            lo, hi = int(bound[0][0]), int(bound[1][0])
        elif bound is not None:
            lo, hi = widened(bound[0], count), widened(bound[1], count)
        bounds.append((lo, hi))
    return Region(widened(base, count), strides, shape, tuple(bounds), count)


def _constant(values: Int64s) -> bool:
    return len(values) == 1 or bool((values == values[0]).all())


def span(region: Region) -> tuple[int, int] | None:
    """The lowest address touched and the highest (of a first byte); None when nothing is touched."""
    base, varied = region.base, False
    low: Any = 0
    high: Any = 0
    live: Any = True
    for (lo, hi), stride in zip(region.bounds, region.strides, strict=True):
        varied |= isinstance(lo, np.ndarray)
        live = live & (lo < hi)
        ends = (stride * lo, stride * (hi - 1)) if stride >= 0 else (stride * (hi - 1), stride * lo)
        low, high = low + ends[0], high + ends[1]
    if varied:
        if not live.any():
            return None
        return int((base + low)[live].min()), int((base + high)[live].max())
    return (int(base.min()) + low, int(base.max()) + high) if live else None


def aligned(region: Region, size: int) -> bool:
    """Whether every address that the region could touch is a multiple of the element size."""
    strides = (s for s, e in zip(region.strides, region.shape, strict=True) if e > 1)
    return not (int(np.bitwise_or.reduce(region.base)) | sum(s % size for s in strides)) & (size - 1)


def levels_of(base: Int64s) -> tuple[Level, ...] | None:
    """The addresses as nested arithmetic progressions, outermost first; None when they are not.

    `base[i]` for i counted in mixed radix over the levels is `base[0]` plus each digit times its level's step.
    """
    count = len(base)
    if count == 1:
        return ()
    step = int(base[1]) - int(base[0])
    regular = base == np.arange(count, dtype=np.int64) * step + base[0]
    if regular.all():
        return ((count, step),)
    run = int(np.argmin(regular))
    if count % run:
        return None
    rows = base.reshape(-1, run)
    if not (rows - rows[:, :1] == np.arange(run, dtype=np.int64) * step).all():
        return None
    outer = levels_of(np.ascontiguousarray(rows[:, 0]))
    return None if outer is None else (*outer, (run, step))


def pieces(region: Region) -> list[Piece] | None:
    """The region as few strided views, in program order; None when gathering would be cheaper."""
    found: list[Piece] = []
    runs = list(_runs(region))
    if len(runs) > FEW and prod(region.shape) < WORTH_A_SLICE:
        return None
    for first, last, inside in runs:
        corner = sum(lo * stride for (lo, _), stride in zip(inside, region.strides, strict=True))
        base = region.base[first:last]
        levels = levels_of(base)
        if levels is not None:
            found.append(Piece(first, last, levels, inside, int(base[0]) + corner, region.strides))
            continue
        if last - first > FEW and prod(hi - lo for lo, hi in inside) < WORTH_A_SLICE:
            return None
        for row, address in enumerate(base.tolist(), first):
            found.append(Piece(row, row + 1, (), inside, address + corner, region.strides))
    return found


def _runs(region: Region) -> Iterator[tuple[int, int, Range]]:
    """The runs of programs whose bounds are the same, without those that touch nothing."""
    ends = [end for bound in region.bounds for end in bound]
    changing = [end for end in ends if isinstance(end, np.ndarray)]
    cuts: list[int] = []
    if changing:
        changed = np.zeros(region.lead - 1, np.bool_)
        for end in changing:
            changed |= end[1:] != end[:-1]
        cuts = (np.flatnonzero(changed) + 1).tolist()
    for first, last in pairwise([0, *cuts, region.lead]):
        at = [int(end[first]) if isinstance(end, np.ndarray) else end for end in ends]
        inside = tuple(zip(at[::2], at[1::2], strict=True))
        if all(lo < hi for lo, hi in inside):
            yield first, last, inside


def read(piece: Piece, buffer: Buffer, out: Array) -> None:
    """Copy the piece's elements out of the buffer into a batch value."""
    piece.of(out)[...] = buffer.strided(out.dtype, piece.address, piece.shape, piece.steps)


def write(piece: Piece, buffer: Buffer, value: Array) -> bool | None:
    """Copy a batch value's elements into the buffer, the last one where several go to one address.

    Whether memory may have changed; None, with nothing done, when elements overlap in a way that a strided copy does
    not order.
    """
    source, shape = piece.of(value), list(piece.shape)
    for axis, step in enumerate(piece.steps):
        if step == 0 and shape[axis] > 1:
            source = source[(slice(None),) * axis + (slice(-1, None),)]
            shape[axis] = 1
    if not distinct(shape, piece.steps, value.dtype.itemsize):
        return None
    target = buffer.strided(value.dtype, piece.address, shape, piece.steps)
    changes = differ(target, source)
    target[...] = source
    return changes


def differ(old: Array, new: Array) -> bool:
    """Whether a few elements differ in any bit; taken for granted of many."""
    bits = f"u{old.dtype.itemsize}"
    return old.size > FEW or bool((old.view(bits) != new.view(bits)).any())


def distinct(shape: Sequence[int], steps: Sequence[int], size: int) -> bool:
    """Whether it is plain that no two elements of a strided view overlap: each step clears all smaller ones."""
    reach = size
    for step, extent in sorted((abs(s), e) for s, e in zip(steps, shape, strict=True) if e > 1):
        if step < reach:
            return False
        reach += step * (extent - 1)
    return True
