"""Where two ways through the code meet: one `if` whose results are the values that differ."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..dtypes import int1
from ..errors.syntax import MismatchedBranches, MismatchedReturns
from ..ir import Block, Builder, Operation, Value
from ..ops.control import IF, YIELD
from ..ops.shape import POISON
from ..semantic import constant, logical_not
from ..types import Type
from ..values import Tree, describe, flatten, tensor, unflatten
from .scopes import ABSENT, Binding, Exits, Flag, Missing, Scope
from .walker import Arm, Walker, decay

#: What becomes of a value once the results of the `if` are there.
Finish = Callable[[list[Value]], Any]


@dataclass(slots=True)
class Join:
    """Collects what two arms yield. Nothing is emitted for what is the same on both."""

    walker: Walker
    condition: tensor
    then: Arm
    other: Arm
    before: Scope
    node: ast.AST
    yields: tuple[list[Value], list[Value]] = field(default_factory=lambda: ([], []))
    flags: dict[tuple[int, int], Finish] = field(default_factory=dict[tuple[int, int], Finish])

    # --- both arms ---

    def pair(self, a: Any, b: Any) -> tuple[Tree, Finish] | None:
        """Yield two values of one type, numbers turned into runtime values if they must. None if the types differ."""
        (leaves_a, tree_a), (leaves_b, tree_b) = flatten(a), flatten(b)
        if tree_a != tree_b:
            (leaves_a, tree_a), (leaves_b, tree_b) = self._decayed(self.then, a), self._decayed(self.other, b)
            if tree_a != tree_b:
                return None
        pairs = list(zip(handles(leaves_a), handles(leaves_b), strict=True))
        if all(x is y for x, y in pairs):
            return tree_a, lambda results: a
        return tree_a, self._yield(tree_a, pairs)

    def _decayed(self, arm: Arm, value: Any) -> tuple[list[tensor], Tree]:
        with self._inside(arm.block):
            return flatten(decay(value))

    def one(self, arm: Arm, value: Any) -> Finish:
        """Yield a value that only this arm has; from the other one it is never read."""
        dead = self.other if arm is self.then else self.then
        leaves, tree = flatten(value)
        pairs: list[tuple[Value, Value]] = []
        for leaf in handles(leaves):
            stand_in = self._poison(leaf, dead) if is_inside(leaf, arm.block) else leaf
            pairs.append((leaf, stand_in) if arm is self.then else (stand_in, leaf))
        return self._yield(tree, pairs)

    def _poison(self, leaf: Value, arm: Arm) -> Value:
        with self._inside(arm.block):
            return self.walker.builder.value(POISON, (), None, leaf.type)

    def _yield(self, tree: Tree, pairs: list[tuple[Value, Value]]) -> Finish:
        """Yield the pairs that differ; the others are the same value after the join."""
        places: list[int | Value] = []
        for a, b in pairs:
            places.append(a if a is b else len(self.yields[0]))
            if a is not b:
                self.yields[0].append(a)
                self.yields[1].append(b)
        return lambda results: unflatten(tree, [results[p] if isinstance(p, int) else p for p in places])

    def _inside(self, block: Block) -> Any:
        return inside(self.walker.builder, block)

    # --- names ---

    def names(self) -> Iterator[tuple[str, Binding | Missing | tuple[Binding, Finish]]]:
        """What each name means after the join: as it is, or a value to be finished."""
        a, b = self.then.scope.names, self.other.scope.names
        for name in dict.fromkeys((*a, *b)):
            yield name, self._name(name, a.get(name), b.get(name))

    def _name(self, name: str, a: Binding | Missing | None, b: Binding | Missing | None) -> Any:
        if a is b and a is not None:
            return a
        ignored = (self._ignores(self.then, name), self._ignores(self.other, name))
        if all(ignored):
            return self.before.names.get(name) or Missing("nothing runs here")
        if any(ignored):
            live, held = (self.other, b) if ignored[0] else (self.then, a)
            if not isinstance(held, Binding):
                return held or Missing(self._reason(name, live))
            return held if held is self.before.names.get(name) else (held, self.one(live, held.value))
        if not isinstance(a, Binding):
            return a or Missing(self._reason(name, self.then))
        if not isinstance(b, Binding):
            return b or Missing(self._reason(name, self.other))
        return self._both(name, a, b)

    def _ignores(self, arm: Arm, name: str) -> bool:
        """Whether what the name means at the end of this arm does not count: nothing that reads it runs after it."""
        exits = arm.scope.exits
        if exits.skip is not True or exits.returned is True:
            return exits.skip is True
        return name not in self.walker.lasting or not isinstance(arm.scope.names.get(name), Binding)

    def _reason(self, name: str, arm: Arm) -> str:
        line = self.walker.source.line(self.node)
        holds = "does not hold" if arm is self.then else "holds"
        return f"it is only defined when the condition at line {line} {holds}"

    def _both(self, name: str, a: Binding, b: Binding) -> Any:
        constexpr = a.is_constexpr or b.is_constexpr
        if constexpr and flatten(a.value)[1] != flatten(b.value)[1]:
            joined = None
        else:
            joined = self.pair(a.value, b.value)
        changed = b if b is not self.before.names.get(name) else a
        if joined is None:
            raise self._mismatch(name, a, b, changed)
        return Binding(None, changed.node, constexpr), joined[1]

    def _mismatch(self, name: str, a: Binding, b: Binding, changed: Binding) -> MismatchedBranches:
        line = self.walker.source.line(self.node)
        error = MismatchedBranches(name=name, then=describe(a.value), other=describe(b.value), line=line)
        error.at(self.walker.source.span(changed.node))
        return error

    # --- exits ---

    def flag(self, a: Flag, b: Flag) -> Finish:
        """A flag after the join. The same pair gives the same tensor."""
        key = (id(a), id(b))
        if key not in self.flags:
            self.flags[key] = _once(self._flag(a, b))
        return self.flags[key]

    def _flag(self, a: Flag, b: Flag) -> Finish:
        if a is b:
            return lambda results: a
        if isinstance(a, bool) and isinstance(b, bool):
            return lambda results: self.condition if a else logical_not(self.condition)
        pair = (self._materialise(self.then, a), self._materialise(self.other, b))
        return self._yield(flatten(self.condition)[1], [pair])

    def _materialise(self, arm: Arm, flag: Flag) -> Value:
        if isinstance(flag, tensor):
            return flag.handle
        with self._inside(arm.block):
            return constant(flag, int1).handle

    def returned_value(self) -> Finish:
        """What the function returns, if it has returned."""
        a, b = self.then.scope.exits.value, self.other.scope.exits.value
        if a is b:
            return lambda results: a
        if a is ABSENT or b is ABSENT:
            return self.one(self.other, b) if a is ABSENT else self.one(self.then, a)
        joined = self.pair(a, b)
        if joined is None:
            error = MismatchedReturns(function=self.walker.function.name, first=describe(a), second=describe(b))
            raise error.at(self.walker.source.span(self.other.scope.exits.node or self.node))
        return joined[1]

    # --- the operation ---

    def emit(self) -> list[Value]:
        """The `if` itself; none where nothing happens in either arm and nothing differs."""
        builder = self.walker.builder
        blocks = (self.then.block, self.other.block)
        if not self.yields[0] and not any(block.operations for block in blocks):
            return []
        types: list[Type] = [value.type for value in self.yields[0]]
        for block, values in zip(blocks, self.yields, strict=True):
            with self._inside(block):
                builder.create(YIELD, values)
        return list(builder.create(IF, [self.condition.handle], None, types, blocks).results)


def _once(finish: Finish) -> Finish:
    made: list[Any] = []

    def finish_once(results: list[Value]) -> Any:
        if not made:
            made.append(finish(results))
        return made[0]

    return finish_once


class inside:
    """A context in which the builder makes operations at the end of `block`."""

    def __init__(self, builder: Builder, block: Block) -> None:
        self.builder = builder
        self.block = block

    def __enter__(self) -> None:
        self.outer = self.builder.block
        self.builder.at_end(self.block)

    def __exit__(self, *_: object) -> None:
        if self.outer is not None:
            self.builder.at_end(self.outer)


def is_inside(value: Value, block: Block) -> bool:
    """Whether a value is defined in a block or deeper."""
    place = value.owner if isinstance(value.owner, Block) else value.owner.block
    while place is not None and place is not block:
        place = place.parent.block if isinstance(place.parent, Operation) else None
    return place is block


def handles(leaves: list[tensor]) -> list[Value]:
    """The IR values of tensors."""
    return [leaf.handle for leaf in leaves]


def join(walker: Walker, condition: tensor, then: Arm, other: Arm, node: ast.AST) -> None:
    """End a branch: emit the `if`, and let the walker's scope be what holds after either arm."""
    meet = Join(walker, condition, then, other, walker.scope, node)
    names = list(meet.names())
    a, b = then.scope.exits, other.scope.exits
    flags = [meet.flag(x, y) for x, y in ((a.skip, b.skip), (a.stop, b.stop), (a.returned, b.returned))]
    value = meet.returned_value()
    results = meet.emit()
    walker.scope = Scope()
    for name, meaning in names:
        if isinstance(meaning, tuple):
            binding, finish = meaning
            walker.bind(name, finish(results), binding.node)
            if binding.is_constexpr:
                walker.scope.names[name] = Binding(finish(results), binding.node, True)
        else:
            walker.scope.names[name] = meaning
    skip, stop, returned = (finish(results) for finish in flags)
    walker.scope.exits = Exits(skip, stop, returned, value(results), b.node or a.node)
