"""All that an expression may be: the rows of every kind, and expressions of expressions."""

from __future__ import annotations

from dataclasses import replace

from . import operations, rearranging, reductions
from .maker import Maker
from .numbers import BOOL, UINT
from .operations import Row
from .source import Expr, Place, derived

#: The rows and their weights, the simplest first.
ROWS: tuple[tuple[Row, int], ...] = (*operations.ROWS, *rearranging.ROWS, *reductions.ROWS)


def expression(maker: Maker, place: Place) -> Expr:
    """Any of them; one in four of operands that are expressions themselves."""
    made = maker.choices.weighted(ROWS)(maker, place)
    if maker.choices.boolean(25) and made.type.kind != BOOL and made.type.kind != UINT:
        other = maker.alike(place, made, (made.type.kind,))
        exact = not (made.type.is_float and (made.product or other.product))
        made = derived(f"{made.operand} + {other.operand}", made.type, made, other, exact=exact, simple=False)
        made = replace(made, product=False)
    return made
