"""Every cell of the promotion tables, by the rules alone and through the operators that build IR by them."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lang.sandbox import sandbox
from tilewright.lang import element_of, semantic
from tilewright.lang import language as tl
from tilewright.lang.dtypes import FLOATS, FP8, NUMBERS, dtype, ir_scalar, pointer_type
from tilewright.lang.errors.operations import (
    BadOperand,
    BadOperands,
    Fp8WithInteger,
    LiteralOutOfRange,
    LiteralTooLarge,
    MismatchedTypes,
    MixedSignedness,
    NegativeWithUnsigned,
)
from tilewright.lang.promotion import common_type, extremum_type, literal_type, promote, sum_type

SHORT = {
    "i1": tl.int1, "i8": tl.int8, "u8": tl.uint8, "i16": tl.int16, "u16": tl.uint16, "i32": tl.int32,
    "u32": tl.uint32, "i64": tl.int64, "u64": tl.uint64, "e5": tl.float8e5, "e4": tl.float8e4nv,
    "f16": tl.float16, "bf16": tl.bfloat16, "f32": tl.float32, "f64": tl.float64,
}  # fmt: skip
TABLE = """
      i1  i8  u8  i16 u16 i32 u32 i64 u64 e5  e4  f16 bf16 f32 f64
i1    i1  i8  u8  i16 u16 i32 u32 i64 u64 ERR ERR f16 f32  f32 f64
i8    .   i8  u8  i16 u16 i32 u32 i64 u64 ERR ERR f16 f32  f32 f64
u8    .   .   u8  i16 u16 i32 u32 i64 u64 ERR ERR f16 f32  f32 f64
i16   .   .   .   i16 u16 i32 u32 i64 u64 ERR ERR f16 f32  f32 f64
u16   .   .   .   .   u16 i32 u32 i64 u64 ERR ERR f16 f32  f32 f64
i32   .   .   .   .   .   i32 u32 i64 u64 ERR ERR f16 f32  f32 f64
u32   .   .   .   .   .   .   u32 i64 u64 ERR ERR f16 f32  f32 f64
i64   .   .   .   .   .   .   .   i64 u64 ERR ERR f16 f32  f32 f64
u64   .   .   .   .   .   .   .   .   u64 ERR ERR f16 f32  f32 f64
e5    .   .   .   .   .   .   .   .   .   e5  f16 f16 f32  f32 f64
e4    .   .   .   .   .   .   .   .   .   .   e4  f16 f32  f32 f64
f16   .   .   .   .   .   .   .   .   .   .   .   f16 f16  f32 f64
bf16  .   .   .   .   .   .   .   .   .   .   .   .   bf16 f32 f64
f32   .   .   .   .   .   .   .   .   .   .   .   .   .    f32 f64
f64   .   .   .   .   .   .   .   .   .   .   .   .   .    .   f64
"""


def cells() -> dict[tuple[str, str], str]:
    """Every ordered pair of types with what the table says of it; the lower half mirrors the upper."""
    heads, *rows = (line.split() for line in TABLE.strip().splitlines())
    upper = {(row, head): cell for row, *line in rows for head, cell in zip(heads, line, strict=True) if cell != "."}
    return upper | {(b, a): cell for (a, b), cell in upper.items()}


CELLS = cells()
PAIRS = sorted(CELLS)
INTEGERS = [name for name, type_ in SHORT.items() if type_.is_int()]


def test_the_table_is_complete() -> None:
    assert PAIRS == sorted(itertools.product(SHORT, SHORT))


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_tensor_with_tensor(a: str, b: str) -> None:
    expected = CELLS[a, b]
    if expected == "ERR":
        with pytest.raises(Fp8WithInteger):
            promote("+", SHORT[a], SHORT[b])
        return
    assert promote("+", SHORT[a], SHORT[b]) == SHORT[expected]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_operators_follow_the_table(a: str, b: str) -> None:
    functions = {
        "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
        "minimum": tl.minimum, "maximum": tl.maximum, "where": lambda x, y: tl.where(x.to(tl.int1), x, y),
    }  # fmt: skip
    for function in functions.values():
        with sandbox() as box:
            x, y = box.tile(SHORT[a], 4), box.tile(SHORT[b], 4)
            if CELLS[a, b] == "ERR":
                with pytest.raises(Fp8WithInteger):
                    function(x, y)
            else:
                assert function(x, y).dtype == SHORT[CELLS[a, b]]


COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_comparisons_promote_like_the_table_and_pick_the_sign_after(a: str, b: str) -> None:
    with sandbox() as box:
        x, y = box.tile(SHORT[a], 4), box.tile(SHORT[b], 4)
        for symbol, stem in COMPARISONS.items():
            if CELLS[a, b] == "ERR":
                with pytest.raises(Fp8WithInteger):
                    semantic.compare(symbol, x, y)
                continue
            result = semantic.compare(symbol, x, y)
            met = SHORT[CELLS[a, b]]
            sign = "i" if symbol in ("==", "!=") else "s" if met.is_int_signed() else "u"
            assert result.dtype == tl.int1 and result.shape == (4,)
            assert box.last.name == f"cmp_{stem}_{'f' if met.is_floating() else sign}"
            assert element_of(box.last.operands[0].type) == ir_scalar(met)


def division_of(a: dtype, b: dtype) -> dtype | type[Exception]:
    """What the rules say of `/`, `%` and `fdiv`: floats below float64 meet in float32, integers by sign."""
    if a.is_floating() or b.is_floating():
        return tl.float64 if tl.float64 in (a, b) else tl.float32
    return MixedSignedness if a.is_int_signed() != b.is_int_signed() else common_type("+", a, b)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_true_division(a: str, b: str) -> None:
    expected = division_of(SHORT[a], SHORT[b])
    with sandbox() as box:
        x, y = box.tile(SHORT[a], 4), box.tile(SHORT[b], 4)
        if isinstance(expected, type):
            with pytest.raises(expected):
                _ = x / y
            return
        assert (x / y).dtype == (tl.float32 if expected.is_int() else expected)
        assert box.last.name == "div_f"


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_remainder(a: str, b: str) -> None:
    expected = division_of(SHORT[a], SHORT[b])
    with sandbox() as box:
        x, y = box.tile(SHORT[a], 4), box.tile(SHORT[b], 4)
        if isinstance(expected, type):
            with pytest.raises(expected):
                _ = x % y
            return
        assert (x % y).dtype == expected
        assert box.last.name == (
            "rem_f" if expected.is_floating() else f"rem_{'s' if expected.is_int_signed() else 'u'}"
        )


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_floor_division(a: str, b: str) -> None:
    expected = division_of(SHORT[a], SHORT[b])
    with sandbox() as box:
        x, y = box.tile(SHORT[a], 4), box.tile(SHORT[b], 4)
        if isinstance(expected, type) or expected.is_floating():
            with pytest.raises(expected if isinstance(expected, type) else BadOperands):
                _ = x // y
            return
        assert (x // y).dtype == expected
        assert box.last.name == f"div_{'s' if expected.is_int_signed() else 'u'}"


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_fdiv(a: str, b: str) -> None:
    expected = division_of(SHORT[a], SHORT[b])
    with sandbox() as box:
        x, y = box.tile(SHORT[a], 4), box.tile(SHORT[b], 4)
        if isinstance(expected, type) or expected.is_int():
            with pytest.raises(expected if isinstance(expected, type) else BadOperands):
                tl.fdiv(x, y)
            return
        assert tl.fdiv(x, y).dtype == tl.fdiv(x, y, ieee_rounding=True).dtype == expected
        assert box.names[-3:].count("div_rn") == 1


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_bit_operators(a: str, b: str) -> None:
    shift = f"shr_{'s' if SHORT[a].is_int_signed() else 'u'}"
    with sandbox() as box:
        x, y = box.tile(SHORT[a], 4), box.tile(SHORT[b], 4)
        for symbol, row in {"&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": shift}.items():
            if a not in INTEGERS or b not in INTEGERS:
                with pytest.raises(BadOperands):
                    semantic.binary(symbol, x, y)
                continue
            assert semantic.binary(symbol, x, y).dtype == SHORT[CELLS[a, b]]
            assert box.last.name == row


# --- literals and weak operands ---

LITERALS: list[tuple[bool | int | float, dtype]] = [
    (True, tl.int1), (False, tl.int1),
    (0, tl.int32), (2**31 - 1, tl.int32), (-(2**31), tl.int32),
    (2**31, tl.uint32), (2**32 - 1, tl.uint32),
    (2**32, tl.int64), (-(2**31) - 1, tl.int64), (2**63 - 1, tl.int64), (-(2**63), tl.int64),
    (2**63, tl.uint64), (2**64 - 1, tl.uint64),
    (0.0, tl.float32), (-0.0, tl.float32), (float("inf"), tl.float32), (float("nan"), tl.float32),
    (2.0**-126, tl.float32), (3.4028234663852886e38, tl.float32), (-1.5, tl.float32),
    (2.0**-127, tl.float64), (3.4028234663852888e38, tl.float64), (-1e300, tl.float64), (5e-324, tl.float64),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), LITERALS, ids=repr)
def test_literals(value: bool | int | float, expected: dtype) -> None:
    assert literal_type(value) == expected
    with sandbox():
        assert semantic.to_tensor(value).dtype == expected


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_literals_that_fit_nothing(value: int) -> None:
    with pytest.raises(LiteralTooLarge):
        literal_type(value)


#: What a weak True, 3 and 0.5 give beside each tensor type, for `+` and for `/`.
WEAK: dict[str, tuple[str, str, str, str]] = {
    "i1": ("i1", "i32", "f32", "f32"),
    **{name: (name, name, "f32", "f32") for name in INTEGERS if name != "i1"},
    "e5": ("e5", "e5", "e5", "f32"),
    "e4": ("e4", "e4", "e4", "f32"),
    "f16": ("f16", "f16", "f16", "f32"),
    "bf16": ("bf16", "bf16", "bf16", "f32"),
    "f32": ("f32", "f32", "f32", "f32"),
    "f64": ("f64", "f64", "f64", "f64"),
}


@pytest.mark.parametrize("name", SHORT)
def test_weak_scalars_of_every_kind(name: str) -> None:
    with sandbox() as box:
        x = box.tile(SHORT[name], 4)
        with_bool, with_int, with_float, _ = (SHORT[each] for each in WEAK[name])
        assert (x + True).dtype == (True + x).dtype == with_bool
        assert (x * 3).dtype == (3 * x).dtype == tl.maximum(x, 3).dtype == with_int
        assert (x - 0.5).dtype == (0.5 - x).dtype == tl.where(x != 0, x, 0.5).dtype == with_float


@pytest.mark.parametrize("name", SHORT)
def test_division_by_weak_scalars(name: str) -> None:
    with sandbox() as box:
        x, expected = box.tile(SHORT[name], 4), SHORT[WEAK[name][3]]
        assert (x / 0.5).dtype == (x / True).dtype == expected
        if name == "i1":  # True is weak and bends; 3 ranks above int1, and int1 counts as unsigned
            with pytest.raises(MixedSignedness):
                _ = x / 3
        else:
            assert (x / 3).dtype == (3 / x).dtype == expected


@pytest.mark.parametrize(("name", "scalar", "expected"), [
    ("i8", 1e-40, "f64"), ("f32", 1e-40, "f32"), ("f16", 1e300, "f16"), ("bf16", 2**40, "bf16"),
    ("i1", 2**31, "u32"), ("i1", 2**40, "i64"), ("i1", 2**63, "u64"), ("i64", 2**62, "i64"),
])  # fmt: skip
def test_weak_scalars_at_the_edges(name: str, scalar: int | float, expected: str) -> None:
    assert promote("+", SHORT[name], scalar) == promote("+", scalar, SHORT[name]) == SHORT[expected]


@pytest.mark.parametrize("name", [name for name in INTEGERS if name != "i1"])
def test_weak_integers_out_of_range(name: str) -> None:
    type_ = SHORT[name]
    least, greatest = type_.get_int_min_value(), type_.get_int_max_value()
    assert promote("+", type_, greatest) == promote("+", least, type_) == type_
    if greatest < 2**64 - 1:
        with pytest.raises(LiteralOutOfRange):
            promote("+", type_, greatest + 1)
    if type_.is_int_unsigned():
        with pytest.raises(NegativeWithUnsigned):
            promote("+", -1, type_)
    elif least > -(2**63):
        with pytest.raises(LiteralOutOfRange):
            promote("+", least - 1, type_)


def test_runtime_scalars_are_not_weak() -> None:
    with sandbox() as box:
        assert (box.tile(tl.int8, 4) + semantic.to_tensor(3)).dtype == tl.int32
        assert (box.tile(tl.float16, 4) * semantic.to_tensor(2.0)).dtype == tl.float32


def test_two_numbers_meet_by_their_literal_types() -> None:
    assert promote("+", 1, 2) == tl.int32
    assert promote("+", 1, 2**31) == tl.uint32
    assert promote("+", True, 0.5) == tl.float32
    with pytest.raises(NegativeWithUnsigned):
        promote("+", -1, 2**31)


# --- unary operators ---


@pytest.mark.parametrize("name", SHORT)
def test_unary_operators(name: str) -> None:
    type_ = SHORT[name]
    with sandbox() as box:
        x = box.tile(type_, 4)
        assert (-x).dtype == type_
        assert box.names == (["neg_f"] if type_.is_floating() else ["constant", "sub_i"])
        if type_.is_floating():
            with pytest.raises(BadOperand):
                _ = ~x
            return
        assert (~x).dtype == type_
        ones = box.block.operations[-2].attributes["value"]
        assert box.last.name == "xor" and ones in (-1, (1 << type_.int_bitwidth) - 1)


# --- pointers ---

POINTER = pointer_type(tl.float16)


@pytest.mark.parametrize("name", SHORT)
def test_pointers_take_integers(name: str) -> None:
    type_ = SHORT[name]
    operations: list[Any] = [lambda p, i: p + i, lambda p, i: i + p, lambda p, i: p - i]
    for operation in operations:
        with sandbox() as box:
            p, i = box.tile(POINTER), box.tile(type_, 4)
            if type_.is_floating():
                with pytest.raises(BadOperands):
                    operation(p, i)
                continue
            result = operation(p, i)
            assert result.dtype == POINTER and result.shape == (4,)
            assert box.last.name == "add_ptr"
            # Unsigned offsets below 64 bits are widened by zeros; all others go as they are.
            assert ("ext_u" in box.names) == (type_.is_int_unsigned() and type_.int_bitwidth < 64)
            assert "ext_s" not in box.names


def test_pointer_minus_unsigned_negates_in_the_narrow_type_first() -> None:
    with sandbox() as box:
        _ = box.tile(POINTER) - box.tile(tl.uint32)
        assert box.names == ["constant", "sub_i", "ext_u", "add_ptr"]


@pytest.mark.parametrize("operation", [
    lambda p, i: p + p, lambda p, i: p - p, lambda p, i: i - p, lambda p, i: p * i, lambda p, i: p / i,
    lambda p, i: p // i, lambda p, i: p % i, lambda p, i: p & i, lambda p, i: p << i, lambda p, i: p < p,
    lambda p, i: p == p, lambda p, i: p + 1.5, lambda p, i: tl.maximum(p, p), lambda p, i: tl.fma(p, i, i),
])  # fmt: skip
def test_pointers_refuse_the_rest(operation: Any) -> None:
    with sandbox() as box, pytest.raises(BadOperands):
        operation(box.tile(POINTER, 4), box.tile(tl.int32, 4))


def test_where_takes_pointers_of_one_type() -> None:
    with sandbox() as box:
        flag, p, q = box.tile(tl.int1, 4), box.tile(POINTER, 4), box.tile(POINTER)
        assert tl.where(flag, p, q).dtype == POINTER
        with pytest.raises(MismatchedTypes):
            tl.where(flag, p, box.tile(pointer_type(tl.int16)))
        with pytest.raises(MismatchedTypes):
            tl.where(flag, p, 0)


# --- three operands ---

TERNARY = [
    (("f16", "f16", 2.0), "f16"), (("f16", 1, 2.5), "f16"), (("i32", 1, 2.5), "f32"), (("f16", "f32", 1), "f32"),
    (("bf16", "bf16", 0.5), "bf16"), (("bf16", "i8", 0.5), "f32"), (("bf16", "f16", "i32"), "f16"),
    (("e5", "e4", 1), "f16"), (("e5", "e5", 1), "e5"), (("f64", 1, "f16"), "f64"), (("i8", "u8", 3), "u8"),
]  # fmt: skip


@pytest.mark.parametrize(("operands", "expected"), TERNARY)
def test_three_operands_meet_in_any_order(operands: tuple[Any, ...], expected: str) -> None:
    for order in itertools.permutations(operands):
        types = [SHORT[each] if isinstance(each, str) else each for each in order]
        assert promote("fma", *types) == SHORT[expected]
        with sandbox() as box:
            values = [box.tile(each, 4) if isinstance(each, dtype) else each for each in types]
            assert tl.clamp(values[0], values[1], values[2]).dtype == SHORT[expected]
            if SHORT[expected].is_floating():
                assert tl.fma(values[0], values[1], values[2]).dtype == SHORT[expected]
                assert box.last.name == "fma"


@given(st.lists(st.sampled_from(NUMBERS), min_size=3, max_size=3), st.permutations(range(3)))
def test_order_never_matters(types: list[dtype], order: list[int]) -> None:
    def result(each: list[dtype]) -> Any:
        try:
            return common_type("+", *each)
        except Fp8WithInteger:
            return "error"

    assert result(types) == result([types[i] for i in order])


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS))
def test_promotion_is_symmetric_and_keeps_equal_types(a: dtype, b: dtype) -> None:
    assert common_type("+", a, a) == a
    if not (a.is_fp8() and b.is_int()) and not (b.is_fp8() and a.is_int()):
        assert common_type("+", a, b) == common_type("+", b, a)


# --- where a type is chosen without a partner ---


def test_sums_widen_by_sign() -> None:
    assert [sum_type(t) for t in (tl.int8, tl.int16, tl.int32, tl.int64)] == [tl.int32] * 3 + [tl.int64]
    assert [sum_type(t) for t in (tl.int1, tl.uint8, tl.uint16, tl.uint32, tl.uint64)] == [tl.uint32] * 4 + [tl.uint64]
    assert [sum_type(t) for t in FLOATS] == list(FLOATS)


def test_extremes_widen_to_32_bits() -> None:
    narrow_floats = (*FP8, tl.float16, tl.bfloat16)
    assert {extremum_type(t) for t in narrow_floats} == {tl.float32}
    assert {extremum_type(t) for t in (tl.int1, tl.int8, tl.uint8, tl.int16, tl.uint16)} == {tl.int32}
    wide = (tl.int32, tl.uint32, tl.int64, tl.uint64, tl.float32, tl.float64)
    assert [extremum_type(t) for t in wide] == list(wide)
