"""Ways to write an instruction: all of them, or so many that every two modifiers that go together do so once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from math import prod

from tilewright.interpreter.ptx.table import Form, Modifiers

from .patterns import hashed

FEW = 48
"""Ways that are all taken."""
_TRIES = 64

Valid = Callable[[Modifiers], bool]
"""Whether modifiers go together."""
_Pair = tuple[int, int, int, int]


def spellings(form: Form, valid: Valid = lambda modifiers: True) -> list[str]:
    """Opcodes of a row: all valid ones of few, else some in which all pairs of modifiers are met that can be."""

    base, choices = form.base, form.choices

    def opcode(chosen: Sequence[int]) -> str:
        return base + "".join(choice[n] for choice, n in zip(choices, chosen, strict=True))

    def good(chosen: Sequence[int]) -> bool:
        return valid(form.match(opcode(chosen)) or {})

    every = product(*(range(len(choice)) for choice in choices))
    few = prod(map(len, choices)) <= FEW
    return [opcode(each) for each in (filter(good, every) if few else _pairwise(choices, good))]


def _pairwise(choices: Sequence[Sequence[str]], good: Callable[[Sequence[int]], bool]) -> list[tuple[int, ...]]:
    """Greedily: the first pair that is still to be met, completed in the best of some ways drawn by a hash.

    What may be missing is missing every other time, since few optional modifiers go together.
    """
    sizes = [len(choice) for choice in choices]
    places = [*combinations(range(len(sizes)), 2)]
    left: dict[_Pair, None] = {(i, x, j, y): None for i, j in places for x in range(sizes[i]) for y in range(sizes[j])}
    draws = hashed(77, _TRIES * len(sizes)).reshape(_TRIES, len(sizes))
    found: list[tuple[int, ...]] = []

    def met(chosen: Sequence[int]) -> list[_Pair]:
        return [pair for i, j in places if (pair := (i, chosen[i], j, chosen[j])) in left]

    while left:
        i, x, j, y = next(iter(left))
        best, most = None, 0
        for draw in (draws + draws.dtype.type(len(found) * 7919 + 1)).tolist():
            trial = [
                value // 3 % len(choice) if value % 2 or choice[0] else 0
                for value, choice in zip(draw, choices, strict=True)
            ]
            trial[i], trial[j] = x, y
            if len(pairs := met(trial)) > most and good(trial):
                best, most = trial, len(pairs)
        if best is None:
            del left[i, x, j, y]  # they do not go together
            continue
        for pair in met(best):
            del left[pair]
        found.append(tuple(best))
    return found
