"""Control flow in the batched executor: what `if`, `for`, `while`, `call` and `reduce` do to all programs at once.

While the programs of a batch agree, a region runs in the frame of its function and nothing is copied. Where they part
ways, each side runs as a batch of its own in a frame of its own, which holds the captured values of just its programs;
the results are merged by row. Uniform values (a leading extent of 1) stay uniform through both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import Block, Effect, Function, Operation

from .batch import Batch, Index
from .errors import InterpreterError, ZeroStepError
from .plan import BlockPlan, Frame, Planner, Run
from .values import Array, BatchValue, dense, is_uniform, put, take, widened

Trips: TypeAlias = NDArray[np.uint64]
Values: TypeAlias = Sequence[BatchValue]
#: Some programs of a batch by row, and their values.
Part: TypeAlias = tuple[Index, Values]
#: Combines pairs by the region of a reduction: (left, right, how many for each of its rows) -> their combinations.
Fold: TypeAlias = Callable[[Values, Values, int], Values]
#: Combines all elements of the operands' columns, [extent, rows], in some bracketing.
Bracketing: TypeAlias = Callable[[Sequence[Array], Fold], Values]


def narrow(frame: Frame, rows: Index, *blocks: BlockPlan) -> Frame:
    """A frame for some of the programs: the constants, and what the blocks capture."""
    part = blocks[0].template.copy()
    for slot in {slot for block in blocks for slot in block.captured}:
        part[slot] = take(frame[slot], rows)
    return part


def merge(parts: Sequence[Part], count: int) -> list[BatchValue]:
    """Put values of disjoint sets of programs, which together are all `count`, into one value each."""
    if len(parts) == 1:
        return list(parts[0][1])
    rows = [part[0] for part in parts]
    return [merge_one(rows, values, count) for values in zip(*(part[1] for part in parts), strict=True)]


def merge_one(rows: Sequence[Index], values: Sequence[BatchValue], count: int) -> BatchValue:
    """One value out of its parts."""
    first = values[0]
    if is_uniform(first) and all(value is first for value in values):
        return first
    if all(isinstance(value, np.ndarray) and value.flags.c_contiguous for value in values):
        like = dense(first)
        merged = np.empty((count, *like.shape[1:]), like.dtype)
        for some, value in zip(rows, values, strict=True):
            merged[some] = value
        return merged
    total = widened_value(first, rows[0], count)
    for some, value in zip(rows[1:], values[1:], strict=True):
        total = put(total, some, value, count)
    return total


def widened_value(value: BatchValue, rows: Index, count: int) -> BatchValue:
    """A value of `count` programs that has `value` in the given rows, and anything elsewhere."""
    if is_uniform(value):
        return value
    source = np.zeros(count, np.intp)
    source[rows] = np.arange(len(rows))
    return take(value, source)


def make_if(planner: Planner, operation: Operation) -> Run:
    """`if`: one side for all, or each side for its programs."""
    (condition,) = planner.slots_of(operation.operands)
    then, other = planner.region(operation, 0), planner.region(operation, 1)
    out = planner.slots_of(operation.results)

    def diverge(batch: Batch, frame: Frame, flags: Array) -> list[BatchValue]:
        parts: list[Part] = []
        for block, rows in ((then, np.flatnonzero(flags)), (other, np.flatnonzero(~flags))):
            parts.append((rows, block.run(batch.take(rows), narrow(frame, rows, block), ())))
        return merge(parts, batch.count)

    def step(batch: Batch, frame: Frame) -> None:
        flags = dense(frame[condition])
        holds = np.count_nonzero(flags)
        if holds == len(flags):
            values = then.run(batch, frame, ())
        elif not holds:
            values = other.run(batch, frame, ())
        else:
            values = diverge(batch, frame, flags)
        for slot, value in zip(out, values, strict=True):
            frame[slot] = value

    return step


def trip_counts(start: Array, stop: Array, step: Array, unsigned: bool) -> NDArray[np.uint64]:
    """How often a loop runs, per program (or of length 1): max(0, ceil((stop - start) / step)), without wrapping.

    Takes integer arrays of one dtype; no step is 0. Distances fit 64 bits unsigned whatever the operands are.
    """
    if unsigned:
        kind = np.dtype(f"u{start.dtype.itemsize}")
        start, stop, step = start.view(kind), stop.view(kind), step.view(kind)
    up = step > 0
    low, high = np.where(up, start, stop), np.where(up, stop, start)
    distance = high.astype(np.uint64) - low.astype(np.uint64)
    size = np.where(up, step.astype(np.uint64), np.uint64(0) - step.astype(np.uint64))
    return np.where(low < high, (distance - np.uint64(1)) // size + np.uint64(1), np.uint64(0))


def loop_bounds(batch: Batch, operation: Operation, bounds: Values) -> tuple[Array, Array, Array]:
    """The start, stop and step of a `for`, dense. Raises ZeroStepError."""
    start, stop, step = (dense(bound) for bound in bounds)
    if not step.all():
        row = int(np.flatnonzero(step == 0)[0])
        raise ZeroStepError("the step of this loop is 0", operation.location, batch.program(row))
    return start, stop, step


def make_for(planner: Planner, operation: Operation) -> Run:
    """`for`: in phases between which programs finish; within a phase nothing is copied."""
    bounds, inits = planner.slots_of(operation.operands[:3]), planner.slots_of(operation.operands[3:])
    body, out = planner.region(operation, 0), planner.slots_of(operation.results)
    unsigned, location = bool(operation.attributes["unsigned"]), operation.location

    def iterate(
        batch: Batch, frame: Frame, index: Array, by: Array, trips: int, carried: Values
    ) -> tuple[Array, Values]:
        for _ in range(trips):
            batch.burn(location)
            carried = body.run(batch, frame, (index, *carried))
            index = index + by
        return index, carried

    def diverge(batch: Batch, frame: Frame, index: Array, by: Array, trips: Trips, carried: Values) -> Values:
        count, rows, done = batch.count, np.arange(batch.count), 0
        parts: list[Part] = []
        for end in np.unique(trips).tolist():
            index, carried = iterate(batch, frame, index, by, end - done, carried)
            gone, stay, done = np.flatnonzero(trips == end), np.flatnonzero(trips > end), end
            parts.append((rows[gone], [take(value, gone) for value in carried]))
            rows, trips, carried = rows[stay], trips[stay], [take(value, stay) for value in carried]
            index, by = dense(take(index, stay)), dense(take(by, stay))
            batch, frame = batch.take(stay), narrow(frame, stay, body)
        return merge(parts, count)

    def step(batch: Batch, frame: Frame) -> None:
        start, stop, by = loop_bounds(batch, operation, [frame[slot] for slot in bounds])
        carried: Values = [frame[slot] for slot in inits]
        trips = trip_counts(start, stop, by, unsigned)
        if len(trips) == 1 or (trips == trips[0]).all():
            carried = iterate(batch, frame, start, by, int(trips[0]), carried)[1]
        else:
            carried = diverge(batch, frame, start, by, trips, carried)
        for slot, value in zip(out, carried, strict=True):
            frame[slot] = value

    return step


def make_while(planner: Planner, operation: Operation) -> Run:
    """`while`: programs leave the batch when their condition fails."""
    inits, out = planner.slots_of(operation.operands), planner.slots_of(operation.results)
    before, after = planner.region(operation, 0), planner.region(operation, 1)
    location = operation.location

    def iterate(batch: Batch, frame: Frame, carried: Values) -> Values:
        count, rows = batch.count, np.arange(batch.count)
        parts: list[Part] = []
        while True:
            batch.burn(location)
            flag, *passed = before.run(batch, frame, carried)
            flags = dense(flag)
            holds = np.count_nonzero(flags)
            if not holds:
                return merge([*parts, (rows, passed)], count)
            if holds < len(flags):
                gone, stay = np.flatnonzero(~flags), np.flatnonzero(flags)
                parts.append((rows[gone], [take(value, gone) for value in passed]))
                rows, passed = rows[stay], [take(value, stay) for value in passed]
                batch, frame = batch.take(stay), narrow(frame, stay, before, after)
            carried = after.run(batch, frame, passed)

    def step(batch: Batch, frame: Frame) -> None:
        for slot, value in zip(out, iterate(batch, frame, [frame[slot] for slot in inits]), strict=True):
            frame[slot] = value

    return step


def make_call(planner: Planner, operation: Operation) -> Run:
    """`call`: the callee's plan on the same batch. An error on its way out notes the call."""
    module, callee = planner.module, str(operation.attributes["callee"])
    operands, out = planner.slots_of(operation.operands), planner.slots_of(operation.results)

    def step(batch: Batch, frame: Frame) -> None:
        try:
            values = module.function(callee).run(batch, [frame[slot] for slot in operands])
        except InterpreterError as error:
            error.calls.append(operation.location)
            raise
        for slot, value in zip(out, values, strict=True):
            frame[slot] = value

    return step


def make_reduce(planner: Planner, operation: Operation) -> Run:
    """`reduce`: from the left, or in the bracketing that the compiler recorded."""
    tree = operation.attributes["tree"]
    assert isinstance(tree, tuple)
    return make_fold(planner, operation, left_fold if not tree else partial(tree_fold, tree=tree))


def make_fold(planner: Planner, operation: Operation, bracketing: Bracketing) -> Run:
    """`reduce` in some bracketing: a fold whose region runs on a batch of (program, remaining element) pairs.

    Operands that are the same for all programs are folded once, if the region cannot tell the programs apart.
    """
    operands, out = planner.slots_of(operation.operands), planner.slots_of(operation.results)
    combine, axis = planner.region(operation, 0), operation.attributes["axis"]
    assert isinstance(axis, int)
    blind = is_blind(operation.regions[0], planner.module.functions)

    def step(batch: Batch, frame: Frame) -> None:
        values = [dense(frame[slot]) for slot in operands]
        shared = blind and all(map(is_uniform, (*values, *(frame[slot] for slot in combine.captured))))
        programs = 1 if shared else batch.count
        columns = [np.moveaxis(widened(value, programs), axis + 1, 0) for value in values]
        shape = columns[0].shape[1:]
        columns = [column.reshape(len(column), -1) for column in columns]
        rows = np.repeat(np.arange(programs), columns[0].shape[1] // programs)

        def fold(left: Values, right: Values, times: int) -> Values:
            many = np.tile(rows, times)
            return combine.run(batch.take(many), narrow(frame, many, combine), (*left, *right))

        for slot, value in zip(out, bracketing(columns, fold), strict=True):
            frame[slot] = np.broadcast_to(dense(value), len(rows)).reshape(shape)

    return step


def left_fold(columns: Sequence[Array], fold: Fold) -> Values:
    """Combine the first elements with each of the others in turn; `columns` are [extent, rows]."""
    folded: Values = [column[0] for column in columns]
    for row in zip(*(column[1:] for column in columns), strict=True):
        folded = fold(folded, row, 1)
    return folded


def tree_fold(columns: Sequence[Array], fold: Fold, tree: Sequence[object]) -> Values:
    """Combine the elements whose indices differ in the first bit of `tree`, then what is left by the next bit, ..."""
    left = list(range(len(columns[0])))
    rows, now = columns[0].shape[1], list(columns)
    for bit in tree:
        assert isinstance(bit, int)
        places = {index: at for at, index in enumerate(left)}
        pairs = [(at, places[index | 1 << bit]) for at, index in enumerate(left) if not index >> bit & 1]
        firsts, seconds = ([pair[side] for pair in pairs] for side in (0, 1))
        made = fold(
            [value[firsts].reshape(-1) for value in now], [value[seconds].reshape(-1) for value in now], len(pairs)
        )
        now = [np.broadcast_to(dense(value), len(pairs) * rows).reshape(len(pairs), rows) for value in made]
        left = [left[at] for at in firsts]
    return [value[0] for value in now]


def is_blind(block: Block, functions: Mapping[str, Function]) -> bool:
    """Whether a region, with all that it calls, is pure and does not ask which program runs it."""
    seen: set[str] = set()
    todo = [block]
    while todo:
        for operation in todo.pop().walk():
            if operation.name == "call":
                callee = str(operation.attributes["callee"])
                if callee not in seen:
                    seen.add(callee)
                    todo.append(functions[callee].body)
            elif operation.name == "program_id" or operation.definition.effect is not Effect.NONE:
                return False
    return True


#: The ops with regions, and calls.
CONTROL: dict[str, Callable[[Planner, Operation], Run]] = {
    "if": make_if,
    "for": make_for,
    "while": make_while,
    "call": make_call,
    "reduce": make_reduce,
}
