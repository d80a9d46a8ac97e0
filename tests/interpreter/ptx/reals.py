"""Rounding of exact rationals to binary formats in the four modes, written independently of the room."""

from fractions import Fraction

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


def _whole(x: Fraction, mode: str) -> int:
    down = x.numerator // x.denominator
    rest = x - down
    if mode == "rn":
        return down + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1))
    if mode == "rz":
        return down + (rest > 0 and x < 0)
    return down + (mode == "rp" and rest > 0)


def round_real(x: Fraction, fmt: str, mode: str) -> float:
    """The number of a format that a nonzero rational rounds to, as a Python float."""
    _, precision, low, high = LAYOUTS[fmt]
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, low) - precision + 1)
    value = _whole(x / unit, mode) * unit
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high
    if abs(value) > largest:
        inward = mode == "rz" or (mode == "rm" and x > 0) or (mode == "rp" and x < 0)
        magnitude = float(largest) if inward else float("inf")
        return -magnitude if x < 0 else magnitude
    return float(value) if value else (-0.0 if x < 0 else 0.0)


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
