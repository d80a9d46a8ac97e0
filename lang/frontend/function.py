"""Device functions: Python functions that are compiled, not run; and functions that run at compile time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from ..constants import const, constexpr, unwrap
from ..context import current_generator
from ..errors.operations import BadArguments
from ..errors.syntax import CalledOutsideKernel, NotAKernelFunction, UnsupportedParameter
from .assigned import assigned_names
from .source import Source, read_source

P = ParamSpec("P")
R = TypeVar("R")
#: The default of a parameter that has none.
NO_DEFAULT: Any = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as it is written. `annotation` is None where there is none."""

    name: str
    annotation: Any
    default: Any
    is_constexpr: bool
    is_variadic: bool = False  # *args
    is_const: bool = False  # a pointer that may be loaded through only

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


def is_constexpr_annotation(annotation: Any) -> bool:
    """Whether an annotation, evaluated or as text, says `tl.constexpr`."""
    return annotation is constexpr or (isinstance(annotation, str) and "constexpr" in annotation)


def is_const_annotation(annotation: Any) -> bool:
    """Whether an annotation, evaluated or as text, says `tl.const`."""
    return annotation is const or (isinstance(annotation, str) and annotation.strip("'\" ").split(".")[-1] == "const")


class DeviceFunction:
    """A Python function captured for compilation: its source, parameters, globals and closure.

    Calling it works inside a kernel only, and emits a call. Raises NotAKernelFunction for anything but a function made
    by `def`, and UnsupportedParameter for `**` parameters.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
            raise NotAKernelFunction(found=_kind(function))
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise NotAKernelFunction(found=f"the async function {function.__name__}")
        functools.update_wrapper(self, function)
        self.function = function
        self.name: str = function.__name__
        #: `module.qualname`, as locations and messages name it.
        self.qualified = f"{function.__module__}.{function.__qualname__}"
        self.signature = inspect.signature(function)
        self.parameters = tuple(map(self._parameter, self.signature.parameters.values()))

    def _parameter(self, parameter: inspect.Parameter) -> Parameter:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise UnsupportedParameter(function=self.name, parameter=parameter.name)
        annotation = None if parameter.annotation is NO_DEFAULT else parameter.annotation
        return Parameter(
            parameter.name,
            annotation,
            parameter.default,
            is_constexpr_annotation(annotation),
            parameter.kind is inspect.Parameter.VAR_POSITIONAL,
            is_const_annotation(annotation),
        )

    @functools.cached_property
    def source(self) -> Source:
        """The source, read when first asked for. Raises SourceUnavailable."""
        return read_source(self.function, self.qualified)

    @functools.cached_property
    def local_names(self) -> frozenset[str]:
        """The names of the parameters, and those that the source assigns."""
        return frozenset(assigned_names(self.source.tree.body)) | {each.name for each in self.parameters}

    def bind(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The value of each parameter in order, defaults filled in. Raises BadArguments."""
        try:
            bound = self.signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise BadArguments(function=self.name, problem=str(error), signature=self.show_signature()) from None
        bound.apply_defaults()
        return {name: unwrap(value) for name, value in bound.arguments.items()}

    def show_signature(self) -> str:
        """The parameters as messages show them: `(x, n=3, BLOCK: tl.constexpr)`."""
        return show_signature(self.signature)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            generator = current_generator()
        except RuntimeError:
            raise CalledOutsideKernel(function=self.name) from None
        return generator.call(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.qualified}>"


def _kind(value: object) -> str:
    name = getattr(value, "__name__", type(value).__name__)
    if name == "<lambda>":
        return "a lambda"
    return f"the {'class' if isinstance(value, type) else type(value).__name__} {name}"


def show_signature(signature: inspect.Signature) -> str:
    """A signature as messages show it: names and defaults, and no annotation but `tl.constexpr`."""
    shown = [
        parameter.replace(annotation=_CONSTEXPR if is_constexpr_annotation(parameter.annotation) else NO_DEFAULT)
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=shown, return_annotation=NO_DEFAULT))


class _Word:
    """Something whose repr is a word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


_CONSTEXPR = _Word("tl.constexpr")


def device_function(function: Callable[..., Any]) -> DeviceFunction:
    """Make a function of kernel code, to be called by kernels and other device functions. For use as a decorator."""
    return DeviceFunction(function)


class ConstexprFunction(Generic[P, R]):
    """A plain Python function that kernels may call on compile-time values; the result is one too."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        plain = {name: unwrap(value) for name, value in kwargs.items()}
        return unwrap(self.function(*map(unwrap, args), **plain))  # pyright: ignore[reportCallIssue]

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        bound = cast("FunctionType", self.function).__get__(instance, owner)
        return self if instance is None else ConstexprFunction(bound)

    def __repr__(self) -> str:
        return f"<constexpr_function {getattr(self.function, '__qualname__', self.function)}>"


def constexpr_function(function: Callable[P, R]) -> ConstexprFunction[P, R]:
    """Let kernels call a Python function at compile time. For use as a decorator."""
    return ConstexprFunction(function)
