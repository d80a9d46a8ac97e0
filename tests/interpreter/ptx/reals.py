"""Rounding of exact rationals to binary formats in the four modes, written independently of the room."""

from fractions import Fraction
from math import ldexp

import ml_dtypes
import numpy as np

# name: (NumPy type, precision in bits, smallest exponent of a normal number, largest exponent)
LAYOUTS = {
    "f16": (np.float16, 11, -14, 15),
    "bf16": (ml_dtypes.bfloat16, 8, -126, 127),
    "f32": (np.float32, 24, -126, 127),
    "f64": (np.float64, 53, -1022, 1023),
}
MODES = ("rn", "rz", "rm", "rp")


def _whole(numerator: int, denominator: int, mode: str) -> int:
    """A quotient as a whole number."""
    down, rest = divmod(numerator, denominator)
    if mode == "rn":
        return down + (2 * rest + down % 2 > denominator)
    return down + (rest > 0 and (mode == "rp" or (mode == "rz" and numerator < 0)))


def round_real(x: Fraction, fmt: str, mode: str) -> float:
    """The number of a format that a nonzero rational rounds to, as a Python float."""
    _, precision, low, high = LAYOUTS[fmt]
    top, bottom = x.as_integer_ratio()
    exponent = abs(top).bit_length() - bottom.bit_length()
    if bottom << max(exponent, 0) > abs(top) << max(-exponent, 0):
        exponent -= 1
    last = max(exponent, low) - precision + 1  # the exponent of the last bit
    value = _whole(top << max(-last, 0), bottom << max(last, 0), mode)
    if last > high - precision + 1 or (last == high - precision + 1 and abs(value) == 1 << precision):
        inward = mode == "rz" or (mode == "rm" and x > 0) or (mode == "rp" and x < 0)
        magnitude = ldexp((1 << precision) - 1, high - precision + 1) if inward else float("inf")
        return -magnitude if x < 0 else magnitude
    return ldexp(value, last) if value else (-0.0 if x < 0 else 0.0)


def specials(fmt: str) -> np.ndarray:
    """Numbers at the edges of a format, without NaN and infinity."""
    dtype, precision, low, high = LAYOUTS[fmt]
    one = Fraction(1)
    sizes = [
        Fraction(0), one, 1 + Fraction(2) ** (1 - precision), 1 - Fraction(2) ** -precision, 3 * one, one / 4,
        Fraction(2) ** low, Fraction(2) ** (low - precision + 1), 3 * Fraction(2) ** (low - precision + 1),
        Fraction(2) ** low - Fraction(2) ** (low - precision + 1), Fraction(2) ** (low // 2),
        (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high, Fraction(2) ** high, Fraction(2) ** (high // 2),
        Fraction(2) ** precision - 1, Fraction(5, 2),
    ]  # fmt: skip
    values = [float(s) for s in sizes] + [-float(s) for s in sizes]
    return np.array(values).astype(dtype)
