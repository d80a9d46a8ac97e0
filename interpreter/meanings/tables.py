"""The shape of a meaning: prepared once an op, run once a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tilewright.lang import FloatType, Operation, Value, element_of

#: `runner(batch, *operands)` gives the op's result, a tuple of several, or None for none.
Runner: TypeAlias = Callable[..., Any]
#: Does the static work of an op (attributes, types, where its pointer comes from) and returns what is left.
Prepare: TypeAlias = Callable[[Operation], Runner]


def format_of(value: Value) -> str:
    """The name of the float format of a value's elements."""
    element = element_of(value.type)
    assert isinstance(element, FloatType)
    return element.name
