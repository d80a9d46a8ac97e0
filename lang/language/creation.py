"""Where a program is in the grid, and tiles made from nothing."""

from __future__ import annotations

from typing import Any

from .. import semantic
from ..constants import unwrap
from ..context import current
from ..dtypes import check_shape, dtype, int32, show
from ..errors.operations import BadGridAxis, BadRange, FractionForInteger, LiteralOutOfRange, NotOneElement
from ..ops.shape import ARANGE, NUM_PROGRAMS, PROGRAM_ID
from ..promotion import Number, is_number
from ..semantic.casts import ROUNDINGS
from ..semantic.core import constant, splat
from ..values import describe, tensor
from .arguments import choice, element_dtype, flag, integer, operand, shape_of
from .builtin import builtin, member
from .shape import item

LEAST, GREATEST = int32.get_int_min_value(), int32.get_int_max_value()


@builtin
def program_id(axis: Any) -> tensor:
    """This program's index along an axis of the grid: an int32 scalar.

    `axis` is 0, 1 or 2, known at compile time. Raises BadGridAxis.
    """
    return tensor(current().value(PROGRAM_ID, (), {"axis": _grid_axis("program_id", axis)}), int32)


@builtin
def num_programs(axis: Any) -> tensor:
    """The number of programs along an axis of the grid: an int32 scalar.

    `axis` is 0, 1 or 2, known at compile time. Raises BadGridAxis.
    """
    return tensor(current().value(NUM_PROGRAMS, (), {"axis": _grid_axis("num_programs", axis)}), int32)


def _grid_axis(function: str, value: Any) -> int:
    axis = integer(function, "axis", value)
    if axis not in (0, 1, 2):
        raise BadGridAxis(function=function, axis=axis)
    return axis


@builtin
def arange(start: Any, end: Any) -> tensor:
    """The int32 tile `start, start + 1, ..., end - 1`.

    Both are integers known at compile time; the length is a power of two. Raises BadRange.
    """
    first, last = integer("arange", "start", start), integer("arange", "end", end)
    if first >= last:
        raise BadRange(start=first, end=last, problem="nothing lies between")
    if first < LEAST or last > GREATEST:
        raise BadRange(start=first, end=last, problem="the bounds do not fit int32")
    check_shape((last - first,))
    return tensor(current().value(ARANGE, (), {"start": first, "end": last}), int32)


@builtin
def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """A tile of `shape` with `value` in every element; a scalar for the shape `()`.

    `value` is a number, or a tensor of one element, which is cast. Raises FractionForInteger for a float other than 0
    in an integer tile, and LiteralOutOfRange.
    """
    return _full("full", shape, value, dtype)


def _full(function: str, shape: Any, value: Any, dtype: Any) -> tensor:
    extents, element = shape_of(function, "shape", shape), element_dtype(function, "dtype", dtype)
    value = unwrap(value)
    if is_number(value) and not element.is_ptr():
        return constant(_checked(value, element), element, extents)
    return _cast(value, element, extents)


def _cast(value: Any, element: dtype, shape: tuple[int, ...]) -> tensor:
    scalar = operand("full", "value", value)
    if scalar.numel != 1:
        raise NotOneElement(function="full", found=describe(scalar), numel=scalar.numel)
    return splat(semantic.cast(item(scalar), element), shape)


def _checked(value: Number, element: dtype) -> Number:
    if not element.is_int():
        return value
    if isinstance(value, float) and value != 0.0:
        raise FractionForInteger(function="full", value=value, type=show(element))
    least, greatest = element.get_int_min_value(), element.get_int_max_value()
    if not least <= value <= greatest:
        raise LiteralOutOfRange(value=value, type=show(element), least=least, greatest=greatest)
    return value


@builtin
def zeros(shape: Any, dtype: Any) -> tensor:
    """A tile of `shape` with zeros; a scalar for the shape `()`."""
    return _full("zeros", shape, 0, dtype)


@builtin
def zeros_like(input: Any) -> tensor:
    """Zeros of the shape and dtype of a tensor."""
    x = operand("zeros_like", "input", input)
    return _full("zeros_like", x.shape, 0, x.dtype)


@builtin
def to_tensor(x: Any) -> tensor:
    """A number as a runtime scalar: bool gives int1, an int the first of int32, uint32, int64 and uint64 that holds
    it, a float float32 (float64 where that would lose its magnitude). A tensor stays as it is."""
    return operand("to_tensor", "x", x)


@member
def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    """`input` converted to `dtype`; with `bitcast` its bits under that type, which has the same width.

    Integers narrow to their low bits and widen by their sign; a number to int1 is `!= 0`; a float to an integer
    truncates toward zero, clamps to the range, and gives 0 for NaN; all else rounds to nearest even, once, and 8-bit
    floats saturate. A float to a narrower one may round toward zero: `fp_downcast_rounding="rtz"` ("rtne" is the
    default). Integers and 8-bit floats convert into each other as with any float. Pointers convert to int64, int1
    (non-null) and other pointers. Raises CannotCast, BitcastWidths, RoundingNotAllowed, BadChoice.
    """
    x, target = operand("cast", "input", input), element_dtype("cast", "dtype", dtype)
    rounding = unwrap(fp_downcast_rounding)
    if rounding is not None:
        rounding = choice("cast", "fp_downcast_rounding", rounding, ROUNDINGS)
    return semantic.cast(x, target, rounding, flag("cast", "bitcast", bitcast))


@member
def to(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    """`cast` as a method: `x.to(tl.float16)`."""
    return cast(input, dtype, fp_downcast_rounding, bitcast)
