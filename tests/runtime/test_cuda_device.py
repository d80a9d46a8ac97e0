"""GPUs without one: each way in which a driver or a device fails, on a made-up driver."""

import ctypes
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright
from tests.runtime.fake_driver import FakeApi, Status, add, artifact, gpu
from tilewright.lang import CompilationError, knobs
from tilewright.runtime import ArgumentError, ArrayArgument, CudaError, DeviceError, find_device
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.devices import choose, cuda, cuda_driver
from tilewright.runtime.devices.cuda import stream_handle, target_for
from tilewright.runtime.devices.cuda_driver import Driver
from tilewright.runtime.devices.cuda_memory import groups
from tilewright.runtime.options import CompileOptions

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
    context = ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"]
    assert api.calls == [*context[:2], "cuStreamIsCapturing", "cuLaunchKernel", context[2]]
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
    assert api.calls == ["cuCtxGetCurrent", "cuStreamIsCapturing", "cuLaunchKernel"]


def test_the_module_of_a_dropped_kernel_is_unloaded_before_the_next_one_is_loaded() -> None:
    api = FakeApi()
    device = gpu(api)
    first, second = device.load(artifact()), device.load(artifact())
    del first
    gc.collect()
    assert api.unloaded == []  # anything may be going on at this moment
    device.load(artifact())
    assert api.unloaded == [(7, "relaxed")] and api.modes == ["global", "relaxed", "global"]
    del second
    third = device.load(artifact())
    assert {module for module, _ in api.unloaded} == {7, 8, 9} and third.function == 8


@pytest.mark.parametrize("how", ["captured", "the driver does not say"])
def test_the_module_of_a_kernel_that_a_graph_may_hold_stays(how: str) -> None:
    api = FakeApi()
    device = gpu(api)
    handle = device.load(artifact())
    if how == "captured":
        api.capturing = 1
    else:  # as it is for the default stream while another stream is captured
        api.failures = {"cuStreamIsCapturing": Status.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT}
    device.launch(handle, (1, 1, 1), [], CompileOptions())
    api.capturing, api.failures = 0, {}
    api.calls.clear()
    device.launch(handle, (1, 1, 1), [], CompileOptions())
    assert "cuStreamIsCapturing" not in api.calls  # no more to learn
    del handle
    gc.collect()
    device.load(artifact())
    assert api.unloaded == []


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


class Place(NamedTuple):
    """A device of torch."""

    type: str
    index: int


class Tensor:
    """A tensor of torch on a GPU, as far as its class and its attributes tell."""

    dtype, device, shape = "torch.float32", Place("cuda", 0), (64,)

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return 4

    def stride(self) -> tuple[int, ...]:
        return (1,)


Tensor.__module__ = "torch"


class Interface:
    """An array that speaks `__cuda_array_interface__` alone."""

    def __init__(self, address: int) -> None:
        self.address = address

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"typestr": "<f4", "shape": (64,), "data": (self.address, False), "version": 3}


@pytest.mark.parametrize("kind", [Tensor, Interface])
def test_a_call_like_an_earlier_one_is_a_launch_and_nothing_else(
    kind: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = FakeApi(version=12090)
    made = Driver(api)
    for module in (cuda, cuda_driver):
        monkeypatch.setattr(module, "driver", lambda: made)
    monkeypatch.setattr(choose, "_open", {})
    seen: list[int] = []

    def look(function: int, *rest: Any) -> tuple[()]:
        pointers = ctypes.cast(rest[-2], ctypes.POINTER(ctypes.c_void_p))
        seen[:] = [int.from_bytes(ctypes.string_at(pointers[at], 8), "little") for at in range(4)]
        return FakeApi.do_cuLaunchKernel(api, function, *rest)

    api.do_cuLaunchKernel = look  # type: ignore[method-assign]
    kernel = tilewright.jit(add.function)
    with knobs.scope(cache_dir=tmp_path):
        first = kernel[(4,)](kind(4096), kind(8192), kind(12288), 900, BLOCK=256)
        assert first.device.name == "cuda:0" and seen == [4096, 8192, 12288, 900]
        api.calls.clear()
        assert kernel[(4,)](kind(160), kind(320), kind(480), 902, BLOCK=256) is first
        assert seen == [160, 320, 480, 902]
        asked = ["cuPointerGetAttribute"] * 3 if kind is Interface else []
        context = ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"]
        assert api.calls == [*asked, *context[:2], "cuStreamIsCapturing", "cuLaunchKernel", context[2]]
        assert kernel[(4,)](kind(164), kind(320), kind(480), 902, BLOCK=256) is not first


# --- failures in the middle ---

USED = (
    "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxGetCurrent",
    "cuCtxPushCurrent", "cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc", "cuMemcpyHtoD", "cuLaunchKernel",
    "cuMemcpyDtoH",
)  # fmt: skip


@pytest.mark.parametrize("function", USED)
def test_a_gpu_that_is_lost_at_any_call_is_an_error_and_the_process_lives(
    function: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = FakeApi(version=12090)
    made = Driver(api)
    monkeypatch.setattr(cuda, "driver", lambda: made)
    monkeypatch.setattr(choose, "_open", {})
    kernel = tilewright.jit(add.function)
    x, out = np.ones(900, np.float32), np.zeros(900, np.float32)
    with knobs.scope(cache_dir=tmp_path):
        api.failures = {function: Status.CUDA_ERROR_DEVICE_UNAVAILABLE}
        with pytest.raises(CudaError) as caught:
            kernel.on("cuda")[(4,)](x, x, out, 900, BLOCK=256)
        assert caught.value.code == "CUDA_ERROR_DEVICE_UNAVAILABLE" and function in str(caught.value)
        assert "the GPU was lost, or another process has it for itself" in str(caught.value)
        assert api.memory == {} and api.stack == [0] and not out.any()
        api.failures = {}
        assert kernel.on("cuda")[(4,)](x, x, out, 900, BLOCK=256).device.name == "cuda:0"
    assert api.memory == {} and len(api.launched) == 1 + (function == "cuMemcpyDtoH")


def test_a_launch_larger_than_the_gpus_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    device = gpu(api)
    small, large = np.zeros(100, np.float32), np.zeros(100_000, np.float32)
    room = 100_000

    def allocate(size: int) -> tuple[Any, ...]:
        if size > room:
            return (Status.CUDA_ERROR_OUT_OF_MEMORY,)
        return Status.CUDA_SUCCESS, *api.do_cuMemAlloc(size)

    monkeypatch.setattr(api, "cuMemAlloc", allocate, raising=False)
    with pytest.raises(CudaError, match="cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY.*\nhint: the GPU's memory is full"):
        with device.memory([cuda_argument(small), cuda_argument(large)]):
            raise AssertionError("nothing may run")
    assert api.memory == {} and api.stack == [0]


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
