"""What the ops mean that make values or change their shape. Affine tiles and boxes keep their form where they can."""

from __future__ import annotations

import numpy as np

from tilewright.lang import FloatType, Operation, PointerType, byte_width, element_of, shape_of

from .. import numerics
from ..batch import Batch
from ..values import Affine, Array, BatchValue, Bound, Box, compact, dense, storage, stretched
from . import lazy
from .tables import Prepare, Runner, int_attribute, tuple_attribute


def always(value: BatchValue) -> Runner:
    """The meaning of an op whose result is known beforehand."""
    return lambda batch: value


def constant(operation: Operation) -> Runner:
    """A literal in every element. An integer literal may be written signed or unsigned; a float is rounded once."""
    element, literal = element_of(operation.result.type), operation.attributes["value"]
    if isinstance(element, FloatType):
        scalar = numerics.round_to(np.array([literal], np.float64), element.name)
    else:
        dtype = storage(element)
        bits = int(literal) & ((1 << 8 * dtype.itemsize) - 1)  # type: ignore[call-overload]
        scalar = (
            np.array([bits], f"u{dtype.itemsize}").view(dtype) if dtype.kind == "i" else np.array([bits & 1], dtype)
        )
    return always(filled(scalar, shape_of(operation.result.type)))


def poison(operation: Operation) -> Runner:
    """Zeros."""
    type_ = operation.result.type
    return always(filled(np.zeros(1, storage(element_of(type_))), shape_of(type_)))


def filled(scalars: Array, shape: tuple[int, ...]) -> BatchValue:
    """A tile with one value a program in every element."""
    if not shape:
        return scalars
    if scalars.dtype.kind == "i":
        return lazy.constant_tile(scalars, shape)
    if scalars.dtype.kind == "b":
        return lazy.constant_box(scalars, shape)
    return np.broadcast_to(scalars.reshape(-1, *(1,) * len(shape)), (len(scalars), *shape))


def arange(operation: Operation) -> Runner:
    """start, start + 1, ..., end - 1 as i32."""
    start, end = int_attribute(operation, "start"), int_attribute(operation, "end")
    return always(Affine(np.array([start]), (1,), (end - start,), np.dtype(np.int32), start, start))


def program_id(operation: Operation) -> Runner:
    """This program's index along a grid axis."""
    axis = int_attribute(operation, "axis")
    return lambda batch: batch.program_id(axis)


def num_programs(operation: Operation) -> Runner:
    """The grid's extent along an axis."""
    axis = int_attribute(operation, "axis")
    return lambda batch: np.array([batch.grid[axis]], np.int32)


def splat(operation: Operation) -> Runner:
    """A tile with the scalar in every element."""
    shape = shape_of(operation.result.type)
    return lambda batch, a: filled(dense(a), shape)


def broadcast(operation: Operation) -> Runner:
    """Extents of 1 stretched."""
    shape = shape_of(operation.result.type)

    def run(batch: Batch, a: BatchValue) -> BatchValue:
        if isinstance(a, Affine):
            strides = tuple(s if e == f else 0 for s, e, f in zip(a.strides, a.shape, shape, strict=True))
            return Affine(a.base, strides, shape, a.dtype, a.low, a.high)
        if isinstance(a, Box):
            return Box(
                tuple(_stretched_bound(b, e, f) for b, e, f in zip(a.bounds, a.shape, shape, strict=True)), shape
            )
        return stretched(a, shape)

    return run


def _stretched_bound(bound: Bound, old: int, new: int) -> Bound:
    """The bound of a dimension of extent `old`, 1 or the same, in one of extent `new`: of one element, all or none."""
    if bound is None or old == new:
        return bound
    lo, hi = bound
    return np.zeros(1, np.int64), np.where(lo < hi, np.int64(new), np.int64(0))


def expand_dims(operation: Operation) -> Runner:
    """A new extent of 1 at the axis."""
    shape, axis = shape_of(operation.result.type), int_attribute(operation, "axis")

    def run(batch: Batch, a: BatchValue) -> BatchValue:
        if isinstance(a, Affine):
            return Affine(a.base, (*a.strides[:axis], 0, *a.strides[axis:]), shape, a.dtype, a.low, a.high)
        if isinstance(a, Box):
            return Box((*a.bounds[:axis], None, *a.bounds[axis:]), shape)
        return np.expand_dims(a, axis + 1)

    return run


def reshape(operation: Operation) -> Runner:
    """The same elements in the same row-major order."""
    old, new = shape_of(operation.operands[0].type), shape_of(operation.result.type)

    def run(batch: Batch, a: BatchValue) -> BatchValue:
        if isinstance(a, Affine) and new:
            strides = reshaped_strides(a.strides, old, new)
            if strides is not None:
                return Affine(a.base, strides, new, a.dtype, a.low, a.high)
        values = dense(a)
        if values.size > len(values) and not any(values.strides[1:]):
            return stretched(compact(values).reshape(-1, *(1,) * len(new)), new)
        return values.reshape(-1, *new)

    return run


def reshaped_strides(strides: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides of an affine tile after a reshape; None when it is no longer affine.

    Walks both shapes from the last dimension: as long as the elements stand a fixed step apart, they may be cut up at
    will; where the step changes, the new shape must begin a dimension too.
    """
    pending = [(e, s) for e, s in zip(old, strides, strict=True) if e > 1]
    result: list[int] = []
    count, step = 1, 0
    for extent in reversed(new):
        while pending and count < extent:
            inner, stride = pending.pop()
            if count > 1 and stride != step * count:
                return None
            count, step = count * inner, step if count > 1 else stride
        if extent > count or count % extent:
            return None
        result.append(step if extent > 1 else 0)
        count, step = count // extent, step * extent
    return tuple(reversed(result))


def permute(operation: Operation) -> Runner:
    """Dimension i of the result is dimension order[i] of the operand."""
    order = tuple_attribute(operation, "order")
    shape = shape_of(operation.result.type)
    axes = (0, *(axis + 1 for axis in order))

    def run(batch: Batch, a: BatchValue) -> BatchValue:
        if isinstance(a, Affine):
            return Affine(a.base, tuple(a.strides[axis] for axis in order), shape, a.dtype, a.low, a.high)
        if isinstance(a, Box):
            return Box(tuple(a.bounds[axis] for axis in order), shape)
        return a.transpose(axes)

    return run


def join(operation: Operation) -> Runner:
    """Side by side along a new last dimension of 2."""
    shape = shape_of(operation.result.type)

    def run(batch: Batch, a: BatchValue, b: BatchValue) -> Array:
        left, right = dense(a), dense(b)
        out = np.empty((max(len(left), len(right)), *shape), left.dtype)
        out[..., 0], out[..., 1] = left, right
        return out

    return run


def split(operation: Operation) -> Runner:
    """The two halves along the last dimension, which goes."""

    def run(batch: Batch, a: BatchValue) -> tuple[Array, Array]:
        values = dense(a)
        return values[..., 0], values[..., 1]

    return run


def add_ptr(operation: Operation) -> Runner:
    """The address of element `offset` (signed) after the pointer, modulo 2^64; an i1 steps one byte."""
    element = element_of(operation.result.type)
    assert isinstance(element, PointerType)
    size = byte_width(element.pointee)

    def step(pointer: Array, offset: Array) -> Array:
        return pointer + offset.astype(np.int64) * np.int64(size)

    def run(batch: Batch, pointer: BatchValue, offset: BatchValue) -> BatchValue:
        if isinstance(pointer, Affine) or isinstance(offset, Affine):
            base, steps = lazy.as_affine(pointer), lazy.as_affine(offset)
            found = None if base is None or steps is None else lazy.add(base, steps, size)
            if found is not None:
                return found
        addresses, offsets = dense(pointer), dense(offset)
        return stretched(step(compact(addresses), compact(offsets)), addresses.shape[1:])

    return run


def same(operation: Operation) -> Runner:
    """The operand: a promise changes nothing, nor does where a tile lives."""
    return lambda batch, a: a


SHAPE: dict[str, Prepare] = {
    "constant": constant,
    "poison": poison,
    "arange": arange,
    "program_id": program_id,
    "num_programs": num_programs,
    "splat": splat,
    "broadcast": broadcast,
    "expand_dims": expand_dims,
    "reshape": reshape,
    "permute": permute,
    "join": join,
    "split": split,
    "add_ptr": add_ptr,
    "hint": same,
    "convert_layout": same,
}
