"""Reductions of a tile along one axis, or of all its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from .. import semantic
from ..constants import unwrap
from ..context import current, current_generator
from ..dtypes import dtype, int32
from ..errors.operations import AxisNeeded, BadArgumentKind, BadOperand, IncompatibleShapes, ReduceNeedsTile
from ..frontend.function import DeviceFunction
from ..opdef import OpDef
from ..ops import reduce as rows
from ..promotion import extremum_type, sum_type
from ..semantic.core import add_dimension, reshaped, splat
from ..values import describe, tensor
from .arguments import axis_of, element_dtype, flag, tile
from .builtin import is_builtin, member
from .shape import ravel

#: The rows of a reduction for floats, signed and unsigned integers; None where it does not exist.
ROWS: dict[str, tuple[OpDef | None, OpDef, OpDef]] = {
    "sum": (rows.REDUCE_ADD_F, rows.REDUCE_ADD_I, rows.REDUCE_ADD_I),
    "max": (rows.REDUCE_MAXNUM, rows.REDUCE_MAX_S, rows.REDUCE_MAX_U),
    "min": (rows.REDUCE_MINNUM, rows.REDUCE_MIN_S, rows.REDUCE_MIN_U),
    "argmax": (rows.ARGMAX_F, rows.ARGMAX_S, rows.ARGMAX_U),
    "argmin": (rows.ARGMIN_F, rows.ARGMIN_S, rows.ARGMIN_U),
    "xor_sum": (None, rows.REDUCE_XOR, rows.REDUCE_XOR),
    "reduce_or": (None, rows.REDUCE_OR, rows.REDUCE_OR),
}


def _row(function: str, kind: str, x: tensor) -> OpDef:
    on_float, on_signed, on_unsigned = ROWS[kind]
    row = None if x.dtype.is_ptr() else on_float if x.dtype.is_floating() else on_signed
    if row is None:
        expected = "a tile of numbers" if on_float else "a tile of integers"
        raise BadOperand(function=function, found=describe(x), expected=expected, hint="")
    return on_unsigned if x.dtype.is_int_unsigned() else row


def _reducible(function: str, input: Any) -> tensor:
    x = tile(function, "input", input)
    if not x.shape:
        raise ReduceNeedsTile(function=function, found=describe(x))
    return x


def _along(function: str, x: tensor, axis: Any) -> tuple[tensor, int]:
    """The tile and the axis to reduce along: for None all elements in one dimension."""
    if axis is None:
        return ravel(x), 0
    return x, axis_of(function, axis, len(x.shape))


def _kept(x: tensor, rank: int, axis: int | None) -> tensor:
    """A reduced value with extents of 1 where it was reduced."""
    return splat(x, (1,) * rank) if axis is None else add_dimension(x, axis)


def _simple(function: str, x: tensor, axis: Any, keep_dims: Any) -> tensor:
    row = _row(function, function, x)
    source, along = _along(function, x, axis)
    result = reshaped(row, source, axis=along)
    if not flag(function, "keep_dims", keep_dims):
        return result
    return _kept(result, len(x.shape), None if axis is None else along)


@member
def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> tensor:
    """The sum along an axis, or of all elements for None, in any order.

    Integers below 32 bits add up in int32 or uint32 by their sign (bool in uint32), floats in their own type; `dtype`
    casts first instead. `keep_dims` keeps reduced dimensions with extent 1. Raises BadAxis, ReduceNeedsTile.
    """
    x = _reducible("sum", input)
    _row("sum", "sum", x)
    type_ = sum_type(x.dtype) if unwrap(dtype) is None else element_dtype("sum", "dtype", dtype)
    return _simple("sum", semantic.cast(x, type_), axis, keep_dims)


@member
def max(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The largest element along an axis, or of all for None; with `return_indices` a pair of it and its int32 index.

    NaNs lose to numbers. Without indices, types below 32 bits compare in, and give, float32 or int32 (unsigned ones
    too); with indices the type stays, an axis is needed, and of equal elements the leftmost is taken.
    Raises BadAxis, AxisNeeded, ReduceNeedsTile, BadOperand.
    """
    return _extremum("max", input, axis, return_indices, return_indices_tie_break_left, keep_dims)


@member
def min(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The smallest element along an axis, or of all for None; with `return_indices` a pair of it and its int32 index.

    Types, NaNs, ties and errors are those of `max`.
    """
    return _extremum("min", input, axis, return_indices, return_indices_tie_break_left, keep_dims)


def _extremum(function: str, input: Any, axis: Any, indices: Any, ties: Any, keep_dims: Any) -> Any:
    x = _reducible(function, input)
    if flag(function, "return_indices", indices):
        return _indexed(function, f"arg{function}", x, axis, ties, keep_dims)
    _row(function, function, x)
    return _simple(function, semantic.cast(x, extremum_type(x.dtype)), axis, keep_dims)


def _indexed(function: str, kind: str, x: tensor, axis: Any, ties: Any, keep_dims: Any) -> tuple[tensor, tensor]:
    if axis is None:
        raise AxisNeeded(function=function)
    row, along = _row(function, kind, x), axis_of(function, axis, len(x.shape))
    attributes = {"axis": along, "tie_break_left": flag(function, "tie_break_left", ties)}
    best, index = current().create(row, [x.handle], attributes).results
    value, place = tensor(best, x.dtype), tensor(index, int32)
    if flag(function, "keep_dims", keep_dims):
        return _kept(value, len(x.shape), along), _kept(place, len(x.shape), along)
    return value, place


@member
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> tensor:
    """The int32 index of the largest element along an axis; NaNs lose, of equal elements the leftmost is taken.

    Raises BadAxis, AxisNeeded, ReduceNeedsTile, BadOperand.
    """
    return _indexed("argmax", "argmax", _reducible("argmax", input), axis, tie_break_left, keep_dims)[1]


@member
def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> tensor:
    """The int32 index of the smallest element along an axis; NaNs lose, of equal elements the leftmost is taken.

    Raises BadAxis, AxisNeeded, ReduceNeedsTile, BadOperand.
    """
    return _indexed("argmin", "argmin", _reducible("argmin", input), axis, tie_break_left, keep_dims)[1]


@member
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> tensor:
    """The bitwise xor of integers along an axis, or of all for None, in their own type.

    Raises BadAxis, ReduceNeedsTile, BadOperand.
    """
    return _simple("xor_sum", _reducible("xor_sum", input), axis, keep_dims)


@member
def reduce_or(input: Any, axis: Any = None, keep_dims: Any = False) -> tensor:
    """The bitwise or of integers along an axis, or of all for None, in their own type.

    Raises BadAxis, ReduceNeedsTile, BadOperand.
    """
    return _simple("reduce_or", _reducible("reduce_or", input), axis, keep_dims)


@member
def reduce(input: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: Any = False) -> Any:
    """A tile, or a tuple of N tiles of one shape, reduced along an axis (all elements for None) by `combine_fn`.

    `combine_fn` is kernel code: it takes N accumulated and N next scalars and returns N of the same types. It must be
    associative; elements keep their order. The result has the input's form and dtypes.
    Raises BadAxis, ReduceNeedsTile, IncompatibleShapes, RegionResult, BadArgumentKind.
    """
    tiles, shape = _tiles(input)
    if not (is_builtin(combine_fn) or isinstance(combine_fn, DeviceFunction)):
        expected = "a @tilewright.jit function, or one of tl"
        raise BadArgumentKind(function="reduce", argument="combine_fn", found=describe(combine_fn), expected=expected)
    sources = [_along("reduce", each, axis) for each in tiles]
    types: list[dtype] = [each.dtype for each in tiles]
    region = current_generator().inline_region(combine_fn, [*types, *types])
    handles = [source.handle for source, _ in sources]
    made = current().create(rows.REDUCE, handles, {"axis": sources[0][1]}, regions=[region])
    results = tuple(tensor(result, type_) for result, type_ in zip(made.results, types, strict=True))
    if flag("reduce", "keep_dims", keep_dims):
        kept = None if axis is None else sources[0][1]
        results = tuple(_kept(result, len(shape), kept) for result in results)
    return results if isinstance(input, tuple | list) else results[0]


def _tiles(input: Any) -> tuple[list[tensor], tuple[int, ...]]:
    """The tiles of one reduction, and their shape."""
    given = tuple(map(unwrap, cast("Sequence[Any]", input))) if isinstance(input, tuple | list) else (input,)
    if not given:
        found, expected = "an empty tuple", "a tile, or a tuple of them"
        raise BadArgumentKind(function="reduce", argument="input", found=found, expected=expected)
    tiles = [_reducible("reduce", each) for each in given]
    for each in tiles[1:]:
        if each.shape != tiles[0].shape:
            raise _shapes_differ(tiles[0].shape, each.shape)
    return tiles, tiles[0].shape


def _shapes_differ(a: tuple[int, ...], b: tuple[int, ...]) -> IncompatibleShapes:
    pairs = list(zip(a, b, strict=False))
    axis = next((i for i, (x, y) in enumerate(pairs) if x != y), len(pairs))
    x, y = (shape[axis] if axis < len(shape) else "missing" for shape in (a, b))
    return IncompatibleShapes(function="reduce", a=a, b=b, axis=axis, x=x, y=y)
