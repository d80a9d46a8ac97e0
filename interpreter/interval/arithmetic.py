"""What float arithmetic makes of enclosures: the reference value as ever, and ends that hold every allowed result.

Rounding is monotone, so that a monotone operation maps ends to ends, each rounded once, without any slack. Where a NaN
comes out for one end only, that end is infinite. The rules are those of interval arithmetic (R. E. Moore, Interval
Analysis, 1966).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numerics
from ..numerics import FORMATS
from ..numerics.exact import sum_to_odd, two_product
from .arrays import (
    ANY,
    EMPTY_HIGH,
    EMPTY_LOW,
    INFINITY,
    MINUS_INFINITY,
    MINUS_ZERO,
    NEVER,
    ZERO,
    Array,
    Keys,
    Numbers,
    Span,
    keys_of,
    numbers_of,
    points,
)


def rounded(x: Numbers, fmt: str) -> Numbers:
    """Real numbers, each given as a float64 that is rounded to odd or exact, rounded once to a format."""
    stored = numerics.round_to(x, "f32") if FORMATS[fmt].bits == 8 else x
    return numerics.decode(numerics.round_to(stored, fmt), fmt).astype(np.float64)


def stored(keys: Keys, fmt: str) -> Array:
    """The storage of numbers of a format, given by their keys."""
    return numerics.round_to(numbers_of(keys), fmt)


def wide(x: Array, fmt: str) -> Numbers:
    """Storage as float64."""
    return numerics.decode(x, fmt).astype(np.float64)


def settled(value: Array, low: Numbers, high: Numbers, nan: Array, point: Array, fmt: str) -> Span:
    """The enclosure with these ends, of which a NaN means that no number is known.

    point: where every operand has one result, so that the operation, which is rounded once, has one as well.
    """
    alone = points(value, fmt, ANY)
    unknown = np.isnan(low) | np.isnan(high)
    bottom = np.where(np.isnan(low), MINUS_INFINITY, keys_of(np.where(np.isnan(low), 0.0, low)))
    top = np.where(np.isnan(high), INFINITY, keys_of(np.where(np.isnan(high), 0.0, high)))
    bottom, top = np.where(point, alone.low, bottom), np.where(point, alone.high, top)
    flag = np.where(point, alone.nan, np.where(nan | unknown, ANY, NEVER)).astype(np.uint8)
    return Span(value, bottom, top, bottom, top, flag)


def all_of(flags: Sequence[Array]) -> Array:
    return np.logical_and.reduce(np.broadcast_arrays(*flags))


def any_of(flags: Sequence[Array]) -> Array:
    return np.logical_or.reduce(np.broadcast_arrays(*flags))


def may_be_nan(*spans: Span) -> Array:
    return any_of([span.nan != NEVER for span in spans])


def unfused(span: Span) -> tuple[Numbers, Numbers]:
    """The ends of what an addition may find: the number, or the product before it was rounded."""
    return numbers_of(np.minimum(span.low, span.fused_low)), numbers_of(np.maximum(span.high, span.fused_high))


def add(a: Span, b: Span, fmt: str) -> Span:
    """`a + b`, perhaps fused with a product that either of them is."""
    return _sum(numerics.add(a.value, b.value, fmt), a, b, fmt)


def sub(a: Span, b: Span, fmt: str) -> Span:
    """`a - b`, perhaps fused."""
    return _sum(numerics.sub(a.value, b.value, fmt), a, mirrored(b), fmt)


def _sum(value: Array, a: Span, b: Span, fmt: str) -> Span:
    (a_low, a_high), (b_low, b_high) = unfused(a), unfused(b)
    if fmt == "f64":
        low, high = a_low + b_low, a_high + b_high
    else:
        low, high = rounded(sum_to_odd(a_low, b_low), fmt), rounded(sum_to_odd(a_high, b_high), fmt)
    opposite = (a.has(INFINITY, INFINITY) & b.has(MINUS_INFINITY, MINUS_INFINITY)) | (
        a.has(MINUS_INFINITY, MINUS_INFINITY) & b.has(INFINITY, INFINITY)
    )
    single = [span.point & (span.fused_low == span.low) & (span.fused_high == span.high) for span in (a, b)]
    return settled(value, low, high, may_be_nan(a, b) | opposite, all_of(single), fmt)


def mirrored(a: Span) -> Span:
    """The numbers of an enclosure with their signs flipped."""
    low, high, fused_low, fused_high = (~key for key in (a.high, a.low, a.fused_high, a.fused_low))
    return a._replace(
        low=np.where(a.empty, a.low, low),
        high=np.where(a.empty, a.high, high),
        fused_low=np.where(a.empty, a.low, fused_low),
        fused_high=np.where(a.empty, a.high, fused_high),
    )


def extremes(candidates: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """The least and the largest, -0.0 below +0.0; NaN where one is NaN."""
    arrays = np.broadcast_arrays(*candidates)
    missing = any_of([np.isnan(each) for each in arrays])
    keys = [keys_of(np.where(missing, 0.0, each)) for each in arrays]
    low, high = numbers_of(np.minimum.reduce(keys)), numbers_of(np.maximum.reduce(keys))
    return np.where(missing, np.nan, low), np.where(missing, np.nan, high)


def combinations(operation: Callable[[Any, Any], Any], a: Span, b: Span) -> tuple[Numbers, Numbers]:
    """The extremes of an operation, monotone in each operand, on the ends of two ranges."""
    return extremes([operation(x, y) for x in a.numbers() for y in b.numbers()])


def mul(a: Span, b: Span, fmt: str) -> Span:
    """`a * b`; the ends before rounding are kept, unless the format is one that is never fused."""
    value = numerics.mul(a.value, b.value, fmt)
    nan = may_be_nan(a, b) | (a.has_zero & b.has_infinity) | (a.has_infinity & b.has_zero)
    low, high = combinations(np.multiply, a, b)
    point = all_of([a.point, b.point])
    made = settled(value, rounded(low, fmt), rounded(high, fmt), nan, point, fmt)
    if FORMATS[fmt].bits == 8:
        return made
    real = settled(wide(value, fmt), low, high, nan, np.zeros((), np.bool_), "f64")
    fused_low, fused_high = (real.low, real.high) if fmt != "f64" else _outside(a, b, real)
    return made._replace(
        fused_low=np.where(made.empty, made.low, fused_low), fused_high=np.where(made.empty, made.high, fused_high)
    )


def _outside(a: Span, b: Span, product: Span) -> tuple[Keys, Keys]:
    """Ends around the real product of f64s: one number further out on each side, unless the product is exact."""
    x, y = numbers_of(a.low), numbers_of(b.low)
    size = np.abs(x * y)
    safe = (np.abs(x) < 2.0**480) & (np.abs(y) < 2.0**480) & ((size > 2.0**-480) | (x == 0) | (y == 0))
    kept = all_of([a.point, b.point, safe, two_product(x, y)[1] == 0])
    low = np.where(kept | (product.low == MINUS_INFINITY), product.low, product.low - 1)
    return low, np.where(kept | (product.high == INFINITY), product.high, product.high + 1)


def fma(a: Span, b: Span, c: Span, fmt: str) -> Span:
    """`a * b + c`, rounded once."""
    value = numerics.fma(a.value, b.value, c.value, fmt)
    point, c_low, c_high = all_of([a.point, b.point, c.point]), *c.numbers()
    if fmt == "f64":
        product = mul(a, b, fmt)
        low, high = numbers_of(product.fused_low) + c_low, numbers_of(product.fused_high) + c_high
    else:
        p_low, p_high = combinations(np.multiply, a, b)
        low, high = rounded(sum_to_odd(p_low, c_low), fmt), rounded(sum_to_odd(p_high, c_high), fmt)
    infinite = any_of([span.has_infinity for span in (a, b, c)])
    return settled(value, low, high, may_be_nan(a, b, c) | (infinite & ~point), point, fmt)


def remainder(a: Span, b: Span, fmt: str) -> Span:
    """C `fmod`: smaller than both operands, with the sign of the first."""
    value = numerics.rem(a.value, b.value, fmt)
    point = all_of([a.point, b.point])
    (a_low, a_high), (b_low, b_high) = a.numbers(), b.numbers()
    size = np.minimum(np.maximum(np.abs(a_low), np.abs(a_high)), np.maximum(np.abs(b_low), np.abs(b_high)))
    low, high = np.where(a.low >= ZERO, 0.0, -size), np.where(a.high <= MINUS_ZERO, -0.0, size)
    return settled(value, low, high, may_be_nan(a, b) | b.has_zero | a.has_infinity, point, fmt)


def extremum(name: str) -> Callable[[Span, Span, str], Span]:
    """The rule of a minimum or maximum that ignores NaN (`minnum`, `maxnum`) or hands it on."""
    function, pick = getattr(numerics, name), np.minimum if name.startswith("min") else np.maximum
    ignores = name.endswith("num")

    def rule(a: Span, b: Span, fmt: str) -> Span:
        value = function(a.value, b.value, fmt)
        low, high = pick(a.low, b.low), pick(a.high, b.high)
        if ignores:
            # Where one may be NaN the result may be the other; a number is left unless both are NaN for certain.
            other = hull_of(low, high, b, (a.nan != NEVER) & ~a.empty)
            low, high = hull_of(*other, a, (b.nan != NEVER) & ~b.empty)
            low = np.where(a.empty, b.low, np.where(b.empty, a.low, low))
            high = np.where(a.empty, b.high, np.where(b.empty, a.high, high))
            nan, none = (a.nan != NEVER) & (b.nan != NEVER), a.empty & b.empty
        else:
            nan, none = may_be_nan(a, b), a.empty | b.empty
        # Rounding changes nothing but the infinities of an 8-bit format.
        low, high = (keys_of(np.where(none, 0.0, rounded(numbers_of(end), fmt))) for end in (low, high))
        low, high = np.where(none, EMPTY_LOW, low), np.where(none, EMPTY_HIGH, high)
        return Span(value, low, high, low, high, np.where(nan, ANY, NEVER).astype(np.uint8))

    return rule


def hull_of(low: Keys, high: Keys, other: Span, where: Array) -> tuple[Keys, Keys]:
    """The range, stretched to hold another one where that is possible."""
    use = where & ~other.empty
    return np.where(use, np.minimum(low, other.low), low), np.where(use, np.maximum(high, other.high), high)


def neg(a: Span, fmt: str) -> Span:
    """The sign flipped. What was a product stays one."""
    flipped = mirrored(a)._replace(value=numerics.neg(a.value, fmt))
    if FORMATS[fmt].has_negative_zero:
        return flipped
    single = points(flipped.value, fmt, ANY)  # zeros have no sign to flip
    low, high = np.where(flipped.low == MINUS_ZERO, ZERO, flipped.low), flipped.high
    high = np.where(high == MINUS_ZERO, ZERO, high)
    low, high = np.where(a.point, single.low, low), np.where(a.point, single.high, high)
    return flipped._replace(low=low, high=high, fused_low=low, fused_high=high)


def abs_(a: Span, fmt: str) -> Span:
    """The sign cleared."""
    made = mirrored(a)

    def folded(low: Keys, high: Keys, other_low: Keys, other_high: Keys) -> tuple[Keys, Keys]:
        least = np.where(low >= ZERO, low, np.where(high <= MINUS_ZERO, other_low, ZERO))
        return np.where(a.empty, a.low, least), np.where(a.empty, a.high, np.maximum(high, other_high))

    low, high = folded(a.low, a.high, made.low, made.high)
    fused_low, fused_high = folded(a.fused_low, a.fused_high, made.fused_low, made.fused_high)
    return Span(numerics.abs_(a.value, fmt), low, high, fused_low, fused_high, a.nan)
