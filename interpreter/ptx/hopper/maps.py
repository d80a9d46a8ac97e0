"""Tensor maps: the 128 bytes that tell a tensor copy about an array, and how the emulator writes them.

On a GPU the driver fills them in a way that only the hardware reads. Here they are a record of our own, made by
`encode_tensor_map` under the driver's rules (`cuTensorMapEncodeTiled`), with a sum that tells it from other bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...errors import LaunchError

SIZE = 128
"""Bytes of a tensor map."""
MOST_BYTES = 227 << 10
"""Bytes of a box: what shared memory a block can have. An H200's driver takes 128 KB and refuses 256 KB."""
ALIGNMENT = 64
"""What a tensor map's address must be a multiple of."""

TYPES_OF: dict[str, str] = {
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64", "float16": "f16",
    "float32": "f32", "float64": "f64", "bfloat16": "bf16", "float32_ftz": "f32", "tfloat32": "tf32",
    "tfloat32_ftz": "tf32",
}  # fmt: skip
"""The element types, by the names that the driver gives them, and PTX's for them."""

SWIZZLES: dict[str, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
"""Swizzles, and how many bytes of a row they mix."""
_FILLS = ("zero", "nan")
_PROMOTIONS = ("none", "64B", "128B", "256B")

_MAGIC = b"tile map"
_RECORD = struct.Struct("<8sBBBBBBxxQ5I4Q5H5B")
"""Magic; type, rank, swizzle, fill, promotion, unused; address; extents less one; strides; box; element strides."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An array in global memory and the box of it that a copy moves; the innermost dimension comes first.

    strides: bytes from one element to the next, one a dimension. box: elements along each dimension before
    `element_strides` leave some of them out. fill: what stands for elements outside, `zero` or `nan`.
    """

    dtype: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    fill: str

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _itemsize(self.dtype)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many elements a copy moves along each dimension; along the innermost one none are left out."""
        return (self.box[0], *(-(-b // e) for b, e in zip(self.box[1:], self.element_strides[1:], strict=True)))


def _itemsize(dtype: str) -> int:
    name = TYPES_OF[dtype]
    return 4 if name == "tf32" else int(name.lstrip("busf")) // 8


def encode_tensor_map(
    dtype: str,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int] | None = None,
    *,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "none",
    fill: str = "zero",
) -> bytes:
    """The tensor map of an array for the emulator: 128 bytes, to be passed as an argument or put into a buffer.

    dtype: a name of `TYPES_OF`. shape, box and element_strides have an entry for each of 1 to 5 dimensions, the
    innermost first; strides are in bytes and leave the innermost one out. swizzle: `none`, `32B`, `64B` or `128B`.
    l2_promotion means nothing here. fill: `zero`, or `nan` for floats. Raises LaunchError for what the driver refuses,
    and for interleaved layouts, which are not supported.
    """
    rank = len(shape)
    elements = tuple(element_strides) if element_strides is not None else (1,) * rank
    _check_names(dtype, interleave, swizzle, l2_promotion, fill)
    _check_array(address, shape, strides)
    _check_box(dtype, rank, box, elements, swizzle)

    def padded(values: Sequence[int], length: int) -> list[int]:
        return [*values, *[0] * (length - len(values))]

    body = _RECORD.pack(
        _MAGIC, list(TYPES_OF).index(dtype), rank, list(SWIZZLES).index(swizzle), _FILLS.index(fill),
        _PROMOTIONS.index(l2_promotion), 0, address, *padded([n - 1 for n in shape], 5), *padded(strides, 4),
        *padded(box, 5), *padded(elements, 5),
    )  # fmt: skip
    body = body.ljust(SIZE - 4, b"\0")
    return body + struct.pack("<I", zlib.crc32(body))


def decode_tensor_map(data: bytes) -> TensorMap | None:
    """What `encode_tensor_map` has written; None for other bytes."""
    body, (total,) = data[: SIZE - 4], struct.unpack("<I", data[SIZE - 4 :])
    if not body.startswith(_MAGIC) or zlib.crc32(body) != total:
        return None
    _, dtype, rank, swizzle, fill, _, _, address, *rest = _RECORD.unpack(body[: _RECORD.size])
    name = list(TYPES_OF)[dtype]
    shape, strides, box, elements = rest[:5], rest[5:9], rest[9:14], rest[14:19]
    return TensorMap(
        name, address, tuple(n + 1 for n in shape[:rank]), (_itemsize(name), *strides[: rank - 1]), tuple(box[:rank]),
        tuple(elements[:rank]), list(SWIZZLES)[swizzle], _FILLS[fill],
    )  # fmt: skip


def _check_names(dtype: str, interleave: str, swizzle: str, promotion: str, fill: str) -> None:
    named = (
        ("dtype", dtype, TYPES_OF), ("swizzle", swizzle, SWIZZLES), ("l2_promotion", promotion, _PROMOTIONS),
        ("fill", fill, _FILLS), ("interleave", interleave, ("none", "16B", "32B")),
    )  # fmt: skip
    for name, value, known in named:
        if value not in known:
            raise _refused(f"{name} is one of {', '.join(known)}, found {value!r}")
    if interleave != "none":
        raise _refused(f"interleaved layouts ({interleave}) are not supported")
    if fill == "nan" and "float" not in dtype:
        raise _refused(f"fill `nan` needs floats, found {dtype}")


def _check_array(address: int, shape: Sequence[int], strides: Sequence[int]) -> None:
    if not 1 <= len(shape) <= 5:
        raise _refused(f"1 to 5 dimensions, found {len(shape)}")
    if len(strides) != len(shape) - 1:
        raise _refused(f"{len(shape)} dimensions have {len(shape) - 1} strides, found {len(strides)}")
    if address % 16 or not 0 <= address < 1 << 64:
        raise _refused(f"the array's address {address:#x} is no multiple of 16")
    for axis, extent in enumerate(shape):
        if not 1 <= extent <= 1 << 32:
            raise _refused(f"dimension {axis} has 1 to 2**32 elements, found {extent}")
    for axis, stride in enumerate(strides, 1):
        if stride % 16 or not 0 <= stride < 1 << 40:
            raise _refused(f"the stride of dimension {axis} is a multiple of 16 below 2**40, found {stride}")


def _check_box(dtype: str, rank: int, box: Sequence[int], elements: Sequence[int], swizzle: str) -> None:
    if len(box) != rank or len(elements) != rank:
        raise _refused(f"{rank} dimensions, but a box of {len(box)} and {len(elements)} element strides")
    for axis, (extent, step) in enumerate(zip(box, elements, strict=True)):
        if not 1 <= extent <= 256:
            raise _refused(f"the box has 1 to 256 elements along dimension {axis}, found {extent}")
        if not 1 <= step <= 8:
            raise _refused(f"the element stride of dimension {axis} is 1 to 8, found {step}")
    inner = box[0] * _itemsize(dtype)
    if inner % 16:
        raise _refused(f"the box's rows have {inner} bytes, no multiple of 16")
    nbytes = prod(box) * _itemsize(dtype)
    if nbytes > MOST_BYTES:
        raise _refused(f"the box has {nbytes} bytes, more than the {MOST_BYTES} of shared memory")
    if swizzle != "none" and inner > SWIZZLES[swizzle]:
        raise _refused(f"the box's rows have {inner} bytes, more than the {SWIZZLES[swizzle]} that the swizzle mixes")


def _refused(what: str) -> LaunchError:
    return LaunchError(f"tensor map: {what}")
