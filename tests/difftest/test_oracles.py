"""The oracle itself: rounding against independent accounts, exact rules against known values, bounds at their edges."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.difftest.oracles.bounds import ANY, allowed, within
from tilewright.difftest.oracles.formats import (
    as_real,
    bias_of,
    decode,
    encode,
    is_nan,
    max_code,
    nan_code,
    ordinal,
    round_result,
    sign_bit,
    ulp_of,
)
from tilewright.difftest.oracles.orders import some_order_explains
from tilewright.difftest.oracles.reals import REAL_RULES, real_sum, root
from tilewright.difftest.oracles.scalars import named_rule, signed
from tilewright.difftest.storage import dtype_of, to_array, to_codes
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
    FLOATS,
    I8,
    I32,
    NUMBERS,
    OPS,
    Block,
    Builder,
    FloatType,
    TileType,
)

NARROW = [fmt for fmt in FLOATS if fmt.width <= 16]
KNOWN_TO_NUMPY = [fmt for fmt in NARROW if fmt != F8E4M3B15]
LARGEST = {
    F16: 65504, BF16: (2 - 2**-7) * 2.0**127, F32: (2 - 2**-23) * 2.0**127, F64: float(np.finfo(np.float64).max),
    F8E5M2: 57344, F8E4M3FN: 448, F8E5M2FNUZ: 57344, F8E4M3FNUZ: 240, F8E4M3B15: 1.875,
}  # fmt: skip


def finite_codes(fmt: FloatType) -> list[int]:
    """Every code that is a number, by value."""
    codes = [code for code in range(1 << fmt.width) if math.isfinite(decode(code, fmt))]
    return sorted(codes, key=lambda code: ordinal(code, fmt))


@pytest.mark.parametrize("fmt", KNOWN_TO_NUMPY, ids=str)
def test_every_code_decodes_as_numpy_reads_it(fmt: FloatType) -> None:
    codes = range(1 << fmt.width)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        theirs = to_array(codes, fmt, (len(codes),)).astype(np.float64)
    ours = np.array([decode(code, fmt) for code in codes])
    np.testing.assert_array_equal(ours, theirs)
    assert (np.signbit(ours) == np.signbit(theirs))[~np.isnan(ours)].all()


@pytest.mark.parametrize("fmt", FLOATS, ids=str)
def test_landmarks(fmt: FloatType) -> None:
    assert decode(max_code(fmt), fmt) == LARGEST[fmt]
    assert decode(bias_of(fmt) << fmt.mantissa, fmt) == 1.0
    assert nan_code(fmt) is None or is_nan(nan_code(fmt), fmt)


def midpoints_round_as_they_must(fmt: FloatType, step: int) -> None:
    """Numbers round to themselves; midpoints to the even code; just off a midpoint to the nearer side."""
    codes = [code for code in finite_codes(fmt) if not code & sign_bit(fmt)]
    tiny = Fraction(1, 2**200)
    for code, above in list(zip(codes, codes[1:], strict=False))[::step]:
        low, high = Fraction(decode(code, fmt)), Fraction(decode(above, fmt))
        middle = (low + high) / 2
        even = code if code % 2 == 0 else above
        assert encode(high, fmt) == encode(high, fmt, toward_zero=True) == above
        assert encode(middle, fmt) == even
        assert encode(middle - tiny, fmt) == code and encode(middle + tiny, fmt) == above
        assert encode(high - tiny, fmt, toward_zero=True) == code
        assert encode(-middle, fmt) == (even | sign_bit(fmt) if even or "fnuz" not in fmt.name else 0)


@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_numbers_and_midpoints_round_as_they_must(fmt: FloatType) -> None:
    midpoints_round_as_they_must(fmt, 1 if fmt.width == 8 else 61)


@pytest.mark.slow
@pytest.mark.parametrize("fmt", (F16, BF16), ids=str)
def test_every_number_and_every_midpoint_rounds_as_it_must(fmt: FloatType) -> None:
    midpoints_round_as_they_must(fmt, 1)


@pytest.mark.parametrize("fmt", KNOWN_TO_NUMPY, ids=str)
def test_rounding_agrees_with_ml_dtypes_in_range(fmt: FloatType) -> None:
    """NumPy and ml_dtypes round f32 to nearest even as well; beyond the largest number their rules differ."""
    bits = np.arange(0, 2**32, 524287, dtype=np.uint64).astype(np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    values = values[np.abs(values.astype(np.float64)) <= LARGEST[fmt]]
    theirs = to_codes(values.astype(dtype_of(fmt)), fmt)
    ours = tuple(encode(as_real(float(value)), fmt) for value in values)
    assert ours == theirs


@given(st.fractions(min_value=Fraction(1, 2**1080), max_value=2**1023))
def test_rounding_to_f64_is_what_python_does(value: Fraction) -> None:
    assert decode(encode(value, F64), F64) == value.numerator / value.denominator


@pytest.mark.parametrize(
    ("fmt", "real", "code"),
    [
        (F16, Fraction(65519), 0x7BFF),
        (F16, Fraction(65520), 0x7C00),
        (F16, -math.inf, 0xFC00),
        (F16, math.nan, 0x7FFF),
        (F32, Fraction(1, 2**150), 0),
        (F32, Fraction(3, 2**151), 1),
        (F64, math.nan, 0x7FF8_0000_0000_0000),
        (F8E4M3FN, Fraction(10**6), 0x7E),
        (F8E4M3FN, math.inf, 0x7E),
        (F8E4M3FN, math.nan, 0x7F),
        (F8E5M2, math.inf, 0x7B),
        (F8E5M2FNUZ, -0.0, 0x00),
        (F8E4M3FNUZ, math.nan, 0x80),
        (F8E4M3FNUZ, -math.inf, 0xFF),
        (F8E4M3B15, math.nan, 0x7F),
        (F8E4M3B15, Fraction(-2), 0xFF),
    ],
)
def test_rounding_at_the_ends(fmt: FloatType, real: object, code: int) -> None:
    assert encode(real, fmt) == code  # type: ignore[arg-type]


def test_rounding_to_eight_bits_goes_by_way_of_f32() -> None:
    """A tie that f32 makes: 1 + 1/16 + 2**-40 is above the midpoint of 1 and 1.125, and its f32 is that midpoint."""
    value = 1 + Fraction(1, 16) + Fraction(1, 2**40)
    assert decode(encode(value, F8E4M3FN), F8E4M3FN) == 1.125
    assert decode(round_result(value, F8E4M3FN), F8E4M3FN) == 1.0


@given(
    st.floats(allow_nan=True), st.floats(allow_nan=True), st.sampled_from(("add_f", "sub_f", "mul_f", "div_f", "rem_f"))
)
def test_f64_arithmetic_is_the_machine_s(a: float, b: float, name: str) -> None:
    machine = {"add_f": np.add, "sub_f": np.subtract, "mul_f": np.multiply, "div_f": np.divide, "rem_f": np.fmod}
    with np.errstate(all="ignore"):
        theirs = machine[name](np.float64(a), np.float64(b))
    ours = decode(encode(REAL_RULES[name](a, b), F64), F64)
    assert (math.isnan(ours) and np.isnan(theirs)) or (
        ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)
    )


@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_roots_are_enclosed(x: float) -> None:
    real = root(Fraction(x))
    low, high = (real, real) if isinstance(real, Fraction) else real.enclose(100)  # type: ignore[union-attr]
    assert 0 < low <= high and low * low <= Fraction(x) <= high * high
    assert high - low <= low / 2**99
    assert decode(encode(real, F64), F64) == math.sqrt(x)


@pytest.mark.parametrize(
    ("name", "x", "value"),
    [
        ("exp", 0.0, 1.0), ("exp", -math.inf, 0.0), ("exp2", -3.0, 0.125), ("exp2", 0.5, math.sqrt(2)),
        ("log", 1.0, 0.0), ("log", 0.0, -math.inf), ("log2", 2.0**-1074, -1074.0), ("sin", -0.0, -0.0),
        ("sin", 1e22, -0.8522008497671888), ("cos", 0.0, 1.0), ("tanh", 100.0, 1.0), ("tanh", -0.5, math.tanh(-0.5)),
        ("erf", -100.0, -1.0), ("erf", 0.5, math.erf(0.5)), ("rsqrt", 4.0, 0.5), ("rsqrt", -0.0, -math.inf),
        ("floor", -0.5, -1.0), ("ceil", -0.5, -0.0), ("exp", 1000.0, math.inf), ("exp", -1000.0, 0.0),
    ],
)  # fmt: skip
def test_functions_at_known_points(name: str, x: float, value: float) -> None:
    got = decode(encode(REAL_RULES[name](x), F64), F64)
    assert got == value and math.copysign(1, got) == math.copysign(1, value)


def test_signs_of_zero_sums() -> None:
    assert math.copysign(1, real_sum([-0.0, -0.0])) == -1  # type: ignore[arg-type]
    assert math.copysign(1, real_sum([-0.0, 0.0])) == 1  # type: ignore[arg-type]
    assert math.copysign(1, real_sum([Fraction(1), Fraction(-1), -0.0])) == 1  # type: ignore[arg-type]
    assert math.isnan(real_sum([math.inf, Fraction(1), -math.inf]))  # type: ignore[arg-type]


@pytest.mark.parametrize("element", (I8, I32), ids=str)
def test_integers_at_the_edges(element: object) -> None:
    width = element.width  # type: ignore[attr-defined]
    least, ones = 1 << width - 1, (1 << width) - 1

    def run(name: str, *codes: int) -> int:
        return signed(named_rule(name, element)(*codes), width)  # type: ignore[arg-type]

    assert run("div_s", least, ones) == -least and run("rem_s", least, ones) == 0
    assert run("div_s", 5, 0) == -1 and run("rem_s", 5, 0) == 5
    assert run("div_u", 5, 0) == -1 and run("rem_u", 5, 0) == 5
    assert run("div_s", -7 & ones, 2) == -3 and run("rem_s", -7 & ones, 2) == -1
    assert run("shl", 1, width) == 0 and run("shr_u", ones, width) == 0 and run("shr_s", least, ones) == -1
    assert run("abs_i", least) == -least and run("mulhi_u", ones, ones) == -2 and run("mulhi_s", ones, ones) == 0


@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_storage_and_codes_are_inverse(element: object) -> None:
    codes = tuple(range(min(1 << element.width, 256)))  # type: ignore[attr-defined]
    array = to_array(codes, element, (len(codes) // 2, 2))  # type: ignore[arg-type]
    assert to_codes(array, element) == codes  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is stored as"):
        to_codes(array.astype(ml_dtypes.int4), element)  # type: ignore[arg-type]


def operation_on(name: str, fmt: FloatType, count: int, **attributes: object) -> object:
    """One operation on vectors of a format."""
    type_ = TileType((count,), fmt)
    block = Block([type_] * len(OPS[name].operands))
    return Builder(block).create(OPS[name], block.arguments, attributes)  # type: ignore[arg-type]


def test_bounds_hold_what_the_contract_grants_and_no_more() -> None:
    one = 0x3F80_0000
    operation = operation_on("div_f", F32, 1)
    (range_,) = allowed(operation, [(one,), (one,)])  # type: ignore[arg-type, misc]
    assert [within(one + step, range_, F32) for step in (-5, -4, 0, 2, 3)] == [False, True, True, True, False]
    assert not within(0x7FC0_0000, range_, F32)
    assert allowed(operation_on("div_rn", F32, 1), [(one,), (one,)]) is None  # type: ignore[arg-type]


def test_bounds_of_nan_and_infinity() -> None:
    operation = operation_on("exp2", F32, 2)
    ranges = allowed(operation, [(0x7FC0_0001, 0x7F80_0000)])  # type: ignore[arg-type]
    assert ranges == [None, (0x7F80_0000, 0x7F80_0000)]
    assert within(0xFFC1_2345, None, F32) and not within(0, None, F32)


def test_bounds_of_sums() -> None:
    operation = operation_on("reduce_add_f", F16, 4, axis=0)
    one, large = 0x3C00, 0x7BFF
    (close,) = allowed(operation, [(one, one, one, one)])  # type: ignore[arg-type, misc]
    four = encode(Fraction(4), F16)
    assert within(four, close, F16) and within(four + 1, close, F16) and not within(four + 3, close, F16)
    (overflow,) = allowed(operation, [(large, large, large | 0x8000, one)])  # type: ignore[arg-type, misc]
    assert overflow == ANY and within(0x7C00, overflow, F16) and within(0x7E00, overflow, F16)


def test_units_in_the_last_place() -> None:
    assert ulp_of(Fraction(1), F32) == Fraction(1, 2**23)
    assert ulp_of(Fraction(0), F32) == ulp_of(Fraction(1, 2**140), F32) == Fraction(1, 2**149)


@given(st.lists(st.integers(0, 3), max_size=6), st.randoms(use_true_random=False))
def test_any_order_of_additions_is_explained(values: list[int], random: object) -> None:
    edges, at = [], 5
    for value in values:
        edges.append((at, at + value))
        at += value
    random.shuffle(edges)  # type: ignore[attr-defined]
    assert some_order_explains(5, at, edges)
    assert not some_order_explains(5, at + 1, edges)
    assert not some_order_explains(5, at, [*edges, (99, 99)])


def test_lost_updates_are_not_explained() -> None:
    assert not some_order_explains(0, 1, [(0, 1), (0, 1)])
    assert some_order_explains(0, 2, [(1, 2), (0, 1)])
    assert not some_order_explains(0, 0, [(1, 2), (2, 1)])
