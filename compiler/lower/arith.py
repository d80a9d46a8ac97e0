"""Integer and bit arithmetic, with every case that LLVM leaves undefined decided before LLVM sees it."""

from __future__ import annotations

from tilewright.lang import IntType, Operation

from .context import Lowering
from .registry import lowers_elements, result_element, source_element

PLAIN = {"add_i": "add", "sub_i": "sub", "mul_i": "mul", "and": "and", "or": "or", "xor": "xor"}
SHIFTS = {"shl": "shl", "shr_u": "lshr", "shr_s": "ashr"}
DIVISIONS = {"div_s": "sdiv", "div_u": "udiv", "rem_s": "srem", "rem_u": "urem"}
ORDERS = {"min_s": "smin", "min_u": "umin", "max_s": "smax", "max_u": "umax"}
#: What the ops are on i1, whose set bit is 1 unsigned and -1 signed: from a and b, `{not_b}` being the complement.
BITS = {
    "mul_i": "and i1 {a}, {b}",
    "div_s": "or i1 {a}, {not_b}",
    "div_u": "or i1 {a}, {not_b}",
    "rem_s": "and i1 {a}, {not_b}",
    "rem_u": "and i1 {a}, {not_b}",
    "shl": "and i1 {a}, {not_b}",
    "shr_u": "and i1 {a}, {not_b}",
    "shr_s": "and i1 {a}, {a}",
    "min_s": "or i1 {a}, {b}",
    "max_s": "and i1 {a}, {b}",
    "min_u": "and i1 {a}, {b}",
    "max_u": "or i1 {a}, {b}",
}


def width_of(operation: Operation) -> int:
    """The width of the first operand, an integer."""
    element = source_element(operation)
    assert isinstance(element, IntType)
    return element.width


def on_bits(to: Lowering, operation: Operation, args: list[str]) -> str:
    """An op on i1."""
    a, b = args
    negated = to.text.value(f"xor i1 {b}, true") if "not_b" in BITS[operation.name] else ""
    return to.text.value(BITS[operation.name].format(a=a, b=b, not_b=negated))


@lowers_elements(*PLAIN)
def _plain(to: Lowering, operation: Operation, args: list[str]) -> str:
    if width_of(operation) == 1 and operation.name == "mul_i":
        return on_bits(to, operation, args)
    return to.text.value(f"{PLAIN[operation.name]} i{width_of(operation)} {args[0]}, {args[1]}")


@lowers_elements(*SHIFTS)
def _shift(to: Lowering, operation: Operation, args: list[str]) -> str:
    """LLVM's shifts are poison from the width on: there 0, or the sign, is chosen instead."""
    width = width_of(operation)
    if width == 1:
        return on_bits(to, operation, args)
    a, b = args
    amount = to.facts[operation.operands[1]].value
    if amount is not None and 0 <= amount < width:
        return to.text.value(f"{SHIFTS[operation.name]} i{width} {a}, {amount}")
    if width == 64:
        return _long_shift(to, operation.name, a, b)
    fits = to.text.value(f"icmp ult i{width} {b}, {width}")
    if operation.name == "shr_s":
        amount = to.text.value(f"select i1 {fits}, i{width} {b}, i{width} {width - 1}")
        return to.text.value(f"ashr i{width} {a}, {amount}")
    shifted = to.text.value(f"{SHIFTS[operation.name]} i{width} {a}, {b}")
    return to.text.value(f"select i1 {fits}, i{width} {shifted}, i{width} 0")


def _long_shift(to: Lowering, name: str, a: str, b: str) -> str:
    """PTX clamps the amount, of 32 bits. LLVM drops the choice for that reason but cuts an amount of 64 bits first."""
    capped = to.text.call("i64", "llvm.umin.i64", [("i64", b), ("i64", "64")])
    amount = to.text.value(f"trunc i64 {capped} to i32")
    instruction = {"shl": "shl.b64", "shr_u": "shr.u64", "shr_s": "shr.s64"}[name]
    return to.text.asm("i64", f"{instruction} $0, $1, $2;", "=l,l,r", [("i64", a), ("i32", amount)])


@lowers_elements(*DIVISIONS)
def _divide(to: Lowering, operation: Operation, args: list[str]) -> str:
    """Divide by 1 where the divisor is 0 (or MIN is divided by -1), then choose what the row says."""
    width, name = width_of(operation), operation.name
    if width == 1:
        return on_bits(to, operation, args)
    text, type_, (a, b) = to.text, f"i{width}", args
    zero = bad = text.value(f"icmp eq {type_} {b}, 0")
    if name.endswith("_s"):
        lowest = text.value(f"icmp eq {type_} {a}, {-(1 << width - 1)}")
        minus = text.value(f"icmp eq {type_} {b}, -1")
        overflow = text.value(f"and i1 {lowest}, {minus}")
        bad = text.value(f"or i1 {zero}, {overflow}")
    divisor = text.value(f"select i1 {bad}, {type_} 1, {type_} {b}")
    result = text.value(f"{DIVISIONS[name]} {type_} {a}, {divisor}")
    instead = "-1" if name.startswith("div") else a
    return text.value(f"select i1 {zero}, {type_} {instead}, {type_} {result}")


@lowers_elements("mulhi_u", "mulhi_s")
def _high(to: Lowering, operation: Operation, args: list[str]) -> str:
    """By intrinsics: LLVM finds the instruction in a wide product only where nothing else has touched that."""
    width = width_of(operation)
    kind = ("u" if operation.name == "mulhi_u" else "") + {32: "i", 64: "ll"}[width]
    return to.text.call(f"i{width}", f"llvm.nvvm.mulhi.{kind}", [(f"i{width}", arg) for arg in args])


@lowers_elements(*ORDERS)
def _order(to: Lowering, operation: Operation, args: list[str]) -> str:
    width = width_of(operation)
    if width == 1:
        return on_bits(to, operation, args)
    type_ = f"i{width}"
    return to.text.call(type_, f"llvm.{ORDERS[operation.name]}.{type_}", [(type_, args[0]), (type_, args[1])])


@lowers_elements("abs_i")
def _abs(to: Lowering, operation: Operation, args: list[str]) -> str:
    type_ = f"i{width_of(operation)}"
    if type_ == "i1":
        return args[0]
    return to.text.call(type_, f"llvm.abs.{type_}", [(type_, args[0]), ("i1", "false")])


@lowers_elements("trunc_i", "ext_s", "ext_u")
def _resize(to: Lowering, operation: Operation, args: list[str]) -> str:
    name = {"trunc_i": "trunc", "ext_s": "sext", "ext_u": "zext"}[operation.name]
    return to.text.value(f"{name} {source_element(operation)} {args[0]} to {result_element(operation)}")
