"""The table of known faults names every report, and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tilewright.lang import OPS
from tilewright.lang import language as tl

TESTS = Path(__file__).parent.parent
TABLE = TESTS.parent / "docs" / "known-faults.md"
#: The reports that were collected, by number; those left out were of no kind that a test could hold.
REPORTS = (
    1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 25, 26, 27, 28, 30, 31, 32, 34, 35, 36, 37, 38,
    40, 41, 42, 45, 47, 48, 49, 50, 51, 52, 53, 54, 55, 57, 59, 61, 62, 63, 64, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75,
    76, 77, 79, 80, 81, 83, 84, 85, 87, 88,
)  # fmt: skip
ROW = re.compile(r"^\| A(\d+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
ROWS = ROW.findall(TABLE.read_text(encoding="utf-8"))
WAITS = "waits for "


def parts(cell: str) -> tuple[list[str], list[str]]:
    """The tests that a row names, and what it waits for."""
    pieces = re.split(r"[,;] (?=[\w/]+\.py::|waits for )", cell)
    return [p for p in pieces if not p.startswith(WAITS)], [p for p in pieces if p.startswith(WAITS)]


@cache
def functions_of(path: str) -> frozenset[str]:
    """The test functions of a file."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_report_has_one_row_in_order() -> None:
    assert tuple(int(number) for number, _, _ in ROWS) == REPORTS


@pytest.mark.parametrize(("number", "kind", "cell"), ROWS, ids=[f"A{number}" for number, _, _ in ROWS])
def test_a_row_names_tests_that_exist_or_what_it_waits_for(number: str, kind: str, cell: str) -> None:
    named, waiting = parts(cell)
    assert kind and (named or waiting)
    for name in named:
        path, found, function = name.partition("::")
        assert found and path.endswith(".py"), name
        assert function.startswith("test_") and function in functions_of(path), name


def test_what_is_waited_for_is_not_there_yet() -> None:
    """A row that waits for an operation gets its test when the operation comes."""
    awaited = {word for _, _, cell in ROWS for part in parts(cell)[1] for word in re.findall(r"`(\w+)`", part)}
    assert awaited == {"cumsum", "associative_scan", "histogram"}
    assert not awaited & {*OPS, *dir(tl)}


def test_every_test_of_this_folder_is_in_the_table() -> None:
    named = {name for _, _, cell in ROWS for name in parts(cell)[0]}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name != Path(__file__).name:
            here = f"{path.parent.name}/{path.name}"
            missing = {f"{here}::{name}" for name in functions_of(here) if name.startswith("test_")} - named
            assert not missing
