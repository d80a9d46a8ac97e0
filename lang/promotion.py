"""Which type operands of different types meet in. The one place where that is decided.

A *weak* operand is a Python number at the operation itself; it bends to the type of a tensor of its own kind or a
higher one (bool < integer < float). Everything else, runtime scalars included, promotes fully:

1. any float64 gives float64;
2. a division or remainder with any float gives float32;
3. any float32 gives float32; then any float16 gives float16;
4. bfloat16 alone gives bfloat16, with anything else float32;
5. one 8-bit float format alone gives itself, two of them float16, with an integer tensor it is an error;
6. integers give the widest type, unsigned if an unsigned one has that width. int1 counts as unsigned. Division and
   remainder refuse a mixture of signs.

>>> promote("+", uint32, 3), promote("*", int64, 0.5), promote("/", float16, 2)
(tilewright.language.uint32, tilewright.language.float32, tilewright.language.float32)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias, TypeGuard

from .dtypes import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    show,
    uint32,
    uint64,
)
from .errors.operations import (
    Fp8WithInteger,
    LiteralOutOfRange,
    LiteralTooLarge,
    MixedSignedness,
    NegativeWithUnsigned,
)

__all__ = [
    "Number",
    "check_literal",
    "common_type",
    "extremum_type",
    "index_type",
    "is_number",
    "literal_type",
    "promote",
    "sum_type",
]

Number: TypeAlias = bool | int | float
#: Operators that give float32 for narrower floats and refuse integers of mixed signs.
DIVISIONS = frozenset({"/", "//", "%", "fdiv"})
LITERAL_INTS = (int32, uint32, int64, uint64)
LEAST_NORMAL, GREATEST = 2.0**-126, (2.0 - 2.0**-23) * 2.0**127


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a weak operand: a Python bool, int or float."""
    return isinstance(value, bool | int | float)


def literal_type(value: Number) -> dtype:
    """The type that a number takes on its own.

    bool gives int1; an int the first of int32, uint32, int64, uint64 that holds it; a float float32, or float64 when
    it is neither 0, inf or NaN nor in the normal range of float32. Raises LiteralTooLarge.
    """
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        for candidate in LITERAL_INTS:
            if candidate.get_int_min_value() <= value <= candidate.get_int_max_value():
                return candidate
        raise LiteralTooLarge(value=value)
    special = value == 0.0 or math.isinf(value) or math.isnan(value)
    return float32 if special or LEAST_NORMAL <= abs(value) <= GREATEST else float64


def _integers(types: Sequence[dtype]) -> dtype:
    width = max(t.primitive_bitwidth for t in types)
    widest = [t for t in types if t.primitive_bitwidth == width]
    return next((t for t in widest if t.is_int_unsigned()), widest[0])


def _eights(types: Sequence[dtype]) -> dtype:
    return types[0] if len(set(types)) == 1 else float16


def _bfloats(types: Sequence[dtype]) -> dtype:
    return bfloat16 if all(t == bfloat16 for t in types) else float32


#: (applies to these types, the result), tried in order.
RULES: tuple[tuple[Callable[[Sequence[dtype]], bool], Callable[[Sequence[dtype]], dtype]], ...] = (
    (lambda types: float64 in types, lambda types: float64),
    (lambda types: float32 in types, lambda types: float32),
    (lambda types: float16 in types, lambda types: float16),
    (lambda types: bfloat16 in types, _bfloats),
    (lambda types: all(t.is_fp8() for t in types), _eights),
    (lambda types: all(t.is_int() for t in types), _integers),
)


@cache
def common_type(operator: str, *types: dtype) -> dtype:
    """The type that tensors of these number types meet in; the order of the types does not matter.

    Raises Fp8WithInteger, and MixedSignedness for divisions and remainders.
    """
    if operator in DIVISIONS:
        if any(t.is_floating() for t in types):
            return float64 if float64 in types else float32
        if len({t.is_int_signed() for t in types}) > 1:
            raise MixedSignedness(operator=operator, a=show(types[0]), b=show(types[1]))
    for applies, result in RULES:
        if applies(types):
            return result(types)
    a, b = (next(t for t in types if found(t)) for found in (dtype.is_fp8, dtype.is_int))
    raise Fp8WithInteger(operator=operator, a=show(a), b=show(b))


def promote(operator: str, *operands: dtype | Number) -> dtype:
    """The type that operands meet in: dtypes stand for tensors, Python numbers for weak operands.

    Tensor types combine first, then weak ones, then each result with the other once; so three operands give the
    same in any order. Raises what `common_type`, `literal_type` and `check_literal` raise.
    """
    strong = [t for t in operands if isinstance(t, dtype)]
    weak = [n for n in operands if not isinstance(n, dtype)]
    literal_types = [literal_type(number) for number in weak]
    if not strong:
        result = common_type(operator, *literal_types)
    elif not weak:
        result = common_type(operator, *strong)
    else:
        tensors, numbers = common_type("", *strong), common_type("", *literal_types)
        bends = numbers.kind() <= tensors.kind()
        result = common_type(operator, *strong, *([] if bends else literal_types))
    for number in weak:
        check_literal(operator, number, result)
    return result


def check_literal(operator: str, number: Number, type_: dtype) -> None:
    """Raise NegativeWithUnsigned or LiteralOutOfRange when a weak operand does not fit the type that it takes."""
    if not type_.is_int():
        return
    if number < 0 and type_.is_int_unsigned():
        raise NegativeWithUnsigned(operator=operator, value=number, found=show(type_))
    least, greatest = type_.get_int_min_value(), type_.get_int_max_value()
    if not least <= number <= greatest:
        raise LiteralOutOfRange(value=number, type=show(type_), least=least, greatest=greatest)


def index_type(*types: dtype) -> dtype:
    """The type of the induction variable of a loop over bounds and a step of these integer types."""
    return common_type("range", *types)


def sum_type(type_: dtype) -> dtype:
    """The type that `sum` adds in: int32 or uint32 for narrower integers (by sign; bool gives uint32), else itself."""
    if type_.is_int() and type_.primitive_bitwidth < 32:
        return int32 if type_.is_int_signed() else uint32
    return type_


def extremum_type(type_: dtype) -> dtype:
    """The type that `max` and `min` compare in: float32 or int32 for narrower types, whatever the sign, else itself."""
    if type_.primitive_bitwidth >= 32:
        return type_
    return float32 if type_.is_floating() else int32
