"""Names, literals, attributes, subscripts, tuples, comprehensions and f-strings."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from ..errors.syntax import BadIndex, CompileTimeFailure, ConstexprNeeded
from ..values import describe, tensor
from .function import DeviceFunction
from .names import attribute
from .operators import TO_PRINT, at_compile_time, truth
from .ranges import known_items
from .statements import assign_target
from .walker import Walker, expression, is_runtime, unsupported


@expression(ast.Constant)
def _constant(walker: Walker, node: ast.Constant) -> Any:
    if isinstance(node.value, bytes | complex):
        raise unsupported(node, f"a {type(node.value).__name__} literal", "use numbers and strings")
    return node.value


@expression(ast.Name)
def _name(walker: Walker, node: ast.Name) -> Any:
    return walker.read(node.id)


@expression(ast.Attribute)
def _attribute(walker: Walker, node: ast.Attribute) -> Any:
    return attribute(walker.evaluate(node.value), node.attr)


@expression(ast.NamedExpr)
def _named(walker: Walker, node: ast.NamedExpr) -> Any:
    assign_target(walker, node.target, walker.evaluate(node.value))
    return walker.read(node.target.id)


@expression(ast.Tuple, ast.List)
def _tuple(walker: Walker, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
    return tuple(evaluate_all(walker, node.elts))


def evaluate_all(walker: Walker, nodes: Sequence[ast.expr]) -> Iterator[Any]:
    """The values of expressions, with `*tuple` spread."""
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = walker.evaluate(node.value)
            with walker.at(node):
                yield from known_items(value, "`*` of")
        else:
            yield walker.evaluate(node)


@expression(ast.Slice)
def _slice(walker: Walker, node: ast.Slice) -> slice:
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if part is None else walker.evaluate(part) for part in parts))


@expression(ast.Subscript)
def _subscript(walker: Walker, node: ast.Subscript) -> Any:
    value, index = walker.evaluate(node.value), walker.evaluate(node.slice)
    if isinstance(value, tensor):
        return value[index]
    if isinstance(value, DeviceFunction):
        raise unsupported(node, "the launch of a kernel", "call the function itself: `f(x)` instead of `f[grid](x)`")
    for bound in filter(is_runtime, _bounds(index)):
        advice = "only tiles in memory can be indexed at run time, through pointers"
        raise ConstexprNeeded(construct="the index of a tuple", found=describe(bound), advice=advice)
    if not hasattr(value, "__getitem__"):
        raise unsupported(node, f"a subscript of {describe(value)}", "index tuples, and tiles by `:` and `None`")
    try:
        return value[index]
    except IndexError:
        raise BadIndex(found=describe(value), index=index, hint=_about_shape(node.value, value)) from None
    except Exception as error:
        raise CompileTimeFailure(what="the subscript", kind=type(error).__name__, detail=error) from error


def _about_shape(node: ast.expr, value: Any) -> str:
    if isinstance(node, ast.Attribute) and node.attr == "shape" and value == ():
        return "a scalar has no dimensions; an array argument is a pointer to one element: pass its shape as arguments"
    return ""


def _bounds(index: Any) -> tuple[Any, ...]:
    if not isinstance(index, slice):
        return (index,)
    piece = cast("slice[Any, Any, Any]", index)
    return piece.start, piece.stop, piece.step


@expression(ast.ListComp)
def _comprehension(walker: Walker, node: ast.ListComp) -> tuple[Any, ...]:
    """A tuple; the loop is unrolled, and its variables are gone afterwards."""
    held = dict(walker.scope.names)
    result = tuple(_generate(walker, node.elt, node.generators))
    targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    for name in targets:
        walker.scope.names.pop(name, None)
        if name in held:
            walker.scope.names[name] = held[name]
    return result


def _generate(walker: Walker, element: ast.expr, generators: Sequence[ast.comprehension]) -> Iterator[Any]:
    if not generators:
        yield walker.evaluate(element)
        return
    first, *others = generators
    for item in known_items(walker.evaluate(first.iter)):
        assign_target(walker, first.target, item, keep=True)
        if all(_holds(walker, test) for test in first.ifs):
            yield from _generate(walker, element, others)


def _holds(walker: Walker, test: ast.expr) -> bool:
    value = walker.evaluate(test)
    with walker.at(test):
        if is_runtime(value):
            advice = "a tuple has as many parts in every run"
            raise ConstexprNeeded(construct="the filter of a comprehension", found=describe(value), advice=advice)
        return truth(value)


@expression(ast.JoinedStr)
def _joined_string(walker: Walker, node: ast.JoinedStr) -> str:
    return "".join(str(walker.evaluate(part)) for part in node.values)


CONVERSIONS: dict[int, Callable[[Any], Any]] = {-1: lambda value: value, ord("s"): str, ord("r"): repr, ord("a"): ascii}


@expression(ast.FormattedValue)
def _formatted(walker: Walker, node: ast.FormattedValue) -> str:
    value = walker.evaluate(node.value)
    if is_runtime(value):
        raise ConstexprNeeded(construct="a value in an f-string", found=describe(value), advice=TO_PRINT)
    layout = "" if node.format_spec is None else walker.evaluate(node.format_spec)
    return at_compile_time("the f-string", lambda: format(CONVERSIONS[node.conversion](value), layout))
