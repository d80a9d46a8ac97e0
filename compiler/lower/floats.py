"""Float arithmetic and comparisons. Every operation rounds once; nothing is fused that the kernel does not fuse.

Operations on 8-bit floats are those on f32 followed by the cast. Minima, maxima and changes of the sign are inline
PTX, since LLVM takes liberties with zeros and NaNs that the language does not.
"""

from __future__ import annotations

from tilewright.lang import BF16, F32, F64, FloatType, Operation

from .context import Lowering
from .fp8 import decode, encode
from .registry import lowers_elements, result_element, source_element
from .text import llvm_type

LETTERS = {"f16": "h", "bf16": "h", "f32": "f", "f64": "d"}
ARITHMETIC = {"add_f": "fadd", "sub_f": "fsub", "mul_f": "fmul", "div_rn": "fdiv"}
ORDERED = {
    "cmp_eq_f": "oeq", "cmp_ne_f": "une", "cmp_lt_f": "olt", "cmp_le_f": "ole", "cmp_gt_f": "ogt", "cmp_ge_f": "oge",
}  # fmt: skip
MINIMA = {"minnum": "min", "maxnum": "max", "minimum": "min.NaN", "maximum": "max.NaN"}


def float_of(operation: Operation) -> FloatType:
    """The type of the first operand, a float."""
    element = source_element(operation)
    assert isinstance(element, FloatType)
    return element


def widened(to: Lowering, element: FloatType, args: list[str]) -> tuple[FloatType, list[str]]:
    """The type in which an operation on this type is computed, and the operands in it."""
    if not element.is_fp8:
        return element, args
    return F32, [decode(to, element, arg) for arg in args]


def narrowed(to: Lowering, element: FloatType, value: str) -> str:
    """The result, cast where it was computed in f32."""
    return encode(to, element, value) if element.is_fp8 else value


@lowers_elements(*ARITHMETIC)
def _arithmetic(to: Lowering, operation: Operation, args: list[str]) -> str:
    element = float_of(operation)
    type_, (a, b) = widened(to, element, args)
    return narrowed(to, element, to.text.value(f"{ARITHMETIC[operation.name]} {llvm_type(type_)} {a}, {b}"))


@lowers_elements("fma")
def _fma(to: Lowering, operation: Operation, args: list[str]) -> str:
    element = float_of(operation)
    type_, terms = widened(to, element, args)
    name = llvm_type(type_)
    return narrowed(to, element, to.text.call(name, f"llvm.fma.{type_}", [(name, term) for term in terms]))


@lowers_elements("div_f")
def _divide(to: Lowering, operation: Operation, args: list[str]) -> str:
    """f32 by the approximate division of full range, 2 ulp."""
    a, b = args
    if float_of(operation) == F64:
        return to.text.value(f"fdiv double {a}, {b}")
    return to.text.asm("float", "div.full.f32 $0, $1, $2;", "=f,f,f", [("float", a), ("float", b)])


@lowers_elements("neg_f", "abs_f")
def _sign(to: Lowering, operation: Operation, args: list[str]) -> str:
    """Bit operations in inline PTX: LLVM would make them float instructions, which may change a NaN."""
    element, (a,) = float_of(operation), args
    width, negates = element.width, operation.name == "neg_f"
    mask = 1 << width - 1 if negates else (1 << width - 1) - 1
    bits = f"i{width}"
    if element.is_fp8:
        changed = to.text.value(f"{'xor' if negates else 'and'} i8 {a}, {mask}")
        if not element.name.endswith("fnuz"):
            return changed
        magnitude = to.text.value(f"and i8 {a}, 127")
        keeps = to.text.value(f"icmp eq i8 {magnitude}, 0")
        return to.text.value(f"select i1 {keeps}, i8 {a}, i8 {changed}")
    name, letter = llvm_type(element), {16: "h", 32: "r", 64: "l"}[width]
    source = to.text.value(f"bitcast {name} {a} to {bits}")
    code = f"{'xor' if negates else 'and'}.b{width} $0, $1, {mask:#x};"
    changed = to.text.asm(bits, code, f"={letter},{letter}", [(bits, source)])
    return to.text.value(f"bitcast {bits} {changed} to {name}")


@lowers_elements(*MINIMA)
def _minimum(to: Lowering, operation: Operation, args: list[str]) -> str:
    """PTX has -0.0 below +0.0 and both ways with NaN, but in f64 only the one that drops it."""
    element = float_of(operation)
    type_, (a, b) = widened(to, element, args)
    name, letter, kind = llvm_type(type_), LETTERS[type_.name], MINIMA[operation.name]
    if type_ == F64:
        kind = kind[:3]
    given = [(name, a), (name, b)]
    if type_ == BF16:  # no register letter takes a bfloat
        given = [("i16", to.text.value(f"bitcast bfloat {arg} to i16")) for arg in (a, b)]
        raw = to.text.asm("i16", f"{kind}.bf16 $0, $1, $2;", "=h,h,h", given)
        return to.text.value(f"bitcast i16 {raw} to bfloat")
    result = to.text.asm(name, f"{kind}.{type_} $0, $1, $2;", f"={letter},{letter},{letter}", given)
    if type_ == F64 and operation.name in ("minimum", "maximum"):
        unordered = to.text.value(f"fcmp uno double {a}, {b}")
        result = to.text.value(f"select i1 {unordered}, double 0x7FF8000000000000, double {result}")
    return narrowed(to, element, result)


@lowers_elements(*ORDERED)
def _compare(to: Lowering, operation: Operation, args: list[str]) -> str:
    type_, (a, b) = widened(to, float_of(operation), args)
    return to.text.value(f"fcmp {ORDERED[operation.name]} {llvm_type(type_)} {a}, {b}")


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
