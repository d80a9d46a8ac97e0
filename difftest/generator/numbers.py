"""The number types of kernel source, how they meet, and literals of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.lang import (
    BF16,
    F8E4M3B15,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    ScalarType,
    bit_width,
)

from ..choices import Choices
from ..storage import dtype_of

BOOL, INT, UINT, FLOAT = "bool", "int", "uint", "float"
INTEGERS = (INT, UINT)


@dataclass(frozen=True, slots=True)
class Number:
    """A type as `tl` spells it, its kind, and the IR's type of its elements, which has no sign."""

    name: str
    kind: str
    element: ScalarType

    @property
    def bits(self) -> int:
        return bit_width(self.element)

    @property
    def is_float(self) -> bool:
        return self.kind == FLOAT

    @property
    def is_wide(self) -> bool:
        """Whether functions such as `exp` take it."""
        return self.is_float and self.bits >= 32

    @property
    def array(self) -> np.dtype[Any]:
        """The dtype of NumPy arrays of it."""
        signed = dtype_of(self.element)
        return np.dtype(f"u{signed.itemsize}") if self.kind == UINT else signed

    def __str__(self) -> str:
        return f"tl.{self.name}"


def _rows(kind: str, **elements: ScalarType) -> tuple[Number, ...]:
    return tuple(Number(name, kind, element) for name, element in elements.items())


(INT1,) = _rows(BOOL, int1=I1)
SIGNED = INT8, INT16, INT32, INT64 = _rows(INT, int8=I8, int16=I16, int32=I32, int64=I64)
UNSIGNED = UINT8, UINT16, UINT32, UINT64 = _rows(UINT, uint8=I8, uint16=I16, uint32=I32, uint64=I64)
FLOATS = FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = _rows(FLOAT, float16=F16, bfloat16=BF16, float32=F32, float64=F64)
EIGHTS = FP8E5, FP8E4NV, FP8E5B16, FP8E4B8, FP8E4B15 = _rows(
    FLOAT, float8e5=F8E5M2, float8e4nv=F8E4M3FN, float8e5b16=F8E5M2FNUZ, float8e4b8=F8E4M3FNUZ, float8e4b15=F8E4M3B15
)
NUMBERS: tuple[Number, ...] = (*FLOATS, *SIGNED, *UNSIGNED, INT1, *EIGHTS)
#: The types of arrays, the simplest first, with their weights; NumPy has none for float8e4b15.
IN_MEMORY: tuple[tuple[Number, int], ...] = (
    (FLOAT32, 12), (INT32, 8), (FLOAT16, 5), (BFLOAT16, 4), (INT64, 3), (FLOAT64, 3), (INT8, 3), (UINT8, 3),
    (INT16, 2), (UINT16, 2), (UINT32, 3), (UINT64, 2), (INT1, 2), (FP8E5, 1), (FP8E4NV, 2), (FP8E5B16, 1), (FP8E4B8, 1),
)  # fmt: skip


def meet(a: Number, b: Number) -> Number | None:
    """The type in which values of two types meet (docs/language.md, Types); None where they may not."""
    if a == b:
        return a
    floats = [each for each in (a, b) if each.is_float]
    if not floats:
        wider = max(a.bits, b.bits)
        return min((each for each in (a, b) if each.bits == wider), key=lambda each: each.kind == INT)
    for type_ in (FLOAT64, FLOAT32, FLOAT16):
        if type_ in floats:
            return type_
    if BFLOAT16 in floats:
        return FLOAT32
    return FLOAT16 if len(floats) == 2 else None


#: Numbers for float literals, the simplest first; each is a float32, or nearly one.
_FLOAT_LITERALS = ("0.0", "1.0", "2.0", "0.5", "-1.0", "3.0", "0.1", "-0.75", "1.5", "-2.5", "0.001", "100.0", "-0.0")


def literal(choices: Choices, type_: Number) -> str:
    """A literal that an operand of this type takes: half of them those that change nothing, or everything."""
    if type_.is_float:
        return choices.sample(_FLOAT_LITERALS)
    top = (1 << type_.bits - (type_.kind == INT)) - 1
    if choices.boolean(50):
        return choices.sample(("0", "1", "-1" if type_.kind == INT else str(top)))
    small = [value for value in (0, 1, 2, 3, 5, 7, 10, 31, 64, 100) if value <= top]
    if type_.kind == INT:
        small += [-1, -2, -7, -top - 1]
    return str(choices.sample([*small, top, type_.bits - 1]))
