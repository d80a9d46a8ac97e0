"""One-argument functions, correctly rounded: the real value of the function, rounded once to the format.

For formats up to f32 the value `v` is computed in f64 with a relative error below `BOUND`, and
`v * (1 - BOUND)` and `v * (1 + BOUND)` are both rounded. Where they agree, that is the result; the few elements left
open go to `multiprecision`. So NumPy's functions, which differ in the last bits from one CPU to another, never decide
a bit. f16 and bf16 keep all 65,536 results in a table made at first use; 8-bit formats go through f32. f64 results
come from `multiprecision` alone.

About the bound: `rsqrt` is two correctly rounded operations (relative error below 2**-52), and `erf` is the Taylor
series below, with a bound derived there. The others are NumPy's f64 functions. NumPy documents for its vector
versions an error below 4 ulp (2**-50), and a test compares them with mpmath on large samples and the hard ranges:
that is evidence, not a proof.

Infinities, zeros and NaN: the limits of the functions, as C99 Annex F; `rsqrt(-0.0)` is -infinity, `log` and `log2`
of zero are -infinity and of negative numbers NaN, `sin` and `cos` of infinity are NaN.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._lazy import multiprecision_context
from .casts import Array, decode, round_to, with_canonical_nan
from .exact import F64Array
from .formats import FORMATS
from .multiprecision import correctly_rounded

BOUND = 2.0**-49
"""The relative error below which every f64 kernel here stays, on arguments that are f32 values."""

_BLOCK = 1 << 14
"""Elements worked on at a time, so that temporaries stay in the first-level caches."""


def _rsqrt(x: F64Array) -> F64Array:
    return np.asarray(1.0 / np.sqrt(x))


_ERF_STEP = 64  # grid points for each unit
_ERF_END = 6  # from here on erf is within 2**-54 of 1
_ERF_DEGREE = 8


@cache
def _erf_table() -> F64Array:
    """Taylor coefficients of erf, [degree + 1, points], at the points 0, 1/64, ..., 6.

    The derivatives are Hermite polynomials: with g = 2 / sqrt(pi) * exp(-x**2), erf^(n+1) = (-1)**n * H_n(x) * g and
    H_{n+1} = 2 x H_n - 2 n H_{n-1}.
    """
    context = multiprecision_context(120)
    table = np.empty((_ERF_DEGREE + 1, _ERF_STEP * _ERF_END + 1))
    for point in range(table.shape[1]):
        x = context.mpf(point) / _ERF_STEP
        table[0, point] = float(context.erf(x))
        scale = 2 / context.sqrt(context.pi) * context.exp(-x * x)
        before, hermite = context.mpf(0), context.mpf(1)
        for n in range(_ERF_DEGREE):
            table[n + 1, point] = float((-1) ** n * hermite * scale / context.factorial(n + 1))
            before, hermite = hermite, 2 * x * hermite - 2 * n * before
    return table


def _erf(x: F64Array) -> F64Array:
    """erf in f64 by the Taylor polynomial of degree 8 about the nearest multiple of 1/64 (relative error < 2**-51).

    With |h| <= 2**-7 and |erf^(9)| <= 2 / sqrt(pi) * 1.0865 * sqrt(2**8 * 8!) < 2**12 (Cramer's inequality) the first
    term left out is below 2**-63 * 2**12 / 9! < 2**-69: relative to erf(x), which exceeds 2**-7 beyond the first
    interval, below 2**-62. About 0 the even coefficients vanish and x factors out, so the error stays relative. The
    rounding errors are those of the last sum, c0 + h * (...), of which c0 is the larger part by a factor of at least
    2 (or zero): within 4 * 2**-53.
    """
    table = _erf_table()
    size = np.minimum(np.abs(x), float(_ERF_END))
    size = np.where(np.isnan(size), 0.0, size)
    point = np.rint(size * _ERF_STEP).astype(np.intp)
    h = size - point * (1.0 / _ERF_STEP)
    value = table[_ERF_DEGREE].take(point)
    for coefficients in table[_ERF_DEGREE - 1 :: -1]:
        value *= h
        value += coefficients.take(point)
    return np.asarray(np.where(np.isnan(x), x, np.copysign(value, x)))


_KERNELS: dict[str, Callable[[F64Array], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": _erf,
    "rsqrt": _rsqrt,
}


def _f32_function(name: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """A function on a flat f32 array, correctly rounded to f32."""
    kernel = _KERNELS[name]
    result = np.empty(x.shape, np.float32)
    upper = np.empty(min(x.size, _BLOCK), np.float32)
    for start in range(0, x.size, _BLOCK):
        part = x[start : start + _BLOCK]
        value = np.asarray(kernel(part.astype(np.float64)))
        low, high = result[start : start + _BLOCK], upper[: part.size]
        np.multiply(value, 1.0 - BOUND, out=low, casting="same_kind")
        np.multiply(value, 1.0 + BOUND, out=high, casting="same_kind")
        open_ = low.view(np.uint32) != high.view(np.uint32)
        if open_.any():
            low[open_] = correctly_rounded(name, part[open_].astype(np.float64), "f32")
    return with_canonical_nan(result, "f32")


@cache
def _table(name: str, fmt: str) -> Array:
    """The results of a function for all codes of a format of at most 16 bits, in code order."""
    row = FORMATS[fmt]
    codes = np.arange(1 << row.bits, dtype=np.uint32).astype(row.carrier)
    x = decode(codes.view(row.storage), fmt)
    if row.bits == 8:
        return round_to(_f32_function(name, x), fmt)
    value = np.asarray(_KERNELS[name](x.astype(np.float64)))
    low, high = round_to(value * (1.0 - BOUND), fmt), round_to(value * (1.0 + BOUND), fmt)
    open_ = low.view(row.carrier) != high.view(row.carrier)
    low[open_] = correctly_rounded(name, x[open_].astype(np.float64), fmt)
    return low


@np.errstate(all="ignore")
def _apply(name: str, x: Array, fmt: str) -> Array:
    x = np.asarray(x)
    row = FORMATS[fmt]
    if row.bits <= 16:
        return np.asarray(_table(name, fmt).view(row.carrier).take(x.view(row.carrier))).view(row.storage)
    flat = np.ascontiguousarray(x).reshape(-1)
    result = _f32_function(name, flat) if fmt == "f32" else correctly_rounded(name, flat, "f64")
    return result.reshape(x.shape)


def exp(x: Array, fmt: str) -> Array:
    """e to the power `x`."""
    return _apply("exp", x, fmt)


def exp2(x: Array, fmt: str) -> Array:
    """2 to the power `x`."""
    return _apply("exp2", x, fmt)


def log(x: Array, fmt: str) -> Array:
    """The natural logarithm."""
    return _apply("log", x, fmt)


def log2(x: Array, fmt: str) -> Array:
    """The logarithm to base 2."""
    return _apply("log2", x, fmt)


def sin(x: Array, fmt: str) -> Array:
    """The sine of `x` radians."""
    return _apply("sin", x, fmt)


def cos(x: Array, fmt: str) -> Array:
    """The cosine of `x` radians."""
    return _apply("cos", x, fmt)


def tanh(x: Array, fmt: str) -> Array:
    """The hyperbolic tangent."""
    return _apply("tanh", x, fmt)


def erf(x: Array, fmt: str) -> Array:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to `x`."""
    return _apply("erf", x, fmt)


def rsqrt(x: Array, fmt: str) -> Array:
    """1 / sqrt(x)."""
    return _apply("rsqrt", x, fmt)


@np.errstate(all="ignore")
def estimate(name: str, x: F64Array) -> F64Array:
    """A function of arguments that are f32 values, in f64: within a relative `BOUND` of the real value."""
    return np.asarray(_KERNELS[name](x))
