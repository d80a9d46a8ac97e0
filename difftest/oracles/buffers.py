"""What operations on buffers do: a buffer is its elements, stage after stage, and nothing is on its way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

from tilewright.lang import Operation, shape_of

from ..storage import Codes
from .memory import Buffers, pointee_of
from .tiles import count_of


def _put(buffer: Codes, index: int, tile: Codes) -> Sequence[Codes]:
    """The buffer with the tile in a stage; an index counts modulo the stages that the type has."""
    first = index * len(tile) % len(buffer)
    return ((*buffer[:first], *tile, *buffer[first + len(tile) :]),)


def _alloc(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    return ((0,) * count_of(operation.result.type),)


def _copy(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    pointer, buffer, (index,), (enabled,), *mask = operands
    if not enabled:
        return (buffer,)
    element, active = pointee_of(operation), mask[0] if mask else (1,) * len(pointer)
    tile = tuple(buffers.read(at, element) if on else 0 for at, on in zip(pointer, active, strict=True))
    return _put(buffer, index, tile)


def _store(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    buffer, (index,), tile = operands
    return _put(buffer, index, tile)


def _load(buffers: Buffers, operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    buffer, (index,) = operands
    _, *extents = shape_of(operation.operands[0].type)
    start = index * prod(extents) % len(buffer)
    first: Any = operation.attributes["first"] or (0,) * len(extents)
    part = shape_of(operation.result.type)
    along = [range(at, at + extent) for at, extent in zip(first, part, strict=True)]
    places = [sum(i * prod(extents[axis + 1 :]) for axis, i in enumerate(at)) for at in product(*along)]
    return (tuple(buffer[start + place] for place in places),)


#: (buffers in global memory, operation, operands) -> results.
BUFFER_RULES: dict[str, Callable[[Buffers, Operation, Sequence[Codes]], Sequence[Codes]]] = {
    "local_alloc": _alloc,
    "async_copy": _copy,
    "async_commit": lambda buffers, operation, operands: (),
    "async_wait": lambda buffers, operation, operands: operands,
    "local_store": _store,
    "local_load": _load,
}
