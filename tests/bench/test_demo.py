"""The demo: it runs everywhere that it says, prints a table, and fails when a result is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilewright
from examples import demo
from tilewright import language
from tilewright.bench import Case, cases, load_kernels
from tilewright.compiler import TARGETS


def table(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """The cells of each row that the demo printed, by the first word of its kernel's name."""
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[0]: line[demo.NAME :].split() for line in lines if line.endswith(("right", "WRONG"))}


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "gpus", lambda: ([], "no GPU: this is a test"))


def test_every_kernel_has_its_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "EXCHANGING", [cases.matmul(32, 32, 32, 16, 16, 16)])
    monkeypatch.setattr(demo, "ELEMENTWISE", [cases.hash_bits(500)])
    assert demo.main() == 0
    rows = table(capsys)
    assert rows["hash"][1:-3] == ["exact"] * (1 + len(TARGETS))
    assert float(rows["matmul"][1]) <= 1 and rows["matmul"][2:-3].count("-") == len(TARGETS) - len(demo.THREE)
    assert rows["hash"][-1] == rows["matmul"][-1] == "right"


def test_the_kernels_of_the_issue_run_everywhere() -> None:
    assert {case.kernel for case in demo.ELEMENTWISE} == {
        "add_kernel", "gelu_kernel", "dropout_kernel", "hash_kernel", "scale_shift_kernel",
    }  # fmt: skip


def test_a_wrong_result_fails_the_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "EXCHANGING", [])
    monkeypatch.setattr(demo, "ELEMENTWISE", [replace(cases.add(500), grid=(0,))])
    monkeypatch.setattr(demo, "EMULATORS", demo.EMULATORS[:1])
    assert demo.main() == 1
    said = capsys.readouterr().out
    assert "WRONG" in said and "1 kernels, 2 results wrong" in said
    assert "vector add 500 on interpreter: " in said and "vector add 500 on emulator:sm_80: " in said


def test_a_kernel_that_does_not_run_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "EXCHANGING", [])
    monkeypatch.setattr(
        demo, "ELEMENTWISE", [replace(cases.softmax(4, 16, 2), constants={"BLOCK": 16, "num_warps": 3})]
    )
    monkeypatch.setattr(demo, "EMULATORS", ["emulator:sm_80"])
    assert demo.main() == 1
    said = capsys.readouterr().out
    assert "failed" in said and "softmax 4x16 on emulator:sm_80: " in said and "num_warps" in said


def test_a_gpu_is_a_column_and_its_absence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    devices, why = demo.gpus()
    assert (devices == ["cuda:0"]) == (why == "")
    assert devices or why.startswith("no GPU: ")


@pytest.mark.gpu
@pytest.mark.parametrize("case", demo.ELEMENTWISE, ids=lambda case: case.kernel)
def test_a_kernel_is_right_on_the_gpu(case: Case) -> None:
    kernel = getattr(load_kernels(case.family, tilewright, language), case.kernel)
    error, problem = demo.attempt(kernel, case, "cuda:0")
    assert problem == "" and error <= 1
