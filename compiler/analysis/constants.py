"""Which values are literals."""

from __future__ import annotations

from typing import Any

from tilewright.lang import IntType, Value, element_of


def signed(value: int, width: int) -> int:
    """The low bits of a number as a signed one."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def constant_of(value: Value) -> int | float | None:
    """The literal that a value is, signed for integers; None when it is none."""
    producer = value.producer
    if producer is None or producer.name != "constant":
        return None
    literal: Any = producer.attributes["value"]
    element = element_of(value.type)
    return signed(literal, element.width) if isinstance(element, IntType) else literal
