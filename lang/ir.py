"""The core of tile IR: values, operations, blocks, functions and modules.

SSA with regions for structured control flow. A region is always exactly one block, so an operation holds blocks
directly. Types, locations and op definitions are frozen; operations, blocks, functions and modules change only through
`Builder` (making) and `Operation.set_operand`, `Operation.erase`, `Value.replace_uses` (rewriting), which keep the use
lists true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from .opdef import OpDef
from .types import Type

AttributeValue: TypeAlias = Union[bool, int, float, str, Type, "tuple[AttributeValue, ...]"]


@dataclass(frozen=True, slots=True)
class Location:
    """Where an operation comes from: the source as `module.qualname`, the 1-based line in its file, the 1-based column.

    `caller` is the place of the call when the code was inlined.
    """

    source: str
    line: int
    column: int
    caller: Location | None = None

    def __str__(self) -> str:
        inner = f'"{self.source}":{self.line}:{self.column}'
        return inner if self.caller is None else f"{inner} at {self.caller}"


UNKNOWN_LOCATION = Location("?", 0, 0)


class Value:
    """One SSA value: the result of an operation or the argument of a block. Identity is what counts."""

    __slots__ = ("type", "name", "owner", "index", "uses")

    def __init__(self, type_: Type, owner: Operation | Block, index: int, name: str = "") -> None:
        self.type = type_
        self.name = name  # a hint for the printer, from the variable in the source; "" for none
        self.owner = owner
        self.index = index
        self.uses: dict[tuple[Operation, int], None] = {}  # an ordered set of (operation, operand index)

    def replace_uses(self, other: Value) -> None:
        """Make every user of this value use `other` instead."""
        for operation, index in list(self.uses):
            operation.set_operand(index, other)

    @property
    def producer(self) -> Operation | None:
        """The operation whose result this is; None for a block argument."""
        return self.owner if isinstance(self.owner, Operation) else None

    def __repr__(self) -> str:
        return f"<Value %{self.name or '?'}: {self.type}>"


class Operation:
    """One operation: its table row, operands, attributes, results and regions."""

    __slots__ = ("definition", "name", "operands", "attributes", "results", "regions", "location", "block")

    def __init__(
        self,
        definition: OpDef,
        operands: Sequence[Value],
        attributes: Mapping[str, AttributeValue],
        result_types: Sequence[Type],
        regions: Sequence[Block],
        location: Location,
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.operands: list[Value] = []
        self.attributes: dict[str, AttributeValue] = dict(attributes)
        self.results = tuple(Value(type_, self, index) for index, type_ in enumerate(result_types))
        self.regions = tuple(regions)
        self.location = location
        self.block: Block | None = None
        for index, value in enumerate(operands):
            self.operands.append(value)
            value.uses[self, index] = None
        for region in self.regions:
            region.parent = self

    @property
    def result(self) -> Value:
        """The single result. Raises ValueError when there is not exactly one."""
        (only,) = self.results
        return only

    def operand(self, name: str) -> Value | None:
        """The operand that the table calls `name`; None when it is optional and absent. Not for variadic ones."""
        index = self.definition.operand_index(name)
        return self.operands[index] if index < len(self.operands) else None

    def variadic(self) -> list[Value]:
        """The operands that fall to the variadic slot of the table row."""
        return self.operands[self.definition.fixed :]

    def set_operand(self, index: int, value: Value) -> None:
        """Replace one operand, keeping both use lists true."""
        del self.operands[index].uses[self, index]
        self.operands[index] = value
        value.uses[self, index] = None

    def erase(self) -> None:
        """Take the operation, whose results must have no uses, out of its block."""
        if any(result.uses for result in self.results):
            raise ValueError(f"{self.name}: a result is still used")
        for inner in self.walk():
            for index, value in enumerate(inner.operands):
                value.uses.pop((inner, index), None)
        if self.block is not None:
            self.block.operations.remove(self)
            self.block = None

    def walk(self) -> Iterator[Operation]:
        """This operation and all inside it, outermost first, in order."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def __repr__(self) -> str:
        return f"<Operation {self.name} at {self.location}>"


class Block:
    """A list of operations with arguments, ending in a terminator."""

    __slots__ = ("arguments", "operations", "parent")

    def __init__(self, argument_types: Sequence[Type] = (), names: Sequence[str] = ()) -> None:
        hints = list(names) + [""] * (len(argument_types) - len(names))
        self.arguments = [Value(t, self, i, hints[i]) for i, t in enumerate(argument_types)]
        self.operations: list[Operation] = []
        self.parent: Operation | Function | None = None

    def add_argument(self, type_: Type, name: str = "") -> Value:
        """Append an argument."""
        argument = Value(type_, self, len(self.arguments), name)
        self.arguments.append(argument)
        return argument

    @property
    def terminator(self) -> Operation:
        """The last operation. Raises IndexError on an empty block."""
        return self.operations[-1]

    def walk(self) -> Iterator[Operation]:
        """All operations inside, depth first, in order. The list may grow behind the walk, not under it."""
        for operation in list(self.operations):
            if operation.regions:
                yield from operation.walk()
            else:  # most have none, and a generator for each would cost more than the walk
                yield operation


@dataclass(slots=True)
class Function:
    """A kernel or a device function: one block whose arguments are the parameters, ended by `return`."""

    name: str
    body: Block
    result_types: tuple[Type, ...] = ()
    attributes: dict[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    argument_attributes: list[dict[str, AttributeValue]] = field(default_factory=list[dict[str, AttributeValue]])
    location: Location = UNKNOWN_LOCATION

    def __post_init__(self) -> None:
        self.body.parent = self
        if not self.argument_attributes:
            self.argument_attributes = [{} for _ in self.body.arguments]

    @property
    def arguments(self) -> list[Value]:
        return self.body.arguments

    def walk(self) -> Iterator[Operation]:
        return self.body.walk()


@dataclass(slots=True, weakref_slot=True)
class Module:
    """A kernel (the first function) and the device functions that it calls, by name."""

    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    attributes: dict[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])

    def add(self, function: Function) -> Function:
        """Add a function. Raises ValueError if the name is taken."""
        if function.name in self.functions:
            raise ValueError(f"function {function.name} exists already")
        self.functions[function.name] = function
        return function

    @property
    def kernel(self) -> Function:
        """The entry point."""
        return next(iter(self.functions.values()))

    def walk(self) -> Iterator[Operation]:
        for function in self.functions.values():
            yield from function.walk()


class Builder:
    """Makes operations at the end of a block (or before an operation), checking each against its table row."""

    def __init__(self, block: Block | None = None) -> None:
        self.block = block
        self.before: Operation | None = None
        self.location = UNKNOWN_LOCATION

    def at_end(self, block: Block) -> None:
        """Insert at the end of `block` from now on."""
        self.block, self.before = block, None

    def at(self, operation: Operation) -> None:
        """Insert before `operation` from now on, with its location."""
        self.block, self.before, self.location = operation.block, operation, operation.location

    def create(
        self,
        definition: OpDef,
        operands: Sequence[Value] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
        result_types: Sequence[Type] | None = None,
        regions: Sequence[Block] = (),
    ) -> Operation:
        """Make one operation and insert it.

        `result_types` is needed only by rows that cannot infer theirs (constants, casts, calls, control flow).
        Raises OpTypeError when the row refuses the operand types, attributes or result types.
        """
        if self.block is None:
            raise ValueError("the builder has no insertion point")
        filled = definition.fill(attributes or {})
        requested = None if result_types is None else tuple(result_types)
        types = definition.infer([value.type for value in operands], filled, requested)
        operation = Operation(definition, operands, filled, types, regions, self.location)
        operation.block = self.block
        where = len(self.block.operations) if self.before is None else self.block.operations.index(self.before)
        self.block.operations.insert(where, operation)
        return operation

    def value(
        self,
        definition: OpDef,
        operands: Sequence[Value] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
        result_type: Type | None = None,
    ) -> Value:
        """`create` for an operation with one result, which is returned."""
        types = None if result_type is None else (result_type,)
        return self.create(definition, operands, attributes, types).result
