"""Tensor maps of columns of pixels through the devices, and devices without tensor copies."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.test_tensor_map import MATRIX, ODD, MapApi
from tilewright.interpreter.ptx import decode_tensor_map
from tilewright.runtime import ArgumentError, CudaDevice, DeviceError, EmulatorDevice, Im2colMap, InterpreterDevice
from tilewright.runtime.devices.cuda_driver import Driver

IMAGES = Im2colMap("float16", 4096, (64, 9, 14, 5), (128, 1152, 16128), (-1, -2), (-1, 0), 64, 48, swizzle="128B")


class Im2colApi(MapApi):
    """A driver that notes what a tensor map of pixels is made of."""

    def do_cuTensorMapEncodeIm2col(self, *given: Any) -> tuple[Any, ...]:
        return self.do_cuTensorMapEncodeTiled(*given)


@pytest.fixture(scope="module", params=["emulator", "cuda"])
def device(request: pytest.FixtureRequest) -> Any:
    return EmulatorDevice() if request.param == "emulator" else CudaDevice(0, Driver(Im2colApi()))


def test_the_emulator_has_a_record_of_its_own() -> None:
    found = decode_tensor_map(EmulatorDevice("sm_90a").encode_im2col_map(IMAGES))
    assert found is not None and found.corners is not None and found.box == (64, 48)
    assert (found.shape, found.corners.lower, found.corners.upper) == (IMAGES.shape, (-1, -2), (-1, 0))


def test_a_gpu_asks_the_driver() -> None:
    api = Im2colApi()
    device = CudaDevice(0, Driver(api))
    assert device.encode_im2col_map(IMAGES) == b"made by the driver".ljust(128, b".")
    assert api.given == (
        "f16", 4, 4096, [64, 9, 14, 5], [128, 1152, 16128], [-1, -2], [-1, 0], 64, 48, [1, 1, 1, 1],
        "flat", "mixed", "no", "zeros",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "what", "hint"),
    [
        ({"lower_corner": (0, 200)}, r"lower_corner\[1\] is -128 to 127", "a map of a part of the array"),
        ({"upper_corner": (-10, 0)}, "the corners leave no pixels along dimension 1: -1 to -2", "0 for the whole"),
        ({"channels_per_pixel": 68}, "a pixel has 136 bytes, no multiple of 16", "take 64 elements of float16"),
        ({"channels_per_pixel": True}, "channels_per_pixel is an integer, found True", ""),
        ({"pixels_per_column": 2000}, "pixels_per_column is 1 to 1024, found 2000", "copy several columns"),
        ({"pixels_per_column": "64"}, "pixels_per_column is an integer, found '64'", ""),
        ({"shape": (64, 9), "strides": (128,)}, "an array of pixels has 3 to 5 dimensions", "images: write 1 for what"),
        ({"dtype": "fp16"}, "dtype is one of", "did you mean `float16`"),
    ],
)
def test_what_is_wrong_is_told_with_its_cause(device: Any, changed: dict[str, Any], what: str, hint: str) -> None:
    with pytest.raises(ArgumentError, match=f"^tensor map: {what}") as caught:
        device.encode_im2col_map(replace(IMAGES, **changed))
    assert hint in caught.value.hint and len(str(caught.value).splitlines()) == 1 + bool(caught.value.hint)


def test_each_kind_has_its_method(device: Any) -> None:
    with pytest.raises(ArgumentError, match="is made of a TensorMap, found a Im2colMap") as caught:
        device.encode_tensor_map(IMAGES)
    assert caught.value.hint == "`encode_im2col_map` takes it"
    with pytest.raises(ArgumentError, match="is made of a Im2colMap, found a TensorMap") as caught:
        device.encode_im2col_map(MATRIX)
    assert caught.value.hint == "`encode_tensor_map` takes it"


def test_sequences_and_integers_of_any_kind(device: Any) -> None:
    odd = replace(IMAGES, shape=list(IMAGES.shape), lower_corner=np.array([-1, -2]), pixels_per_column=np.int64(48))
    assert device.encode_im2col_map(odd) == device.encode_im2col_map(IMAGES)


def test_a_hint_keeps_to_all_rules(device: Any) -> None:
    """129 bytes a row of 128 that are swizzled: no multiple of 16, and 144 would be too many."""
    with pytest.raises(ArgumentError, match="have 129 bytes, no multiple of 16") as caught:
        device.encode_tensor_map(replace(MATRIX, dtype="uint8", shape=(256, 32), strides=(256,), box=(129, 8)))
    assert caught.value.hint == "take 128 elements of uint8"


def test_there_are_tensor_maps_from_sm_90_on() -> None:
    old = CudaDevice(0, Driver(MapApi()))
    old.target = "sm_89"
    for device, target in ((EmulatorDevice("sm_80"), "sm_80"), (old, "sm_89")):
        for encode, tensor in ((device.encode_tensor_map, MATRIX), (device.encode_im2col_map, IMAGES)):
            given: Any = tensor
            with pytest.raises(DeviceError, match=f"^{target} has no tensor maps") as caught:
                encode(given)
            assert caught.value.hint == "sm_90 and later have them, such as `emulator:sm_90a`"
    with pytest.raises(DeviceError, match="the interpreter has no tensor maps"):
        InterpreterDevice().encode_im2col_map(IMAGES)
    assert IMAGES.steps == (1, 1, 1, 1)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from([field.name for field in fields(Im2colMap)]), ODD, max_size=3))
def test_nothing_but_argument_errors_comes_of_odd_fields(changed: dict[str, Any]) -> None:
    try:
        assert len(EmulatorDevice().encode_im2col_map(replace(IMAGES, **changed))) == 128
    except ArgumentError as error:
        assert str(error).startswith("tensor map: ") and "?:0:0" not in str(error)
