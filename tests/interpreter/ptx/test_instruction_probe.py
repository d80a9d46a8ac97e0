"""The probe of single instructions: on the emulator, on machines that are wrong, on a made-up driver."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from tests.interpreter.ptx.hardware import excesses, frozen, replayed
from tests.runtime.fake_driver import FakeApi
from tilewright.compiler import assemble
from tilewright.interpreter.ptx.table import FORMS, find
from tilewright.runtime import CudaDevice, CudaError
from tilewright.runtime.devices.cuda_driver import Driver
from tools.probes import instruction_report, instruction_tasks, instructions, machines, patterns, questions
from tools.probes.cases import text
from tools.probes.differences import compare
from tools.probes.instruction_report import packed, unpacked
from tools.probes.instruction_rows import cases
from tools.probes.machines import Emulator
from tools.probes.measures import WORST, Worst
from tools.probes.sweeps import SWEEPS

CASES = {case.name: case for case in cases()}
SOME = r"^(add\.f32|add\.f32x2|cvt\.rzi\.s8\.f16|prmt\.b32|ex2\.approx\.f16|div\.full\.f32|shfl\.sync\.up.*)$"
WORDS = ["--device", "emulator:sm_90a", "--jobs", "1"]


# --- operands ---


def test_operands_are_the_same_everywhere() -> None:
    """By no generator of NumPy's: a digest says that they stay what they were when a GPU was asked."""
    found = [
        patterns.operands(names, 4096) for names in (("f32", "f32", "f32"), ("s64", "b32"), ("e4m3x2",), ("f16x2",) * 2)
    ]
    octets = b"".join(x.astype(x.dtype.newbyteorder("<")).tobytes() for columns in found for x in columns)
    assert hashlib.sha256(octets).hexdigest()[:16] == "925e20c1aa94614f"


@pytest.mark.parametrize(("name", "pair"), [("s32", (0x8000_0000, 0xFFFF_FFFF)), ("f32", (0x7FC0_0000, 0x8000_0000))])
def test_special_values_meet_each_other(name: str, pair: tuple[int, int]) -> None:
    a, b = patterns.operands((name, name), 1 << 16)
    assert ((a == pair[0]) & (b == pair[1])).any()
    assert all(len(np.unique(x)) > 25_000 for x in (a, b))


@pytest.mark.parametrize("name", ["f16", "bf16x2", "u8", "e5m2x2"])
def test_16_bits_are_all_tried(name: str) -> None:
    (x,) = patterns.operands((name,), 1 << 16)
    halves = np.ascontiguousarray(x).view(np.uint16).reshape(1 << 16, -1)
    assert all(len(np.unique(column)) == 1 << 16 for column in halves.T)


def unknown(what: str) -> NoReturn:
    raise LookupError(what)


def test_every_row_that_computes_is_probed() -> None:
    """But those about addresses, what needs sm_100, and what `moves` probes."""
    lines = [line for case in cases() for line in case.line.split(";")] + [o for sweep in SWEEPS for o in sweep.opcodes]
    probed = {find(line.split()[0], unknown)[0].syntax for line in lines if line.strip()}
    families = ("integer", "float", "bits", "compare", "convert", "warp", "move")
    rows = [form for forms in FORMS.values() for form in forms if form.kernel is not None or form.family in families]
    missing = {re.split(r"[.\[]", form.syntax)[0] for form in rows if form.syntax not in probed}
    addresses = {"cvta", "isspacep", "mapa", "getctarank", "alloca", "stacksave"}
    assert missing == addresses | {"createpolicy", "redux", "lop3"}


# --- the command ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command finds on the emulator, for some rows."""
    path = tmp_path_factory.mktemp("found")
    assert instructions.main([*WORDS, "--rows", SOME, "--part", "rows", "--part", "answers", "--out", str(path)]) == 0
    return path


def test_the_emulator_agrees_with_itself_and_its_results_are_replayed(folder: Path) -> None:
    record = frozen("instructions", folder)
    assert [*record["digests"]] == ["add.f32", "cvt.rzi.s8.f16", "prmt.b32", "shfl.sync.up.b32"]
    assert record["refused"] == ["add.f32x2"] and [*record["approximate"]] == ["div.full.f32", "ex2.approx.f16"]
    assert replayed(record["digests"], record["digests"]) == []
    assert [text for name, own in record["approximate"].items() for text in excesses(name, own)] == []
    assert frozen("answers", folder) == questions.answers(Emulator("sm_90a"))
    assert (folder / "answers.txt").read_text().startswith("x / 0 of 7, -7, 0: div.u16, div.s16 = ffff ffff ffff; ")
    assert "refused: add.f32x2: " in (folder / "rows.txt").read_text()


def test_frozen_results_that_are_wrong_are_noticed(folder: Path) -> None:
    want = dict(frozen("instructions", folder)["digests"])
    exact, alike = want["add.f32"].split()
    want |= {"prmt.b32": "0" * 16, "add.f32": f"{'0' * 16} {alike}"}
    assert replayed(want, want) == ["add.f32: the bits of NaNs", "prmt.b32: values"]
    want["add.f32"] = f"{exact} {'0' * 16}"
    assert replayed(want, ["add.f32"]) == ["add.f32: values"]


class Wrong(Emulator):
    """An emulator that flips a bit of some results of f32, and has NaNs of its own."""

    def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
        super().run(ptx, blocks, threads, arguments)
        results = arguments[-1].view(np.uint32)
        results[50_001] ^= 1
        results[results == 0x7FFF_FFFF] = 0xFFC0_0000


def test_another_machine_is_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instruction_tasks, "_machine", lambda device: Wrong("sm_90a"))
    words = [*WORDS, "--part", "rows", "--out", str(tmp_path), "--rows", r"^(add|mul)\.rn\.f32$"]
    assert instructions.main(words) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("2 instructions: 0 refused by the assembler or the emulator, 0 failed, 0 approximate")
    assert lines[2].startswith("1/1 of add[.<rnd:rn|rz|rm|rp>][.ftz][.sat].<type:f32>: NaN bits ")
    assert ", value 1; add.rn.f32: " in lines[2]
    kept = (tmp_path / "rows.txt").read_text()
    assert "mul.rn.f32: NaN bits: " in kept and " -> ffc00000, emulator 7fffffff" in kept


def test_what_fails_is_said_and_the_rest_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Emulator):
        def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
            if "add.s32" in ptx:
                raise OSError("lost")
            super().run(ptx, blocks, threads, arguments)

    monkeypatch.setattr(instruction_tasks, "_machine", lambda device: Broken("sm_90a"))
    monkeypatch.setattr(instruction_tasks, "swept_block", lambda *_: 1 / 0)
    words = ["--part", "rows", "--part", "sweeps", "--block", "3", "--rows", r"^(add\.[su]32|sqrt\.rn\.f32)$"]
    assert instructions.main([*WORDS, *words]) == 2
    out = capsys.readouterr().out
    assert "3 instructions: 0 refused by the assembler or the emulator, 1 failed, 0 approximate, 2 equal" in out
    assert "failed 1; add.s32: OSError: lost" in out
    assert "failed: sqrt.rn.f32: block at 0x03000000: ZeroDivisionError: " in out


def test_zeros_differ_by_their_sign() -> None:
    case, operands = CASES["add.f16"], tuple(np.zeros(8, np.uint16) for _ in range(2))
    found, want = np.zeros(8, np.uint16), np.zeros(8, np.uint16)
    found[2], found[3] = 0x8000, 1
    outcome = compare(case, operands, found.view(np.uint8), want.view(np.uint8))
    assert outcome.kinds == {"zero sign": 1, "value": 1} and outcome.compared == 8


def test_processes_share_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "emulator:sm_90a", "--jobs", "2", "--part", "rows", "--rows", r"^popc"]
    assert instructions.main(words) == 0
    assert "2 instructions: 0 refused" in capsys.readouterr().out


def test_a_lost_gpu_costs_one_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Emulator):
        def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
            if "popc.b64" in ptx:
                raise CudaError("lost", "CUDA_ERROR_ILLEGAL_ADDRESS")
            super().run(ptx, blocks, threads, arguments)

    monkeypatch.setattr(instruction_tasks, "_machine", lambda device: Lost("sm_90a"))
    found = instruction_tasks.outcomes("emulator:sm_90a", ["popc.b32", "popc.b64", "clz.b32"], 1)
    assert [outcome.failed for outcome in found] == ["", "CudaError: lost", ""]


def test_kernels_of_all_kinds_are_assembled_and_run_alike() -> None:
    """The assembler's view of each way that a kernel is written; the emulator runs them in the other tests."""
    names = (
        "shfl.sync.bfly.b32",
        "match.all.sync.b64",
        "elect.sync",
        "atom.global.add.noftz.v2.f16",
        "red.shared.add.f32",
    )
    names += (
        "setp.lt.and.f32",
        "setp.lt.f16x2",
        "atom.shared.cas.b16",
        "lop3.b32 0x96",
        "cvt.s8.s16",
        "mov.b64 of two",
    )
    for name in names:
        assert assemble("k", text(CASES[name], "sm_90a", 512), "sm_90a").cubin
        assert questions.execute(Emulator("sm_90a"), CASES[name], [x[:512] for x in CASES[name].operands]).any()


def test_rows_reach_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose made-up driver writes nothing: every sum of nonzero integers is wrong."""
    api: Any = FakeApi()
    monkeypatch.setattr(machines, "CudaDevice", lambda ordinal: CudaDevice(ordinal, Driver(api)))
    outcome = instruction_tasks.probed(machines.machine_named("cuda"), CASES["add.s32"])
    assert outcome.differences.kinds["value"] > 60_000 and not outcome.failed
    assert [launch[1:8] for launch in api.launched] == [(256, 1, 1, 256, 1, 1, 0)]


# --- what is kept ---


class Coarse(Emulator):
    """An emulator whose f64 results lack 40 bits, and whose others are one code too far."""

    def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
        super().run(ptx, blocks, threads, arguments)
        if ".f64" in ptx:
            arguments[-1].view(np.uint64)[:] &= np.uint64(0xFFFF_FF00_0000_0000)
        else:
            arguments[-1].view(np.uint16)[:] += (arguments[-1].view(np.uint16) & 0x7FFF) - 1 < 0x3C00


@pytest.mark.parametrize(
    ("name", "complaints"),
    [("rcp.approx.ftz.f64", 0), ("rsqrt.approx.f64", 0), ("tanh.approx.f16x2", 1), ("ex2.approx.f16", 1)],
)
def test_errors_of_approximate_instructions_are_measured(name: str, complaints: int) -> None:
    """The ISA promises nothing in f64; in f16 one code is too much at the end of a binade, from the real value."""
    outcome = instruction_tasks.probed(Coarse("sm_90a"), CASES[name])
    assert outcome.measured is not None and outcome.measured.furthest.error > 0.5 and not outcome.failed
    record = instruction_report.frozen(outcome.measured)
    assert len(record["worst"]) == 3 and record["histogram"] and len(excesses(name, record)) == complaints
    assert 1e-6 < outcome.measured.peaks[0].error < 2e-3 and len(outcome.measured.peaks[0].operands) == 1


def test_the_worst_operands_are_kept_and_packed() -> None:
    rng, worst = np.random.default_rng(0), Worst()
    error, x = rng.random(50_000), np.arange(50_000, dtype=np.uint32)
    for part in np.array_split(np.arange(50_000), 13):
        worst.add(error[part], [x[part], x[part] + np.uint32(1)], x[part])
    worst.done()
    assert worst.found.tolist() == np.argsort(-error)[:WORST].tolist()
    columns, found = unpacked(json.loads(json.dumps(packed(worst))))
    assert (columns[1] == columns[0] + 1).all() and (columns[0] == worst.found).all() and (found == worst.found).all()
    assert unpacked(packed(Worst()))[0] == []


def test_what_exceeds_a_bound_is_said(folder: Path) -> None:
    record: dict[str, Any] = json.loads(json.dumps(frozen("instructions", folder)["approximate"]["ex2.approx.f16"]))
    record["peaks"]["0"] |= {"error": 0.01, "operands": ["3c00"]}
    record["worst"] = ["4", "3c003c00", "40004030"]
    assert excesses("ex2.approx.f16", record) == [
        "ex2.approx.f16: relative error 0.01 of 0.001047 at ['3c00']",
        "ex2.approx.f16: 3c00 is relative 0.04688 off",
    ]
    record |= {"special": 3, "example": "x", "worst": ["0"], "peaks": {}}
    assert excesses("ex2.approx.f16", record) == ["ex2.approx.f16: 3 special results: x"]


@pytest.mark.parametrize("name", ["cvt.rn.f64.bf16", "cvt.rz.f32.bf16", "cvt.rp.ftz.f32.bf16"])
def test_a_rounding_that_bf16_does_not_need_is_taken_as_the_assembler_takes_it(name: str) -> None:
    machine, plain = Emulator("sm_90a"), CASES[re.sub(r"\.r[nzmp]", "", name)]
    assert assemble("k", text(CASES[name], "sm_90a", 256), "sm_90a").cubin
    assert (
        questions.execute(machine, CASES[name], plain.operands) == questions.execute(machine, plain, plain.operands)
    ).all()
