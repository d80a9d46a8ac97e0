"""Pieces that functions are put together from: polynomials, powers of two, and helpers written once a module.

Coefficients are weighted least-squares fits at Chebyshev nodes, made with 50 digits; each says its error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .context import Lowering
from .text import float_literal

KINDS = {"f32": "float", "f64": "double"}


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
    """2 to an i32 that is a normal exponent of the format."""
    if name == "f32":
        biased = to.text.value(f"add i32 {exponent}, 127")
        placed = to.text.value(f"shl i32 {biased}, 23")
        return to.text.value(f"bitcast i32 {placed} to float")
    biased = to.text.value(f"add i32 {exponent}, 1023")
    wide = to.text.value(f"zext i32 {biased} to i64")
    placed = to.text.value(f"shl i64 {wide}, 52")
    return to.text.value(f"bitcast i64 {placed} to double")


def nearest(to: Lowering, name: str, x: str) -> tuple[str, str]:
    """The nearest integer, as a float and as an i32 (0 for a NaN)."""
    kind = KINDS[name]
    rounded = to.text.call(kind, f"llvm.rint.{name}", [(kind, x)])
    return rounded, to.text.call("i32", f"llvm.fptosi.sat.i32.{name}", [(kind, rounded)])


def magnitude(to: Lowering, name: str, x: str) -> str:
    return to.text.call(KINDS[name], f"llvm.fabs.{name}", [(KINDS[name], x)])


def with_sign(to: Lowering, name: str, value: str, sign: str) -> str:
    """The value with the sign of another."""
    kind = KINDS[name]
    return to.text.call(kind, f"llvm.copysign.{name}", [(kind, value), (kind, sign)])
