"""Simple statements: assignments, `return`, `break`, `continue`, `assert`, expressions that stand alone."""

from __future__ import annotations

import ast
from typing import Any

from .. import language
from ..errors.syntax import CannotUnpack, ConstexprNeeded
from ..values import describe
from .operators import BINARY
from .scopes import Exits
from .walker import Walker, as_tuple, is_runtime, statement, unsupported


@statement(ast.Pass)
def _pass(walker: Walker, node: ast.Pass) -> None:
    pass


@statement(ast.Expr)
def _expression(walker: Walker, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):  # a docstring
        walker.evaluate(node.value)


@statement(ast.Assign)
def _assign(walker: Walker, node: ast.Assign) -> None:
    value = walker.evaluate(node.value)
    for target in node.targets:
        assign_target(walker, target, value)


@statement(ast.AugAssign)
def _augmented_assign(walker: Walker, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        raise _bad_target(node.target)
    with walker.at(node.target):
        held = walker.read(node.target.id)
    value = BINARY[type(node.op)](held, walker.evaluate(node.value))
    walker.assign(node.target.id, value, node)


@statement(ast.AnnAssign)
def _annotated_assign(walker: Walker, node: ast.AnnAssign) -> None:
    is_constexpr = "constexpr" in ast.unparse(node.annotation)
    if not isinstance(node.target, ast.Name):
        raise _bad_target(node.target)
    name = node.target.id
    if is_constexpr:
        walker.annotated[name] = node
    if node.value is None:
        return
    value = walker.evaluate(node.value)
    if is_constexpr and is_runtime(value):
        advice = "compute it from constexprs only, or drop the annotation"
        raise ConstexprNeeded(construct=f"the constexpr `{name}`", found=describe(value), advice=advice)
    walker.assign(name, value, node)


def assign_target(walker: Walker, target: ast.expr, value: Any, keep: bool = False) -> None:
    """Give a target its value: a name, or names in a tuple. `keep` leaves numbers as they are. Raises CannotUnpack."""
    with walker.at(target):
        if isinstance(target, ast.Name):
            if keep:
                walker.bind(target.id, value, target)
            else:
                walker.assign(target.id, value, target)
        elif isinstance(target, ast.Tuple | ast.List):
            _unpack(walker, target, value, keep)
        else:
            raise _bad_target(target)


def _unpack(walker: Walker, target: ast.Tuple | ast.List, value: Any, keep: bool) -> None:
    count = len(target.elts)
    if any(isinstance(part, ast.Starred) for part in target.elts):
        raise unsupported(target, "a starred target", "index the tuple instead: `first = t[0]`")
    items = as_tuple(value)
    if items is None or len(items) != count:
        found = describe(value) if items is None else f"a tuple of {len(items)} values"
        raise CannotUnpack(found=found, count=count, expectation=f"a tuple of {count} values")
    for part, item in zip(target.elts, items, strict=True):
        assign_target(walker, part, item, keep)


def _bad_target(target: ast.expr) -> Exception:
    if isinstance(target, ast.Subscript):
        return unsupported(target, "an assignment to an element", "tiles do not change; write memory by `tl.store`")
    if isinstance(target, ast.Attribute):
        return unsupported(target, "an assignment to an attribute", "values do not change; make a new one")
    return unsupported(target)


@statement(ast.Return)
def _return(walker: Walker, node: ast.Return) -> None:
    value = None if node.value is None else walker.evaluate(node.value)
    walker.leave(Exits(True, True, True, value, node))


@statement(ast.Break)
def _break(walker: Walker, node: ast.Break) -> None:
    walker.leave(Exits(skip=True, stop=True))


@statement(ast.Continue)
def _continue(walker: Walker, node: ast.Continue) -> None:
    walker.leave(Exits(skip=True))


@statement(ast.Assert)
def _assert(walker: Walker, node: ast.Assert) -> None:
    condition = walker.evaluate(node.test)
    message = ast.unparse(node.test) if node.msg is None else walker.evaluate(node.msg)
    language.device_assert(condition, message)
