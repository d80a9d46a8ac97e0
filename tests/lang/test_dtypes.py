"""Element types: their facts, their names, and the compile-time value."""

import copy
import operator
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.lang import F32, I32, PointerType
from tilewright.lang import language as tl
from tilewright.lang.constants import constexpr
from tilewright.lang.dtypes import (
    FLOATS,
    NUMBERS,
    block_type,
    check_shape,
    dtype,
    ir_scalar,
    parse_type,
    pointer_type,
    show,
    type_text,
)
from tilewright.lang.errors.operations import BadPointee, NotPositive, NotPowerOfTwo, TileTooLarge, UnknownTypeName
from tilewright.lang.knobs import knobs

PUBLIC = {
    "void": "void", "int1": "int1", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "float8e5": "fp8e5", "float8e5b16": "fp8e5b16", "float8e4nv": "fp8e4nv", "float8e4b8": "fp8e4b8",
    "float8e4b15": "fp8e4b15", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
}  # fmt: skip


@pytest.mark.parametrize(("public", "name"), PUBLIC.items())
def test_names(public: str, name: str) -> None:
    type_ = getattr(tl, public)
    assert type_ == dtype(name) and type_.name == str(type_) == name
    assert repr(type_) == f"tilewright.language.{public}"
    assert show(type_) == public
    assert dtype.is_dtype(name)


def test_unknown_names() -> None:
    assert not dtype.is_dtype("float16")
    for text in ("float16", "fp4", ""):
        with pytest.raises(UnknownTypeName):
            dtype(text)
    for text in ("*", "*k", "**fp32", "int32", "void", "*void", ""):
        with pytest.raises(UnknownTypeName):
            parse_type(text)


FORMATS = {  # stored bits of the significand, exponent bias
    "fp8e5": (2, 15), "fp8e5b16": (2, 16), "fp8e4nv": (3, 7), "fp8e4b8": (3, 8), "fp8e4b15": (3, 15),
    "fp16": (10, 15), "bf16": (7, 127), "fp32": (23, 127), "fp64": (52, 1023),
}  # fmt: skip


@pytest.mark.parametrize(("name", "facts"), FORMATS.items())
def test_float_facts(name: str, facts: tuple[int, int]) -> None:
    type_ = dtype(name)
    assert (type_.fp_mantissa_width, type_.exponent_bias) == facts
    assert type_.is_floating() and not type_.is_int() and type_.kind() == dtype.KIND.FLOATING
    assert type_.is_fp8() == name.startswith("fp8")
    assert type_.is_standard_floating() != type_.is_fp8()
    with pytest.raises(AttributeError):
        _ = type_.int_bitwidth
    with pytest.raises(AttributeError):
        type_.get_int_max_value()


@pytest.mark.parametrize(("type_", "numpy"), [
    (tl.float16, np.float16), (tl.bfloat16, ml_dtypes.bfloat16), (tl.float32, np.float32), (tl.float64, np.float64),
    (tl.float8e5, ml_dtypes.float8_e5m2), (tl.float8e4nv, ml_dtypes.float8_e4m3fn),
    (tl.float8e5b16, ml_dtypes.float8_e5m2fnuz), (tl.float8e4b8, ml_dtypes.float8_e4m3fnuz),
])  # fmt: skip
def test_float_facts_agree_with_ml_dtypes(type_: dtype, numpy: type) -> None:
    info = ml_dtypes.finfo(numpy)
    assert (type_.primitive_bitwidth, type_.fp_mantissa_width) == (info.bits, info.nmant)
    assert 2.0 ** (1 - type_.exponent_bias) == float(info.smallest_normal)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_integer_facts(width: int) -> None:
    signed, unsigned = dtype(f"int{width}"), dtype(f"uint{width}")
    for type_, numpy in ((signed, np.dtype(f"int{width}")), (unsigned, np.dtype(f"uint{width}"))):
        info = np.iinfo(numpy)
        assert (type_.get_int_min_value(), type_.get_int_max_value()) == (info.min, info.max)
        assert type_.int_bitwidth == type_.primitive_bitwidth == 8 * type_.itemsize == width
        assert type_.is_int() and not type_.is_floating() and type_.kind() == dtype.KIND.INTEGRAL
        with pytest.raises(AttributeError):
            _ = type_.fp_mantissa_width
        with pytest.raises(AttributeError):
            _ = type_.exponent_bias
    assert signed.int_signedness == dtype.SIGNEDNESS.SIGNED and signed.is_int_signed()
    assert unsigned.int_signedness == dtype.SIGNEDNESS.UNSIGNED and unsigned.is_int_unsigned()
    assert ir_scalar(signed) == ir_scalar(unsigned)


def test_int1_is_unsigned_and_boolean() -> None:
    assert tl.int1.is_int_unsigned() and not tl.int1.is_int_signed() and tl.int1.is_bool()
    assert (tl.int1.get_int_min_value(), tl.int1.get_int_max_value(), tl.int1.itemsize) == (0, 1, 1)
    assert tl.int1.kind() == dtype.KIND.BOOLEAN < dtype.KIND.INTEGRAL < dtype.KIND.FLOATING


def test_void() -> None:
    assert tl.void.is_void() and tl.void.primitive_bitwidth == tl.void.itemsize == 0
    assert not tl.void.is_int() and not tl.void.is_floating()
    with pytest.raises(AttributeError):
        tl.void.kind()
    with pytest.raises(ValueError):
        ir_scalar(tl.void)


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_exactly_one_predicate_holds_besides_the_groups(type_: dtype) -> None:
    names = [*PUBLIC.values()]
    predicates = [name for name in names if getattr(type_, f"is_{name}")()]
    assert predicates == [type_.name]
    assert not type_.is_ptr() and not type_.is_block() and not type_.is_const()
    assert type_.scalar is type_


def test_pointers() -> None:
    plain, const = pointer_type(tl.float32), pointer_type(tl.float32, const=True)
    assert plain.is_ptr() and not plain.is_const() and const.is_const() and plain != const
    assert (plain.element_ty, plain.address_space, plain.primitive_bitwidth) == (tl.float32, "global", 64)
    assert not plain.is_int() and not plain.is_floating() and not plain.is_bool()
    assert str(plain) == "pointer<fp32>" and str(const) == "const_pointer<fp32>"
    assert show(const) == "const pointer<float32>"
    assert repr(const) == "pointer_type(tilewright.language.float32, const=True)"
    assert ir_scalar(plain) == ir_scalar(const) == PointerType(F32)
    assert tl.pi32_t == pointer_type(tl.int32)
    for pointee in (plain, tl.void, block_type(tl.int8, (2,))):
        with pytest.raises(BadPointee):
            pointer_type(pointee)


def test_tiles() -> None:
    tile = block_type(tl.int16, [4, 8])
    assert (tile.shape, tile.numel, tile.nbytes, tile.scalar) == ((4, 8), 32, 64, tl.int16)
    assert tile.is_block() and not tile.is_int() and str(tile) == "<[4, 8], int16>"
    assert show(tile) == "int16 tile of shape (4, 8)"
    assert repr(tile) == "block_type(tilewright.language.int16, [4, 8])"
    with pytest.raises(ValueError):
        ir_scalar(tile)


@given(st.integers(-4, 70_000))
def test_extents_are_powers_of_two(extent: int) -> None:
    if extent in {1 << i for i in range(17)}:
        assert check_shape((2, extent)) == (2, extent)
    elif extent < 1:
        with pytest.raises(NotPositive):
            check_shape((2, extent))
    else:
        with pytest.raises(NotPowerOfTwo) as caught:
            check_shape((2, extent))
        assert caught.value.facts["above"] in {1 << i for i in range(18)}


def test_the_knob_limits_tiles() -> None:
    assert check_shape((1024, 1024)) == (1024, 1024)
    with pytest.raises(TileTooLarge):
        check_shape((1024, 2048))
    with knobs.scope(max_tile_numel=8), pytest.raises(TileTooLarge):
        check_shape((16,))


TEXTS = {
    "i1": tl.int1, "u1": tl.int1, "B": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64,
    "u8": tl.uint8, "u16": tl.uint16, "u32": tl.uint32, "u64": tl.uint64, "fp8e5": tl.float8e5,
    "fp8e4nv": tl.float8e4nv, "fp8e4b8": tl.float8e4b8, "fp8e5b16": tl.float8e5b16, "fp8e4b15": tl.float8e4b15,
    "fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64,
}  # fmt: skip


@pytest.mark.parametrize(("text", "type_"), TEXTS.items())
def test_signature_texts(text: str, type_: dtype) -> None:
    assert parse_type(text) == type_
    assert parse_type(f"*{text}") == pointer_type(type_)
    assert parse_type(f"*k{text}") == pointer_type(type_, const=True)


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_signature_texts_read_back(type_: dtype) -> None:
    for each in (type_, pointer_type(type_), pointer_type(type_, const=True)):
        assert parse_type(type_text(each)) == each


@pytest.mark.parametrize(
    "type_", [tl.int1, tl.float8e4b15, pointer_type(tl.bfloat16), block_type(tl.int8, (2, 4))], ids=str
)
def test_types_are_values(type_: dtype) -> None:
    assert copy.deepcopy(type_) == type_ == pickle.loads(pickle.dumps(type_))
    assert hash(copy.copy(type_)) == hash(type_)
    with pytest.raises(AttributeError):
        type_.name = "int8"  # type: ignore[misc]


def test_every_number_type_has_its_own_ir_type_but_for_sign() -> None:
    assert len({ir_scalar(t) for t in FLOATS}) == len(FLOATS)
    assert ir_scalar(tl.uint32) == I32


# --- constexpr ---

ARITHMETIC = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("function", ARITHMETIC)
def test_constexpr_arithmetic(function: object) -> None:
    assert callable(function)
    expected = function(13, 3)
    for result in (function(constexpr(13), constexpr(3)), function(constexpr(13), 3), function(13, constexpr(3))):
        assert isinstance(result, constexpr) and result.value == expected and type(result.value) is type(expected)


@pytest.mark.parametrize("function", [operator.neg, operator.pos, operator.invert, abs])
def test_constexpr_unary(function: object) -> None:
    assert callable(function)
    assert function(constexpr(-5)).value == function(-5)


def test_constexpr_collapses_and_delegates() -> None:
    assert constexpr(constexpr(4)).value == 4
    assert [10, 20, 30][constexpr(1)] == 20 and list(range(constexpr(3))) == [0, 1, 2]
    assert list(constexpr((1, 2))) == [1, 2] and len(constexpr("abc")) == 3 and constexpr((5, 6))[constexpr(1)] == 6
    assert constexpr(max)(3, 4) == 4 and int(constexpr(3)) == 3 and float(constexpr(3)) == 3.0
    assert not constexpr(0) and constexpr(0).logical_not().value is True
    assert constexpr(2).logical_and(0).value == 0 and constexpr(0).logical_or(constexpr(7)).value == 7
    assert repr(constexpr(4)) == "constexpr[4]" and str(constexpr(4).type) == "constexpr_type[4]"
    assert {constexpr(4): "a"}[constexpr(4)] == "a"
