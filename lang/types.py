"""The types of tile IR: scalars, pointers and tiles of them.

Integers are signless: the sign lives in the frontend's dtypes and in the names of ops. A value of a scalar type
is one number a program; a tile has a static shape of at least one dimension (rank 0 is written as the scalar).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .layout import LinearLayout


@dataclass(frozen=True, slots=True)
class IntType:
    """A signless integer of `width` bits: 1, 8, 16, 32 or 64."""

    width: int

    def __str__(self) -> str:
        return f"i{self.width}"


@dataclass(frozen=True, slots=True)
class FloatType:
    """A floating-point format, by its name in the text form.

    `exponent` and `mantissa` count the stored bits of each field; `finite` formats have no infinity.
    """

    name: str
    width: int = field(compare=False)
    exponent: int = field(compare=False)
    mantissa: int = field(compare=False)
    finite: bool = field(compare=False, default=False)

    def __str__(self) -> str:
        return self.name

    @property
    def is_fp8(self) -> bool:
        return self.width == 8


@dataclass(frozen=True, slots=True)
class PointerType:
    """An address in global memory of elements of type `pointee`. Addresses count bytes, offsets count elements."""

    pointee: IntType | FloatType

    def __str__(self) -> str:
        return f"ptr<{self.pointee}>"


ScalarType: TypeAlias = IntType | FloatType | PointerType


@dataclass(frozen=True, slots=True)
class TileType:
    """A tile: `shape` (row-major, every extent a power of two) of `element`, optionally placed by a layout."""

    shape: tuple[int, ...]
    element: ScalarType
    layout: LinearLayout | None = None

    def __str__(self) -> str:
        extents = "x".join(str(extent) for extent in self.shape)
        placed = "" if self.layout is None else f", {self.layout}"
        return f"tile<{extents}x{self.element}{placed}>"

    @property
    def numel(self) -> int:
        return reduce(mul, self.shape, 1)


Type: TypeAlias = IntType | FloatType | PointerType | TileType

I1, I8, I16, I32, I64 = (IntType(width) for width in (1, 8, 16, 32, 64))
F16 = FloatType("f16", 16, 5, 10)
BF16 = FloatType("bf16", 16, 8, 7)
F32 = FloatType("f32", 32, 8, 23)
F64 = FloatType("f64", 64, 11, 52)
F8E5M2 = FloatType("f8e5m2", 8, 5, 2)
F8E4M3FN = FloatType("f8e4m3fn", 8, 4, 3, finite=True)
F8E5M2FNUZ = FloatType("f8e5m2fnuz", 8, 5, 2, finite=True)
F8E4M3FNUZ = FloatType("f8e4m3fnuz", 8, 4, 3, finite=True)
F8E4M3B15 = FloatType("f8e4m3b15", 8, 4, 3, finite=True)

INTS: tuple[IntType, ...] = (I1, I8, I16, I32, I64)
FP8: tuple[FloatType, ...] = (F8E5M2, F8E4M3FN, F8E5M2FNUZ, F8E4M3FNUZ, F8E4M3B15)
FLOATS: tuple[FloatType, ...] = (*FP8, F16, BF16, F32, F64)
NUMBERS: tuple[IntType | FloatType, ...] = (*INTS, *FLOATS)
POINTERS: tuple[PointerType, ...] = tuple(PointerType(t) for t in NUMBERS)

#: Every scalar type by its text form, pointers left out.
SCALARS_BY_NAME: dict[str, IntType | FloatType] = {str(t): t for t in NUMBERS}


def element_of(type_: Type) -> ScalarType:
    """The scalar type of each element: of a tile its element type, of a scalar the type itself."""
    return type_.element if isinstance(type_, TileType) else type_


def shape_of(type_: Type) -> tuple[int, ...]:
    """The shape: `()` for a scalar."""
    return type_.shape if isinstance(type_, TileType) else ()


def with_element(type_: Type, element: ScalarType) -> Type:
    """The same shape and layout, of another element type."""
    return TileType(type_.shape, element, type_.layout) if isinstance(type_, TileType) else element


def with_shape(element: ScalarType, shape: Sequence[int]) -> Type:
    """A tile of `shape`, or the scalar itself for the empty shape."""
    return TileType(tuple(shape), element) if shape else element


def bit_width(element: ScalarType) -> int:
    """Bits of one element; an address has 64."""
    return 64 if isinstance(element, PointerType) else element.width


def byte_width(element: ScalarType) -> int:
    """Bytes that one element takes in memory; an i1 takes one."""
    return max(1, bit_width(element) // 8)
