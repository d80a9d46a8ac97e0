"""The probes of Hopper's family: on the emulator, made-up drivers and machines, and what an H200 gave."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as bindings

from tests.runtime.fake_driver import FakeApi, Status
from tests.runtime.probe_cases import play
from tilewright.compiler import assemble
from tilewright.interpreter import LaunchError, encode_im2col_map, encode_tensor_map
from tilewright.runtime import CudaDevice
from tilewright.runtime.devices.cuda_driver import Driver
from tilewright.runtime.devices.cuda_tensor_map import enumerator
from tools.probes import copies, groups, hopper, litmus, machines, map_cases, mbarrier, tensor_copies, wgmma
from tools.probes.copy_cases import COPIES
from tools.probes.litmus import TESTS
from tools.probes.machines import Emulator, Map
from tools.probes.workers import Failure, answers

FAULTY = "emulator"
"""The name under which probes get a machine with faults."""
EMULATOR = "emulator:sm_90a"
DATA = Path(__file__).parent / "data"


def frozen(name: str) -> dict[str, Any]:
    """The results of an H200, which `python -m tools.probes.hopper` writes."""
    return json.loads((DATA / hopper.FILES[name]).read_text())


class Faulty(Emulator):
    """An emulator that gets one bit wrong in what it leaves."""

    def run(self, ptx: str, blocks: int, threads: int, arguments: Sequence[machines.Argument]) -> None:
        super().run(ptx, blocks, threads, arguments)
        out: Any = arguments[-1]
        out.reshape(-1).view(np.uint8)[4] ^= 1


def with_faults(name: str) -> Emulator:
    return Faulty("sm_90a") if name == FAULTY else machines.kept_machine(name)  # type: ignore[return-value]


class Lenient(Emulator):
    """An emulator that takes every tensor map."""

    def __init__(self) -> None:
        super().__init__("sm_90a")

    def refusal(self, tensor: Any, offset: int) -> str:
        return ""


# --- wgmma ---


def test_products_of_groups_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = r"n8k(8|16)|n64k16.f32.bf16.*none.*t$|n8k32.f32.e4m3.e5m2"
    words = ["--device", EMULATOR, "--tiles", "20", "--fit", "0", "--jobs", "1", "--rows", rows]
    assert wgmma.main([*words, "--freeze", str(tmp_path / "digests")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("wgmma on emulator:sm_90a: 7 products of tiles, 0 failed\n") and "differ" not in out
    assert "k16.f32.bf16.bf16      3 layouts and flags" in out
    assert len(json.loads((tmp_path / "digests").read_text())) == 7


def test_a_wrong_bit_of_a_product_is_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wgmma, "kept_machine", with_faults)
    words = ["--device", FAULTY, "--tiles", "20", "--fit", "0", "--jobs", "1", "--rows", "^n8k16.f32.bf16"]
    assert wgmma.main(words) == 1
    assert "1 differ\n    n8k16.f32.bf16.bf16 none/32B: {'near': 1}" in capsys.readouterr().out


def test_the_model_that_fits_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that keeps 12 bits where the emulator's model keeps 13."""

    def results(machine: Any, group: groups.Group, operands: Any) -> Any:
        return wgmma.others(group)["kept=12"](*operands)

    monkeypatch.setattr(wgmma, "results", results)
    rows = ["--rows", r"n256k32\.f32\.e5m2\.e5m2 32B/32B"]
    assert wgmma.main(["--device", EMULATOR, "--tiles", "320", "--fit", "320", "--jobs", "1", *rows]) == 1
    line, example = capsys.readouterr().out.splitlines()[1:3]
    assert " near:" in line and "| also equal: kept=12 |" in line and " F=kept=14:" in line
    assert example.startswith("    near: a ") and ", model " in example


def test_every_type_layout_and_flag_is_probed_once() -> None:
    labels = [group.label for group in groups.GROUPS]
    assert len(set(labels)) == len(labels) and len(groups.MAIN) == 16
    for group in groups.GROUPS:
        operands = [place for place in group.places() if place is not None]
        for _, found in operands:
            assert len(np.unique(found)) == found.size and found.min() >= 0
        if len(operands) == 2:
            assert operands[0][1].max() < operands[1][1].min()
    lies = {(g.right.swizzle, g.right.transposed) for g in groups.GROUPS if g.a == "f16"}
    assert lies == {(swizzle, turned) for swizzle in groups.SWIZZLES for turned in (False, True)}


def test_registers_and_matrices_are_each_others_inverse() -> None:
    for group in (groups.Group(24, "f16", "f16", "f32"), groups.Group(40, "e4m3", "e5m2", "f16")):
        kind = np.uint16 if group.c == "f16" else np.uint32
        c = np.arange(3 * 64 * group.columns).reshape(3, 64, group.columns).astype(kind)
        assert np.array_equal(groups.matrices(group, groups.registers(group, c)), c)


def test_tasks_are_all_of_the_work() -> None:
    todo = list(wgmma.tasks(EMULATOR, "", 1_000_000, 4096))
    tiles = {group: 0 for group in groups.GROUPS}
    for task in todo:
        tiles[task.group] += task.count * task.group.columns // 8
        assert task.count >= 10  # one of each class
    assert [tiles[group] for group in groups.MAIN] == 5 * [1_000_000] + 7 * [100_000] + 4 * [10_016]
    assert sum(task.fit for task in todo) == 16


# --- copies ---


def test_copies_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--device", EMULATOR, "--jobs", "1", "--rows", "promotion|store: element|bulk copies"]
    assert tensor_copies.main([*words, "--freeze", str(tmp_path / "digests")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "copies on emulator:sm_90a: 18 cases"
    assert all(line.endswith("bytes equal") for line in lines[1:4])
    count = len(map_cases.MAPS) + len(map_cases.IM2COL_MAPS)
    assert lines[4] == f"{count} tensor maps, 0 of which the driver takes or refuses otherwise"
    assert len(json.loads((tmp_path / "digests").read_text())) == 18


def test_a_wrong_bit_of_a_copy_is_noticed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_copies, "kept_machine", with_faults)
    monkeypatch.setattr(tensor_copies, "maps_compared", lambda device: [])
    words = ["--device", FAULTY, "--jobs", "1", "--rows", "promotion|store: element"]
    assert tensor_copies.main(words) == 6
    out = capsys.readouterr().out
    assert "3 cases differ\n    load uint16 (16, 4) of (64, 8), L2 64B, x2: 1 bytes, at (8, 2) byte 4: " in out
    assert "3 cases differ\n    store uint32" in out and ", emulator " in out


def test_a_map_that_only_the_emulator_refuses_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(tensor: Any, offset: int) -> str:
        return "no such type" if 257 in getattr(tensor, "box", ())[1:] else ""

    monkeypatch.setattr(tensor_copies, "_emulator_refusal", refusal)
    monkeypatch.setattr(tensor_copies, "kept_machine", lambda device: Lenient())
    assert tensor_copies.main(["--device", EMULATOR, "--jobs", "1", "--rows", "no kind"]) == 1
    out = capsys.readouterr().out
    assert "tensor maps, 1 of which" in out and "    box 257 rows: taken; emulator: no such type\n" in out


def test_a_load_of_another_length_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that expects more bytes than come counts what is missing when its time is up, and goes on."""
    copy = next(c for c in COPIES if c.action == "bulk load" and c.box == (48,))
    text = tensor_copies.kernel_text(copy, "sm_90a").replace("_, [%b], %nb;", "_, [%b], 96;").replace("5000", "2000")
    text = text.replace(
        "try_wait.parity.shared::cta.b64 %q, [%b], 0, 1000", "test_wait.parity.shared::cta.b64 %q, [%b], 0"
    )
    monkeypatch.setattr(tensor_copies, "kernel_text", lambda copy, target: text)
    assert tensor_copies.performed(Emulator("sm_90a"), copy).short == len(copy.ats)


def test_labels_are_unique() -> None:
    assert len({copy.label for copy in COPIES}) == len(COPIES) > 285
    assert len({mbarrier.label(test) for test in TESTS}) == len(TESTS)


# --- tensor maps and launches through a driver ---


class MapApi(FakeApi):
    """A driver with tensor maps, which are the emulator's."""

    cuuint32_t, cuuint64_t = int, int
    names = ("DataType", "Interleave", "Swizzle", "L2promotion", "FloatOOBfill")
    CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill = (
        getattr(bindings, f"CUtensorMap{name}") for name in names
    )
    takes_any = False

    def cuTensorMapEncodeTiled(self, dtype: Any, rank: int, address: int, *rest: Any) -> tuple[Any, ...]:
        shape, strides, *sizes = rest[:-4]
        names = rest[-4:]
        assert rank == len(shape) and len(strides) >= max(1, rank - 1)
        kind = str(dtype.name).removeprefix("CU_TENSOR_MAP_DATA_TYPE_").lower()
        interleave, swizzle, _, fill = (str(x.name).rpartition("_")[2].replace("NONE", "none") for x in names)
        named = {"interleave": interleave, "swizzle": swizzle, "fill": "zero" if fill == "none" else "nan"}
        encode: Any = encode_tensor_map if len(sizes) == 2 else encode_im2col_map
        try:
            found = encode(kind, address, shape, strides[: max(0, rank - 1)], *sizes, **named)
        except LaunchError:
            if not self.takes_any:
                return (Status.CUDA_ERROR_INVALID_IMAGE,)
            found = bytes(128)
        storage = ctypes.create_string_buffer(found, 128)
        return Status.CUDA_SUCCESS, SimpleNamespace(getPtr=lambda: ctypes.addressof(storage))

    cuTensorMapEncodeIm2col = cuTensorMapEncodeTiled


def driven(monkeypatch: pytest.MonkeyPatch, api: Any) -> machines.Gpu:
    monkeypatch.setattr(machines, "CudaDevice", lambda ordinal: CudaDevice(ordinal, Driver(api)))
    return machines.machine_named("cuda")  # type: ignore[return-value]


def test_a_driver_that_takes_what_the_emulator_refuses_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    api: Any = MapApi()
    gpu = driven(monkeypatch, api)
    assert tensor_copies.refusals(gpu) == []
    api.takes_any = True
    lines = tensor_copies.refusals(gpu)
    assert len(lines) > 20 and lines[0].startswith("address + 8: taken; emulator: the array's address 0x10008 is no")
    assert not api.memory


def test_launches_with_tensor_maps_pass_maps_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    api: Any = MapApi()
    gpu = driven(monkeypatch, api)
    seen: list[bytes] = []

    def look(function: int, *rest: Any) -> tuple[()]:
        pointers = ctypes.cast(rest[-2], ctypes.POINTER(ctypes.c_void_p))
        seen.extend(ctypes.string_at(pointers[n], size) for n, size in enumerate((128, 8, 8)))
        out = int.from_bytes(seen[2], "little")
        ctypes.memset(out, 7, 4)
        return FakeApi.do_cuLaunchKernel(api, function, *rest)

    api.do_cuLaunchKernel = look
    array, numbers = machines.aligned(np.arange(64, dtype=np.uint32)), np.zeros(4, np.int32)
    tensor = Map(array, "uint32", (64,), (), (16,), (1,))
    copy = next(c for c in COPIES if c.action == "store" and len(c.box) == 1)
    text = tensor_copies.kernel_text(copy, "sm_90a")
    gpu.run(text, 3, 128, [tensor, numbers, array])
    assert api.launched[0][1:9] == (3, 1, 1, 128, 1, 1, 0, 0)
    place = int.from_bytes(seen[2], "little")
    assert seen[0] == tensor.ours(place) and int.from_bytes(seen[1], "little") not in (0, place)
    assert array[0] == 0x07070707 and (array[1:] == np.arange(1, 64)).all() and (numbers == 0).all()
    assert api.calls.count("cuMemcpyDtoH") == 1 and not api.memory


def test_the_names_of_tensor_maps_are_the_drivers() -> None:
    for dtype in copies.ITEMSIZE:
        assert enumerator(bindings, "dtype", dtype) is not None


# --- litmus tests ---


RACES = {
    *(f"classics: {name} weak, {where}" for name in ("MP", "SB", "LB") for where in ("cta", "cluster", "gpu")),
    *(mbarrier.label(t) for t in TESTS if t.name.endswith("cta, between blocks") and "atomics" not in t.name),
    "messages: a relaxed arrival", "messages: a relaxed wait", "messages: no wait",
    "copies: such a load without a proxy fence", "copies: such a store without a proxy fence",
    "copies: written again before it has been read",
}  # fmt: skip
"""The tests that the emulator calls races; PTX calls two atomics with too narrow a scope one as well."""


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["counts", "remote", "messages", "copies", "classics"])
def test_the_emulator_leaves_what_is_allowed_and_calls_the_others_races(kind: str, step: int) -> None:
    for test in [test for test in TESTS if test.kind == kind][:: step if kind == "classics" else 1]:
        found, error = mbarrier.on_emulator(test, seeds=1 + (kind != "classics"))
        assert error == ("race" if mbarrier.label(test) in RACES else ""), mbarrier.label(test)
        if not error and test.allowed:
            assert found.keys() <= {",".join(map(str, words)) for words in test.allowed}
        if not error and kind in ("counts", "messages", "copies"):
            assert len(found) == 1 and mbarrier.LATE not in found, mbarrier.label(test)


def test_litmus_tests_agree_and_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--device", EMULATOR, "--jobs", "1", "--rows", "most bytes|no wait|SB fence.sc, cta$"]
    words += ["--freeze", str(tmp_path / "outcomes"), "--details", str(tmp_path / "details")]
    assert mbarrier.main(words) == 0
    out = capsys.readouterr().out
    assert "counts       1 tests: 1 equal" in out and "messages     1 tests: 1 race" in out
    assert "equal   counts: the most bytes: 0,1:8 | emulator: 0,1\n" in (tmp_path / "details").read_text()
    kept = json.loads((tmp_path / "outcomes").read_text())
    assert kept["counts: the most bytes"] == {"0,1": 8} and len(kept) == 3


def test_a_wrong_count_is_noticed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found_on = mbarrier.found_on
    monkeypatch.setattr(mbarrier, "found_on", lambda machine, test: {**found_on(machine, test), "0,0": 1})
    assert mbarrier.main(["--device", EMULATOR, "--jobs", "1", "--rows", "the most bytes"]) == 1
    assert "WRONG   counts: the most bytes: 0,0:1 0,1:8 | emulator: 0,1" in capsys.readouterr().out


def test_verdicts() -> None:
    test = litmus.Litmus("k", "n", "", 2, allowed=frozenset({(0, 0), (0, 1)}))

    def verdict(found: Sequence[str], emulator: Sequence[str], error: str = "") -> str:
        return mbarrier.verdict_of(test, dict.fromkeys(found, 1), dict.fromkeys(emulator, 1), error)

    assert verdict(["0,1"], ["0,1"]) == "equal" and verdict(["0,1"], ["0,1", "1,1"]) == "within"
    assert verdict(["0,0", "0,1"], ["0,1"]) == "weaker" and verdict(["1,0"], ["0,1"]) == "WRONG"
    assert verdict(["1,0"], [], "race") == "race" and verdict(["0,1"], [], "BarrierError: x") == "WRONG"
    assert verdict([mbarrier.LATE], [], "race") == "WRONG"


# --- the assembler ---


def texts() -> list[str]:
    found = [litmus.kernel_text(test, "sm_90a", 4) for test in TESTS]
    found += sorted({tensor_copies.kernel_text(copy, "sm_90a") for copy in COPIES})
    for group in groups.GROUPS:
        itemsize = groups.width(group.a) // 8
        end = max(int(place[1].max()) for place in group.places() if place) + itemsize
        assert end <= 48 * 1024
        found.append(groups.kernel_text(group, "sm_90a", -(-end // 16) * 16))
    return found


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_the_assembler_takes_the_kernels(step: int) -> None:
    for text in texts()[::step]:
        assert assemble("k", text, "sm_90a").cubin


# --- processes ---


def test_a_case_that_dies_or_hangs_costs_no_other() -> None:
    cases = ["one", "raises", "two", "faults", "three", "dies", "four", "hangs", "five"]
    found = list(answers(play, [*cases], 2, patience=5))
    assert [type(x) is str for x in found] == [case not in ("raises", "faults", "dies", "hangs") for case in cases]
    told = {case: x.what for case, x in zip(cases, found, strict=True) if isinstance(x, Failure)}
    assert told["raises"] == "ValueError: bad" and told["faults"].startswith("CudaError: lost")
    assert "the process has died" in told["dies"] and told["hangs"] == "no answer within 5 s"
    assert all(x.split()[1] != str(os.getpid()) for x in found if isinstance(x, str))


def test_one_job_needs_no_process() -> None:
    first, second = answers(play, ["one", "raises"], 1)
    assert first == f"one {os.getpid()}" and second == Failure("ValueError: bad")


def test_one_command_runs_all_probes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def breaks(words: Sequence[str]) -> int:
        raise RuntimeError("this one breaks off")

    monkeypatch.setitem(hopper._MAINS, "copies", breaks)
    words = ["--device", EMULATOR, "--out", str(tmp_path / "new"), "--jobs", "1", "--tiles", "20", "--fit", "0"]
    assert hopper.main([*words, "--rows", "the most bytes|^n8k8"]) == 1
    out = capsys.readouterr().out
    assert (tmp_path / "new" / "hopper.txt").read_text() == out and "this one breaks off" in out
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "hopper.txt", "litmus-sm_90a.json", "litmus.txt", "wgmma-sm_90a.json", "wgmma.txt"]  # fmt: skip


# --- what hardware gave ---

REST = [group for group in groups.GROUPS if group not in groups.MAIN]


@pytest.mark.parametrize(
    "some", [[*groups.MAIN, *REST[::16]], pytest.param(REST, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_products_have_the_bits_of_an_h200(some: list[groups.Group]) -> None:
    kept = frozen("wgmma")
    found = wgmma.digests(EMULATOR, some)
    assert found == {label: kept[label] for label in found}


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_copies_leave_the_bytes_of_an_h200(step: int) -> None:
    kept = frozen("copies")
    found = tensor_copies.digests(EMULATOR, [copy for copy in COPIES if copy.label in kept][::step])
    assert found == {label: kept[label] for label in found}


def test_litmus_tests_allow_what_an_h200_left() -> None:
    kept = frozen("litmus")
    for test in TESTS[::4]:
        found = kept[mbarrier.label(test)]
        schedules = (mbarrier.on_emulator(test, seeds) for seeds in (2, mbarrier.SEEDS))
        assert any(mbarrier.verdict_of(test, found, *left) in mbarrier.RIGHT for left in schedules)


@pytest.mark.gpu
@pytest.mark.parametrize("probe", [wgmma.main, tensor_copies.main, mbarrier.main])
def test_the_gpu_agrees_with_the_emulator(probe: Any) -> None:
    """`python -m tools.probes.hopper` says more, on more tiles."""
    few = ["--tiles", "320", "--fit", "0", "--rows", "^n64"] if probe is wgmma.main else []
    assert probe(["--device", "cuda", "--jobs", "8", *few]) == 0
