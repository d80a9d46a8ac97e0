"""What the other reductions make of enclosures: extremes, extremes with their index, and users' functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from tilewright.lang import FloatType, Operation, element_of

from ..batch import Batch
from ..control import Fold, Values, left_fold, make_fold, make_reduce
from ..meanings import MEANINGS, Runner
from ..meanings.tables import format_of
from ..plan import Planner, Run
from ..values import BatchValue, dense
from .arithmetic import extremum
from .arrays import NEVER, Array, hull, pack, unpack
from .memory import Undecided, references

#: Up to so many pairs are combined to find out what all bracketings of a user's function give.
MOST_PAIRS = 1 << 15


def extreme(operation: Operation) -> Runner:
    """`reduce_minnum` and `reduce_maxnum`: by halves, in an order that cannot be told."""
    plain, fmt = MEANINGS[operation.name](operation), format_of(operation.result)
    rule, axis = extremum(operation.name.removeprefix("reduce_")), _axis(operation)

    def run(batch: Batch, a: BatchValue) -> Array:
        left = np.moveaxis(dense(a), axis, 0)
        while True:
            half = len(left) // 2
            first, second = (left[:half], left[half:]) if half else (left, left)
            left = pack(rule(unpack(first, fmt), unpack(second, fmt), fmt), fmt)
            if half <= 1:
                break
        value = plain(batch, references(a, fmt))
        return pack(unpack(left[0], fmt)._replace(value=value), fmt)

    return run


def indexed(operation: Operation) -> Runner:
    """`argmin_f` and `argmax_f`. Raises Undecided where it is open which element is the extreme one."""
    plain, fmt = MEANINGS[operation.name](operation), format_of(operation.operands[0])
    sign, axis = (-1 if operation.name.startswith("argmin") else 1), _axis(operation)

    def run(batch: Batch, a: BatchValue) -> tuple[Array, Array]:
        whole = dense(a)
        _, index = plain(batch, references(a, fmt))
        place = np.expand_dims(index, axis)
        best, span = np.take_along_axis(whole, place, axis), unpack(whole, fmt)
        chosen = unpack(best, fmt)
        (low, high), (best_low, best_high) = span.numbers(), chosen.numbers()
        worse = best_low > high if sign > 0 else best_high < low
        beaten = (worse & (chosen.nan == NEVER)) | span.empty | (span.point & chosen.point)
        numbers = np.arange(whole.shape[axis]).reshape([-1 if at == axis else 1 for at in range(whole.ndim)])
        if not (beaten | (numbers == place)).all():
            raise Undecided("an index of an extreme that may be another's")
        return np.squeeze(best, axis), index

    return run


def _axis(operation: Operation) -> int:
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    return axis + 1


def bracketed(planner: Planner, operation: Operation) -> Run:
    """`reduce` of floats by a user's function: what any bracketing may give that keeps the order.

    Integers alone are combined as ever: a function of them that is not associative is the user's fault.
    """
    if not any(isinstance(element_of(operand.type), FloatType) for operand in operation.operands):
        return make_reduce(planner, operation)
    return make_fold(planner, operation, all_bracketings)


def all_bracketings(columns: Sequence[Array], fold: Fold) -> Values:
    """The left fold, with the enclosures of all bracketings, from shorter spans of elements to longer ones.

    Raises Undecided where there are too many, or where an integer depends on the bracketing.
    """
    extent, rows = columns[0].shape
    if extent**3 // 6 * rows > MOST_PAIRS:
        raise Undecided("a function over so many elements that not all bracketings can be tried")
    spans: dict[int, list[Array]] = {1: list(columns)}
    for length in range(2, extent + 1):
        count = extent - length + 1
        cuts = range(1, length)
        left, right = (
            [np.concatenate(parts).reshape(-1) for parts in zip(*sides, strict=True)]
            for sides in (
                [[each[:count] for each in spans[cut]] for cut in cuts],
                [[each[cut : cut + count] for each in spans[length - cut]] for cut in cuts],
            )
        )
        made = fold(left, right, count * len(cuts))
        tables = [np.broadcast_to(dense(x), len(left[0])).reshape(len(cuts), count, rows) for x in made]
        spans[length] = [reduce(either, table) for table in tables]
    reference = left_fold(columns, fold)
    return [either(dense(value), whole[0]) for value, whole in zip(reference, spans[extent], strict=True)]


def either(a: Array, b: Array) -> Any:
    """What one of two values may be, with the reference of the first. Raises Undecided for integers that differ."""
    if a.dtype.names is not None:
        return hull(*np.broadcast_arrays(a, b))
    if (a != b).any():
        raise Undecided("an integer that depends on how a user's function is bracketed")
    return a
