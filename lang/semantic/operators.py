"""The operators of tensors: arithmetic, bits, comparison, pointers, logic and the choice between two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..constants import unwrap
from ..context import current, current_options
from ..dtypes import dtype, float32, int1, int64, show, uint64
from ..errors.operations import BadOperand, BadOperands, MismatchedTypes, MixedSignedness, NegativeWithUnsigned
from ..opdef import OpDef
from ..ops import arith
from ..ops import compare as cmp
from ..ops.debug import ASSERT
from ..ops.shape import ADD_PTR
from ..promotion import Number, index_type, promote
from ..values import OPERATORS, describe, tensor
from .casts import cast_tensor
from .core import constant, element_type, emit, is_operand, promoted, to_tensor, together

Operand = tensor | Number

#: The rows of an operator for floats, signed and unsigned integers.
ARITHMETIC: dict[str, tuple[OpDef, OpDef, OpDef]] = {
    "+": (arith.ADD_F, arith.ADD_I, arith.ADD_I),
    "-": (arith.SUB_F, arith.SUB_I, arith.SUB_I),
    "*": (arith.MUL_F, arith.MUL_I, arith.MUL_I),
    "%": (arith.REM_F, arith.REM_S, arith.REM_U),
    "minimum": (arith.MINNUM, arith.MIN_S, arith.MIN_U),
    "maximum": (arith.MAXNUM, arith.MAX_S, arith.MAX_U),
    "minimum, NaN": (arith.MINIMUM, arith.MIN_S, arith.MIN_U),
    "maximum, NaN": (arith.MAXIMUM, arith.MAX_S, arith.MAX_U),
    "<": (cmp.CMP_LT_F, cmp.CMP_LT_S, cmp.CMP_LT_U),
    "<=": (cmp.CMP_LE_F, cmp.CMP_LE_S, cmp.CMP_LE_U),
    ">": (cmp.CMP_GT_F, cmp.CMP_GT_S, cmp.CMP_GT_U),
    ">=": (cmp.CMP_GE_F, cmp.CMP_GE_S, cmp.CMP_GE_U),
    "==": (cmp.CMP_EQ_F, cmp.CMP_EQ_I, cmp.CMP_EQ_I),
    "!=": (cmp.CMP_NE_F, cmp.CMP_NE_I, cmp.CMP_NE_I),
}
BITS: dict[str, OpDef] = {"&": arith.AND, "|": arith.OR, "^": arith.XOR, "<<": arith.SHL}
COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
POINTER_HINT = "numbers; to work on an address, cast it: `ptr.to(tl.int64)`"


def row_for(operator: str, type_: dtype) -> OpDef:
    """The row that computes an operator on this type."""
    on_float, on_signed, on_unsigned = ARITHMETIC[operator]
    if type_.is_floating():
        return on_float
    return on_signed if type_.is_int_signed() else on_unsigned


def binary(operator: str, a: Any, b: Any) -> tensor:
    """An infix arithmetic or bit operator by its symbol. At least one operand is a tensor or both are numbers.

    Types meet as `promotion` says, shapes broadcast. Raises BadOperands and what these raise.
    """
    a, b = _operands(operator, a, b)
    return BINARY[operator](operator, a, b)


def compare(operator: str, a: Any, b: Any) -> tensor:
    """A comparison: int1 of the common shape.

    Integers compare by the sign of the promoted type. Every comparison with a NaN is false but `!=`, which is true.
    Raises BadOperands and what promotion and broadcasting raise.
    """
    a, b = _operands(operator, a, b)
    return _arithmetic(operator, a, b)


def _operands(operator: str, a: Any, b: Any) -> tuple[Operand, Operand]:
    a, b = unwrap(a), unwrap(b)
    if not (is_operand(a) and is_operand(b)):
        operator = operator.removesuffix(", NaN")
        hint = _about_none(operator) if a is None or b is None else ""
        raise BadOperands(operator=operator, a=describe(a), b=describe(b), expected="tensors or numbers", hint=hint)
    return a, b


def _about_none(operator: str) -> str:
    return {"==": "compare by `is None`", "!=": "compare by `is not None`"}.get(operator, "")


def _is_pointer(x: Operand) -> bool:
    return isinstance(x, tensor) and x.dtype.is_ptr()


def _refuse(operator: str, a: Operand, b: Operand, expected: str) -> BadOperands:
    return BadOperands(operator=operator, a=describe(a), b=describe(b), expected=expected, hint="")


def meet(operator: str, *operands: Operand) -> tuple[list[tensor], dtype]:
    """The operands in their common type and shape, and the type. Raises BadOperands for pointers."""
    if any(map(_is_pointer, operands)):
        raise _refuse(operator, operands[0], operands[1], POINTER_HINT)
    type_ = promote(operator, *map(element_type, operands))
    return promoted(operator, operands, type_), type_


def _arithmetic(operator: str, a: Operand, b: Operand) -> tensor:
    values, type_ = meet(operator.removesuffix(", NaN"), a, b)
    return emit(row_for(operator, type_), values, int1 if operator in COMPARISONS else type_)


def _overflowing(operator: str, a: Operand, b: Operand) -> tensor:
    """`+ - *`, with pointers where they make sense, and with an overflow assert in debug builds that want it."""
    if _is_pointer(a) or _is_pointer(b):
        return _offset(operator, a, b)
    return overflowing(operator, a, b, current_options().sanitize_overflow)


def overflowing(operator: str, a: Operand, b: Operand, sanitize: bool) -> tensor:
    """`+ - *` on numbers. In debug builds `sanitize` adds a device assert on integers of 8 to 32 bits."""
    values, type_ = meet(operator, a, b)
    result = emit(row_for(operator, type_), values, type_)
    if sanitize and current_options().debug and type_.is_int() and 1 < type_.primitive_bitwidth < 64:
        _assert_no_overflow(operator, values, type_)
    return result


def _assert_no_overflow(operator: str, values: list[tensor], type_: dtype) -> None:
    wide = emit(row_for(operator, int64), [cast_tensor(x, int64) for x in values], int64)
    low = emit(cmp.CMP_GE_S, [wide, constant(type_.get_int_min_value(), int64, wide.shape)], int1)
    high = emit(cmp.CMP_LE_S, [wide, constant(type_.get_int_max_value(), int64, wide.shape)], int1)
    # The product of two uint32 can pass int64, where it turns negative: the lower bound, which is 0, catches that.
    fits = emit(arith.AND, [low, high], int1)
    message = f"{show(type_)} overflow in `{operator}`"
    current().create(ASSERT, [fits.handle], {"message": message})


def _offset(operator: str, a: Operand, b: Operand) -> tensor:
    """`pointer + integer`, `integer + pointer` and `pointer - integer`, in elements.

    Offsets are signed, but unsigned ones below 64 bits are zero-extended. `pointer - offset` negates in the offset's
    own type first.
    """
    pointer, offset = (a, b) if _is_pointer(a) else (b, a)
    swapped = pointer is b
    if operator == "*" or (operator == "-" and swapped) or _is_pointer(offset):
        raise _refuse(operator, a, b, "pointer + integer, integer + pointer or pointer - integer")
    index = to_tensor(offset)
    if not index.dtype.is_int():
        raise _refuse(operator, a, b, "an integer offset, in elements")
    if operator == "-":
        index = negate(index)
    if index.dtype.is_int_unsigned() and index.dtype.primitive_bitwidth < 64:
        index = cast_tensor(index, int64)
    assert isinstance(pointer, tensor)
    base, steps = together(operator, pointer, index)
    return emit(ADD_PTR, [base, steps], base.dtype)


def _true_divide(operator: str, a: Operand, b: Operand) -> tensor:
    """`/`: in float32 for integers and floats below it, in float64 otherwise."""
    if _is_pointer(a) or _is_pointer(b):
        raise _refuse(operator, a, b, POINTER_HINT)
    met = promote(operator, element_type(a), element_type(b))
    type_ = float32 if met.is_int() else met
    return emit(arith.DIV_F, promoted(operator, (a, b), type_), type_)


def _floor_divide(operator: str, a: Operand, b: Operand) -> tensor:
    """`//`: of integers, truncated toward zero as C does."""
    if any(_is_pointer(x) or _is_float(x) for x in (a, b)):
        raise _refuse(operator, a, b, "integers; for floats use `tl.floor(a / b)`")
    values, type_ = meet(operator, a, b)
    return emit(arith.DIV_S if type_.is_int_signed() else arith.DIV_U, values, type_)


def _is_float(x: Operand) -> bool:
    return x.dtype.is_floating() if isinstance(x, tensor) else isinstance(x, float)


def _bits(operator: str, a: Operand, b: Operand) -> tensor:
    """Operators on bits, of integers only. `>>` fills with the sign if its left tensor (the right one, when a number
    stands left) is signed, whatever type the operands meet in."""
    if any(_is_pointer(x) or _is_float(x) for x in (a, b)):
        raise _refuse(operator, a, b, "integers")
    values, type_ = meet(operator, a, b)
    if operator == ">>":
        owner = next((x for x in (a, b) if isinstance(x, tensor)), values[0])
        return emit(arith.SHR_S if owner.dtype.is_int_signed() else arith.SHR_U, values, type_)
    return emit(BITS[operator], values, type_)


BINARY: dict[str, Callable[[str, Operand, Operand], tensor]] = {
    **dict.fromkeys(("+", "-", "*"), _overflowing),
    "/": _true_divide,
    "//": _floor_divide,
    **dict.fromkeys(("%", "minimum", "maximum", "minimum, NaN", "maximum, NaN"), _arithmetic),
    **dict.fromkeys(("&", "|", "^", "<<", ">>"), _bits),
}


def negate(x: Any) -> tensor:
    """`-x`: the sign flipped for floats (of NaN and zero too), 0 - x for integers, which wraps. Raises BadOperand."""
    value = to_tensor(x)
    if value.dtype.is_ptr():
        raise BadOperand(function="`-`", found=describe(value), expected="a number", hint="cast it: `ptr.to(tl.int64)`")
    if value.dtype.is_floating():
        return emit(arith.NEG_F, [value], value.dtype)
    return emit(arith.SUB_I, [constant(0, value.dtype, value.shape), value], value.dtype)


def invert(x: Any) -> tensor:
    """`~x`: every bit of an integer flipped. Raises BadOperand."""
    value = to_tensor(x)
    if not value.dtype.is_int():
        raise BadOperand(
            function="`~`",
            found=describe(value),
            expected="an integer",
            hint="bitcast it: `x.to(tl.int32, bitcast=True)`",
        )
    ones = value.dtype.get_int_max_value() if value.dtype.is_int_unsigned() else -1
    return emit(arith.XOR, [value, constant(ones, value.dtype, value.shape)], value.dtype)


def to_condition(x: Any, construct: str = "a condition") -> tensor:
    """A value as int1: itself if it is, else `!= 0` (non-null for pointers). Raises BadOperand."""
    return cast_tensor(to_tensor(x, construct), int1)


def logical_and(a: Any, b: Any) -> tensor:
    """`a and b`, elementwise on int1; both sides are evaluated."""
    return emit(arith.AND, together("and", to_condition(a, "`and`"), to_condition(b, "`and`")), int1)


def logical_or(a: Any, b: Any) -> tensor:
    """`a or b`, elementwise on int1; both sides are evaluated."""
    return emit(arith.OR, together("or", to_condition(a, "`or`"), to_condition(b, "`or`")), int1)


def logical_not(x: Any) -> tensor:
    """`not x`, elementwise on int1."""
    return invert(to_condition(x, "`not`"))


def where(condition: Any, a: Any, b: Any) -> tensor:
    """`a` where the condition holds, else `b`: types promoted (pointers must have one type), shapes broadcast."""
    a, b = _operands("where", a, b)
    if _is_pointer(a) or _is_pointer(b):
        a, b = to_tensor(a), to_tensor(b)
        if a.dtype != b.dtype:
            raise MismatchedTypes(function="where", a=describe(a), b=describe(b), expected="pointers of one type")
        x, y = a, b
    else:
        (x, y), _ = meet("where", a, b)
    return select(to_condition(condition, "where"), x, y)


def select(condition: tensor, a: tensor, b: tensor) -> tensor:
    """`a` where the int1 condition holds, else `b`, which have one type; shapes broadcast. Raises MismatchedTypes."""
    if a.dtype != b.dtype:
        raise MismatchedTypes(function="where", a=describe(a), b=describe(b), expected="values of one type")
    flag, x, y = together("where", condition, a, b)
    return emit(cmp.SELECT, [flag, x, y], x.dtype)


def loop_bounds(start: Any, stop: Any, step: Any) -> tuple[tensor, tensor, tensor, dtype]:
    """The bounds and step of a loop, scalar integers of one type, and the type of its induction variable.

    Numbers take their literal type first: they are not weak here. The induction variable has the common type; where
    that is unsigned, but a negative number or a signed value takes part, the loop counts in int64, so that a step may
    be negative. Raises BadOperand for what is no scalar integer, MixedSignedness and NegativeWithUnsigned for uint64.
    """
    values = [to_tensor(x, "range") for x in (start, stop, step)]
    for value in values:
        if value.shape or not value.dtype.is_int():
            hint = "reduce it to a scalar first, as `tl.max(x)` does" if value.shape else "cast it: `x.to(tl.int32)`"
            raise BadOperand(function="range", found=describe(value), expected="scalar integers", hint=hint)
    type_ = index_type(*(value.dtype for value in values))
    signed = [unwrap(x) for x in (start, stop, step) if _may_be_negative(unwrap(x))]
    counter = int64 if type_.is_int_unsigned() and signed else type_
    if counter.is_int_signed() and type_ == uint64:
        culprit = signed[0]
        if isinstance(culprit, tensor):
            raise MixedSignedness(operator="range", a=show(type_), b=show(culprit.dtype))
        raise NegativeWithUnsigned(operator="range", value=culprit, found=show(type_))
    first, last, stride = (cast_tensor(value, counter) for value in values)
    return first, last, stride, type_


def _may_be_negative(x: Operand) -> bool:
    return x.dtype.is_int_signed() if isinstance(x, tensor) else x < 0


def _binary_method(operator: str) -> Callable[..., tensor]:
    def apply(a: Any, b: Any) -> tensor:
        return compare(operator, a, b) if operator in COMPARISONS else binary(operator, a, b)

    return apply


OPERATORS.update(
    {symbol: _binary_method(symbol) for symbol in ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>")}
)
ARITHMETIC_SYMBOLS = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>")
OPERATORS.update({symbol: _binary_method(symbol) for symbol in (*ARITHMETIC_SYMBOLS, *sorted(COMPARISONS))})
OPERATORS.update({"u-": negate, "~": invert})
