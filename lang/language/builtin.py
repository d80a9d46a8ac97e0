"""What makes a Python function a `tl` function: the mark that kernels may call it, and errors for wrong calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ..constants import unwrap
from ..errors.operations import BadArguments
from ..frontend.function import show_signature
from ..values import MEMBERS

P = ParamSpec("P")
R = TypeVar("R")
_BUILTINS: set[int] = set()


def builtin(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function of frontend values as one that kernels may call. Raises BadArguments when called wrongly."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        plain: dict[str, Any] = {name: unwrap(value) for name, value in kwargs.items()}
        values: list[Any] = [unwrap(value) for value in args]
        try:
            return function(*values, **plain)  # pyright: ignore[reportCallIssue]
        except TypeError:
            _check_call(function, values, plain)
            raise

    _BUILTINS.add(id(call))
    return call


def member(function: Callable[P, R]) -> Callable[P, R]:
    """`builtin`, and a method of tensors too."""
    call = builtin(function)
    MEMBERS[function.__name__] = call
    return call


def is_builtin(function: object) -> bool:
    """Whether kernels may call this function: it is one of `tl`."""
    return id(function) in _BUILTINS


def _check_call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raise BadArguments if the arguments do not fit the parameters."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise BadArguments(
            function=function.__name__, problem=str(error), signature=show_signature(signature)
        ) from None
