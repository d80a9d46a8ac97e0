"""Numbers as the bytes of a kernel's parameters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import copysign, ldexp
from typing import Any, NamedTuple

import numpy as np


def _integer(size: int) -> Callable[[Any], bytes]:
    mask = (1 << 8 * size) - 1
    return lambda value: (int(value) & mask).to_bytes(size, "little")


def _float(kind: Any) -> Callable[[Any], bytes]:
    def pack(value: Any) -> bytes:
        with np.errstate(over="ignore", under="ignore"):
            return kind(value).tobytes()

    return pack


def _bfloat16(value: Any) -> bytes:
    """Rounded once to nearest even: to odd in float32 first, which makes the second rounding harmless.

    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008:
    24 bits are enough for a result of 8.)
    """
    exact = float(value)
    if exact != exact:
        return b"\xff\x7f"
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(exact)
        if float(near) != exact:
            below = near if abs(float(near)) < abs(exact) else np.nextafter(near, np.float32(0))
            near = np.uint32(below.view(np.uint32) | np.uint32(1)).view(np.float32)
    bits = int(near.view(np.uint32))
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).to_bytes(2, "little")


class _Format(NamedTuple):
    """An 8-bit float format: bits of the mantissa, the exponent's bias, and the codes of the largest value and of NaN.

    Where there is no NaN, one becomes the largest value with its sign; where its code is that of -0, there is no -0.
    """

    mantissa: int
    bias: int
    largest: int
    nan: int | None

    def values(self) -> list[float]:
        """The value of each code from 0 to the largest, which ascend."""
        unit = 1 << self.mantissa
        exponents = ((code // unit, code % unit) for code in range(self.largest + 1))
        return [
            ldexp(unit + m if e else m, max(e, 1) - self.bias - self.mantissa)  # no hidden bit in subnormal numbers
            for e, m in exponents
        ]


#: The formats, as docs/semantics.md defines them.
_SMALL: dict[str, _Format] = {
    "f8e5m2": _Format(2, 15, 0x7B, 0x7F),
    "f8e4m3fn": _Format(3, 7, 0x7E, 0x7F),
    "f8e5m2fnuz": _Format(2, 16, 0x7F, 0x80),
    "f8e4m3fnuz": _Format(3, 8, 0x7F, 0x80),
    "f8e4m3b15": _Format(3, 15, 0x7F, None),
}


def _small_float(row: _Format) -> Callable[[Any], bytes]:
    """Rounded once to nearest even, and saturating, as a cast does."""
    values = row.values()

    def pack(value: Any) -> bytes:
        number = float(value)
        sign = 0x80 if copysign(1.0, number) < 0 else 0
        if number != number and row.nan is not None:
            return bytes([row.nan])
        code = _nearest(values, abs(number))
        return bytes([code | sign if code or row.nan != 0x80 else 0])

    return pack


def _nearest(values: Sequence[float], number: float) -> int:
    """The index of the nearest value, of two as near the even one; the last for NaN."""
    above = bisect_left(values, number)
    if above == len(values) or number != number:
        return len(values) - 1
    if values[above] == number:
        return above
    middle = (values[above - 1] + values[above]) / 2
    return above - 1 if number < middle or (number == middle and above % 2) else above


#: How a number becomes bytes, by the parameter's type in IR text. An i1 takes a whole byte.
PACKERS: dict[str, Callable[[Any], bytes]] = {
    "i1": lambda value: bytes([bool(value)]),
    "i8": _integer(1),
    "i16": _integer(2),
    "i32": _integer(4),
    "i64": _integer(8),
    "f16": _float(np.float16),
    "bf16": _bfloat16,
    "f32": _float(np.float32),
    "f64": _float(np.float64),
}
ADDRESS = _integer(8)


def packer(type_: str) -> Callable[[Any], bytes]:
    """What packs the numbers (for a pointer: addresses) of one parameter, by its type in IR text."""
    if type_.startswith("ptr<"):
        return ADDRESS
    return _small_float(_SMALL[type_]) if type_ in _SMALL else PACKERS[type_]
