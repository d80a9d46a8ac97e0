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
#: e^r for |r| <= 0.3471, within 2^-28.9.
EXP = (1.0, 1.000000038072954, 0.5000000108736012, 0.16666413945433778, 0.04166621554050959, 0.00837525622667826,
       0.0013948762629368205)  # fmt: skip
#: (tanh x - x) / x^3 over x^2 for |x| <= 0.625; relative to tanh within 2^-32.
TANH = (-0.3333333066493771, 0.13333201555473292, -0.05394627437866833, 0.021698309089296652, -0.00817200329525281,
        0.0021384012806737137)  # fmt: skip
#: erf(x) / x - 1 over x^2 for |x| <= 0.9, within 2^-31.
ERF_SMALL = (0.1283791667875911, -0.37612635224084384, 0.11283718609078724, -0.026860697036024433,
             0.00520430705948457, -0.000818053871492808, 8.533200810451398e-05)  # fmt: skip
#: -ln(erfc x) for 0.9 <= x <= 4; 1 - e^-that is within 2^-33 of erf.
ERF_LARGE = (-8.974660097267738e-05, 1.129003183851298, 0.634690491504685, 0.10626431073517513, -0.02321656624251509,
             0.0029999802647918006, 3.503811208458689e-05, -9.705344689113691e-05, 1.69219618119232e-05,
             -1.0502687822782414e-06)  # fmt: skip


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
    if source_element(operation) == F64:
        return F64_FUNCTIONS["exp"](to, args[0])
    return approximate(to, "ex2.approx", to.text.value(f"fmul float {args[0]}, {number(LOG2_E, 'f32')}"))


@lowers_elements("log2")
def _log2(to: Lowering, operation: Operation, args: list[str]) -> str:
    return wide(to, operation, args) or approximate(to, "lg2.approx", args[0])


@lowers_elements("log")
def _log(to: Lowering, operation: Operation, args: list[str]) -> str:
    if source_element(operation) == F64:
        return F64_FUNCTIONS["log"](to, args[0])
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
    count, exponent = nearest(to, "f32", to.text.value(f"fmul float {x}, {number(LOG2_E, 'f32')}"))
    rest = fma(to, "f32", count, number(-LN_2_HIGH, "f32"), x)
    rest = fma(to, "f32", count, number(-LN_2_LOW, "f32"), rest)
    return to.text.value(f"fmul float {horner(to, 'f32', rest, EXP)}, {power_of_two(to, 'f32', exponent)}")


@lowers_elements("tanh", refused=frozenset((F64,)))
def _tanh(to: Lowering, operation: Operation, args: list[str]) -> str:
    """A polynomial near 0, else 1 - 2 / (e^2x + 1); from 10 on that is 1."""
    (x,), text = args, to.text
    square = text.value(f"fmul float {x}, {x}")
    cube = text.value(f"fmul float {square}, {x}")
    near = fma(to, "f32", horner(to, "f32", square, TANH), cube, x)
    size = magnitude(to, "f32", x)
    capped = text.asm("float", "min.NaN.f32 $0, $1, $2;", "=f,f,f", [("float", size), ("float", number(10.0, "f32"))])
    grown = exp_within_ulp(to, text.value(f"fadd float {capped}, {capped}"))
    share = text.value(f"fdiv float {number(2.0, 'f32')}, {text.value(f'fadd float {grown}, 1.0')}")
    far = with_sign(to, "f32", text.value(f"fsub float 1.0, {share}"), x)
    small = text.value(f"fcmp olt float {size}, {number(0.625, 'f32')}")
    return text.value(f"select i1 {small}, float {near}, float {far}")


@lowers_elements("erf", refused=frozenset((F64,)))
def _erf(to: Lowering, operation: Operation, args: list[str]) -> str:
    """A polynomial near 0, else 1 - e^-p(|x|); from 4 on that is 1."""
    (x,), text = args, to.text
    square = text.value(f"fmul float {x}, {x}")
    near = fma(to, "f32", horner(to, "f32", square, ERF_SMALL), x, x)
    size = magnitude(to, "f32", x)
    capped = text.asm("float", "min.NaN.f32 $0, $1, $2;", "=f,f,f", [("float", size), ("float", number(4.0, "f32"))])
    power = horner(to, "f32", capped, [-c for c in ERF_LARGE])
    far = with_sign(to, "f32", text.value(f"fsub float 1.0, {exp_within_ulp(to, power)}"), x)
    small = text.value(f"fcmp olt float {size}, {number(0.9, 'f32')}")
    return text.value(f"select i1 {small}, float {near}, float {far}")
