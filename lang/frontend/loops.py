"""`for` and `while`, with `break`, `continue`, `return` and `else`.

A loop without break and return is the operation of its name. A `for` that something leaves early becomes a `while`
that carries a flag `go`; a `while` carries a flag `stop`. What a `return` inside gives is carried out of the loop.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..dtypes import dtype, int1
from ..errors.syntax import EndlessLoop, ZeroStep
from ..ir import Block, Value
from ..ops.arith import ADD_I, SUB_I
from ..ops.compare import CMP_GT_U
from ..ops.control import IF, YIELD
from ..ops.shape import POISON
from ..semantic import cast, compare, constant, logical_and, logical_not, loop_bounds, select
from ..values import flatten, tensor, unflatten
from .assigned import assigned_names
from .branches import condition_of, unless, walk_block
from .carries import Carries, ForParts, WhileParts, after_exits
from .joins import inside
from .ranges import Range, iterated
from .scopes import Binding, Exits, Flag, Scope
from .statements import assign_target
from .walker import Arm, Walker, statement, unsupported


@statement(ast.For)
def _for(walker: Walker, node: ast.For) -> None:
    items = iterated(walker, node.iter)
    if isinstance(items, Range):
        _dynamic_for(walker, node, items)
    else:
        _unrolled_for(walker, node, items)


# --- loops that are unrolled ---


def _unrolled_for(walker: Walker, node: ast.For, items: Sequence[Any]) -> None:
    outer = walker.lasting
    walker.lasting = outer | frozenset(assigned_names([node]))
    _unroll(walker, node, items, 0)
    walker.lasting = outer
    stop = walker.scope.exits.stop
    after_exits(walker, walker.scope.exits)
    unless(walker, stop, lambda: walk_block(walker, node.orelse), node)


def _unroll(walker: Walker, node: ast.For, items: Sequence[Any], first: int) -> None:
    for index in range(first, len(items)):
        assign_target(walker, node.target, items[index], keep=True)
        walk_block(walker, node.body)
        exits = walker.scope.exits
        if exits.stop is not False:
            walker.scope.exits = replace(exits, skip=exits.stop)
            unless(walker, exits.stop, lambda index=index: _unroll(walker, node, items, index + 1), node)
            return
        walker.scope.exits = Exits()


# --- loops at run time: what both kinds share ---


def _walk_body(walker: Walker, node: ast.For | ast.While, carries: Carries, arm: Arm, first: Any = None) -> None:
    """Execute the body in `arm`, whose scope has the carried variables."""
    outer = walker.lasting
    walker.lasting = outer | {variable.name for variable in carries.variables}

    def body() -> None:
        if first is not None:
            first()
        walk_block(walker, node.body)

    walker.resume(arm, body)
    walker.lasting = outer


def _flag_value(flag: Flag) -> Value:
    return flag.handle if isinstance(flag, tensor) else constant(flag, int1).handle


class _ReturnSlots:
    """The slots that carry a `return` out of a loop."""

    def __init__(self, walker: Walker, parts: WhileParts, body: Block, exits: Exits, stop: int | None) -> None:
        """`stop` is the slot of the flag that says whether the loop was left, if there is one."""
        self.exits = exits
        if exits.returned is False:
            return
        if stop is None or exits.returned is not exits.stop:
            with inside(walker.builder, body):
                flag = _flag_value(exits.returned)
            stop = len(parts.initial)
            parts.add(constant(False, int1).handle, flag, "returned")
        self.flag = stop
        self.values = len(parts.initial)
        leaves, self.tree = flatten(exits.value)
        for leaf in leaves:
            poison = walker.builder.value(POISON, (), None, leaf.handle.type)
            parts.add(poison, leaf.handle, "result")
        self.end = len(parts.initial)

    def after(self, slots: Sequence[Value], always: bool) -> Exits:
        """The exits after the loop. `always`: nothing but a `return` leaves it."""
        if self.exits.returned is False:
            return Exits()
        flag = True if always else tensor(slots[self.flag], int1)
        value = unflatten(self.tree, slots[self.values : self.end])
        return Exits(flag, flag, flag, value, self.exits.node)


# --- for ---


def _dynamic_for(walker: Walker, node: ast.For, items: Range) -> None:
    if not isinstance(node.target, ast.Name):
        with walker.at(node.target):
            raise unsupported(node.target, "a loop variable that is no plain name", "unpack inside the loop")
    if isinstance(items.step, int) and items.step == 0:
        raise ZeroStep()
    target = node.target.id
    *bounds, index_type = loop_bounds(items.start, items.stop, items.step)
    carries = Carries(walker, node, _carried_names(walker, node, target, index_type))
    body = Block([bounds[0].handle.type, *carries.types()], [target, *carries.hints])
    arm = Arm(body, walker.scope.copy(Exits()))
    counter = tensor(body.arguments[0], bounds[0].dtype)

    def enter() -> None:
        carries.bind(body.arguments[1:])
        walker.bind(target, cast(counter, index_type), node.target)

    _walk_body(walker, node, carries, arm, enter)
    inner = arm.scope
    yielded = carries.final(body, inner, body.arguments[1:])
    if inner.exits.stop is False:
        attributes = {**items.attributes, "unsigned": counter.dtype.is_int_unsigned()}
        start, stop, step = (bound.handle for bound in bounds)
        slots = ForParts((start, stop, step), attributes, body, carries.initial, yielded).emit(walker)
        carries.leave(slots, inner)
        walk_block(walker, node.orelse)
        return
    _leaving_for(walker, node, items, bounds, carries, arm, yielded)


def _carried_names(walker: Walker, node: ast.For, target: str, index_type: dtype) -> list[str]:
    """The names that the body assigns, and the loop variable if it has a value of its type before."""
    names = [name for name in assigned_names(node.body) if name != target]
    held = walker.scope.names.get(target)
    if isinstance(held, Binding) and not held.is_constexpr and isinstance(held.value, tensor):
        if held.value.dtype == index_type and not held.value.shape:
            return [target, *names]
    return names


def _leaving_for(
    walker: Walker,
    node: ast.For,
    items: Range,
    bounds: Sequence[tensor],
    carries: Carries,
    arm: Arm,
    yielded: list[Value],
) -> None:
    """A `for` that something leaves early: a `while` over (index, carried values, go)."""
    body, exits = arm.block, arm.scope.exits
    start, stop, step = bounds
    index = tensor(body.arguments[0], start.dtype)
    descends = items.step < 0 if isinstance(items.step, int) else compare("<", step, 0)
    first = _in_range(start, stop, descends)
    with inside(walker.builder, body):
        more = _has_next(walker, index, stop, step, descends)
        following = walker.builder.value(ADD_I, [index.handle, step.handle])
        go = logical_and(more, logical_not(_as_tensor(exits.stop)))
    parts = WhileParts(Block(), body)
    parts.initial = [start.handle, *carries.initial]
    for argument in body.arguments:
        parts.passed.append(parts.before.add_argument(argument.type, argument.name))
    parts.yielded = [following, *yielded]
    flag = parts.add(first.handle, go.handle, "go")
    stopped = len(parts.initial)
    if node.orelse:
        with inside(walker.builder, body):
            stop_flag = _flag_value(exits.stop)
        parts.add(constant(False, int1).handle, stop_flag, "stop")
    returns = _ReturnSlots(walker, parts, body, exits, stopped if node.orelse else None)
    slots = parts.emit(walker, flag)
    carries.leave(slots[1 : 1 + len(carries.initial)], arm.scope)
    walker.scope.exits = returns.after(slots, always=False)
    if node.orelse:
        unless(walker, tensor(slots[stopped], int1), lambda: walk_block(walker, node.orelse), node)


def _as_tensor(flag: Flag) -> tensor:
    return flag if isinstance(flag, tensor) else constant(flag, int1)


def _in_range(start: tensor, stop: tensor, descends: Flag) -> tensor:
    """Whether there is a first iteration."""
    if isinstance(descends, bool):
        return compare(">" if descends else "<", start, stop)
    return select(descends, compare(">", start, stop), compare("<", start, stop))


def _has_next(walker: Walker, index: tensor, stop: tensor, step: tensor, descends: Flag) -> tensor:
    """Whether there is an iteration after the one at `index`: the distance left, unsigned, exceeds the step's size.

    Nothing here overflows, unlike a comparison of `index + step`.
    """
    builder = walker.builder

    def difference(a: tensor, b: tensor) -> tensor:
        return tensor(builder.value(SUB_I, [a.handle, b.handle]), index.dtype)

    def exceeds(a: tensor, b: tensor) -> tensor:
        return tensor(builder.value(CMP_GT_U, [a.handle, b.handle]), int1)

    def ascending() -> tensor:
        return exceeds(difference(stop, index), step)

    def descending() -> tensor:
        return exceeds(difference(index, stop), difference(constant(0, step.dtype), step))

    if isinstance(descends, bool):
        return descending() if descends else ascending()
    return select(descends, descending(), ascending())


# --- while ---


@statement(ast.While)
def _while(walker: Walker, node: ast.While) -> None:
    carries = Carries(walker, node, assigned_names([node.test, *node.body]))
    before = Arm(Block(carries.types(), carries.hints), walker.scope.copy(Exits()))
    condition: list[Flag] = []
    attributes: dict[str, Any] = {}

    def test() -> None:
        carries.bind(before.block.arguments)
        value = walker.evaluate(node.test)
        with walker.at(node.test):
            value, found = _condition_attributes(value)
            attributes.update(found)
            condition.append(condition_of(value, "`while`"))

    walker.resume(before, test)
    if condition[0] is False:
        for operation in reversed(before.block.operations):
            operation.erase()
        walk_block(walker, node.orelse)
        return
    _walk_while(walker, node, carries, before, condition[0], attributes)


def _condition_attributes(value: Any) -> tuple[Any, dict[str, Any]]:
    """What `tl.condition(value, ...)` holds; any other value as it is."""
    if type(value).__name__ == "condition" and hasattr(value, "disable_licm"):
        return value.condition, {"disable_licm": bool(value.disable_licm)}
    return value, {}


def _walk_while(
    walker: Walker, node: ast.While, carries: Carries, before: Arm, condition: Flag, attributes: dict[str, Any]
) -> None:
    passed = carries.final(before.block, before.scope, before.block.arguments)
    fresh = _fresh_names(before.scope, walker.scope)
    fresh_values = [leaf.handle for _, binding in fresh for leaf in flatten(binding.value)[0]]
    after = Arm(Block([v.type for v in (*passed, *fresh_values)], carries.hints), before.scope.copy(Exits()))

    def enter() -> None:
        carries.bind(after.block.arguments)
        _bind_fresh(walker, fresh, after.block.arguments[len(passed) :])

    _walk_body(walker, node, carries, after, enter)
    exits = after.scope.exits
    parts = WhileParts(before.block, after.block, attributes, carries.initial, [*passed, *fresh_values])
    parts.yielded = carries.final(after.block, after.scope, after.block.arguments[: len(passed)])
    stopped = len(parts.initial)
    if exits.stop is False:
        if condition is True:
            raise EndlessLoop()
        flag = _flag_value(condition)
    else:
        with inside(walker.builder, after.block):
            stop_flag = _flag_value(exits.stop)
        stop = parts.add(constant(False, int1).handle, stop_flag, "stop")
        flag = _unless_stopped(walker, parts, tensor(stop, int1), condition)
    returns = _ReturnSlots(walker, parts, after.block, exits, stopped)
    slots = parts.emit(walker, flag)
    carries.leave(slots[: len(passed)], after.scope)
    _bind_fresh(walker, fresh, slots[len(parts.initial) :])
    always = condition is True and exits.stop is exits.returned
    walker.scope.exits = returns.after(slots, always)
    if not node.orelse:
        return
    stop_after: Flag = False if exits.stop is False else tensor(slots[stopped], int1)
    unless(walker, stop_after, lambda: walk_block(walker, node.orelse), node)


def _fresh_names(inner: Scope, outer: Scope) -> list[tuple[str, Binding]]:
    """The names that the condition itself defines (`while (x := f()) > 0`)."""
    return [
        (name, held)
        for name, held in inner.names.items()
        if isinstance(held, Binding) and not isinstance(outer.names.get(name), Binding)
    ]


def _bind_fresh(walker: Walker, fresh: Sequence[tuple[str, Binding]], values: Sequence[Value]) -> None:
    supply = iter(values)
    for name, binding in fresh:
        leaves, tree = flatten(binding.value)
        walker.bind(name, unflatten(tree, [next(supply) for _ in leaves]), binding.node)


def _unless_stopped(walker: Walker, parts: WhileParts, stop: tensor, condition: Flag) -> Value:
    """In `before`: whether to go on, evaluating the condition only if the loop has not been stopped."""
    block = parts.before
    moved = [i for i, value in enumerate(parts.passed) if value not in block.arguments]
    if not moved and all(operation.definition.is_pure for operation in block.operations):
        with inside(walker.builder, block):
            go = logical_not(stop)
            return go.handle if condition is True else logical_and(go, condition).handle
    # What the condition does must not happen once more after a `break`: its operations move into an `if`.
    inner, stopped = Block(), Block()
    inner.operations, block.operations = block.operations, []
    for operation in inner.operations:
        operation.block = inner
    with inside(walker.builder, inner):
        walker.builder.create(YIELD, [_flag_value(condition), *(parts.passed[i] for i in moved)])
    with inside(walker.builder, stopped):
        held = [_when_stopped(walker, parts, i) for i in moved]
        walker.builder.create(YIELD, [constant(False, int1).handle, *held])
    types = [stop.handle.type, *(parts.passed[i].type for i in moved)]
    with inside(walker.builder, block):
        operation = walker.builder.create(IF, [stop.handle], None, types, [stopped, inner])
    for index, value in zip(moved, operation.results[1:], strict=True):
        parts.passed[index] = value
    return operation.results[0]


def _when_stopped(walker: Walker, parts: WhileParts, index: int) -> Value:
    if index < len(parts.initial):
        return parts.before.arguments[index]
    return walker.builder.value(POISON, (), None, parts.passed[index].type)
