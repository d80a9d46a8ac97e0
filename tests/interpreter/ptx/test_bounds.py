"""Bounds of approximate instructions: what they measure, and which rows have one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.interpreter.ptx import ops
from tilewright.interpreter.ptx.bounds import Bound, distance, errors
from tilewright.interpreter.ptx.table import FORMS


def test_every_approximate_row_states_its_bound_and_no_other() -> None:
    assert ops.functions.sin({"type": "f32"})
    for forms in FORMS.values():
        for form in forms:
            approximate = any(f".{word}" in form.syntax for word in ("approx", "full"))
            assert bool(form.bounds) == (approximate and form.kernel is not None), form.syntax


def code(value: int) -> int:
    """By where it stands among the numbers, the code of an f16."""
    return value if value >= 0 else 0x8000 | -value


@given(st.integers(-0x7C00, 0x7C00), st.integers(-0x7C00, 0x7C00))
def test_distance_counts_codes(a: int, b: int) -> None:
    found = distance(np.array([code(a)], np.uint16), np.array([code(b)], np.uint16))
    assert found.dtype == np.uint16 and int(found[0]) == abs(a - b)


def test_distance_of_several_signs_at_once() -> None:
    a, b = np.array([0x8000_0000, 0x3F80_0000, 0x8000_0002], np.uint32), np.array([0, 0x3F80_0004, 0x3], np.uint32)
    assert distance(a, b).tolist() == [0, 4, 5]


@pytest.mark.parametrize(
    ("kind", "found", "real", "want"),
    [
        ("ulp", 1.0 + 2.0**-9, 1.0 + 2.0**-11, 2.0),  # the middle goes to 1.0, which is even
        ("absolute", 1.5, 1.25, 0.25),
        ("relative", -1.5, -1.25, 0.2),
        ("relative", 2.0**-24, 0.0, 2.0**-10),
    ],
)
def test_errors(kind: str, found: float, real: float, want: float) -> None:
    codes = np.array([found], np.float16).view(np.uint16)
    assert errors(kind, codes, np.array([real]), "f16").tolist() == [want]


def test_a_bound_holds_for_some_magnitudes() -> None:
    bound = Bound("absolute", 2.0**-22, low=0.5, high=2.0)
    assert bound.holds(np.array([0.5, -2.0, 0.4, 2.1, math.nan, math.inf])).tolist() == [True, True, *[False] * 4]
    assert Bound("ulp", 2).holds(np.array([math.inf])).all()
