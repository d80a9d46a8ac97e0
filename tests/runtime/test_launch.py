"""Launching: results, devices, options, and every mistake of a call with its full text."""

from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.lang import knobs
from tilewright.runtime import ArgumentError, DeviceError, GridError, LaunchError, OptionError


@tilewright.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 16):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * 2, mask=offsets < n)


def run(grid: Any, **options: Any) -> np.ndarray[Any, Any]:
    x = np.arange(50, dtype=np.float32)
    out = np.zeros_like(x)
    double[grid](x, out, 50, **options)
    return out


@pytest.mark.parametrize("grid", [4, (4,), [4], (4, 1), lambda a: (tilewright.cdiv(a["n"], a["BLOCK"]),)])
def test_every_form_of_grid_runs(grid: Any) -> None:
    assert (run(grid) == 2 * np.arange(50)).all()


def test_a_zero_sized_grid_runs_nothing() -> None:
    assert not run((0,)).any() and not run((4, 0, 2)).any()


def test_a_second_launch_reuses_the_kernel_and_another_specialization_does_not() -> None:
    x, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    first = double[(4,)](x, out, 50)
    assert double[(4,)](x, out, 49) is first
    assert double[(4,)](x, out, 48) is not first
    assert double[(4,)](x, out, 50, num_warps=8) is not first
    assert first.asm["ttir"].startswith("module") and "load" in first.asm["ttir"]


def test_devices_by_name_by_knob_and_by_data() -> None:
    x, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    assert double[(4,)](x, out, 50).device.name == "interpreter"
    assert double.on("interpreter")[(4,)](x, out, 50).device.name == "interpreter"
    with knobs.scope(device="interpreter"):
        assert double[(4,)](x, out, 50).device.name == "interpreter"
    with knobs.scope(device="emulator:sm_80", cache_max_bytes=0):
        assert double[(4,)](x, out, 50).device.name == "emulator:sm_80"


class Remote:
    """An array that says that it lives on a GPU."""

    def __init__(self, index: int = 0) -> None:
        self.device = type("device", (), {"type": "cuda", "index": index})()
        self.dtype, self.shape = "torch.float32", (50,)

    def data_ptr(self) -> int:
        return 4096

    def element_size(self) -> int:
        return 4

    def stride(self) -> tuple[int, ...]:
        return (1,)


def test_each_mistake_of_a_call() -> None:
    x = np.zeros(50, np.float32)
    cases: list[tuple[type[LaunchError], str, Any]] = [
        (
            ArgumentError,
            "double has no parameter or option 'num_warp'\nhint: did you mean num_warps?",
            lambda: double[(4,)](x, x, 50, num_warp=4),
        ),
        (
            ArgumentError,
            "double: missing a required argument: 'n'\n"
            "hint: it is declared as double(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 16)",
            lambda: double[(4,)](x, x),
        ),
        (
            ArgumentError,
            "double: too many positional arguments\n"
            "hint: it is declared as double(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 16)",
            lambda: double[(4,)](x, x, 50, 16, 3),
        ),
        (
            ArgumentError,
            "double: argument x_ptr: a list is no argument for a runtime parameter: [1.0]\n"
            "hint: pass an array for data, or a tuple for a fixed number of values",
            lambda: double[(4,)]([1.0], x, 50),
        ),
        (
            OptionError,
            "option num_warps=3: it takes a power of two from 1 to 32",
            lambda: double[(4,)](x, x, 50, num_warps=3),
        ),
        (GridError, "a grid has one to three extents, not 4: (1, 1, 1, 1)", lambda: double[1, 1, 1, 1](x, x, 50)),
        (
            DeviceError,
            "there is no device 'gpu' in this version\nhint: the devices that exist: cuda, emulator, interpreter",
            lambda: double.on("gpu")[(4,)](x, x, 50),
        ),
        (
            DeviceError,
            "the arguments lie on cpu and cuda:0\nhint: move them to one device, or choose one: kernel.on(...)",
            lambda: double[(4,)](x, Remote(), 50),
        ),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value) == text


def test_mistakes_at_decoration() -> None:
    with pytest.raises(OptionError, match="@jit has no option 'fast'"):
        tilewright.jit(fast=True)
    with pytest.raises(OptionError, match="double has no parameter 'z' to leave unspecialized"):
        tilewright.jit(double.function, do_not_specialize=["z"])
    with pytest.raises(OptionError, match="BLOCK is a constexpr, which is always specialized"):
        tilewright.jit(double.function, do_not_specialize=["BLOCK"])


@tilewright.jit
def reaches_too_far(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets), mask=offsets < n)


def test_a_fault_shows_the_file_the_line_and_the_expression() -> None:
    x, out = np.zeros(50, np.float32), np.zeros(50, np.float32)
    with pytest.raises(Exception) as caught:
        reaches_too_far[(1,)](x, out, 50)
    text = str(caught.value)
    line = reaches_too_far.source.first + 3
    assert f"{__file__}:{line}:" in text
    assert "tl.load(x_ptr + offsets)" in text and "^" * len("tl.load(x_ptr + offsets)") in text
    assert "program (0, 0, 0)" in text and "x_ptr" in text and "50" in text


@tilewright.jit
def sums_two_loads(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr + 100).to(tl.float32) + tl.load(x_ptr))


def test_the_caret_stands_under_the_call_that_failed() -> None:
    with pytest.raises(Exception) as caught:
        sums_two_loads[(1,)](np.zeros(50, np.float32), np.zeros(1, np.float32))
    line, carets = str(caught.value).splitlines()[1:3]
    start = carets.index("^")
    assert line[start : start + carets.count("^")] == "tl.load(x_ptr + 100)"


@pytest.mark.parametrize("special", [{"do_not_specialize": ["n"]}, {"do_not_specialize": [2]}])
def test_do_not_specialize_keeps_one_kernel(special: Any) -> None:
    plain = tilewright.jit(double.function, **special)
    x, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    kernels = {id(plain[(4,)](x, out, n)) for n in (1, 2, 16, 50)}
    assert len(kernels) == 1


def test_negative_strides_and_views() -> None:
    base = np.arange(100, dtype=np.float32)
    out = np.zeros(50, np.float32)

    @tilewright.jit
    def strided(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets * stride, mask=offsets < n), mask=offsets < n)

    strided[(1,)](base[::-2], out, -2, 50, 64)
    assert (out == base[::-2]).all()


@pytest.mark.optional
def test_torch_tensors_run_in_place() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(50, dtype=torch.bfloat16)
    out = torch.zeros(50, dtype=torch.bfloat16)
    double[(4,)](x, out, 50)
    assert torch.equal(out, x * 2)


@pytest.mark.gpu
def test_cuda_tensors_are_copied_to_the_reference_and_back() -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(100, dtype=torch.float32, device="cuda")
    out = torch.zeros(50, dtype=torch.float32, device="cuda")
    double.on("interpreter")[(4,)](base[50:], out, 50)
    assert torch.equal(out, base[50:] * 2)
    # Two views of one storage stay aliases in the copy.
    double.on("interpreter")[(4,)](base[:50], base[50:], 50)
    assert torch.equal(base[50:], base[:50] * 2)
