"""What operations on buffers do: a buffer is its elements, stage after stage, and nothing is on its way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.lang import Operation

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
    count = count_of(operation.result.type)
    first = index * count % len(buffer)
    return (buffer[first : first + count],)


#: (buffers in global memory, operation, operands) -> results.
BUFFER_RULES: dict[str, Callable[[Buffers, Operation, Sequence[Codes]], Sequence[Codes]]] = {
    "local_alloc": _alloc,
    "async_copy": _copy,
    "async_commit": lambda buffers, operation, operands: (),
    "async_wait": lambda buffers, operation, operands: operands,
    "local_store": _store,
    "local_load": _load,
}
