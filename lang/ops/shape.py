"""Making values and changing their shape. Order is row-major throughout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..opdef import Attribute, Attributes, OpDef, OpTypeError, Trait, register, traits
from ..types import (
    I32,
    INTS,
    FloatType,
    IntType,
    PointerType,
    TileType,
    Type,
    bit_width,
    element_of,
    shape_of,
    with_shape,
)
from .rules import need_one, one_shape, placed

PURE = traits(Trait.PURE)
Requested = tuple[Type, ...] | None


def _constant(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    type_ = need_one("constant", requested)
    element, value = element_of(type_), attributes["value"]
    if isinstance(element, FloatType):
        ok = isinstance(value, float)
    elif isinstance(element, IntType):
        width = element.width
        ok = isinstance(value, int) and not isinstance(value, bool) and -(1 << width - 1) <= value < 1 << width
    else:
        ok = value == 0 and not isinstance(value, float)
    if not ok:
        raise OpTypeError(f"constant {value!r} is no {element}")
    return (type_,)


def _poison(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    return (need_one("poison", requested),)


def _arange(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    start, end = attributes["start"], attributes["end"]
    if not -(2**31) <= start < end <= 2**31:
        raise OpTypeError(f"arange({start}, {end}): the range must be ascending and fit i32")
    return placed(requested, TileType((end - start,), I32))


def _i32(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    return (I32,)


def _splat(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    if isinstance(types[0], TileType):
        raise OpTypeError(f"splat takes a scalar, not {types[0]}")
    return placed(requested, with_shape(types[0], attributes["shape"]))


def _broadcast(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    old, new = shape_of(types[0]), attributes["shape"]
    if not old or len(old) != len(new) or any(a not in (1, b) for a, b in zip(old, new, strict=True)):
        raise OpTypeError(f"broadcast: {types[0]} does not stretch to {new}")
    return placed(requested, with_shape(element_of(types[0]), new))


def _expand_dims(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    shape, axis = shape_of(types[0]), attributes["axis"]
    if not 0 <= axis <= len(shape):
        raise OpTypeError(f"expand_dims: axis {axis} of {types[0]}")
    return placed(requested, with_shape(element_of(types[0]), (*shape[:axis], 1, *shape[axis:])))


def _reshape(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    result = with_shape(element_of(types[0]), attributes["shape"])
    count = 1
    for extent in attributes["shape"]:
        count *= extent
    have = types[0].numel if isinstance(types[0], TileType) else 1
    if count != have:
        raise OpTypeError(f"reshape: {types[0]} has {have} elements, {attributes['shape']} has {count}")
    return placed(requested, result)


def _permute(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    shape = shape_of(types[0])
    order: tuple[int, ...] = attributes["order"]
    if sorted(order) != list(range(len(shape))):
        raise OpTypeError(f"permute: {order} does not permute the dimensions of {types[0]}")
    return placed(requested, with_shape(element_of(types[0]), [shape[axis] for axis in order]))


def _join(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    if element_of(types[0]) != element_of(types[1]):
        raise OpTypeError(f"join: {types[0]} and {types[1]} differ in element type")
    return placed(requested, with_shape(element_of(types[0]), (*one_shape("join", types), 2)))


def _split(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    shape = shape_of(types[0])
    if not shape or shape[-1] != 2:
        raise OpTypeError(f"split: the last dimension of {types[0]} must be 2")
    half = with_shape(element_of(types[0]), shape[:-1])
    return placed(requested, half, half)


def _add_ptr(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    one_shape("add_ptr", types)
    offset = element_of(types[1])
    if not isinstance(element_of(types[0]), PointerType) or offset not in INTS or bit_width(offset) < 8:
        raise OpTypeError(f"add_ptr takes a pointer and an integer, not {types[0]} and {types[1]}")
    return (types[0],)


def _same(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    return (types[0],)


def _row(name: str, operands: str, rule: Any, doc: str, *attributes: Attribute) -> OpDef:
    return register(OpDef(name, tuple(operands.split()), rule, doc, attributes, traits=PURE))


SHAPE = Attribute("shape", tuple)

CONSTANT = _row(
    "constant",
    "",
    _constant,
    "A literal, of a scalar type or in every element of a tile.",
    Attribute("value", int | float),
)
POISON = _row("poison", "", _poison, "A value that nothing may depend on; the executor gives zeros.")
ARANGE = _row(
    "arange",
    "",
    _arange,
    "The i32 tile start, start + 1, ..., end - 1.",
    Attribute("start", int),
    Attribute("end", int),
)
PROGRAM_ID = _row(
    "program_id", "", _i32, "This program's index along a grid axis.", Attribute("axis", int, choices=(0, 1, 2))
)
NUM_PROGRAMS = _row(
    "num_programs", "", _i32, "The grid's extent along an axis.", Attribute("axis", int, choices=(0, 1, 2))
)
SPLAT = _row("splat", "a", _splat, "A tile with the scalar in every element.", SHAPE)
BROADCAST = _row("broadcast", "a", _broadcast, "Extents of 1 stretched to the shape's.", SHAPE)
EXPAND_DIMS = _row("expand_dims", "a", _expand_dims, "A new extent of 1 at the axis.", Attribute("axis", int))
RESHAPE = _row("reshape", "a", _reshape, "The same elements in the same row-major order, in another shape.", SHAPE)
PERMUTE = _row(
    "permute", "a", _permute, "Dimension i of the result is dimension order[i] of a.", Attribute("order", tuple)
)
JOIN = _row("join", "a b", _join, "a and b side by side along a new last dimension of 2.")
SPLIT = _row("split", "a", _split, "The two halves along the last dimension of 2, which goes.")
ADD_PTR = _row(
    "add_ptr",
    "pointer offset",
    _add_ptr,
    "The address of element `offset` (signed) after the pointer; an i1 steps one byte.",
)
HINT = _row(
    "hint", "a", _same,
    "a, with the promise that its elements are multiples of `divisibility`, in runs of `contiguity`, constant in runs of `constancy` (one number a dimension, () for no promise).",
    Attribute("divisibility", tuple, ()), Attribute("contiguity", tuple, ()), Attribute("constancy", tuple, ()),
)  # fmt: skip
