"""Array arguments: where their bytes are, for every kind of array and every stride."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.runtime import ArgumentError, array_argument
from tilewright.runtime.arguments import numpy_names


class Interface:
    """An object that speaks the array interface only."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Capsule:
    """An object that speaks DLPack only."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", numpy_names(), ids=str)
def test_every_dtype_has_its_name(dtype: np.dtype[Any]) -> None:
    argument = array_argument(np.zeros(3, dtype))
    assert argument is not None
    assert (argument.dtype, argument.nbytes, argument.device) == (numpy_names()[dtype], 3 * dtype.itemsize, "cpu")


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-2, -1, 1, 2, 3])), min_size=1, max_size=3))
def test_the_span_is_the_bytes_of_the_elements(axes: list[tuple[int, int]]) -> None:
    base = np.arange(15**3, dtype=np.int32).reshape(15, 15, 15)
    view = base[
        tuple(slice(14, None if step > 0 else 0, step) if step < 0 else slice(0, e * step, step) for e, step in axes)
    ]
    view = view[tuple(slice(0, extent) for extent, _ in axes)]
    argument = array_argument(view)
    assert argument is not None and argument.address == view.ctypes.data
    if view.size:
        addresses = [
            view.ctypes.data + sum(i * s for i, s in zip(index, view.strides, strict=True))
            for index in np.ndindex(view.shape)
        ]
        assert argument.lowest == min(addresses)
        assert argument.nbytes == max(addresses) - min(addresses) + 4
    else:
        assert argument.nbytes == 0


@pytest.mark.parametrize("wrap", [Interface, Capsule])
def test_other_protocols_reach_the_same_bytes(wrap: Any) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1:3]
    ours, other = array_argument(array), array_argument(wrap(array))
    assert ours is not None and other is not None
    assert (other.dtype, other.address, other.lowest, other.nbytes, other.shape) == (
        ours.dtype, ours.address, ours.lowest, ours.nbytes, ours.shape
    )  # fmt: skip


def test_read_only_arrays_stay_read_only() -> None:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    for value in (array, Interface(array)):
        argument = array_argument(value)
        assert argument is not None and argument.readonly


def test_scalars_are_no_arrays() -> None:
    assert [array_argument(v) for v in (1, 1.0, None, np.float32(1), "x", (1, 2))] == [None] * 6


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros(2, "datetime64[s]"), "an array of datetime64[s] is no kernel argument\nhint: kernels take "),
        (np.zeros(2, np.complex64), "an array of complex64 is no kernel argument"),
        (np.zeros(2, object), "an array of object is no kernel argument"),
        (np.zeros(2, ">f4"), "an array of >f4 is no kernel argument\nhint: convert it to the native byte order"),
        (np.zeros(2, ml_dtypes.int4), "an array of int4 is no kernel argument"),
    ],
)
def test_other_dtypes_are_refused(array: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        array_argument(array)
    assert str(caught.value).startswith(message)


class Tensor:
    """What of a torch tensor the runtime looks at."""

    def __init__(self, array: np.ndarray[Any, Any], dtype: str, device: str = "cpu") -> None:
        self.array = array
        self.dtype = f"torch.{dtype}"
        self.shape = array.shape
        self.device = type(
            "device", (), {"type": device, "index": 1 if device == "cuda" else None, "__repr__": lambda _: device}
        )()

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def element_size(self) -> int:
        return self.array.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)


def test_tensors_are_known_by_what_they_can_do() -> None:
    array = np.zeros((4, 6), np.uint16)[:, ::2]
    argument = array_argument(Tensor(array, "bfloat16"))
    assert argument is not None
    assert (argument.dtype, argument.nbytes, argument.device) == ("bf16", 3 * 12 + 4 + 2 + 4, "cpu")
    remote = array_argument(Tensor(array, "float16", "cuda"))
    assert remote is not None and remote.device == "cuda:1"


@pytest.mark.parametrize("dtype, device", [("complex64", "cpu"), ("float32", "mps")])
def test_other_tensors_are_refused(dtype: str, device: str) -> None:
    with pytest.raises(ArgumentError, match="is no kernel argument"):
        array_argument(Tensor(np.zeros(2, np.float32), dtype, device))


@pytest.mark.optional
def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros((4, 6), dtype=torch.bfloat16).t()
    argument = array_argument(tensor)
    assert argument is not None
    assert (argument.dtype, argument.address, argument.nbytes, argument.shape) == (
        "bf16",
        tensor.data_ptr(),
        48,
        (6, 4),
    )
