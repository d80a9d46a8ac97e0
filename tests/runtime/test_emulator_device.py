"""The emulator as a device: compiled kernels on a machine without a GPU, equal to the reference bit for bit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.compiler import NoAssembler, nvjitlink
from tilewright.interpreter import PtxError
from tilewright.interpreter.numerics.casts import cast, decode
from tilewright.interpreter.numerics.formats import FORMATS
from tilewright.lang import knobs
from tilewright.runtime import DeviceError, OptionError, find_device, kernel_cache
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.packing import packer


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[None]:
    with knobs.scope(cache_dir=tmp_path / "cache"):
        yield


@tilewright.jit
def mixed(x_ptr, out_ptr, n, bias, flag, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0)
    tl.store(out_ptr + offsets, tl.where(flag, x * 3 + bias, x), mask=inside)


def run(device: str, dtype: Any, bias: Any, flag: bool, **options: Any) -> np.ndarray[Any, Any]:
    x = np.arange(200).astype(dtype)
    out = np.zeros_like(x)
    mixed.on(device)[(4,)](x, out, 190, bias, flag, BLOCK=64, **options)
    return out


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.int64])
def test_it_agrees_with_the_reference(dtype: Any, target: str) -> None:
    bias = 5 if np.issubdtype(dtype, np.integer) else 0.5
    for flag in (True, False):
        assert (run(f"emulator:{target}", dtype, bias, flag) == run("interpreter", dtype, bias, flag)).all()


@pytest.mark.parametrize("num_warps", [1, 2, 8])
def test_the_number_of_warps_changes_no_result(num_warps: int) -> None:
    expected = run("interpreter", np.float32, 2.0, True)
    assert (run("emulator", np.float32, 2.0, True, num_warps=num_warps) == expected).all()


def test_its_name_says_the_target_and_the_same_target_is_one_device() -> None:
    assert find_device("emulator").name == "emulator:sm_90a"
    assert find_device("emulator") is find_device("emulator:sm_90a")
    assert find_device("emulator:sm_80") is not find_device("emulator")
    assert find_device("emulator").properties["warp_size"] == 32
    with pytest.raises(DeviceError, match="there is no target 'sm_90' to compile for\nhint: did you mean sm_90a?"):
        find_device("emulator:sm_90")


def test_a_zero_sized_grid_runs_nothing_and_views_reach_their_own_bytes() -> None:
    x = np.arange(100, dtype=np.float32)
    out = np.full(100, -1, np.float32)
    mixed.on("emulator")[(0,)](x, out, 100, 0.0, True, BLOCK=64)
    assert (out == -1).all()
    mixed.on("emulator")[(1,)](x[3:], out[10:20], 10, 0.0, True, BLOCK=64)
    assert (out[10:20] == 3 * x[3:13]).all() and (out[:10] == -1).all() and (out[20:] == -1).all()


@tilewright.jit
def reaches_too_far(x_ptr):
    tl.store(x_ptr + tl.arange(0, 64), 1.0)


def test_an_access_out_of_bounds_is_an_error_and_the_process_lives() -> None:
    with pytest.raises(tilewright.TilewrightError) as caught:
        reaches_too_far.on("emulator")[(1,)](np.zeros(20, np.float32))
    assert "element 20 of x_ptr" in str(caught.value) and "tl.store(x_ptr" in str(caught.value)


@tilewright.jit
def never_ends(x_ptr):
    i = 0
    while i >= 0:
        i = i * 0
    tl.store(x_ptr, i)


def test_a_kernel_that_never_ends_is_an_error() -> None:
    with knobs.scope(fuel=10_000), pytest.raises(tilewright.TilewrightError):
        never_ends.on("emulator")[(1,)](np.zeros(1, np.int32))


def test_code_that_is_no_ptx_is_an_error_and_the_process_lives() -> None:
    device = find_device("emulator")
    kernel = mixed.warmup(np.float32, np.float32, 190, 0.5, True, BLOCK=64, device="emulator")
    facts, ptx = kernel.artifact.facts, kernel.artifact.ptx
    for bad in ("no PTX at all", ptx.replace("ld.global", "ld.nowhere"), ptx[: len(ptx) // 2]):
        with pytest.raises(PtxError, match="line"):
            device.load(Artifact("key", "mixed", "sm_90a", {"ptx": bad}, facts, lambda: kernel.module))
    assert (run("emulator", np.float32, 0.5, True)[:190] == np.arange(190) * 3 + 0.5).all()


def test_without_an_assembler_kernels_run_and_only_their_cubin_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.compiler.nvjitlink.nvjitlink_candidates", list)
    monkeypatch.setattr("tilewright.compiler.nvjitlink.library", nvjitlink.library.__wrapped__)
    kernel = mixed.warmup(np.float32, np.float32, 190, 0.5, True, BLOCK=64, device="emulator:sm_86")
    assert (run("emulator:sm_86", np.float32, 0.5, True)[:190] == np.arange(190) * 3 + 0.5).all()
    with pytest.raises(NoAssembler, match="nvidia-nvjitlink is not installed"):
        kernel.asm["cubin"]


def test_options_reach_the_compiler() -> None:
    kernels = {}
    for options in ({}, {"maxnreg": 64}, {"enable_fp_fusion": False}):
        x = np.arange(200, dtype=np.float32)
        out = np.zeros_like(x)
        compiled = mixed.on("emulator:sm_80")[(4,)](x, out, 190, 0.5, True, BLOCK=64, **options)
        assert (out[:190] == x[:190] * 3 + 0.5).all()
        kernels[tuple(options)] = compiled
    ptx = {name: kernel.asm["ptx"] for name, kernel in kernels.items()}
    assert ".maxnreg 64" in ptx["maxnreg",] and ".maxnreg" not in ptx[()]
    assert "fma.rn.f32" in ptx[()] and "fma.rn.f32" not in ptx["enable_fp_fusion",]
    assert len({kernel.key for kernel in kernels.values()}) == 3


def test_clusters_are_refused_by_name() -> None:
    with pytest.raises(OptionError, match="option num_ctas=2: compiled kernels run in clusters of one block"):
        run("emulator", np.float32, 1.0, True, num_ctas=2)


def test_an_unloadable_compilation_leaves_no_kernel_behind() -> None:
    before = kernel_cache.counters.misses
    for _ in range(2):
        with pytest.raises(OptionError):
            run("emulator", np.float32, 1.0, True, num_ctas=4)
    assert kernel_cache.counters.misses == before + 2


# --- numbers as bytes ---


@pytest.mark.parametrize(
    ("type_", "value", "data"),
    [
        ("i1", True, "01"),
        ("i8", -1, "ff"),
        ("i16", 0x1234, "3412"),
        ("i32", 2**32 - 1, "ffffffff"),
        ("i64", -2, "feffffffffffffff"),
        ("f16", 1e9, "007c"),
        ("f32", 1e300, "0000807f"),
        ("f32", 1, "0000803f"),
        ("f64", -0.0, "0000000000000080"),
        ("ptr<f32>", 2**64 - 1, "ffffffffffffffff"),
        ("bf16", float("-inf"), "80ff"),
    ],
)
def test_numbers_are_packed_as_the_parameter_has_them(type_: str, value: Any, data: str) -> None:
    assert packer(type_)(value).hex() == data


def test_bf16_is_rounded_once() -> None:
    """Just above the tie between 1 and 1 + 2**-7: through float32 it would fall to the even neighbour, 1."""
    above = 1 + 2**-8 + 2**-40
    assert np.float32(above) == 1 + 2**-8
    assert np.frombuffer(packer("bf16")(above), ml_dtypes.bfloat16)[0] == 1 + 2**-7
    below = 1 + 2**-7 + 2**-8 - 2**-40
    assert np.frombuffer(packer("bf16")(below), ml_dtypes.bfloat16)[0] == 1 + 2**-7
    assert np.isnan(np.frombuffer(packer("bf16")(float("nan")), ml_dtypes.bfloat16)[0])
    assert np.frombuffer(packer("bf16")(1e300), ml_dtypes.bfloat16)[0] == float("inf")


@pytest.mark.parametrize("name", ["f8e5m2", "f8e4m3fn", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3b15"])
def test_8_bit_floats_are_rounded_as_the_reference_rounds_them(name: str) -> None:
    with np.errstate(all="ignore"):
        codes = decode(np.arange(256, dtype=np.uint8).view(FORMATS[name].storage), name).astype(np.float64)
    finite = np.unique(codes[np.isfinite(codes)])
    ties = (finite[1:] + finite[:-1]) / 2
    around = [np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)]
    odd = np.array([np.inf, -np.inf, np.nan, np.copysign(np.nan, -1), -0.0, 1e300, 5e-324, -5e-324])
    values = np.concatenate([finite, ties, *around, odd])
    wanted = cast(values, "f64", name).view(np.uint8).tobytes()
    pack = packer(name)
    assert b"".join(map(pack, values)).hex() == wanted.hex()
    assert pack(3) == pack(3.0) and pack(True) == pack(1.0)


@tilewright.jit
def adds_small_floats(out_ptr, a: tl.float8e5, b: tl.float8e4nv, c: tl.bfloat16, d: tl.float16, e: tl.int8):
    total = a.to(tl.float32) + b.to(tl.float32) + c.to(tl.float32) + d.to(tl.float32) + e.to(tl.float32)
    tl.store(out_ptr, total)


def test_small_numbers_reach_a_compiled_kernel() -> None:
    out = np.zeros(1, np.float32)
    for device in ("interpreter", "emulator:sm_80", "emulator:sm_90a"):
        adds_small_floats.on(device)[(1,)](out, 1.1, 300.0, -2.5, 0.25, -7)
        assert out[0] == 1 + 288 - 2.5 + 0.25 - 7, device


def test_an_integer_that_no_float_holds_is_refused() -> None:
    with pytest.raises(tilewright.LaunchError, match="argument a: an integer of 2001 bits is too large for fp8e5"):
        adds_small_floats.on("emulator")[(1,)](np.zeros(1, np.float32), 1 << 2000, 0, 0, 0, 0)
