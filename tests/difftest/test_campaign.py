"""Campaigns report what they did, findings carry all that it takes to see them again, reproducers run alone."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.difftest import (
    STRATEGIES,
    CaseText,
    Finding,
    RecordedChoices,
    check,
    examine,
    expected,
    run_campaign,
    write_reproducer,
)
from tilewright.difftest.cases import Case, Outcome
from tilewright.difftest.levels import run_text, run_ttir
from tilewright.interpreter.meanings import MEANINGS
from tilewright.lang import F32, parse_module

ROOT = Path(__file__).parent.parent.parent
ROWS = ("add_i", "select", "for", "store", "print")


def test_a_campaign_counts_and_finds_nothing() -> None:
    report = run_campaign(range(4), ROWS)
    assert report.cases == 4 * len(ROWS) and report.findings == []
    assert report.rate > 0 and 0.5 <= report.validity <= 1
    assert str(report).startswith("20 cases in ")


def test_a_campaign_is_a_function_of_its_seeds() -> None:
    def texts() -> list[CaseText]:
        return [CaseText.of(STRATEGIES[row](RecordedChoices(seed))) for row in ROWS for seed in range(5)]

    assert texts() == texts()


@pytest.mark.parametrize("row", ROWS)
def test_the_text_of_a_case_is_the_case(row: str) -> None:
    for seed in range(5):
        case = STRATEGIES[row](RecordedChoices(seed))
        text = CaseText.of(case)
        again = text.case()
        assert CaseText.of(again) == text
        assert run_ttir(again).bits() == run_ttir(case).bits() == run_text(case).bits() == expected(case).bits()


@pytest.fixture
def finding(monkeypatch: pytest.MonkeyPatch) -> Finding:
    """What a subtraction with swapped operands is found by."""

    def prepare(operation: Any) -> Any:
        run = right(operation)
        return lambda batch, a, b: run(batch, b, a)

    right = MEANINGS["sub_i"]
    monkeypatch.setitem(MEANINGS, "sub_i", prepare)
    found = run_campaign(range(10), ["sub_i"]).findings[0]
    monkeypatch.undo()
    return found


def test_a_finding_carries_the_case(finding: Finding) -> None:
    assert finding.row == "sub_i" and finding.level == "ttir" and "expected" in finding.problems[0]
    assert finding.text is not None
    again = STRATEGIES["sub_i"](RecordedChoices.replay(finding.choices))
    assert CaseText.of(again) == finding.text
    assert examine(finding.text.case())[0] == ""


def test_a_reproducer_runs_alone(finding: Finding, tmp_path: Path) -> None:
    path = write_reproducer(finding, tmp_path / "repro.py")
    done = subprocess.run(
        [sys.executable, path], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "no difference\n", "")
    mutated = path.read_text().replace("import sys\n", MUTATION, 1)
    path.write_text(mutated)
    done = subprocess.run(
        [sys.executable, path], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stdout.startswith("ttir\nresult 0, element ")


MUTATION = """import sys
from tilewright.interpreter.meanings import MEANINGS
right = MEANINGS["sub_i"]
MEANINGS["sub_i"] = lambda operation: (lambda run: lambda batch, a, b: run(batch, b, a))(right(operation))
"""


def test_a_finding_of_the_generator_has_no_reproducer(tmp_path: Path) -> None:
    broken = Finding("add_i", 0, (), "generator", ("ValueError: x",), None)
    with pytest.raises(ValueError, match="generator failed"):
        write_reproducer(broken, tmp_path / "repro.py")


def test_a_generator_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(choices: Any) -> Case:
        raise ValueError("no such shape")

    monkeypatch.setitem(STRATEGIES, "add_i", broken)
    (found,) = run_campaign([3], ["add_i"]).findings
    assert (found.level, found.problems[0]) == ("generator", "ValueError: no such shape")


def test_an_executor_that_crashes_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(operation: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setitem(MEANINGS, "sub_i", prepare)
    (found,) = run_campaign([0], ["sub_i"]).findings
    assert found.problems[0] == "RuntimeError: broken" and "test_campaign.py" in found.problems[1]


def compiled(case: Case, change: Any) -> Outcome:
    """What a compiler might give: the reference value with its codes changed."""
    results = expected(case).results
    return Outcome(tuple(change(np.array(result)) for result in results))


def test_verdicts_on_compiled_results_follow_the_contract() -> None:
    """A division may be 2 units off, and any NaN is as good as any; the interpreter may neither."""
    case = next(
        case
        for seed in range(200)
        if (case := STRATEGIES["div_f"](RecordedChoices(seed))).entry.result_types[0] in (F32,)
        and np.isfinite(expected(case).results[0]).all()
        and (np.abs(expected(case).results[0]) > 1e-30).all()
    )
    assert check(case, compiled(case, lambda x: x)) == []
    near = compiled(case, lambda x: (x.view(np.int32) + 2).view(np.float32))
    far = compiled(case, lambda x: (x.view(np.int32) + 4).view(np.float32))
    assert check(case, near, strict=False) == [] and check(case, near) != []
    assert check(case, far, strict=False) != []


def test_every_strict_outcome_is_allowed_by_the_contract() -> None:
    for row in ("exp", "log", "div_f", "reduce_add_f", "dot", "add_f", "atomic_rmw", "store", "reduce"):
        for seed in range(6):
            case = STRATEGIES[row](RecordedChoices(seed))
            assert check(case, run_ttir(case), strict=False) == []


FOLD = """
module {
  kernel @unused() { return }
  func @tested(%a: tile<4xf32>) -> (f32) {
    %r = reduce %a {axis = 0} : f32 {
    ^combine(%x: f32, %y: f32):
      %s = add_f %x, %y : f32
      yield %s
    }
    return %r
  }
}
"""


def test_a_compiled_reduce_may_use_any_bracketing() -> None:
    """1 + 2**-24 + 2**-24 + 2**-24 is 1 from the left and more than 1 from the right; nothing makes it 2."""
    tiny = 2.0**-24
    case = Case("reduce", parse_module(FOLD), (np.array([[1, tiny, tiny, tiny]], np.float32),), function="tested")
    from_left, from_right = (Outcome((np.array([value], np.float32),)) for value in (1.0, 1 + 2 * 2.0**-23))
    wrong = Outcome((np.array([2.0], np.float32),))
    assert check(case, from_left) == [] and check(case, from_left, strict=False) == []
    assert check(case, from_right) != [] and check(case, from_right, strict=False) == []
    assert check(case, wrong, strict=False) != []


def test_a_wrong_end_is_a_mismatch() -> None:
    case = STRATEGIES["add_i"](RecordedChoices(0))
    (mismatch,) = check(case, Outcome(stopped="memory"))
    assert str(mismatch) == "end: got memory, expected results"
    (mismatch,) = check(case, Outcome())
    assert str(mismatch) == "results: got 0, expected 1"
    wrong = Outcome(tuple(result[..., None] for result in expected(case).results))
    assert "of shape" in str(check(case, wrong)[0])


def test_a_wrong_print_is_a_mismatch() -> None:
    case = next(c for s in range(50) if expected(c := STRATEGIES["print"](RecordedChoices(s))).output)
    want = expected(case)
    (mismatch,) = check(case, Outcome(want.results, output="no\n" + want.output))
    assert mismatch.where == "line 0 of the output"
    (mismatch,) = check(case, Outcome(want.results, output=want.output + "more\n"))
    assert mismatch.where == "output"
