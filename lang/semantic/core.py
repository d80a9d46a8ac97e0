"""The steps that every operation takes: literals become values, shapes are brought together, one IR op is made."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from ..constants import unwrap
from ..context import current
from ..dtypes import dtype, float32, ir_scalar
from ..errors.operations import BadOperand, CannotBroadcast, IncompatibleShapes
from ..ir import Value
from ..opdef import OpDef
from ..ops.shape import BROADCAST, CONSTANT, EXPAND_DIMS, SPLAT
from ..promotion import Number, is_number, literal_type
from ..types import with_shape
from ..values import describe, tensor
from .casts import cast_tensor

#: Integers up to this magnitude are floats exactly.
EXACT_INTEGERS = 2**53


def emit(row: OpDef, operands: Sequence[tensor], result: dtype, **attributes: Any) -> tensor:
    """One elementwise op whose result has the shape of the first operand and elements of `result`."""
    type_ = with_shape(ir_scalar(result), operands[0].shape)
    return tensor(current().value(row, [x.handle for x in operands], attributes, type_), result)


def reshaped(row: OpDef, x: tensor, **attributes: Any) -> tensor:
    """One op that moves elements: the dtype stays, the row says the shape."""
    return tensor(current().value(row, [x.handle], attributes), x.dtype)


def constant(value: Number, type_: dtype, shape: Sequence[int] = ()) -> tensor:
    """A number as a value of `type_`: rounded once for float types. Integers must fit (the row checks)."""
    scalar = ir_scalar(type_)
    if type_.is_floating():
        if isinstance(value, int) and abs(value) > EXACT_INTEGERS:  # float(value) would round a first time
            return cast_tensor(constant(value, literal_type(value), shape), type_)
        plain: int | float = float(value)
    else:
        plain = int(value)
    handle: Value = current().value(CONSTANT, (), {"value": plain}, with_shape(scalar, shape))
    return tensor(handle, type_)


def to_tensor(x: Any, function: str = "this operation") -> tensor:
    """A number as a runtime scalar by the literal rule; a tensor as it is. Raises BadOperand for anything else."""
    x = unwrap(x)
    if isinstance(x, tensor):
        return x
    if is_number(x):
        return constant(x, literal_type(x))
    raise BadOperand(function=function, found=describe(x), expected="a tensor or a number", hint="")


def is_operand(x: object) -> bool:
    """Whether `to_tensor` takes it."""
    return isinstance(x, tensor) or is_number(x)


def element_type(x: tensor | Number) -> dtype | Number:
    """An operand as `promotion.promote` wants it: the dtype of a tensor, a number as it is."""
    return x.dtype if isinstance(x, tensor) else x


def fit(x: tensor | Number, type_: dtype, shape: Sequence[int] | None = None) -> tensor:
    """An operand in the type that promotion found; a number directly, as a tile of `shape` where one is given."""
    if isinstance(x, tensor):
        return cast_tensor(x, type_)
    return constant(x, type_, () if shape is None else shape)


def convert(x: tensor | Number, type_: dtype, shape: Sequence[int]) -> tensor:
    """An operand cast to `type_` (as `x.to` would) and, if it is a scalar, splat to `shape`: for stores and fills."""
    if is_number(x) and _casts_exactly(x, type_):
        return constant(x, type_, shape)
    value = cast_tensor(to_tensor(x), type_)
    return splat(value, shape) if not value.shape else value


def _casts_exactly(number: Number, type_: dtype) -> bool:
    """Whether the literal's own type holds it exactly or the cast does not change it, so that one constant will do."""
    if type_.is_int():
        return isinstance(number, int) and type_.get_int_min_value() <= number <= type_.get_int_max_value()
    if type_.is_ptr():
        return False
    if isinstance(number, int) or not math.isfinite(number) or literal_type(number) != float32:
        return True
    return type_ == float32 or struct.unpack("<f", struct.pack("<f", number))[0] == number


def splat(x: tensor, shape: Sequence[int]) -> tensor:
    """A scalar in every element of a tile; the scalar itself for the empty shape."""
    return reshaped(SPLAT, x, shape=tuple(shape)) if shape else x


def add_dimension(x: tensor, axis: int) -> tensor:
    """A new extent of 1 at `axis`, which is in range."""
    return reshaped(EXPAND_DIMS, x, axis=axis)


def broadcast_to(x: tensor, shape: Sequence[int], function: str = "broadcast_to") -> tensor:
    """A scalar splat, or a tile of the same rank stretched, to `shape`. Raises CannotBroadcast."""
    target = tuple(shape)
    if x.shape == target:
        return x
    if not x.shape:
        return splat(x, target)
    rank = len(x.shape)
    if rank != len(target):
        raise CannotBroadcast(
            function=function, shape=x.shape, target=target, expected=f"a shape of rank {rank}, as the tile has"
        )
    if any(old not in (1, new) for old, new in zip(x.shape, target, strict=True)):
        raise CannotBroadcast(
            function=function, shape=x.shape, target=target, expected="each extent equal to the tile's, or the tile's 1"
        )
    return reshaped(BROADCAST, x, shape=target)


def common_shape(function: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that operands of these shapes broadcast to. Raises IncompatibleShapes."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[int] = []
    for axis, extents in enumerate(zip(*padded, strict=True)):
        widest = max(extents)
        for extent in extents:
            if extent not in (1, widest):
                first, second = sorted((extents.index(extent), extents.index(widest)))
                a, b = tuple(shapes[first]), tuple(shapes[second])
                x, y = extents[first], extents[second]
                raise IncompatibleShapes(function=function, a=a, b=b, axis=axis, x=x, y=y)
        result.append(widest)
    return tuple(result)


def stretch(x: tensor, shape: Sequence[int]) -> tensor:
    """`x` at a shape that `common_shape` found: dimensions added on the left, then broadcast."""
    if x.shape:
        for _ in range(len(shape) - len(x.shape)):
            x = add_dimension(x, 0)
    return broadcast_to(x, shape)


def together(function: str, *operands: tensor) -> list[tensor]:
    """The operands broadcast to their common shape. Raises IncompatibleShapes."""
    shape = common_shape(function, *(x.shape for x in operands))
    return [stretch(x, shape) for x in operands]


def promoted(function: str, operands: Sequence[tensor | Number], type_: dtype) -> list[tensor]:
    """The operands in one type and broadcast to their common shape."""
    shape = common_shape(function, *(x.shape if isinstance(x, tensor) else () for x in operands))
    return [stretch(fit(x, type_, shape), shape) for x in operands]
