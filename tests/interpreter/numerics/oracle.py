"""An independent statement of the number formats, for tests: tables of exact values, and rounding by comparison.

Nothing here shares code with the room: values come from the definition of each format, and rounding looks up the two
neighbours of a real number and compares it with their midpoint.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

# name: (exponent bits, mantissa bits, bias, largest finite code, infinity, canonical NaN, has -0, saturates)
LAYOUTS: dict[str, tuple[int, int, int, int, int | None, int | None, bool, bool]] = {
    "f16": (5, 10, 15, 0x7BFF, 0x7C00, 0x7FFF, True, False),
    "bf16": (8, 7, 127, 0x7F7F, 0x7F80, 0x7FFF, True, False),
    "f8e5m2": (5, 2, 15, 0x7B, 0x7C, 0x7F, True, True),
    "f8e4m3fn": (4, 3, 7, 0x7E, None, 0x7F, True, True),
    "f8e5m2fnuz": (5, 2, 16, 0x7F, None, 0x80, False, True),
    "f8e4m3fnuz": (4, 3, 8, 0x7F, None, 0x80, False, True),
    "f8e4m3b15": (4, 3, 15, 0x7F, None, None, True, True),
}
NARROW = tuple(LAYOUTS)
FP8 = tuple(name for name in NARROW if name.startswith("f8"))


@dataclass(frozen=True)
class Table:
    """All non-negative finite values of a format in increasing order; the index of a value is its code."""

    name: str
    bits: int
    values: NDArray[np.float64]
    limit: float  # from here on a value rounds to infinity, where the format has it

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """The exact midpoints between neighbours (they fit in f64 with room to spare)."""
        return (self.values[:-1] + self.values[1:]) / 2


@cache
def table(name: str) -> Table:
    """The table of one format."""
    exponent_bits, mantissa_bits, bias, largest, *_ = LAYOUTS[name]
    values = []
    for code in range(largest + 1):
        field, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        if field == 0:
            values.append(Fraction(mantissa) * Fraction(2) ** (1 - bias - mantissa_bits))
        else:
            values.append((1 + Fraction(mantissa, 1 << mantissa_bits)) * Fraction(2) ** (field - bias))
    floats = np.array([float(value) for value in values])
    assert [Fraction(x) for x in floats.tolist()] == values
    step = values[-1] - values[-2]
    return Table(name, 1 + exponent_bits + mantissa_bits, floats, float(values[-1] + step / 2))


def encode(x: NDArray[np.float64], name: str, mode: str) -> NDArray[np.uint16]:
    """The codes that real numbers round to, by the rules of the language."""
    _, _, _, largest, infinity, nan, negative_zero, saturates = LAYOUTS[name]
    t = table(name)
    size = np.abs(x)
    finite = np.where(np.isfinite(size), np.minimum(size, t.values[-1]), 0.0)
    below = np.searchsorted(t.values, finite, side="right") - 1
    code = below.copy()
    if mode == "rtne":
        inner = below < largest
        middle = t.midpoints[np.minimum(below, largest - 1)]
        up = (finite > middle) | ((finite == middle) & (below % 2 == 1))
        code = np.where(inner & up, below + 1, below)
    overflow = np.isinf(size) | ((size >= t.limit) & (mode == "rtne"))
    code = np.where((size > t.values[-1]) | np.isinf(size), largest, code)
    if not saturates:
        code = np.where(overflow, infinity, code)
    sign = np.signbit(x).astype(np.int64) << (t.bits - 1)
    code = np.where((code == 0) & (not negative_zero), 0, code | sign)
    code = np.where(np.isnan(x), (largest | sign) if nan is None else nan, code)
    return code.astype(np.uint16)


def decode(codes: NDArray[np.uint16], name: str) -> NDArray[np.float64]:
    """The values of codes."""
    _, _, _, largest, infinity, nan, negative_zero, _ = LAYOUTS[name]
    t = table(name)
    top = 1 << (t.bits - 1)
    codes = codes.astype(np.int64)
    size = codes & (top - 1)
    value = np.where(size <= largest, t.values[np.minimum(size, largest)], np.nan)
    value = np.where(size == infinity, np.inf, value) if infinity is not None else value
    value = np.where(codes & top != 0, -value, value)
    return np.where(codes == nan, np.nan, value) if not negative_zero else value


def round_fraction(x: Fraction, name: str) -> int:
    """The code that an exact rational rounds to (to nearest even), by bisection over the table; signs included."""
    t = table(name)
    _, _, _, largest, infinity, _, negative_zero, saturates = LAYOUTS[name]
    size = abs(x)
    if size > Fraction(t.values[-1]):
        code = largest if saturates or size < Fraction(t.limit) else infinity
    else:
        low, high = 0, largest
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if Fraction(t.values[middle]) <= size else (low, middle)
        down, up = size - Fraction(t.values[low]), Fraction(t.values[high]) - size
        code = low if down < up or (down == up and low % 2 == 0) else high
    assert code is not None
    if x < 0 and (code or negative_zero):
        code |= 1 << (t.bits - 1)
    return code


def round_f32(x: Fraction) -> float:
    """The f32 nearest to an exact rational, ties to even, as a Python float; infinity beyond the range."""
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, -126)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - 23)
    value = round(size / unit) * unit  # Python rounds fractions to even
    result = float("inf") if value >= Fraction(2) ** 128 else float(value)
    return -result if x < 0 else result


def round_f64(x: Fraction) -> float:
    """The f64 nearest to an exact rational."""
    try:
        return x.numerator / x.denominator
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
