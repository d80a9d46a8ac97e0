"""Tensor maps: the 128 bytes that tell a tensor copy about an array, and how the emulator writes them.

On a GPU the driver fills them in a way that only the hardware reads. Here they are a record of our own, made by
`encode_tensor_map` under the driver's rules (`cuTensorMapEncodeTiled`), with a sum that tells it from other bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from .map_rules import FILLS, INTERLEAVES, PROMOTIONS, SWIZZLES, TYPES_OF, check_tensor_map, itemsize, refuse

SIZE = 128
"""Bytes of a tensor map."""
ALIGNMENT = 64
"""What a tensor map's address must be a multiple of."""

_MAGIC = b"tile map"
_LAYOUT = struct.Struct("<8s8BQ5Q4Q5H5H")


class _Record(NamedTuple):
    """What the bytes say behind the magic: names by number, and room for 5 dimensions, zeros beyond the rank.

    replaced: nobody has looked whether the fields go together since one of them was replaced.
    """

    dtype: int
    rank: int
    swizzle: int
    fill: int
    promotion: int
    interleave: int
    replaced: int
    unused: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]


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

    def padded(values: Sequence[int], length: int) -> tuple[int, ...]:
        return (*values, *[0] * (length - len(values)))

    return _bytes(_Record(
        list(TYPES_OF).index(dtype), len(fields.shape), list(SWIZZLES).index(swizzle), FILLS.index(fill),
        PROMOTIONS.index(l2_promotion), 0, False, 0, fields.address, padded(fields.shape, 5),
        padded(fields.strides, 4), padded(fields.box, 5), padded(fields.element_strides, 5),
    ))  # fmt: skip


def _bytes(record: _Record) -> bytes:
    *numbers, shape, strides, box, steps = record
    body = _LAYOUT.pack(_MAGIC, *numbers, *shape, *strides, *box, *steps).ljust(SIZE - 4, b"\0")
    return body + struct.pack("<I", zlib.crc32(body))


def _record(data: bytes) -> _Record | None:
    body, (total,) = data[: SIZE - 4], struct.unpack("<I", data[SIZE - 4 :])
    if not body.startswith(_MAGIC) or zlib.crc32(body) != total:
        return None
    _, *numbers = _LAYOUT.unpack(body[: _LAYOUT.size])
    ends = (9, 14, 18, 23, 28)
    return _Record._make([*numbers[:9], *(tuple(numbers[first:end]) for first, end in pairwise(ends))])


def decode_tensor_map(data: bytes) -> TensorMap | None:
    """What `encode_tensor_map` has written; None for other bytes.

    Raises LaunchError where fields have been replaced, and now break the driver's rules.
    """
    record = _record(data)
    if record is None:
        return None
    if record.replaced:
        _check(record)
    rank, name = record.rank, list(TYPES_OF)[record.dtype]
    return TensorMap(
        name, record.address, record.shape[:rank], (itemsize(name), *record.strides[: rank - 1]), record.box[:rank],
        record.element_strides[:rank], list(SWIZZLES)[record.swizzle], FILLS[record.fill],
    )  # fmt: skip


def _check(record: _Record) -> None:
    rank = record.rank
    encode_tensor_map(
        list(TYPES_OF)[record.dtype], record.address, (*record.shape, *[1] * rank)[:rank],
        record.strides[: max(rank - 1, 0)], record.box[:rank], record.element_strides[:rank],
        interleave=INTERLEAVES[record.interleave], swizzle=list(SWIZZLES)[record.swizzle], fill=FILLS[record.fill],
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
_MOST = {"rank": 0xFF, "box": 0xFFFF, "element_strides": 0xFFFF}
"""What is larger breaks the rules as this does."""


def replaced(data: bytes, field: str, number: int, value: int) -> bytes | None:
    """A tensor map, or 128 zeros, with another value of a field of PTX's name; None for other bytes.

    number: which dimension, of fields that have several. Rules are not looked at: other fields may be yet to come.
    """
    record = _record(data) if any(data) else _Record(0, 1, 0, 0, 0, 0, 1, 0, 0, *((0,) * n for n in (5, 4, 5, 5)))
    if record is None:
        return None
    name, old = _FIELDS[field], getattr(record, _FIELDS[field])
    if field == "elemtype":
        value = list(TYPES_OF).index(ELEMENTS[value])
    value = min(value + (field == "rank"), _MOST.get(name, value + 1))
    new = (*old[:number], value, *old[number + 1 :]) if isinstance(old, tuple) else value
    return _bytes(record._replace(**{name: new}, replaced=1))
