"""What each float op means on real numbers: Python floats in (which hold every operand exactly), a `Real` out.

Rational results are exact fractions. The functions of one argument are enclosed by mpmath, whose result at a working
precision is widened by far more than its own error; their rational points are listed, so that an enclosure always
leaves the midpoints in the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import mpmath

from .formats import Irrational, Real, as_real

_CONTEXT: Any = mpmath.mp.clone()
#: Bits of working precision beyond those of the enclosure.
_GUARD = 30
#: Stands for "as small as you like": below half the smallest positive number of every format.
_TINY = Fraction(1, 2**1200)
_HUGE = Fraction(2**1100)


def is_negative(x: float) -> bool:
    """Whether the sign of a float is set, that of zeros and NaN included."""
    return math.copysign(1.0, x) < 0


def real_sum(terms: Iterable[Real]) -> Real:
    """The sum of rationals and special values. Zero is +0.0 unless all terms are -0.0."""
    total, special, all_negative = Fraction(0), 0.0, True
    for term in terms:
        if isinstance(term, Fraction):
            total += term
            all_negative = False
        else:
            assert isinstance(term, float)
            special += term  # only zeros, infinities and NaN: no rounding
            all_negative = all_negative and term == 0 and is_negative(term)
    if special != 0:
        return special
    if total != 0:
        return total
    return -0.0 if all_negative else 0.0


def real_product(a: float, b: float) -> Real:
    """a * b."""
    if a == 0 or b == 0 or not (math.isfinite(a) and math.isfinite(b)):
        return a * b  # zeros, infinities and NaN: no rounding
    return Fraction(a) * Fraction(b)


def _add(a: float, b: float) -> Real:
    return real_sum((as_real(a), as_real(b)))


def _sub(a: float, b: float) -> Real:
    return _add(a, -b)


def _fma(a: float, b: float, c: float) -> Real:
    return real_sum((real_product(a, b), as_real(c)))


def _div(a: float, b: float) -> Real:
    sign = -1.0 if is_negative(a) != is_negative(b) else 1.0
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or (a == 0 and b == 0):
        return math.nan
    if math.isinf(a) or b == 0:
        return sign * math.inf
    if math.isinf(b) or a == 0:
        return sign * 0.0
    return Fraction(a) / Fraction(b)


def _rem(a: float, b: float) -> Real:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    if math.isinf(b) or a == 0:
        return as_real(a)
    left, right = abs(Fraction(a)), abs(Fraction(b))
    rest = left - (left // right) * right
    if rest == 0:
        return math.copysign(0.0, a)
    return -rest if a < 0 else rest


def _extremum(smaller: bool, number_wins: bool) -> Callable[[float, float], Real]:
    """A minimum or maximum in which -0.0 < +0.0; `number_wins` over a NaN."""

    def rule(a: float, b: float) -> Real:
        if math.isnan(a) or math.isnan(b):
            if not number_wins or (math.isnan(a) and math.isnan(b)):
                return math.nan
            return as_real(b if math.isnan(a) else a)
        ordered = sorted((a, b), key=lambda x: (x, not is_negative(x)))
        return as_real(ordered[0] if smaller else ordered[1])

    return rule


def root(value: Fraction) -> Real:
    """The square root of a positive rational."""
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)

    def enclose(bits: int) -> tuple[Fraction, Fraction]:
        """floor(sqrt(value * 4**k)) / 2**k and the next one, with k such that they are relatively close."""
        shift = max(bits, bits + (value.denominator.bit_length() - value.numerator.bit_length()) // 2 + 1)
        low = math.isqrt(value.numerator * 4**shift // value.denominator)
        return Fraction(low, 2**shift), Fraction(low + 1, 2**shift)

    return Irrational(enclose)


def _sqrt(x: float) -> Real:
    if math.isnan(x) or x < 0:
        return math.nan
    return x if x == 0 or math.isinf(x) else root(Fraction(x))


def _rsqrt(x: float) -> Real:
    if math.isnan(x) or x < 0:
        return math.nan
    if x == 0:
        return math.copysign(math.inf, x)
    return 0.0 if math.isinf(x) else root(1 / Fraction(x))


def _whole(round_: Callable[[Fraction], int]) -> Callable[[float], Real]:
    def rule(x: float) -> Real:
        if not math.isfinite(x) or x == 0:
            return x
        whole = round_(Fraction(x))
        return Fraction(whole) if whole else math.copysign(0.0, x)

    return rule


def _enclosed(name: str, x: float) -> Irrational:
    """A function of mpmath at a point where its value is irrational."""

    def enclose(bits: int) -> tuple[Fraction, Fraction]:
        with _CONTEXT.workprec(bits + _GUARD):
            value = _MPMATH[name](_CONTEXT.mpf(x))
        mantissa, exponent = value.man_exp  # without its sign
        middle = Fraction(mantissa if value > 0 else -mantissa) * Fraction(2) ** exponent
        slack = abs(middle) / 2**bits
        return middle - slack, middle + slack

    return Irrational(enclose)


_MPMATH: dict[str, Callable[[Any], Any]] = {
    "exp": _CONTEXT.exp,
    "exp2": lambda x: _CONTEXT.power(2, x),
    "log": _CONTEXT.log,
    "log2": lambda x: _CONTEXT.log(x) / _CONTEXT.log(2),
    "sin": _CONTEXT.sin,
    "cos": _CONTEXT.cos,
    "tanh": _CONTEXT.tanh,
    "erf": _CONTEXT.erf,
}


def _exponential(name: str) -> Callable[[float], Real]:
    def rule(x: float) -> Real:
        if math.isnan(x) or x == math.inf:
            return x
        if x == -math.inf:
            return 0.0
        if x == 0 or (name == "exp2" and x == int(x) and abs(x) < 1200):
            return Fraction(2) ** int(x)
        if abs(x) > 1200:
            return _HUGE if x > 0 else _TINY
        return _enclosed(name, x)

    return rule


def _logarithm(name: str) -> Callable[[float], Real]:
    def rule(x: float) -> Real:
        if math.isnan(x) or x < 0:
            return math.nan
        if x == 0 or math.isinf(x):
            return -math.inf if x == 0 else x
        mantissa, exponent = math.frexp(x)
        if x == 1:
            return 0.0
        if name == "log2" and mantissa == 0.5:
            return Fraction(exponent - 1)
        return _enclosed(name, x)

    return rule


def _circular(name: str) -> Callable[[float], Real]:
    def rule(x: float) -> Real:
        if not math.isfinite(x):
            return math.nan
        if x == 0:
            return x if name == "sin" else Fraction(1)
        return _enclosed(name, x)

    return rule


def _sigmoidal(name: str) -> Callable[[float], Real]:
    def rule(x: float) -> Real:
        if math.isnan(x) or x == 0:
            return x
        if math.isinf(x):
            return Fraction(int(math.copysign(1, x)))
        if abs(x) > 50:  # within 2**-100 of 1 (tanh) or much closer (erf)
            return (1 - Fraction(1, 2**100)) * int(math.copysign(1, x))
        return _enclosed(name, x)

    return rule


#: The real meaning of every arithmetic op and function on floats.
REAL_RULES: dict[str, Callable[..., Real]] = {
    "add_f": _add,
    "sub_f": _sub,
    "mul_f": real_product,
    "div_f": _div,
    "div_rn": _div,
    "rem_f": _rem,
    "fma": _fma,
    "minnum": _extremum(smaller=True, number_wins=True),
    "maxnum": _extremum(smaller=False, number_wins=True),
    "minimum": _extremum(smaller=True, number_wins=False),
    "maximum": _extremum(smaller=False, number_wins=False),
    "sqrt": _sqrt,
    "sqrt_rn": _sqrt,
    "rsqrt": _rsqrt,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "exp": _exponential("exp"),
    "exp2": _exponential("exp2"),
    "log": _logarithm("log"),
    "log2": _logarithm("log2"),
    "sin": _circular("sin"),
    "cos": _circular("cos"),
    "tanh": _sigmoidal("tanh"),
    "erf": _sigmoidal("erf"),
}
