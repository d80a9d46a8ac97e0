"""Every row of the emulator's table is executed on hardware or named; moves of data on the emulator, in NumPy, frozen.

`python -m tools.probes.moves --device cuda --out DIR` asks a GPU; `DIR/moves-sm_90a.json` belongs into `data`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interpreter.ptx.hardware import TARGET, frozen, today, unasked
from tests.runtime.fake_driver import FakeApi
from tilewright.compiler import AssemblerError, assemble
from tilewright.interpreter.ptx.table import FORMS
from tilewright.runtime import CudaDevice, CudaError
from tilewright.runtime.devices.cuda_driver import Driver
from tools.probes import coverage, instruction_rows, machines
from tools.probes import moves as probe
from tools.probes.machines import Emulator
from tools.probes.move_rows import moves
from tools.probes.spellings import FEW, spellings

EMULATOR = Emulator(TARGET)
PARTS = 8
"""Cases are run in so many parts, one a day."""
NUMBERS = {move.name: number for number, move in enumerate(moves())}


# --- which row is executed by which probe ---


def test_every_row_is_executed_by_a_probe_or_named_with_a_reason() -> None:
    rows = coverage.covered()
    assert len(rows) == sum(map(len, FORMS.values())) > 250
    assert [syntax for syntax, probes in rows.items() if bool(probes) == bool(coverage.reason_for(syntax))] == []


def test_every_reason_is_one_for_some_row() -> None:
    for pattern in coverage.UNPROBED:
        assert any(re.search(pattern, syntax) for syntax in coverage.covered()), pattern


def test_rows_of_sm_100_are_refused_by_the_assembler() -> None:
    refused = {*frozen("instructions")["refused"]}
    cases = [case for case in instruction_rows.cases() if "sm_100" in coverage.reason_for(case.row)]
    assert len(cases) > 80 and all(case.name in refused for case in cases)
    wide = [form for base in ("ld", "st") for form in FORMS[base] if "sm_100" in coverage.reason_for(form.syntax)]
    assert len(wide) == 4
    for form in wide:
        opcode = next(name for name in form.opcodes if "L2::cache_hint" not in name)
        names = ", ".join(f"{'%x' if '32' in opcode else '%d'}{n + 1}" for n in range(8 if ".v8" in opcode else 4))
        operands = f"{{{names}}}, [%a]" if opcode.startswith("ld") else f"[%o], {{{names}}}"
        move = probe.Move(opcode, f"{opcode} {operands};", None)
        with pytest.raises(AssemblerError, match="sm_100"):
            assemble("k", move.text(TARGET), TARGET)


def test_the_table_says_how_many_and_which_are_not() -> None:
    lines = coverage.lines()
    rows = coverage.covered()
    assert lines[0].startswith(f"{len(rows)} rows") and "NOT PROBED" not in "\n".join(lines)
    assert len(lines) == 2 + len(coverage.PROBES) + sum(not probes for probes in rows.values())


def test_opcodes_are_found_in_ptx() -> None:
    text = "L: @!%p bra L; { .param .b32 y; st.param.b32 [y], %x; } // add.s32\nmov.b64 {%x, %y}, %d;\n}"
    assert [*coverage.opcodes_in(text)] == ["bra", "st.param.b32", "mov.b64"]


# --- the cases ---


def test_pairs_of_modifiers_are_all_met() -> None:
    """Of a row with many spellings every two modifiers stand side by side, unless they do not go together."""
    (form,) = (
        form for form in FORMS["st"] if form.syntax.startswith("st.<sem:relaxed|release>") and "v2" in form.syntax
    )
    some = [form.match(opcode) or {} for opcode in spellings(form, lambda m: not (m["l1"] and m["space"] != "global"))]
    assert FEW < len(some) < 300
    met = {(m["sem"], m["space"]) for m in some}, {(m["type"], m["vec"]) for m in some}, {m["l1"] for m in some}
    assert [len(each) for each in met] == [2 * 5, 14 * 3, 6]
    assert all(m["space"] == "global" for m in some if m["l1"])


def today_s() -> list[int]:
    return [*range(len(moves()))][today(PARTS) :: PARTS]


def wrong(numbers: Sequence[int]) -> list[str]:
    """Cases that leave on the emulator what NumPy does not."""
    found: list[str] = []
    for number in numbers:
        want = probe.expected(moves()[number])
        if want is not None and not np.array_equal(probe.left_by(EMULATOR, moves()[number]), want):
            found.append(moves()[number].name)
    return found


def test_the_emulator_leaves_what_numpy_says() -> None:
    assert wrong(today_s()) == []


@pytest.mark.slow
def test_the_emulator_leaves_in_all_cases_what_numpy_says() -> None:
    assert wrong(range(len(moves()))) == []


def test_numpy_says_what_most_cases_leave() -> None:
    """Left out are sums of floats, which another probe compares."""
    open_ = [move.name for move in moves() if move.want is None]
    assert len(open_) < len(moves()) // 6
    assert all(re.search(r"\.(bf16|f16|f32|f64)|f16x2", name) for name in open_)


@pytest.mark.parametrize("step", [24, pytest.param(1, marks=pytest.mark.slow)])
def test_the_assembler_takes_the_kernels(step: int) -> None:
    for move in moves()[today(step) :: step]:
        assert assemble("k", move.text(TARGET), TARGET).cubin, move.name


# --- what hardware left ---


@pytest.mark.parametrize("part", [today(PARTS), pytest.param(None, marks=pytest.mark.slow)])
def test_moves_leave_what_they_leave_on_hardware(part: int | None) -> None:
    kept = frozen("moves")["digests"]
    numbers = range(len(moves())) if part is None else today_s()
    asked = [n for n in numbers if not unasked("moves", [moves()[n].name])]
    found = {moves()[n].name: probe.digest(probe.left_by(EMULATOR, moves()[n])) for n in asked}
    assert found == {name: kept.get(name) for name in found}


def test_hardware_was_asked_about_every_case_and_refused_none() -> None:
    record, names = frozen("moves"), {move.name for move in moves()}
    assert names - {*record["digests"]} == {*unasked("moves", names)}
    assert {*record["digests"]} <= names and record["refused"] == []


# --- the probe ---


class Faulty(Emulator):
    """An emulator with a wrong bit in what it stores, or one that loses its GPU."""

    def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
        if "membar.sys;" in ptx:
            raise CudaError("lost", "CUDA_ERROR_ILLEGAL_ADDRESS")
        super().run(ptx, blocks, threads, arguments)
        if "fence.sc.gpu;" in ptx:
            arguments[-1][8] ^= 1


def test_one_command_runs_them_and_keeps_what_they_leave(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = [
        "--device",
        "emulator",
        "--jobs",
        "1",
        "--rows",
        r"^(membar.[cgs]|nanosleep.u32 100)",
        "--out",
        str(tmp_path / "new"),
    ]
    assert probe.main(words) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "moves on emulator: 4 cases"
    assert [line.split()[:3] for line in out[2:4]] == [["membar", "3", "3"], ["nanosleep", "1", "1"]]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [f"moves-{TARGET}.json", "moves.txt"]
    record = json.loads((tmp_path / "new" / f"moves-{TARGET}.json").read_text())
    assert len(record["digests"]) == 4 and record["refused"] == []
    move = moves()[NUMBERS["membar.gl"]]
    assert record["digests"]["membar.gl"] == probe.digest(probe.left_by(EMULATOR, move))
    assert probe.main([*words[:5], r"^(fence.sc.gpu|membar.gl)$", *words[6:]]) == 0
    after = json.loads((tmp_path / "new" / f"moves-{TARGET}.json").read_text())["digests"]
    assert {*after} == {*record["digests"], "fence.sc.gpu"} and record["digests"].items() <= after.items()


def test_a_wrong_bit_and_a_lost_gpu_cost_one_case_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "kept_machine", lambda device: Faulty(TARGET))
    names = ["membar.cta", "membar.gl", "membar.sys", "fence.sc.gpu", "fence.sc.cta"]
    found = probe.outcomes("emulator", [NUMBERS[name] for name in names], 1)
    by_name = {moves()[outcome.number].name: outcome for outcome in found}
    assert by_name["membar.sys"].failed == "CudaError: lost" and by_name["fence.sc.gpu"].different.startswith("1 bytes")
    assert "NumPy" in by_name["fence.sc.gpu"].unexpected
    assert [name for name in names if not by_name[name].wrong] == ["membar.cta", "membar.gl", "fence.sc.cta"]
    lines = probe.report(found)
    assert len(lines) == 5 and "    membar.sys: FAILED: CudaError: lost" in lines
    assert [*probe.frozen(found)["digests"]] == ["membar.cta", "membar.gl", "fence.sc.cta", "fence.sc.gpu"]


def test_what_is_refused_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "moves", lambda: (probe.Move("brkpt", "nonsense.b32 %x1, %x2;", None),))
    outcome = probe.probed(EMULATOR, 0)
    assert outcome.refused.startswith("AssemblerError: ") and outcome.wrong and probe.frozen([outcome])["refused"]


def test_cases_reach_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose made-up driver writes nothing: what was there is still there."""
    api: Any = FakeApi()
    monkeypatch.setattr(machines, "CudaDevice", lambda ordinal: CudaDevice(ordinal, Driver(api)))
    gpu, number = machines.machine_named("cuda"), NUMBERS["barrier.cluster.wait (and the other)"]
    outcome = probe.probed(gpu, number)
    assert outcome.digest == probe.digest(probe.Arrays(moves()[number].count).written)
    assert outcome.different and outcome.unexpected and not api.memory
    assert [launch[1:8] for launch in api.launched] == [(2, 1, 1, 64, 1, 1, 0)]
