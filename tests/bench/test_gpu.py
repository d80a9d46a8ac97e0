"""The GPU benchmark without a GPU: on a made-up one that holds NumPy arrays, where the reference runs the kernels."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright import language
from tilewright.bench import cases, gpu, load_kernels
from tilewright.bench.clock import STATE, Gpu
from tilewright.bench.gpu import Row, contenders, first_row, line, measure, measure_launches, related, run
from tilewright.bench.records import store

SYSTEM = (tilewright, language)


class HostGpu:
    """A GPU that is host memory, and whose clock goes on by a microsecond a launch."""

    torch = SimpleNamespace(add=np.add)
    cache_bytes = 4096

    def __init__(self) -> None:
        self.poisoned = 0

    def facts(self) -> dict[str, Any]:
        return {"gpu": "none"}

    def state(self, load: Any) -> dict[str, str]:
        return {"clocks.sm": str(len(load))}

    def upload(self, array: Any) -> Any:
        return array.copy()

    def download(self, array: Any) -> Any:
        return array.copy()

    def noise(self, size: int) -> Any:
        return SimpleNamespace(copy_=lambda source: None)

    def poison(self, array: Any) -> None:
        self.poisoned += 1
        array.reshape(-1).view(np.uint8).fill(0xFF)

    def synchronize(self) -> None:
        pass

    def capture(self, launches: Sequence[Callable[[], object]]) -> Any:
        return list(launches)

    def replay(self, graph: Any) -> None:
        for launch in graph:
            launch()

    def seconds(self, graph: Any) -> float:
        return len(graph) * 1e-6


def rows_of(case: Any, known: Any = None) -> dict[str, Row]:
    found = measure(case, known or {"tilewright": SYSTEM, "triton": SYSTEM}, HostGpu(), rounds=3)  # type: ignore[arg-type]
    return {row.contender: row for row in found}


def test_every_contender_gets_a_row_with_its_samples() -> None:
    rows = rows_of(cases.add(3_000))
    assert list(rows) == ["tilewright", "triton", "torch", "copy"]
    for name, row in rows.items():
        assert row.status == "ok" and row.seconds == pytest.approx(1e-6) and len(row.samples) == 3
        assert row.bytes == 36_000 and row.rate == pytest.approx(36e9)
        assert set(row.over) == set(rows) - {name} and row.over[
            "copy" if name != "copy" else "triton"
        ] == pytest.approx(1)
        assert row.launches * 1e-6 >= gpu.SAMPLE and row.state
    assert rows["tilewright"].error is not None and 0 < rows["tilewright"].error <= 1


def test_arguments_come_in_as_many_sets_as_the_cache_needs() -> None:
    device, seen = HostGpu(), []
    device.upload = lambda array: seen.append(array.nbytes) or array.copy()  # type: ignore[method-assign, func-returns-value]
    measure(cases.add(100), {"tilewright": SYSTEM}, device, rounds=1)  # type: ignore[arg-type]
    assert sum(seen) >= gpu.CACHES * device.cache_bytes > sum(seen) - 1200
    assert device.poisoned == 2 * len(seen) // 3  # the output of each set, for Tilewright and for torch


@pytest.mark.parametrize("leave_out", [0, 99])
def test_a_wrong_result_has_no_time(leave_out: int) -> None:
    """Poison shows what was not written; a wrong value shows by its bound."""
    case = cases.add(100)
    device: Any = HostGpu()

    def launch(given: Sequence[Any]) -> None:
        kept = given[2][leave_out]
        np.add(given[0], given[1], out=given[2])
        given[2][leave_out] = kept

    sets = [gpu.upload(case, device)]
    row = first_row(case, "sloppy", launch, sets, device)
    assert (row.status, row.seconds, row.error, row.samples) == ("wrong", None, None, ())
    assert "wrong" in line(row)
    off = first_row(case, "off", lambda given: np.add(given[0], given[1] + 1, out=given[2]), sets, device)
    assert off.status == "wrong" and off.error is not None and off.error > 1


def test_who_is_wrong_or_fails_is_not_timed_and_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(torch: Any, given: Sequence[Any]) -> None:
        raise RuntimeError("no kernel image")

    monkeypatch.setitem(gpu.LIBRARY, "add_kernel", broken)  # type: ignore[arg-type]
    rows = rows_of(cases.add(500))
    assert rows["torch"].status == "failed" and rows["torch"].problem == "RuntimeError: no kernel image"
    assert rows["torch"].seconds is None and rows["torch"].over == {} and "torch" not in rows["triton"].over
    assert rows["tilewright"].seconds is not None


def test_a_kernel_that_does_not_compile_is_refused() -> None:
    case = cases.add(100)
    kernel = load_kernels("elementwise", *SYSTEM).dropout_kernel  # has a parameter more

    def launch(given: Sequence[Any]) -> Any:
        return kernel[case.grid](*given, BLOCK=100, seed=1)  # 100 is no power of two

    row = first_row(case, "tilewright", launch, [case.fresh()], HostGpu())  # type: ignore[arg-type]
    assert row.status == "refused" and "power" in row.problem


def test_launches_are_timed_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LAUNCHES", 3)
    rows = measure_launches({"tilewright": SYSTEM}, HostGpu(), rounds=2)  # type: ignore[arg-type]
    assert [(row.contender, row.what, row.status, len(row.samples)) for row in rows] == [
        ("tilewright", "launch", "ok", 2),
        ("torch", "launch", "ok", 2),
    ]
    assert all(row.seconds and row.seconds > 0 for row in rows)


def test_ratios_are_of_rows_with_times() -> None:
    rows = related([Row("ok", "a", "x", seconds=1.0), Row("ok", "a", "y", seconds=4.0), Row("wrong", "a", "z")])
    assert [row.over for row in rows] == [{"y": 4.0}, {"x": 0.25}, {}]


def test_code_is_identified_by_its_digests() -> None:
    kernel = SimpleNamespace(asm={"ptx": "text", "cubin": b"text", "llir": "not asked"}, n_regs=16, n_spills=0)
    found = gpu.digests(kernel)
    assert found["ptx"] == found["cubin"] and len(found["ptx"]) == 64
    assert found == {"ptx": found["ptx"], "cubin": found["ptx"], "n_regs": 16, "n_spills": 0}
    assert gpu.digests(None) == {}


def test_a_run_prints_and_keeps_rows_case_by_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu, "CASES", (partial(cases.add, 600), partial(cases.dropout, 600)))
    monkeypatch.setattr(gpu, "LAUNCHES", 2)
    path = tmp_path / "data" / "gpu.jsonl"
    kept: list[int] = []

    def keep(rows: list[Row]) -> None:
        kept.append(len(rows))
        store(path, map(asdict, rows))

    rows = run({"tilewright": SYSTEM}, HostGpu(), 2, "add", keep)  # type: ignore[arg-type]
    assert kept == [3, 2] and [row.contender for row in rows] == ["tilewright", "torch", "copy", "tilewright", "torch"]
    stored = [json.loads(text) for text in path.read_text().splitlines()]
    assert [next(iter(row)) for row in stored] == ["status"] * 5
    assert stored[0] == json.loads(json.dumps(asdict(rows[0])))
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 6 and printed[0].startswith("case") and printed[1].startswith("vector add 600")


def test_a_missing_peer_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("tilewright.bench._lazy.importlib.import_module", missing)
    assert gpu.main([]) == 2
    words = "No module named 'torch'; measuring beside peers needs them: pip install torch triton==3.6.0"
    assert capsys.readouterr().err == f"error: {words}\n"


def test_without_torch_or_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing() -> Any:
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr(gpu, "torch_module", missing)
    assert gpu.main([]) == 2
    blind = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setattr(gpu, "torch_module", lambda: blind)
    monkeypatch.setattr(gpu, "systems", lambda interpret: {})
    assert gpu.main([]) == 2
    assert capsys.readouterr().err == "error: No module named 'torch'\nerror: torch sees no CUDA device\n"


def test_every_case_has_work_and_is_reached_by_torch_where_it_says_so() -> None:
    device: Any = HostGpu()
    kernels = {"add_kernel", "gelu_kernel", "dropout_kernel", "hash_kernel", "scale_shift_kernel"}
    assert set(gpu.LIBRARY) <= kernels
    for case in (cases.add(64), cases.gelu(64), cases.dropout(64), cases.hash_bits(64), cases.scale_shift(8, 8)):
        names = list(contenders(case, {"tilewright": SYSTEM}, device.torch))
        assert names == ["tilewright", *(["torch"] if case.kernel in gpu.LIBRARY else [])]


# The clock, on a made-up torch


class FakeCuda:
    """`torch.cuda`: notes what happens, and lets a millisecond pass between two events."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.CUDAGraph = lambda: SimpleNamespace(replay=lambda: self.log.append("replay"))

    def current_device(self) -> int:
        return 1

    def get_device_properties(self, device: Any) -> Any:
        return SimpleNamespace(name="H", major=9, minor=0, multi_processor_count=132, L2_cache_size=7)

    def synchronize(self, device: Any) -> None:
        self.log.append("synchronize")

    def graph(self, graph: Any) -> Any:
        log = self.log

        class Capture:
            def __enter__(self) -> None:
                log.append("begin")

            def __exit__(self, *_: object) -> None:
                log.append("end")

        return Capture()

    def Event(self, enable_timing: bool) -> Any:
        assert enable_timing
        return SimpleNamespace(
            record=lambda: self.log.append("record"),
            synchronize=lambda: self.log.append("wait"),
            elapsed_time=lambda end: 1.5,
        )


def made_up_gpu() -> tuple[Gpu, list[str]]:
    fake = FakeCuda()
    torch: Any = SimpleNamespace(
        cuda=fake, device=lambda kind, index: SimpleNamespace(index=index), version=SimpleNamespace(cuda="13.0")
    )
    return Gpu(torch), fake.log


def test_the_second_of_two_runs_is_timed_and_nothing_waits_between_them() -> None:
    device, log = made_up_gpu()
    graph = device.capture([partial(log.append, "launch")] * 2)
    assert log == ["synchronize", "begin", "launch", "launch", "end"]
    log.clear()
    assert device.seconds(graph) == 1.5e-3
    assert log == ["replay", "record", "replay", "record", "wait"]


def test_the_state_is_asked_while_the_device_works(monkeypatch: pytest.MonkeyPatch) -> None:
    device, log = made_up_gpu()
    asked: list[list[str]] = []

    def smi(command: list[str]) -> str:
        asked.append(command)
        log.append("asked")
        return "P0, 1980, 3201, 1980, 650.5, 700.0, 61\n"

    monkeypatch.setattr("tilewright.bench.clock.answer", smi)
    state = device.state(device.capture([]))
    assert state["clocks.sm"] == "1980" and list(state) == list(STATE)
    assert log[-3:] == ["replay", "asked", "synchronize"] and asked[0][-2:] == ["-i", "1"]
    monkeypatch.setattr("tilewright.bench.clock.answer", lambda command: "")
    assert device.state(device.capture([])) == {}
    assert device.facts() == {
        "gpu": "H", "capability": "9.0", "multiprocessors": 132, "cache_bytes": 7, "driver": "", "cuda": "13.0",
    }  # fmt: skip


@pytest.mark.optional("torch")
def test_poison_is_no_number_in_any_float_format() -> None:
    import torch

    device = Gpu.__new__(Gpu)
    device.torch, device.device = torch, torch.device("cpu")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        tensor = torch.zeros(4, 2, dtype=dtype)
        device.poison(tensor)
        assert bool(torch.isnan(tensor).all())
    words = device.upload(np.zeros(3, np.uint32))
    device.poison(words)
    assert device.download(words).tolist() == [2**32 - 1] * 3
    numbers = np.array([1.5, -0.0, np.inf], ml_dtypes.bfloat16)
    given = device.upload(numbers)
    assert given.dtype == torch.bfloat16 and device.download(given).tobytes() == numbers.tobytes()
    assert device.noise(1000).unique().numel() > 100


@pytest.mark.gpu
@pytest.mark.optional("torch", "triton")
def test_a_small_run_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gpu.jsonl"
    assert gpu.main(["--only", "1,048,576", "--rounds", "3", "--store", str(path)]) == 0
    rows = [json.loads(text) for text in path.read_text().splitlines()]
    assert {row["contender"] for row in rows} == {"tilewright", "triton", "torch", "copy"}
    assert all(row["status"] == "ok" and row["seconds"] > 0 for row in rows)
    assert all(len(row["code"]["ptx"]) == 64 for row in rows if row["contender"] in ("tilewright", "triton"))
