"""Sums and dot products as real numbers rounded once, whatever the order in which the machine added them.

The value is first computed in f64 in whatever order is fast. Any order of n additions, fused or not, is within
`(n - 1) * u / (1 - (n - 1) * u) * sum |terms|` of the real sum, u = 2**-53 (Higham, "Accuracy and Stability of
Numerical Algorithms", 2nd ed., section 4.2; for dot products, n products and n additions, section 3.1). If both ends
of that enclosure round to the same result, that is the result. Otherwise the element is *open* and is redone, first
with error-free additions (the enclosure shrinks to second order, and to nothing where no addition was inexact), then,
if still open, with exact sums. So neither the order of a BLAS nor the width of a vector unit decides a bit.

Infinity and NaN follow IEEE: opposite infinities, infinity times zero, and NaN give NaN. A real sum of zero is +0.0,
unless all terms (the accumulator included) are -0.0, which add up to -0.0 as in every order of IEEE additions.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .casts import Array, decode, decode64, round_to, with_canonical_nan
from .exact import F64Array, sum_to_odd, to_odd, two_product, two_sum
from .formats import FORMATS

_U = 2.0**-53
_SLACK = 1.001
"""Covers the higher-order terms of the bounds, and the rounding of the bound itself."""
_BLOCK = 1 << 15
"""Elements (of 8 bytes) worked on at a time, so that temporaries stay in the second-level cache."""
_TERMS_AT_ONCE = 1 << 20


def _finish(x: Array, fmt: str) -> Array:
    """Round f64 to a result format; 8-bit formats go through f32, as all their arithmetic does."""
    if FORMATS[fmt].bits == 8:
        return round_to(round_to(x, "f32"), fmt)
    return round_to(x, fmt)


def _rounded(value: F64Array, error: F64Array, fmt: str) -> tuple[Array, NDArray[np.bool_]]:
    """Round an enclosure `value` +- `error`, and tell which elements it leaves open."""
    carrier = FORMATS[fmt].carrier
    result = np.asarray(_finish(np.subtract(value, error), fmt))
    upper = np.asarray(_finish(np.add(value, error), fmt))
    return result, np.asarray(result.view(carrier) != upper.view(carrier))


def _cascade(terms: F64Array) -> tuple[F64Array, F64Array, F64Array]:
    """Sum the rows of finite `terms` [rows, n] by halving with TwoSum: the sum, the sum of all errors, sum |errors|.

    sum(row) == sum + all errors exactly; the returned sum of errors is within `2 * n * u * sum |errors|` of theirs.
    """
    error = np.zeros(len(terms))
    size = np.zeros(len(terms))
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        head, rest = two_sum(terms[:, :half], terms[:, half : 2 * half])
        error += rest.sum(axis=1)
        size += np.abs(rest).sum(axis=1)
        terms = np.concatenate([head, terms[:, 2 * half :]], axis=1)
    return terms[:, 0], error, size


def _exact_row(row: list[float], fmt: str) -> Array:
    """The sum of one row of finite terms, exactly, rounded once."""
    try:
        nearest = math.fsum(row)
        residue = math.fsum([*row, -nearest])
    except OverflowError:
        nearest, residue = _exact_rational(sum((Fraction(term) for term in row), Fraction(0)))
    if fmt == "f64":
        return np.asarray(nearest)
    return _finish(to_odd(np.asarray(nearest), np.asarray(residue)), fmt)


def _exact_rational(value: Fraction) -> tuple[float, float]:
    """The f64 nearest to a rational and the sign of what is missing; infinity beyond the range."""
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        return math.copysign(math.inf, value), 0.0
    rest = value - Fraction(nearest)
    return nearest, float((rest > 0) - (rest < 0))


def exact_sums(terms: F64Array, fmt: str) -> Array:
    """The real sums of the rows of finite f64 `terms` [rows, n], each rounded once to `fmt`; zero sums are +0.0."""
    row = FORMATS[fmt]
    if terms.shape[1] == 0:
        return _finish(np.zeros(len(terms)), fmt)
    value, error, size = _cascade(terms)
    slop = 2 * terms.shape[1] * _U * _SLACK * size
    value, rest = two_sum(value, error)
    if fmt == "f64":
        result, upper = value + (rest - slop), value + (rest + slop)
    else:
        result = _finish(sum_to_odd(value, rest - slop), fmt)
        upper = _finish(sum_to_odd(value, rest + slop), fmt)
    result = np.asarray(result)
    unsettled = (result.view(row.carrier) != np.asarray(upper).view(row.carrier)) | ~np.isfinite(value)
    for index in np.flatnonzero(unsettled):
        result[index] = _exact_row(terms[index].tolist(), fmt)
    return result


@np.errstate(all="ignore")
def sum_along(x: Array, axis: int, fmt: str, out_fmt: str | None = None) -> Array:
    """The real sum of `x` (storage of `fmt`) along one axis, rounded once to `out_fmt` (None: to `fmt`).

    The axis disappears from the shape. Sums to an 8-bit format round to f32 first, as all 8-bit arithmetic does.
    """
    out = out_fmt or fmt
    x = np.asarray(x)
    rows = np.moveaxis(decode(x, fmt), axis, -1)
    shape, length = rows.shape[:-1], rows.shape[-1]
    wide = np.moveaxis(decode(x, fmt), axis, 0) if axis % x.ndim == 0 else rows
    if wide is rows or x.ndim == 1:
        value, size = rows.sum(axis=-1, dtype=np.float64), np.abs(rows).sum(axis=-1, dtype=rows.dtype)
    else:
        value, size = wide.sum(axis=0, dtype=np.float64), np.abs(wide).sum(axis=0, dtype=rows.dtype)
    value, size = np.asarray(value), np.asarray(size, dtype=np.float64)
    # |x| may have been summed in f32: within a factor of 1 + length * 2**-23 of the truth, or infinite.
    error = size * (length * _U * _SLACK * (1 + length * 2.0**-23))
    if fmt == "f16":
        error[size < 2.0**29] = 0.0  # all terms are multiples of 2**-24: every partial sum was exact
    result, open_ = _rounded(value, error, out)
    if out == "f64":
        open_ = error > 0
    open_ |= ~np.isfinite(value)
    if open_.any():
        result = np.array(result, ndmin=1)
        picked = rows[open_].reshape(-1, length).astype(np.float64)
        finite = np.isfinite(picked).all(axis=-1)
        redone = np.asarray(_finish(np.atleast_1d(value[open_]), out))
        redone[finite] = exact_sums(picked[finite], out)
        result.reshape(shape)[open_] = redone
    return _negative_zero(result.reshape(shape), rows, out)


def _negative_zero(result: Array, rows: Array, fmt: str) -> Array:
    """Give sums of nothing but -0.0 their sign."""
    row = FORMATS[fmt]
    if rows.shape[-1] == 0 or not row.has_negative_zero:
        return result
    zero = np.asarray((result.view(row.carrier) << row.carrier.type(1)) == 0)
    if zero.any():
        picked = rows[zero]
        all_negative = ((picked == 0) & np.signbit(picked)).all(axis=-1)
        codes = result.view(row.carrier)
        codes[zero] = np.where(all_negative, row.carrier.type(row.sign_bit), codes[zero])
    return result
