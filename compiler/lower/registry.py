"""The table of lowerings: for each op, the function that writes it and what the target must have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tilewright.lang import Operation, ScalarType, element_of

from ..targets import Needs

if TYPE_CHECKING:
    from .context import Lowering

#: Writes an operation and binds its results.
Lower: TypeAlias = "Callable[[Lowering, Operation], None]"
#: (lowering, operation, one element of each operand) -> that element of the result.
Elementwise: TypeAlias = "Callable[[Lowering, Operation, list[str]], str]"
#: (lowering, operation, some elements of each operand) -> those elements of the result.
Columnwise: TypeAlias = "Callable[[Lowering, Operation, list[list[str]]], list[str]]"


#: What every target has.
ALWAYS = Needs()


@dataclass(frozen=True, slots=True)
class LoweringRow:
    """One row: the function, what it needs of every target, and which types of the op it leaves out.

    `refused` names the element types (of the first operand) that have no lowering yet.
    """

    lower: Lower
    needs: Needs = ALWAYS
    refused: frozenset[ScalarType] = frozenset()


LOWERINGS: dict[str, LoweringRow] = {}


def lowers(*names: str, needs: Needs = ALWAYS) -> Callable[[Lower], Lower]:
    """Register how these ops are written."""

    def register(function: Lower) -> Lower:
        add(names, LoweringRow(function, needs))
        return function

    return register


def lowers_columns(
    *names: str, needs: Needs = ALWAYS, refused: frozenset[ScalarType] = frozenset()
) -> Callable[[Columnwise], Columnwise]:
    """Register how these elementwise ops are written on all the elements that a thread has.

    Elements that are known to be the same, such as those of a mask with one bound for whole runs, are made once.
    """

    def register(function: Columnwise) -> Columnwise:
        def lower(to: Lowering, operation: Operation) -> None:
            alike = to.alike(operation.result)
            kept = sorted(set(alike))
            columns = [[to.values[operand][register] for register in kept] for operand in operation.operands]
            made = dict(zip(kept, function(to, operation, columns), strict=True))
            to.values[operation.result] = tuple(made[register] for register in alike)

        add(names, LoweringRow(lower, needs, refused))
        return function

    return register


def lowers_elements(
    *names: str, needs: Needs = ALWAYS, refused: frozenset[ScalarType] = frozenset()
) -> Callable[[Elementwise], Elementwise]:
    """Register how one element of these elementwise ops is written; it is done for each register, as above."""

    def register(function: Elementwise) -> Elementwise:
        @lowers_columns(*names, needs=needs, refused=refused)
        def _each(to: Lowering, operation: Operation, columns: list[list[str]]) -> list[str]:
            return [function(to, operation, list(elements)) for elements in zip(*columns, strict=True)]

        return function

    return register


def add(names: tuple[str, ...], row: LoweringRow) -> None:
    """Put a row into the table. Raises ValueError when an op has one."""
    for name in names:
        if name in LOWERINGS:
            raise ValueError(f"{name} is lowered twice")
        LOWERINGS[name] = row


def source_element(operation: Operation) -> ScalarType:
    """The element type of the first operand."""
    return element_of(operation.operands[0].type)


def result_element(operation: Operation) -> ScalarType:
    """The element type of the first result."""
    return element_of(operation.results[0].type)
