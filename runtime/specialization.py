"""From the values of a call to the assumptions a kernel is compiled under.

Each argument becomes a runtime parameter of some type, perhaps with promises (its address or value is a multiple
of 16), or a compile-time constant. The rules are Triton's, so that a kernel means the same under both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from tilewright.lang import (
    DeviceFunction,
    constexpr,
    dtype,
    float32,
    int1,
    int32,
    int64,
    parse_type,
    pointer_type,
    shown,
    type_text,
    uint64,
)

from .arguments import ArrayArgument, array_argument
from .errors import ArgumentError

#: A parameter's type, those of the elements of a tuple, or a value known when compiling.
ParameterType: TypeAlias = "dtype | tuple[ParameterType, ...] | constexpr"


class Bound(NamedTuple):
    """One argument, specialized: its type or constant, its promise, and what to pass at launch (None for constants)."""

    type: ParameterType
    divisible: bool = False
    payload: Any = None


class Rules(NamedTuple):
    """How one parameter may be specialized: `value` for ==1, `alignment` for multiples of 16.

    `const`: an array may be read only.
    """

    value: bool = True
    alignment: bool = True
    const: bool = False


#: The largest number that Python's float takes.
LARGEST = int(sys.float_info.max)
INT_TYPES: tuple[tuple[dtype, int, int], ...] = tuple(
    (type_, type_.get_int_min_value(), type_.get_int_max_value()) for type_ in (int32, int64, uint64)
)


def specialize(value: Any, annotation: dtype | None, rules: Rules) -> Bound:
    """One argument of a runtime parameter, annotated with a type or not.

    Raises ArgumentError for values that only a constexpr parameter takes, or that the annotation refuses.
    """
    array = array_argument(value)
    if array is not None:
        return _specialize_array(array, annotation, rules)
    if isinstance(value, np.generic):
        value = cast("Any", value).item()
    for kinds, handler in _BY_KIND:
        if isinstance(value, kinds):
            return handler(value, annotation, rules)
    kind = type(cast("object", value))
    hint = "annotate the parameter with tl.constexpr to pass a compile-time value"
    if kind is list:
        hint = "pass an array for data, or a tuple for a fixed number of values"
    raise ArgumentError(f"a {kind.__name__} is no argument for a runtime parameter: {value!r}", hint)


def _specialize_array(array: ArrayArgument, annotation: dtype | None, rules: Rules) -> Bound:
    type_ = pointer_type(parse_type(array.dtype), const=rules.const)
    if annotation is not None:
        if not isinstance(annotation, pointer_type):
            raise ArgumentError(f"an array of {array.dtype} was passed where {annotation} is annotated")
        if annotation.element_ty.itemsize != type_.element_ty.itemsize:
            raise ArgumentError(
                f"an array of {array.dtype} was passed where {annotation} is annotated",
                "leave the annotation out, or pass array.view(...) of that type",
            )
        type_ = annotation  # the same bytes under another type, as a cast in C would have it
    return Bound(type_, rules.alignment and array.is_aligned, array)


def _specialize_bool(value: bool, annotation: dtype | None, rules: Rules) -> Bound:
    return Bound(_number(annotation, int1), payload=value)


def _specialize_int(value: int, annotation: dtype | None, rules: Rules) -> Bound:
    divisible = rules.alignment and value % 16 == 0
    if isinstance(annotation, pointer_type):
        return Bound(annotation, divisible, value)
    if annotation is not None:
        if annotation.is_floating() and abs(value) > LARGEST:
            raise ArgumentError(f"an integer of {value.bit_length()} bits is too large for {annotation}")
        if annotation.is_int() and not annotation.get_int_min_value() <= value <= annotation.get_int_max_value():
            raise ArgumentError(f"{shown(value)!r} does not fit the annotated {annotation}")
        return Bound(annotation, divisible and annotation.is_int(), value)
    if value == 1 and rules.value:
        return Bound(constexpr(1))
    for type_, low, high in INT_TYPES:
        if low <= value <= high:
            return Bound(type_, divisible, value)
    raise ArgumentError(f"{shown(value)!r} fits no integer type of 64 bits")


def _specialize_float(value: float, annotation: dtype | None, rules: Rules) -> Bound:
    type_ = _number(annotation, float32)
    if not type_.is_floating():
        raise ArgumentError(f"{value} was passed where {annotation} is annotated")
    return Bound(type_, payload=value)


def _specialize_constant(value: Any, annotation: dtype | None, rules: Rules) -> Bound:
    return Bound(constexpr(value))


def _specialize_constexpr(value: constexpr, annotation: dtype | None, rules: Rules) -> Bound:
    return Bound(constexpr(value))


def _specialize_tuple(value: tuple[Any, ...], annotation: dtype | None, rules: Rules) -> Bound:
    parts = tuple(specialize(part, None, Rules()) for part in value)
    types: list[Any] = [part.type for part in parts]
    kind: Any = type(value)  # a named tuple keeps the names of its fields
    return Bound(kind(*types) if hasattr(value, "_fields") else tuple(types), payload=parts)


def _number(annotation: dtype | None, default: dtype) -> dtype:
    if isinstance(annotation, pointer_type):
        raise ArgumentError(f"a number was passed where {annotation} is annotated")
    return default if annotation is None else annotation


_BY_KIND: tuple[tuple[Any, Callable[[Any, dtype | None, Rules], Bound]], ...] = (
    (bool, _specialize_bool),
    (int, _specialize_int),
    (float, _specialize_float),
    (NoneType, _specialize_constant),
    (constexpr, _specialize_constexpr),
    (DeviceFunction, _specialize_constant),
    (tuple, _specialize_tuple),
)


class Specialization:
    """All arguments of a call, by parameter name, in the order of the parameters."""

    __slots__ = ("bound",)

    def __init__(self, bound: Mapping[str, Bound]) -> None:
        self.bound = bound

    @property
    def signature(self) -> dict[str, Any]:
        """The type of each runtime parameter."""
        return {name: arg.type for name, arg in self.bound.items() if not isinstance(arg.type, constexpr)}

    @property
    def constants(self) -> dict[str, Any]:
        """The value of each compile-time parameter."""
        return {name: arg.type.value for name, arg in self.bound.items() if isinstance(arg.type, constexpr)}

    @property
    def attributes(self) -> dict[str, dict[str, int]]:
        """The promises on each runtime parameter."""
        return {name: {"divisibility": 16} for name, arg in self.bound.items() if arg.divisible}

    @property
    def payload(self) -> list[Any]:
        """What is passed at launch: arrays and numbers, in order."""
        return [leaf for arg in self.bound.values() for leaf in _leaves(arg)]


def _leaves(arg: Bound) -> Sequence[Any]:
    if isinstance(arg.type, constexpr):
        return ()
    if isinstance(arg.type, tuple):
        return [leaf for part in arg.payload for leaf in _leaves(part)]
    return (arg.payload,)


def describe(arg: Bound) -> str:
    """The specialization of one argument as text: `*fp32:16`, `i32`, `constexpr 1`."""
    if isinstance(arg.type, constexpr):
        return f"constexpr {shown(arg.type.value)!r}"
    if isinstance(arg.type, tuple):
        return f"({', '.join(describe(part) for part in arg.payload)})"
    return f"{type_text(arg.type)}{':16' if arg.divisible else ''}"
