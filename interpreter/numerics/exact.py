"""Error-free transformations and rounding to odd: how a result is rounded once although it was computed in two steps.

*TwoSum* (Knuth) and *TwoProduct* (Dekker, with Veltkamp's splitting) return the rounded result and its exact error.
*Rounding to odd* replaces an inexact result by the neighbour whose last bit is 1. A number rounded to odd with at
least two bits more than the target format can be rounded again to the target, in any direction, and the outcome is
that of a single rounding (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

import numpy as np
from numpy.typing import NDArray

F64Array = NDArray[np.float64]

_VELTKAMP = float(2**27 + 1)
_ALL_BUT_SIGN = np.int64(2**63 - 1)


def two_sum(a: F64Array, b: F64Array) -> tuple[F64Array, F64Array]:
    """`s + e == a + b` exactly, `s` the rounded sum. Holds for all finite f64 whose sum does not overflow."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _split(a: F64Array) -> tuple[F64Array, F64Array]:
    """`high + low == a`, both of at most 26 significant bits. Holds for |a| < 2**996."""
    c = _VELTKAMP * a
    high = c - (c - a)
    return high, a - high


def two_product(a: F64Array, b: F64Array) -> tuple[F64Array, F64Array]:
    """`p + e == a * b` exactly, `p` the rounded product. Holds for 2**-480 <= |a|, |b| <= 2**480, and for zeros."""
    p = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return p, a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


def to_odd(s: F64Array, e: F64Array) -> F64Array:
    """`s + e` rounded to odd, for `s` the f64 nearest to the sum and `e` its error (only the sign of `e` is used).

    Where `e` is zero or NaN (an infinity or NaN went in) `s` is returned as it is.
    """
    shape = np.shape(s)
    s, e = np.array(s, dtype=np.float64, ndmin=1), np.atleast_1d(e)
    if np.isnan(e).any():
        e = np.where(np.isnan(e), 0.0, e)
    bits, error = s.view(np.int64), e.view(np.int64)
    step = bits ^ error
    step >>= 63
    step |= 1  # away from zero where the signs agree, toward it where they differ
    mask = bits & 1
    mask -= 1  # all ones where the last bit is 0
    step &= mask
    mask = error & _ALL_BUT_SIGN
    mask += _ALL_BUT_SIGN
    mask >>= 63  # all ones where the error is not zero
    step &= mask
    bits += step
    return s.reshape(shape)


def sum_to_odd(a: F64Array, b: F64Array) -> F64Array:
    """The real sum `a + b` rounded to odd in f64."""
    return to_odd(*two_sum(a, b))
