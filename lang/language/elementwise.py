"""Arithmetic and functions of numbers, element by element. Operands broadcast; types meet as `promotion` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import semantic
from ..dtypes import PropagateNan, dtype, float32, float64, int32, int64, uint32, uint64
from ..errors.operations import BadArgumentKind, BadOperand, BadOperands
from ..opdef import OpDef
from ..ops import arith
from ..ops import math as rows
from ..semantic.core import emit
from ..semantic.operators import meet, overflowing
from ..values import describe, tensor
from .arguments import flag, number_or_tensor, operand, typed
from .builtin import builtin, member

WIDE = (float32, float64)
CAST_HINT = "cast it: `x.to(tl.float32)`"


# --- operators as functions ---


@builtin
def add(x: Any, y: Any, sanitize_overflow: Any = True) -> tensor:
    """`x + y`. In debug builds `sanitize_overflow` asserts that integers below 64 bits do not overflow."""
    return _overflowing("+", x, y, sanitize_overflow)


@builtin
def sub(x: Any, y: Any, sanitize_overflow: Any = True) -> tensor:
    """`x - y`. In debug builds `sanitize_overflow` asserts that integers below 64 bits do not overflow."""
    return _overflowing("-", x, y, sanitize_overflow)


@builtin
def mul(x: Any, y: Any, sanitize_overflow: Any = True) -> tensor:
    """`x * y`. In debug builds `sanitize_overflow` asserts that integers below 64 bits do not overflow."""
    return _overflowing("*", x, y, sanitize_overflow)


def _overflowing(operator: str, x: Any, y: Any, sanitize: Any) -> tensor:
    if any(isinstance(each, tensor) and each.dtype.is_ptr() for each in (x, y)):
        return semantic.binary(operator, x, y)
    names = {"+": "add", "-": "sub", "*": "mul"}
    a, b = (number_or_tensor(names[operator], name, each) for name, each in (("x", x), ("y", y)))
    return overflowing(operator, a, b, flag(names[operator], "sanitize_overflow", sanitize))


@builtin
def where(condition: Any, x: Any, y: Any) -> tensor:
    """`x` where the condition holds (is not 0), else `y`; all three broadcast and both sides are evaluated.

    Types of x and y promote; pointers must have one type. Raises MismatchedTypes, IncompatibleShapes.
    """
    flags = operand("where", "condition", condition)
    return semantic.where(flags, x, y)


@member
def logical_and(x: Any, y: Any) -> tensor:
    """`x and y`, elementwise: int1. Both sides are evaluated."""
    return semantic.logical_and(operand("logical_and", "x", x), operand("logical_and", "y", y))


@member
def logical_or(x: Any, y: Any) -> tensor:
    """`x or y`, elementwise: int1. Both sides are evaluated."""
    return semantic.logical_or(operand("logical_or", "x", x), operand("logical_or", "y", y))


# --- the smaller and the larger ---


@builtin
def minimum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """The smaller; -0.0 is below 0.0. Of a NaN and a number the number, or the NaN for `PropagateNan.ALL`."""
    return _extremum("minimum", x, y, propagate_nan)


@builtin
def maximum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """The larger; -0.0 is below 0.0. Of a NaN and a number the number, or the NaN for `PropagateNan.ALL`."""
    return _extremum("maximum", x, y, propagate_nan)


def _extremum(function: str, x: Any, y: Any, propagate_nan: Any) -> tensor:
    return semantic.binary(_by_nan(function, function, propagate_nan), x, y)


def _by_nan(function: str, operator: str, propagate_nan: Any) -> str:
    if not isinstance(propagate_nan, PropagateNan):
        raise BadArgumentKind(
            function=function,
            argument="propagate_nan",
            found=describe(propagate_nan),
            expected="tl.PropagateNan.NONE or tl.PropagateNan.ALL",
        )
    return f"{operator}, NaN" if propagate_nan is PropagateNan.ALL else operator


@builtin
def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """`minimum(maximum(x, min), max)`, the three in one type: tensors' types meet first, then numbers join.

    Of a NaN `x` the bound `min`, or NaN for `PropagateNan.ALL`. `min` is not above `max`. Raises BadOperands.
    """
    operands = [number_or_tensor("clamp", name, each) for name, each in (("x", x), ("min", min), ("max", max))]
    (value, low, high), _ = meet("clamp", *operands)
    at_least = semantic.binary(_by_nan("clamp", "maximum", propagate_nan), value, low)
    return semantic.binary(_by_nan("clamp", "minimum", propagate_nan), at_least, high)


# --- arithmetic with one rounding, and high halves ---


@builtin
def fma(x: Any, y: Any, z: Any) -> tensor:
    """`x * y + z` of floats, rounded once; the three in one type: tensors' types meet first, then numbers join.

    Raises BadOperand for integers.
    """
    operands = [number_or_tensor("fma", name, each) for name, each in (("x", x), ("y", y), ("z", z))]
    values, type_ = meet("fma", *operands)
    if not type_.is_floating():
        raise BadOperand(function="fma", found=describe(values[0]), expected="floats", hint="write `x * y + z`")
    return emit(arith.FMA, values, type_)


@builtin
def fdiv(x: Any, y: Any, ieee_rounding: Any = False, approx: Any = False) -> tensor:
    """`x / y` of floats, in float32 (float64 if one is); with `ieee_rounding` correctly rounded in compiled code too.

    `approx` allows a faster, less exact division of float32; the two exclude each other.
    Raises BadOperands for integers, BadArgumentKind.
    """
    a, b = number_or_tensor("fdiv", "x", x), number_or_tensor("fdiv", "y", y)
    exact, fast = flag("fdiv", "ieee_rounding", ieee_rounding), flag("fdiv", "approx", approx)
    if exact and fast:
        raise BadArgumentKind(
            function="fdiv",
            argument="approx",
            found="True beside ieee_rounding=True",
            expected="one of the two at most",
        )
    values, type_ = _division("fdiv", a, b)
    return emit(arith.DIV_RN if exact else arith.DIV_F, values, type_)


@builtin
def div_rn(x: Any, y: Any) -> tensor:
    """`x / y` of floats, in float32 (float64 if one is), rounded to nearest even in compiled code too.

    Raises BadOperands for integers.
    """
    a, b = number_or_tensor("div_rn", "x", x), number_or_tensor("div_rn", "y", y)
    values, type_ = _division("div_rn", a, b)
    return emit(arith.DIV_RN, values, type_)


def _division(function: str, a: Any, b: Any) -> tuple[list[tensor], dtype]:
    values, type_ = meet("fdiv", a, b)
    if not type_.is_floating():
        raise BadOperands(
            operator=function, a=describe(a), b=describe(b), expected="floats (integers have `/` and `//`)", hint=""
        )
    return values, type_


@builtin
def umulhi(x: Any, y: Any) -> tensor:
    """The high half of the unsigned product of two 32- or 64-bit integers, in their own type. Raises BadOperand."""
    values, type_ = meet("umulhi", number_or_tensor("umulhi", "x", x), number_or_tensor("umulhi", "y", y))
    for value in values:
        typed("umulhi", value, (int32, int64, uint32, uint64))
    return emit(arith.MULHI_U, values, type_)


# --- functions of one number ---


@member
def abs(x: Any) -> tensor:
    """|x|: of floats the sign cleared (of a NaN too), of signed integers |x| with the least one staying itself.

    Raises BadOperand for pointers.
    """
    value = operand("abs", "x", x)
    if value.dtype.is_ptr():
        raise BadOperand(function="abs", found=describe(value), expected="a number", hint="")
    if value.dtype.is_int_unsigned():
        return value
    return emit(arith.ABS_F if value.dtype.is_floating() else arith.ABS_I, [value], value.dtype)


def _unary(name: str, row: OpDef, doc: str) -> Callable[[Any], tensor]:
    def function(x: Any) -> tensor:
        value = typed(name, operand(name, "x", x), WIDE, CAST_HINT)
        return emit(row, [value], value.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Of float32 and float64; raises BadOperand for others."
    return member(function)


exp = _unary("exp", rows.EXP, "e to the x.")
exp2 = _unary("exp2", rows.EXP2, "2 to the x.")
log = _unary("log", rows.LOG, "The natural logarithm of x; -inf at 0, NaN below.")
log2 = _unary("log2", rows.LOG2, "The binary logarithm of x; -inf at 0, NaN below.")
sqrt = _unary("sqrt", rows.SQRT, "The square root of x; NaN below 0.")
sqrt_rn = _unary("sqrt_rn", rows.SQRT_RN, "The square root of x, rounded to nearest even in compiled code too.")
rsqrt = _unary("rsqrt", rows.RSQRT, "1 / sqrt(x); infinity at 0.")
sin = _unary("sin", rows.SIN, "The sine of x radians.")
cos = _unary("cos", rows.COS, "The cosine of x radians.")
tanh = _unary("tanh", rows.TANH, "The hyperbolic tangent of x.")
erf = _unary("erf", rows.ERF, "The error function of x.")
floor = _unary("floor", rows.FLOOR, "The largest integer not above x, as a float.")
ceil = _unary("ceil", rows.CEIL, "The smallest integer not below x, as a float.")
