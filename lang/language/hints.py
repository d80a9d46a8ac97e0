"""Promises to the compiler, and the barrier."""

from __future__ import annotations

from typing import Any

from ..context import current
from ..errors.operations import HintCount, NotOneElement
from ..ops.debug import ASSUME, BARRIER
from ..ops.shape import HINT
from ..semantic import to_condition
from ..semantic.core import reshaped
from ..values import describe, tensor
from .arguments import integers, operand
from .builtin import builtin


@builtin
def multiple_of(input: Any, values: Any) -> tensor:
    """`input`, with the promise that its elements (the first of each run) are multiples of `values`.

    One positive integer a dimension, known at compile time; one for a scalar. Raises HintCount.
    """
    return _hint("multiple_of", "divisibility", input, values)


@builtin
def max_contiguous(input: Any, values: Any) -> tensor:
    """`input`, with the promise that its elements count up by one in runs of `values`.

    One positive integer a dimension, known at compile time. Raises HintCount.
    """
    return _hint("max_contiguous", "contiguity", input, values)


@builtin
def max_constancy(input: Any, values: Any) -> tensor:
    """`input`, with the promise that its elements are equal in runs of `values`.

    One positive integer a dimension, known at compile time. Raises HintCount.
    """
    return _hint("max_constancy", "constancy", input, values)


def _hint(function: str, attribute: str, input: Any, values: Any) -> tensor:
    x, given = operand(function, "input", input), integers(function, "values", values)
    rank = len(x.shape) or 1
    if len(given) != rank or any(value < 1 for value in given):
        raise HintCount(function=function, values=given, found=describe(x), rank=rank)
    return reshaped(HINT, x, **{attribute: given})


@builtin
def assume(cond: Any) -> None:
    """A promise that a scalar condition holds. Raises NotOneElement for a tile."""
    flag = to_condition(operand("assume", "cond", cond))
    if flag.shape:
        raise NotOneElement(function="assume", found=describe(flag), numel=flag.numel)
    current().create(ASSUME, [flag.handle])


@builtin
def debug_barrier() -> None:
    """Every thread of the program waits here for all others; memory accesses before it come before those after it."""
    current().create(BARRIER)
