"""Block pointers: a window on an array in memory, known to the frontend only; loads and stores expand it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..constants import unwrap
from ..context import current
from ..dtypes import int32, int64, pointer_type, show
from ..errors.memory import BlockPointerArgument, NanForIntegers, NotAPointer
from ..ops.shape import ARANGE
from ..semantic import binary, compare, logical_and
from ..semantic.casts import cast_tensor
from ..semantic.core import add_dimension, constant, stretch
from ..values import MEMBERS, describe, tensor
from .arguments import axes_of, choice, is_given, shape_of
from .builtin import builtin

#: A size of the array: a number, or a scalar int64 tensor.
Size = tensor | int
PADDINGS = ("", "zero", "nan")


@dataclass(frozen=True, slots=True, eq=False)
class block_pointer:
    """A window of `block_shape` at `offsets` on an array of `shape` at `base`, whose dimensions step by `strides`.

    Offsets are int32 scalars; addresses are computed in int64. `order` names the dimensions from the fastest in memory
    to the slowest: advice, without meaning.
    """

    base: tensor
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offsets: tuple[tensor, ...]
    block_shape: tuple[int, ...]
    order: tuple[int, ...]

    def parts(self) -> tuple[Any, ...]:
        """The values that control flow carries."""
        return (self.base, self.shape, self.strides, self.offsets, self.block_shape, self.order)

    def __str__(self) -> str:
        """What messages call it: all that is known at compile time, and `?` for the rest."""
        pointer = cast("pointer_type", self.base.dtype)
        tile = f"{'const ' if pointer.const else ''}block pointer to {show(pointer.element_ty)} tiles"
        facts = f"array of shape {_known(self.shape)}, strides {_known(self.strides)}, order {self.order}"
        return f"a {tile} of shape {self.block_shape} ({facts})"

    def advance(self, *offsets: Any) -> block_pointer:
        """`tl.advance` as a method."""
        return advance(self, offsets[0] if len(offsets) == 1 else offsets)


@builtin
def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> block_pointer:
    """A window on an array: for `load`, `store` and `advance`.

    `base` is a scalar pointer; `shape`, `strides` (in elements) and `offsets` are tuples of integers, one a dimension;
    `block_shape` is the tile's shape and `order` the dimensions from the fastest in memory to the slowest, both known
    at compile time. Raises NotAPointer, BlockPointerArgument, NotPowerOfTwo, TileTooLarge.
    """
    function = "make_block_ptr"
    if not isinstance(base, tensor) or base.shape or not base.dtype.is_ptr():
        raise NotAPointer(function=function, found=describe(base))
    window = shape_of(function, "block_shape", block_shape)
    rank = len(window)
    axes = axes_of(function, order, rank)
    if len(axes) != rank:
        raise BlockPointerArgument(
            function=function, problem=f"`order` names {len(axes)} of {rank} dimensions", expected="each dimension once"
        )
    sizes = tuple(_size("shape", each) for each in _each(function, "shape", shape, rank))
    steps = tuple(_size("strides", each) for each in _each(function, "strides", strides, rank))
    starts = tuple(_offset(function, each) for each in _each(function, "offsets", offsets, rank))
    return block_pointer(base, sizes, steps, starts, window, tuple(cast("Sequence[int]", order)))


@builtin
def advance(base: Any, offsets: Any) -> block_pointer:
    """A block pointer moved by `offsets` elements, one a dimension. Raises BlockPointerArgument."""
    if not isinstance(base, block_pointer):
        raise BlockPointerArgument(
            function="advance", problem=f"`base` is {describe(base)}", expected="what make_block_ptr made"
        )
    steps = _each("advance", "offsets", offsets, len(base.block_shape))
    moved = tuple(
        start if isinstance(step, int) and step == 0 else binary("+", start, _offset("advance", step))
        for start, step in zip(base.offsets, steps, strict=True)
    )
    return block_pointer(base.base, base.shape, base.strides, moved, base.block_shape, base.order)


def _each(function: str, argument: str, values: Any, rank: int) -> tuple[Any, ...]:
    given = unwrap(values)
    found = tuple(map(unwrap, cast("Sequence[Any]", given))) if isinstance(given, tuple | list) else (given,)
    if len(found) != rank:
        raise BlockPointerArgument(
            function=function,
            problem=f"`{argument}` has {len(found)} entries for a block of rank {rank}",
            expected=f"one integer a dimension ({rank})",
        )
    for each in found:
        scalar = isinstance(each, tensor) and not each.shape and each.dtype.is_int()
        if not scalar and (not isinstance(each, int) or isinstance(each, bool)):
            raise BlockPointerArgument(
                function=function, problem=f"an entry of `{argument}` is {describe(each)}", expected="scalar integers"
            )
    return found


def _known(sizes: tuple[Size, ...]) -> str:
    return f"({', '.join('?' if isinstance(size, tensor) else str(size) for size in sizes)})"


def _size(argument: str, value: tensor | int) -> Size:
    return cast_tensor(value, int64) if isinstance(value, tensor) else value


def _offset(function: str, value: tensor | int) -> tensor:
    if not isinstance(value, tensor):
        if not int32.get_int_min_value() <= value <= int32.get_int_max_value():
            raise BlockPointerArgument(function=function, problem=f"the offset {value}", expected="offsets in int32")
        return constant(value, int32)
    if value.dtype.primitive_bitwidth > 32:
        raise BlockPointerArgument(
            function=function, problem=f"an offset is {describe(value)}", expected="integers of at most 32 bits"
        )
    return cast_tensor(value, int32)


@dataclass(frozen=True, slots=True)
class Expansion:
    """A block pointer as a tile of pointers, and the mask of what lies in the array (None where nothing is checked)."""

    pointers: tensor
    mask: tensor | None


def expand(function: str, block: block_pointer, boundary_check: Any) -> Expansion:
    """The tile of pointers of a block pointer, masked along the dimensions of `boundary_check`."""
    rank, shape = len(block.block_shape), block.block_shape
    checked = axes_of(function, boundary_check, rank) if is_given(boundary_check) else ()
    offset: tensor | None = None
    mask: tensor | None = None
    for axis in range(rank):
        index = _indices(block, axis)
        step = block.strides[axis]
        scaled = index if isinstance(step, int) and step == 1 else binary("*", index, step)
        spread = _along(scaled, axis, rank)
        offset = spread if offset is None else binary("+", offset, spread)
        if axis in checked:
            low, high = compare(">=", index, 0), compare("<", index, block.shape[axis])
            inside = _along(logical_and(low, high), axis, rank)
            mask = inside if mask is None else logical_and(mask, inside)
    pointers = block.base if offset is None else binary("+", block.base, offset)
    return Expansion(pointers, None if mask is None else stretch(mask, shape))


def _indices(block: block_pointer, axis: int) -> tensor:
    """The int64 indices of the window along one dimension."""
    extent = block.block_shape[axis]
    steps = tensor(current().value(ARANGE, (), {"start": 0, "end": extent}), int32)
    start = cast_tensor(block.offsets[axis], int64)
    return binary("+", start, cast_tensor(steps, int64))


def _along(x: tensor, axis: int, rank: int) -> tensor:
    """A tile of rank 1 as dimension `axis` of a tile of rank `rank`, 1 elsewhere."""
    for _ in range(axis):
        x = add_dimension(x, 0)
    for after in range(axis + 1, rank):
        x = add_dimension(x, after)
    return x


def padding(block: block_pointer, option: Any) -> float | None:
    """What fills the lanes outside: 0, NaN or nothing in particular. Raises BadChoice, NanForIntegers."""
    word = choice("load", "padding_option", option, PADDINGS)
    pointer = block.base.dtype
    assert isinstance(pointer, pointer_type)
    if word == "nan" and not pointer.element_ty.is_floating():
        raise NanForIntegers(found=show(pointer.element_ty))
    return {"": None, "zero": 0, "nan": float("nan")}[word]


MEMBERS["advance"] = advance
