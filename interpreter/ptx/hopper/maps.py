"""Tensor maps: the 128 bytes that tell a tensor copy about an array, and how the emulator writes them.

On a GPU the driver fills them in a way that only the hardware reads. Here they are a record of our own, made by
`encode_tensor_map` and `encode_im2col_map` under the driver's rules (`cuTensorMapEncodeTiled` and `Im2col`), with a sum
that tells it from other bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from .im2col_rules import Im2colFields, check_im2col_map
from .map_rules import FILLS, INTERLEAVES, PROMOTIONS, SWIZZLES, TYPES_OF, Fields, check_tensor_map, itemsize

SIZE = 128
"""Bytes of a tensor map."""
ALIGNMENT = 64
"""What a tensor map's address must be a multiple of."""

_MAGIC = b"tile map"
_LAYOUT = struct.Struct("<8s8BQ5Q4Q5H5B3h3h")
_ENDS = (9, 14, 18, 23, 28, 31, 34)
"""Behind which numbers of a record those of a field with several end: 8 numbers and the address are single."""


class _Record(NamedTuple):
    """What the bytes say behind the magic: names by number, and room for 5 dimensions, zeros beyond the rank.

    replaced: nobody has looked whether the fields go together since one of them was replaced. pixels: whether the box
    has channels and pixels, and there are corners.
    """

    dtype: int
    rank: int
    swizzle: int
    fill: int
    promotion: int
    interleave: int
    replaced: int
    pixels: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Corners:
    """Which pixels of each image columns go through: from `lower` on, and up to `upper` from the last one, by
    dimension, the innermost first."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An array in global memory and the box of it that a copy moves; the innermost dimension comes first.

    strides: bytes from one element to the next, one a dimension. box: elements along each dimension before
    `element_strides` leave some of them out; of pixels (`corners` is given) the channels and pixels of a column. fill:
    what stands for elements outside, `zero` or `nan`. interleave: `none`, or how many bytes a pixel has, see
    `boxes.unfolded`.
    """

    dtype: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    fill: str
    interleave: str = "none"
    corners: Corners | None = None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return itemsize(self.dtype)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many elements a copy of an array that is not interleaved moves along each dimension of its box; along the
        innermost none are left out."""
        if self.corners is not None:
            return self.box
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
    l2_promotion means nothing here. fill: `zero`, or `nan` for floats. interleave: `none`, or `16B` or `32B`, of which
    the pixels are then that the innermost dimension counts; the last but one counts slices of channels, and a copy
    takes one of them. Raises LaunchError for what the driver refuses.
    """
    given = {
        "dtype": dtype, "address": address, "shape": shape, "strides": strides, "box": box,
        "element_strides": element_strides, "interleave": interleave, "swizzle": swizzle, "l2_promotion": l2_promotion,
        "fill": fill,
    }  # fmt: skip
    fields = check_tensor_map(given)
    return _bytes(_record_of(fields, fields.box, Corners((), ())))


def encode_im2col_map(
    dtype: str,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    lower_corner: Sequence[int],
    upper_corner: Sequence[int],
    channels_per_pixel: int,
    pixels_per_column: int,
    element_strides: Sequence[int] | None = None,
    *,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "none",
    fill: str = "zero",
) -> bytes:
    """The tensor map of images for the emulator, whose copies take columns of pixels: 128 bytes.

    shape: channels, 1 to 3 dimensions of pixels, images. lower_corner and upper_corner have an entry for each dimension
    of pixels, the innermost first: columns go through those from lower_corner to upper_corner behind the last pixel
    (0 is the last one itself), `element_strides` apart. All else is as in `encode_tensor_map`. Raises LaunchError for
    what the driver refuses.
    """
    given = {
        "dtype": dtype, "address": address, "shape": shape, "strides": strides, "lower_corner": lower_corner,
        "upper_corner": upper_corner, "channels_per_pixel": channels_per_pixel, "pixels_per_column": pixels_per_column,
        "element_strides": element_strides, "interleave": interleave, "swizzle": swizzle, "l2_promotion": l2_promotion,
        "fill": fill,
    }  # fmt: skip
    m = check_im2col_map(given)
    box, corners = (m.channels_per_pixel, m.pixels_per_column), Corners(m.lower_corner, m.upper_corner)
    return _bytes(_record_of(m, box, corners))


def _record_of(m: Fields | Im2colFields, box: Sequence[int], corners: Corners) -> _Record:
    def padded(values: Sequence[int], length: int) -> tuple[int, ...]:
        return (*values, *[0] * (length - len(values)))

    return _Record(
        list(TYPES_OF).index(m.dtype), len(m.shape), list(SWIZZLES).index(m.swizzle), FILLS.index(m.fill),
        PROMOTIONS.index(m.l2_promotion), list(INTERLEAVES).index(m.interleave), 0, bool(corners.lower), m.address,
        padded(m.shape, 5), padded(m.strides, 4), padded(box, 5), padded(m.element_strides, 5),
        padded(corners.lower, 3), padded(corners.upper, 3),
    )  # fmt: skip


def _bytes(record: _Record) -> bytes:
    *numbers, shape, strides, box, steps, lower, upper = record
    body = _LAYOUT.pack(_MAGIC, *numbers, *shape, *strides, *box, *steps, *lower, *upper).ljust(SIZE - 4, b"\0")
    return body + struct.pack("<I", zlib.crc32(body))


def _record(data: bytes) -> _Record | None:
    body, (total,) = data[: SIZE - 4], struct.unpack("<I", data[SIZE - 4 :])
    if not body.startswith(_MAGIC) or zlib.crc32(body) != total:
        return None
    _, *numbers = _LAYOUT.unpack(body[: _LAYOUT.size])
    return _Record._make([*numbers[: _ENDS[0]], *(tuple(numbers[first:end]) for first, end in pairwise(_ENDS))])


def decode_tensor_map(data: bytes) -> TensorMap | None:
    """What `encode_tensor_map` or `encode_im2col_map` has written; None for other bytes.

    Raises LaunchError where fields have been replaced, and now break the driver's rules.
    """
    record = _record(data)
    if record is None:
        return None
    if record.replaced:
        _check(record)
    rank, name = record.rank, list(TYPES_OF)[record.dtype]
    corners = Corners(record.lower[: rank - 2], record.upper[: rank - 2]) if record.pixels else None
    return TensorMap(
        name, record.address, record.shape[:rank], (itemsize(name), *record.strides[: rank - 1]),
        record.box[: 2 if record.pixels else rank], record.element_strides[:rank], list(SWIZZLES)[record.swizzle],
        FILLS[record.fill], list(INTERLEAVES)[record.interleave], corners,
    )  # fmt: skip


def _check(record: _Record) -> None:
    """Raise LaunchError if the fields of a record break the driver's rules."""
    rank, dtype = record.rank, list(TYPES_OF)[record.dtype]
    shape, strides = (*record.shape, *[1] * rank)[:rank], record.strides[: max(rank - 1, 0)]
    steps, corners = record.element_strides[:rank], (record.lower[: rank - 2], record.upper[: rank - 2])
    interleave, swizzle = list(INTERLEAVES)[record.interleave], list(SWIZZLES)[record.swizzle]
    if record.pixels:
        encode_im2col_map(
            dtype, record.address, shape, strides, *corners, record.box[0], record.box[1], steps,
            interleave=interleave, swizzle=swizzle, fill=FILLS[record.fill],
        )  # fmt: skip
    else:
        encode_tensor_map(
            dtype, record.address, shape, strides, record.box[:rank], steps,
            interleave=interleave, swizzle=swizzle, fill=FILLS[record.fill],
        )  # fmt: skip


# --- fields that a kernel replaces ---

ELEMENTS = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float32_ftz", "float64",
    "bfloat16", "tfloat32", "tfloat32_ftz",
)  # fmt: skip
"""Element types by PTX's numbers for them, which are not the driver's."""
_FIELDS = {
    "global_address": "address", "rank": "rank", "box_dim": "box", "global_dim": "shape", "global_stride": "strides",
    "element_stride": "element_strides", "elemtype": "dtype", "interleave_layout": "interleave",
    "swizzle_mode": "swizzle", "fill_mode": "fill",
}  # fmt: skip
CHOICES: dict[str, int] = {
    "elemtype": len(ELEMENTS), "interleave_layout": len(INTERLEAVES), "swizzle_mode": len(SWIZZLES),
    "fill_mode": len(FILLS),
}  # fmt: skip
"""How many values there are of the fields that have names."""
DIMENSIONS: dict[str, int] = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}
"""How many places the fields have that say something of each dimension."""
_MOST = {"rank": 0xFF, "box": 0xFFFF, "element_strides": 0xFF}
"""What is larger breaks the rules as this does."""


def replaced(data: bytes, field: str, number: int, value: int) -> bytes | None:
    """A tensor map, or 128 zeros, with another value of a field of PTX's name; None for other bytes.

    number: which dimension, of fields that have several. Rules are not looked at: other fields may be yet to come.
    """
    record = _record(data) if any(data) else _Record(0, 1, 0, 0, 0, 0, 1, 0, 0, *((0,) * n for n in (5, 4, 5, 5, 3, 3)))
    if record is None:
        return None
    name, old = _FIELDS[field], getattr(record, _FIELDS[field])
    if field == "elemtype":
        value = list(TYPES_OF).index(ELEMENTS[value])
    value = min(value + (field == "rank"), _MOST.get(name, value + 1))
    new = (*old[:number], value, *old[number + 1 :]) if isinstance(old, tuple) else value
    return _bytes(record._replace(**{name: new}, replaced=1))
