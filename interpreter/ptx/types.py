"""The types of PTX: how the bits of a register are read as numbers, and numbers written as bits.

Registers hold bits: arrays of np.uint8 to np.uint64, of pairs of np.uint64 for 128 bits, of np.bool_ for predicates.
An instruction's type says how they are read. A packed type (`f16x2`, `e4m3x2`, `u16x2`, ...) reads a register as a row
of elements, the lowest bits first: an array of shape (threads, elements).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CARRIERS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
    128: np.dtype([("low", np.uint64), ("high", np.uint64)]),
}
"""How registers of a width are stored."""


@dataclass(frozen=True, slots=True)
class PtxType:
    """A type: its kind (b bits, u unsigned, s signed, f float, p predicate), the width of all elements together, the
    NumPy type of an element, how many elements there are, and for floats the name of the format."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype[Any]
    lanes: int = 1
    format: str = ""

    @property
    def carrier(self) -> np.dtype[Any]:
        """How the bits are stored in a register of exactly this width."""
        return CARRIERS[self.bits]

    @property
    def signed(self) -> bool:
        """Whether it is a signed integer."""
        return self.kind == "s"

    def read(self, bits: Array) -> Array:
        """Registers of this width as numbers; a row of elements each for a packed type."""
        if self.lanes == 1:
            return bits.view(self.dtype)
        return np.ascontiguousarray(bits).view(self.dtype).reshape(len(bits), self.lanes)

    def write(self, values: Array) -> Array:
        """Numbers as registers of this width."""
        if self.lanes == 1:
            return np.asarray(values).view(self.carrier)
        return np.ascontiguousarray(values).view(self.carrier).reshape(len(values))


def _float(name: str, bits: int, dtype: Any, format_: str, lanes: int = 1) -> PtxType:
    return PtxType(name, "f", bits, np.dtype(dtype), lanes, format_)


def _integer(kind: str, bits: int) -> PtxType:
    return PtxType(f"{kind}{bits}", kind, bits, np.dtype(f"{'i' if kind == 's' else 'u'}{bits // 8}"))


_E4M3, _E5M2, _BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16

_ROWS = (
    *(_integer(kind, bits) for kind in "bus" for bits in (8, 16, 32, 64)),
    PtxType("b128", "b", 128, CARRIERS[128]),
    PtxType("pred", "p", 1, np.dtype(np.bool_)),
    PtxType("u16x2", "u", 32, np.dtype(np.uint16), 2),
    PtxType("s16x2", "s", 32, np.dtype(np.int16), 2),
    _float("f16", 16, np.float16, "f16"),
    _float("bf16", 16, _BF16, "bf16"),
    _float("f32", 32, np.float32, "f32"),
    _float("f64", 64, np.float64, "f64"),
    _float("tf32", 32, np.float32, "f32"),
    _float("f16x2", 32, np.float16, "f16", 2),
    _float("bf16x2", 32, _BF16, "bf16", 2),
    _float("f32x2", 64, np.float32, "f32", 2),
    _float("e4m3", 8, _E4M3, "f8e4m3fn"),
    _float("e5m2", 8, _E5M2, "f8e5m2"),
    _float("e4m3x2", 16, _E4M3, "f8e4m3fn", 2),
    _float("e5m2x2", 16, _E5M2, "f8e5m2", 2),
)

TYPES: dict[str, PtxType] = {row.name: row for row in _ROWS}
"""Every type that an instruction or a declaration may name."""

UNSIGNED: dict[int, PtxType] = {bits: TYPES["pred" if bits == 1 else f"b{bits}"] for bits in CARRIERS}
"""The type of plain bits of a width."""


def resized(bits: Array, width: int, signed: bool = False) -> Array:
    """Integer registers as ones of another width: cut off, or extended by zeros or by the sign."""
    carrier = CARRIERS[width]
    if bits.dtype == carrier:
        return bits
    if width == 128:
        wide = np.zeros(len(bits), carrier)
        wide["low"] = resized(bits, 64, signed)  # what an H200 makes of fewer bits has no more than 64, signed or not
        return wide
    if bits.dtype == CARRIERS[128]:
        return resized(np.ascontiguousarray(bits["low"]), width)
    if signed and bits.dtype.itemsize < carrier.itemsize:
        return bits.view(f"i{bits.dtype.itemsize}").astype(f"i{carrier.itemsize}").view(carrier)
    return bits.astype(carrier)
