"""The probe of all operands of the f32 functions: on the emulator, on machines that are wrong, on a made-up driver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interpreter.ptx.hardware import block_replayed, excesses, frozen
from tests.runtime.fake_driver import FakeApi, Status
from tilewright.compiler import assemble
from tilewright.interpreter import Buffer, load_ptx, run_ptx
from tilewright.runtime import CudaDevice
from tilewright.runtime.devices.cuda_driver import Driver
from tools.probes import instruction_report, instructions, machines, sweep_machine, sweeps
from tools.probes.cases import THREADS
from tools.probes.measures import WORST, Worst
from tools.probes.sweep_machine import U32, EmulatedSweeps, GpuSweeps
from tools.probes.sweeps import BLOCK, SWEEPS, swept_block

WORDS = ["--device", "emulator:sm_90a", "--jobs", "1"]


class Off(EmulatedSweeps):
    """Every 4,096th result is one code off, and -0 comes out as 0."""

    def results(self, opcodes: Sequence[str], base: int, count: int) -> list[U32]:
        found = super().results(opcodes, base, count)
        for results in found:
            results[::4096] += 1
            results[results == 0x8000_0000] = 0
        return found


def test_a_block_of_each_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--part", "sweeps", "--block", "63", "--count", "8192", "--out", str(tmp_path)]
    assert instructions.main(words) == 0
    assert capsys.readouterr().out.count("[1 blocks bit-equal]") == sum(len(sweep.opcodes) for sweep in SWEEPS)
    record = frozen("sweeps", tmp_path)
    roots = np.sqrt(np.arange(63 << 24, (63 << 24) + 8192, dtype=np.uint32).view(np.float32))
    assert record["sqrt.rn.ftz.f32"]["blocks"]["63"] == sweeps.digest(roots.view(np.uint32))
    assert all(excesses(opcode, own) == [] for opcode, own in record.items() if ".rn." not in opcode)


def test_a_whole_block_is_replayed_and_a_wrong_bit_noticed() -> None:
    kernel = EmulatedSweeps().results(["sqrt.rn.f32"], 64 * BLOCK, BLOCK)[0]
    record = {"blocks": {"64": sweeps.digest(kernel)}}
    assert block_replayed("sqrt.rn.f32", record, 64) == ""
    kernel[77] ^= 1
    record = {"blocks": {"64": sweeps.digest(kernel)}}
    assert (
        block_replayed("sqrt.rn.f32", record, 64) == "sqrt.rn.f32: block 64 of 256 differs (again: pytest --block 64)"
    )
    assert block_replayed("sqrt.rn.f32", record, 65) == "sqrt.rn.f32: block 65 was not frozen"


def test_errors_are_measured_against_the_real_value() -> None:
    sweep = SWEEPS[0]
    base, count = 0x3F80_0000, 1 << 14
    for swept in swept_block(Off(), sweep, base, count):
        seen = swept.measured
        assert seen.histogram() == {"0": count - 4, "1": 4} and not swept.digests and not swept.equal
        peak = seen.peaks[0]
        assert peak.error == 1 and peak.compared == count and 0.5 < seen.furthest.error <= 1.5
        assert set((seen.worst.operands[:4, 0] - base).tolist()) == {0, 4096, 8192, 12288}
        assert len(seen.worst.found) == WORST
        want = np.exp2(np.array(seen.furthest.operands, np.uint32).view(np.float32).astype(np.float64))
        got = np.array([seen.furthest.found], np.uint32).view(np.float32).astype(np.float64)
        assert seen.furthest.error == abs(got - want)[0] / 2.0**-22


def test_special_results_must_be_the_same() -> None:
    plain, flushing = swept_block(Off(), SWEEPS[2], 0xFF7F_F000, 1 << 13)  # of rcp: up to -infinity, and NaNs
    assert plain.measured.special == 1
    assert plain.measured.example == "ff800000 -> 80000001, should be 80000000"
    assert flushing.measured.special > 4000 and flushing.measured.nans == {0x7FFF_FFFF}


@pytest.mark.parametrize(("number", "base"), [(0, 0xC000_0000), (1, 0x3F00_0000), (5, 0x40C9_0000), (6, 0x439D_1000)])
def test_what_is_frozen_is_held_against_the_bounds(number: int, base: int) -> None:
    """Of one code off, where it is little enough: with a bound, at the end of one, and behind the last."""
    (swept, _), opcode = swept_block(Off(), SWEEPS[number], base, 1 << 14), SWEEPS[number].opcodes[0]
    record: dict[str, Any] = json.loads(json.dumps(instruction_report.frozen(swept.measured)))
    assert len(record["worst"]) == 3 and excesses(opcode, record) == []
    (operands,), results = instruction_report.unpacked(record["worst"])
    record["worst"] = instruction_report.packed(Worst(np.ones(1), operands[:1, None], results[:1] + np.uint64(1 << 22)))
    assert len(excesses(opcode, record)) == 1


class Flushed(EmulatedSweeps):
    """Small results are zeros."""

    def results(self, opcodes: Sequence[str], base: int, count: int) -> list[U32]:
        found = super().results(opcodes, base, count)
        for results in found:
            results[results & 0x7FFF_FFFF < 0x0080_0000] &= 0x8000_0000
        return found


def test_a_zero_for_a_small_number_is_an_error_like_others() -> None:
    """sin of subnormals is far within its bound; ex2 from -126 down is not within 2 codes, but where it flushes."""
    for swept in swept_block(Flushed(), SWEEPS[5], 0x0040_0000, 4096):
        assert not swept.measured.special and swept.measured.peaks[0].error < 2.0**-126
    plain, flushing = swept_block(Flushed(), SWEEPS[0], 0xC2FD_0000, 4096)  # from -126.5 on
    assert not plain.measured.special and plain.measured.peaks[0].error > 2.0**22
    assert flushing.equal and not flushing.measured.peaks[0].error


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.opcodes[0])
def test_slices_of_a_block_have_one_bound_each(sweep: sweeps.Sweep) -> None:
    for base in (0, 0x3F00_0000, 0x4000_0000, 0x7F00_0000, 0x8000_0000, 0xC300_0000):
        covered = 0
        for first, end, number in sweeps.parts(sweep.bounds, base, BLOCK):
            assert first == covered and end > first
            covered = end
            x = np.array([base + first, base + end - 1], np.uint32).view(np.float32)
            if np.isfinite(x).all():
                x = x.astype(np.float64)
                holds = [bool(bound.holds(x).all()) for bound in sweep.bounds]
                assert holds[number] if number >= 0 else not any(bound.holds(x).any() for bound in sweep.bounds)
        assert covered == BLOCK


def test_the_kernel_of_a_sweep_makes_its_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    for sweep in SWEEPS:
        assert assemble("k", sweep_machine.text(sweep.opcodes, "sm_90a", BLOCK), "sm_90a").cubin
        out = np.zeros(2 * 512, np.uint32)
        module = load_ptx(sweep_machine.text(sweep.opcodes, "sm_90a", 512))
        run_ptx(module, "k", (2,), (THREADS,), [Buffer.of("out", out), 0xC07F_FF80])
        for n, want in enumerate(EmulatedSweeps().results(sweep.opcodes, 0xC07F_FF80, 512)):
            assert (out[512 * n : 512 * n + 512] == want).all()


class Pinning(FakeApi):
    """A driver that gives host memory, and writes a pattern where a kernel would."""

    def do_cuMemHostAlloc(self, size: int, flags: int) -> tuple[int]:
        return self.do_cuMemAlloc(size)


@pytest.mark.parametrize("failures", [{}, {"cuMemHostAlloc": Status.CUDA_ERROR_OUT_OF_MEMORY}])
def test_sweeps_reach_a_gpu(failures: dict[str, Status], monkeypatch: pytest.MonkeyPatch) -> None:
    api: Any = Pinning(**failures)
    monkeypatch.setattr(sweep_machine, "CudaDevice", lambda ordinal: CudaDevice(ordinal, Driver(api)))
    gpu = sweep_machine.sweeps_on("cuda")
    assert isinstance(gpu, GpuSweeps)
    for base in (0, 512, 1024):
        plain, flushing = gpu.results(SWEEPS[0].opcodes, base, 512)
        assert len(plain) == len(flushing) == 512 and not np.shares_memory(plain, flushing)
    gpu.results(SWEEPS[7].opcodes, 0, 2048)
    assert [launch[1:8] for launch in api.launched] == [(2, 1, 1, 256, 1, 1, 0)] * 3 + [(8, 1, 1, 256, 1, 1, 0)]
    assert len(api.images) == 2 and api.calls.count("cuMemAlloc") == 2
    assert api.calls.count("cuMemcpyDtoH") == 4 and api.calls.count("cuMemFree") == 1


def test_the_whole_command_on_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose made-up driver computes nothing: every result is what the memory held."""
    api: Any = Pinning()
    for module in (machines, sweep_machine):
        monkeypatch.setattr(module, "CudaDevice", lambda ordinal: CudaDevice(ordinal, Driver(api)))
    monkeypatch.setattr(CudaDevice, "description", "a made-up GPU")
    words = [
        "--rows",
        r"^(add\.s32|tanh\.approx\.(f32|f16))$",
        "--block",
        "63",
        "--count",
        "1024",
        "--out",
        str(tmp_path),
    ]
    assert instructions.main(["--device", "cuda", "--jobs", "1", *words]) > 100
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a made-up GPU; 1 processes"
    assert lines[1].startswith(
        "2 instructions: 0 refused by the assembler or the emulator, 0 failed, 1 approximate, 0 equal"
    )
    assert lines[2].startswith("1/1 of add.<type:u16|u32|u64|s16|s32|s64|u16x2|s16x2>: value ")
    assert any(line.startswith("tanh.approx.f32: ") and " EXCEEDED" in line for line in lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "answers-sm_90a.json", "answers.txt", "instructions-sm_90a.json", "rows.txt", "sweeps-sm_90a.json",
        "sweeps.txt",
    ]  # fmt: skip
    assert excesses("tanh.approx.f32", frozen("sweeps", tmp_path)["tanh.approx.f32"])
