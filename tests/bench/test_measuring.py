"""Rounds, stored rows, and what surrounds their figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.bench import records
from tilewright.bench.records import answer, store, surroundings
from tilewright.bench.rounds import interleaved


def test_rounds_give_each_its_turn_and_begin_with_another_one() -> None:
    order: list[str] = []
    samples = interleaved({name: lambda name=name: order.append(name) or len(order) for name in "abc"}, 3, warm_up=2)
    assert ["".join(order[i : i + 3]) for i in range(0, 15, 3)] == ["bca", "cab", "abc", "bca", "cab"]
    assert samples == {"a": [7, 12, 14], "b": [8, 10, 15], "c": [9, 11, 13]}
    assert interleaved({}, 3, 1) == {}


def test_rows_are_appended_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    store(path, [{"status": "ok", "seconds": 0.5}])
    store(path, [{"status": "wrong", "seconds": None}])
    assert [json.loads(line)["status"] for line in path.read_text().splitlines()] == ["ok", "wrong"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        store(path, [{"status": "ok"}, {"error": float("inf")}])
    assert len(path.read_text().splitlines()) == 2


def test_surroundings_name_what_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = surroundings("abc")
    assert facts["commit"] == "abc" and "numpy" in facts["versions"] and facts["cores"] >= 1
    monkeypatch.setattr(records, "PACKAGES", ("numpy", "no-such-package"))
    assert list(surroundings("abc")["versions"]) == ["numpy"]
    monkeypatch.setattr(records, "answer", lambda command: f"{command[0]}\n")
    assert surroundings()["commit"] == "git"


def test_a_command_that_fails_or_is_missing_answers_nothing() -> None:
    assert answer(["echo", "here"]) == "here\n"
    assert answer(["false"]) == answer(["no-such-command-here"]) == ""
