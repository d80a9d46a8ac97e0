"""How the elements that a thread accesses in global memory lie there."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.lang import PointerType, ScalarType, Value, byte_width, element_of

from .axis import AxisInfo
from .coalesce import VECTOR_BYTES
from .placement import Slots, layout_of, slots


def pointee(pointer: Value) -> ScalarType:
    """What a pointer, or each of a tile of them, points to."""
    element = element_of(pointer.type)
    assert isinstance(element, PointerType)
    return element.pointee


def run_length(facts: Mapping[Value, AxisInfo], pointer: Value, mask: Value | None) -> int:
    """How many neighbours one access takes: 1 for scalars and scattered ones.

    They must be contiguous and aligned in memory, in the lowest register bits of the thread, and share the mask.
    """
    layout = layout_of(pointer.type)
    if layout is None:
        return 1
    info, size, where = facts[pointer], byte_width(pointee(pointer)), slots(layout)
    own = where.registers
    if len(own) == 1:
        return 1
    axis = next((d for d, step in enumerate(own[1]) if step == 1), -1)
    if axis < 0:
        return 1
    length = min(info.contiguity[axis], info.divisibility[axis] // size, VECTOR_BYTES // size, len(own))
    if mask is not None:
        length = min(length, facts[mask].constancy[axis])
    while length > 1 and not _are_runs(where, axis, length):
        length //= 2
    return max(1, length)


def _are_runs(where: Slots, axis: int, length: int) -> bool:
    """Whether registers by `length` are neighbours along an axis, aligned in every thread."""
    steps = all(place[axis] % length == register % length for register, place in enumerate(where.registers))
    first = all(sum(place) == register for register, place in enumerate(where.registers[:length]))
    return steps and first and not where.moved_bits(axis) % length
