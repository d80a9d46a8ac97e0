"""Grids: every form that a launch takes, and every mistake."""

from typing import Any

import numpy as np
import pytest

from tilewright.runtime import GridError
from tilewright.runtime.grid import resolve_grid


@pytest.mark.parametrize(
    "grid, extents",
    [
        (3, (3, 1, 1)),
        ((3,), (3, 1, 1)),
        ([3, 4], (3, 4, 1)),
        ((3, 4, 5), (3, 4, 5)),
        ((np.int64(7), 2), (7, 2, 1)),
        (lambda arguments: (arguments["n"] // 2,), (5, 1, 1)),
        (lambda arguments: [1, arguments["n"]], (1, 10, 1)),
        (lambda arguments: arguments["n"], (10, 1, 1)),
        ((0,), (0, 1, 1)),
        ((2**31 - 1, 65535, 65535), (2**31 - 1, 65535, 65535)),
        ((True,), (1, 1, 1)),
    ],
)
def test_every_form(grid: Any, extents: tuple[int, int, int]) -> None:
    assert resolve_grid(grid, {"n": 10}) == extents


@pytest.mark.parametrize(
    "grid, message",
    [
        ((), "a grid has one to three extents, not 0: ()"),
        ((1, 2, 3, 4), "a grid has one to three extents, not 4: (1, 2, 3, 4)"),
        ((-1,), "extent 0 of the grid is -1; it must lie in 0 to 2147483647"),
        ((1, 65536), "extent 1 of the grid is 65536; it must lie in 0 to 65535"),
        (
            (1.5,),
            "extent 0 of the grid is 1.5, which is no whole number\n"
            "hint: divide with tilewright.cdiv or //, which give whole numbers",
        ),
        (("a",), "extent 0 of the grid is 'a', which is no whole number"),
        ("ab", "a grid is one to three whole numbers, not 'ab'"),
        (None, "extent 0 of the grid is None, which is no whole number"),
        ({"x": 1}, "a grid is one to three whole numbers, not {'x': 1}"),
    ],
)
def test_every_mistake(grid: Any, message: str) -> None:
    with pytest.raises(GridError) as caught:
        resolve_grid(grid, {})
    assert str(caught.value) == message
