"""Campaigns: results are kept, children may die, and a finding becomes a small file that shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.difftest import faulty
from tilewright.difftest import Row, Task, fuzz, reduce_decisions
from tilewright.difftest.kernel_campaign import file_of, first_finding, stored_rows
from tilewright.difftest.reduce import Decisions
from tilewright.difftest.workers import Lost, Workers

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", "")}


def test_a_finding_becomes_a_small_file_that_shows_it(tmp_path: Path) -> None:
    (*_, row) = first_finding(range(40), faulty.with_a_fault)
    summary = fuzz([row.seed], tmp_path, attempts=40, examine=faulty.with_a_fault)
    (fault,) = summary.faults
    assert fault.level == "pass fold" and "xor" in fault.signature
    assert len(fault.decisions) < len(row.decisions) / 2
    path = tmp_path / file_of(fault)
    assert path.name in str(summary) and path.read_text().count("\n") < 60
    clean = subprocess.run([sys.executable, path], env=ENVIRONMENT, capture_output=True, text=True)
    assert (clean.returncode, clean.stdout) == (0, "no difference\n"), clean.stderr
    broken = f"import runpy, tests.difftest.faulty as f; f.spoil(); runpy.run_path({str(path)!r}, run_name='__main__')"
    shown = subprocess.run([sys.executable, "-c", broken], env=ENVIRONMENT, capture_output=True, text=True)
    assert shown.returncode == 1 and shown.stdout.startswith("pass fold\n"), shown.stderr


def test_one_fault_is_reduced_once(tmp_path: Path) -> None:
    """Findings that a known fault explains, of this run or of an earlier one, are counted and left alone."""
    fault = Row(0, "finding", "pass cse", ("x",), ("add_i", "sub_i"), {}, (1,))
    (tmp_path / "faults.jsonl").write_text(json.dumps(asdict(fault)) + "\n")
    signatures = ("sub_i", "xor", "add_i"), ("add_i", "or", "sub_i")
    rows = [replace(fault, seed=seed, signature=names) for seed, names in enumerate(signatures)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    summary = fuzz(range(2), tmp_path, examine=faulty.or_die)
    assert summary.faults == [fault] and summary.new == 0 and "seeds [0, 1]" in str(summary)
    assert not fault.explains(replace(fault, level="pass fold"))
    assert not fault.explains(replace(fault, signature=("add_i",)))


def test_the_simplest_kernel_of_all_is_one_of_decisions() -> None:
    """No decisions at all are decisions too, and not the seed's."""
    assert Task(7, ()).choices().integer(2, 9) == 2
    assert Task(7).choices().drawn == [] and Task(7).decisions is None


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = fuzz(range(3), tmp_path)
    assert first.new == 3 and not first.findings
    path = tmp_path / "results.jsonl"
    with path.open("a") as file:
        file.write('{"seed": 3, "state": "agr')  # a kill cut this line short
    second = fuzz(range(4), tmp_path)
    assert second.new == 1 and [row.seed for row in second.rows] == [0, 1, 2, 3]
    assert fuzz(range(4), tmp_path).new == 0
    assert second.operations()["store"] == 4 and "4 kernels" in str(second)


def test_rows_come_back_from_their_lines(tmp_path: Path) -> None:
    row = Row(7, "finding", "pass cse", ("a", "b"), ("add_i",), {"add_i": 2}, (1, 2, 3), 4.0, 0.5)
    assert Row.parse(json.dumps(asdict(row))) == row
    path = tmp_path / "results.jsonl"
    path.write_text(f"no row\n{json.dumps(asdict(row))}\n[1]\n{{}}\n")
    assert stored_rows(path) == [row]


def test_a_child_that_dies_is_a_finding_and_the_others_go_on(tmp_path: Path) -> None:
    summary = fuzz(range(7), tmp_path, jobs=2, attempts=0, examine=faulty.or_die)
    assert sorted(row.seed for row in summary.rows) == list(range(7))
    assert sorted(row.seed for row in summary.findings) == [2, 5]
    (fault,) = summary.faults
    assert (fault.level, fault.problems) == ("crash", ("the process died of signal 6",))


def test_a_child_that_takes_too_long_is_killed() -> None:
    with Workers(faulty.or_hang, jobs=2, seconds=8) as workers:
        results = list(workers.run([Task(seed) for seed in range(4)]))
    lost = [result for result in results if isinstance(result, Lost)]
    assert len(results) == 4 and [(each.task.seed, each.how) for each in lost] == [(1, "took more than 8 s")]


def test_the_command_line_tells_by_its_status(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tilewright.difftest", "--seeds", "0:2", "--out", str(tmp_path), "--operations"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0 and "2 kernels, 2 of them now" in done.stdout and "2 store" in done.stdout, done.stderr
    row = Row(2, "finding", "pass cse", ("x",), ("add_i",), {}, (1,))
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write(json.dumps(asdict(row)) + "\n")
    done = subprocess.run([*command[:4], "0:3", *command[5:]], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1 and "pass cse [add_i]: pass_cse_2.py, seeds [2]" in done.stdout


# --- reduction ---


def large_and_even(decisions: Decisions) -> Decisions | None:
    """Shows where two numbers from 40 up stand side by side, and nothing is longer than 30."""
    shown = any(a >= 40 and b >= 40 for a, b in zip(decisions, decisions[1:], strict=False))
    return decisions[:30] if shown else None


def test_a_reduced_list_is_the_simplest_near_by() -> None:
    drawn = [3, 99, 5, 70, 81, 2] + [17] * 20
    assert reduce_decisions(drawn, large_and_even) == (40, 40)


@pytest.mark.parametrize("attempts", [0, 1, 7])
def test_a_reduction_asks_no_more_often_than_it_may(attempts: int) -> None:
    asked: list[Decisions] = []

    def shows(decisions: Decisions) -> Decisions | None:
        asked.append(decisions)
        return None

    assert reduce_decisions([1, 2, 3, 4], shows, attempts) == (1, 2, 3, 4)
    assert len(asked) == attempts
