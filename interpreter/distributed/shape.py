"""What changes of shape mean: each thread has the elements of the result already, in other registers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.lang import Operation, shape_of

from ..batch import Batch
from ..meanings import Prepare, Runner
from ..meanings.tables import tuple_attribute
from ..values import Array
from .moves import Needs, bits, gathered, own, slots_of, taken
from .places import Index, Places, numbered, placed


def coordinates(places: Places | None) -> tuple[Index, ...]:
    """The index of the element in each slot; of a scalar none."""
    return () if places is None else places.coordinates()


def broadcast(operation: Operation) -> Sequence[Needs]:
    """Extents of 1 have one element."""
    shape = shape_of(operation.operands[0].type)

    def need(places: Places | None) -> Index:
        index = coordinates(places)
        return numbered([at if extent > 1 else at * 0 for at, extent in zip(index, shape, strict=True)], shape)

    return [need]


def same_number(operation: Operation) -> Sequence[Needs]:
    """`reshape` and `expand_dims`: the order of the elements stays."""
    return [lambda places: np.zeros(1, np.intp) if places is None else places.elements]


def permute(operation: Operation) -> Sequence[Needs]:
    """Dimension i of the result is dimension order[i] of the operand."""
    order, shape = tuple_attribute(operation, "order"), shape_of(operation.operands[0].type)

    def need(places: Places | None) -> Index:
        index = coordinates(places)
        return numbered([index[order.index(axis)] for axis in range(len(shape))], shape)

    return [need]


def split(operation: Operation) -> Sequence[Needs]:
    """Each result has its half."""
    shape = shape_of(operation.operands[0].type)

    def half(number: int) -> Needs:
        def need(places: Places | None) -> Index:
            index = coordinates(places)
            last = np.full(index[0].shape if index else (1,), number)
            return numbered([*index, last], shape)

        return need

    return [half(0), half(1)]


def join(operation: Operation) -> Runner:
    """Each slot takes from one operand or the other."""
    places = placed(operation.result.type)
    assert places is not None
    *index, second = places.coordinates()
    chosen, shape = second.reshape(-1) == 1, shape_of(operation.operands[0].type)
    need = numbered(index, shape) if index else np.zeros_like(second)
    slots: list[Index | None] = []
    for value in operation.operands:
        slots.append(None if placed(value.type) is None else own(operation, value, need, places))

    def run(batch: Batch, *held: Array) -> Array:
        a, b = (slots_of(each) if at is None else slots_of(each)[:, at] for each, at in zip(held, slots, strict=True))
        return np.where(chosen, bits(b), bits(a)).view(a.dtype).reshape(-1, *places.elements.shape)

    return run


SHAPE: dict[str, Prepare] = {
    "broadcast": taken(broadcast),
    "expand_dims": taken(same_number),
    "reshape": taken(same_number),
    "permute": taken(permute),
    "split": taken(split),
    "join": join,
    "convert_layout": gathered(lambda operation: lambda batch, tile: tile),
}
