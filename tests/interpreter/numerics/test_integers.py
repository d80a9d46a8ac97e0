"""Integer operations against Python's unbounded integers: exhaustive for 8 bits, edges and random for the rest."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.interpreter import numerics as nx

WIDTHS = (1, 8, 16, 32, 64)


def operands(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of signless integers: all for the small widths, else edges crossed and random ones."""
    if width == 1:
        values = np.array([False, True])
    elif width == 8:
        values = np.arange(-128, 128, dtype=np.int8)
    else:
        top = 1 << (width - 1)
        edges = [0, 1, 2, 3, 7, width - 1, width, width + 1, 255, top - 1, top - 2, -1, -2, -3, -7, -top, -top + 1]
        random = np.random.default_rng(width).integers(-top, top - 1, 60).tolist()
        small = np.random.default_rng(width + 1).integers(-100, 100, 20).tolist()
        values = np.array(edges + random + small, dtype=f"i{width // 8}")
    a, b = np.meshgrid(values, values)
    return a.reshape(-1), b.reshape(-1)


def wrapped(value: int, width: int, signed: bool) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value


def div(a: int, b: int, width: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def rem(a: int, b: int, width: int) -> int:
    return a if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))


def shl(a: int, b: int, width: int) -> int:
    b &= (1 << width) - 1
    return 0 if b >= width else a << b


def shr(a: int, b: int, width: int) -> int:
    return a >> min(b & ((1 << width) - 1), width)


MEANINGS: dict[str, tuple[bool, Callable[[int, int, int], int]]] = {
    "div_s": (True, div),
    "div_u": (False, div),
    "rem_s": (True, rem),
    "rem_u": (False, rem),
    "shl": (False, shl),
    "shr_s": (True, shr),
    "shr_u": (False, shr),
    "min_s": (True, lambda a, b, width: min(a, b)),
    "min_u": (False, lambda a, b, width: min(a, b)),
    "max_s": (True, lambda a, b, width: max(a, b)),
    "max_u": (False, lambda a, b, width: max(a, b)),
    "mulhi_s": (True, lambda a, b, width: a * b >> width),
    "mulhi_u": (False, lambda a, b, width: a * b >> width),
}


@pytest.mark.parametrize("operation, width", list(itertools.product(MEANINGS, WIDTHS)))
def test_against_unbounded_integers(operation: str, width: int) -> None:
    signed, meaning = MEANINGS[operation]
    a, b = operands(width)
    got = getattr(nx, operation)(a, b)
    assert got.dtype == a.dtype
    pairs = [(wrapped(int(x), width, signed), wrapped(int(y), width, signed)) for x, y in zip(a, b, strict=True)]
    want = [wrapped(meaning(x, y, width), width, signed) for x, y in pairs]
    assert [wrapped(int(x), width, signed) for x in got] == want


def test_the_decided_edges() -> None:
    low = np.int32(-(2**31))
    zero, minus_one = np.int32(0), np.int32(-1)
    assert nx.div_s(low, minus_one) == low
    assert nx.rem_s(low, minus_one) == 0
    assert nx.div_s(np.int32(7), zero) == -1 and nx.rem_s(np.int32(7), zero) == 7
    assert nx.div_u(np.int32(7), zero) == -1 and nx.rem_u(np.int32(7), zero) == 7
    assert nx.shl(np.int32(1), np.int32(32)) == 0
    assert nx.shl(np.int32(1), minus_one) == 0
    assert nx.shr_s(np.int32(-8), np.int32(40)) == -1
    assert nx.shr_u(np.int32(-8), np.int32(40)) == 0


def test_shift_amounts_broadcast() -> None:
    assert nx.shl(np.ones((2, 1), np.int16), np.arange(3, dtype=np.int16)).tolist() == [[1, 2, 4]] * 2
