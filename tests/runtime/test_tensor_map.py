"""Tensor maps through the devices: the emulator's record, the driver's bytes, and what is refused."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.runtime.fake_driver import FakeApi, Status
from tilewright.interpreter import LaunchError
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
    CUtensorMapInterleave = SimpleNamespace(CU_TENSOR_MAP_INTERLEAVE_NONE="flat")
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
    with pytest.raises(LaunchError, match="the stride of dimension 1 is a multiple of 16 below"):
        device.encode_tensor_map(TensorMap("float16", 4096, (64, 32), (130,), (64, 8)))


def test_a_gpu_asks_the_driver() -> None:
    api = MapApi()
    device = CudaDevice(0, Driver(api))
    assert device.encode_tensor_map(MATRIX) == b"made by the driver".ljust(128, b".")
    assert api.given == ("f16", 2, 4096, [64, 32], [128], [64, 8], [1, 1], "flat", "mixed", "no", "zeros")
    row = TensorMap("float16", 512, (64,), (), (8,), (2,), l2_promotion="128B", fill="nan")
    device.encode_tensor_map(row)
    assert api.given == ("f16", 1, 512, [64], [16], [8], [2], "flat", "straight", "L2", "nan")


@pytest.mark.parametrize("field", ["dtype", "interleave", "swizzle", "l2_promotion", "fill"])
def test_names_that_the_driver_does_not_know(field: str) -> None:
    device = CudaDevice(0, Driver(MapApi()))
    tensor = replace(TensorMap("float16", 0, (8,), (), (8,)), **{field: "odd"})
    with pytest.raises(ArgumentError, match=f"the driver knows no {field} 'odd'"):
        device.encode_tensor_map(tensor)
    with pytest.raises(LaunchError, match=f"{field} is one of .*, found 'odd'"):
        EmulatorDevice().encode_tensor_map(tensor)


def test_what_the_driver_refuses() -> None:
    device = CudaDevice(0, Driver(MapApi(cuTensorMapEncodeTiled=Status.CUDA_ERROR_INVALID_IMAGE)))
    with pytest.raises(CudaError, match="cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_IMAGE"):
        device.encode_tensor_map(MATRIX)


def test_the_interpreter_has_none() -> None:
    with pytest.raises(DeviceError, match="the interpreter has no tensor maps"):
        InterpreterDevice().encode_tensor_map(MATRIX)


def test_element_strides_are_ones_unless_given() -> None:
    assert MATRIX.steps == (1, 1) and np.prod(MATRIX.box) == 512
