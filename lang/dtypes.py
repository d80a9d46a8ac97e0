"""The element types that a kernel author sees, with their facts, and the compile-time value `constexpr`.

Integers carry their sign here (tile IR's do not); `int1` counts as unsigned. `str` of a type is its short name
("fp16"), `repr` the name it is imported by.

>>> float16
tilewright.language.float16
>>> str(pointer_type(float16)), parse_type("*kfp32").is_const()
('pointer<fp16>', True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from . import types as ir
from .dtype_facts import FACTS, Facts, Kind
from .errors.operations import BadPointee, NotPositive, NotPowerOfTwo, TileTooLarge, UnknownTypeName
from .knobs import knobs


@dataclass(frozen=True, slots=True, repr=False)
class dtype:
    """An element type, by its short name: `int8`, `uint32`, `fp16`, `bf16`, `fp8e4nv`, ... or `void`.

    Raises UnknownTypeName for a name that is none of these.
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in FACTS:
            raise UnknownTypeName(name=self.name)

    @property
    def facts(self) -> Facts:
        return FACTS[self.name]

    @property
    def scalar(self) -> dtype:
        """The type of one element: this type itself."""
        return self

    @property
    def primitive_bitwidth(self) -> int:
        """Bits of one value; 0 for void."""
        ir_type = self.facts.ir_type
        return 0 if ir_type is None else ir_type.width

    @property
    def itemsize(self) -> int:
        """Bytes that one value takes in memory."""
        return (self.primitive_bitwidth + 7) // 8

    @property
    def int_bitwidth(self) -> int:
        """Bits of an integer type. Raises AttributeError for other types."""
        self._need(self.is_int(), "int_bitwidth")
        return self.primitive_bitwidth

    @property
    def int_signedness(self) -> dtype.SIGNEDNESS:
        """Whether an integer type has a sign. Raises AttributeError for other types."""
        self._need(self.is_int(), "int_signedness")
        return SIGNEDNESS.SIGNED if self.is_int_signed() else SIGNEDNESS.UNSIGNED

    @property
    def fp_mantissa_width(self) -> int:
        """Stored bits of the significand of a float type. Raises AttributeError for other types."""
        self._need(self.is_floating(), "fp_mantissa_width")
        ir_type = self.facts.ir_type
        return ir_type.mantissa if isinstance(ir_type, ir.FloatType) else 0

    @property
    def exponent_bias(self) -> int:
        """What is added to the exponent of a float type before it is stored. Raises AttributeError for other types."""
        self._need(self.is_floating(), "exponent_bias")
        return self.facts.exponent_bias

    def _need(self, holds: bool, fact: str) -> None:
        if not holds:
            raise AttributeError(f"{self} has no {fact}")

    def is_fp8(self) -> bool:
        return self.name.startswith("fp8")

    def is_fp8e5(self) -> bool:
        return self.name == "fp8e5"

    def is_fp8e5b16(self) -> bool:
        return self.name == "fp8e5b16"

    def is_fp8e4nv(self) -> bool:
        return self.name == "fp8e4nv"

    def is_fp8e4b8(self) -> bool:
        return self.name == "fp8e4b8"

    def is_fp8e4b15(self) -> bool:
        return self.name == "fp8e4b15"

    def is_fp16(self) -> bool:
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        return self.name == "fp64"

    def is_int1(self) -> bool:
        return self.name == "int1"

    def is_int8(self) -> bool:
        return self.name == "int8"

    def is_int16(self) -> bool:
        return self.name == "int16"

    def is_int32(self) -> bool:
        return self.name == "int32"

    def is_int64(self) -> bool:
        return self.name == "int64"

    def is_uint8(self) -> bool:
        return self.name == "uint8"

    def is_uint16(self) -> bool:
        return self.name == "uint16"

    def is_uint32(self) -> bool:
        return self.name == "uint32"

    def is_uint64(self) -> bool:
        return self.name == "uint64"

    def is_void(self) -> bool:
        return self.name == "void"

    def is_bool(self) -> bool:
        return self.is_int1()

    def is_floating(self) -> bool:
        return "fp" in self.name or self.is_bf16()

    def is_standard_floating(self) -> bool:
        """Whether this is one of float16, bfloat16, float32 and float64."""
        return self.name in ("fp16", "bf16", "fp32", "fp64")

    def is_int(self) -> bool:
        return self.facts.signed is not None

    def is_int_signed(self) -> bool:
        return self.facts.signed is True

    def is_int_unsigned(self) -> bool:
        """Whether this is an integer without sign; int1 is one."""
        return self.facts.signed is False

    def is_ptr(self) -> bool:
        return False

    def is_block(self) -> bool:
        return False

    def is_const(self) -> bool:
        """Whether this is a pointer that may only be read through."""
        return False

    def kind(self) -> Kind:
        """The rank for promotion. Raises AttributeError for types that are not numbers."""
        self._need(self.is_int() or self.is_floating(), "kind")
        if self.is_floating():
            return Kind.FLOATING
        return Kind.BOOLEAN if self.is_bool() else Kind.INTEGRAL

    def get_int_max_value(self) -> int:
        """The largest value of an integer type. Raises AttributeError for other types."""
        return (1 << self.int_bitwidth - self.is_int_signed()) - 1

    def get_int_min_value(self) -> int:
        """The smallest value of an integer type. Raises AttributeError for other types."""
        self._need(self.is_int(), "get_int_min_value")
        return -(1 << self.primitive_bitwidth - 1) if self.is_int_signed() else 0

    @staticmethod
    def is_dtype(type_str: str) -> bool:
        """Whether this is the short name of an element type."""
        return type_str in FACTS

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"tilewright.language.{self.facts.public}"

    class SIGNEDNESS(Enum):
        SIGNED = 0
        UNSIGNED = 1

    KIND = Kind


SIGNEDNESS = dtype.SIGNEDNESS


@dataclass(frozen=True, slots=True, repr=False, init=False)
class pointer_type(dtype):
    """An address of elements of type `element_ty`. `const` ones may be loaded through only.

    Raises BadPointee for element types that memory does not hold (void, other pointers).
    """

    element_ty: dtype
    address_space: str
    const: bool

    def __init__(self, element_ty: dtype, address_space: str = "global", const: bool = False) -> None:
        if type(element_ty) is not dtype or element_ty.is_void():
            raise BadPointee(found=element_ty)
        prefix = "const_" if const else ""
        for field, value in (
            ("name", f"{prefix}pointer<{element_ty}>"),
            ("element_ty", element_ty),
            ("address_space", address_space),
            ("const", const),
        ):
            object.__setattr__(self, field, value)

    @property
    def facts(self) -> Facts:
        return Facts(self.name, ir.I64)

    def is_floating(self) -> bool:
        return False

    def is_int(self) -> bool:
        return False

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return self.const

    def __repr__(self) -> str:
        return f"pointer_type({self.element_ty!r}{', const=True' if self.const else ''})"


@dataclass(frozen=True, slots=True, repr=False, init=False)
class block_type(dtype):
    """The type of a tile: `shape` of `element_ty`. Every extent is a power of two.

    Raises NotPowerOfTwo, and TileTooLarge above the limit that the knob `max_tile_numel` sets.
    """

    element_ty: dtype
    shape: tuple[int, ...]

    def __init__(self, element_ty: dtype, shape: Sequence[int]) -> None:
        extents = check_shape(shape)
        for field, value in (
            ("name", f"<{list(extents)}, {element_ty}>"),
            ("element_ty", element_ty),
            ("shape", extents),
        ):
            object.__setattr__(self, field, value)

    @property
    def facts(self) -> Facts:
        return self.element_ty.facts

    @property
    def scalar(self) -> dtype:
        return self.element_ty

    @property
    def numel(self) -> int:
        """How many elements the tile has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes the elements take in memory."""
        return self.numel * self.element_ty.itemsize

    def is_floating(self) -> bool:
        return False

    def is_int(self) -> bool:
        return False

    def is_block(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"block_type({self.element_ty!r}, {list(self.shape)})"


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as a tuple. Raises NotPositive, NotPowerOfTwo and TileTooLarge."""
    extents = tuple(shape)
    for axis, extent in enumerate(extents):
        if extent < 1:
            raise NotPositive(extent=extent, axis=axis, shape=extents)
        if extent & (extent - 1):
            raise NotPowerOfTwo(extent=extent, axis=axis, shape=extents, above=1 << extent.bit_length())
    if prod(extents) > knobs.max_tile_numel:
        raise TileTooLarge(shape=extents, numel=prod(extents), limit=knobs.max_tile_numel)
    return extents


void = dtype("void")
int1 = dtype("int1")
int8 = dtype("int8")
int16 = dtype("int16")
int32 = dtype("int32")
int64 = dtype("int64")
uint8 = dtype("uint8")
uint16 = dtype("uint16")
uint32 = dtype("uint32")
uint64 = dtype("uint64")
float8e5 = dtype("fp8e5")
float8e5b16 = dtype("fp8e5b16")
float8e4nv = dtype("fp8e4nv")
float8e4b8 = dtype("fp8e4b8")
float8e4b15 = dtype("fp8e4b15")
float16 = dtype("fp16")
bfloat16 = dtype("bf16")
float32 = dtype("fp32")
float64 = dtype("fp64")
pi32_t = pointer_type(int32)

SIGNED_INTS: tuple[dtype, ...] = (int8, int16, int32, int64)
UNSIGNED_INTS: tuple[dtype, ...] = (int1, uint8, uint16, uint32, uint64)
FP8: tuple[dtype, ...] = (float8e5, float8e5b16, float8e4nv, float8e4b8, float8e4b15)
FLOATS: tuple[dtype, ...] = (*FP8, float16, bfloat16, float32, float64)
#: Every number type.
NUMBERS: tuple[dtype, ...] = (*UNSIGNED_INTS, *SIGNED_INTS, *FLOATS)
_SHORT: dict[dtype, str] = (
    {t: f"i{t.int_bitwidth}" for t in (int1, *SIGNED_INTS)}
    | {t: f"u{t.int_bitwidth}" for t in UNSIGNED_INTS[1:]}
    | {t: t.name for t in FLOATS}
)
_BY_TEXT: dict[str, dtype] = {text: t for t, text in _SHORT.items()} | {"u1": int1, "B": int1}


def parse_type(text: str) -> dtype:
    """The type that a signature string names: `i32`, `u8`, `B`, `fp16`, `*fp32`, `*kfp32` (a const pointer).

    Raises UnknownTypeName.
    """
    const = text.startswith("*k")
    element = _BY_TEXT.get(text[2 if const else 1 :] if text.startswith("*") else text)
    if element is None:
        raise UnknownTypeName(name=text)
    return pointer_type(element, const=const) if text.startswith("*") else element


def type_text(type_: dtype) -> str:
    """The signature string of a number or pointer type; `parse_type` reads it back."""
    if isinstance(type_, pointer_type):
        return f"*{'k' if type_.const else ''}{_SHORT[type_.element_ty]}"
    return _SHORT[type_]


def ir_scalar(type_: dtype) -> ir.ScalarType:
    """The tile IR type of a scalar of this number or pointer type. Raises ValueError for void and tiles."""
    if isinstance(type_, pointer_type):
        pointee = type_.element_ty.facts.ir_type
        assert pointee is not None
        return ir.PointerType(pointee)
    scalar = type_.facts.ir_type
    if scalar is None or isinstance(type_, block_type):
        raise ValueError(f"{type_} is no scalar type")
    return scalar


def show(type_: dtype) -> str:
    """The type as messages call it: the public name, `pointer<float32>` for a pointer."""
    if isinstance(type_, pointer_type):
        return f"{'const ' if type_.const else ''}pointer<{show(type_.element_ty)}>"
    if isinstance(type_, block_type):
        return f"{show(type_.element_ty)} tile of shape {type_.shape}"
    return type_.facts.public


class PropagateNan(Enum):
    """What minimum, maximum and clamp do with a NaN: return the number (NONE) or the NaN (ALL)."""

    NONE = 0
    ALL = 0xFFFF
