"""What tensor maps of pixels may say: the driver's rules (`cuTensorMapEncodeIm2col`), told as `map_rules` tells its."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .map_rules import (
    IMAGES,
    MOST_BYTES,
    NAMED,
    address_in,
    check_array,
    check_lengths,
    check_names,
    check_row,
    integer,
    integers,
    itemsize,
    name_in,
    refuse,
    steps_in,
)

CORNER_BITS: dict[int, int] = {3: 16, 4: 8, 5: 5}
"""Bits of a corner's coordinate, which is signed, by the dimensions of the array."""
MOST_CHANNELS, MOST_PIXELS = 256, 1024


class Im2colFields(NamedTuple):
    """What a tensor map of pixels says, each number a Python integer: see `encode_im2col_map`."""

    dtype: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    lower_corner: tuple[int, ...]
    upper_corner: tuple[int, ...]
    channels_per_pixel: int
    pixels_per_column: int
    element_strides: tuple[int, ...]
    interleave: str
    swizzle: str
    l2_promotion: str
    fill: str


def check_im2col_map(given: Mapping[str, Any]) -> Im2colFields:
    """The fields of a tensor map of pixels by name, if the driver takes them. Raises LaunchError, with a hint.

    Integers and sequences are of any kind, as `check_tensor_map` takes them.
    """
    dtype, interleave, swizzle, promotion, fill = (name_in(field, given[field]) for field in NAMED)
    shape, strides, lower, upper = (
        integers(field, given[field]) for field in ("shape", "strides", "lower_corner", "upper_corner")
    )
    channels, pixels = (integer(field, given[field]) for field in ("channels_per_pixel", "pixels_per_column"))
    m = Im2colFields(
        dtype, address_in(given["address"]), shape, strides, lower, upper, channels, pixels,
        steps_in(given) or (1,) * len(shape), interleave, swizzle, promotion, fill,
    )  # fmt: skip
    if len(shape) < 3:
        refuse(f"an array of pixels has 3 to 5 dimensions, found {len(shape)}", IMAGES)
    check_lengths(m, {"lower_corner": len(shape) - 2, "upper_corner": len(shape) - 2})
    check_array(m)
    _check_corners(m)
    _check_column(m)
    check_names(m)
    return m


def _check_corners(m: Im2colFields) -> None:
    rank = len(m.shape)
    limit = 1 << CORNER_BITS[rank] - 1
    for field, corner in (("lower_corner", m.lower_corner), ("upper_corner", m.upper_corner)):
        for axis, place in enumerate(corner):
            if not -limit <= place < limit:
                what = f"{field}[{axis}] is {-limit} to {limit - 1} for an array of {rank} dimensions, found {place}"
                refuse(what, "make a map of a part of the array, or shift by coordinates")
    first = int(m.interleave == "none")
    ends = zip(m.lower_corner, m.upper_corner, m.shape[first:], strict=False)
    for axis, (lower, upper, extent) in enumerate(ends, first):
        if lower > extent - 1 + upper:
            hint = f"upper_corner counts from the last pixel: 0 for the whole of dimension {axis}"
            refuse(f"the corners leave no pixels along dimension {axis}: {lower} to {extent - 1 + upper}", hint)


def _check_column(m: Im2colFields) -> None:
    if not 1 <= m.channels_per_pixel <= MOST_CHANNELS:
        what = f"channels_per_pixel is 1 to {MOST_CHANNELS}, found {m.channels_per_pixel}"
        refuse(what, "copy several times, each at other channels")
    if not 1 <= m.pixels_per_column <= MOST_PIXELS:
        refuse(f"pixels_per_column is 1 to {MOST_PIXELS}, found {m.pixels_per_column}", "copy several columns")
    check_row(m, "a pixel has", m.channels_per_pixel)
    nbytes = m.channels_per_pixel * m.pixels_per_column * itemsize(m.dtype)
    if nbytes > MOST_BYTES:
        refuse(f"a column has {nbytes} bytes, more than the {MOST_BYTES} of shared memory", "copy several columns")
