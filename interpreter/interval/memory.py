"""Loads, stores and atomics: beside each buffer of floats lies an array of the enclosures of its elements.

Where an access lands, and whether it may, is decided as ever by the plain meaning, which runs first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tilewright.lang import FloatType, Operation, PointerType, element_of

from ..batch import Batch
from ..meanings import MEANINGS, Runner
from ..meanings.lanes import Access, lanes
from ..memory import Buffer, Memory
from ..numerics import FORMATS
from ..values import BatchValue, dense, lead, widened
from .arrays import ANY, Array, enclosed, exact, unpack


class Undecided(Exception):
    """What a kernel does depends on which of the allowed results a float has."""


class EnclosedMemory(Memory):
    """The buffers of a launch, and for each that is accessed as floats the enclosures of its elements."""

    def __init__(self, buffers: Iterable[Buffer], kernel: str) -> None:
        super().__init__(buffers, kernel)
        self.shadows: dict[str, tuple[str, Array]] = {}

    def shadow(self, access: Access, fmt: str) -> Array:
        """The enclosures of the elements of the buffer that an access goes to, as its typed view numbers them.

        Buffers that share memory share them. Raises Undecided for a pointer that may point into several buffers, and
        for memory of several formats.
        """
        buffer = self.argument(access.root)
        if buffer is None:
            raise Undecided("a pointer that may come from several arguments")
        if buffer.name not in self.shadows:
            self._enclose(buffer, access.memory, fmt)
        known, array = self.shadows[buffer.name]
        if known != fmt:
            raise Undecided(f"{buffer.name} is accessed as {known} and as {fmt}")
        return array

    def _enclose(self, buffer: Buffer, kind: np.dtype[Any], fmt: str) -> None:
        """Begin enclosures of all the memory that a buffer is part of."""
        whole = self.holding(buffer.start, buffer.end) or buffer
        view, first = whole.typed(kind)  # at an aligned address, as those of its parts
        array = exact(view.view(FORMATS[fmt].storage), fmt)
        for each in self.buffers:
            if whole.start <= each.start and each.end <= whole.end:
                part, start = each.typed(kind)
                place = (start - first) // kind.itemsize
                self.shadows[each.name] = fmt, array[place : place + len(part)]


def format_at(operation: Operation) -> str:
    """The name of the float format that the pointers of an access point to; "" where that is no float."""
    element = element_of(operation.operands[0].type)
    assert isinstance(element, PointerType)
    return element.pointee.name if isinstance(element.pointee, FloatType) else ""


def shadow_of(batch: Batch, access: Access, fmt: str) -> Array:
    assert isinstance(batch.memory, EnclosedMemory)
    return batch.memory.shadow(access, fmt)


def references(value: BatchValue, fmt: str) -> Array:
    """The reference values of enclosures, as storage."""
    return unpack(dense(value), fmt).value


def certain(value: BatchValue, fmt: str) -> Array:
    """The storage of enclosures of which each has one result. Raises Undecided."""
    span = unpack(dense(value), fmt)
    if not (span.point & ~(span.empty & (span.nan == ANY))).all():
        raise Undecided("bits that an allowed result may not have")
    return span.value


def load(operation: Operation) -> Runner:
    """`load` and `atomic_load`."""
    plain, fmt = MEANINGS[operation.name](operation), format_at(operation)
    if not fmt:
        return plain
    access = Access.of(operation, writes=False)

    def run(
        batch: Batch, pointer: BatchValue, mask: BatchValue | None = None, other: BatchValue | None = None
    ) -> Array:
        plain(batch, pointer, mask)  # raises for what may not be accessed
        shadow = shadow_of(batch, access, fmt)
        count = max(lead(value) for value in (pointer, mask, other) if value is not None)
        out = np.empty((count, *access.shape), enclosed(fmt))
        out[...] = exact(np.zeros((), FORMATS[fmt].storage), fmt) if other is None else widened(dense(other), count)
        flat = out.reshape(-1)
        for group in lanes(access, batch, pointer, mask, count):
            flat[group.number] = shadow[group.element]
        return out

    return run


def store(operation: Operation) -> Runner:
    """`store` and `atomic_store`."""
    plain, fmt = MEANINGS[operation.name](operation), format_at(operation)
    if not fmt:
        return plain
    access = Access.of(operation, writes=True)

    def run(batch: Batch, pointer: BatchValue, value: BatchValue, mask: BatchValue | None = None) -> None:
        shadow = shadow_of(batch, access, fmt)
        rest = () if mask is None else (mask,)
        plain(batch, pointer, references(value, fmt), *rest)
        count = max(lead(each) for each in (pointer, value, *rest))
        values = np.ascontiguousarray(widened(dense(value), count)).reshape(-1)
        for group in lanes(access, batch, pointer, mask, count):
            shadow[group.element] = values[group.number]

    return run


def update(operation: Operation) -> Runner:
    """`atomic_rmw` and `atomic_cas`: exact on exact values, in whatever order; of others nothing is claimed."""
    plain, fmt = MEANINGS[operation.name](operation), format_at(operation)
    if not fmt:
        return plain
    access = Access.of(operation, writes=True)
    masked = operation.name == "atomic_rmw"

    def run(batch: Batch, pointer: BatchValue, *operands: BatchValue) -> Array:
        values, mask = operands, None
        if masked:
            values, mask = operands[:1], operands[1] if len(operands) > 1 else None
        shadow = shadow_of(batch, access, fmt)
        groups = list(lanes(access, batch, pointer, mask, batch.count))
        for group in groups:
            certain(shadow[group.element], fmt)
        rest = () if mask is None else (mask,)
        old = plain(batch, pointer, *(certain(value, fmt) for value in values), *rest)
        for group in groups:
            shadow[group.element] = exact(group.memory[group.element].view(FORMATS[fmt].storage), fmt)
        return exact(old, fmt)

    return run


def lowered(operation: Operation) -> Runner:
    """An op that only looks at its operands, on the reference values."""
    plain = MEANINGS[operation.name](operation)
    formats = [element_of(operand.type) for operand in operation.operands]
    names = [element.name if isinstance(element, FloatType) else "" for element in formats]

    def run(batch: Batch, *operands: BatchValue) -> Any:
        return plain(batch, *(references(x, fmt) if fmt else x for x, fmt in zip(operands, names, strict=True)))

    return run


#: What ops that touch memory or the outside mean.
MEMORY: dict[str, Callable[[Operation], Runner]] = {
    "load": load,
    "atomic_load": load,
    "store": store,
    "atomic_store": store,
    "atomic_rmw": update,
    "atomic_cas": update,
    "print": lowered,
}
