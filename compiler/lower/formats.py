"""Facts about float formats that code is made from, and literals rounded once to them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import copysign, frexp, isinf, isnan
from typing import Any

from tilewright.lang import FloatType, IntType, PointerType, ScalarType


@dataclass(frozen=True, slots=True)
class Format:
    """A format: exponent bias, the largest finite code, the canonical NaN's code (None: it has no NaN).

    `unsigned_zero`: the code of -0.0 is the NaN. `infinity` is its code, None if there is none.
    """

    bias: int
    largest: int
    nan: int | None
    infinity: int | None = None
    unsigned_zero: bool = False


FORMATS: dict[str, Format] = {
    "f64": Format(1023, 0x7FEFFFFFFFFFFFFF, 0x7FF8000000000000, 0x7FF0000000000000),
    "f32": Format(127, 0x7F7FFFFF, 0x7FFFFFFF, 0x7F800000),
    "bf16": Format(127, 0x7F7F, 0x7FFF, 0x7F80),
    "f16": Format(15, 0x7BFF, 0x7FFF, 0x7C00),
    "f8e5m2": Format(15, 0x7B, 0x7F, 0x7C),
    "f8e4m3fn": Format(7, 0x7E, 0x7F),
    "f8e5m2fnuz": Format(16, 0x7F, 0x80, None, True),
    "f8e4m3fnuz": Format(8, 0x7F, 0x80, None, True),
    "f8e4m3b15": Format(15, 0x7F, None),
}


def encode(value: float, type_: FloatType) -> int:
    """The code of a number rounded once, to nearest even; 8-bit formats saturate, infinities included."""
    format_ = FORMATS[type_.name]
    sign = (copysign(1.0, value) < 0) << type_.width - 1
    if isnan(value):
        return sign | format_.largest if format_.nan is None else format_.nan
    code = format_.largest + 1 if isinf(value) else _magnitude(abs(value), type_, format_)
    if code > format_.largest:
        code = format_.largest if type_.is_fp8 else format_.infinity or 0
    return 0 if code == 0 and format_.unsigned_zero else sign | code


def _magnitude(value: float, type_: FloatType, format_: Format) -> int:
    """The code of a finite number without sign; beyond the largest where it rounds there."""
    lowest = 1 - format_.bias
    exponent = max(frexp(value)[1] - 1, lowest) if value else lowest
    top, bottom = value.as_integer_ratio()
    shift = exponent - type_.mantissa
    top, bottom = (top, bottom << shift) if shift >= 0 else (top << -shift, bottom)
    quotient, rest = divmod(top, bottom)
    quotient += 2 * rest > bottom or (2 * rest == bottom and quotient & 1)
    return ((exponent - lowest) << type_.mantissa) + quotient


def code_of(element: ScalarType, value: Any) -> int:
    """The bits of a constant of the IR."""
    if isinstance(element, PointerType):
        return 0
    if isinstance(element, IntType):
        return int(value) & (1 << element.width) - 1
    return encode(float(value), element)


def literal(element: ScalarType, value: Any) -> str:
    """A constant of the IR as LLVM writes it."""
    code = code_of(element, value)
    if isinstance(element, PointerType):
        return "null"
    if element == IntType(1):
        return "true" if code else "false"
    if str(element) == "f64":
        return f"0x{code:016X}"
    if str(element) == "f32":  # LLVM writes it as the bits of the double of that value
        (number,) = struct.unpack("<f", struct.pack("<I", code))
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    prefix = {"f16": "0xH", "bf16": "0xR"}.get(str(element))
    return str(code) if prefix is None else f"{prefix}{code:04X}"
