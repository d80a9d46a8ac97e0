"""Operands for the sweeps: every code of a small type, else where rules change, pairs that have to do with each other,
ties, and codes of every recipe of the harness."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tests.compiler.sweep_cells import Cell
from tilewright.difftest import RecordedChoices, SplitMix64
from tilewright.difftest.oracles.formats import is_nan
from tilewright.difftest.recipes import RECIPES, draw_related, special_codes
from tilewright.difftest.storage import carrier_of, dtype_of
from tilewright.difftest.strategies.elementwise import near_ties
from tilewright.lang import FloatType, IntType, ScalarType, bit_width

Array = np.ndarray[Any, Any]
#: Codes of each recipe in a pool, and the most that are made at ties.
DRAWN, TIES = 200, 4000


def words(count: int, seed: int) -> Array:
    """64-bit numbers that look random: SplitMix64 at places `seed * 2**32` and on."""
    z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def picked(options: Array, count: int, seed: int) -> Array:
    """So many of the options."""
    return options[words(count, seed) % np.uint64(len(options))]


def blurred(codes: Array, element: ScalarType, seed: int) -> Array:
    """The codes, every second one with other bits in its lower half."""
    low = codes.dtype.type((1 << bit_width(element) // 2) - 1)
    noise = words(len(codes), 20 + seed).astype(codes.dtype)
    codes[1::2] = (codes & ~low | noise & low)[1::2]
    return codes


def as_codes(codes: Sequence[int], element: ScalarType) -> Array:
    return np.array(codes, carrier_of(element))


@cache
def notable(element: ScalarType) -> Array:
    """Codes at which rules change; all of them for a type of up to 8 bits."""
    width = bit_width(element)
    return as_codes(range(1 << width) if width <= 8 else special_codes(element), element)


@cache
def pool(element: ScalarType) -> Array:
    """The notable codes, and some of each recipe."""
    stream = SplitMix64(1)
    drawn = [recipe(stream, element) for recipe, _ in RECIPES for _ in range(DRAWN)]
    return np.concatenate([notable(element), as_codes(drawn, element)])


@cache
def related(element: ScalarType) -> Array:
    """For each code of the pool one that is near it, opposite to it, or half a unit of it."""
    return as_codes(draw_related(RecordedChoices(2), element, tuple(pool(element).tolist())), element)


def operand_codes(cell: Cell, count: int) -> list[Array]:
    """The codes of each operand, `count` of them: notable ones with each other, then near ties, related and drawn."""
    found = _crossed(cell.operands, count // 2)
    if len(cell.operands) == 1:
        found[0] = np.concatenate([found[0], *_single(cell.operands[0], cell.result, count - len(found[0]))])
    missing = max(0, count - len(found[0]))
    more = [blurred(picked(pool(e), missing, 10 + place), e, place) for place, e in enumerate(cell.operands)]
    for place, element in enumerate(cell.operands[1:], 1):
        if element == cell.operands[place - 1]:
            more[place][::2] = picked(related(element), missing, 10 + place - 1)[::2]  # as its neighbour's were picked
    return [np.concatenate(pair)[:count] for pair in zip(found, more, strict=True)]


def _crossed(elements: Sequence[ScalarType], most: int) -> list[Array]:
    """Every combination of notable codes, or `most` of them."""
    options = [notable(element) for element in elements]
    total = prod(map(len, options))
    places = np.arange(total, dtype=np.uint64) if total <= most else words(most, 3) % np.uint64(total)
    crossed: list[Array] = []
    for codes in options:
        crossed.append(codes[places % np.uint64(len(codes))])
        places //= np.uint64(len(codes))
    return crossed


def _single(source: ScalarType, result: ScalarType, count: int) -> list[Array]:
    """For a row of one operand: all codes of 16 bits where there is room; codes at ties of a conversion."""
    if bit_width(source) <= 8:
        return []
    if bit_width(source) == 16 and count >= 1 << 16:
        return [np.arange(1 << 16, dtype=np.uint16)]
    if isinstance(result, FloatType) and isinstance(source, FloatType | IntType) and source != result:
        return [as_codes(near_ties(SplitMix64(4), source, result, min(count // 3, TIES)), source)]
    return []


def stored(codes: Array, element: ScalarType) -> Array:
    """An array of a buffer with these codes."""
    return codes.astype(carrier_of(element)).view(dtype_of(element))


def codes_of(array: Array, element: ScalarType) -> Array:
    """The codes in a buffer."""
    return array.view(carrier_of(element))


@cache
def _nans(fmt: FloatType) -> Array:
    return np.array([is_nan(code, fmt) for code in range(256)])


def nan_mask(codes: Array, element: ScalarType) -> Array:
    """Where codes mean NaN."""
    if not isinstance(element, FloatType):
        return np.zeros(len(codes), np.bool_)
    return _nans(element)[codes] if element.is_fp8 else np.asarray(is_nan(codes, element))  # type: ignore[arg-type]
