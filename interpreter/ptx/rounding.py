"""Floating-point arithmetic in all four rounding modes, with the flushing of subnormals and the clamps of PTX.

To nearest even is what `numerics` does. For the directed modes f32 results come by way of the real result rounded to
odd in float64 (see `numerics.exact`), from where a directed rounding is exact; f64 results come from the nearest one
and the exact rational residual, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .. import numerics
from ..numerics.exact import sum_to_odd, to_odd
from .types import Array

Kernel = Callable[..., Any]

_DIRECTION = {"rm": -np.inf, "rp": np.inf, "rz": 0.0}


def rounded(x: Array, fmt: str, mode: str, saturate: bool = False) -> Array:
    """Round float64 once to a format, in any mode; `saturate` clamps to the finite range.

    The directed modes come from truncation: away from zero is one code further where that is inexact.
    """
    if mode in ("", "rn"):
        return numerics.round_to(x, fmt, "rtne", saturate)
    x = np.atleast_1d(x)
    if fmt == "f64":
        return numerics.round_to(x, fmt)
    result = numerics.round_to(x, fmt, "rtz", saturate)
    if mode == "rz":
        return result
    away = (numerics.decode(result, fmt) != x) & ((x < 0) if mode == "rm" else (x > 0)) & np.isfinite(x)
    carrier = numerics.FORMATS[fmt].carrier
    return (result.view(carrier) + away.astype(carrier)).view(result.dtype)


def stepped(nearest: Array, residual: Array, real: Array, mode: str) -> Array:
    """The directed rounding, from the nearest one and the sign of `real - nearest` (NaN and 0: exact).

    Where `nearest` overflowed to infinity from a finite number, the difference points inward, as it must.
    """
    target = _DIRECTION[mode]
    if mode == "rz":
        wrong = (residual * np.where(np.signbit(real), -1.0, 1.0)) < 0
    else:
        wrong = (residual < 0) if mode == "rm" else (residual > 0)
    moved = np.nextafter(nearest, nearest.dtype.type(target))
    return np.where(wrong, moved, nearest)


def _odd_mul(a: Array, b: Array) -> Array:
    return a * b  # exact: 48 bits


def _odd_fma(a: Array, b: Array, c: Array) -> Array:
    return sum_to_odd(a * b, c)


def _odd_div(a: Array, b: Array) -> Array:
    """The quotient of two float32 numbers: the residual a - q * b is split so that its sign comes out exactly."""
    q = a / b
    known = np.isfinite(q) & np.isfinite(b)
    exponent = np.frexp(np.where(known, q, 0.0))[1]
    scaled = np.ldexp(np.where(known, q, 0.0), -exponent)  # in [1/2, 1): its products neither overflow nor underflow
    residual = _residual(np.ldexp(np.where(known, a, 0.0), -exponent), scaled, np.where(known, b, 0.0))
    return to_odd(q, residual * np.sign(b))


def _residual(a: Array, q: Array, b: Array) -> Array:
    """a - q * b for |q| < 1 of 53 bits and b of 24 bits, up to a relative error that keeps its sign."""
    high = q.astype(np.float32).astype(np.float64)
    return (a - high * b) - (q - high) * b


def _odd_sqrt(x: Array) -> Array:
    r = np.sqrt(x)
    high = r.astype(np.float32).astype(np.float64)
    low = r - high
    return to_odd(r, ((x - high * high) - 2 * high * low) - low * low)


_ODD: dict[str, Kernel] = {"add": sum_to_odd, "mul": _odd_mul, "fma": _odd_fma, "div": _odd_div, "sqrt": _odd_sqrt}

_NEAREST: dict[str, Kernel] = {
    "add": numerics.add,
    "mul": numerics.mul,
    "fma": numerics.fma,
    "div": numerics.div,
    "sqrt": numerics.sqrt,
}


def arithmetic(name: str, fmt: str, mode: str) -> Kernel:
    """`add`, `mul`, `fma`, `div` or `sqrt` of a format ("f16" to "f64"), rounded once in a mode ("rn" if "")."""
    nearest = _NEAREST[name]
    if mode in ("", "rn"):
        return lambda *operands: nearest(*operands, fmt)
    directed = _directed_f32 if fmt == "f32" else _directed_f64
    return lambda *operands: _zero_signs(name, mode, operands, *directed(name, mode, operands))


def _directed_f32(name: str, mode: str, operands: tuple[Array, ...]) -> tuple[Array, Array]:
    """The result, and where the real result is zero."""
    odd = np.asarray(_ODD[name](*(x.astype(np.float64) for x in operands)))
    return rounded(odd, "f32", mode), odd == 0


def _directed_f64(name: str, mode: str, operands: tuple[Array, ...]) -> tuple[Array, Array]:
    """The result, and where the real result is zero."""
    nearest = np.atleast_1d(_NEAREST[name](*operands, "f64"))
    rows = zip(nearest.tolist(), *(np.broadcast_to(x, nearest.shape).tolist() for x in operands), strict=True)
    residual = np.array([_exact_residual(name, *row) for row in rows], np.float64)
    real = np.where(nearest == 0, residual, nearest)  # where the nearest is 0, the sign of the real number
    return stepped(nearest, residual, real, mode), (nearest == 0) & (residual == 0)


def _exact_residual(name: str, result: float, *operands: float) -> float:
    """The sign of the real result less the nearest one; 0 where an operand is not finite, or there is no result."""
    if not all(map(math.isfinite, operands)) or math.isnan(result):
        return 0.0
    if math.isinf(result):
        return 0.0 if name == "div" and operands[1] == 0 else -math.copysign(1.0, result)
    exact, a = Fraction(result), Fraction(operands[0])
    if name == "sqrt":
        difference = a - exact * exact
    elif name == "div":
        difference = (a - exact * Fraction(operands[1])) * (1 if operands[1] > 0 else -1)
    elif name == "fma":
        difference = a * Fraction(operands[1]) + Fraction(operands[2]) - exact
    else:
        b = Fraction(operands[1])
        difference = (a + b if name == "add" else a * b) - exact
    return float((difference > 0) - (difference < 0))


def _zero_signs(name: str, mode: str, operands: tuple[Array, ...], result: Array, zero: Array) -> Array:
    """Toward minus infinity a sum of numbers of different signs that is zero is -0."""
    if mode != "rm" or name not in ("add", "fma"):
        return result
    if name == "add":
        positive = ~np.signbit(operands[0]) & ~np.signbit(operands[1])
    else:
        positive = (np.signbit(operands[0]) == np.signbit(operands[1])) & ~np.signbit(operands[2])
    return np.where(zero & ~positive, -np.abs(result), result)


_SMALLEST = {np.dtype(np.float32): np.float32(2.0**-126), np.dtype(np.float16): np.float16(2.0**-14)}


def flushed(x: Array) -> Array:
    """Subnormal f16 and f32 numbers replaced by zeros of their sign."""
    small = np.abs(x) < _SMALLEST[x.dtype]
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if small.any() else x


def saturated(x: Array) -> Array:
    """Clamped to [0, 1]; NaN and -0 become +0."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0)).astype(x.dtype)


def rectified(x: Array) -> Array:
    """Negative numbers become +0; NaN stays (it is canonical here)."""
    return np.where((x <= 0), x.dtype.type(0), x)


def flushing(name: str, fmt: str, mode: str) -> Kernel:
    """The arithmetic `name` of a format ("f16" or "f32") with subnormal operands and results flushed.

    A result is flushed that is below the smallest normal number after it was rounded as if exponents had no end (by
    measurement of an H200). Rounded to a multiple of the smallest subnormal, one digit less, it may be that number.
    """
    kernel = arithmetic(name, fmt, mode)

    def run(*operands: Array) -> Array:
        operands = tuple(flushed(x) for x in operands)
        result = np.asarray(kernel(*operands))
        smallest = _SMALLEST[result.dtype]
        edge = np.abs(result) == smallest
        if edge.any():
            real = _ODD[name](*(x.astype(np.float64) for x in operands))
            kept = rounded(real / smallest, fmt, mode)
            result = np.where(edge & (np.abs(kept) < 1), np.copysign(result.dtype.type(0), result), result)
        return flushed(result)

    return run


def finished(kernel: Kernel, ftz: str = "", sat: str = "", relu: str = "") -> Kernel:
    """A kernel with subnormal operands and results flushed, and its results clamped, where asked for."""
    after = [f for f, wanted in ((flushed, ftz), (saturated, sat), (rectified, relu)) if wanted]
    if not after:
        return kernel

    def run(*operands: Array) -> Array:
        if ftz:
            operands = tuple(flushed(x) for x in operands)
        result = np.asarray(kernel(*operands))
        for rule in after:
            result = rule(result)
        return result

    return run
