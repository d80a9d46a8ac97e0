"""Tensor maps: what Hopper's tensor copies are told about an array. Each device encodes them in its own way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An array in a device's memory and the box of it that a tensor copy moves; the innermost dimension comes first.

    dtype: a name of the driver's in small letters, such as `float16`. address: of the first element there. shape: 1 to
    5 extents. strides: in bytes, one for each dimension but the innermost. box: elements along each dimension, of which
    `element_strides` (all 1 if not given) leave some out. interleave: `none`, `16B` or `32B`. swizzle: `none`, `32B`,
    `64B` or `128B`. l2_promotion: `none`, `64B`, `128B` or `256B`. fill: what stands for elements outside, `zero` or
    `nan`.
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
