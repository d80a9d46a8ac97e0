"""What the sweeps run: every elementwise row and every atomic, on every type that its rule admits when it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, product
from typing import Any, TypeAlias

from tilewright.compiler import TARGETS
from tilewright.lang import NUMBERS, OPS, POINTERS, OpDef, OpTypeError, PointerType, ScalarType, Type

WARPS = (1, 2, 4, 8)
SCALARS: tuple[ScalarType, ...] = (*NUMBERS, *POINTERS)
ELEMENTWISE = sorted(row.name for row in OPS.values() if row.is_elementwise)
ATOMICS = sorted(name for name in OPS if name.startswith("atomic_"))
#: Cells, each with a number of warps and the name of a device.
Chosen: TypeAlias = "Iterable[tuple[Cell, int, str]]"
#: An atomic's orderings and scopes have a kernel together and are no part of a cell.
ORDER = ("sem", "scope")


@dataclass(frozen=True, slots=True)
class Cell:
    """A row on operands of certain types, with certain attributes. `number` counts a row's cells from some number on.

    For an atomic the first of `operands` is the type of what it acts on.
    """

    row: str
    operands: tuple[ScalarType, ...]
    result: ScalarType
    attributes: tuple[tuple[str, Any], ...]
    number: int

    def __str__(self) -> str:
        types = ", ".join(map(str, dict.fromkeys((*self.operands, self.result))))
        return " ".join([self.row, *(str(value) for _, value in self.attributes), types])


def attribute_values(row: OpDef, without: Sequence[str] = ()) -> list[tuple[tuple[str, Any], ...]]:
    """Every combination of values of the attributes that have finitely many; the others keep their defaults."""
    choices = {a.name: (False, True) if a.kind is bool else a.choices for a in row.attributes if a.name not in without}
    return list(product(*([(name, value) for value in values] for name, values in choices.items() if values)))


def results(row: OpDef, operands: Sequence[Type], attributes: Sequence[tuple[str, Any]]) -> list[Any]:
    """The types that the row yields of these operands, none if it refuses them; a conversion is asked for each type."""
    requests = [None, *((each,) for each in SCALARS)] if len(operands) == 1 else [None]
    found: list[Any] = []
    for requested in requests:
        try:
            found += row.infer(operands, row.fill(dict(attributes)), requested)
        except OpTypeError:
            pass  # the answer is no
    return list(dict.fromkeys(found))


@cache
def elementwise_cells(name: str) -> list[Cell]:
    """The cells of an elementwise row."""
    numbers = count(ELEMENTWISE.index(name))
    return [
        Cell(name, operands, result, attributes, next(numbers))
        for attributes in attribute_values(OPS[name])
        for operands in product(SCALARS, repeat=len(OPS[name].operands))
        for result in results(OPS[name], operands, attributes)
    ]


@cache
def atomic_cells(name: str) -> list[Cell]:
    """The cells of an atomic: its kinds and types."""
    numbers = count(ATOMICS.index(name))
    return [
        Cell(name, (element,), element, attributes, next(numbers))
        for attributes in attribute_values(OPS[name], without=ORDER)
        for element in NUMBERS
        if admits_atomic(OPS[name], element, attributes)
    ]


def admits_atomic(row: OpDef, element: ScalarType, attributes: Sequence[tuple[str, Any]]) -> bool:
    """Whether an atomic acts on memory of this type."""
    assert not isinstance(element, PointerType)
    values = [element] * (row.required - 1)
    try:
        row.infer([PointerType(element), *values], row.fill(dict(attributes)), None)
    except OpTypeError:
        return False
    return True


def orders(row: str) -> list[dict[str, str]]:
    """Every ordering and scope of an atomic."""
    choices = {attribute.name: attribute.choices for attribute in OPS[row].attributes}
    return [dict(zip(ORDER, pair, strict=True)) for pair in product(*(choices[name] for name in ORDER))]


def emulator(turn: int) -> str:
    """The emulator of a target, each in turn."""
    return f"emulator:{list(TARGETS)[turn % len(TARGETS)]}"


def some(cells: Sequence[Cell], most: int) -> Chosen:
    """Up to `most` cells of a row at even distances, each with a number of warps and an emulator in turn."""
    first = cells[0].number
    step = -(-len(cells) // most)
    for turn, cell in enumerate(cells[first % step :: step], first):
        yield cell, WARPS[turn % len(WARPS)], emulator(turn)


def everywhere(cells: Sequence[Cell]) -> Chosen:
    """Cells with every number of warps, each on an emulator in turn."""
    for turn, (cell, num_warps) in enumerate(product(cells, WARPS), cells[0].number):
        yield cell, num_warps, emulator(turn)
