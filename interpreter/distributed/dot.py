"""`dot`: the reference's product, of operands that lie where the instruction takes them.

`mma.sync` (PTX ISA 9.1, 9.7.14.5) works on fragments: rows of the accumulator go by the high three lane bits and pairs
of its columns by the low two; rows of `a` and columns of `b` by the high three, and what one 32-bit register packs
along K by the low two. Plain multiply-adds want whole rows of `a` and columns of `b` in the thread, unless shared
memory brings them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.lang import F32, F64, IntType, Operation, byte_width, element_of, shape_of

from ..errors import DistributionError
from ..meanings import MEANINGS, Runner
from .moves import gathered, meet, name_of
from .places import Index, Places, find, flipped, numbered, placed


def dot(operation: Operation) -> Runner:
    """The product of whole tiles, once the places are seen to be right."""
    a, b, acc = (placed(operand.type) for operand in operation.operands)
    assert a is not None and b is not None and acc is not None
    meet(operation, [operation.operands[2], operation.result])
    if operation.attributes["instruction"] == "mma":
        check_fragments(operation, a, b, acc)
        check_whole(operation, acc)
        check_held(operation, a, b, acc, lambda place: place.warp_of, "warp")
    elif operation.attributes["scratch"] == -1:
        check_held(operation, a, b, acc, lambda place: place.thread_of, "thread")
    return gathered(MEANINGS["dot"])(operation)


def packings(operation: Operation) -> tuple[int, ...]:
    """How many neighbours along K a register of an operand's fragment may pack."""
    element = element_of(operation.operands[0].type)
    if element == F32:
        return (1, 2)  # as tf32, or as bf16 in parts
    size = byte_width(element)
    if size == 1:
        return (4,) if isinstance(element, IntType) else (4, 2)  # 8-bit floats may enter as f16
    return (max(1, 4 // size),)


def check_fragments(operation: Operation, a: Places, b: Places, acc: Places) -> None:
    """Raise DistributionError for an element in a lane from which the instruction does not take it."""
    *_, row, column = acc.coordinates()
    _lanes(operation, 2, acc, 4 * (row % 8) + column // 2 % 4)
    (*_, row, k_a), (*_, k_b, column) = a.coordinates(), b.coordinates()
    fits = [
        packed
        for packed in packings(operation)
        if (lane_grid(a) == 4 * (row % 8) + k_a // packed % 4).all()
        and (lane_grid(b) == 4 * (column % 8) + k_b // packed % 4).all()
    ]
    if not fits:
        packed = packings(operation)[0]
        _lanes(operation, 0, a, 4 * (row % 8) + k_a // packed % 4)
        _lanes(operation, 1, b, 4 * (column % 8) + k_b // packed % 4)


def check_whole(operation: Operation, acc: Places) -> None:
    """Raise DistributionError unless each thread has its whole part of each instruction's results: pairs along N, and
    rows that are 8 apart, but not of f64."""
    elements, thread = acc.elements.reshape(-1), acc.thread_of
    halves = [(len(acc.shape) - 1, 0)]
    if element_of(operation.result.type) != F64:
        halves.append((len(acc.shape) - 2, 3))
    for axis, bit in halves:
        small = acc.shape[axis] <= 1 << bit
        if small or (find(elements, thread, flipped(elements, acc.shape, axis, bit), thread) < 0).any():
            what = f"dot: threads do not hold both results that are {1 << bit} apart along axis {axis}"
            raise DistributionError(what, operation.location)


def lane_grid(places: Places) -> Index:
    """The lane of each slot."""
    return np.broadcast_to(np.arange(places.elements.shape[1])[:, None], places.elements.shape)


def _lanes(operation: Operation, index: int, places: Places, wanted: Index) -> None:
    wrong = lane_grid(places) != wanted
    if not wrong.any():
        return
    slot = int(wrong.argmax())
    element = places.element_name(int(places.elements.reshape(-1)[slot]))
    what = f"dot: element {element} of {name_of(operation.operands[index])} is in {places.slot_name(slot)}; the "
    raise DistributionError(f"{what}instruction has it in lane {int(wanted.reshape(-1)[slot])}", operation.location)


def check_held(
    operation: Operation, a: Places, b: Places, acc: Places, group: Callable[[Places], Index], name: str
) -> None:
    """Raise DistributionError unless each group has the whole row of `a` and column of `b` of each of its results."""
    *batch, row, column = (index.reshape(-1) for index in acc.coordinates())
    groups, depth = group(acc), shape_of(operation.operands[0].type)[-1]
    for index, places in enumerate((a, b)):
        outer = row if index == 0 else column
        lines = np.unique(np.stack([groups, *batch, outer]), axis=1)
        of, *line = (np.repeat(each, depth) for each in lines)
        along = np.tile(np.arange(depth), lines.shape[1])
        place = [*line, along] if index == 0 else [*line[:-1], along, line[-1]]
        want = numbered(place, places.shape)
        missing = find(places.elements.reshape(-1), group(places), want, of) < 0
        if missing.any():
            at = int(missing.argmax())
            what = f"dot: {name} {int(of[at])} needs element {places.element_name(int(want[at]))} of "
            what += f"{name_of(operation.operands[index])} and does not hold it"
            raise DistributionError(what, operation.location)
