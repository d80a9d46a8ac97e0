"""Buffers in shared memory: which allocation a buffer value is, how large it is, and how a stage lies in it."""

from __future__ import annotations

from functools import cache
from math import prod

from tilewright.lang import LinearLayout, Operation, TileType, Type, Value, byte_width, tile_layouts

from .conversion import phase, swizzle
from .natural import sources
from .placement import REGISTER

OFFSET = tile_layouts.OFFSET
#: Operations that give the buffers that they take, by the position of the first.
PASSES_ON = {"async_copy": 1, "async_wait": 0, "local_store": 0}


def is_buffer(type_: Type) -> bool:
    """Whether values of this type live in shared memory."""
    return isinstance(type_, TileType) and type_.layout is not None and OFFSET in type_.layout.in_names


def home(buffer: Value) -> Operation:
    """The `local_alloc` that a buffer descends from."""
    while True:
        producer = buffer.producer
        if producer is not None and producer.name == "local_alloc":
            return producer
        if producer is not None and producer.name in PASSES_ON:
            buffer = producer.operands[PASSES_ON[producer.name] + buffer.index]
        else:
            *_, buffer = sources(buffer)  # the last of them is what goes in


def stage_bytes(type_: Type) -> int:
    """The bytes of one stage of a buffer."""
    assert isinstance(type_, TileType)
    return prod(type_.shape[1:]) * byte_width(type_.element)


def buffer_bytes(operation: Operation) -> int:
    """The bytes of what a `local_alloc` makes."""
    stages = operation.attributes["stages"]
    assert isinstance(stages, int)
    return stages * stage_bytes(operation.result.type)


@cache
def staged(stage: LinearLayout, slots: int) -> LinearLayout:
    """The memory layout of a buffer, stage after stage, from that of one stage."""
    bases = [(0, *vector) for vector in stage.bases[OFFSET]]
    bases += [(1 << bit, *([0] * len(stage.shape))) for bit in range(slots.bit_length() - 1)]
    return LinearLayout.from_bases({OFFSET: bases}, dict(tile_layouts.tile_dims((slots, *stage.shape))))


@cache
def stage_of(layout: LinearLayout) -> LinearLayout:
    """The memory layout of one stage of a buffer in this layout."""
    shape = layout.shape[1:]
    bases = [vector[1:] for vector in layout.bases[OFFSET]][: prod(shape).bit_length() - 1]
    return LinearLayout.from_bases({OFFSET: bases}, dict(tile_layouts.tile_dims(shape)))


@cache
def copied_layout(src: LinearLayout, run: int, dst: LinearLayout, size: int) -> LinearLayout:
    """The memory layout of a stage that is written by copies of `run` elements from the lowest registers of `src`, and
    read in `dst`."""
    vector = list(src.bases[REGISTER][: run.bit_length() - 1])
    return swizzle(src.shape, size, vector, phase(src, vector, size), phase(dst, vector, size))
