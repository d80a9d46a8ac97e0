"""What Python's own functions mean in a kernel."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import reduce
from typing import Any

from .. import language
from ..constants import constexpr
from ..errors.operations import BadOperand
from ..errors.syntax import ConstexprNeeded
from ..values import describe, parts_of, tensor
from .operators import TO_PRINT, at_compile_time
from .ranges import known_items
from .walker import as_tuple, is_runtime


def _known(function: Callable[..., Any], advice: str) -> Callable[..., Any]:
    """A function that works on compile-time values only."""
    name = function.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if is_runtime(value):
                raise ConstexprNeeded(construct=f"the argument of `{name}`", found=describe(value), advice=advice)
        return at_compile_time(f"`{name}`", function, *args, **kwargs)

    return call


def _extreme(function: Callable[..., Any], runtime: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        values = known_items(args[0], f"`{function.__name__}` of") if len(args) == 1 else args
        if not any(map(is_runtime, values)):
            return at_compile_time(f"`{function.__name__}`", function, values)
        return reduce(getattr(language, runtime), values)

    return call


def _abs(value: Any) -> Any:
    return language.abs(value) if isinstance(value, tensor) else at_compile_time("`abs`", builtins.abs, value)


def _len(value: Any) -> int:
    if isinstance(value, tensor):
        if not value.shape:
            hint = "an array argument is a pointer; pass the length as an argument" if value.dtype.is_ptr() else ""
            raise BadOperand(function="`len`", found=describe(value), expected="a tile or a tuple", hint=hint)
        return value.shape[0]
    return at_compile_time("`len`", len, value)


def _isinstance(value: Any, kinds: Any) -> bool:
    """Compile-time values count as constexpr: inside of a kernel they have no wrapper."""
    each = as_tuple(kinds) or (kinds,)
    if constexpr in each and not isinstance(value, tensor) and parts_of(value) is None:
        return True
    return at_compile_time("`isinstance`", isinstance, value, kinds)


def _getattr(value: Any, name: str, *default: Any) -> Any:
    return at_compile_time("`getattr`", getattr, value, name, *default)


def _hasattr(value: Any, name: str) -> bool:
    return at_compile_time("`hasattr`", hasattr, value, name)


def _print(*args: Any, **kwargs: Any) -> None:
    language.device_print(*args, **kwargs)


def _range(start: Any, stop: Any = None, step: Any = None, /) -> Any:
    return language.range(start, stop, step)


def _tuple(values: Any = (), /) -> tuple[Any, ...]:
    return tuple(known_items(values, "the items of"))


#: The meaning of each of `names.PYTHON_BUILTINS`.
BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.abs: _abs,
    builtins.bool: _known(bool, "compare a runtime value: `x != 0`"),
    builtins.float: _known(float, "cast a runtime value: `x.to(tl.float32)`"),
    builtins.getattr: _getattr,
    builtins.hasattr: _hasattr,
    builtins.int: _known(int, "cast a runtime value: `x.to(tl.int32)`"),
    builtins.isinstance: _isinstance,
    builtins.len: _len,
    builtins.list: _tuple,
    builtins.max: _extreme(max, "maximum"),
    builtins.min: _extreme(min, "minimum"),
    builtins.print: _print,
    builtins.range: _range,
    builtins.str: _known(str, TO_PRINT),
    builtins.tuple: _tuple,
}
