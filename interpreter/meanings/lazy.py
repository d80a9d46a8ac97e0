"""Integer arithmetic on affine tiles and boxes, without making them into arrays.

Every function here returns None when the result is not of that kind, or when a value could leave the range of its
type: then the op runs on arrays, where it wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..values import Affine, Array, BatchValue, Bound, Box, Int64s, compact

_INT64 = np.iinfo(np.int64)


def as_affine(value: BatchValue) -> Affine | None:
    """The value as an affine tile: also an array of integers that is constant inside each program's tile."""
    if isinstance(value, Affine):
        return value
    if isinstance(value, Box) or value.dtype.kind != "i" or value.ndim == 1 or any(value.strides[1:]):
        return None
    return constant_tile(value.reshape(len(value), -1)[:, 0], value.shape[1:])


def constant_tile(scalars: Array, shape: tuple[int, ...]) -> Affine:
    """A tile with one integer a program in every element."""
    base = scalars.astype(np.int64)
    return Affine(base, (0,) * len(shape), shape, scalars.dtype, int(base.min()), int(base.max()))


def fitted(base: Int64s, low: int, high: int, strides: tuple[int, ...], like: Affine) -> Affine | None:
    """An affine tile shaped and typed like another, if it surely stays in range."""
    result = Affine(base, strides, like.shape, like.dtype, low, high)
    info = np.iinfo(like.dtype)
    return result if info.min <= result.minimum and result.maximum <= info.max else None


def _safe(low: int, high: int) -> bool:
    return _INT64.min <= low and high <= _INT64.max


def add(a: Affine, b: Affine, scale: int = 1) -> Affine | None:
    """`a + scale * b`, typed as `a`."""
    ends = (b.low * scale, b.high * scale)
    low, high = a.low + min(ends), a.high + max(ends)
    if not (_safe(low, high) and _safe(min(ends), max(ends))):
        return None
    base = a.base + (b.base if scale == 1 else b.base * scale)
    return fitted(base, low, high, tuple(s + scale * t for s, t in zip(a.strides, b.strides, strict=True)), a)


def sub(a: Affine, b: Affine) -> Affine | None:
    """`a - b`."""
    return add(a, b, -1)


def mul(a: Affine, b: Affine) -> Affine | None:
    """`a * b`, where one of them is constant inside the tile, and the same for all programs if the other is not."""
    if any(b.strides):
        a, b = b, a
    if any(b.strides) or (any(a.strides) and len(b.base) > 1):
        return None
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = min(corners), max(corners)
    if not _safe(low, high):
        return None
    factor = int(b.base[0]) if any(a.strides) else 0
    return fitted(a.base * b.base, low, high, tuple(s * factor for s in a.strides), a)


def _quotients(a: Affine, b: Affine) -> tuple[Int64s, Int64s] | None:
    """(quotient, divisor) a program, if both are non-negative and no tile crosses a multiple of the divisor."""
    if any(b.strides) or b.low <= 0 or a.minimum < 0:
        return None
    reach = a.maximum - a.high
    below = a.low - a.minimum
    first = (a.base - below) // b.base
    last = first if not (reach or below) else (a.base + reach) // b.base
    return (first, b.base) if first is last or bool((first == last).all()) else None


def div(a: Affine, b: Affine) -> Affine | None:
    """`a / b`, where each program has one quotient."""
    found = _quotients(a, b)
    if found is None:
        return None
    quotient = found[0]
    return fitted(quotient, int(quotient.min()), int(quotient.max()), (0,) * len(a.strides), a)


def rem(a: Affine, b: Affine) -> Affine | None:
    """`a mod b`, where each program has one quotient."""
    found = _quotients(a, b)
    if found is None:
        return None
    base = a.base - found[0] * found[1]
    return fitted(base, int(base.min()), int(base.max()), a.strides, a)


def shl(a: Affine, b: Affine) -> Affine | None:
    """`a << b` by one amount, as a product."""
    if any(b.strides) or len(b.base) > 1 or not 0 <= b.low < 8 * a.dtype.itemsize - 1:
        return None
    factor = 1 << b.low
    low, high = a.low * factor, a.high * factor
    return fitted(a.base * factor, low, high, tuple(s * factor for s in a.strides), a) if _safe(low, high) else None


def _cut(a: Affine, b: Affine, below: Callable[[Int64s, int], Int64s], above: Callable[[Int64s, int], Int64s]) -> Any:
    """The box of a comparison of `d = a - b`, d = base + step * i along at most one dimension.

    `below(base, step)` gives, for step > 0, the first index past the true ones that start at 0; `above` for step < 0
    the first true one of those that run to the end.
    """
    low, high = a.low - b.high, a.high - b.low
    steps = tuple(s - t for s, t in zip(a.strides, b.strides, strict=True))
    axes = [axis for axis, (step, extent) in enumerate(zip(steps, a.shape, strict=True)) if step and extent > 1]
    if len(axes) > 1 or not _safe(2 * low - 2, 2 * high + 2):
        return None
    base = a.base - b.base
    bounds: list[Bound] = [None] * len(a.shape)
    axis = axes[0] if axes else 0
    extent, step = a.shape[axis], steps[axis] if axes else 0
    zero, whole = np.zeros(1, np.int64), np.full(1, extent, np.int64)
    if step > 0:
        bounds[axis] = (zero, np.clip(below(base, step), 0, extent))
    elif step < 0:
        bounds[axis] = (np.clip(above(base, step), 0, extent), whole)
    else:
        bounds[axis] = (zero, np.where(below(base, 1) > 0, extent, 0))
    return Box(tuple(bounds), a.shape)


def less(a: Affine, b: Affine) -> Box | None:
    """`a < b`: with d = a - b, step * i < -base."""
    return _cut(a, b, lambda base, step: -(base // step), lambda base, step: base // -step + 1)


def less_equal(a: Affine, b: Affine) -> Box | None:
    """`a <= b`: step * i <= -base."""
    return _cut(a, b, lambda base, step: -base // step + 1, lambda base, step: -(-base // -step))


def greater(a: Affine, b: Affine) -> Box | None:
    """`a > b`."""
    return less(b, a)


def greater_equal(a: Affine, b: Affine) -> Box | None:
    """`a >= b`."""
    return less_equal(b, a)


def nonnegative(rule: Callable[[Affine, Affine], Any]) -> Callable[[Affine, Affine], Any]:
    """An unsigned op by the rule of the signed one, where no operand has its top bit set."""

    def unsigned(a: Affine, b: Affine) -> Any:
        return rule(a, b) if a.minimum >= 0 and b.minimum >= 0 else None

    return unsigned


def both(a: Box, b: Box) -> Box:
    """The intersection of two boxes."""
    return Box(tuple(_meet(x, y) for x, y in zip(a.bounds, b.bounds, strict=True)), a.shape)


def _meet(a: Bound, b: Bound) -> Bound:
    if a is None or b is None:
        return a or b
    return np.maximum(a[0], b[0]), np.minimum(a[1], b[1])


def constant_box(flags: Array, shape: tuple[int, ...]) -> Box:
    """A tile with one truth value a program in every element."""
    bound = (np.zeros(1, np.int64), np.where(flags, np.int64(shape[0]), np.int64(0)))
    return Box((bound, *(None,) * (len(shape) - 1)), shape)


def as_box(value: BatchValue) -> Box | None:
    """The value as a box: also an i1 array that is constant inside each program's tile."""
    if isinstance(value, Box):
        return value
    if isinstance(value, Affine) or value.ndim == 1 or any(value.strides[1:]):
        return None
    return constant_box(compact(value).reshape(len(value), -1)[:, 0], value.shape[1:])
