"""Buffers in shared memory: which allocation a buffer value is, how large it is, and how a stage lies in it."""

from __future__ import annotations

from functools import cache
from math import prod

from tilewright.lang import LinearLayout, Operation, TileType, Type, Value, byte_width, tile_layouts

from .natural import sources
from .placement import REGISTER, columns
from .swizzle import phase, swizzle

OFFSET = tile_layouts.OFFSET
#: Operations that give the buffers that they take, by the position of the first.
PASSES_ON = {"async_copy": 1, "async_wait": 0, "local_store": 0}
#: Operations that a dot may be mixed with though they use shared memory.
MIXED = ("async_copy", "async_commit", "local_load")


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


def dot_ahead(operation: Operation) -> Operation | None:
    """The dot by matrix instructions among which an operation's own instructions may be written.

    What stands between the two may be more copies and loads, since a load that follows a copy with no wait between them
    is of another stage, and what neither waits nor needs shared memory.
    """
    assert operation.block is not None
    operations = operation.block.operations
    for other in operations[operations.index(operation) + 1 :]:
        if other.name == "dot":
            return other if other.attributes["instruction"] == "mma" else None
        scratch = other.attributes.get("scratch", -1) != -1
        if other.name not in MIXED and (not other.definition.is_pure or other.regions or scratch):
            return None
    return None


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
    vector = columns(src, REGISTER)[: run.bit_length() - 1]
    return swizzle(src.shape, size, vector, phase(src, vector, size), phase(dst, vector, size))
