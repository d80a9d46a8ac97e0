"""Functions of one float, on f32 and f64. Contracts are the PTX approximations' bounds or libdevice's."""

from __future__ import annotations

from ..contracts import EXACT, AbsRel, Contract, Contracts, Ulp
from ..types import F32, F64
from .rules import elementwise

WIDE = (F32, F64)


def f32(contract: Contract) -> Contracts:
    """A contract for f32; f64 results are within 1 ulp."""
    return Contracts(contract, {"f64": Ulp(1)})


EXP = elementwise("exp", "x", WIDE, "e to the x.", contracts=f32(Ulp(2, growth=1.173)))
EXP2 = elementwise("exp2", "x", WIDE, "2 to the x.", contracts=f32(Ulp(2)))
LOG = elementwise(
    "log", "x", WIDE, "The natural logarithm; -inf at 0, NaN below.", contracts=f32(AbsRel(2**-21.41, 2**-21.5))
)
LOG2 = elementwise(
    "log2", "x", WIDE, "The binary logarithm; -inf at 0, NaN below.", contracts=f32(AbsRel(2**-22, 2**-22))
)
SQRT = elementwise("sqrt", "x", WIDE, "The square root; NaN below 0, sqrt(-0) = -0.", contracts=f32(Ulp(1)))
SQRT_RN = elementwise("sqrt_rn", "x", WIDE, "The square root, rounded once to nearest even.", contracts=EXACT)
RSQRT = elementwise("rsqrt", "x", WIDE, "1 / sqrt(x); signed infinity at signed zero.", contracts=f32(Ulp(2)))
SIN = elementwise("sin", "x", WIDE, "The sine of x radians; NaN at infinity.", contracts=f32(Ulp(2)))
COS = elementwise("cos", "x", WIDE, "The cosine of x radians; NaN at infinity.", contracts=f32(Ulp(2)))
TANH = elementwise("tanh", "x", WIDE, "The hyperbolic tangent.", contracts=f32(Ulp(2)))
ERF = elementwise("erf", "x", WIDE, "The error function.", contracts=f32(Ulp(2)))
FLOOR = elementwise("floor", "x", WIDE, "The largest integer not above x.", contracts=EXACT)
CEIL = elementwise("ceil", "x", WIDE, "The smallest integer not below x.", contracts=EXACT)
