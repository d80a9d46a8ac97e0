"""The shape of a meaning: prepared once an op, run once a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tilewright.lang import FloatType, Operation, Value, element_of

#: `runner(batch, *operands)` gives the op's result, a tuple of several, or None for none.
Runner: TypeAlias = Callable[..., Any]
#: Does the static work of an op (attributes, types, where its pointer comes from) and returns what is left.
Prepare: TypeAlias = Callable[[Operation], Runner]


def int_attribute(operation: Operation, name: str) -> int:
    """An attribute that is an integer."""
    value = operation.attributes[name]
    assert isinstance(value, int)
    return value


def tuple_attribute(operation: Operation, name: str) -> tuple[Any, ...]:
    """An attribute that is a tuple."""
    value = operation.attributes[name]
    assert isinstance(value, tuple)
    return value


def format_of(value: Value) -> str:
    """The name of the float format of a value's elements."""
    element = element_of(value.type)
    assert isinstance(element, FloatType)
    return element.name
