"""The shape of tiles: broadcasting, new and dropped dimensions, reshapes, permutations, joining and splitting."""

from __future__ import annotations

from math import prod
from typing import Any, cast

from .. import semantic
from ..context import current
from ..errors.operations import (
    BadArgumentKind,
    BadAxis,
    BadNumel,
    BadPermutation,
    BadSubscript,
    CannotBroadcast,
    MismatchedTypes,
    NotOneElement,
    NotSplittable,
    TooManySubscripts,
)
from ..ops.shape import JOIN, PERMUTE, RESHAPE, SPLIT
from ..semantic.core import add_dimension, reshaped
from ..values import OPERATORS, describe, tensor
from .arguments import axes_of, axis_of, integers, operand, shape_of, spread, tile
from .builtin import builtin, member


@builtin
def broadcast(input: Any, other: Any) -> tuple[tensor, tensor]:
    """Both tensors at the shape that they broadcast to. Raises IncompatibleShapes."""
    a, b = operand("broadcast", "input", input), operand("broadcast", "other", other)
    x, y = semantic.together("broadcast", a, b)
    return x, y


@member
def broadcast_to(input: Any, *shape: Any) -> tensor:
    """A scalar in every element of `shape`, or a tile of the same rank with its extents of 1 stretched.

    The shape is a tuple or several integers, known at compile time. Raises CannotBroadcast.
    """
    target = shape_of("broadcast_to", "shape", spread(shape))
    return semantic.broadcast_to(operand("broadcast_to", "input", input), target)


@member
def expand_dims(input: Any, axis: Any) -> tensor:
    """New extents of 1 where `axis` (an integer or several) says, counted in the result.

    Raises BadAxis, DuplicateAxis.
    """
    x = operand("expand_dims", "input", input)
    count = len(integers("expand_dims", "axis", axis))
    for each in axes_of("expand_dims", axis, len(x.shape) + count, "a result"):
        x = add_dimension(x, each)
    return x


@member
def unsqueeze(input: Any, dim: Any) -> tensor:
    """A new extent of 1 at `dim`: `expand_dims` under the name that PyTorch uses."""
    return expand_dims(input, dim)


@member
def squeeze(input: Any, dim: Any) -> tensor:
    """The tile without dimension `dim`, whose extent is 1. Raises BadAxis, BadArgumentKind."""
    x = operand("squeeze", "input", input)
    axis = axis_of("squeeze", dim, len(x.shape))
    if x.shape[axis] != 1:
        found = f"a dimension of extent {x.shape[axis]}"
        raise BadArgumentKind(function="squeeze", argument="dim", found=found, expected="a dimension of extent 1")
    return reshaped(RESHAPE, x, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


@member
def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> tensor:
    """The same elements in row-major order in another shape; one element as a scalar for the shape `()`.

    The shape is a tuple or several integers, known at compile time. `can_reorder` permits another order, of which no
    use is made. Raises BadNumel.
    """
    return _reshape("reshape", input, spread(shape))


@member
def view(input: Any, *shape: Any) -> tensor:
    """`reshape` under an older name."""
    return _reshape("view", input, spread(shape))


@member
def ravel(input: Any, can_reorder: Any = False) -> tensor:
    """All elements in row-major order in one dimension."""
    x = operand("ravel", "input", input)
    return _reshape("ravel", x, (x.numel,))


def _reshape(function: str, input: Any, shape: Any) -> tensor:
    x, target = operand(function, "input", input), shape_of(function, "shape", shape)
    if prod(target) != x.numel:
        raise BadNumel(function=function, shape=x.shape, have=x.numel, target=target, count=prod(target))
    return x if x.shape == target else reshaped(RESHAPE, x, shape=target)


@member
def item(input: Any) -> tensor:
    """The only element of a tensor, as a scalar. Raises NotOneElement."""
    x = operand("item", "input", input)
    if x.numel != 1:
        raise NotOneElement(function="item", found=describe(x), numel=x.numel)
    return reshaped(RESHAPE, x, shape=()) if x.shape else x


@member
def permute(input: Any, *dims: Any) -> tensor:
    """The dimensions in another order: dimension i of the result is dimension `dims[i]` of the input.

    `dims` is a tuple or several integers, known at compile time. Raises BadPermutation.
    """
    return _permute("permute", tile("permute", "input", input), spread(dims))


@member
def trans(input: Any, *dims: Any) -> tensor:
    """`permute`, which swaps the last two dimensions when no order is given. Raises BadAxis, BadPermutation."""
    x = tile("trans", "input", input)
    if dims:
        return _permute("trans", x, spread(dims))
    rank = len(x.shape)
    if rank < 2:
        raise BadAxis(function="trans", owner="a tile", axis=-2, rank=rank, expected="a tile of rank 2 or more")
    return _permute("trans", x, (*range(rank - 2), rank - 1, rank - 2))


def _permute(function: str, x: tensor, dims: Any) -> tensor:
    order, rank = integers(function, "dims", dims), len(x.shape)
    axes = tuple(axis + rank if axis < 0 else axis for axis in order)
    if sorted(axes) != list(range(rank)):
        raise BadPermutation(function=function, order=order, shape=x.shape, last=rank - 1)
    return reshaped(PERMUTE, x, order=axes)


@builtin
def join(a: Any, b: Any) -> tensor:
    """Both tensors side by side along a new last dimension of 2; they broadcast first, and have one dtype.

    Raises IncompatibleShapes, MismatchedTypes.
    """
    return _join("join", a, b)


def _join(function: str, a: Any, b: Any) -> tensor:
    first, second = operand(function, "a", a), operand(function, "b", b)
    if first.dtype != second.dtype:
        raise MismatchedTypes(function=function, a=describe(first), b=describe(second), expected="tensors of one dtype")
    x, y = semantic.together(function, first, second)
    return tensor(current().value(JOIN, [x.handle, y.handle]), x.dtype)


@member
def split(a: Any) -> tuple[tensor, tensor]:
    """The two halves along the last dimension, which has extent 2 and goes; of a tile of rank 1 two scalars.

    Raises NotSplittable.
    """
    x = tile("split", "a", a)
    if not x.shape or x.shape[-1] != 2:
        raise NotSplittable(found=describe(x))
    first, second = current().create(SPLIT, [x.handle]).results
    return tensor(first, x.dtype), tensor(second, x.dtype)


@builtin
def interleave(a: Any, b: Any) -> tensor:
    """The elements of two tensors in turn along the last dimension, which doubles; they broadcast first.

    Raises IncompatibleShapes, MismatchedTypes.
    """
    joined = _join("interleave", a, b)
    *front, extent, two = (1, *joined.shape)
    return _reshape("interleave", joined, (*front[1:], extent * two))


@builtin
def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> tensor:
    """Two tiles of one shape and dtype one after the other along `dim`, in order.

    `can_reorder` permits another order, of which no use is made. Raises BadAxis, CannotBroadcast, MismatchedTypes.
    """
    a, b = tile("cat", "input", input), tile("cat", "other", other)
    if a.shape != b.shape:
        raise CannotBroadcast(function="cat", shape=a.shape, target=b.shape, expected="tiles of one shape")
    axis, rank = axis_of("cat", dim, len(a.shape)), len(a.shape)
    pair = _permute("cat", _join("cat", a, b), (*range(axis), rank, *range(axis, rank)))
    return _reshape("cat", pair, (*a.shape[:axis], 2 * a.shape[axis], *a.shape[axis + 1 :]))


def subscript(x: tensor, index: Any) -> tensor:
    """`x[:, None]`: `:` keeps a dimension, `None` adds one of extent 1; dimensions not named stay at the end.

    Raises BadSubscript, TooManySubscripts.
    """
    entries = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
    for entry in entries:
        if entry is not None and not (isinstance(entry, slice) and entry == slice(None)):
            raise BadSubscript(owner=describe(x), found=_show_subscript(entry), hint=_instead_of_index(x, entry))
    kept = sum(entry is not None for entry in entries)
    if kept > len(x.shape):
        raise TooManySubscripts(count=kept, rank=len(x.shape))
    for axis, entry in enumerate(entries):
        if entry is None:
            x = add_dimension(x, axis)
    return x


def _instead_of_index(x: tensor, entry: Any) -> str:
    if not x.dtype.is_ptr():
        return "load through a pointer with an offset, or select with `tl.where` and `tl.sum`"
    offset = entry if isinstance(entry, int) else "offset"
    return f"load the element: `tl.load(pointer + {offset})`"


def _show_subscript(entry: Any) -> str:
    bounds = entry
    if not isinstance(entry, slice):
        return describe(entry)
    parts: tuple[Any, ...] = (bounds.start, bounds.stop, bounds.step)
    start, stop, step = ("" if part is None else part if isinstance(part, int) else describe(part) for part in parts)
    return f"`{start}:{stop}{'' if step == '' else f':{step}'}`"


OPERATORS["[]"] = subscript
