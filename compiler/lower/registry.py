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
#: (lowering, element type of each operand, element type of the result, operands) -> the result; one element each.
Elementwise: TypeAlias = "Callable[[Lowering, Operation, list[str]], str]"


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


def lowers_elements(
    *names: str, needs: Needs = ALWAYS, refused: frozenset[ScalarType] = frozenset()
) -> Callable[[Elementwise], Elementwise]:
    """Register how one element of these ops is written; it is done for each register."""

    def register(function: Elementwise) -> Elementwise:
        def lower(to: Lowering, operation: Operation) -> None:
            columns = [to.values[operand] for operand in operation.operands]
            to.values[operation.result] = tuple(
                function(to, operation, list(elements)) for elements in zip(*columns, strict=True)
            )

        add(names, LoweringRow(lower, needs, refused))
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
