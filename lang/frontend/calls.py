"""Calls: of device functions, of `tl` functions and methods, and of what runs at compile time."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, cast

from ..constants import constexpr, unwrap
from ..dtypes import dtype
from ..errors.operations import BadArguments
from ..errors.syntax import ConstexprNeeded, NotCallable
from ..language import block_pointer
from ..values import describe, tensor
from .admission import may_call, refusal
from .builtins import BUILTINS
from .expressions import evaluate_all
from .function import ConstexprFunction, DeviceFunction, show_signature
from .operators import at_compile_time
from .walker import Walker, expression, is_runtime, unsupported

Arguments = Sequence[Any]
Keywords = Mapping[str, Any]


@expression(ast.Call)
def _call(walker: Walker, node: ast.Call) -> Any:
    callee = walker.evaluate(node.func)
    arguments = tuple(evaluate_all(walker, node.args))
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise unsupported(keyword, "`**` in a call", "write the keyword arguments out")
        keywords[keyword.arg] = walker.evaluate(keyword.value)
    return unwrap(call(walker, callee, arguments, keywords))


def call(walker: Walker, callee: Any, arguments: Arguments, keywords: Keywords) -> Any:
    """What the callee gives. Raises NotCallable, PlainPythonFunction, BadArguments and what the callee raises.

    What Python code raises that is no part of the language becomes a CompileTimeFailure.
    """
    if isinstance(callee, DeviceFunction):
        return walker.generator.call(callee, arguments, keywords)
    if isinstance(callee, partial):  # a method of a tensor, which checks its arguments
        return cast("partial[Any]", callee)(*arguments, **keywords)
    if isinstance(callee, tensor | dtype) or not callable(callee):
        name = repr(callee).replace("tilewright.language.", "tl.")
        hint = f"convert a value: `x.to({name})`" if isinstance(callee, dtype) else ""
        raise NotCallable(found=describe(callee), hint=hint)
    if not may_call(callee):
        raise refusal(callee)
    if isinstance(callee, ConstexprFunction | BuiltinFunctionType):
        return _call_at_compile_time(callee, arguments, keywords)
    if isinstance(callee, type):
        return _make(callee, arguments, keywords)
    if isinstance(callee, MethodType) and not isinstance(callee.__self__, block_pointer):
        return at_compile_time(f"`{callee.__name__}`", _checked, callee, arguments, keywords)
    return _checked(callee, arguments, keywords)


def _make(callee: type[Any], arguments: Arguments, keywords: Keywords) -> Any:
    """A call of a class: one of Python's own, a named tuple, an enum, or one of the language."""
    meaning = BUILTINS.get(callee)
    if meaning is not None:
        return _checked(meaning, arguments, keywords, callee.__name__)
    if callee is constexpr:
        _need_constants("tl.constexpr", arguments, keywords, "a runtime value cannot become one; pass it as it is")
    return at_compile_time(f"`{callee.__name__}`", _checked, callee, arguments, keywords)


@lru_cache(maxsize=256)
def _signature(function: FunctionType) -> inspect.Signature:
    """The signature of a function, which kernels call more than once."""
    return inspect.signature(function)


def _checked(callee: Any, arguments: Arguments, keywords: Keywords, name: str = "") -> Any:
    """Call a function of the language once its arguments are known to fit. Raises BadArguments."""
    signature = _signature(callee) if isinstance(callee, FunctionType) else inspect.signature(callee)
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        shown = show_signature(signature)
        raise BadArguments(function=name or callee.__name__, problem=str(error), signature=shown) from None
    return callee(*arguments, **keywords)


def _call_at_compile_time(callee: Any, arguments: Arguments, keywords: Keywords) -> Any:
    meaning = BUILTINS.get(callee) if isinstance(callee, BuiltinFunctionType) else None
    if meaning is not None:
        return _checked(meaning, arguments, keywords, callee.__name__)
    name = getattr(callee, "__name__", "the function")
    advice = "use the function of `tl`" if getattr(callee, "__module__", "") == "math" else "pass a constexpr"
    _need_constants(name, arguments, keywords, advice)
    return at_compile_time(f"`{name}`", callee, *arguments, **keywords)


def _need_constants(name: str, arguments: Arguments, keywords: Keywords, advice: str) -> None:
    """Raise ConstexprNeeded if an argument is a runtime value."""
    for value in (*arguments, *keywords.values()):
        if is_runtime(value):
            raise ConstexprNeeded(construct=f"the argument of `{name}`", found=describe(value), advice=advice)
