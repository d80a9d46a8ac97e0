"""Statement lists, `if`, conditional expressions, and what runs only when no way out has been taken.

A dynamic `if` becomes the operation of that name. Where one of its arms leaves (by return, break or continue), the
statements after it move into the other arm, so that `if done: return` costs nothing but an `else`. Where an arm may
leave or not, what follows runs under `if not skip`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ..errors.syntax import MismatchedTernary, TileCondition
from ..semantic import to_condition
from ..values import MEMBERS, describe, flatten, tensor
from .joins import join
from .operators import truth
from .scopes import Binding, Exits
from .walker import Arm, Walker, decay, expression, statement


def walk_block(walker: Walker, statements: Sequence[ast.stmt]) -> None:
    """Execute statements in order, as far as they are reached."""
    for index, node in enumerate(statements):
        rest = statements[index + 1 :]
        if isinstance(node, ast.If):
            with walker.at(node):
                if walk_if(walker, node, rest):
                    return
        else:
            walker.execute(node)
        if walker.scope.exits.skip is not False:
            unless(walker, walker.scope.exits.skip, lambda rest=rest: walk_block(walker, rest), node)
            return


def unless(walker: Walker, flag: bool | tensor, action: Callable[[], object], node: ast.AST) -> None:
    """Do `action` where the exit flag does not hold: not at all, or in the `else` of an `if`."""
    if flag is True:
        return
    if flag is False:
        action()
        return
    with walker.at(node):
        before = walker.scope
        then = walker.arm(before.copy(before.exits.known(flag)), lambda: None)
        other = walker.arm(before.copy(Exits()), action)
        join(walker, flag, then, other, node)


def walk_if(walker: Walker, node: ast.If, rest: Sequence[ast.stmt]) -> bool:
    """Execute an `if`. True if the statements after it have been executed too, inside one of its arms."""
    condition = evaluate_condition(walker, node.test, "`if`")
    if isinstance(condition, bool):
        walk_block(walker, node.body if condition else node.orelse)
        return False
    before = walker.scope
    then = walker.arm(before.copy(), lambda: walk_block(walker, node.body))
    other = walker.arm(before.copy(), lambda: walk_block(walker, node.orelse))
    moved = _move_into(walker, then, other, node, rest)
    join(walker, condition, then, other, node)
    return moved


def _move_into(walker: Walker, then: Arm, other: Arm, node: ast.AST, rest: Sequence[ast.stmt]) -> bool:
    """Execute what follows an `if` in the one arm that goes on, where there is only one."""
    if then.falls_through == other.falls_through:
        return False
    arm = then if then.falls_through else other
    if rest:
        skip = arm.scope.exits.skip
        walker.resume(arm, lambda: unless(walker, skip, lambda: walk_block(walker, rest), node))
    return True


def evaluate_condition(walker: Walker, node: ast.expr, construct: str) -> bool | tensor:
    """A condition: a bool where it is known at compile time, else a scalar int1. Raises TileCondition."""
    value = walker.evaluate(node)
    with walker.at(node):
        return condition_of(value, construct)


def condition_of(value: Any, construct: str) -> bool | tensor:
    """The truth of a value: known, or a scalar int1."""
    if isinstance(value, tensor):
        if value.numel != 1:
            raise TileCondition(construct=construct, found=describe(value))
        return to_condition(MEMBERS["reshape"](value, ()) if value.shape else value)
    return truth(value)


@statement(ast.If)
def _if(walker: Walker, node: ast.If) -> None:
    walk_if(walker, node, ())


#: Holds the value of a conditional expression until its arms are joined; no name is spelled like this.
_RESULT = "<value>"


@expression(ast.IfExp)
def _ternary(walker: Walker, node: ast.IfExp) -> Any:
    condition = evaluate_condition(walker, node.test, "the conditional expression")
    if isinstance(condition, bool):
        return walker.evaluate(node.body if condition else node.orelse)
    before = walker.scope
    then = walker.arm(before.copy(), lambda: _hold(walker, node.body))
    other = walker.arm(before.copy(), lambda: _hold(walker, node.orelse))
    a, b = (_held(arm) for arm in (then, other))
    if flatten(a)[1] != flatten(b)[1]:
        raise MismatchedTernary(then=describe(a), other=describe(b))
    join(walker, condition, then, other, node)
    return walker.read_and_drop(_RESULT)


def _hold(walker: Walker, node: ast.expr) -> None:
    walker.scope.names[_RESULT] = Binding(decay(walker.evaluate(node)), node)


def _held(arm: Arm) -> Any:
    held = arm.scope.names[_RESULT]
    assert isinstance(held, Binding)
    return held.value
