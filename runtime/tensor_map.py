"""Tensor maps: what Hopper's tensor copies are told about an array. Each device encodes them in its own way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from .errors import DeviceError


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An array in a device's memory and the box of it that a tensor copy moves; the innermost dimension comes first.

    dtype: a name of the driver's in small letters, such as `float16`. address: of the first element there. shape: 1 to
    5 extents. strides: in bytes, one for each dimension but the innermost. box: elements along each dimension, of which
    `element_strides` (all 1 if not given) leave some out. interleave: `none`, `16B` or `32B`. swizzle: `none`, `32B`,
    `64B` or `128B`. l2_promotion: `none`, `64B`, `128B` or `256B`. fill: what stands for elements outside, `zero` or
    `nan`. The dimensions of an interleaved array are pixels (1 to 3), slices of channels, images; its innermost one
    counts pixels of 16 or 32 bytes, which lie side by side, and a copy takes one slice, whatever the box says.
    """

    dtype: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    fill: str = "zero"

    @property
    def steps(self) -> tuple[int, ...]:
        """The element strides, given or not."""
        return self.element_strides or (1,) * len(self.box)


@dataclass(frozen=True, slots=True)
class Im2colMap:
    """Images in a device's memory and the columns of pixels that a tensor copy in im2col mode moves.

    shape: channels, 1 to 3 dimensions of pixels, images; `strides` as in a `TensorMap`, which explains the other fields
    too. A column has `pixels_per_column` pixels, of each `channels_per_pixel`. It goes through the pixels from
    lower_corner on to upper_corner behind the last one (0 is the last one itself), `element_strides` apart, image by
    image; a copy shifts both corners by its offsets. The corners have an entry for each dimension of pixels, the
    innermost first, as the driver takes them. Interleaved images have the dimensions that a `TensorMap` gives them, and
    a copy takes a whole pixel of one slice, whatever `channels_per_pixel` is.
    """

    dtype: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    lower_corner: tuple[int, ...]
    upper_corner: tuple[int, ...]
    channels_per_pixel: int
    pixels_per_column: int
    element_strides: tuple[int, ...] = ()
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    fill: str = "zero"

    @property
    def steps(self) -> tuple[int, ...]:
        """The element strides, given or not."""
        return self.element_strides or (1,) * len(self.shape)


SomeMap = TypeVar("SomeMap", TensorMap, Im2colMap)
"""A tensor map of one of the two kinds."""


def check_tensor_copies(target: str) -> None:
    """Raises DeviceError for a target without tensor copies, which have come with sm_90."""
    found = re.match(r"sm_(\d+)", target)
    if found is None or int(found[1]) < 90:
        raise DeviceError(f"{target} has no tensor maps", "sm_90 and later have them, such as `emulator:sm_90a`")
