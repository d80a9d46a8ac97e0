"""Numbers as the bytes of a kernel's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import ArgumentError


def _integer(size: int) -> Callable[[Any], bytes]:
    mask = (1 << 8 * size) - 1
    return lambda value: (int(value) & mask).to_bytes(size, "little")


def _float(kind: Any) -> Callable[[Any], bytes]:
    def pack(value: Any) -> bytes:
        with np.errstate(over="ignore", under="ignore"):
            return kind(value).tobytes()

    return pack


def _bfloat16(value: Any) -> bytes:
    """Rounded once to nearest even: to odd in float32 first, which makes the second rounding harmless.

    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008:
    24 bits are enough for a result of 8.)
    """
    exact = float(value)
    if exact != exact:
        return b"\xff\x7f"
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(exact)
        if float(near) != exact:
            below = near if abs(float(near)) < abs(exact) else np.nextafter(near, np.float32(0))
            near = np.uint32(below.view(np.uint32) | np.uint32(1)).view(np.float32)
    bits = int(near.view(np.uint32))
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).to_bytes(2, "little")


#: How a number becomes bytes, by the parameter's type in IR text. An i1 takes a whole byte.
PACKERS: dict[str, Callable[[Any], bytes]] = {
    "i1": lambda value: bytes([bool(value)]),
    "i8": _integer(1),
    "i16": _integer(2),
    "i32": _integer(4),
    "i64": _integer(8),
    "f16": _float(np.float16),
    "bf16": _bfloat16,
    "f32": _float(np.float32),
    "f64": _float(np.float64),
}
ADDRESS = _integer(8)


def packer(type_: str) -> Callable[[Any], bytes]:
    """What packs the numbers (for a pointer: addresses) of one parameter. Raises ArgumentError."""
    if type_.startswith("ptr<"):
        return ADDRESS
    if type_ not in PACKERS:
        raise ArgumentError(f"a number of type {type_} can't be passed to compiled code", "pass it as a float32")
    return PACKERS[type_]
