"""What lives across the iterations of a loop: one slot for each IR value that is carried."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors.base import CompilationError
from ..errors.syntax import LoopCarriedTypeChanged
from ..ir import Block, Operation, Value
from ..ops.control import CONDITION, FOR, WHILE, YIELD
from ..types import Type
from ..values import Tree, describe, flatten, unflatten
from .joins import handles, inside
from .scopes import Binding, Exits, Missing, Scope
from .walker import Walker, decay


@dataclass(slots=True)
class Carried:
    """A variable that has a value before the loop and may get another inside."""

    name: str
    binding: Binding
    tree: Tree
    initial: list[Value]


class Carries:
    """The variables that a loop carries, found from the names that its code assigns."""

    def __init__(self, walker: Walker, node: ast.stmt, names: Iterable[str]) -> None:
        self.walker = walker
        self.node = node
        self.before = walker.scope
        self.names = list(names)
        self.variables = [c for name in self.names if (c := self._carried(name)) is not None]

    def _carried(self, name: str) -> Carried | None:
        held = self.before.names.get(name)
        if not isinstance(held, Binding):
            return None
        value = held.value if held.is_constexpr else decay(held.value)
        leaves, tree = flatten(value)
        if value is not held.value:
            self.walker.bind(name, value, held.node)
        return Carried(name, held, tree, handles(leaves))

    @property
    def initial(self) -> list[Value]:
        """The IR values before the loop, in order."""
        return [value for variable in self.variables for value in variable.initial]

    @property
    def hints(self) -> list[str]:
        """A name for each of `initial`."""
        return [variable.name for variable in self.variables for _ in variable.initial]

    def types(self) -> list[Type]:
        """The IR type of each of `initial`."""
        return [value.type for value in self.initial]

    def bind(self, values: Sequence[Value]) -> None:
        """Let the variables be these IR values, in the walker's scope."""
        supply = iter(values)
        for variable in self.variables:
            if variable.initial:
                value = unflatten(variable.tree, [next(supply) for _ in variable.initial])
                self.walker.bind(variable.name, value, variable.binding.node)

    def final(self, arm_block: Block, scope: Scope, unchanged: Sequence[Value]) -> list[Value]:
        """The IR values at the end of an iteration. Raises LoopCarriedTypeChanged.

        Where every path returns they do not count: `unchanged` is the answer.
        """
        if scope.exits.returned is True:
            return list(unchanged)
        with inside(self.walker.builder, arm_block):
            return [value for variable in self.variables for value in self._final(variable, scope.names[variable.name])]

    def _final(self, variable: Carried, held: Binding | Missing) -> list[Value]:
        assert isinstance(held, Binding)
        leaves, tree = flatten(held.value)
        if tree != variable.tree and not held.is_constexpr:
            leaves, tree = flatten(decay(held.value))
        if tree != variable.tree:
            raise self._changed(variable, held)
        return handles(leaves)

    def _changed(self, variable: Carried, held: Binding) -> CompilationError:
        source = self.walker.source
        before = describe(unflatten(variable.tree, variable.initial))
        line = source.line(self.node)
        error = LoopCarriedTypeChanged(name=variable.name, before=before, after=describe(held.value), line=line)
        return error.at(source.span(held.node))

    def leave(self, values: Sequence[Value], inner: Scope) -> None:
        """After the loop: the variables are `values`, and what only the loop defines is gone."""
        line = self.walker.source.line(self.node)
        self.walker.scope = Scope(dict(self.before.names))
        self.bind(values)
        for name in inner.names:
            if not isinstance(self.before.names.get(name), Binding):
                self.walker.scope.names[name] = Missing(f"it is only defined inside the loop at line {line}")


@dataclass(slots=True)
class ForParts:
    """A `for` in the making. Slot i: `initial[i]`, then argument i + 1 of the body, then `yielded[i]`."""

    bounds: tuple[Value, Value, Value]
    attributes: dict[str, Any]
    body: Block
    initial: list[Value]
    yielded: list[Value]

    def emit(self, walker: Walker) -> list[Value]:
        """Make the operation. The value of each slot after the loop; slots that never change are not carried."""
        arguments = self.body.arguments[1:]
        kept = drop_invariant(self.initial, [(self.body, arguments)], [self.yielded])
        with inside(walker.builder, self.body):
            walker.builder.create(YIELD, [self.yielded[i] for i in kept])
        operands = [*self.bounds, *(self.initial[i] for i in kept)]
        operation = walker.builder.create(FOR, operands, self.attributes, None, [self.body])
        return results(operation, self.initial, kept)


@dataclass(slots=True)
class WhileParts:
    """A `while` in the making.

    Slot i: `initial[i]`, argument i of `before`, `passed[i]`, argument i of `after`, `yielded[i]`. The last slots may
    be passed on only: those have no initial and no yielded value.
    """

    before: Block
    after: Block
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    initial: list[Value] = field(default_factory=list[Value])
    passed: list[Value] = field(default_factory=list[Value])
    yielded: list[Value] = field(default_factory=list[Value])

    def add(self, initial: Value, yielded: Value, name: str = "") -> Value:
        """A further slot, before those passed on only. Its argument in `before`."""
        index = len(self.initial)
        argument = insert_argument(self.before, index, initial.type, name)
        insert_argument(self.after, index, initial.type, name)
        self.initial.append(initial)
        self.passed.insert(index, argument)
        self.yielded.append(yielded)
        return argument

    def emit(self, walker: Walker, flag: Value) -> list[Value]:
        """Make the operation, which goes on while `flag`, a value of `before`, holds. The slots after the loop."""
        builder = walker.builder
        places = [(self.before, self.before.arguments), (self.after, self.after.arguments)]
        kept = drop_invariant(self.initial, places, [self.passed, self.yielded])
        passed_on = range(len(self.initial), len(self.passed))
        passed = [self.passed[i] for i in (*kept, *passed_on)]
        with inside(walker.builder, self.before):
            builder.create(CONDITION, [flag, *passed])
        with inside(walker.builder, self.after):
            builder.create(YIELD, [self.yielded[i] for i in kept])
        types = [value.type for value in passed]
        blocks = [self.before, self.after]
        operation = builder.create(WHILE, [self.initial[i] for i in kept], self.attributes, types, blocks)
        return results(operation, self.initial, kept)


def insert_argument(block: Block, index: int, type_: Type, name: str) -> Value:
    """A new argument of a block, at `index`."""
    argument = block.add_argument(type_, name)
    block.arguments.insert(index, block.arguments.pop())
    _renumber(block)
    return argument


def _renumber(block: Block) -> None:
    for index, argument in enumerate(block.arguments):
        argument.index = index


def drop_invariant(
    initial: Sequence[Value], places: Sequence[tuple[Block, Sequence[Value]]], links: Sequence[list[Value]]
) -> list[int]:
    """Replace each slot that no link changes by its initial value. The slots that are kept.

    `places` are the blocks with the arguments that hold the slots, `links` what each passes on, to the next of them
    and in the end to the first: slot i does not change if argument i of each place is what it passes on.
    """
    columns = [list(arguments) for _, arguments in places]
    kept: list[int] = []
    for index, value in enumerate(initial):
        arguments = [column[index] for column in columns]
        if any(link[index] is not argument for link, argument in zip(links, arguments, strict=True)):
            kept.append(index)
            continue
        for (block, _), argument in zip(places, arguments, strict=True):
            argument.replace_uses(value)
            block.arguments.remove(argument)
            _renumber(block)
            for link in links:
                link[:] = [value if other is argument else other for other in link]
    return kept


def results(operation: Operation, initial: Sequence[Value], kept: Sequence[int]) -> list[Value]:
    """The value of each slot after the loop, then the results of those passed on only."""
    found = dict(zip(kept, operation.results, strict=False))
    slots = [found.get(index, value) for index, value in enumerate(initial)]
    return slots + list(operation.results[len(kept) :])


def after_exits(walker: Walker, exits: Exits) -> None:
    """Let these be the exits after a loop: what left the loop only is over."""
    walker.scope.exits = replace(exits, skip=exits.returned, stop=exits.returned)
