"""Compare modules by structure: what they say, not which objects say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from .ir import AttributeValue, Block, Function, Location, Module, Operation, Value

#: Nested tuples of hashable values, with values of the IR numbered in the order of their definition.
Fingerprint: TypeAlias = tuple[object, ...]


def structurally_equal(a: Module, b: Module, *, locations: bool = True, names: bool = True) -> bool:
    """Whether the two modules have the same functions, operations, types and attributes, in the same order.

    `locations=False` and `names=False` leave source locations and the hints of value names out.
    """
    return fingerprint(a, locations=locations, names=names) == fingerprint(b, locations=locations, names=names)


def fingerprint(module: Module, *, locations: bool = True, names: bool = True) -> Fingerprint:
    """A hashable value that two modules share exactly when they are structurally equal."""
    return _Tracer(locations, names).module(module)


def canonical(value: AttributeValue) -> tuple[str, object]:
    """A hashable value that tells `True`, `1` and `1.0`, and `0.0` and `-0.0`, apart, and has one NaN."""
    if isinstance(value, tuple):
        return "tuple", tuple(canonical(item) for item in value)
    if isinstance(value, float):
        return "float", value.hex()
    kinds = {bool: "bool", int: "int", str: "str"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "type"), value


class _Tracer:
    """Turns each part of a module into tuples, numbering values as it meets them."""

    def __init__(self, locations: bool, names: bool) -> None:
        self.locations = locations
        self.names = names
        self.numbers: dict[Value, int] = {}

    def module(self, module: Module) -> Fingerprint:
        functions = tuple((key, *self.function(function)) for key, function in module.functions.items())
        return self.attributes(module.attributes), functions

    def function(self, function: Function) -> Fingerprint:
        arguments = tuple(self.attributes(each) for each in function.argument_attributes)
        body = self.block(function.body)
        attributes = self.attributes(function.attributes)
        return function.name, function.result_types, attributes, arguments, self.location(function.location), body

    def block(self, block: Block) -> Fingerprint:
        return self.values(block.arguments), tuple(self.operation(operation) for operation in block.operations)

    def operation(self, operation: Operation) -> Fingerprint:
        return (
            operation.name,
            tuple(self.number(value) for value in operation.operands),
            self.attributes(operation.attributes),
            self.values(operation.results),
            self.location(operation.location),
            tuple(self.block(region) for region in operation.regions),
        )

    def values(self, values: Iterable[Value]) -> Fingerprint:
        return tuple((self.number(value), value.type, value.name if self.names else "") for value in values)

    def number(self, value: Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def attributes(self, attributes: Mapping[str, AttributeValue]) -> Fingerprint:
        return tuple(sorted((name, canonical(value)) for name, value in attributes.items()))

    def location(self, location: Location) -> Location | None:
        return location if self.locations else None
