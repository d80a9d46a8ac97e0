"""Compile times stage by stage: what is timed, how long the PTX is, and the rows that are stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright import language
from tilewright.bench import compile_time, records
from tilewright.bench.compile_time import (
    FIRST_WITH_LAYOUTS,
    STAGES,
    SUBJECTS,
    Row,
    Subject,
    compile_ours,
    compile_theirs,
    instructions,
    stages,
    step_lines,
)
from tilewright.compiler import compile_module
from tilewright.compiler.pipeline import GPU_PASSES

#: One subject of each family is enough for what does not depend on the kernel.
SMALL = SUBJECTS[0]


def test_stages_add_up_to_the_whole() -> None:
    """Passes end at these times; `ttir` and `ttgir` are printed after the last pass of their stages."""
    steps = {"ttir": 1.0, "ttgir": 2.0, "llir": 3.0, "parse": 4.0, "optimise": 5.0, "ptx": 6.0, "cubin": 7.0}
    passes = [("fold", 102.0), ("cse", 103.0), (FIRST_WITH_LAYOUTS, 108.0), ("cse", 110.0)]
    found = stages(steps, 100.0, passes)
    assert found == {"ttir": 4.0, "ttgir": 8.0, "llir": 12.0, "ptx": 6.0, "cubin": 7.0}


def test_the_passes_with_layouts_begin_where_the_stage_does() -> None:
    assert GPU_PASSES[0].__name__ == FIRST_WITH_LAYOUTS


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_stage_of_ours_is_timed(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(*arguments: Any, **options: Any) -> Any:
        given.update(options, num_warps=arguments[2])
        return compile_module(*arguments, **options)

    given: dict[str, Any] = {}
    monkeypatch.setattr(compile_time, "compile_module", timed)
    took = compile_ours(subject, (tilewright, language))
    assert tuple(took.stages) == STAGES and all(seconds > 0 for seconds in took.stages.values())
    assert list(took.steps)[0] == "frontend" and {"assign_layouts", "barriers", "parse", "optimise"} <= set(took.steps)
    assert (given["num_warps"], given["num_stages"]) == (subject.num_warps, subject.num_stages)
    assert 0 < instructions(took.ptx) < took.ptx.count("\n")


def test_kernels_that_are_named_after_tiles_have_them() -> None:
    by_name = {subject.name: subject for subject in SUBJECTS}
    assert by_name["matmul 128x256x64"].signature[-4:] == ("128", "256", "64", "8")
    assert by_name["attention D128"].signature[-4:] == ("128", "128", "64", "0")


@pytest.mark.optional("triton")
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_stage_of_triton_is_timed(subject: Subject) -> None:
    took = compile_theirs(subject, compile_time.systems(interpret=False)["triton"])
    assert tuple(took.stages) == STAGES and all(seconds > 0 for seconds in took.stages.values())
    assert took.steps == {} and 0 < instructions(took.ptx) < took.ptx.count("\n")


def test_instructions_are_neither_directives_nor_labels_nor_comments() -> None:
    ptx = """
.version 8.8
.visible .entry k(.param .u64 a)
.reqntid 128, 1, 1
{
    .reg .pred %p<2>;
    // begin inline asm
    mov.u32 %r1, 0x0;
    @%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];
    { .reg .b16 half; cvt.rn.f16.f32 half, %f1; }
$L__BB0_1:
    .loc 1 7 5
    @!%p1 bra $L__BB0_1;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {%f1, %f2},
        {%f3, %f4};
    ret;
}
"""
    assert instructions(ptx) == 6


def row(case: str, contender: str, steps: dict[str, float]) -> Row:
    return Row("ok", case, contender, "sm_90a", 4, 3, {}, 0.0, steps, {}, 10, 5)


def test_steps_stand_beside_each_other_by_kernel() -> None:
    rows = [row("a", "tilewright", {"fold": 0.001}), row("a", "triton", {}), row("b", "tilewright", {"cse": 0.002})]
    assert [line.split() for line in step_lines(rows)] == [["step,", "ms", "a", "b"], ["fold", "1.00"], ["cse", "2.00"]]


def test_a_run_stores_a_row_for_each_kernel_and_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_time, "systems", lambda interpret: {"tilewright": (tilewright, language)})
    monkeypatch.setattr(compile_time, "SUBJECTS", [SMALL])
    path = tmp_path / "rows.jsonl"
    assert compile_time.main(["--rounds", "2", "--steps", "--store", str(path)]) == 0
    (stored,) = (json.loads(line) for line in path.read_text().splitlines())
    assert next(iter(stored)) == "status" and (stored["case"], stored["contender"]) == ("add", "tilewright")
    assert [len(taken) for taken in stored["samples"].values()] == [2] * len(STAGES)
    assert (stored["num_warps"], stored["lines"] > stored["instructions"] > 0) == (4, True)
    assert stored["commit"] == records.current_commit() and set(stored["steps"]) > {"frontend", "optimise"}
    shown = capsys.readouterr().out
    assert "add                tilewright" in shown and "\noptimise " in shown


def test_without_triton_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(interpret: bool) -> Any:
        raise ImportError("No module named 'triton'")

    monkeypatch.setattr(compile_time, "systems", missing)
    assert compile_time.main([]) == 2
    assert capsys.readouterr().err == "error: No module named 'triton'\n"
