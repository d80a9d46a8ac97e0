"""Rounds, stored rows, and compile times stage by stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright import language
from tilewright.bench import compile_time, records
from tilewright.bench.compile_time import STAGES, SUBJECTS, compile_ours, compile_theirs, stages
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


def test_stages_add_up_to_the_whole() -> None:
    """Passes end at these times; `ttir` and `ttgir` are printed after the last pass of their stages."""
    steps = {"ttir": 1.0, "ttgir": 2.0, "llir": 3.0, "parse": 4.0, "optimise": 5.0, "ptx": 6.0, "cubin": 7.0}
    passes = [("fold", 102.0), ("cse", 103.0), ("assign_layouts", 108.0), ("cse", 110.0)]
    found = stages(steps, 100.0, passes)
    assert found == {"ttir": 4.0, "ttgir": 8.0, "llir": 12.0, "ptx": 6.0, "cubin": 7.0}


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_stage_of_ours_is_timed(subject: Any) -> None:
    took = compile_ours(subject, (tilewright, language))
    assert tuple(took) == STAGES and all(seconds > 0 for seconds in took.values())


@pytest.mark.optional("triton")
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_stage_of_triton_is_timed(subject: Any) -> None:
    took = compile_theirs(subject, compile_time.systems(interpret=False)["triton"])
    assert tuple(took) == STAGES and all(seconds > 0 for seconds in took.values())


def test_a_run_stores_a_row_for_each_kernel_and_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_time, "systems", lambda interpret: {"tilewright": (tilewright, language)})
    monkeypatch.setattr(compile_time, "SUBJECTS", SUBJECTS[:1])
    path = tmp_path / "rows.jsonl"
    assert compile_time.main(["--rounds", "2", "--store", str(path)]) == 0
    (row,) = (json.loads(line) for line in path.read_text().splitlines())
    assert next(iter(row)) == "status" and (row["case"], row["contender"]) == ("add", "tilewright")
    assert [len(taken) for taken in row["samples"].values()] == [2] * len(STAGES)
    assert row["commit"] == records.current_commit() and "add      tilewright" in capsys.readouterr().out


def test_without_triton_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(interpret: bool) -> Any:
        raise ImportError("No module named 'triton'")

    monkeypatch.setattr(compile_time, "systems", missing)
    assert compile_time.main([]) == 2
    assert capsys.readouterr().err == "error: No module named 'triton'\n"
