"""Warming up: kernels compiled from arrays, dtypes or stand-ins, launched never; and what a compiled kernel tells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.lang import knobs
from tilewright.runtime import ArgumentError, DeviceError, GridError, kernel_cache


@tilewright.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) * factor, mask=inside)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[None]:
    kernel_cache.forget()
    kernel_cache.counters.reset()
    with knobs.scope(cache_dir=tmp_path / "cache"):
        yield


class Mock:
    """What Triton's users pass to warm up: a dtype and an address."""

    dtype = np.dtype(np.float32)

    @staticmethod
    def data_ptr() -> int:
        return 0


class TorchDtype:
    """Torch's float32, as far as its text and its class tell."""

    def __repr__(self) -> str:
        return "torch.float32"


TorchDtype.__name__, TorchDtype.__module__ = "dtype", "torch"

STAND_INS: list[Any] = [np.float32, np.dtype(np.float32), tl.float32, tl.pointer_type(tl.float32), Mock(), TorchDtype()]


@pytest.mark.parametrize("stand_in", STAND_INS, ids=["class", "dtype", "tl", "pointer", "mock", "torch"])
@pytest.mark.parametrize("device", ["interpreter", "emulator"])
def test_a_stand_in_gives_the_kernel_that_an_aligned_array_gives(stand_in: Any, device: str) -> None:
    x = np.zeros(64, np.float32)
    assert x.ctypes.data % 16 == 0
    real = scale.warmup(x, x, 50, 2.0, BLOCK=32, grid=(2,), device=device)
    assert scale.warmup(stand_in, stand_in, 50, 2.0, BLOCK=32, grid=(2,), device=device) is real
    assert scale.warmup(stand_in, out_ptr=stand_in, n=50, factor=2.0, BLOCK=32, device=device) is real
    assert not x.any()


def test_a_dtype_for_a_constexpr_stays_a_dtype() -> None:
    @tilewright.jit
    def cast(x_ptr, TO: tl.constexpr):
        tl.store(x_ptr, tl.load(x_ptr).to(TO).to(tl.float32))

    kernel = cast.warmup(np.float32, tl.float16)
    assert kernel.assumptions == {"x_ptr": "*fp32:16", "TO": f"constexpr {tl.float16!r}"}
    assert "f16" in kernel.asm["ttir"]


def test_a_launch_after_it_compiles_nothing() -> None:
    fresh = tilewright.jit(scale.function)
    x, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    warm = fresh.warmup(x, out, 50, 2.0, BLOCK=32, device="emulator")
    assert kernel_cache.counters.llvm_calls == 1
    assert fresh.on("emulator")[(2,)](x, out, 50, 2.0, BLOCK=32) is warm
    assert kernel_cache.counters.llvm_calls == 1 and (out == 2 * x).all()


@tilewright.jit
def staged(x_ptr, n, num_stages: tl.constexpr):
    tl.store(x_ptr, n * num_stages)


@pytest.mark.parametrize("device", ["interpreter", "emulator"])
def test_a_compiled_kernel_is_launched_with_every_argument_in_order(device: str) -> None:
    """As a tutorial of Triton does it, with a parameter that has the name of an option."""
    x = np.zeros(1, np.int32)
    kernel = staged.warmup(x, 7, num_stages=2, num_warps=8, grid=(1,), device=device)
    assert (kernel.metadata.num_stages, kernel.metadata.num_warps) == (2, 8)
    kernel._init_handles()
    assert kernel[(1, 1, 1)](x, 7, 2) is kernel and x[0] == 14
    assert kernel[(1,)](x, 7, 3) is not kernel and x[0] == 21
    assert staged.on(device)[(1,)](x, 7, num_stages=2, num_warps=8) is kernel and x[0] == 14
    with pytest.raises(ArgumentError, match="missing a required argument: 'num_stages'"):
        staged[(1,)](x, 7)


def test_mistakes_are_those_of_a_launch() -> None:
    with pytest.raises(ArgumentError, match="missing a required argument: 'n'"):
        scale.warmup(np.float32, np.float32)
    with pytest.raises(GridError):
        scale.warmup(np.float32, np.float32, 50, 2.0, BLOCK=32, grid=(1.5,))
    with pytest.raises(ArgumentError, match="too many positional arguments"):
        scale.warmup(*[1] * 9)


def test_the_stages_in_order_and_each_made_once_and_when_it_is_read() -> None:
    fresh = tilewright.jit(scale.function)
    kernel = fresh.warmup(np.float32, np.float32, 50, 2.0, BLOCK=32, device="emulator:sm_80")
    assert list(kernel.asm) == ["ttir", "ttgir", "llir", "ptx", "cubin"]
    assert ".target sm_80" in kernel.asm["ptx"] and "define ptx_kernel void @scale" in kernel.asm["llir"]
    assert kernel_cache.counters.assembler_calls == 0
    with pytest.raises(KeyError):
        kernel.asm["sass"]


@pytest.mark.optional("nvidia.cu13")
def test_the_cubin_tells_what_the_kernel_uses() -> None:
    fresh = tilewright.jit(scale.function)
    kernel = fresh.warmup(np.float32, np.float32, 50, 2.0, BLOCK=32, device="emulator:sm_80", num_warps=2)
    assert kernel.asm["cubin"][:4] == b"\x7fELF" and kernel.asm["cubin"] is kernel.asm["cubin"]
    assert kernel_cache.counters.assembler_calls == 1
    metadata = kernel.metadata
    assert (metadata.name, metadata.target, metadata.num_warps) == ("scale", "sm_80", 2)
    assert 0 < kernel.n_regs < 64 and kernel.n_spills == metadata.stack == metadata.shared == 0
    assert kernel.hash == metadata.hash == kernel.key


def test_an_interpreted_kernel_has_its_ir_and_uses_nothing() -> None:
    kernel = scale.warmup(np.float32, np.float32, 50, 2.0, BLOCK=32)
    assert list(kernel.asm) == ["ttir"] and len(kernel.asm) == 1
    assert kernel.metadata.registers == kernel.n_regs == 0 and kernel.metadata.target == "interpreter"
    assert repr(kernel.asm) == "<stages ttir of scale>" and kernel.module.kernel.name == "scale"


def test_a_kernel_on_a_device_warms_up_for_it() -> None:
    x = np.zeros(64, np.float32)
    made = scale.on("emulator:sm_80").warmup(x, x, 64, 2.0, BLOCK=64)
    assert made.device.name == "emulator:sm_80" and ".target sm_80" in made.asm["ptx"]


def test_a_stage_that_there_is_not_is_told() -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(KeyError, match="ptx: this kernel has the stages ttir; compiled ones come with"):
        scale[(1,)](x, x, 64, 2.0, BLOCK=64).asm["ptx"]
    with pytest.raises(KeyError, match="sass: this kernel has the stages ttir, ttgir, llir, ptx, cubin"):
        scale.on("emulator:sm_80").warmup(x, x, 64, 2.0, BLOCK=64).asm["sass"]


@pytest.mark.parametrize("name", [3, "emulator:", ":sm_80"])
def test_no_device_has_such_a_name(name: object) -> None:
    with pytest.raises(DeviceError, match="there is no device"):
        scale.on(name)[(1,)](np.zeros(64), np.zeros(64), 64, 2.0, BLOCK=64)  # type: ignore[arg-type]
