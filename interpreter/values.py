"""What the batched executor computes with: one IR value, of all programs of a batch at once.

For an IR value of shape `s` and a batch of n programs, a batch value is one of

- an ndarray of shape (n, *s), or (1, *s) when the value is the same for every program ("uniform"), in the storage
  dtype of the element type. Dimensions along which nothing changes may have stride 0 (`np.broadcast_to`);
- an `Affine`: integers or addresses that are a linear function of the index within the tile;
- a `Box`: an i1 tile that is true exactly inside an index range along each dimension.

The last two are never needed for the result, only for speed: `dense` turns each into the array that it stands for.
Values are immutable by convention: no op changes an operand in place, and no value shares memory with a buffer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import FloatType, IntType, ScalarType

from .numerics.formats import FORMATS

Array: TypeAlias = NDArray[Any]
Int64s: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = NDArray[np.intp]
Shape: TypeAlias = tuple[int, ...]

_INTS = {1: np.dtype(np.bool_), 8: np.dtype(np.int8), 16: np.dtype(np.int16), 32: np.dtype(np.int32)}
_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """Integers that are linear in the tile index: `value[p, i...] = base[p] + sum over d of strides[d] * i_d`.

    The sum is exact: it never leaves the range of `dtype` (int8 to int64; addresses are int64, in bytes). `base` has
    shape (n,) or (1,), and `low <= base <= high` (bounds that need not be reached, kept to prove that nothing wraps).
    """

    base: Int64s
    strides: tuple[int, ...]
    shape: Shape
    dtype: np.dtype[Any]
    low: int
    high: int

    @property
    def minimum(self) -> int:
        """A lower bound of all elements."""
        return self.low + sum(s * (e - 1) for s, e in zip(self.strides, self.shape, strict=True) if s < 0)

    @property
    def maximum(self) -> int:
        """An upper bound of all elements."""
        return self.high + sum(s * (e - 1) for s, e in zip(self.strides, self.shape, strict=True) if s > 0)

    def dense(self) -> Array:
        """The array, with stride 0 along the dimensions where nothing changes."""
        rank = len(self.shape)
        total = self.base.astype(self.dtype).reshape(-1, *(1,) * rank)
        for axis, (stride, extent) in enumerate(zip(self.strides, self.shape, strict=True)):
            if stride and extent > 1:
                steps = (np.arange(extent, dtype=np.int64) * stride).astype(self.dtype)
                total = total + along(steps, axis, rank)
        return stretched(total, self.shape)


Bound: TypeAlias = tuple[Int64s, Int64s] | None


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """An i1 tile, true exactly where `lo[p] <= i_d < hi[p]` for the bounds (lo, hi) of every dimension d.

    Each of lo and hi has shape (n,) or (1,) and stays within [0, extent]; None is the whole extent. A range with
    lo >= hi is empty.
    """

    bounds: tuple[Bound, ...]
    shape: Shape

    @property
    def lead(self) -> int:
        """The number of programs, or 1 for a uniform box."""
        return max((max(len(lo), len(hi)) for lo, hi in self.ranges()), default=1)

    def ranges(self) -> Iterable[tuple[Int64s, Int64s]]:
        """The bounds of the dimensions that have any."""
        return (bound for bound in self.bounds if bound is not None)

    def is_full(self) -> bool:
        """Whether every element is true."""
        return all(
            bound is None or (not bound[0].any() and bool((bound[1] == extent).all()))
            for bound, extent in zip(self.bounds, self.shape, strict=True)
        )

    def dense(self) -> Array:
        """The array, with stride 0 along the dimensions without bounds."""
        rank = len(self.shape)
        parts: list[Array] = []
        for axis, (bound, extent) in enumerate(zip(self.bounds, self.shape, strict=True)):
            if bound is None:
                continue
            lo, hi = (end.astype(np.int32).reshape(-1, *(1,) * rank) for end in bound)
            index = along(np.arange(extent, dtype=np.int32), axis, rank)
            parts.append(index < hi)
            if bound[0].any():
                parts.append(index >= lo)
        total = reduce(np.logical_and, parts) if parts else np.ones((1,) * (rank + 1), np.bool_)
        return np.broadcast_to(total, (self.lead, *self.shape))


BatchValue: TypeAlias = Array | Affine | Box


def along(steps: Array, axis: int, rank: int) -> Array:
    """A vector laid along tile dimension `axis` of a batch value of this rank."""
    return steps.reshape(*(1,) * (axis + 1), -1, *(1,) * (rank - axis - 1))


def storage(element: ScalarType) -> np.dtype[Any]:
    """The dtype of arrays that hold values of this element type."""
    if isinstance(element, FloatType):
        return FORMATS[element.name].storage
    if isinstance(element, IntType):
        return _INTS.get(element.width, _INT64)
    return _INT64


def dense(value: BatchValue) -> Array:
    """The array that a batch value stands for, of shape (n or 1, *shape). It must not be written to."""
    return value if isinstance(value, np.ndarray) else value.dense()


def lead(value: BatchValue) -> int:
    """The length of the program axis: n, or 1 for a uniform value."""
    if isinstance(value, np.ndarray):
        return len(value)
    return len(value.base) if isinstance(value, Affine) else value.lead


def is_uniform(value: BatchValue) -> bool:
    """Whether the value is stored once for all programs."""
    return lead(value) == 1


def nbytes(value: BatchValue) -> int:
    """Bytes that the value takes as stored; repeated dimensions count once."""
    if isinstance(value, np.ndarray):
        return int(compact(value).nbytes)
    if isinstance(value, Affine):
        return int(value.base.nbytes)
    return sum(int(lo.nbytes + hi.nbytes) for lo, hi in value.ranges())


def compact(array: Array) -> Array:
    """The same elements without repetition: extent 1 along every dimension of stride 0."""
    if array.flags.c_contiguous:
        return array
    return array[tuple(slice(0, 1) if not stride else slice(None) for stride in array.strides)]


def stretched(array: Array, shape: Shape) -> Array:
    """A compact array with its repetition back: every tile extent as in `shape`, by stride 0 where it was 1."""
    return array if array.shape[1:] == shape else np.broadcast_to(array, (len(array), *shape))


def widened(array: Array, count: int) -> Array:
    """An array with one entry a program: a uniform one repeated (without copying)."""
    return array if len(array) == count else np.broadcast_to(array, (count, *array.shape[1:]))


def _pick(array: Array, rows: Rows) -> Array:
    """Rows of an array with a program axis; an axis of length 1 stands for any number of programs."""
    return array if len(array) == 1 else array[rows]


def take(value: BatchValue, rows: Rows) -> BatchValue:
    """The value for some of the programs, in the order given (repeats allowed). Uniform values come back unchanged."""
    if isinstance(value, Affine):
        return Affine(_pick(value.base, rows), value.strides, value.shape, value.dtype, value.low, value.high)
    if isinstance(value, Box):
        picked = tuple(
            bound if bound is None else (_pick(bound[0], rows), _pick(bound[1], rows)) for bound in value.bounds
        )
        return Box(picked, value.shape)
    if len(value) == 1 or value.flags.c_contiguous:
        return _pick(value, rows)
    return stretched(_pick(compact(value), rows), value.shape[1:])


def put(into: BatchValue | None, rows: Rows, value: BatchValue, count: int) -> BatchValue:
    """`into`, a value of `count` programs, with the programs `rows` (distinct) replaced by `value`'s in that order.

    None for `into` stands for zeros. Nothing that went in is changed.
    """
    if into is None:
        if len(rows) == count and bool((rows[:-1] < rows[1:]).all()):
            return value
        like = dense(value)
        into = np.zeros((count, *like.shape[1:]), like.dtype)
    if isinstance(into, Affine) and isinstance(value, Affine) and into.strides == value.strides:
        base = _merged(into.base, rows, value.base, count)
        low, high = min(into.low, value.low), max(into.high, value.high)
        return Affine(base, into.strides, into.shape, into.dtype, low, high)
    if isinstance(into, Box) and isinstance(value, Box):
        return Box(_merged_bounds(into, rows, value, count), into.shape)
    return _merged(dense(into), rows, dense(value), count)


def _merged(into: Array, rows: Rows, value: Array, count: int) -> Array:
    """A copy of `into` with some rows replaced, keeping the repetition that both have."""
    shape = into.shape[1:]
    if not (into.flags.c_contiguous and value.flags.c_contiguous):
        keep = tuple(
            slice(0, 1) if not a and not b else slice(None)
            for a, b in zip(into.strides[1:], value.strides[1:], strict=True)
        )
        into, value = into[:, *keep], value[:, *keep]
    merged = np.array(widened(into, count))
    merged[rows] = value
    return stretched(merged, shape)


def _merged_bounds(into: Box, rows: Rows, value: Box, count: int) -> tuple[Bound, ...]:
    """The bounds of a box with some programs' bounds replaced."""
    merged: list[Bound] = []
    for old, new, extent in zip(into.bounds, value.bounds, into.shape, strict=True):
        if old is None and new is None:
            merged.append(None)
            continue
        whole = (np.zeros(1, np.int64), np.full(1, extent, np.int64))
        (old_lo, old_hi), (new_lo, new_hi) = old or whole, new or whole
        merged.append((_merged(old_lo, rows, new_lo, count), _merged(old_hi, rows, new_hi, count)))
    return tuple(merged)
