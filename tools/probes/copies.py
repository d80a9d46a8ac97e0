"""A copy by tensor map, or of a row of bytes, as data: the array, the boxes, where they lie.

The innermost dimension comes first, as tensor maps have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.hopper.map_rules import INTERLEAVES, TYPES_OF

Array = NDArray[Any]
At = tuple[int, ...]

ITEMSIZE: dict[str, int] = {
    name: 4 if type_ == "tf32" else int(type_.lstrip("busf")) // 8 for name, type_ in TYPES_OF.items()
}
_SPECIAL = tuple(
    sign | bits for sign in (0, 1 << 31) for bits in (
        0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x49ACC, 0x7F_F000, 0x7F_FFFF, 0x80_0000, 0x80_1000, 0x80_3000,
        0x3F80_0FFF, 0x3F80_1000, 0x3F80_3000, 0x3F80_1001, 0x7F7F_F000, 0x7F7F_FFFF, 0x7F80_0000, 0x7F80_0001,
        0x7FC0_0000, 0x7FC0_1234, 0x7FFF_FFFF,
    )
)  # fmt: skip
"""f32 as bits: zeros, subnormals, what lies between two tf32, the largest, infinities and NaN."""
_REFUSED = (
    "between 16 bytes", "before the array", "behind the array", "no such reduction", "of another mode",
    "outside the corners",
)  # fmt: skip
_FLOATS = {2: np.dtype(np.float16), 4: np.dtype(np.float32), 8: np.dtype(np.float64)}


@dataclass(frozen=True, slots=True)
class Copy:
    """Some copies of one kind, each of one box.

    kind: what it is listed under. action: `load`, `store` or a reduction; behind `tile` or `im2col` one in that mode,
    whatever the map; behind `bulk` a plain row of bytes, where `near` is one within shared memory. ats: the coordinates
    of each box; of a row its offset in bytes. gap: bytes that lie between the rows of the array; pitches: its strides
    if they are others, then its bytes. start: where in shared memory the box begins. plain: whether elements are
    ordinary numbers; special: f32 of `_SPECIAL`; numbered: each 32 bits are their own number, with the seed above it;
    else any bits. corners: of columns of pixels, the lower and then the upper ones; `box` is then channels and pixels,
    and the offsets of a load stand in `ats` behind its coordinates. A bulk copy has `shape` bytes in the array and
    `box` bytes to copy.
    """

    kind: str
    action: str
    dtype: str
    shape: At
    box: At
    ats: tuple[At, ...]
    gap: int = 0
    steps: At = ()
    swizzle: str = "none"
    fill: str = "zero"
    promotion: str = "none"
    start: int = 1024
    plain: bool = False
    special: bool = False
    numbered: bool = False
    interleave: str = "none"
    corners: At = ()
    pitches: At = ()

    @property
    def label(self) -> str:
        """All of it, as data and reports call it."""
        more = [f"gap {self.gap}"] * bool(self.gap) + [f"steps {self.steps}"] * bool(self.steps)
        more += [f"swizzle {self.swizzle}"] * (self.swizzle != "none") + [f"fill {self.fill}"] * (self.fill != "zero")
        more += [f"at {self.start}"] * (self.start != 1024) + ["plain"] * self.plain
        more += ["special"] * self.special + [f"from {self.ats[0]}"] * (self.refused or self.numbered)
        more += [f"L2 {self.promotion}"] * (self.promotion != "none") + ["numbered"] * self.numbered
        more += [f"interleave {self.interleave}"] * (self.interleave != "none")
        more += [f"strides {self.pitches}"] * bool(self.pitches) + [f"corners {self.corners}"] * bool(self.corners)
        return ", ".join([f"{self.action} {self.dtype} {self.box} of {self.shape}", *more, f"x{len(self.ats)}"])

    @property
    def refused(self) -> bool:
        """Whether hardware has no such copy."""
        return self.kind.endswith(_REFUSED)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return ITEMSIZE[self.dtype]

    @property
    def strides(self) -> At:
        """Bytes from one row to the next, and so on outwards; multiples of 16."""
        if self.pitches:
            return self.pitches
        found = [-(-self.shape[0] * self.itemsize // 16) * 16 + self.gap]
        for extent in self.shape[1:]:
            found.append(found[-1] * extent + self.gap)
        return tuple(found)

    @property
    def nbytes(self) -> int:
        """Of the array."""
        return self.strides[-1]

    @property
    def copied(self) -> int:
        """Bytes of a box or column. Those of interleaved arrays have pixels of so many bytes, of one slice."""
        slices = INTERLEAVES[self.interleave]
        if self.corners:
            return self.box[1] * (slices or self.itemsize * self.box[0])
        counts = [-(-b // s) for b, s in zip(self.box, self.steps or (1,) * len(self.box), strict=True)]
        if slices:
            return slices * int(np.prod([*counts[:-2], counts[-1]]))
        return self.itemsize * int(np.prod([self.box[0], *counts[1:]]))

    def octets(self, count: int, seed: int) -> Array:
        """Bytes of elements, drawn, or by their places."""
        if self.numbered:
            return (np.arange(-(-count // 4), dtype=np.uint32) | np.uint32(seed << 28)).view(np.uint8)[:count]
        if self.special:
            return np.resize(np.array(_SPECIAL, np.uint32), -(-count // 4)).view(np.uint8)[:count]
        rng = np.random.default_rng([seed, count, list(ITEMSIZE).index(self.dtype)])
        if not self.plain or "int" in self.dtype:
            return rng.integers(0, 256, count, dtype=np.uint8)
        values = rng.integers(-4096, 4097, -(-count // self.itemsize)) / 64.0
        if self.dtype == "bfloat16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)[:count]
        return values.astype(_FLOATS[self.itemsize]).view(np.uint8)[:count]
