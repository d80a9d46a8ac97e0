"""The rewriting half of pipelining: a loop whose loads are made rounds ahead, and what comes in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign

from tilewright.lang import (
    I1,
    I32,
    OPS,
    Block,
    Builder,
    IntType,
    Operation,
    TileType,
    Type,
    Value,
    byte_width,
    element_of,
    shape_of,
    stage_slots,
)

from ..analysis.buffers import copied_layout, staged
from ..analysis.constants import constant_of
from ..analysis.placement import layout_of
from ..clone import Values, clone_operation
from .carried import end_with, move


@dataclass(frozen=True, slots=True)
class Plan:
    """How a loop is pipelined: copies for each of `loads` start `distance` rounds ahead, and `runs` says how many
    elements one takes. `ahead` are the operations of the slice, in order, `carried` the carried values that it needs,
    by index. There are `distance` buffers and one more; or that one is saved, when a copy starts `late`: once its
    stage was read."""

    distance: int
    late: bool
    loads: tuple[Operation, ...]
    runs: tuple[int, ...]
    ahead: tuple[Operation, ...]
    carried: tuple[int, ...]

    @property
    def stages(self) -> int:
        """How many buffers each load has."""
        return self.distance + (not self.late)


def rewrite(loop: Operation, plan: Plan) -> None:
    """Put the pipelined loop in the place of a plain one."""
    _Rewrite(loop, plan).run()


class _Rewrite:
    def __init__(self, loop: Operation, plan: Plan) -> None:
        self.loop = loop
        self.plan = plan
        self.body = loop.regions[0]
        self.distance = plan.distance
        self.builder = Builder()

    def run(self) -> None:
        carried = self.loop.operands[3:]
        self.builder.at(self.loop)
        buffers, states = self.prologue()
        inits = [*carried, *buffers, *states, self.number(0 if self.plan.late else self.distance), self.number(0)]
        old, self.body = self.body, Block([self.loop.operands[0].type, *(init.type for init in inits)])
        move(old, old.arguments, self.body)
        _, *arguments = self.body.arguments
        first = len(carried) + len(buffers)
        more = self.round(arguments[len(carried) : first], arguments[first:-2], *arguments[-2:])
        end_with(self.body, [*self.body.terminator.operands, *more])
        self.builder.at(self.loop)
        made = self.builder.create(
            self.loop.definition, [*self.loop.operands[:3], *inits], self.loop.attributes, None, [self.body]
        )
        for mine, result in zip(self.loop.results, made.results, strict=False):
            result.name = mine.name
            mine.replace_uses(result)
        self.loop.erase()

    # The rounds that come first

    def prologue(self) -> tuple[list[Value], list[Value]]:
        """Start the copies of the first rounds; the buffers, and what the slice carries to the next one."""
        start, stop = self.loop.operands[:2]
        less = "cmp_lt_u" if self.loop.attributes["unsigned"] else "cmp_lt_s"
        some, length = self.make(less, start, stop), self.make("sub_i", stop, start)
        buffers = [self.buffer(load, run) for load, run in zip(self.plan.loads, self.plan.runs, strict=True)]
        states = [self.loop.operands[3 + index] for index in self.plan.carried]
        for number in range(self.distance):
            enabled = self.make("and", some, self.beyond(length, number)) if number else some
            index = self.make("add_i", start, self.steps(number)) if number else start
            buffers, states = self.fetch(index, states, buffers, self.number(number), enabled)
        return buffers, states

    def buffer(self, load: Operation, run: int) -> Value:
        """The memory for the stages of a load."""
        src, element, shape = layout_of(load.result.type), element_of(load.result.type), shape_of(load.result.type)
        users = [user for user, _ in load.result.uses if user.name == "convert_layout"]
        dst = layout_of(users[0].result.type) if users and is_filled(load) else src
        assert src is not None and dst is not None
        slots = stage_slots(self.plan.stages)
        layout = staged(copied_layout(src, run, dst, byte_width(element)), slots)
        self.builder.location = load.location
        made = self.make("local_alloc", type_=TileType((slots, *shape), element, layout), stages=self.plan.stages)
        made.name = load.result.name
        return made

    def steps(self, count: int) -> Value:
        """How far so many rounds go."""
        return self.number(self.step * count, self.loop.operands[0].type)

    @property
    def step(self) -> int:
        """The step, read as unsigned."""
        step, element = constant_of(self.loop.operands[2]), self.loop.operands[2].type
        assert isinstance(step, int) and isinstance(element, IntType)
        return step & (1 << element.width) - 1

    def beyond(self, length: Value, count: int) -> Value:
        """Whether a loop that has `length` to go has more than `count` rounds."""
        element = length.type
        assert isinstance(element, IntType)
        if self.step * count >= 1 << element.width:
            return self.number(0, I1)
        return self.make("cmp_gt_u", length, self.steps(count))

    # A round ahead

    def fetch(
        self, index: Value, states: Sequence[Value], buffers: Sequence[Value], stage: Value, enabled: Value
    ) -> tuple[list[Value], list[Value]]:
        """Run the slice for one round, start its copies, and go on to the next one."""
        values: Values = {self.body.arguments[0]: index}
        values.update((self.body.arguments[1 + at], state) for at, state in zip(self.plan.carried, states, strict=True))
        for operation in self.plan.ahead:
            self.insert(self.guarded(operation, values, enabled))
        copied: list[Value] = []
        for load, buffer in zip(self.plan.loads, buffers, strict=True):
            pointer, *mask = (values.get(operand, operand) for operand in load.operands[:2])
            self.builder.location = load.location
            copied.append(self.make("async_copy", pointer, buffer, stage, enabled, *mask))
            copied[-1].name = load.result.name
        self.builder.create(OPS["async_commit"])
        self.builder.location = self.loop.location
        yielded = [self.body.terminator.operands[at] for at in self.plan.carried]
        return copied, [values.get(value, value) for value in yielded]

    def guarded(self, operation: Operation, values: Values, enabled: Value) -> Operation:
        """An operation of the slice for another round; a load only if that round exists."""
        copied = clone_operation(operation, values)
        if operation.name != "load":
            return copied
        pointer, mask = copied.operands[0], copied.operand("mask")
        wanted = enabled
        if isinstance(pointer.type, TileType):
            type_ = TileType(pointer.type.shape, I1, pointer.type.layout)
            wanted = self.make("splat", enabled, type_=type_, shape=pointer.type.shape)
        wanted = wanted if mask is None else self.make("and", mask, wanted)
        if mask is not None:
            copied.set_operand(1, wanted)
            return copied
        again = Operation(
            copied.definition, [pointer, wanted], copied.attributes, [copied.result.type], (), copied.location
        )
        again.result.name = copied.result.name
        copied.erase()
        values[operation.result] = again.result
        return again

    # The loop

    def round(self, buffers: Sequence[Value], states: Sequence[Value], free: Value, now: Value) -> list[Value]:
        """Write the body's new part; what it yields beside the old. `free` is the stage to fill, `now` that to read."""
        self.builder.at(self.body.operations[0])
        self.builder.location = self.loop.location
        waited = self.builder.create(OPS["async_wait"], buffers, {"pending": self.distance - 1}).results
        if self.plan.late:
            self.replace_all(waited, now)
            self.builder.at(self.body.terminator)
            copied, states = self.next_round(states, waited, now)
        else:
            copied, states = self.next_round(states, waited, free)
            self.replace_all(copied, now)
            self.builder.at(self.body.terminator)
        after = self.make("add_i", now, self.number(1))
        wraps = self.make("cmp_eq_i", after, self.number(self.plan.stages))
        return [*copied, *states, now, self.make("select", wraps, self.number(0), after)]

    def next_round(
        self, states: Sequence[Value], buffers: Sequence[Value], stage: Value
    ) -> tuple[list[Value], list[Value]]:
        """Start the copies of the round that is `distance` ahead, if it exists."""
        induction, stop = self.body.arguments[0], self.loop.operands[1]
        enabled = self.beyond(self.make("sub_i", stop, induction), self.distance)
        index = self.make("add_i", induction, self.steps(self.distance))
        return self.fetch(index, states, buffers, stage, enabled)

    def replace_all(self, buffers: Sequence[Value], stage: Value) -> None:
        for load, buffer in zip(self.plan.loads, buffers, strict=True):
            self.replace(load, buffer, stage)

    def replace(self, load: Operation, buffer: Value, stage: Value) -> None:
        """Read a stage in the place of a load, in the layouts in which it is wanted."""
        mask, other = load.operand("mask"), load.operand("other")
        for user, _ in list(load.result.uses) if is_filled(load) else ():
            if user.name == "convert_layout":
                self.builder.at(user)
                self.exchange(user, self.make("local_load", buffer, stage, type_=user.result.type))
        self.builder.at(load)
        if load.result.uses:
            value = self.make("local_load", buffer, stage, type_=load.result.type)
            if not is_filled(load):
                assert mask is not None and other is not None
                value = self.make("select", mask, value, other)
            self.exchange(load, value)
        else:
            load.erase()

    def exchange(self, operation: Operation, value: Value) -> None:
        value.name = operation.result.name
        operation.result.replace_uses(value)
        operation.erase()

    # Making operations

    def make(
        self, name: str, *operands: Value, type_: Type | None = None, **attributes: int | tuple[int, ...]
    ) -> Value:
        return self.builder.value(OPS[name], operands, attributes, type_)

    def number(self, value: int, type_: Type = I32) -> Value:
        return self.make("constant", type_=type_, value=value)

    def insert(self, operation: Operation) -> None:
        block, before = self.builder.block, self.builder.before
        assert block is not None and before is not None
        operation.block = block
        block.operations.insert(block.operations.index(before), operation)


def is_filled(load: Operation) -> bool:
    """Whether a copy leaves what a load gives, also where its mask does not hold."""
    other = load.operand("other")
    return other is None or is_zero(other)


def is_zero(value: Value) -> bool:
    """Whether a value is a constant with all bits zero."""
    literal = constant_of(value)
    return literal == 0 and literal is not None and copysign(1, literal) > 0
