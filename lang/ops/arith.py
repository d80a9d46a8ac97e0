"""Integer, bit and float arithmetic. Integers wrap; see docs/semantics.md for division by zero and wide shifts."""

from __future__ import annotations

from ..contracts import EXACT, Contracts, Exact, Ulp
from ..opdef import Trait
from ..types import F32, F64, FLOATS, I32, I64, INTS
from .rules import elementwise

COMMUTES = Trait.COMMUTATIVE
FUSES = Contracts(Exact(), contractable=True)
WIDE = (F32, F64)

ADD_I = elementwise("add_i", "a b", INTS, "a + b modulo 2^width.", COMMUTES)
SUB_I = elementwise("sub_i", "a b", INTS, "a - b modulo 2^width.")
MUL_I = elementwise("mul_i", "a b", INTS, "a * b modulo 2^width.", COMMUTES)
DIV_S = elementwise("div_s", "a b", INTS, "Signed a / b, truncated; a / 0 = -1, MIN / -1 = MIN.")
DIV_U = elementwise("div_u", "a b", INTS, "Unsigned a / b, truncated; a / 0 = all ones.")
REM_S = elementwise("rem_s", "a b", INTS, "Signed a - (a / b) * b, with the sign of a; a rem 0 = a, MIN rem -1 = 0.")
REM_U = elementwise("rem_u", "a b", INTS, "Unsigned a - (a / b) * b; a rem 0 = a.")
MULHI_U = elementwise("mulhi_u", "a b", (I32, I64), "The high half of the unsigned double-width product.", COMMUTES)
MULHI_S = elementwise("mulhi_s", "a b", (I32, I64), "The high half of the signed double-width product.", COMMUTES)

AND = elementwise("and", "a b", INTS, "Bitwise a & b.", COMMUTES)
OR = elementwise("or", "a b", INTS, "Bitwise a | b.", COMMUTES)
XOR = elementwise("xor", "a b", INTS, "Bitwise a ^ b.", COMMUTES)
SHL = elementwise("shl", "a b", INTS, "a << b, b unsigned; 0 when b is the width or more.")
SHR_S = elementwise(
    "shr_s", "a b", INTS, "a >> b with sign fill, b unsigned; all sign bits when b is the width or more."
)
SHR_U = elementwise("shr_u", "a b", INTS, "a >> b with zero fill, b unsigned; 0 when b is the width or more.")

MIN_S = elementwise("min_s", "a b", INTS, "The smaller, signed.", COMMUTES)
MIN_U = elementwise("min_u", "a b", INTS, "The smaller, unsigned.", COMMUTES)
MAX_S = elementwise("max_s", "a b", INTS, "The larger, signed.", COMMUTES)
MAX_U = elementwise("max_u", "a b", INTS, "The larger, unsigned.", COMMUTES)
ABS_I = elementwise("abs_i", "a", INTS, "|a|, signed; MIN stays MIN.")

ADD_F = elementwise("add_f", "a b", FLOATS, "a + b, rounded once.", COMMUTES, contracts=FUSES)
SUB_F = elementwise("sub_f", "a b", FLOATS, "a - b, rounded once.", contracts=FUSES)
MUL_F = elementwise("mul_f", "a b", FLOATS, "a * b, rounded once.", COMMUTES, contracts=FUSES)
DIV_F = elementwise(
    "div_f", "a b", WIDE, "a / b; the reference rounds once, compiled f32 may be 2 ulp off.",
    contracts=Contracts(Ulp(2), {"f64": Exact()}),
)  # fmt: skip
DIV_RN = elementwise("div_rn", "a b", WIDE, "a / b, rounded once to nearest even.", contracts=EXACT)
REM_F = elementwise("rem_f", "a b", WIDE, "C fmod: a - trunc(a / b) * b exactly, with the sign of a.", contracts=EXACT)
FMA = elementwise(
    "fma", "a b c", FLOATS, "a * b + c, rounded once (in 8-bit formats to f32, then cast).", contracts=EXACT
)
NEG_F = elementwise(
    "neg_f", "a", FLOATS, "a with its sign flipped, NaN and zero included where the format signs them.", contracts=EXACT
)
ABS_F = elementwise("abs_f", "a", FLOATS, "a with its sign cleared, NaN included.", contracts=EXACT)
MINNUM = elementwise(
    "minnum", "a b", FLOATS, "The smaller; of a NaN and a number the number; -0 < +0.", COMMUTES, contracts=EXACT
)
MAXNUM = elementwise(
    "maxnum", "a b", FLOATS, "The larger; of a NaN and a number the number; -0 < +0.", COMMUTES, contracts=EXACT
)
MINIMUM = elementwise("minimum", "a b", FLOATS, "The smaller; NaN if either is; -0 < +0.", COMMUTES, contracts=EXACT)
MAXIMUM = elementwise("maximum", "a b", FLOATS, "The larger; NaN if either is; -0 < +0.", COMMUTES, contracts=EXACT)
