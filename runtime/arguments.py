"""Array arguments: where they live, what they hold, and which bytes a kernel may touch.

Taken are NumPy arrays, torch tensors, and whatever speaks `__array_interface__`, `__cuda_array_interface__` or
DLPack. Nothing here imports torch: its tensors are known by what they can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np

from tilewright.lang import dtype, pointer_type, type_text

from ._lazy import small_floats
from .errors import ArgumentError

#: The name of a torch dtype, by its own (`str(dtype)` without "torch.").
TORCH_NAMES: dict[str, str] = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2fnuz": "fp8e5b16",
    "float8_e4m3fnuz": "fp8e4b8",
}


#: The name of each dtype that is NumPy's own.
NUMPY_NAMES: dict[np.dtype[Any], str] = {
    np.dtype(np.bool_): "i1",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "u8",
    np.dtype(np.uint16): "u16",
    np.dtype(np.uint32): "u32",
    np.dtype(np.uint64): "u64",
    np.dtype(np.float16): "fp16",
    np.dtype(np.float32): "fp32",
    np.dtype(np.float64): "fp64",
}


@cache
def numpy_names() -> dict[np.dtype[Any], str]:
    """The name of each NumPy dtype in signatures, built when it is needed: the small floats are slow to import."""
    return NUMPY_NAMES | small_floats()


class ArrayArgument(NamedTuple):
    """An array as a kernel sees it.

    `address` is that of its first element; the kernel may touch the `nbytes` bytes from `lowest` on, the span of its
    elements. `device` is "cpu", "cuda:N", or "cuda" where only the driver knows on which GPU. `owner` keeps the memory
    alive.
    """

    dtype: str
    address: int
    lowest: int
    nbytes: int
    shape: tuple[int, ...]
    device: str
    readonly: bool
    owner: Any

    @property
    def is_aligned(self) -> bool:
        """Whether the address is a multiple of 16, which specialization promises to the compiler."""
        return self.address % 16 == 0


def array_argument(value: Any) -> ArrayArgument | None:
    """The argument as an array, or None if it is none. Raises ArgumentError for an array that kernels can't take."""
    if isinstance(value, ArrayArgument):
        return value
    if isinstance(value, type):
        return None  # np.float32 itself has an array interface, as a descriptor of its instances
    if isinstance(value, np.ndarray):
        return _from_numpy(cast("np.ndarray[Any, Any]", value), value)
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return _from_tensor(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _from_interface(value, value.__cuda_array_interface__, "cuda")
    if isinstance(value, np.generic):
        return None  # a scalar, though it has an array interface
    if hasattr(value, "__array_interface__"):
        return _from_interface(value, value.__array_interface__, "cpu")
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _from_dlpack(value)
    return None


def stand_in(value: Any) -> Any:
    """What a kernel can be compiled for in place of an array: a dtype, or an object that says only dtype and address.

    A dtype of NumPy, torch or the language stands for an aligned array of it, and a pointer type of the language for
    itself. Everything else comes back as it is.
    """
    if isinstance(value, dtype):
        return _nothing(type_text(value.element_ty if isinstance(value, pointer_type) else value))
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return _nothing(_name(np.dtype(cast("Any", value))))
    return _torch_stand_in(value)


def _torch_stand_in(value: Any) -> Any:
    kind = cast("type[Any]", type(value))
    if (kind.__module__, kind.__name__) == ("torch", "dtype"):
        return _nothing(_torch_name(value))
    if hasattr(value, "dtype") and hasattr(value, "data_ptr") and not hasattr(value, "element_size"):
        own: Any = value.dtype
        name = _name(cast("Any", own)) if isinstance(own, np.dtype) else _torch_name(own)
        return _nothing(name, int(value.data_ptr()))
    return value


def _nothing(name: str, address: int = 0) -> ArrayArgument:
    return ArrayArgument(name, address, address, 0, (), "cpu", False, None)


def _torch_name(own: Any) -> str:
    name = str(own).removeprefix("torch.")
    if name not in TORCH_NAMES:
        raise ArgumentError(f"a tensor of {own} is no kernel argument", f"kernels take {', '.join(TORCH_NAMES)}")
    return TORCH_NAMES[name]


def _name(dtype: np.dtype[Any]) -> str:
    name = NUMPY_NAMES.get(dtype) or numpy_names().get(dtype)
    if name is None:
        names = numpy_names()
        swapped = not dtype.isnative and dtype.newbyteorder("=") in names
        hint = "convert it to the native byte order" if swapped else f"kernels take {', '.join(names.values())}"
        raise ArgumentError(f"an array of {dtype} is no kernel argument", hint)
    return name


def span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Byte offsets (lowest, past the end) of the elements from the first one; strides in bytes, of any sign."""
    if 0 in shape:
        return 0, 0
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps) + itemsize


def _make(
    dtype: str,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    itemsize: int,
    device: str,
    readonly: bool,
    owner: Any,
) -> ArrayArgument:
    low, high = span(shape, strides, itemsize)
    return ArrayArgument(dtype, address, address + low, high - low, tuple(shape), device, readonly, owner)


def _from_numpy(array: np.ndarray[Any, Any], owner: Any) -> ArrayArgument:
    name = _name(array.dtype)
    return _make(
        name, array.ctypes.data, array.shape, array.strides, array.itemsize, "cpu", not array.flags.writeable, owner
    )


def _from_tensor(tensor: Any) -> ArrayArgument:
    name = _torch_name(tensor.dtype)
    itemsize = int(tensor.element_size())
    shape = tuple(int(extent) for extent in tensor.shape)
    strides = [int(stride) * itemsize for stride in tensor.stride()]
    device = getattr(tensor, "device", None)
    kind = getattr(device, "type", "cpu")
    if kind not in ("cpu", "cuda"):
        raise ArgumentError(f"a tensor on device {device} is no kernel argument", "move it to the CPU or a CUDA device")
    where = "cpu" if kind == "cpu" else f"cuda:{getattr(device, 'index', None) or 0}"
    return _make(name, int(tensor.data_ptr()), shape, strides, itemsize, where, False, tensor)


def _from_interface(owner: Any, interface: dict[str, Any], device: str) -> ArrayArgument:
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    data = interface.get("data")
    if data is None:  # the buffer protocol carries the memory instead
        return _from_numpy(np.asarray(owner), owner)
    strides = interface.get("strides") or _packed(shape, dtype.itemsize)
    address, readonly = data
    return _make(_name(dtype), int(address), shape, strides, dtype.itemsize, device, bool(readonly), owner)


def _packed(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The byte strides of a row-major array without gaps."""
    strides: list[int] = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _from_dlpack(value: Any) -> ArrayArgument:
    kind, index = value.__dlpack_device__()
    if int(kind) == 2:
        raise ArgumentError(
            "a CUDA array that speaks only DLPack is no kernel argument",
            "give it __cuda_array_interface__, or use torch",
        )
    if int(kind) != 1:
        raise ArgumentError(f"an array on DLPack device ({int(kind)}, {index}) is no kernel argument")
    try:
        array = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ArgumentError(f"NumPy can't read the array through DLPack: {error}") from error
    return _from_numpy(array, value)
