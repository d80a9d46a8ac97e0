"""Tensor maps through the devices: the emulator's record, the driver's bytes, and what is refused."""

from __future__ import annotations

import ctypes
import re
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.fake_driver import FakeApi, Status
from tilewright.interpreter.ptx import decode_tensor_map
from tilewright.runtime import (
    ArgumentError,
    CudaDevice,
    CudaError,
    DeviceError,
    EmulatorDevice,
    InterpreterDevice,
    TensorMap,
)
from tilewright.runtime.devices.cuda_driver import Driver

MATRIX = TensorMap("float16", 4096, (64, 32), (128,), (64, 8), swizzle="128B")


class MapApi(FakeApi):
    """A driver that notes what a tensor map is made of."""

    cuuint64_t = cuuint32_t = int
    CUtensorMapDataType = SimpleNamespace(CU_TENSOR_MAP_DATA_TYPE_FLOAT16="f16")
    CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE="flat", CU_TENSOR_MAP_INTERLEAVE_16B="16")
    CUtensorMapSwizzle = SimpleNamespace(CU_TENSOR_MAP_SWIZZLE_NONE="straight", CU_TENSOR_MAP_SWIZZLE_128B="mixed")
    CUtensorMapL2promotion = SimpleNamespace(
        CU_TENSOR_MAP_L2_PROMOTION_NONE="no", CU_TENSOR_MAP_L2_PROMOTION_L2_128B="L2"
    )
    CUtensorMapFloatOOBfill = SimpleNamespace(
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE="zeros", CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA="nan"
    )

    def do_cuTensorMapEncodeTiled(self, *given: Any) -> tuple[Any, ...]:
        self.given = given
        self.room = ctypes.create_string_buffer(b"made by the driver".ljust(128, b"."), 128)
        return (SimpleNamespace(getPtr=lambda: ctypes.addressof(self.room)),)


def test_the_emulator_has_a_record_of_its_own() -> None:
    device = EmulatorDevice("sm_90a")
    found = decode_tensor_map(device.encode_tensor_map(MATRIX))
    assert found is not None and (found.dtype, found.address, found.shape) == ("float16", 4096, (64, 32))
    assert (found.strides, found.box, found.element_strides, found.swizzle) == ((2, 128), (64, 8), (1, 1), "128B")


def test_a_gpu_asks_the_driver() -> None:
    api = MapApi()
    device = CudaDevice(0, Driver(api))
    assert device.encode_tensor_map(MATRIX) == b"made by the driver".ljust(128, b".")
    assert api.given == ("f16", 2, 4096, [64, 32], [128], [64, 8], [1, 1], "flat", "mixed", "no", "zeros")
    row = TensorMap("float16", 512, (64,), (), (8,), (2,), l2_promotion="128B", fill="nan")
    device.encode_tensor_map(row)
    assert api.given == ("f16", 1, 512, [64], [16], [8], [2], "flat", "straight", "L2", "nan")


FIELDS = [field.name for field in fields(TensorMap)]
NUMBERS = st.one_of(
    st.integers(-(1 << 65), 1 << 65), st.sampled_from([0, 1, 8, 16, 64, 128, 256, 257, 1 << 32, 1 << 40]),
    st.floats(), st.booleans(), st.none(), st.text(max_size=4), st.sampled_from([np.int64(64), np.float32(1), b"x"]),
)  # fmt: skip
ODD = st.one_of(NUMBERS, st.lists(NUMBERS, max_size=6), st.lists(NUMBERS, max_size=6).map(tuple))
BAD: list[tuple[dict[str, Any], str, str]] = [
    *(({field: "odd"}, f"{field} is one of .*, found 'odd'", "") for field in
      ("dtype", "interleave", "swizzle", "l2_promotion", "fill")),
    ({"dtype": "fp16"}, "found 'fp16'", "did you mean `float16`"),
    ({"dtype": "f16"}, "found 'f16'", "did you mean `float16`"),
    ({"dtype": "Float16"}, "found 'Float16'", "did you mean `float16`"),
    ({"dtype": "flaot32"}, "found 'flaot32'", "did you mean `float32`"),
    ({"dtype": "bf16"}, "found 'bf16'", "did you mean `bfloat16`"),
    ({"dtype": "tf32"}, "found 'tf32'", "did you mean `tfloat32`"),
    ({"dtype": np.float16}, "found <class 'numpy.float16'> .type.", "did you mean `float16`"),
    ({"dtype": np.dtype("float64")}, "found dtype.'float64'. ", "did you mean `float64`"),
    ({"dtype": "int8"}, "found 'int8'", "the driver has no int8; `uint8` moves the same bits"),
    ({"dtype": "float8_e4m3fn"}, "found", "the driver has no float8_e4m3fn; `uint8` moves"),
    ({"dtype": np.bool_}, "found", "the driver has no bool; `uint8` moves"),
    ({"dtype": None}, "dtype is one of .*, found None .NoneType.", ""),
    ({"dtype": ["float16"]}, "dtype is one of .*, found .'float16'. .list.", ""),
    ({"swizzle": 128}, "swizzle is one of none, 32B, 64B, 128B, found 128 .int.", "did you mean `128B`"),
    ({"swizzle": "128b"}, "found '128b'", "did you mean `128B`"),
    ({"swizzle": None}, "found None", "did you mean `none`"),
    ({"fill": 0}, "fill is one of zero, nan, found 0", "did you mean `zero`"),
    ({"fill": float("nan")}, "fill is one of zero, nan, found nan", "did you mean `nan`"),
    ({"fill": "nan", "dtype": "uint16"}, "fill `nan` needs floats, found uint16", "integers are filled with `zero`"),
    ({"address": 4104}, "the array's address 0x1008 is no multiple of 16", "start at an element that lies so"),
    ({"address": -16}, "address is a number of 64 bits, found -16", ""),
    ({"address": 1 << 64}, "address is a number of 64 bits", ""),
    ({"address": 4096.0}, "address is an integer, found a float", "x.ctypes.data"),
    ({"address": None}, "address is an integer, found a NoneType", "x.ctypes.data"),
    ({"address": np.zeros(4)}, "address is an integer, found a ndarray", "x.data_ptr"),
    ({"address": "4096"}, "address is an integer, found a str", ""),
    ({"shape": (), "strides": (), "box": ()}, "1 to 5 dimensions, found 0", "shape .1,."),
    ({"shape": (2,) * 6}, "1 to 5 dimensions, found 6", "merge dimensions"),
    ({"shape": (64.0, 32)}, r"shape\[0\] is an integer, found 64.0 .float.", "write 64"),
    ({"shape": (64, 0.5)}, r"shape\[1\] is an integer, found 0.5 .float.", ""),
    ({"shape": (True, 32)}, r"shape\[0\] is an integer, found True .bool.", ""),
    ({"shape": ("64", 32)}, r"shape\[0\] is an integer, found '64'", ""),
    ({"shape": (None, 32)}, r"shape\[0\] is an integer, found None", ""),
    ({"shape": 64}, "shape is a tuple of integers, found 64 .int.", "write .64,."),
    ({"shape": "64"}, "shape is a tuple of integers, found '64'", ""),
    ({"shape": None}, "shape is a tuple of integers, found None", ""),
    ({"shape": np.ones((2, 2), int)}, "shape is a tuple of integers, found array", ""),
    ({"shape": np.array(64)}, "shape is a tuple of integers, found array.64.", ""),
    ({"shape": frozenset((64, 32))}, "shape is a tuple of integers, found frozenset", ""),
    ({"box": {64: 1, 8: 2}.keys()}, "box is a tuple of integers, found dict_keys", ""),
    ({"shape": {64: 1, 32: 2}}, "shape is a tuple of integers, found {64: 1", ""),
    ({"shape": (64, 0)}, "dimension 1 has 1 to 2..32 elements, found 0", ""),
    ({"shape": (-64, 32)}, "dimension 0 has 1 to 2..32 elements, found -64", ""),
    ({"shape": (64, (1 << 32) + 1)}, "dimension 1 has 1 to 2..32 elements", ""),
    ({"strides": ()}, "2 dimensions, so 1 stride, found 0", "the first, innermost dimension has none"),
    ({"strides": (2, 128)}, "2 dimensions, so 1 stride, found 2", "are in bytes"),
    ({"strides": (-4096,)}, "the stride of dimension 1 is 0 to 2..40 - 16 bytes, found -4096", "forwards only"),
    ({"strides": (136,)}, "the stride of dimension 1 is a multiple of 16 bytes, found 136", "pad the array's rows"),
    ({"strides": (1 << 40,)}, "the stride of dimension 1 is 0 to 2..40 - 16 bytes", ""),
    ({"strides": (128.0,)}, r"strides\[0\] is an integer, found 128.0", "write 128"),
    ({"strides": None}, "strides is a tuple of integers, found None", ""),
    ({"box": (64,)}, "box has an entry for each of 2 dimensions, found 1", ""),
    ({"box": (64, 8, 1)}, "box has an entry for each of 2 dimensions, found 3", ""),
    ({"box": (0, 8)}, "the box has 1 to 256 elements along dimension 0, found 0", ""),
    ({"box": (64, -8)}, "the box has 1 to 256 elements along dimension 1, found -8", ""),
    ({"box": (64, 257)}, "the box has 1 to 256 elements along dimension 1, found 257", "copy several boxes"),
    ({"box": (4, 8), "swizzle": "none"}, "the box's rows have 8 bytes, no multiple of 16", "take 8 elements of float"),
    ({"box": (128, 8)}, "the box's rows have 256 bytes, more than the 128 that the swizzle", "take 64 elements"),
    ({"dtype": "float64", "box": (256, 256), "swizzle": "none"}, "the box has 524288 bytes", "copy several boxes"),
    ({"element_strides": (1,)}, "element_strides has an entry for each of 2 dimensions, found 1", ""),
    ({"element_strides": (1, 0)}, "the element stride of dimension 1 is 1 to 8, found 0", "1 takes every element"),
    ({"element_strides": (1, 9)}, "the element stride of dimension 1 is 1 to 8, found 9", ""),
    ({"element_strides": (1, 1.5)}, r"element_strides\[1\] is an integer, found 1.5", ""),
]  # fmt: skip


@pytest.fixture(scope="module", params=["emulator", "cuda"])
def device(request: pytest.FixtureRequest) -> Any:
    return EmulatorDevice() if request.param == "emulator" else CudaDevice(0, Driver(MapApi()))


@pytest.mark.parametrize(("changed", "what", "hint"), BAD, ids=[str(n) for n in range(len(BAD))])
def test_what_is_wrong_is_told_with_its_cause(device: Any, changed: dict[str, Any], what: str, hint: str) -> None:
    with pytest.raises(ArgumentError, match=f"^tensor map: .*{what}") as caught:
        device.encode_tensor_map(replace(MATRIX, **changed))
    assert re.search(hint, caught.value.hint) and len(str(caught.value).splitlines()) == 1 + bool(caught.value.hint)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=3))
def test_nothing_but_argument_errors_comes_of_odd_fields(changed: dict[str, Any]) -> None:
    answers = list[bool]()
    for device in (EmulatorDevice(), CudaDevice(0, Driver(MapApi()))):
        try:
            answers.append(len(device.encode_tensor_map(replace(MATRIX, **changed))) == 128)
        except ArgumentError as error:
            assert str(error).startswith("tensor map: ") and "?:0:0" not in str(error)
            answers.append(False)
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"shape": [64, 32], "box": np.array([64, 8]), "strides": np.array([128], np.uint64)},
        {"shape": (np.int32(64), np.uint8(32)), "address": np.uint64(4096), "element_strides": None},
        {"element_strides": []},
    ],
)
def test_sequences_and_integers_of_any_kind(device: Any, changed: dict[str, Any]) -> None:
    assert device.encode_tensor_map(replace(MATRIX, **changed)) == device.encode_tensor_map(MATRIX)


def test_what_is_no_tensor_map(device: Any) -> None:
    with pytest.raises(ArgumentError, match="a tensor map is made of a TensorMap, found a dict"):
        device.encode_tensor_map({})


def test_interleaved_layouts() -> None:
    tensor = replace(MATRIX, interleave="16B", swizzle="none", shape=(64, 32, 4), strides=(128, 4096), box=(8, 4, 2))
    found = decode_tensor_map(EmulatorDevice().encode_tensor_map(tensor))
    assert found is not None and (found.interleave, found.box, found.swizzle) == ("16B", (8, 4, 2), "none")
    api = MapApi()
    assert len(CudaDevice(0, Driver(api)).encode_tensor_map(tensor)) == 128 and api.given[7] == "16"


def test_what_the_driver_refuses() -> None:
    device = CudaDevice(0, Driver(MapApi(cuTensorMapEncodeTiled=Status.CUDA_ERROR_INVALID_IMAGE)))
    with pytest.raises(CudaError, match="cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_IMAGE"):
        device.encode_tensor_map(MATRIX)


def test_the_interpreter_has_none() -> None:
    with pytest.raises(DeviceError, match="the interpreter has no tensor maps"):
        InterpreterDevice().encode_tensor_map(MATRIX)


def test_element_strides_are_ones_unless_given() -> None:
    assert MATRIX.steps == (1, 1) and np.prod(MATRIX.box) == 512
