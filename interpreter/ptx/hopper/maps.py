"""Tensor maps: the 128 bytes that tell a tensor copy about an array, and how the emulator writes them.

On a GPU the driver fills them in a way that only the hardware reads. Here they are a record of our own, made by
`encode_tensor_map` under the driver's rules (`cuTensorMapEncodeTiled`), with a sum that tells it from other bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from .map_rules import FILLS, PROMOTIONS, SWIZZLES, TYPES_OF, check_tensor_map, itemsize, refuse

SIZE = 128
"""Bytes of a tensor map."""
ALIGNMENT = 64
"""What a tensor map's address must be a multiple of."""

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
        return itemsize(self.dtype)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many elements a copy moves along each dimension; along the innermost one none are left out."""
        return (self.box[0], *(-(-b // e) for b, e in zip(self.box[1:], self.element_strides[1:], strict=True)))


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
    given = {
        "dtype": dtype, "address": address, "shape": shape, "strides": strides, "box": box,
        "element_strides": element_strides, "interleave": interleave, "swizzle": swizzle, "l2_promotion": l2_promotion,
        "fill": fill,
    }  # fmt: skip
    fields = check_tensor_map(given)
    if fields.interleave != "none":
        refuse(f"interleaved layouts ({fields.interleave}) are not supported by the emulator")

    def padded(values: Sequence[int], length: int) -> list[int]:
        return [*values, *[0] * (length - len(values))]

    body = _RECORD.pack(
        _MAGIC, list(TYPES_OF).index(dtype), len(fields.shape), list(SWIZZLES).index(swizzle), FILLS.index(fill),
        PROMOTIONS.index(l2_promotion), 0, fields.address, *padded([n - 1 for n in fields.shape], 5),
        *padded(fields.strides, 4), *padded(fields.box, 5), *padded(fields.element_strides, 5),
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
        name, address, tuple(n + 1 for n in shape[:rank]), (itemsize(name), *strides[: rank - 1]), tuple(box[:rank]),
        tuple(elements[:rank]), list(SWIZZLES)[swizzle], FILLS[fill],
    )  # fmt: skip
