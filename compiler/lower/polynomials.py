"""Pieces that functions are put together from: polynomials, powers of two, and helpers written once a module.

Coefficients are weighted least-squares fits at Chebyshev nodes. `tools/coefficients.py` makes them and measures their
errors.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .context import Lowering
from .text import float_literal

KINDS = {"f32": "float", "f64": "double"}
FLOAT_BITS = {"f32": 32, "f64": 64}


def number(value: float, name: str) -> str:
    """A literal of f64, or of the f32 nearest to `value`."""
    if name == "f32":
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    return float_literal(value, name)


def fma(to: Lowering, name: str, a: str, b: str, c: str) -> str:
    """a * b + c, rounded once."""
    kind = KINDS[name]
    return to.text.call(kind, f"llvm.fma.{name}", [(kind, a), (kind, b), (kind, c)])


def horner(to: Lowering, name: str, x: str, coefficients: Sequence[float]) -> str:
    """The polynomial with these coefficients, the constant first."""
    value = number(coefficients[-1], name)
    for coefficient in reversed(coefficients[:-1]):
        value = fma(to, name, value, x, number(coefficient, name))
    return value


def power_of_two(to: Lowering, name: str, exponent: str) -> str:
    """2 to an i32 that is a normal exponent of the format; of f32 the low 9 bits count."""
    if name == "f32":
        placed = to.text.value(f"add i32 {to.text.value(f'shl i32 {exponent}, 23')}, {127 << 23}")
        return to.text.value(f"bitcast i32 {placed} to float")
    biased = to.text.value(f"add i32 {exponent}, 1023")
    wide = to.text.value(f"zext i32 {biased} to i64")
    placed = to.text.value(f"shl i64 {wide}, 52")
    return to.text.value(f"bitcast i64 {placed} to double")


#: Beside these numbers floats lie one apart, and the lowest bits of a sum are those of its integer.
MAGIC = {"f32": 1.5 * 2.0**23, "f64": 1.5 * 2.0**52}


def nearest(to: Lowering, name: str, x: str, factor: float) -> tuple[str, str]:
    """The integer nearest to x * factor, below 2^22 for f32 and 2^31 for f64: as a float, and as an i32.

    The i32 counts from 1.5 * 2^23 in f32, which its low 22 bits do not show, and is anything for a NaN.
    """
    kind = KINDS[name]
    shifted = fma(to, name, x, number(factor, name), number(MAGIC[name], name))
    count = to.text.value(f"fsub {kind} {shifted}, {number(MAGIC[name], name)}")
    bits = to.text.value(f"bitcast {kind} {shifted} to i{FLOAT_BITS[name]}")
    return count, bits if name == "f32" else to.text.value(f"trunc i64 {bits} to i32")


def magnitude(to: Lowering, name: str, x: str) -> str:
    return to.text.call(KINDS[name], f"llvm.fabs.{name}", [(KINDS[name], x)])


def with_sign(to: Lowering, name: str, value: str, sign: str) -> str:
    """The value with the sign of another."""
    kind = KINDS[name]
    return to.text.call(kind, f"llvm.copysign.{name}", [(kind, value), (kind, sign)])
