"""Print modules as text that `parser.py`, whose docstring holds the grammar, reads back.

Printing what was parsed from a print gives the same text, and parsing a print gives a structurally equal module.
To that end a value prints as the hint of its name: bare when that is an ASCII identifier, else as a string; the
second and later values of one hint in a function get `.1`, `.2`, ... (no identifier holds a dot, so the hint is still
seen), and those without a hint are numbered. The text is ASCII.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from .equality import canonical
from .ir import UNKNOWN_LOCATION, AttributeValue, Block, Function, Location, Module, Operation, Value
from .opdef import OpDef

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")


def print_module(module: Module, locations: bool = True) -> str:
    """The text of a module, with a newline at its end; `locations=False` leaves the source locations out."""
    lines = [f"module{_attributes(module.attributes)} {{"]
    for index, function in enumerate(module.functions.values()):
        printer = _Printer(locations)
        printer.function(function, "func" if index else "kernel")
        lines += printer.lines
    return "\n".join([*lines, "}", ""])


def print_function(function: Function, locations: bool = True) -> str:
    """The text of one function as a module shows it, headed `func`, without a newline at its end."""
    printer = _Printer(locations)
    printer.function(function, "func")
    return "\n".join(printer.lines)


def print_operation(operation: Operation, locations: bool = True, regions: bool = True) -> str:
    """The text of one operation, with the names that its function prints, without a newline at its end.

    `regions=False` shows `{...}` in place of what an operation holds. Malformed operations print as well as may be.
    """
    printer = _Printer(locations)
    if (function := enclosing_function(operation)) is not None:
        printer.name_all(function.body)
    if regions:
        printer.operation(operation, "")
    else:
        printer.lines.append(printer.head(operation) + (" {...}" if operation.regions else ""))
    return "\n".join(printer.lines)


def enclosing_function(operation: Operation) -> Function | None:
    """The function that the parent links of an operation lead to; None when they end or go in circles."""
    seen: set[Operation] = set()
    while operation not in seen:
        seen.add(operation)
        parent = None if operation.block is None else operation.block.parent
        if not isinstance(parent, Operation):
            return parent
        operation = parent
    return None


def print_attribute(value: AttributeValue) -> str:
    """The text of an attribute's value. Every NaN is `nan`; other floats are exact."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(print_attribute, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float):
        return float.__repr__(value)
    return str(value)


def print_location(location: Location) -> str:
    """The text of a location: the place, then the places of the calls that it was inlined through."""
    place = f"{json.dumps(location.source)}:{location.line}:{location.column}"
    return place if location.caller is None else f"{place} at {print_location(location.caller)}"


def _name(name: str) -> str:
    return name if BARE_NAME.fullmatch(name) else json.dumps(name)


def _attributes(attributes: Mapping[str, AttributeValue]) -> str:
    if not attributes:
        return ""
    items = (f"{_name(name)} = {print_attribute(value)}" for name, value in attributes.items())
    return f" {{{', '.join(items)}}}"


class _Printer:
    """Prints the parts of one function, line by line, and keeps the names of its values."""

    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: Counter[str] = Counter()

    def function(self, function: Function, keyword: str) -> None:
        self.name_all(function.body)
        pairs = zip(function.arguments, function.argument_attributes, strict=True)
        parameters = ", ".join(self.typed(value) + _attributes(attributes) for value, attributes in pairs)
        results = f" -> ({_types(function.result_types)})" if function.result_types else ""
        tail = _attributes(function.attributes) + self.location(function.location)
        self.lines.append(f"{keyword} @{_name(function.name)}({parameters}){results}{tail} {{")
        self.operations(function.body, "  ")
        self.lines.append("}")

    def operations(self, block: Block, indent: str) -> None:
        for operation in block.operations:
            self.operation(operation, indent)

    def operation(self, operation: Operation, indent: str) -> None:
        opening = " {" if operation.regions else ""
        self.lines.append(indent + self.head(operation) + opening)
        for index, region in enumerate(operation.regions):
            declared = operation.definition.regions
            arguments = ", ".join(map(self.typed, region.arguments))
            label = declared[index] if index < len(declared) else f"extra{index}"
            self.lines.append(f"{indent}^{label}{f'({arguments})' if arguments else ''}:")
            self.operations(region, indent + "  ")
        if opening:
            self.lines.append(indent + "}")

    def head(self, operation: Operation) -> str:
        """All of an operation but its regions."""
        results = ", ".join(map(self.value, operation.results))
        operands = ", ".join(map(self.value, operation.operands))
        defaults = _defaults(operation.definition)
        given = {
            name: value
            for name, value in operation.attributes.items()
            if name not in defaults or canonical(value) != defaults[name]
        }
        types = _types([result.type for result in operation.results])
        return (
            (f"{results} = " if results else "")
            + operation.name
            + (f" {operands}" if operands else "")
            + _attributes(given)
            + (f" : {types}" if types else "")
            + self.location(operation.location)
        )

    def location(self, location: Location) -> str:
        shown = self.locations and location != UNKNOWN_LOCATION
        return f" loc({print_location(location)})" if shown else ""

    def typed(self, value: Value) -> str:
        return f"{self.value(value)}: {value.type}"

    def value(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = self.fresh(value.name)
        return self.names[value]

    def fresh(self, hint: str) -> str:
        number = self.taken[hint]
        self.taken[hint] += 1
        if not hint:
            return f"%{number}"
        shown = hint if IDENTIFIER.fullmatch(hint) else json.dumps(hint)
        return f"%{shown}.{number}" if number else f"%{shown}"

    def name_all(self, block: Block) -> None:
        """Name what is defined in the block, in the order of the text."""
        for value in block.arguments:
            self.value(value)
        for operation in block.operations:
            for value in operation.results:
                self.value(value)
            for region in operation.regions:
                self.name_all(region)


@cache
def _defaults(definition: OpDef) -> Mapping[str, object]:
    """What the attributes of a row that have a default are compared with, by name."""
    return {each.name: canonical(each.default) for each in definition.attributes if each.default is not ...}


def _types(types: Sequence[object]) -> str:
    return ", ".join(map(str, types))
