"""GPUs: each way in which a driver or a device fails, on a made-up driver; and, where there is a GPU, the rest."""

import ctypes
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.lang import CompilationError, knobs
from tilewright.runtime import ArgumentError, ArrayArgument, CudaDevice, CudaError, DeviceError, find_device
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.devices import choose, cuda, cuda_driver
from tilewright.runtime.devices.cuda import stream_handle, target_for
from tilewright.runtime.devices.cuda_driver import Driver
from tilewright.runtime.devices.cuda_memory import groups
from tilewright.runtime.options import CompileOptions


class Status(IntEnum):
    """What the made-up driver returns."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46


class FakeApi:
    """A driver that keeps host memory for its own, notes its calls, and fails where it is told to."""

    CUdevice_attribute = SimpleNamespace(
        **{f"CU_DEVICE_ATTRIBUTE_{name}": name for name in cuda.ATTRIBUTES.values()},
    )
    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL="ordinal")
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")

    def __init__(self, version: int = 13000, gpus: int = 2, **failures: Status) -> None:
        self.version, self.gpus, self.failures = version, gpus, failures
        self.calls: list[str] = []
        self.launched: list[tuple[Any, ...]] = []
        self.images: list[bytes] = []
        self.memory: dict[int, Any] = {}
        self.stack: list[int] = [0]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            if name in self.failures:
                return (self.failures[name],)
            result = getattr(self, f"do_{name}", lambda *_: ())(*arguments)
            return (Status.CUDA_SUCCESS, *result)

        return call

    def cuGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return Status.CUDA_SUCCESS, b"what the driver says"

    def do_cuDriverGetVersion(self) -> tuple[int]:
        return (self.version,)

    def do_cuDeviceGetCount(self) -> tuple[int]:
        return (self.gpus,)

    def do_cuDeviceGet(self, ordinal: int) -> tuple[int]:
        return (ordinal,)

    def do_cuDeviceGetAttribute(self, kind: str, device: int) -> tuple[int]:
        return ({"COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0}.get(kind, 32),)

    def do_cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int]:
        return (100 + device,)

    def do_cuCtxGetCurrent(self) -> tuple[int]:
        return (self.stack[-1],)

    def do_cuCtxPushCurrent(self, context: int) -> tuple[()]:
        self.stack.append(context)
        return ()

    def do_cuCtxPopCurrent(self) -> tuple[int]:
        return (self.stack.pop(),)

    def do_cuModuleLoadData(self, image: bytes) -> tuple[int]:
        self.images.append(image)
        return (7,)

    def do_cuModuleGetFunction(self, module: int, name: bytes) -> tuple[int]:
        return (8,)

    def do_cuMemAlloc(self, size: int) -> tuple[int]:
        block = ctypes.create_string_buffer(size + 256)
        address = -(-ctypes.addressof(block) // 256) * 256
        self.memory[address] = block
        return (address,)

    def do_cuMemFree(self, address: int) -> tuple[()]:
        del self.memory[address]
        return ()

    def do_cuMemcpyHtoD(self, target: int, source: int, size: int) -> tuple[()]:
        ctypes.memmove(target, source, size)
        return ()

    do_cuMemcpyDtoH = do_cuMemcpyHtoD

    def do_cuPointerGetAttribute(self, kind: str, address: int) -> tuple[int]:
        return (address >> 40,)

    def do_cuLaunchKernel(self, function: int, *rest: Any) -> tuple[()]:
        *shape, pointers, extra = rest
        self.launched.append((function, *shape, self.stack[-1], pointers))
        return ()

    do_cuLaunchCooperativeKernel = do_cuLaunchKernel


def artifact(*types: str, **changes: Any) -> Artifact:
    facts = {"threads": 128, "dynamic_shared": 0, "parameters": list(types), "cooperative": False, **changes}
    made: dict[str, Any] = {"ptx": "// ptx", "cubin": b"ELF"}
    return Artifact("key", "k", "sm_90a", made, facts, lambda: None)  # type: ignore[arg-type, return-value]


def gpu(api: FakeApi, ordinal: int = 0) -> CudaDevice:
    return CudaDevice(ordinal, Driver(api))


# --- the driver ---


@pytest.mark.parametrize(
    ("api", "message"),
    [
        (
            FakeApi(version=12040),
            "the NVIDIA driver is one of CUDA 12.4, and kernels need CUDA 12.9\n"
            "hint: update it to 575 or later; the emulator runs compiled kernels without one",
        ),
        (
            FakeApi(cuInit=Status.CUDA_ERROR_NO_DEVICE),
            "the NVIDIA driver does not start: CUDA_ERROR_NO_DEVICE\n"
            "hint: no GPU is visible; nvidia-smi and CUDA_VISIBLE_DEVICES say why",
        ),
    ],
)
def test_a_driver_that_cannot_be_used(api: FakeApi, message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        Driver(api)
    assert str(caught.value) == message


def test_a_machine_without_a_driver() -> None:
    def missing() -> None:
        raise RuntimeError("libcuda.so.1 was not found")

    with pytest.raises(DeviceError, match="there is no NVIDIA driver on this machine") as caught:
        Driver(SimpleNamespace(cuDriverGetVersion=missing))
    assert caught.value.is_absent


def test_a_machine_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise ImportError("No module named 'cuda'")

    monkeypatch.setattr(cuda_driver, "cuda_driver", missing)
    with pytest.raises(DeviceError, match="can't be reached: No module named 'cuda'\nhint: pip install cuda-bindings"):
        cuda_driver.driver.__wrapped__()


def test_a_gpu_that_does_not_exist_or_was_lost() -> None:
    with pytest.raises(DeviceError, match="there is no device 'cuda:2': the driver sees 2 GPUs"):
        gpu(FakeApi(), 2)
    with pytest.raises(CudaError) as caught:
        gpu(FakeApi(cuDevicePrimaryCtxRetain=Status.CUDA_ERROR_DEVICE_UNAVAILABLE))
    assert str(caught.value) == (
        "cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE: what the driver says\n"
        "hint: the GPU was lost, or another process has it for itself; nvidia-smi shows which"
    )


def test_a_fork_is_told_that_it_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    device = gpu(FakeApi())
    handle = device.load(artifact())
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(DeviceError, match="opened by the process that this one was forked from"):
        device.launch(handle, (1, 1, 1), [], CompileOptions())


@pytest.mark.parametrize(
    ("major", "minor", "target"),
    [(8, 0, "sm_80"), (8, 6, "sm_86"), (8, 7, "sm_86"), (9, 0, "sm_90a"), (10, 3, "sm_103a"), (12, 0, "sm_120a")],
)
def test_each_capability_has_its_target(major: int, minor: int, target: str) -> None:
    targets = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")
    properties = {"compute_capability_major": major, "compute_capability_minor": minor}
    assert target_for(properties, targets) == target
    for other in ((7, 5), (11, 0), (12, 1)):
        properties = dict(zip(properties, other, strict=True))
        with pytest.raises(DeviceError, match=f"nothing compiles for this GPU, which is sm_{other[0]}{other[1]}"):
            target_for(properties, targets)


# --- loading ---


def test_the_cubin_is_loaded_and_the_ptx_where_the_driver_refuses_it() -> None:
    api = FakeApi()
    gpu(api).load(artifact())
    assert api.images == [b"ELF"]
    old = FakeApi(version=12090)
    gpu(old).load(artifact())
    assert old.images == [b"// ptx\0"]


def test_a_refused_cubin_is_not_the_end() -> None:
    class Picky(FakeApi):
        def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:
            if image == b"ELF":
                return (Status.CUDA_ERROR_INVALID_IMAGE,)
            return Status.CUDA_SUCCESS, *self.do_cuModuleLoadData(image)

    api = Picky()
    gpu(api).load(artifact())
    assert api.images == [b"// ptx\0"]


class Missing(CompilationError):
    """There is no assembler."""

    message = "no assembler"


def test_without_an_assembler_the_driver_assembles() -> None:
    def missing(artifact: Artifact) -> bytes:
        raise Missing()

    code = artifact()
    del code.made["cubin"]
    code.later["cubin"] = missing
    api = FakeApi()
    gpu(api).load(code)
    assert api.images == [b"// ptx\0"]


def test_code_that_the_driver_takes_in_no_form() -> None:
    with pytest.raises(CudaError) as caught:
        gpu(FakeApi(cuModuleLoadData=Status.CUDA_ERROR_UNSUPPORTED_PTX_VERSION)).load(artifact())
    text = str(caught.value)
    assert text.startswith("k: the driver does not take the PTX, cuModuleLoadData: CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
    assert "and it could not have a cubin: cuModuleLoadData" in text
    with pytest.raises(CudaError, match="CUDA_ERROR_ILLEGAL_ADDRESS.*\nhint: a kernel accessed memory"):
        gpu(FakeApi(cuModuleLoadData=Status.CUDA_ERROR_ILLEGAL_ADDRESS)).load(artifact())


# --- launching ---


def test_a_launch_passes_shape_stream_context_and_arguments_and_does_nothing_else() -> None:
    api = FakeApi()
    device = gpu(api, 1)
    handle = device.load(artifact("ptr<f32>", "i32", "f16", dynamic_shared=50_000))
    assert "cuFuncSetAttribute" in api.calls
    api.calls.clear()
    seen: list[bytes] = []

    def look(function: int, *rest: Any) -> tuple[()]:
        pointers = ctypes.cast(rest[-2], ctypes.POINTER(ctypes.c_void_p))
        seen.extend(ctypes.string_at(pointers[at], size) for at, size in enumerate((8, 4, 2)))
        return FakeApi.do_cuLaunchKernel(api, function, *rest)

    api.do_cuLaunchKernel = look  # type: ignore[method-assign]
    array = ArrayArgument("fp32", 0x1234, 0x1234, 4, (1,), "cuda:1", False, None)
    with device.memory([array, -1, 1.0]) as payload:
        device.launch(handle, (3, 2, 1), payload, CompileOptions(), stream=99)
    assert api.calls == ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuLaunchKernel", "cuCtxPopCurrent"]
    assert api.launched[0][:-1] == (8, 3, 2, 1, 128, 1, 1, 50_000, 99, 101)
    assert seen == [(0x1234).to_bytes(8, "little"), b"\xff" * 4, b"\x00\x3c"]
    assert api.stack == [0]


def test_the_callers_context_comes_back_after_a_failure_and_stays_where_it_is_the_same() -> None:
    api = FakeApi(cuLaunchKernel=Status.CUDA_ERROR_ILLEGAL_ADDRESS)
    device = gpu(api)
    handle = device.load(artifact())
    with pytest.raises(CudaError, match="a kernel accessed memory that is not there; the GPU's context is lost"):
        device.launch(handle, (1, 1, 1), [], CompileOptions())
    assert api.stack == [0]
    api.stack, api.failures = [100], {}
    api.calls.clear()
    device.launch(handle, (1, 1, 1), [], CompileOptions())
    assert api.calls == ["cuCtxGetCurrent", "cuLaunchKernel"]


def test_host_arrays_are_copied_there_and_back_and_aliases_stay_aliases() -> None:
    api = FakeApi()
    device = gpu(api)
    base = np.arange(64, dtype=np.float32)
    sealed = np.ones(4, np.float32)
    sealed.flags.writeable = False
    views = [np.ndarray((40,), np.float32, base, 0), np.ndarray((40,), np.float32, base, 96), sealed]
    arrays = [cuda_argument(view) for view in views]
    assert len(groups(arrays)) == 2
    with device.memory([*arrays, 5]) as (first, second, third, number):
        assert number == 5 and second.address - first.address == 96
        assert [part.address % 256 for part in (first, second, third)] == [a.address % 256 for a in arrays]
        written = (ctypes.c_float * 40).from_address(second.address)
        written[0] = -1.0
        (ctypes.c_float * 4).from_address(third.address)[0] = -1.0
    assert base[24] == -1 and (np.delete(base, 24) == np.delete(np.arange(64), 24)).all() and (sealed == 1).all()
    assert api.memory == {} and api.stack == [0]


def cuda_argument(array: Any) -> ArrayArgument:
    return tilewright.runtime.array_argument(array)  # type: ignore[return-value]


def test_empty_arrays_need_no_bytes() -> None:
    with gpu(FakeApi()).memory([cuda_argument(np.zeros(0, np.float32))]) as (part,):
        assert part.nbytes == 0


def test_arrays_on_another_gpu_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    device = gpu(api)
    monkeypatch.setattr(cuda, "driver", lambda: device.driver)
    elsewhere = ArrayArgument("fp32", 1 << 40, 1 << 40, 4, (1,), "cuda", False, None)  # the driver says: on 1
    for array in (elsewhere, ArrayArgument("fp32", 4096, 4096, 4, (1,), "cuda:1", False, None)):
        with pytest.raises(DeviceError, match="an argument lies on cuda:1, and the kernel was sent to cuda:0"):
            device.memory([array])


def test_the_data_chooses_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    made = Driver(api)
    for module in (cuda, cuda_driver):
        monkeypatch.setattr(module, "driver", lambda: made)
    monkeypatch.setattr(choose, "_open", {})

    def on(place: str, address: int = 4096) -> ArrayArgument:
        return ArrayArgument("fp32", address, address, 4, (1,), place, False, None)

    assert choose.choose_device("", [on("cuda:1"), 3]).name == "cuda:1"
    assert choose.choose_device("", [on("cuda", 1 << 40)]).name == "cuda:1"
    assert choose.choose_device("cuda", [on("cpu"), on("cuda:1")]).name == "cuda:1"
    assert choose.choose_device("cuda", [on("cpu")]).name == "cuda:0"
    assert choose.choose_device("cuda:1", [on("cpu")]).name == "cuda:1"
    assert choose.choose_device("", [on("cpu"), 3]).name == "interpreter"
    with pytest.raises(DeviceError, match="the arguments lie on cuda:0 and cuda:1"):
        choose.choose_device("", [on("cuda:0"), on("cuda:1")])
    with pytest.raises(DeviceError, match="the arguments lie on cpu and cuda:0"):
        choose.choose_device("", [on("cuda:0"), on("cpu")])
    with pytest.raises(
        DeviceError, match="the kernel goes to cuda:5, which can't be used: there is no device 'cuda:5'"
    ):
        choose.choose_device("", [on("cuda:5")])
    with pytest.raises(DeviceError, match="there is no device 'cuda:x'"):
        find_device("cuda:x")


# --- streams ---


def test_streams_are_numbers_or_objects_that_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stream_handle(17, 0) == 17
    assert stream_handle(SimpleNamespace(cuda_stream=18), 0) == 18
    assert stream_handle(SimpleNamespace(ptr=19), 0) == 19
    assert stream_handle(SimpleNamespace(__cuda_stream__=lambda: (0, 20)), 0) == 20
    with pytest.raises(ArgumentError, match="a str is no stream: 'fast'"):
        stream_handle("fast", 0)
    monkeypatch.setitem(cuda.sys.modules, "torch", None)
    assert stream_handle(None, 0) == 0


def test_torchs_current_stream_is_the_default_where_torch_uses_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = SimpleNamespace(is_initialized=lambda: True, current_stream=lambda o: SimpleNamespace(cuda_stream=40 + o))
    monkeypatch.setitem(cuda.sys.modules, "torch", SimpleNamespace(cuda=streams))
    assert stream_handle(None, 1) == 41 and stream_handle(0, 1) == 0
    streams.is_initialized = lambda: False
    assert stream_handle(None, 1) == 0


# --- a real GPU ---


@tilewright.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=inside), mask=inside)


@pytest.mark.gpu
def test_gpu_host_arrays(tmp_path: Path) -> None:
    x = np.arange(1000, dtype=np.float32)
    out = np.zeros_like(x)
    with knobs.scope(cache_dir=tmp_path):
        kernel = add.on("cuda")[(4,)](x, 2 * x, out, 1000, BLOCK=256)
    assert (out == 3 * x).all() and kernel.device.name == "cuda:0" and kernel.n_regs > 0


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
