"""Functions of one f32: PTX approximations and short polynomials that meet the contracts.

The instructions and their bounds are those of the PTX ISA: ex2.approx 2 ulp, lg2.approx 2^-22, sqrt.approx and
rsqrt.approx about 1 ulp. f64 is in `math_f64.py`; sine and cosine are in `trigonometry.py`.
"""

from __future__ import annotations

from math import log, log2

from tilewright.lang import F32, F64, FloatType, Operation

from .context import Lowering
from .math_f64 import F64_FUNCTIONS
from .polynomials import fma, horner, magnitude, nearest, number, power_of_two, with_sign
from .registry import lowers_elements, source_element

LOG2_E, LN_2 = log2(2.718281828459045), log(2.0)
#: ln 2 in two parts of f32, the first with 12 zeros at its end so that small multiples are exact.
LN_2_HIGH, LN_2_LOW = 0.693145751953125, 1.42860682030941723212e-6
#: e^r for |r| <= 0.3471, within 2^-28.
EXP = (1.0, 1.0, 0.49999988079071045, 0.166665181517601, 0.04166955128312111, 0.00836902391165495,
       0.0013751016231253743)  # fmt: skip
#: (tanh x - x) / x^3 over x^2 for |x| <= 0.625; relative to tanh within 2^-28.
TANH = (-0.3333333134651184, 0.1333320140838623, -0.053946252912282944, 0.021698210388422012,
        -0.008171788416802883, 0.002138226293027401)  # fmt: skip
#: erf(x) / x - 1 over x^2 for |x| <= 0.9; relative to erf within 2^-29.
ERF_SMALL = (0.12837916612625122, -0.37612634897232056, 0.11283714324235916, -0.026860462501645088,
             0.005203752778470516, -0.000817448366433382, 8.508394967066124e-05)  # fmt: skip
#: -log2(erfc x) for 0.9 <= x <= 4; 1 - 2^-that is within 2^-25.9 of erf.
ERF_LARGE = (-0.00012649079144466668, 1.6287893056869507, 0.9157117009162903, 0.1532369703054428,
             -0.03342866152524948, 0.004287798888981342, 6.66084888507612e-05, -0.00014404284593183547,
             2.4987988581415266e-05, -1.5508607020819909e-06)  # fmt: skip


def approximate(to: Lowering, instruction: str, value: str) -> str:
    """An f32 instruction of one operand."""
    return to.text.asm("float", f"{instruction}.f32 $0, $1;", "=f,f", [("float", value)])


def wide(to: Lowering, operation: Operation, args: list[str]) -> str | None:
    """The f64 form of a function; None for f32."""
    if source_element(operation) != F64:
        return None
    return F64_FUNCTIONS[operation.name](to, args[0])


@lowers_elements("exp2")
def _exp2(to: Lowering, operation: Operation, args: list[str]) -> str:
    return wide(to, operation, args) or approximate(to, "ex2.approx", args[0])


@lowers_elements("exp")
def _exp(to: Lowering, operation: Operation, args: list[str]) -> str:
    """2 to the x log2(e); the contract grows with |x| as the rounding of this product does."""
    if (result := wide(to, operation, args)) is not None:
        return result
    return approximate(to, "ex2.approx", to.text.value(f"fmul float {args[0]}, {number(LOG2_E, 'f32')}"))


@lowers_elements("log2")
def _log2(to: Lowering, operation: Operation, args: list[str]) -> str:
    return wide(to, operation, args) or approximate(to, "lg2.approx", args[0])


@lowers_elements("log")
def _log(to: Lowering, operation: Operation, args: list[str]) -> str:
    if (result := wide(to, operation, args)) is not None:
        return result
    return to.text.value(f"fmul float {approximate(to, 'lg2.approx', args[0])}, {number(LN_2, 'f32')}")


@lowers_elements("sqrt")
def _sqrt(to: Lowering, operation: Operation, args: list[str]) -> str:
    if source_element(operation) == F32:
        return approximate(to, "sqrt.approx", args[0])
    return to.text.call("double", "llvm.sqrt.f64", [("double", args[0])])


@lowers_elements("sqrt_rn")
def _sqrt_rn(to: Lowering, operation: Operation, args: list[str]) -> str:
    element = source_element(operation)
    kind = "float" if element == F32 else "double"
    return to.text.call(kind, f"llvm.sqrt.{element}", [(kind, args[0])])


@lowers_elements("rsqrt")
def _rsqrt(to: Lowering, operation: Operation, args: list[str]) -> str:
    """In f64 the quotient of the rounded root: two roundings, less than 1 ulp before the last."""
    if source_element(operation) == F32:
        return approximate(to, "rsqrt.approx", args[0])
    root = to.text.call("double", "llvm.sqrt.f64", [("double", args[0])])
    return to.text.value(f"fdiv double 1.0, {root}")


@lowers_elements("floor", "ceil")
def _round(to: Lowering, operation: Operation, args: list[str]) -> str:
    element = source_element(operation)
    assert isinstance(element, FloatType)
    kind = "float" if element == F32 else "double"
    return to.text.call(kind, f"llvm.{operation.name}.{element}", [(kind, args[0])])


def exp_within_ulp(to: Lowering, x: str) -> str:
    """e^x for f32 of magnitude up to 80, within 1 ulp: a reduced argument and a polynomial."""
    count, exponent = nearest(to, "f32", x, LOG2_E)
    rest = fma(to, "f32", count, number(-LN_2_HIGH, "f32"), x)
    rest = fma(to, "f32", count, number(-LN_2_LOW, "f32"), rest)
    return to.text.value(f"fmul float {horner(to, 'f32', rest, EXP)}, {power_of_two(to, 'f32', exponent)}")


def at_most(to: Lowering, size: str, limit: float) -> str:
    """An f32, or a limit that it is beyond; a NaN stays."""
    given = [("float", size), ("float", number(limit, "f32"))]
    return to.text.asm("float", "min.NaN.f32 $0, $1, $2;", "=f,f,f", given)


@lowers_elements("tanh")
def _tanh(to: Lowering, operation: Operation, args: list[str]) -> str:
    """A polynomial near 0, else 1 - 2 / (e^2x + 1); from 10 on that is 1."""
    if (result := wide(to, operation, args)) is not None:
        return result
    (x,), text = args, to.text
    square = text.value(f"fmul float {x}, {x}")
    cube = text.value(f"fmul float {square}, {x}")
    near = fma(to, "f32", horner(to, "f32", square, TANH), cube, x)  # of -0.0 it makes 0.0
    size = magnitude(to, "f32", x)
    limited = at_most(to, size, 10.0)
    grown = exp_within_ulp(to, text.value(f"fadd float {limited}, {limited}"))
    part = approximate(to, "rcp.approx.ftz", text.value(f"fadd float {grown}, 1.0"))
    far = fma(to, "f32", part, number(-2.0, "f32"), "1.0")
    small = text.value(f"fcmp olt float {size}, {number(0.625, 'f32')}")
    return with_sign(to, "f32", text.value(f"select i1 {small}, float {near}, float {far}"), x)


@lowers_elements("erf")
def _erf(to: Lowering, operation: Operation, args: list[str]) -> str:
    """A polynomial near 0, else 1 - 2^-p(|x|); from 4 on that is 1. The power is below 0.21: its 2 ulp are half of one.

    Powers that the instruction flushes to zero are lost beside 1 anyway.
    """
    if (result := wide(to, operation, args)) is not None:
        return result
    (x,), text = args, to.text
    square = text.value(f"fmul float {x}, {x}")
    near = fma(to, "f32", horner(to, "f32", square, ERF_SMALL), x, x)
    size = magnitude(to, "f32", x)
    power = approximate(to, "ex2.approx.ftz", horner(to, "f32", at_most(to, size, 4.0), [-c for c in ERF_LARGE]))
    far = with_sign(to, "f32", text.value(f"fsub float 1.0, {power}"), x)
    small = text.value(f"fcmp olt float {size}, {number(0.9, 'f32')}")
    return text.value(f"select i1 {small}, float {near}, float {far}")
