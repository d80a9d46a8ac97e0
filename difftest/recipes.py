"""Operand data: codes of an element type from distributions that are rich in values where things go wrong.

A *recipe* makes one code from a `SplitMix64`. `draw_codes` draws the recipe from a `Choices`, bulk data from a stream:
a case needs few decisions, and the simplest data is one value, repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

from tilewright.lang import FloatType, ScalarType, bit_width

from .choices import Choices, SplitMix64
from .oracles.formats import bias_of, infinity_code, max_code, nan_code, sign_bit
from .storage import Codes

Recipe: TypeAlias = Callable[[SplitMix64, ScalarType], int]


@cache
def special_codes(element: ScalarType) -> Codes:
    """Codes at which rules change, the simplest first, each once."""
    width = bit_width(element)
    codes = _special_floats(element) if isinstance(element, FloatType) else _special_integers(width)
    return tuple(dict.fromkeys(code & ((1 << width) - 1) for code in codes))


def _special_floats(fmt: FloatType) -> list[int]:
    """Zero, one, two, the ends of the subnormals and of the normals, infinity and NaN; each with both signs."""
    one = bias_of(fmt) << fmt.mantissa
    least_normal = 1 << fmt.mantissa
    positive = [0, one, one + least_normal, one + 1, one - 1, 1, least_normal - 1, least_normal]
    positive += [max_code(fmt), max_code(fmt) - 1]
    if not fmt.finite:
        positive += [infinity_code(fmt), infinity_code(fmt) + 1]
    if (canonical := nan_code(fmt)) is not None:
        positive.append(canonical)
    return [code | sign for code in positive for sign in (0, sign_bit(fmt))]


def _special_integers(width: int) -> list[int]:
    """Small numbers, the ends of both ranges, the width and its neighbours (for shifts), and powers of two."""
    powers = [1 << k for k in range(width)]
    ends = [(1 << width - 1) - 1, 1 << width - 1, (1 << width - 1) + 1]
    return [0, 1, -1, 2, -2, 3, width, width - 1, width + 1, *ends, *powers, *(power - 1 for power in powers)]


def raw(stream: SplitMix64, element: ScalarType) -> int:
    """Any code."""
    return stream.next() >> 64 - bit_width(element)


def edge(stream: SplitMix64, element: ScalarType) -> int:
    """Half special codes, and any others."""
    return stream.pick(special_codes(element)) if stream.chance(50) else raw(stream, element)


def moderate(stream: SplitMix64, element: ScalarType) -> int:
    """Floats of size 2**-6 to 2**6 or so; integers of few bits, with either sign."""
    width = bit_width(element)
    if not isinstance(element, FloatType):
        return (stream.below(1 << 1 + stream.below(min(width, 8))) * (1 - 2 * stream.below(2))) & ((1 << width) - 1)
    highest = (max_code(element) >> element.mantissa) - 1
    field = min(max(bias_of(element) + stream.below(13) - 6, 1), highest)
    return field << element.mantissa | _fraction(stream, element, element.mantissa) | _sign(stream, element)


def short(stream: SplitMix64, element: ScalarType) -> int:
    """Floats with few significant bits, whose products and sums are exact or end in a tie; moderate integers."""
    if not isinstance(element, FloatType):
        return moderate(stream, element)
    kept = element.mantissa // 2 + stream.below(2)
    return moderate(stream, element) & ~((1 << element.mantissa - kept) - 1)


def _fraction(stream: SplitMix64, fmt: FloatType, bits: int) -> int:
    return stream.below(1 << bits) << fmt.mantissa - bits


def _sign(stream: SplitMix64, fmt: FloatType) -> int:
    return stream.below(2) * sign_bit(fmt)


#: The recipes and their weights.
RECIPES: tuple[tuple[Recipe, int], ...] = ((moderate, 3), (edge, 5), (raw, 2), (short, 3))


def draw_code(choices: Choices, element: ScalarType) -> int:
    """One code, from few decisions."""
    special = special_codes(element)
    if choices.boolean(25):
        return choices.integer(0, (1 << bit_width(element)) - 1)
    return choices.sample(special)


def draw_codes(
    choices: Choices, element: ScalarType, count: int, recipes: Sequence[tuple[Recipe, int]] = RECIPES
) -> Codes:
    """`count` codes: a few values repeated, or a recipe's."""
    if not choices.boolean(75):
        few = [draw_code(choices, element) for _ in range(choices.integer(1, min(count, 4)))]
        return tuple(few[lane % len(few)] for lane in range(count))
    recipe, stream = choices.weighted(recipes), choices.stream()
    return tuple(recipe(stream, element) for _ in range(count))


def draw_related(choices: Choices, element: ScalarType, others: Codes) -> Codes:
    """Codes that have to do with others of the same type: equal, neighbouring, negated, half a unit of them."""
    stream = choices.stream()
    return tuple(_related(stream, element, code) for code in others)


def _related(stream: SplitMix64, element: ScalarType, code: int) -> int:
    width = bit_width(element)
    near = (code + stream.pick((0, 0, 1, -1, 2, -2))) & ((1 << width) - 1)
    if not isinstance(element, FloatType):
        return near if stream.chance(70) else -near & ((1 << width) - 1)
    if stream.chance(50):
        return near ^ _sign(stream, element)
    # Half a unit in the last place of the other, or just beside it: sums and differences that end in a tie or nearly.
    field = (code & (sign_bit(element) - 1)) >> element.mantissa
    small = max(field - element.mantissa - 1, 0) << element.mantissa
    beside = small + stream.pick((0, 0, 0, 1)) if small else 0
    return beside | _sign(stream, element)
