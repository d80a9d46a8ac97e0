"""What operations on buffers mean: a buffer is a value, and what writes to one gives another. All happens at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.lang import Operation, shape_of

from ..batch import Batch
from ..values import Array, BatchValue, dense, stretched, widened
from .memory import load
from .shape import poison
from .tables import Prepare, Runner


def async_copy(operation: Operation) -> Runner:
    """What stands at the addresses in stage `index`, 0 where masked off, for the programs that enable it."""
    loads = load(operation)

    def run(
        batch: Batch,
        pointer: BatchValue,
        buffer: BatchValue,
        index: BatchValue,
        enabled: BatchValue,
        mask: BatchValue | None = None,
    ) -> BatchValue:
        flags = dense(enabled)
        if not flags.any():
            return buffer
        active = mask
        if not flags.all():
            every = flags.reshape(-1, *(1,) * (dense(pointer).ndim - 1))
            active = stretched(every if mask is None else every & dense(mask), dense(pointer).shape[1:])
        return _put(dense(buffer), dense(index), dense(loads(batch, pointer, active)), flags)

    return run


def local_store(operation: Operation) -> Runner:
    """The buffer with the tile in stage `index`."""

    def run(batch: Batch, buffer: BatchValue, index: BatchValue, tile: BatchValue) -> Array:
        return _put(dense(buffer), dense(index), dense(tile), np.ones(1, np.bool_))

    return run


def local_load(operation: Operation) -> Runner:
    """Stage `index` of the buffer, or a part of it."""
    part = part_of_stage(operation)

    def run(batch: Batch, buffer: BatchValue, index: BatchValue) -> Array:
        stages, which = dense(buffer), dense(index)
        count = max(len(stages), len(which))
        return widened(stages, count)[(np.arange(count), widened(which, count) % stages.shape[1], *part)]

    return run


def part_of_stage(operation: Operation) -> tuple[slice, ...]:
    """What a `local_load` reads of a stage, along each dimension."""
    first: Any = operation.attributes["first"]
    extents = shape_of(operation.result.type)
    return tuple(slice(at, at + extent) for at, extent in zip(first, extents, strict=True)) if first else ()


def _put(buffer: Array, index: Array, tile: Array, flags: Array) -> Array:
    """Stages replaced for the programs whose flag is set."""
    count = max(map(len, (buffer, index, tile, flags)))
    rows = np.flatnonzero(widened(flags, count))
    out = np.array(widened(buffer, count), order="C")
    out[rows, widened(index, count)[rows] % out.shape[1]] = widened(tile, count)[rows]
    return out


def async_wait(operation: Operation) -> Runner:
    """The buffers as they are."""
    if len(operation.operands) == 1:
        return lambda batch, buffer: buffer
    return lambda batch, *buffers: buffers or None


def async_commit(operation: Operation) -> Runner:
    """Nothing: every copy is there already."""
    return lambda batch: None


BUFFERS: dict[str, Prepare] = {
    "local_alloc": poison,
    "async_copy": async_copy,
    "async_commit": async_commit,
    "async_wait": async_wait,
    "local_store": local_store,
    "local_load": local_load,
}
