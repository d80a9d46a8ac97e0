"""How a tile moves from one layout to another: by renaming registers, or through shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tilewright.lang import LinearLayout

from .placement import slots


@dataclass(frozen=True, slots=True)
class Conversion:
    """`registers[r]` is the source register of register r of the result, where no thread needs another's; else None,
    and the tile goes through `bytes` of shared memory."""

    registers: tuple[int, ...] | None
    bytes: int


@cache
def conversion(src: LinearLayout, dst: LinearLayout, size: int) -> Conversion:
    """The plan for elements of `size` bytes."""
    have, want = slots(src), slots(dst)
    if all(mine == other or mine is None for mine, other in zip(want.bits, have.bits, strict=True)):
        known = {place: register for register, place in enumerate(have.registers)}
        if all(place in known for place in want.registers):
            return Conversion(tuple(known[place] for place in want.registers), 0)
    total = 1
    for extent in src.shape:
        total *= extent
    return Conversion(None, total * size)
