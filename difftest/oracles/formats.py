"""Floating-point codes and real numbers, by integer arithmetic alone.

This is a second account of the formats, written from their definitions and independent of `interpreter/`: a code is
read as `mantissa * 2**exponent`, and a real number is rounded by dividing integers and looking at the remainder.

A *real* is what a float op means before rounding: a nonzero `Fraction`; a float for what rationals lack (NaN, the
infinities, the two zeros); or an `Irrational`, known only by enclosures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from tilewright.lang import F8E4M3B15, F32, F64, FloatType


@dataclass(frozen=True, slots=True)
class Irrational:
    """A real number that is no rational. `enclose(bits)` gives rationals on either side, about 2**-bits apart."""

    enclose: Callable[[int], tuple[Fraction, Fraction]]


Real: TypeAlias = Fraction | float | Irrational
#: The number of bits at which the enclosure of an irrational number begins, and at which it is a fault to go on.
_FIRST_BITS, _LAST_BITS = 80, 20_000


def bias_of(fmt: FloatType) -> int:
    """What the exponent field of 1.0 holds."""
    if fmt == F8E4M3B15:
        return 15
    return 2 ** (fmt.exponent - 1) - (0 if fmt.name.endswith("fnuz") else 1)


def least_exponent(fmt: FloatType) -> int:
    """The exponent of the smallest normal number."""
    return 1 - bias_of(fmt)


def sign_bit(fmt: FloatType) -> int:
    """The sign bit as a mask."""
    return 1 << fmt.width - 1


def max_code(fmt: FloatType) -> int:
    """The code of the largest finite number."""
    if not fmt.finite:
        return infinity_code(fmt) - 1
    return 0x7E if fmt.name == "f8e4m3fn" else 0x7F


def infinity_code(fmt: FloatType) -> int:
    """The code of infinity, for the formats that have it: all ones in the exponent field."""
    return (2**fmt.exponent - 1) << fmt.mantissa


def nan_code(fmt: FloatType) -> int | None:
    """The canonical NaN, as `docs/semantics.md` fixes it; None where the format has none."""
    if fmt == F8E4M3B15:
        return None
    if fmt.name.endswith("fnuz"):
        return 0x80
    return 0x7FF8_0000_0000_0000 if fmt == F64 else sign_bit(fmt) - 1


def is_nan(code: int, fmt: FloatType) -> bool:
    """Whether a code means NaN."""
    if fmt.finite:
        return code == nan_code(fmt) or (fmt.name == "f8e4m3fn" and code == 0xFF)
    return code & (sign_bit(fmt) - 1) > infinity_code(fmt)


def has_negative_zero(fmt: FloatType) -> bool:
    """Whether -0.0 has a code of its own."""
    return not fmt.name.endswith("fnuz")


def decode(code: int, fmt: FloatType) -> float:
    """The value of a code. A Python float holds every value of every format; a NaN has the sign of the code."""
    sign = -1.0 if code & sign_bit(fmt) else 1.0
    if is_nan(code, fmt):
        return math.copysign(math.nan, sign)
    magnitude = code & (sign_bit(fmt) - 1)
    if not fmt.finite and magnitude == infinity_code(fmt):
        return sign * math.inf
    field, mantissa = divmod(magnitude, 1 << fmt.mantissa)
    if field:
        mantissa += 1 << fmt.mantissa
    return sign * math.ldexp(mantissa, max(field, 1) - bias_of(fmt) - fmt.mantissa)


def exponent_of(size: Fraction) -> int:
    """The exponent e of a positive rational: 2**e <= size < 2**(e + 1)."""
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if size >= Fraction(2) ** guess else guess - 1


def ulp_of(size: Fraction, fmt: FloatType) -> Fraction:
    """The distance of two neighbouring numbers of the format where `size` lies; of the subnormals at and near 0."""
    least = least_exponent(fmt)
    exponent = least if size == 0 else max(exponent_of(abs(size)), least)
    return Fraction(2) ** (exponent - fmt.mantissa)


def encode(real: Real, fmt: FloatType, toward_zero: bool = False) -> int:
    """Round a real number once to the format: to nearest, ties to even, or toward zero. Formats of 8 bits saturate."""
    if isinstance(real, Irrational):
        return _encode_irrational(real, fmt, toward_zero)
    if isinstance(real, float):
        return _encode_special(real, fmt)
    size = abs(Fraction(real))
    exponent = max(exponent_of(size), least_exponent(fmt))
    count, rest = _divide(size, exponent - fmt.mantissa)
    if not toward_zero and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and count % 2)):
        count += 1
    code = count + ((exponent - least_exponent(fmt)) << fmt.mantissa)  # the hidden bit carries into the field
    if code > max_code(fmt):
        code = max_code(fmt) if fmt.width == 8 or toward_zero else infinity_code(fmt)
    return _with_sign(code, real < 0, fmt)


def _divide(size: Fraction, exponent: int) -> tuple[int, Fraction]:
    """size / 2**exponent as its whole part and the rest."""
    scaled = size / Fraction(2) ** exponent
    whole = scaled.numerator // scaled.denominator
    return whole, scaled - whole


def _with_sign(code: int, negative: bool, fmt: FloatType) -> int:
    if not negative or (code == 0 and not has_negative_zero(fmt)):
        return code
    return code | sign_bit(fmt)


def _encode_special(real: float, fmt: FloatType) -> int:
    negative = math.copysign(1.0, real) < 0
    if math.isnan(real):
        canonical = nan_code(fmt)
        return _with_sign(max_code(fmt), negative, fmt) if canonical is None else canonical
    if math.isinf(real):
        return _with_sign(max_code(fmt) if fmt.width == 8 else infinity_code(fmt), negative, fmt)
    if real != 0:
        raise ValueError(f"{real} is a rational number and must be given as one")
    return _with_sign(0, negative, fmt)


def _encode_irrational(real: Irrational, fmt: FloatType, toward_zero: bool) -> int:
    bits = _FIRST_BITS
    while bits < _LAST_BITS:
        low, high = real.enclose(bits)
        if low != 0 and high != 0 and (low < 0) == (high < 0):
            code = encode(low, fmt, toward_zero)
            if code == encode(high, fmt, toward_zero):
                return code
        bits *= 2
    raise ArithmeticError("an enclosure never left a midpoint: the number is rational")


def round_result(real: Real, fmt: FloatType) -> int:
    """The code of an arithmetic result: rounded once; arithmetic in 8 bits rounds to f32 and casts."""
    if fmt.width > 8:
        return encode(real, fmt)
    return encode(as_real(decode(encode(real, F32), F32)), fmt)


def as_real(value: float) -> Real:
    """A float as a real: a rational unless it is NaN, infinite or zero."""
    return Fraction(value) if math.isfinite(value) and value != 0 else value


def ordinal(code: int, fmt: FloatType) -> int:
    """A number that orders the codes that are not NaN as their values; both zeros are 0."""
    magnitude = code & (sign_bit(fmt) - 1)
    return -magnitude if code & sign_bit(fmt) else magnitude
