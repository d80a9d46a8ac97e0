"""Float arithmetic and comparisons. Every operation rounds once; nothing is fused that the IR does not fuse.

Two elements of 16 bits share a register and an instruction. Operations on 8-bit floats are those on f32 followed by
the cast. Minima, maxima and changes of the sign are inline PTX, since LLVM takes liberties with zeros and NaNs that the
language does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tilewright.lang import F32, F64, FloatType, Operation

from .context import Lowering
from .fp8 import decode, encode
from .pairs import Lanes, in_lanes
from .registry import lowers_columns, lowers_elements, result_element, source_element
from .text import llvm_type

ARITHMETIC = {"add_f": "fadd", "sub_f": "fsub", "mul_f": "fmul", "div_rn": "fdiv"}
ORDERED = {
    "cmp_eq_f": "oeq", "cmp_ne_f": "une", "cmp_lt_f": "olt", "cmp_le_f": "ole", "cmp_gt_f": "ogt", "cmp_ge_f": "oge",
}  # fmt: skip
MINIMA = {"minnum": "min", "maxnum": "max", "minimum": "min.NaN", "maximum": "max.NaN"}

Columns: TypeAlias = list[list[str]]
#: (lowering, operation, lanes, one register of each operand) -> that register of the result.
FloatWise: TypeAlias = Callable[[Lowering, Operation, Lanes, list[str]], str]


def float_of(operation: Operation) -> FloatType:
    """The type of the first operand, a float."""
    element = source_element(operation)
    assert isinstance(element, FloatType)
    return element


def widened(to: Lowering, element: FloatType, columns: Columns) -> tuple[FloatType, Columns]:
    """The type in which an operation on this type is computed, and the operands in it."""
    if not element.is_fp8:
        return element, columns
    return F32, [decode(to, element, column) for column in columns]


def lowers_floats(*names: str) -> Callable[[FloatWise], FloatWise]:
    """Register how these ops are written on one register's worth of elements."""

    def register(function: FloatWise) -> FloatWise:
        @lowers_columns(*names)
        def _all(to: Lowering, operation: Operation, columns: Columns) -> list[str]:
            element = float_of(operation)
            computed, columns = widened(to, element, columns)
            made = in_lanes(to, computed, columns, lambda lanes, args: function(to, operation, lanes, args))
            return encode(to, element, made) if element.is_fp8 else made

        return function

    return register


@lowers_floats(*ARITHMETIC)
def _arithmetic(to: Lowering, operation: Operation, lanes: Lanes, args: list[str]) -> str:
    return to.text.value(f"{ARITHMETIC[operation.name]} {lanes.kind} {args[0]}, {args[1]}")


@lowers_floats("fma")
def _fma(to: Lowering, operation: Operation, lanes: Lanes, args: list[str]) -> str:
    """What is negated before goes in by `fneg`, which the instruction takes along; the sign of a NaN is free here."""
    kind, negated = lanes.kind, to.negated
    terms = [to.text.value(f"fneg {kind} {negated[arg]}") if arg in negated else arg for arg in args]
    return to.text.call(kind, f"llvm.fma.{lanes.suffix}", [(kind, term) for term in terms])


@lowers_elements("div_f")
def _divide(to: Lowering, operation: Operation, args: list[str]) -> str:
    """f32 by the approximate division of full range, 2 ulp."""
    a, b = args
    if float_of(operation) == F64:
        return to.text.value(f"fdiv double {a}, {b}")
    return Lanes(F32).asm(to, "div.full.f32", [a, b])


@lowers_columns("neg_f", "abs_f")
def _sign(to: Lowering, operation: Operation, columns: Columns) -> list[str]:
    """Bit operations in inline PTX: LLVM would make them float instructions, which may change a NaN."""
    element, (column,), negates = float_of(operation), columns, operation.name == "neg_f"
    if element.is_fp8:
        return [_code_sign(to, element, negates, code) for code in column]
    sign = 1 << element.width - 1

    def write(lanes: Lanes, args: list[str]) -> str:
        kind, bits, letter = lanes.kind, f"i{lanes.width}", {16: "h", 32: "r", 64: "l"}[lanes.width]
        source = to.text.value(f"bitcast {kind} {args[0]} to {bits}")
        mask = lanes.each(sign if negates else sign - 1)
        code = f"{'xor' if negates else 'and'}.b{lanes.width} $0, $1, {mask:#x};"
        changed = to.text.asm(bits, code, f"={letter},{letter}", [(bits, source)])
        result = to.text.value(f"bitcast {bits} {changed} to {kind}")
        if negates:
            to.negated[result] = args[0]
        return result

    return in_lanes(to, element, columns, write)


def _code_sign(to: Lowering, element: FloatType, negates: bool, code: str) -> str:
    """The code of an 8-bit float with another sign; without a -0.0, the zero and the NaN stay."""
    changed = to.text.value(f"xor i8 {code}, 128" if negates else f"and i8 {code}, 127")
    if not element.name.endswith("fnuz"):
        return changed
    magnitude = to.text.value(f"and i8 {code}, 127")
    keeps = to.text.value(f"icmp eq i8 {magnitude}, 0")
    return to.text.value(f"select i1 {keeps}, i8 {code}, i8 {changed}")


@lowers_floats(*MINIMA)
def _minimum(to: Lowering, operation: Operation, lanes: Lanes, args: list[str]) -> str:
    """PTX has -0.0 below +0.0 and both ways with NaN, but in f64 only the one that drops it."""
    kind = MINIMA[operation.name]
    if lanes.element != F64:
        return lanes.asm(to, f"{kind}.{lanes.ptx}", args)
    result = lanes.asm(to, f"{kind[:3]}.f64", args)
    if operation.name in ("minnum", "maxnum"):
        return result
    unordered = to.text.value(f"fcmp uno double {args[0]}, {args[1]}")
    return to.text.value(f"select i1 {unordered}, double 0x7FF8000000000000, double {result}")


@lowers_columns(*ORDERED)
def _compare(to: Lowering, operation: Operation, columns: Columns) -> list[str]:
    type_, columns = widened(to, float_of(operation), columns)
    kind, order = llvm_type(type_), ORDERED[operation.name]
    return [to.text.value(f"fcmp {order} {kind} {a}, {b}") for a, b in zip(*columns, strict=True)]


INTEGER_ORDER = {"eq_i": "eq", "ne_i": "ne"} | {
    f"{order}_{sign}": f"{sign}{order}" for order in ("lt", "le", "gt", "ge") for sign in "su"
}


@lowers_elements(*(f"cmp_{name}" for name in INTEGER_ORDER))
def _compare_integers(to: Lowering, operation: Operation, args: list[str]) -> str:
    predicate = INTEGER_ORDER[operation.name.removeprefix("cmp_")]
    return to.text.value(f"icmp {predicate} {source_element(operation)} {args[0]}, {args[1]}")


@lowers_elements("select")
def _select(to: Lowering, operation: Operation, args: list[str]) -> str:
    type_ = llvm_type(result_element(operation))
    return to.text.value(f"select i1 {args[0]}, {type_} {args[1]}, {type_} {args[2]}")
