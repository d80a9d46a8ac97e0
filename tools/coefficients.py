"""The polynomials of compiled functions: how their coefficients are made, and how far they are from the functions.

`python -m tools.coefficients` prints them for `compiler/lower/`; a test checks that those there are as good as said.
A fit is weighted least squares at Chebyshev nodes, solved and measured with 60 digits.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath  # pyright: ignore[reportMissingTypeStubs]

mp: Any = mpmath.mp.clone()  # a context of its own, since the precision of the common one is everybody's
mp.dps = 60
Real = Any
Function = Callable[[Real], Real]


@dataclass(frozen=True, slots=True)
class Fit:
    """A polynomial P of `terms` coefficients in v for a function of v from `low` to `high`.

    `weight(v)` times the error of P is the error of what P is used for, relative or in other units that `bits` counts:
    it is below 2^-bits. The coefficients are numbers of `format`, f32 or f64.
    """

    name: str
    format: str
    function: Function
    weight: Function
    low: float
    high: float
    terms: int
    bits: float


def root(function: Function) -> Function:
    """A function of the square root of its argument."""
    return lambda v: function(mp.sqrt(v))


def over(function: Function, lead: Function, power: int) -> Function:
    """(function(x) - lead(x)) / x^power of v = x^2; near 0, where all digits cancel, at the nearest point beyond."""
    least = mp.mpf(10) ** -12
    return root(lambda x: (function(max(x, least)) - lead(max(x, least))) / max(x, least) ** power)


def share(function: Function, power: int) -> Function:
    """x^power / function(x) of v = x^2: what an error times x^power is relative to the function."""
    least = mp.mpf(10) ** -12
    return root(lambda x: max(x, least) ** power / function(max(x, least)))


def one(x: Real) -> Real:
    return mp.mpf(1)


def same(x: Real) -> Real:
    return x


def log_erfc(x: Real) -> Real:
    return -mp.log(mp.erfc(x))


def log2_erfc(x: Real) -> Real:
    return -mp.log(mp.erfc(x), 2)


def erf_share(x: Real) -> Real:
    """What an error of -ln erfc is relative to erf."""
    return mp.erfc(x) / mp.erf(x)


def exp_rest(r: Real) -> Real:
    """(e^r - 1 - r) / r^2; by its series, where digits cancel."""
    return sum((r**n / mp.factorial(n + 2) for n in range(40)), mp.mpf(0))


def exp_share(r: Real) -> Real:
    """What an error times r^2 is relative to e^r."""
    return r * r * mp.exp(-r)


QUARTER = 0.786  # pi/4, and a little for a quotient that was rounded the other way
EXP_HALF = 0.3471  # ln 2 / 2, likewise
sin, cos, tanh, erf = mp.sin, mp.cos, mp.tanh, mp.erf

FITS = (
    Fit("f32 EXP", "f32", exp_rest, exp_share, -EXP_HALF, EXP_HALF, 5, 27),
    Fit("f32 TANH", "f32", over(tanh, same, 3), share(tanh, 3), 0.0, 0.625**2, 6, 27),
    Fit("f32 ERF_SMALL", "f32", over(erf, same, 1), share(erf, 1), 0.0, 0.9**2, 7, 27),
    Fit("f32 ERF_LARGE", "f32", log2_erfc, erf_share, 0.9, 4.0, 10, 25.5),
    Fit("f32 SIN", "f32", over(sin, same, 3), share(sin, 3), 0.0, QUARTER**2, 3, 26),
    Fit("f32 COS", "f32", over(cos, one, 2), share(cos, 2), 0.0, QUARTER**2, 4, 26),
    Fit("f64 SIN", "f64", over(sin, same, 3), share(sin, 3), 0.0, QUARTER**2, 6, 56),
    Fit("f64 COS", "f64", over(cos, lambda x: 1 - x * x / 2, 4), share(cos, 4), 0.0, QUARTER**2, 6, 56),
    Fit("f64 TANH", "f64", over(tanh, same, 3), share(tanh, 3), 0.0, 0.75**2, 13, 56),
    Fit("f64 ERF_SMALL", "f64", over(erf, same, 1), share(erf, 1), 0.0, 1.0, 13, 56),
    Fit("f64 ERF_LARGE", "f64", log_erfc, erf_share, 1.0, 6.0, 22, 56),
)


def nodes(fit: Fit, count: int) -> list[Real]:
    """Chebyshev points of the interval."""
    middle, half = (mp.mpf(fit.high) + fit.low) / 2, (mp.mpf(fit.high) - fit.low) / 2
    return [middle + half * mp.cos((2 * k + 1) * mp.pi / (2 * count)) for k in range(count)]


def made(fit: Fit) -> list[float]:
    """The coefficients, the constant first, rounded to their format."""
    points = nodes(fit, 6 * fit.terms)
    weights = [fit.weight(v) for v in points]
    rows = mp.matrix([[w * v**k for k in range(fit.terms)] for v, w in zip(points, weights, strict=True)])
    wanted = mp.matrix([w * fit.function(v) for v, w in zip(points, weights, strict=True)])
    return [rounded(c, fit.format) for c in mp.lu_solve(rows, wanted)]


def rounded(value: Real, format_: str) -> float:
    """The nearest number of f32 or f64."""
    return struct.unpack("<f", struct.pack("<f", float(value)))[0] if format_ == "f32" else float(value)


def lost_bits(fit: Fit, coefficients: Sequence[float], count: int = 200) -> float:
    """-log2 of the largest weighted error of a polynomial on a grid of points."""
    points = [mp.mpf(fit.low) + (mp.mpf(fit.high) - fit.low) * k / count for k in range(count + 1)]
    errors = [sum(c * v**k for k, c in enumerate(coefficients)) - fit.function(v) for v in points]
    worst = max(abs(fit.weight(v) * error) for v, error in zip(points, errors, strict=True))
    return float(-mp.log(worst, 2))


def main() -> None:
    """Print the coefficients."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for fit in FITS:
        coefficients = made(fit)
        print(f"{fit.name}: within 2^-{lost_bits(fit, coefficients):.1f}, 2^-{fit.bits} wanted")
        print(f"  {tuple(coefficients)}")


if __name__ == "__main__":
    main()
