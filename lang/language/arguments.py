"""Checks of the arguments of `tl` functions. Each names the function and the argument in its error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..constants import unwrap
from ..dtypes import check_shape, dtype, show
from ..errors.operations import (
    BadArgumentKind,
    BadAxis,
    BadChoice,
    BadOperand,
    DuplicateAxis,
    NeedsConstexpr,
)
from ..promotion import Number
from ..semantic.core import is_operand, to_tensor
from ..values import describe, tensor


def number_or_tensor(function: str, argument: str, value: Any) -> tensor | Number:
    """A tensor or a number, as it is. Raises BadArgumentKind."""
    value = unwrap(value)
    if not is_operand(value):
        raise BadArgumentKind(
            function=function, argument=argument, found=describe(value), expected="a tensor or a number"
        )
    return value


def operand(function: str, argument: str, value: Any) -> tensor:
    """A tensor, or a number by the literal rule. Raises BadArgumentKind."""
    return to_tensor(number_or_tensor(function, argument, value))


def tile(function: str, argument: str, value: Any) -> tensor:
    """A tensor. Raises BadArgumentKind."""
    if not isinstance(value, tensor):
        raise BadArgumentKind(function=function, argument=argument, found=describe(value), expected="a tensor")
    return value


def _known(function: str, argument: str, value: Any, kind: type | tuple[type, ...], expected: str) -> Any:
    value = unwrap(value)
    if isinstance(value, tensor):
        raise NeedsConstexpr(function=function, argument=argument, found=describe(value), expected=expected)
    if not isinstance(value, kind):
        raise BadArgumentKind(function=function, argument=argument, found=describe(value), expected=expected)
    return value


def integer(function: str, argument: str, value: Any, expected: str = "an integer known at compile time") -> int:
    """A compile-time integer. Raises NeedsConstexpr, BadArgumentKind."""
    number = _known(function, argument, value, int, expected)
    if isinstance(number, bool):
        raise BadArgumentKind(function=function, argument=argument, found=describe(number), expected=expected)
    return number


def flag(function: str, argument: str, value: Any) -> bool:
    """A compile-time bool (or 0 or 1). Raises NeedsConstexpr, BadArgumentKind."""
    return bool(_known(function, argument, value, (bool, int), "True or False, known at compile time"))


def integers(function: str, argument: str, values: Any) -> tuple[int, ...]:
    """A tuple of compile-time integers; one integer stands for a tuple of one.

    Raises NeedsConstexpr, BadArgumentKind.
    """
    expected = "integers known at compile time"
    given = unwrap(values)
    if not isinstance(given, tuple | list):
        return (integer(function, argument, given, expected),)
    return tuple(integer(function, argument, each, expected) for each in cast("Sequence[Any]", given))


def spread(values: tuple[Any, ...]) -> Any:
    """What `f(x, 4, 8)` and `f(x, (4, 8))` both mean: the values, or the one tuple."""
    return unwrap(values[0]) if len(values) == 1 else values


def shape_of(function: str, argument: str, values: Any) -> tuple[int, ...]:
    """A shape. Raises NeedsConstexpr, BadArgumentKind, NotPowerOfTwo, TileTooLarge."""
    return check_shape(integers(function, argument, values))


def element_dtype(function: str, argument: str, value: Any) -> dtype:
    """A number or pointer type. Raises BadArgumentKind."""
    value = unwrap(value)
    if not isinstance(value, dtype) or value.is_block() or value.is_void():
        raise BadArgumentKind(
            function=function, argument=argument, found=describe(value), expected="a type such as tl.float32"
        )
    return value


def choice(function: str, argument: str, value: Any, choices: Sequence[str]) -> str:
    """One of some words known at compile time; None for the empty one. Raises BadChoice, NeedsConstexpr."""
    word: Any = unwrap(value)
    if isinstance(word, tensor):
        raise NeedsConstexpr(function=function, argument=argument, found=describe(word), expected="a string")
    if word is None and "" in choices:
        return ""
    if word not in choices:
        raise BadChoice(function=function, argument=argument, value=word, choices=", ".join(map(repr, choices)))
    return cast("str", word)


def axis_of(function: str, value: Any, rank: int, owner: str = "a tile") -> int:
    """An axis of a tile of this rank, counted from the front; negative ones count from the end. Raises BadAxis.

    `owner` is what messages call the tile.
    """
    axis = integer(function, "axis", value)
    if not -rank <= axis < rank:
        expected = f"an axis from {-rank} to {rank - 1}" if rank else "a tile: a scalar has no axes"
        raise BadAxis(function=function, owner=owner, axis=axis, rank=rank, expected=expected)
    return axis % rank


def axes_of(function: str, values: Any, rank: int, owner: str = "a tile") -> tuple[int, ...]:
    """Several axes, sorted. Raises BadAxis, DuplicateAxis."""
    given = integers(function, "axis", values)
    axes = [axis_of(function, value, rank, owner) for value in given]
    for axis in axes:
        if axes.count(axis) > 1:
            raise DuplicateAxis(function=function, axis=axis, axes=given)
    return tuple(sorted(axes))


def typed(function: str, x: tensor, admitted: Sequence[dtype], hint: str = "") -> tensor:
    """A tensor of one of some types. Raises BadOperand."""
    if x.dtype not in admitted:
        names = [show(each) for each in admitted]
        expected = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
        raise BadOperand(function=function, found=describe(x), expected=expected, hint=hint)
    return x


def is_given(value: Any) -> bool:
    """Whether an optional argument says anything: it is not None, `()` or `""`."""
    value = unwrap(value)
    return isinstance(value, tensor) or value not in (None, (), "")
