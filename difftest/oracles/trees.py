"""The contract `tree`: a user's combining function in any bracketing that keeps the order of the elements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tilewright.lang import shape_of

from .evaluator import Watch
from .tiles import flat, indices

#: Longer axes have too many bracketings (8 elements have 429).
LONGEST = 8


def bracketed(watch: Watch) -> Iterator[frozenset[tuple[int, ...]]]:
    """For each element of the results of a `reduce`, in row-major order, all that it may be: one code an operand.

    Raises ValueError for an axis longer than `LONGEST`.
    """
    shape, axis = shape_of(watch.operation.operands[0].type), watch.operation.attributes["axis"]
    assert isinstance(axis, int)
    if shape[axis] > LONGEST:
        raise ValueError(f"an axis of {shape[axis]} elements has too many bracketings")
    for index in indices(shape[:axis] + shape[axis + 1 :]):
        places = [flat((*index[:axis], k, *index[axis:]), shape) for k in range(shape[axis])]
        yield _combined(watch, [tuple(codes[place] for codes in watch.operands) for place in places])


def _combined(watch: Watch, elements: list[tuple[int, ...]]) -> frozenset[tuple[int, ...]]:
    """What the elements may be combined to, from shorter spans to longer ones."""
    spans = {(start, start + 1): frozenset((element,)) for start, element in enumerate(elements)}
    for length in range(2, len(elements) + 1):
        for start in range(len(elements) - length + 1):
            end = start + length
            pairs = (pair for cut in range(start + 1, end) for pair in product(spans[start, cut], spans[cut, end]))
            spans[start, end] = frozenset(_combine(watch, left, right) for left, right in pairs)
    return spans[0, len(elements)]


def _combine(watch: Watch, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    arguments = [(code,) for code in (*left, *right)]
    results = watch.program.block(watch.operation.regions[0], arguments, watch.values)
    return tuple(codes[0] for codes in results)
