"""Arithmetic on floats, element by element: each result is the real result rounded once to the format.

How a result comes out rounded once:

- f32 and f64 use the IEEE operations of the machine, which NumPy passes through (add, sub, mul, div, sqrt).
- f16 and bf16 compute in f32 and round again. For + - * / and sqrt that is innocuous, because f32 has p = 24 bits
  and p >= 2q + 2 for q = 11 and q = 8 (Figueroa, "When is double rounding innocuous?", 1995). Where the narrow
  result is subnormal: sums and remainders are then exact; f16 products have at most 22 bits and are exact in f32;
  bf16 products below 2**-133 are either exact in f32 or lie between 2**-135 and 2**-134, where both roundings give
  the same; quotients keep a relative distance of at least 2**-23 (f16) and 2**-16 (bf16) from every midpoint that
  they do not hit, more than f32 can hide.
- 8-bit formats are *defined* by two steps: the f32 operation on the widened operands, rounded to f32, then the
  saturating cast. (For + - * / and sqrt that equals one rounding, for `fma` it need not.)
- `fma` forms the exact product and rounds the sum to odd before the final rounding (see `exact`).

A NaN result is the canonical NaN of the format, whatever NaNs went in. Only `neg` and `abs_` move bits and keep
payloads. Operands broadcast as in NumPy.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .blocks import Array, Kernel, by_blocks
from .casts import decode, decode64, narrowing, round_to, with_canonical_nan
from .exact import F64Array, sum_to_odd, to_odd, two_product, two_sum
from .formats import FORMATS

Predicate = Literal["eq", "ne", "lt", "le", "gt", "ge"]

_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _in_wide(operation: Callable[..., Any], fmt: str, *operands: Array) -> Array:
    """Apply a correctly rounded f32 or f64 operation to operands of any format, and round its result to the format."""
    row = FORMATS[fmt]
    arrays = tuple(np.asarray(x) for x in operands)
    if row.bits > 16:
        return by_blocks(partial(_whole, operation, fmt), arrays, row.storage)
    narrow = narrowing(row, np.dtype(np.float32), "rtne", row.saturates)
    return by_blocks(partial(_widened, operation, fmt, narrow), arrays, row.storage)


def _whole(operation: Callable[..., Any], fmt: str, out: Array, *operands: Array) -> None:
    operation(*operands, out=out)
    with_canonical_nan(out, fmt)


def _widened(operation: Callable[..., Any], fmt: str, narrow: Kernel, out: Array, *operands: Array) -> None:
    wide = np.empty(out.shape, np.float32)
    operation(*(decode(x, fmt) for x in operands), out=wide)
    if not FORMATS[fmt].has_nan:  # what becomes of a NaN keeps its sign, and CPUs do not agree on that
        with_canonical_nan(wide, "f32")
    narrow(out, wide)


@np.errstate(all="ignore")
def add(a: Array, b: Array, fmt: str) -> Array:
    """`a + b`."""
    return _in_wide(np.add, fmt, a, b)


@np.errstate(all="ignore")
def sub(a: Array, b: Array, fmt: str) -> Array:
    """`a - b`."""
    return _in_wide(np.subtract, fmt, a, b)


@np.errstate(all="ignore")
def mul(a: Array, b: Array, fmt: str) -> Array:
    """`a * b`."""
    return _in_wide(np.multiply, fmt, a, b)


@np.errstate(all="ignore")
def div(a: Array, b: Array, fmt: str) -> Array:
    """`a / b`; a non-zero number over zero is infinity of the product of the signs, 0/0 is NaN."""
    return _in_wide(np.divide, fmt, a, b)


@np.errstate(all="ignore")
def rem(a: Array, b: Array, fmt: str) -> Array:
    """The exact remainder of the truncated quotient, as C `fmod`; NaN for `b` zero or `a` infinite."""
    return _in_wide(np.fmod, fmt, a, b)


@np.errstate(all="ignore")
def sqrt(x: Array, fmt: str) -> Array:
    """The square root; of -0.0 it is -0.0, of negative numbers NaN."""
    return _in_wide(np.sqrt, fmt, x)


@np.errstate(all="ignore")
def floor(x: Array, fmt: str) -> Array:
    """The largest integer not above `x` (an f8e4m3b15 result clamps like every other of that format)."""
    return _in_wide(np.floor, fmt, x)


@np.errstate(all="ignore")
def ceil(x: Array, fmt: str) -> Array:
    """The smallest integer not below `x`; from (-1, 0) it is -0.0."""
    return _in_wide(np.ceil, fmt, x)


def _move_sign(x: Array, fmt: str, flip: bool) -> Array:
    """Flip or clear the sign bit. Where 0x80 means NaN, zero and NaN stay as they are."""
    row = FORMATS[fmt]
    x = np.asarray(x)
    bits = np.atleast_1d(x).view(row.carrier)
    sign = row.carrier.type(row.sign_bit)
    moved = bits ^ sign if flip else bits & ~sign
    if not row.has_negative_zero:
        moved = np.where(bits & ~sign == 0, bits, moved)
    return moved.view(row.storage).reshape(x.shape)


def neg(x: Array, fmt: str) -> Array:
    """`-x`: flips the sign bit, of NaN too."""
    return _move_sign(x, fmt, flip=True)


def abs_(x: Array, fmt: str) -> Array:
    """`|x|`: clears the sign bit, of NaN too."""
    return _move_sign(x, fmt, flip=False)


def _extremum(pick: np.ufunc, merge_signs: np.ufunc, a: Array, b: Array, out: Array) -> None:
    """A minimum or maximum of wide operands in which -0.0 < +0.0: equal operands merge their sign bits."""
    pick(a, b, out=out)
    zero = out == 0
    if zero.any():
        carrier = f"u{out.dtype.itemsize}"
        zero &= a == b
        merge_signs(a.view(carrier), b.view(carrier), out=out.view(carrier), where=zero)


def _extreme_number(pick: np.ufunc, merge_signs: np.ufunc, a: Array, b: Array, out: Array) -> None:
    """The extremum of which a NaN is no candidate; of a signaling one the processor may make a NaN all the same."""
    _extremum(pick, merge_signs, a, b, out)
    lost = np.isnan(out)
    if lost.any():
        np.copyto(out, np.where(np.isnan(a), b, a), where=lost)


_fmin = partial(_extreme_number, np.fmin, np.bitwise_or)
_fmax = partial(_extreme_number, np.fmax, np.bitwise_and)
_minimum = partial(_extremum, np.minimum, np.bitwise_or)
_maximum = partial(_extremum, np.maximum, np.bitwise_and)


@np.errstate(all="ignore")
def minnum(a: Array, b: Array, fmt: str) -> Array:
    """The smaller operand, with -0.0 below +0.0; a NaN beside a number is ignored, two NaNs give NaN."""
    return _in_wide(_fmin, fmt, a, b)


@np.errstate(all="ignore")
def maxnum(a: Array, b: Array, fmt: str) -> Array:
    """The larger operand, with -0.0 below +0.0; a NaN beside a number is ignored, two NaNs give NaN."""
    return _in_wide(_fmax, fmt, a, b)


@np.errstate(all="ignore")
def minimum(a: Array, b: Array, fmt: str) -> Array:
    """The smaller operand, with -0.0 below +0.0; NaN if either is NaN."""
    return _in_wide(_minimum, fmt, a, b)


@np.errstate(all="ignore")
def maximum(a: Array, b: Array, fmt: str) -> Array:
    """The larger operand, with -0.0 below +0.0; NaN if either is NaN."""
    return _in_wide(_maximum, fmt, a, b)


@np.errstate(all="ignore")
def compare(a: Array, b: Array, fmt: str, predicate: Predicate) -> NDArray[np.bool_]:
    """Compare as IEEE does: -0.0 equals +0.0; with a NaN every predicate is false, except "ne", which is true."""
    return np.asarray(_COMPARE[predicate](decode(a, fmt), decode(b, fmt)))


@np.errstate(all="ignore")
def fma(a: Array, b: Array, c: Array, fmt: str) -> Array:
    """`a * b + c` with one rounding."""
    kernel = _fma_f64_block if fmt == "f64" else partial(_fma_narrow, fmt)
    return by_blocks(kernel, tuple(np.asarray(x) for x in (a, b, c)), FORMATS[fmt].storage)


def _fma_narrow(fmt: str, out: Array, a: Array, b: Array, c: Array) -> None:
    # At most 24 bits in each factor: the product is exact in f64, whose exponent range also holds it.
    total = sum_to_odd(decode64(a, fmt) * decode64(b, fmt), decode64(c, fmt))
    out[...] = round_to(round_to(total, "f32"), fmt) if FORMATS[fmt].bits == 8 else round_to(total, fmt)


def _fma_f64_block(out: F64Array, a: F64Array, b: F64Array, c: F64Array) -> None:
    out[...] = with_canonical_nan(_fma_f64(a, b, c), "f64")


def _fma_f64(a: Array, b: Array, c: Array) -> F64Array:
    """The f64 fma: error-free transformations where they hold, exact rational arithmetic elsewhere.

    Boldo and Melquiond's algorithm: with a*b = uh + ul, c + ul = th + tl and uh + th = vh + vl, all exact, the result
    is vh + odd(tl + vl), rounded. It needs a product whose error does not underflow and sums that do not overflow.
    """
    a, b, c = (np.ascontiguousarray(x).reshape(np.shape(x)) for x in np.broadcast_arrays(a, b, c))
    plain = np.asarray(a * b + c)
    trivial = (a == 0) | (b == 0) | ~(np.isfinite(a) & np.isfinite(b))
    result = np.where(trivial | ~np.isfinite(c), np.where(trivial, plain, c), 0.0)
    size_a, size_b = np.abs(a), np.abs(b)
    low, high = 2.0**-480, 2.0**480
    safe = (size_a >= low) & (size_a <= high) & (size_b >= low) & (size_b <= high) & (np.abs(c) <= 2.0**1000)
    product_high, product_low = two_product(a, b)
    tail_high, tail_low = two_sum(np.asarray(c), product_low)
    sum_high, sum_low = two_sum(product_high, tail_high)
    fused = sum_high + to_odd(*two_sum(tail_low, sum_low))
    result = np.where(safe, fused, result)
    for index in np.argwhere(~safe & ~trivial & np.isfinite(c)):
        at = tuple(index)
        result[at] = _round_rational(Fraction(float(a[at])) * Fraction(float(b[at])) + Fraction(float(c[at])))
    return np.asarray(result)


def _round_rational(value: Fraction) -> float:
    """The f64 nearest to a rational, ties to even; infinity beyond the range. Zero is +0.0."""
    try:
        return value.numerator / value.denominator  # Python divides integers with one correct rounding
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
