"""Tiles put together from what threads hold, given out to them again, and moved within each thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.lang import Operation, TileType, Type, Value, shape_of

from ..batch import Batch
from ..errors import DistributionError
from ..meanings import Prepare, Runner
from ..values import Array, BatchValue, dense, stretched
from .places import Index, Places, find, placed

#: From a result's places to the elements that its slots need of an operand.
Needs = Callable[[Places | None], Index]


def slots_of(value: Array) -> Array:
    """A value as [program, slot]; a scalar has one slot."""
    return value.reshape(len(value), -1)


def bits(array: Array) -> Array:
    """An array as unsigned integers, so that equal means equal in every bit."""
    return array.view(f"u{array.dtype.itemsize}")


def name_of(value: Value) -> str:
    """A value, for messages."""
    return f"%{value.name}" if value.name else "a value without name"


def repeats(array: Array) -> bool:
    """Whether each program has one and the same element everywhere."""
    return not any(stride for stride, extent in zip(array.strides[1:], array.shape[1:], strict=True) if extent > 1)


def collect(batch: Batch, operation: Operation, value: Value, held: Array) -> Array:
    """The tile [program, *shape] that threads hold. Raises DistributionError where replicas differ."""
    places = placed(value.type)
    if places is None:
        return held
    if repeats(held):
        return np.broadcast_to(held[:, :1, 0, 0].reshape(-1, *(1,) * len(places.shape)), (len(held), *places.shape))
    slots = slots_of(held)
    tile = slots.take(places.holder, axis=1)
    if places.replicated:
        agree(batch, operation, value, slots, places)
    return tile.reshape(-1, *places.shape)


def agree(batch: Batch, operation: Operation, value: Value, slots: Array, places: Places) -> None:
    """Raise DistributionError unless all that hold an element hold the same."""
    elements = places.elements.reshape(-1)
    first = places.holder[elements]
    differ = bits(slots) != bits(slots).take(first, axis=1)
    if not differ.any():
        return
    row, slot = (int(at) for at in np.argwhere(differ)[0])
    one, other = places.slot_name(int(first[slot])), places.slot_name(slot)
    what = (
        f"{operation.name}: replicas of element {places.element_name(int(elements[slot]))} of {name_of(value)} differ: "
        f"{slots[row, first[slot]]} in {one}, {slots[row, slot]} in {other}"
    )
    raise DistributionError(what, operation.location, batch.program(row))


def spread(tile: BatchValue, type_: Type) -> Array:
    """What threads hold of a tile [program, *shape]."""
    array, places = dense(tile), placed(type_)
    if places is None:
        return array
    if repeats(array):
        first = array[(slice(None), *(slice(0, 1),) * (array.ndim - 1))]
        return stretched(first.reshape(-1, 1, 1, 1), places.elements.shape)
    return slots_of(array).take(places.elements, axis=1)


def gathered(plain: Prepare) -> Prepare:
    """The meaning of an op on whole tiles: operands are put together, and each thread is given its part of the results.

    Each element counts once, whoever holds it.
    """

    def prepare(operation: Operation) -> Runner:
        meaning, operands = plain(operation), operation.operands
        types = [result.type for result in operation.results]

        def run(batch: Batch, *held: Array) -> object:
            tiles = [collect(batch, operation, value, each) for value, each in zip(operands, held, strict=True)]
            made = meaning(batch, *tiles)
            if len(types) == 1:
                return spread(made, types[0])
            return tuple(spread(each, type_) for each, type_ in zip(made, types, strict=True)) if types else None

        return run

    return prepare


def alike(plain: Prepare) -> Prepare:
    """The meaning of an op whose operands meet in each register, and whose results stay there."""

    def prepare(operation: Operation) -> Runner:
        meet(operation, [*operation.operands, *operation.results])
        return plain(operation)

    return prepare


def meet(operation: Operation, values: Sequence[Value]) -> None:
    """Raise DistributionError unless all tiles among some values have the same elements in the same places."""
    tiles = [(value, places) for value in values if (places := placed(value.type)) is not None]
    for value, places in tiles[1:]:
        first, those = tiles[0]
        if places is not those and not np.array_equal(places.elements, those.elements):
            what = f"{operation.name}: {name_of(first)} and {name_of(value)} meet, but lie in other places: "
            raise DistributionError(f"{what}{first.type} and {value.type}", operation.location)


def own(operation: Operation, value: Value, need: Index, result: Places | None) -> Index:
    """For each slot of a result the slot of the same thread that holds the element of a tile that it needs.

    Raises DistributionError for an element that the thread does not hold.
    """
    source = placed(value.type)
    assert source is not None
    threads = np.arange(source.threads) if result is None else result.thread_of
    wanted = np.broadcast_to(need.reshape(-1), len(threads))
    found = find(source.elements.reshape(-1), source.thread_of, wanted, threads)
    missing = found < 0
    if missing.any():
        slot = int(missing.argmax())
        element, where = (
            source.element_name(int(wanted[slot])),
            "a scalar" if result is None else result.slot_name(slot),
        )
        what = f"{operation.name} needs element {element} of {name_of(value)} for {where}, and its thread does not hold"
        raise DistributionError(f"{what} it: this takes an exchange", operation.location)
    return found


def taken(needs: Callable[[Operation], Sequence[Needs]]) -> Prepare:
    """The meaning of an op with one operand that gives each thread, for each result, elements that it holds already.

    `needs` says which element each slot of a result is.
    """

    def prepare(operation: Operation) -> Runner:
        (value,) = operation.operands
        results = operation.results
        if not isinstance(value.type, TileType):  # one element in every thread
            ones = (1,) * len(shape_of(results[0].type))
            return lambda batch, held: spread(held.reshape(-1, *ones), results[0].type)
        parts: list[tuple[Index, Places | None]] = []
        for result, need in zip(results, needs(operation), strict=True):
            places = placed(result.type)
            parts.append((own(operation, value, need(places), places), places))

        def run(batch: Batch, held: Array) -> object:
            moved = [part(batch, operation, value, held, *each) for each in parts]
            return moved[0] if len(moved) == 1 else tuple(moved)

        return run

    return prepare


def part(batch: Batch, operation: Operation, value: Value, held: Array, slots: Index, places: Places | None) -> Array:
    """The slots of a value that a result is made of."""
    if places is None:  # one element, which each thread has: it becomes a scalar
        return collect(batch, operation, value, held).reshape(-1)
    if repeats(held):
        return stretched(held[:, :1, :1, :1], places.elements.shape)
    return slots_of(held).take(slots, axis=1).reshape(-1, *places.elements.shape)
