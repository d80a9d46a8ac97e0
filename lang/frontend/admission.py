"""What may enter a kernel from outside, what a kernel may call, and what to say about the rest."""

from __future__ import annotations

import builtins
import enum
import math
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, cast

from .. import language
from .._lazy import close_names
from ..constants import constexpr
from ..dtypes import dtype
from ..errors.base import shown
from ..errors.syntax import NonConstexprGlobal, PlainPythonFunction
from ..values import describe
from .absent import AT_COMPILE_TIME, BUILTIN_ADVICE
from .function import ConstexprFunction, DeviceFunction

_LANG = __name__.rsplit(".", 2)[0]
#: Python's own functions that kernels may use; `builtins.py` says what they mean there.
PYTHON_BUILTINS = frozenset(
    "abs bool float getattr hasattr int isinstance len list max min print range str tuple".split()
)
#: Kinds of compile-time values whose methods, written in C, run at compile time.
_PLAIN = (bool, int, float, str, tuple, range)
#: What NumPy and ml_dtypes call the types of `tl`, where the names differ.
_TYPE_NAMES = {
    "bool": "int1",
    "bool_": "int1",
    "float8_e5m2": "float8e5",
    "float8_e5m2fnuz": "float8e5b16",
    "float8_e4m3fn": "float8e4nv",
    "float8_e4m3fnuz": "float8e4b8",
}
_EXPECTED = "a function of `tl` or `math`, or one decorated with @tilewright.jit or @tilewright.constexpr_function"


def admit(name: str, value: Any, place: str = "there") -> Any:
    """A value from outside of the kernel, unwrapped, if it cannot change between launches.

    `place` is where a hint says to make a constexpr of it. Raises NonConstexprGlobal or PlainPythonFunction.
    """
    if isinstance(value, constexpr):
        return value.value
    if _is_fixed(value):
        return value
    if callable(value):
        raise refusal(value, name)
    hint = _type_hint(name) or f"write `{name} = tl.constexpr(...)` {place}, or pass it as a parameter"
    raise NonConstexprGlobal(name=name, found=_describe(value), hint=hint)


def _describe(value: Any) -> str:
    if isinstance(value, bool | int | float | str):
        return f"the Python value {shown(value)!r}"
    return describe(value)


def _is_fixed(value: Any) -> bool:
    kinds = (dtype, ModuleType, enum.Enum)
    return value is None or isinstance(value, kinds) or may_call(value)


def may_call(value: Any) -> bool:
    """Whether kernels may call this: device functions, functions of `tl` and `math`, some of Python's own, and classes
    whose objects are compile-time values."""
    if isinstance(value, DeviceFunction | ConstexprFunction):
        return True
    if isinstance(value, BuiltinFunctionType):
        owner: Any = value.__self__
        return owner is math or isinstance(owner, _PLAIN) or _is_known_builtin(value)
    if isinstance(value, type):
        kind = cast("type[Any]", value)
        named_tuple = issubclass(kind, tuple) and hasattr(cast("type[Any]", kind), "_fields")
        return named_tuple or issubclass(kind, enum.Enum) or is_ours(kind) or _is_known_builtin(kind)
    return isinstance(value, FunctionType | MethodType) and is_ours(value)


def _is_known_builtin(value: Any) -> bool:
    return value.__name__ in PYTHON_BUILTINS and getattr(builtins, value.__name__) is value


def is_ours(value: Any) -> bool:
    """Whether a function or class belongs to the language itself."""
    return str(getattr(value, "__module__", "")).startswith(f"{_LANG}.")


def refusal(value: Any, name: str = "") -> PlainPythonFunction:
    """The mistake that the use of this Python function or class in a kernel is."""
    known = str(getattr(value, "__name__", name))
    hint = _type_hint(known) if isinstance(value, type) else ""
    expected = "a type of `tl`" if hint else _EXPECTED
    return PlainPythonFunction(
        name=name or known, found=_kind(value), expected=expected, hint=hint or _hint(value, known)
    )


def _kind(value: Any) -> str:
    if isinstance(value, FunctionType | MethodType):
        return "a plain Python function"
    module = getattr(value, "__module__", None) or type(value).__module__
    owner = "Python" if module == "builtins" else f"the module {module}"
    return f"a {'class' if isinstance(value, type) else 'function'} of {owner}"


def _type_hint(name: str) -> str:
    known = _TYPE_NAMES.get(name, name)
    return f"write `tl.{known}`" if isinstance(getattr(language, known, None), dtype) else ""


def _hint(value: Any, name: str) -> str:
    if getattr(builtins, name, None) is value:
        return BUILTIN_ADVICE.get(name, AT_COMPILE_TIME)
    if isinstance(value, FunctionType | MethodType):
        return "decorate it: @tilewright.jit compiles it, @tilewright.constexpr_function runs it at compile time"
    if name in language.__all__ and callable(getattr(language, name)):
        return f"use `tl.{name}`"
    return AT_COMPILE_TIME


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean ...?`, or nothing."""
    close = close_names(name, sorted(k for k in known if not k.startswith("_") and k != name))
    return f"did you mean `{close[0]}`?" if close else ""
