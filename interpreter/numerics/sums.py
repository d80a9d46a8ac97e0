"""Sums and dot products as real numbers rounded once, whatever the order in which the machine added them.

The value is first computed in f64 in whatever order is fast. Any order of n additions, fused or not, is within
`(n - 1) * u / (1 - (n - 1) * u) * sum |terms|` of the real sum, u = 2**-53 (Higham, "Accuracy and Stability of
Numerical Algorithms", 2nd ed., section 4.2; for dot products, n products and n additions, section 3.1). If both ends
of that enclosure round to the same result, that is the result; it is exact, too, if all terms are multiples of a power
of two so large that f64 holds every partial sum. Otherwise the element is *open* and is redone, first with error-free
additions (the enclosure shrinks to second order, and to nothing where no addition was inexact), then, if still open,
with exact sums. So neither the order of a BLAS nor the width of a vector unit decides a bit.

Infinity and NaN follow IEEE: opposite infinities, infinity times zero, and NaN give NaN. A real sum of zero is +0.0,
unless all terms (the accumulator included) are -0.0, which add up to -0.0 as in every order of IEEE additions.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .blocks import BLOCK, Array
from .casts import decode, round_to, with_canonical_nan
from .exact import F64Array, sum_to_odd, to_odd, two_sum
from .formats import FORMATS

_U = 2.0**-53
_SLACK = 1.001
"""Covers the higher-order terms of the bounds, and the rounding of the bound itself."""
_FEW_ROWS = 8
"""Up to so many rows the exact sum costs less than the error-free additions."""
_TERMS_AT_ONCE = 1 << 16
"""Terms (of 8 bytes) that a redo gathers at a time, so that they stay in the second-level cache; some rows at least."""


def finish(x: Array, fmt: str) -> Array:
    """Round f64 to a result format; 8-bit formats go through f32, as all their arithmetic does."""
    if FORMATS[fmt].bits == 8:
        return round_to(round_to(x, "f32"), fmt)
    return round_to(x, fmt)


def round_enclosure(value: F64Array, error: F64Array, fmt: str) -> tuple[Array, NDArray[np.bool_]]:
    """Round the enclosure `value` +- `error` to `fmt`, and tell which elements it leaves open."""
    if fmt == "f32":
        lower = np.subtract(value, error, out=np.empty(value.shape, np.float32), casting="same_kind")
        upper = np.add(value, error, out=np.empty(value.shape, np.float32), casting="same_kind")
        with_canonical_nan(lower, fmt)
    else:
        lower, upper = finish(np.asarray(value - error), fmt), finish(np.asarray(value + error), fmt)
    carrier = FORMATS[fmt].carrier
    return lower, np.asarray(lower.view(carrier) != upper.view(carrier))


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


def _exact_rows(terms: F64Array, fmt: str) -> Array:
    """The sums of a few rows of finite terms, exactly, each rounded once."""
    nearest, residue = np.empty(len(terms)), np.empty(len(terms))
    overflow: list[int] = []
    for place, row in enumerate(terms.tolist()):
        try:
            nearest[place] = math.fsum(row)
            residue[place] = math.fsum([*row, -nearest[place]])
        except OverflowError:
            nearest[place] = residue[place] = 0.0
            overflow.append(place)
    result = _finish_exact(nearest, residue, fmt)
    for place in overflow:
        result[place] = exact_rational_sum(sum(map(Fraction, terms[place].tolist()), Fraction(0)), fmt)
    return result


def exact_rational_sum(total: Fraction, fmt: str) -> Array:
    """A rational rounded once to `fmt` (to f32 first for 8-bit formats)."""
    try:
        nearest = total.numerator / total.denominator  # Python divides integers with one correct rounding
    except OverflowError:
        return finish(np.asarray(math.inf if total > 0 else -math.inf), fmt)
    rest = total - Fraction(nearest)
    return _finish_exact(np.asarray(nearest), np.asarray(float((rest > 0) - (rest < 0))), fmt)


def _finish_exact(nearest: F64Array, residue: F64Array, fmt: str) -> Array:
    """Round to `fmt` numbers given as the nearest f64 and what is missing, of which only the sign counts."""
    return nearest if fmt == "f64" else finish(to_odd(nearest, residue), fmt)


def _exact_finite(terms: F64Array, fmt: str) -> Array:
    """The real sums of the rows of finite f64 `terms` [rows, n], each rounded once to `fmt`; zero sums are +0.0."""
    if len(terms) <= _FEW_ROWS:
        return _exact_rows(terms, fmt)
    carrier = FORMATS[fmt].carrier
    value, error, size = _cascade(terms)
    value, rest = two_sum(value, error)
    slop = np.where(size > 0, 2 * _U * _SLACK * (terms.shape[1] * size + np.abs(rest)), 0.0)
    if fmt == "f64":
        result, upper = value + (rest - slop), value + (rest + slop)
    else:
        result = finish(sum_to_odd(value, rest - slop), fmt)
        upper = finish(sum_to_odd(value, rest + slop), fmt)
    unsettled = (result.view(carrier) != upper.view(carrier)) | ~np.isfinite(value)
    if unsettled.any():
        result[unsettled] = _exact_rows(terms[unsettled], fmt)
    return result


def exact_sums(terms: F64Array, fmt: str) -> Array:
    """The sums of the rows of f64 `terms` [rows, n], n > 0, rounded once to `fmt`, by the rules of this module."""
    row = FORMATS[fmt]
    result = np.empty(len(terms), row.storage)
    finite = np.isfinite(terms).all(axis=1)
    result[~finite] = finish(terms[~finite].sum(axis=1), fmt)
    result[finite] = _exact_finite(terms[finite], fmt)
    negative_zero = ((terms == 0) & np.signbit(terms)).all(axis=1)
    if row.has_negative_zero:
        result.view(row.carrier)[negative_zero] = row.sign_bit
    return result


@np.errstate(all="ignore")
def sum_along(x: Array, axis: int, fmt: str, out_fmt: str | None = None) -> Array:
    """The real sum of `x` (storage of `fmt`) along one axis, rounded once to `out_fmt` (None: to `fmt`).

    The axis disappears from the shape; over an axis of length 0 the sum is +0.0. Sums to an 8-bit format round to
    f32 first, as all 8-bit arithmetic does.
    """
    out = out_fmt or fmt
    x = np.asarray(x)
    place = axis % x.ndim
    before, length, after = x.shape[:place], x.shape[place], x.shape[place + 1 :]
    lines = x.reshape(math.prod(before), length, math.prod(after))
    value, size = _sums_and_sizes(lines, fmt)
    if length == 0:
        return finish(value, out).reshape(before + after)
    error = size * (length * _U * _SLACK)
    if fmt == "f16":
        error[size < 2.0**29] = 0.0  # all terms are multiples of 2**-24: every partial sum was exact
    value += 0.0  # the sign of a zero is settled below, not by the order in which NumPy adds
    result, redo = round_enclosure(value, error, out)
    redo |= ~np.isfinite(value)
    redo |= size == 0  # perhaps of -0.0 only
    redo |= error > 0 if out == "f64" else False
    at_once = max(2 * _FEW_ROWS, _TERMS_AT_ONCE // length)
    rows, picked = np.moveaxis(lines, 1, 2), np.argwhere(redo)
    for start in range(0, len(picked), at_once):
        index = tuple(picked[start : start + at_once].T)
        result[index] = _settled(rows[index], value[index], size[index], fmt, out)
    return result.reshape(before + after)


def _sums_and_sizes(lines: Array, fmt: str) -> tuple[F64Array, F64Array]:
    """The sums of storage [outer, length, inner] along the middle axis in f64, and upper bounds of sum |terms|."""
    outer, length, inner = lines.shape
    value, size = np.empty((outer, inner)), np.empty((outer, inner))
    narrow = fmt != "f64" and length <= 2**20
    at_once = max(1, BLOCK // max(1, length * inner))
    for start in range(0, outer, at_once):
        part = slice(start, start + at_once)
        wide = decode(lines[part], fmt)
        np.add.reduce(wide, axis=1, dtype=np.float64, out=value[part])
        size[part] = np.add.reduce(np.abs(wide), axis=1, dtype=np.float32 if narrow else np.float64)
    size *= 1 + length * (2.0**-23 if narrow else 2.0**-52)  # its own rounding errors, twice over; it may be infinite
    return value, size


def _settled(terms: Array, value: F64Array, size: F64Array, fmt: str, out: str) -> Array:
    """Sums of the rows of storage that the enclosure left open; `value` they have in f64, `size` bounds sum |terms|."""
    source, target = FORMATS[fmt], FORMATS[out]
    result = finish(value, out)
    zero = size == 0
    negative = zero.copy()
    if zero.any() and target.has_negative_zero:
        negative[zero] = (terms[zero].view(source.carrier) == source.sign_bit).all(axis=1)
        result.view(target.carrier)[negative] = target.sign_bit
    rest = np.flatnonzero(size != 0)
    wide = decode(terms[rest], fmt).astype(np.float64, copy=False)
    open_ = ~_held(wide, size[rest])
    if open_.any():
        result[rest[open_]] = exact_sums(wide[open_], out)
    return result


def _held(terms: F64Array, size: F64Array) -> NDArray[np.bool_]:
    """In which rows every partial sum, in any order, is exact in f64; `size` bounds the sums of |terms|.

    With 2**e > size, 2**(e - 51) is the last place of 1.5 * 2**(e + 1): a term survives the addition of that number
    only if it is a multiple of that place, and f64 holds all multiples of it up to size.
    """
    anchor = np.ldexp(1.5, np.frexp(size)[1] + 1)[:, None]
    rest = terms + anchor
    rest -= anchor
    return np.asarray((rest == terms).all(axis=1) & np.isfinite(size))
