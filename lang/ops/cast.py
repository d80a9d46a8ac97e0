"""Conversions between element types. All round once; floats of 8 bits saturate, float to integer clamps."""

from __future__ import annotations

from ..contracts import EXACT
from ..opdef import Attribute
from ..types import FLOATS, I64, INTS, NUMBERS, POINTERS, bit_width
from .rules import elementwise

TRUNC_I = elementwise("trunc_i", "a", [((a,), b) for a in INTS for b in INTS if b.width < a.width], "The low bits.")
EXT_S = elementwise(
    "ext_s", "a", [((a,), b) for a in INTS for b in INTS if b.width > a.width], "Widened by copies of the sign bit."
)
EXT_U = elementwise("ext_u", "a", [((a,), b) for a in INTS for b in INTS if b.width > a.width], "Widened by zeros.")
S_TO_F = elementwise(
    "s_to_f", "a", [((a,), b) for a in INTS for b in FLOATS], "The signed integer rounded once to nearest even.",
    contracts=EXACT,
)  # fmt: skip
U_TO_F = elementwise(
    "u_to_f", "a", [((a,), b) for a in INTS for b in FLOATS], "The unsigned integer rounded once to nearest even.",
    contracts=EXACT,
)  # fmt: skip
F_TO_S = elementwise(
    "f_to_s", "a", [((a,), b) for a in FLOATS for b in INTS if b.width > 1],
    "Truncated toward zero, clamped to the signed range; NaN gives 0.",
)  # fmt: skip
F_TO_U = elementwise(
    "f_to_u", "a", [((a,), b) for a in FLOATS for b in INTS if b.width > 1],
    "Truncated toward zero, clamped to the unsigned range; NaN gives 0.",
)  # fmt: skip
CAST_F = elementwise(
    "cast_f", "a", [((a,), b) for a in FLOATS for b in FLOATS if a != b],
    "Rounded once to the other format; 8-bit formats saturate, infinity included; NaN becomes the canonical NaN (in f8e4m3b15, which has none, the largest number of its sign).",
    contracts=EXACT, attributes=(Attribute("rounding", str, "rtne", ("rtne", "rtz")),),
)  # fmt: skip
BITCAST = elementwise(
    "bitcast", "a",
    [((a,), b) for a in NUMBERS for b in NUMBERS if a != b and bit_width(a) == bit_width(b)]
    + [((a,), b) for a in POINTERS for b in POINTERS if a != b],
    "The same bits under another type.",
)  # fmt: skip
PTR_TO_INT = elementwise("ptr_to_int", "a", [((p,), I64) for p in POINTERS], "The address in bytes.")
INT_TO_PTR = elementwise("int_to_ptr", "a", [((I64,), p) for p in POINTERS], "The address in bytes as a pointer.")
