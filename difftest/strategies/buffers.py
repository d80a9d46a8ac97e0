"""Strategies for buffers in shared memory: a small kernel that fills stages, copies over some, and reads all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from tilewright.lang import I1, NUMBERS, TileType, Value, stage_slots

from ..cases import Case
from ..choices import Choices
from ..recipes import draw_codes
from .sketch import TILES, KernelSketch


class _Buffer:
    """A kernel with a buffer, all of whose stages are filled."""

    def __init__(self, row: str, choices: Choices) -> None:
        self.choices = choices
        self.sketch = sketch = KernelSketch(row, choices, (choices.integer(1, 3), 1, 1))
        self.shape = choices.sample([shape for shape in TILES if prod(shape) <= 8])
        self.element = choices.sample(NUMBERS)
        self.lanes = sketch.programs * prod(self.shape)
        self.places = sketch.places(self.shape, choices.boolean())
        self.stages = choices.integer(1, 5)
        type_ = TileType((stage_slots(self.stages), *self.shape), self.element)
        self.value = sketch.value("local_alloc", type_=type_, stages=self.stages)
        for stage in range(self.stages):
            tile = sketch.read(sketch.buffer(f"stage{stage}", self.element, self.codes()), self.places)
            self.value = sketch.value("local_store", (self.value, sketch.integer(stage), tile))

    def codes(self) -> tuple[int, ...]:
        return tuple(draw_codes(self.choices, self.element, self.lanes))

    def number(self) -> Value:
        """A stage: the same for all programs, or each its own."""
        fixed = self.sketch.bound(self.choices.integer(0, self.stages - 1))
        if self.choices.boolean():
            return fixed
        return self.sketch.value("rem_u", (self.sketch.program(), self.sketch.integer(self.stages)))

    def flag(self) -> Value:
        """A copy's `enabled`: for all programs, for none, or for some."""
        kind = self.choices.sample(("all", "none", "some"))
        if kind != "some":
            return self.sketch.integer(int(kind == "all"), I1)
        return self.sketch.value("cmp_lt_s", (self.sketch.program(), self.sketch.integer(1)))

    def copy(self, name: str) -> None:
        """Copy over a stage, perhaps under a mask."""
        sketch = self.sketch
        pointer = sketch.at(sketch.buffer(name, self.element, self.codes()), self.places)
        mask = [sketch.box(self.shape)] if self.choices.boolean() else []
        self.value = sketch.value("async_copy", (pointer, self.value, self.number(), self.flag(), *mask))
        sketch.emit("async_commit")

    def finish(self) -> Case:
        """Read what is in every stage, or a part of it."""
        (self.value,) = self.sketch.emit("async_wait", (self.value,), pending=0).results
        for stage in range(self.stages):
            where = (self.value, self.sketch.integer(stage))
            if self.choices.boolean():
                tile, places = self.sketch.value("local_load", where), self.places
            else:
                shape, first = self.part()
                tile = self.sketch.value("local_load", where, TileType(shape, self.element), first=first)
                places = self.sketch.places(shape, self.choices.boolean())
            self.sketch.write(f"out{stage}", places, tile)
        return self.sketch.finish()

    def part(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of a part of a stage, and its first element."""
        shape = tuple(self.choices.sample([1 << bit for bit in range(most.bit_length())]) for most in self.shape)
        extents = zip(self.shape, shape, strict=True)
        return shape, tuple(self.choices.integer(0, most // some - 1) * some for most, some in extents)


def buffers(row: str, choices: Choices) -> Case:
    """Fill, copy, wait and read."""
    kernel = _Buffer(row, choices)
    for number in range(choices.integer(1, 2)):
        kernel.copy(f"copied{number}")
        (kernel.value,) = kernel.sketch.emit("async_wait", (kernel.value,), pending=0).results
    return kernel.finish()


ROWS = ("local_alloc", "async_copy", "async_commit", "async_wait", "local_store", "local_load")
BUFFER_STRATEGIES: dict[str, Callable[[Choices], Case]] = {row: partial(buffers, row) for row in ROWS}
