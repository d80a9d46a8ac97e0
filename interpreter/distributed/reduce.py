"""`reduce`: threads fold their registers, warps their lanes, the block its warps, in the order that the IR records.

At each step every slot combines what it has with what the slot has whose index differs in one bit. It takes that from
its own thread where it is there, else from its warp, else from another warp. In the end all slots of a row of the tile
have the row's result, and must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.lang import Operation, Value

from ..batch import Batch
from ..control import narrow
from ..errors import DistributionError
from ..meanings.tables import int_attribute, tuple_attribute
from ..plan import BlockPlan, Frame, Planner, Run
from ..values import Array, dense, widened
from .moves import bits, meet, slots_of
from .places import Index, find, flipped, numbered, placed
from .shared import exchange


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One fold: which positions among the slots that are left each combines, in order, and which are left after it.

    `level` is 0 where each thread has both halves itself, 1 where a warp has them, else 2.
    """

    first: Index
    second: Index
    left: Index
    level: int


class Folding:
    """The steps of a reduction, and where its results are at the end."""

    def __init__(self, operation: Operation) -> None:
        axis, tree = int_attribute(operation, "axis"), tuple_attribute(operation, "tree")
        places = placed(operation.operands[0].type)
        assert places is not None
        if sorted(tree) != list(range(places.shape[axis].bit_length() - 1)):
            what = f"reduce: {tree} is no order of the bits of an axis of {places.shape[axis]} elements"
            raise DistributionError(what, operation.location)
        self.operation = operation
        self.places = places
        self.ordered = bool(operation.attributes["ordered"])
        self.axis = axis
        self.index = places.coordinates()[axis].reshape(-1)
        self.left = np.arange(places.elements.size)
        self.steps = [self.step(bit) for bit in tree]
        order = [(step.level, bit) for step, bit in zip(self.steps, tree, strict=True)]
        if order != sorted(order):
            what = f"reduce: {tree} is not the order of registers, lanes and warps, each by the lowest bit first"
            raise DistributionError(what, operation.location)
        rest = [at.reshape(-1)[self.left] for number, at in enumerate(places.coordinates()) if number != axis]
        shape = [extent for number, extent in enumerate(places.shape) if number != axis]
        #: The row of the tile whose result each slot that is left has.
        self.rows = np.broadcast_to(numbered(rest, shape), len(self.left))

    def step(self, bit: int) -> Step:
        """Fold by one bit of the index; where a thread has both halves itself, one of them goes on."""
        upper = (self.index[self.left] >> bit & 1).astype(np.bool_)
        mine = np.arange(len(self.left))
        elements = self.places.elements.reshape(-1)[self.left]
        want = flipped(elements, self.places.shape, self.axis, bit)
        threads, warps = self.places.thread_of[self.left], self.places.warp_of[self.left]
        his, level = np.full(len(mine), -1), np.zeros(len(mine), np.intp)
        for groups in (threads, warps, np.zeros_like(warps)):
            missing = his < 0
            his[missing] = find(elements, groups, want[missing], groups[missing])
            level += his < 0
        # Where the order does not count, lanes put their own part first.
        swap = upper & (self.ordered | (level != 1))
        first, second = np.where(swap, his, mine), np.where(swap, mine, his)
        left = mine if level.any() else np.flatnonzero(~upper)
        self.left = self.left[left]
        return Step(first[left], second[left], left, int(level.max()))

    def fold(self, batch: Batch, frame: Frame, combine: BlockPlan, columns: list[Array]) -> list[Array]:
        """The columns [program, slot] of all operands, folded."""
        for step in self.steps:
            count, width = len(columns[0]), len(step.left)
            rows = np.repeat(np.arange(count), width)
            pair = [column[:, side].reshape(-1) for side in (step.first, step.second) for column in columns]
            made = combine.run(batch.take(rows), narrow(frame, rows, combine), pair)
            columns = [np.broadcast_to(dense(value), count * width).reshape(count, width) for value in made]
        return columns

    def agree(self, batch: Batch, columns: Sequence[Array]) -> None:
        """Raise DistributionError where threads come to different results for a row."""
        _, first, row = np.unique(self.rows, return_index=True, return_inverse=True)
        for column in columns:
            differ = bits(column) != bits(column[:, first[row]])
            if not differ.any():
                continue
            program, at = (int(each) for each in np.argwhere(differ)[0])
            one = int(first[row[at]])
            names = [self.places.slot_name(int(self.left[slot])) for slot in (one, at)]
            what = f"reduce: threads differ in row {int(self.rows[at])}: {column[program, one]} in {names[0]}, "
            what += f"{column[program, at]} in {names[1]}"
            raise DistributionError(what, self.operation.location, batch.program(program))

    def results(self, result: Value) -> Index:
        """For each slot of a result the position that has it, in the same thread; of a scalar any."""
        places = placed(result.type)
        if places is None:
            return np.zeros(1, np.intp)
        threads = self.places.thread_of[self.left]
        found = find(self.rows, threads, places.elements.reshape(-1), places.thread_of)
        missing = found < 0
        if missing.any():
            slot = int(missing.argmax())
            element = places.element_name(int(places.elements.reshape(-1)[slot]))
            what = f"reduce: {places.slot_name(slot)} is element {element} of the result, which its thread has not got"
            raise DistributionError(f"{what}: this takes an exchange", self.operation.location)
        return found


def make_reduce(planner: Planner, operation: Operation) -> Run:
    """The step of a `reduce` whose operands are placed."""
    meet(operation, operation.operands)
    folding = Folding(operation)
    operands, out = planner.slots_of(operation.operands), planner.slots_of(operation.results)
    combine = planner.region(operation, 0)
    sources = [folding.results(result) for result in operation.results]
    shapes = [() if (at := placed(result.type)) is None else at.elements.shape for result in operation.results]

    def step(batch: Batch, frame: Frame) -> None:
        columns = [slots_of(widened(dense(frame[slot]), batch.count)) for slot in operands]
        folded = folding.fold(batch, frame, combine, columns)
        folding.agree(batch, folded)
        for slot, column, source, shape in zip(out, folded, sources, shapes, strict=True):
            frame[slot] = column[:, source].reshape(-1, *shape)
        exchange(operation, batch)

    return step
