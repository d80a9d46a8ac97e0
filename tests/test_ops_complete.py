"""Every op row has its four: a meaning, a lowering (or its place among those not lowered yet), a strategy, an entry."""

import re
from pathlib import Path

import pytest

from tilewright.compiler import NOT_LOWERED
from tilewright.difftest import STRATEGIES
from tilewright.interpreter.control import CONTROL
from tilewright.interpreter.meanings import MEANINGS
from tilewright.lang import OPS

SEMANTICS = Path(__file__).parent.parent / "docs" / "semantics.md"
#: Lower it whenever an op is lowered. It never grows: a new op comes with its lowering.
MOST_NOT_LOWERED = 0
ENTRIES = frozenset(re.findall(r"^### `(\w+)`$", SEMANTICS.read_text(encoding="utf-8"), re.MULTILINE))
#: Terminators mean that their block ends with these values, which is the executor's to know.
MEANT = {*MEANINGS, *CONTROL, *(name for name, row in OPS.items() if row.is_terminator)}
PARTS = {"meaning": MEANT, "strategy": STRATEGIES, "entry": ENTRIES}


def lacking(ops: set[str], parts: dict[str, object]) -> list[str]:
    """What some ops lack, one line each."""
    return [f"{name}: no {part}" for name in sorted(ops) for part, have in parts.items() if name not in have]  # type: ignore[operator]


def test_no_op_lacks_a_part() -> None:
    assert lacking(set(OPS), PARTS) == []


@pytest.mark.parametrize("part", PARTS)
def test_no_part_is_for_an_op_that_does_not_exist(part: str) -> None:
    assert set(PARTS[part]) <= set(OPS)


def test_a_missing_part_is_named() -> None:
    parts = {"meaning": {"a", "b"}, "strategy": {"a"}, "entry": {"b"}}
    assert lacking({"a", "b"}, parts) == ["a: no entry", "b: no strategy"]


def test_meanings_are_told_once() -> None:
    assert not MEANINGS.keys() & CONTROL.keys()


def test_the_list_of_ops_not_lowered_only_shrinks() -> None:
    assert set(OPS) >= NOT_LOWERED
    assert len(NOT_LOWERED) <= MOST_NOT_LOWERED
