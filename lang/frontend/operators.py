"""Operators on frontend values: a tensor's own, Python's where no tensor takes part."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable
from typing import Any

from ..errors.base import CompilationError, shown
from ..errors.operations import BadOperands
from ..errors.syntax import CompileTimeFailure, ConstexprNeeded, UnsupportedConstruct
from ..language import block_pointer
from ..semantic import logical_and, logical_not, logical_or
from ..values import OPERATORS, describe, tensor
from .walker import Walker, expression, is_runtime

Binary = Callable[[Any, Any], Any]
TO_PRINT = "print runtime values by `tl.device_print(prefix, value)`"


class TileLogicWarning(UserWarning):
    """`and` or `or` of tiles, which evaluates both sides and works element by element."""


def at_compile_time(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of Python code on compile-time values. Raises CompileTimeFailure if it raises."""
    try:
        return function(*args, **kwargs)
    except CompilationError:
        raise
    except Exception as error:
        raise CompileTimeFailure(what=what, kind=type(error).__name__, detail=error) from error


def _binary(symbol: str, function: Binary) -> Binary:
    """An operator that tensors have. Where one takes part, Python has no say: a str would format it, as `str % x`."""

    def apply(a: Any, b: Any) -> Any:
        if symbol == "%" and isinstance(a, str) and is_runtime(b):
            raise ConstexprNeeded(construct="a value in a formatted string", found=describe(b), advice=TO_PRINT)
        if isinstance(a, tensor) or isinstance(b, tensor):
            return OPERATORS[symbol](a, b)
        return _of_constants(symbol, function, a, b)

    return apply


def _refused(symbol: str, function: Binary, advice: str) -> Binary:
    """An operator of compile-time values only."""

    def apply(a: Any, b: Any) -> Any:
        if isinstance(a, tensor) or isinstance(b, tensor):
            raise UnsupportedConstruct(construct=f"`{symbol}` of tensors", advice=advice)
        return _of_constants(symbol, function, a, b)

    return apply


def _of_constants(symbol: str, function: Binary, a: Any, b: Any) -> Any:
    if symbol not in ("==", "!=") and (isinstance(a, block_pointer) or isinstance(b, block_pointer)):
        hint = "move it by `tl.advance(pointer, offsets)`"
        raise BadOperands(operator=symbol, a=describe(a), b=describe(b), expected="tensors or numbers", hint=hint)
    return at_compile_time(f"`{_word(a)} {symbol} {_word(b)}`", function, a, b)


def _word(value: Any) -> str:
    return repr(shown(value)) if isinstance(value, bool | int | float | str) else describe(value)


BINARY: dict[type[ast.operator], Binary] = {
    ast.Add: _binary("+", lambda a, b: a + b),
    ast.Sub: _binary("-", lambda a, b: a - b),
    ast.Mult: _binary("*", lambda a, b: a * b),
    ast.Div: _binary("/", lambda a, b: a / b),
    ast.FloorDiv: _binary("//", lambda a, b: a // b),
    ast.Mod: _binary("%", lambda a, b: a % b),
    ast.BitAnd: _binary("&", lambda a, b: a & b),
    ast.BitOr: _binary("|", lambda a, b: a | b),
    ast.BitXor: _binary("^", lambda a, b: a ^ b),
    ast.LShift: _binary("<<", lambda a, b: a << b),
    ast.RShift: _binary(">>", lambda a, b: a >> b),
    ast.Pow: _refused("**", lambda a, b: a**b, "multiply, or write `tl.exp2(y * tl.log2(x))`"),
    ast.MatMult: _refused("@", lambda a, b: a @ b, "use `tl.dot(a, b)`"),
}


def _contains(item: Any, container: Any) -> bool:
    return item in container


COMPARE: dict[type[ast.cmpop], Binary] = {
    ast.Eq: _binary("==", operator.eq),
    ast.NotEq: _binary("!=", operator.ne),
    ast.Lt: _binary("<", operator.lt),
    ast.LtE: _binary("<=", operator.le),
    ast.Gt: _binary(">", operator.gt),
    ast.GtE: _binary(">=", operator.ge),
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: _refused("in", _contains, "compare with each value"),
    ast.NotIn: _refused("not in", lambda item, container: item not in container, "compare with each value"),
}


def _unary(symbol: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(a: Any) -> Any:
        if isinstance(a, tensor):
            return function(a)
        return at_compile_time(f"`{symbol}{_word(a)}`", function, a)

    return apply


def _not(a: Any) -> Any:
    return logical_not(a) if isinstance(a, tensor) else at_compile_time(f"`not {_word(a)}`", operator.not_, a)


UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: _unary("-", operator.neg),
    ast.UAdd: lambda a: a if isinstance(a, tensor) else at_compile_time(f"`+{_word(a)}`", operator.pos, a),
    ast.Invert: _unary("~", operator.invert),
    ast.Not: _not,
}


@expression(ast.BinOp)
def _binary_operation(walker: Walker, node: ast.BinOp) -> Any:
    a, b = walker.evaluate(node.left), walker.evaluate(node.right)
    return BINARY[type(node.op)](a, b)


@expression(ast.UnaryOp)
def _unary_operation(walker: Walker, node: ast.UnaryOp) -> Any:
    return UNARY[type(node.op)](walker.evaluate(node.operand))


@expression(ast.Compare)
def _compare(walker: Walker, node: ast.Compare) -> Any:
    """Each operand is evaluated once. As in Python, what is known to be false ends the chain."""
    left = walker.evaluate(node.left)
    result: Any = True
    for kind, part in zip(node.ops, node.comparators, strict=True):
        right = walker.evaluate(part)
        outcome = COMPARE[type(kind)](left, right)
        result = outcome if result is True else _both(result, outcome)
        if not isinstance(result, tensor) and not truth(result):
            return result
        left = right
    return result


def truth(value: Any) -> bool:
    """Whether a compile-time value counts as true. Raises CompileTimeFailure if it does not say."""
    return at_compile_time(f"the truth of {describe(value)}", bool, value)


def _both(a: Any, b: Any) -> Any:
    if isinstance(a, tensor) or isinstance(b, tensor):
        return logical_and(a, b)
    return b if truth(a) else a


@expression(ast.BoolOp)
def _bool_operation(walker: Walker, node: ast.BoolOp) -> Any:
    """Compile-time values short-circuit as in Python; once a runtime value has been met, all sides are evaluated."""
    is_and = isinstance(node.op, ast.And)
    combine = logical_and if is_and else logical_or
    result = walker.evaluate(node.values[0])
    for part in node.values[1:]:
        if not isinstance(result, tensor):
            if truth(result) is not is_and:
                return result
            result = walker.evaluate(part)
            continue
        other = walker.evaluate(part)
        _warn_of_tiles(walker, node, result, other)
        result = combine(result, other)
    return result


def _warn_of_tiles(walker: Walker, node: ast.BoolOp, a: Any, b: Any) -> None:
    if any(isinstance(x, tensor) and x.shape for x in (a, b)):
        word, symbol = ("and", "&") if isinstance(node.op, ast.And) else ("or", "|")
        message = f"`{word}` of tiles works element by element and evaluates both sides; write `{symbol}`"
        warnings.warn_explicit(message, TileLogicWarning, walker.source.file, walker.source.line(node))
