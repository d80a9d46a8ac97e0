"""The device on a real GPU: results, streams, graphs, bad input, and modules that come and go."""

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.runtime.fake_driver import add, artifact
from tilewright.lang import knobs
from tilewright.runtime import CudaError, DeviceError, find_device


@tilewright.jit
def spins(x_ptr, n):
    total = 0.0
    for _ in range(n):
        total = tl.maximum(total + 1, 0.0)  # nothing that a compiler finds a closed form for
    tl.store(x_ptr, total)


@pytest.mark.gpu
def test_gpu_host_arrays(tmp_path: Path) -> None:
    x = np.arange(1000, dtype=np.float32)
    out = np.zeros_like(x)
    with knobs.scope(cache_dir=tmp_path):
        kernel = add.on("cuda")[(4,)](x, 2 * x, out, 1000, BLOCK=256)
    assert (out == 3 * x).all() and kernel.device.name == "cuda:0" and kernel.n_regs > 0


@pytest.mark.gpu
def test_gpu_malformed_code_and_launches_larger_than_memory_are_errors(tmp_path: Path) -> None:
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    with knobs.scope(cache_dir=tmp_path):
        kernel = add.on("cuda")[(4,)](x, x, out, 1000, BLOCK=256)
        device = kernel.device
        for bad in ("no PTX at all", kernel.asm["ptx"].replace("ld.global", "ld.nowhere")):
            code = artifact("ptr<f32>", name="add")
            code.made = {"ptx": bad, "cubin": b"\x7fELF and nothing else"}
            with pytest.raises(CudaError, match="the driver does not take the PTX"):
                device.load(code)
        huge = np.lib.stride_tricks.as_strided(x, (1 << 50,), (4,))
        with pytest.raises(CudaError, match="CUDA_ERROR_OUT_OF_MEMORY"):
            add.on("cuda")[(4,)](huge, x, out, 1000, BLOCK=256)
        out[:] = 0
        add.on("cuda")[(4,)](x, x, out, 1000, BLOCK=256)  # the process lives
    assert (out == 2).all()


@pytest.mark.gpu
@pytest.mark.optional("torch")
def test_gpu_modules_are_unloaded_when_their_kernels_are_dropped(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.zeros(1 << 20, device="cuda")
    device: Any = find_device("cuda:0")
    with knobs.scope(cache_dir=tmp_path):
        slow = tilewright.jit(spins.function)
        slow[(1,)](x, 1 << 24)  # runs on while its kernel is dropped, its module unloaded and another one loaded
        del slow
        gc.collect()
        assert len(device._dropped) == 1
        tilewright.jit(add.function)[(4,)](x, x, x, 0, BLOCK=256)
        assert len(device._dropped) == 0
        torch.cuda.synchronize()
        assert float(x[0]) == 1 << 24

        graph, kernel = torch.cuda.CUDAGraph(), tilewright.jit(spins.function)
        kernel[(1,)](x, 3)
        with torch.cuda.graph(graph):
            kernel[(1,)](x, 5)
        del kernel
        gc.collect()
        tilewright.jit(add.function)[(4,)](x, x, x, 0, BLOCK=128)
        x.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert float(x[0]) == 5


@pytest.mark.gpu
@pytest.mark.optional("torch")
def test_gpu_torch_tensors_streams_and_graphs(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.arange(1000, dtype=torch.float32, device="cuda")
    out = torch.zeros_like(x)
    with knobs.scope(cache_dir=tmp_path):
        add[(4,)](x, x, out, 1000, BLOCK=256)
        assert (out == 2 * x).all()
        add[(0,)](x, x, out, 1000, BLOCK=256)
        side = torch.cuda.Stream()
        for keywords in ({"stream": side}, {"stream": side.cuda_stream}):
            out.zero_()
            torch.cuda.synchronize()
            add[(4,)](x, x, out, 1000, BLOCK=256, **keywords)
            side.synchronize()
            assert (out == 2 * x).all()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # torch itself allocates a little on entering
            before = torch.cuda.memory_allocated()
            add[(4,)](x, out, out, 1000, BLOCK=256)
            assert torch.cuda.memory_allocated() == before
        graph.replay()
        graph.replay()
        torch.cuda.synchronize()
        assert (out == 4 * x).all()


@pytest.mark.gpu
@pytest.mark.optional("torch")
def test_gpu_arrays_by_interface_and_mixed_places(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.arange(1000, dtype=torch.float32, device="cuda")
    out = torch.zeros_like(x)
    wrapped = [SimpleNamespace(__cuda_array_interface__=t.__cuda_array_interface__) for t in (x, out)]
    with knobs.scope(cache_dir=tmp_path):
        add[(4,)](wrapped[0], wrapped[0], wrapped[1], 1000, BLOCK=256)
        torch.cuda.synchronize()
        assert (out == 2 * x).all()
        with pytest.raises(DeviceError, match="the arguments lie on cpu and cuda:0"):
            add[(4,)](x, np.zeros(1000, np.float32), out, 1000, BLOCK=256)
