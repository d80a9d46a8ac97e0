"""The last instance of the one-argument functions: mpmath at rising precision, until the rounding is decided.

It terminates because the real value is never the midpoint of two neighbouring floats, save in cases that are
computed exactly here: at 0, at infinity, `exp2` of integers, `log` and `log2` of powers of two, `rsqrt` of powers of
four. Elsewhere, at a rational x, exp, log, sin, cos and tanh are transcendental (Lindemann and Weierstrass), erf is too
(Siegel and Shidlovsky), 2**x is irrational, log2(x) is irrational (2**(p/q) is rational only for a power of two), and
1 / sqrt(x) = m with m of two or more significant bits would need x * m**2 = 1 in dyadic numbers.

mpmath is pure integer arithmetic, so the bits are the same on every CPU. Its functions promise full accuracy at the
working precision without a proof; 16 guard bits are allowed for.
"""

import math
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from .._lazy import multiprecision_context
from .casts import Array, round_to, with_canonical_nan
from .exact import F64Array, to_odd
from .formats import FORMATS

_GUARD_BITS = 16
_FIRST_PRECISION = 90

Function = Callable[[Any, Any], Any]


def _erf(context: Any, x: Any) -> Any:
    """erf; the two ends, where mpmath slows down, by the first term left: 2x / sqrt(pi) near 0 and 1 far out."""
    if context.mag(x) < -context.prec:  # relative error x**2 / 3
        return 2 * x / context.sqrt(context.pi)
    if abs(x) > context.prec:  # 1 - erf(x) < exp(-x**2)
        return context.sign(x)
    return context.erf(x)


_FUNCTIONS: dict[str, Function] = {
    "exp": lambda context, x: context.exp(x),
    "exp2": lambda context, x: context.power(2, x),
    "log": lambda context, x: context.log(x),
    "log2": lambda context, x: context.log(x, 2),
    "sin": lambda context, x: context.sin(x),
    "cos": lambda context, x: context.cos(x),
    "tanh": lambda context, x: context.tanh(x),
    "erf": _erf,
    "rsqrt": lambda context, x: 1 / context.sqrt(x),
}

_INF, _NAN = math.inf, math.nan
_LIMITS: dict[str, tuple[float, float, float, float]] = {  # at -infinity, -0.0, +0.0, +infinity
    "exp": (0.0, 1.0, 1.0, _INF),
    "exp2": (0.0, 1.0, 1.0, _INF),
    "log": (_NAN, -_INF, -_INF, _INF),
    "log2": (_NAN, -_INF, -_INF, _INF),
    "sin": (_NAN, -0.0, 0.0, _NAN),
    "cos": (_NAN, 1.0, 1.0, _NAN),
    "tanh": (-1.0, -0.0, 0.0, 1.0),
    "erf": (-1.0, -0.0, 0.0, 1.0),
    "rsqrt": (_NAN, -_INF, _INF, 0.0),
}
_POSITIVE_ONLY = frozenset({"log", "log2", "rsqrt"})
_EXPONENTIAL = frozenset({"exp", "exp2"})


def _special(name: str, x: float) -> float | None:
    """The value of a function where it is exact, infinite or NaN; far out also where it leaves f64. Else None."""
    if math.isnan(x) or (x < 0 and name in _POSITIVE_ONLY):
        return _NAN
    if x == 0 or math.isinf(x):
        at_minus_inf, at_minus_zero, at_zero, at_inf = _LIMITS[name]
        if x == 0:
            return at_zero if math.copysign(1.0, x) > 0 else at_minus_zero
        return at_inf if x > 0 else at_minus_inf
    if name in _EXPONENTIAL and abs(x) > 1100:
        return _INF if x > 0 else 0.0
    if name == "exp2" and x == int(x):
        return math.ldexp(1.0, int(x)) if x < 1024 else _INF
    mantissa, exponent = math.frexp(x)
    if mantissa == 0.5 and name == "log2":
        return float(exponent - 1)
    if x == 1.0 and name == "log":
        return 0.0
    if mantissa == 0.5 and name == "rsqrt" and exponent % 2 == 1:
        return math.ldexp(1.0, (1 - exponent) // 2)
    return None


class _Threads(threading.local):
    """An mpmath context of its own for each thread: the working precision is state."""

    @cached_property
    def context(self) -> Any:
        return multiprecision_context(_FIRST_PRECISION)


_threads = _Threads()


def _enclosures(name: str, x: float) -> Iterator[tuple[int, int, int]]:
    """Ever narrower enclosures (low, high, exponent) of a function at one point: low..high times 2**exponent."""
    context = _threads.context
    precision = _FIRST_PRECISION
    while True:
        context.prec = precision
        sign, mantissa, exponent, length = _FUNCTIONS[name](context, context.mpf(x))._mpf_
        shift = precision - length  # mpmath drops trailing zeros
        middle = int(mantissa) << shift
        middle = -middle if sign else middle
        yield middle - (1 << _GUARD_BITS), middle + (1 << _GUARD_BITS), int(exponent) - shift
        precision *= 2


def _nearest_f64(mantissa: int, exponent: int) -> float:
    """mantissa * 2**exponent rounded to the nearest f64, ties to even."""
    try:
        if exponent >= 0:
            return float(mantissa << exponent)
        return mantissa / (1 << -exponent)  # Python divides integers with one correct rounding
    except OverflowError:
        return math.copysign(_INF, mantissa)


def _odd_f64(mantissa: int, exponent: int) -> F64Array:
    """mantissa * 2**exponent rounded to odd in f64."""
    nearest = _nearest_f64(mantissa, exponent)
    rest = Fraction(mantissa) * Fraction(2) ** exponent - Fraction(nearest) if math.isfinite(nearest) else 0
    return to_odd(np.asarray(nearest), np.asarray(float((rest > 0) - (rest < 0))))


def _rounded(mantissa: int, exponent: int, fmt: str) -> Array:
    """mantissa * 2**exponent rounded once to `fmt`."""
    if fmt == "f64":
        return np.asarray(_nearest_f64(mantissa, exponent))
    return round_to(_odd_f64(mantissa, exponent), fmt)


def _one(name: str, x: float, fmt: str) -> Array:
    """A function at one point, correctly rounded to `fmt`."""
    special = _special(name, x)
    if special is not None:
        return round_to(np.asarray(special), fmt)
    carrier = FORMATS[fmt].carrier
    for low, high, exponent in _enclosures(name, x):
        lower, upper = _rounded(low, exponent, fmt), _rounded(high, exponent, fmt)
        if lower.view(carrier) == upper.view(carrier):
            return lower
    raise AssertionError("the enclosures never end")


def correctly_rounded(name: str, x: F64Array, fmt: str) -> Array:
    """A function on a flat f64 array, correctly rounded to `fmt`; equal arguments are computed once."""
    if x.size == 0:
        return np.empty(0, FORMATS[fmt].storage)
    distinct, inverse = np.unique(x.view(np.int64), return_inverse=True)
    values = [_one(name, point, fmt) for point in distinct.view(np.float64).tolist()]
    result = np.array(values, dtype=FORMATS[fmt].storage)[inverse.reshape(x.shape)]
    return with_canonical_nan(result, fmt) if fmt in ("f16", "f32", "f64") else result
