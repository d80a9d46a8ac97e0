"""The probe of matrix products: on the emulator, a made-up driver and a GPU; and the assembler's view of them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.test_cuda_device import FakeApi
from tilewright.compiler import AssemblerError, assemble
from tilewright.lang import knobs
from tilewright.runtime import CudaDevice
from tilewright.runtime.devices.cuda_driver import Driver
from tilewright.runtime.devices.emulator import EmulatorDevice
from tools.probes import inputs, machines, mma
from tools.probes.candidates import model
from tools.probes.products import PRODUCTS, Mma, kernel_text

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")


def accepted(ptx: str, target: str) -> bool:
    try:
        return bool(assemble("k", ptx, target).cubin)
    except AssemblerError as error:
        assert "requires .target" in str(error) or "not supported on .target" in str(error)
        return False


def agrees(products: tuple[Mma, ...], target: str) -> None:
    """The assembler takes what a target has by our table, and refuses the rest."""
    for product in products:
        has = product.least <= int(target[3:].rstrip("a"))
        assert accepted(kernel_text(product, target), target) == has, (product.label, target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_assembler_knows_these_products(target: str) -> None:
    agrees(PRODUCTS[TARGETS.index(target) :: 14], target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_assembler_knows_all_products(target: str) -> None:
    agrees(PRODUCTS, target)


OTHERS = [
    (75, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r0, %r1, %r2, %r3}, [%r4];"),
    (75, "ldmatrix.sync.aligned.m8n8.x1.b16 {%r0}, [%d0];"),
    (90, "stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [%r4], {%r0, %r1};"),
    (75, "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;"),
    (80, "redux.sync.max.s32 %r0, %r1, 0xffffffff;"),
]


@pytest.mark.parametrize(("least", "text"), OTHERS)
def test_the_assembler_knows_the_moves_of_matrices(least: int, text: str) -> None:
    for target in ("sm_80", "sm_90a", "sm_120a"):
        body = (
            ".reg .b32 %r<8>; .reg .b64 %d<2>; .shared .align 16 .b8 tile[512]; ld.param.u64 %d0, [p];"
            f"ld.global.b32 %r1, [%d0]; mov.u32 %r4, tile;\n{text}\nst.global.b32 [%d0], %r0; ret;"
        )
        header = f".version 8.8\n.target {target}\n.address_size 64\n"
        module = f"{header}.visible .entry k(.param .u64 p)\n{{\n{body}\n}}\n"
        assert accepted(module, target) == (least <= int(target[3:].rstrip("a")))


# --- the probe ---


def test_operands_are_drawn_alike_everywhere_and_reach_the_corners() -> None:
    product = next(p for p in PRODUCTS if p.label == "m16n8k16.f32.bf16.bf16.f32")
    classes, (a, b, c) = inputs.drawn(product, 3, 90)
    again, (x, y, z) = inputs.drawn(product, 3, 90)
    assert (classes == again).all() and (a == x).all() and (b == y).all() and (c == z).all()
    assert set(classes) == set(inputs.FLOATS)
    magnitude = a & np.uint16(0x7FFF)
    assert (magnitude > 0x7F80).any() and (magnitude == 0x7F80).any() and (magnitude == 0).any()
    assert ((magnitude > 0) & (magnitude < 0x80)).any() and (a == 0x8000).any()


def test_the_emulator_agrees_with_its_own_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--device", "emulator:sm_90a", "--fragments", "80", "--jobs", "1", "--freeze", str(tmp_path / "digests")]
    rows = r"k16\.f32\.(bf16|e4m3\.e4m3)|k16.*s8.*s8"
    assert mma.main([*words, "--fit", "80", "--rows", rows]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["emulator:sm_90a: 6 products", "4 products of integers: 30,720 results, equal"]
    bf16, fp8 = lines[2:4]
    assert bf16.startswith("m16n8k16.f32.bf16.bf16.f32              10,240 equal | also equal: ")
    assert " F=24:" in bf16 and " L=8:" in bf16
    assert fp8.startswith("m16n8k16.f32.e4m3.e4m3.f32") and " F=13 L=16:" in fp8
    kept = json.loads((tmp_path / "digests").read_text())
    other = mma.digests("emulator:sm_120a", rows)
    assert {label for label in kept if kept[label] != other[label]} == {"m16n8k16.f32.e4m3.e4m3.f32"}


def test_another_machine_is_told_apart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated Ampere against the model of Hopper: which classes differ, an example, and who else is right."""
    monkeypatch.setattr(mma, "generation", lambda target: 90)
    words = ["--device", "emulator:sm_80", "--fragments", "360", "--jobs", "1", "--fit", "360"]
    assert mma.main([*words, "--rows", r"k8\.f32\.f16"]) == 1
    first, example = capsys.readouterr().out.splitlines()[1:3]
    assert " near:" in first and " gaps:" in first and "| also equal: F=24 |" in first
    assert example.startswith("    near: a ") and ", model " in example


def test_processes_share_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "emulator:sm_90a", "--fragments", "16", "--fit", "0", "--rows", "m8n8k16.*s8.s8"]
    assert mma.main([*words, "--jobs", "2"]) == 0
    assert "2 products of integers: 2,048 results, equal" in capsys.readouterr().out


def test_kernels_reach_a_gpu_through_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    api: Any = FakeApi()
    monkeypatch.setattr(machines, "CudaDevice", lambda ordinal: CudaDevice(ordinal, Driver(api)))
    gpu = machines.machine_named("cuda")
    product = PRODUCTS[0]
    a, b, c = inputs.drawn(product, 0, 16)[1]
    for _ in range(2):
        assert (mma.results(gpu, product, (a, b, c)) == 0).all()
    assert gpu.target == "sm_90a" and api.images[0][:4] == b"\x7fELF" and len(api.images) == 1
    assert [launch[1:8] for launch in api.launched] == [(4, 1, 1, 128, 1, 1, 0)] * 2
    assert api.calls.count("cuMemcpyHtoD") == 8 and api.calls.count("cuMemcpyDtoH") == 2


def test_a_knob_chooses_how_the_emulated_device_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "CudaDevice", lambda ordinal: EmulatorDevice())
    device = machines.machine_named("cuda")
    product = next(p for p in PRODUCTS if p.label == "m16n8k16.f32.bf16.bf16.f32")
    operands = inputs.drawn(product, 0, 40)[1]
    want = model(product, 90)(*operands)
    assert (mma.results(device, product, operands) != want).any()
    with knobs.scope(mma="hardware"):
        assert (mma.results(device, product, operands) == want).all()


# --- what hardware gave ---

DIRECTED, OTHERS_OF_MMA = r"\.r[mpz]\.", r"^\w+\.(?!r[mpz]\.)"


@pytest.mark.parametrize("rows", [OTHERS_OF_MMA, pytest.param(DIRECTED, marks=pytest.mark.slow)])
def test_the_emulator_gives_the_bits_of_an_h200(rows: str) -> None:
    frozen = json.loads((Path(__file__).parent / "data" / "mma-sm_90a.json").read_text())
    want = {label: digest for label, digest in frozen.items() if re.search(rows, label)}
    assert want and mma.digests("emulator:sm_90a", rows) == want


def test_every_product_was_frozen() -> None:
    frozen = json.loads((Path(__file__).parent / "data" / "mma-sm_90a.json").read_text())
    assert list(frozen) == [p.label for p in PRODUCTS if p.modifiers != ".rn"]
    assert all(re.search(DIRECTED, label) or re.search(OTHERS_OF_MMA, label) for label in frozen)


@pytest.mark.gpu
@pytest.mark.parametrize("types", ["f16.f16", "bf16", "tf32", "e4m3.e4m3", "e4m3.e5m2", "e5m2.e5m2", "f64", "s32"])
def test_the_gpu_agrees_with_the_model(types: str) -> None:
    """`python -m tools.probes.mma` says more, on more fragments."""
    assert mma.main(["--device", "cuda", "--fragments", "1024", "--fit", "0", "--jobs", "1", "--rows", types]) == 0
