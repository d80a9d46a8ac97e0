"""Axis analysis: contiguity, divisibility and constancy of every value of a function, by one walk over it.

Loops are walked until the facts about what they carry stop shrinking, which they do, since each only falls through
powers of two.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import Block, Function, Operation, PointerType, Value, byte_width, element_of, shape_of

from .axis_info import AxisInfo, meet, power_of_two, uniform, unknown
from .axis_rules import RULES, elementwise, settled

__all__ = ["AxisInfo", "axis_analysis"]

Facts = dict[Value, AxisInfo]


def axis_analysis(function: Function) -> Facts:
    """The facts about each value of a function, from the promises on its arguments and the hints in it."""
    facts: Facts = {}
    for argument, attributes in zip(function.arguments, function.argument_attributes, strict=True):
        promise = attributes.get("divisibility", 1)
        divisor = power_of_two(promise) if isinstance(promise, int) and promise > 0 else 1
        facts[argument] = uniform((), divisor, None, unit_of(argument))
    _Walk(facts).block(function.body)
    return facts


def unit_of(value: Value) -> int:
    """What one step of contiguity adds: bytes of an element for pointers, else 1."""
    element = element_of(value.type)
    return byte_width(element.pointee) if isinstance(element, PointerType) else 1


def nothing(value: Value) -> AxisInfo:
    """No facts about a value."""
    return unknown(shape_of(value.type), unit_of(value))


def computed(operation: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    """The facts about the one result, from those about the operands."""
    rule = RULES.get(operation.name)
    if rule is not None:
        info = rule(operation, infos)
    elif operation.definition.is_elementwise:
        info = elementwise(operation, infos)
    else:
        info = nothing(operation.result)
    return settled(operation, info)


class _Walk:
    """Loops are walked more than once, mostly with the same facts: `made` has the last ones of each operation."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.made: dict[Operation, tuple[list[AxisInfo], AxisInfo]] = {}

    def block(self, block: Block) -> None:
        for operation in block.operations:
            if operation.regions:
                self.regions(operation)
            else:
                self.plain(operation)

    def plain(self, operation: Operation) -> None:
        if len(operation.results) != 1:
            self.facts.update((result, nothing(result)) for result in operation.results)
            return
        infos = [self.facts[operand] for operand in operation.operands]
        given, info = self.made.get(operation, (None, None))
        if info is None or given != infos:
            info = computed(operation, infos)
            self.made[operation] = infos, info
        self.facts[operation.result] = info

    def regions(self, operation: Operation) -> None:
        walk = {"for": self.loop, "while": self.whilst, "if": self.branch}.get(operation.name, self.opaque)
        walk(operation)

    def opaque(self, operation: Operation) -> None:
        for region in operation.regions:
            self.facts.update((argument, nothing(argument)) for argument in region.arguments)
            self.block(region)
        self.facts.update((result, nothing(result)) for result in operation.results)

    def branch(self, operation: Operation) -> None:
        for region in operation.regions:
            self.block(region)
        ends = [region.terminator.operands for region in operation.regions]
        for result, a, b in zip(operation.results, *ends, strict=True):
            self.facts[result] = meet(self.facts[a], self.facts[b])

    def loop(self, operation: Operation) -> None:
        start, _, step = (self.facts[operand] for operand in operation.operands[:3])
        (body,) = operation.regions
        induction = uniform((), min(start.divisibility[0], step.divisibility[0]))
        self.facts[body.arguments[0]] = induction
        carried = [self.facts[value] for value in operation.operands[3:]]
        while True:
            self.facts.update(zip(body.arguments[1:], carried, strict=True))
            self.block(body)
            after = self.joined(carried, body.terminator.operands)
            if after == carried:
                break
            carried = after
        self.facts.update(zip(operation.results, carried, strict=True))

    def whilst(self, operation: Operation) -> None:
        before, after = operation.regions
        carried = [self.facts[value] for value in operation.operands]
        while True:
            self.facts.update(zip(before.arguments, carried, strict=True))
            self.block(before)
            passed = [self.facts[value] for value in before.terminator.operands[1:]]
            self.facts.update(zip(after.arguments, passed, strict=True))
            self.block(after)
            again = self.joined(carried, after.terminator.operands)
            if again == carried:
                break
            carried = again
        self.facts.update(zip(operation.results, passed, strict=True))

    def joined(self, carried: Sequence[AxisInfo], yielded: Sequence[Value]) -> list[AxisInfo]:
        return [meet(info, self.facts[value]) for info, value in zip(carried, yielded, strict=True)]
