"""What ops mean, against oracles that share nothing with the implementation: Python's integers, and rationals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from io import StringIO
from math import copysign, fmod, isinf, isnan
from typing import Any

import mpmath
import numpy as np
import pytest

from tilewright.interpreter.batch import Batch, Fuel, Options
from tilewright.interpreter.errors import DeviceAssertError
from tilewright.interpreter.meanings import MEANINGS
from tilewright.interpreter.memory import Memory
from tilewright.interpreter.numerics import FORMATS, FloatFormat
from tilewright.interpreter.values import BatchValue, dense, storage
from tilewright.lang import (
    BF16,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    INTS,
    OPS,
    Block,
    Builder,
    FloatType,
    IntType,
    Location,
    Operation,
    PointerType,
    ScalarType,
    TileType,
    Type,
)

CONTROL = {"for", "while", "if", "call", "reduce", "yield", "condition", "return"}
RNG = np.random.default_rng(20240607)


def test_every_row_has_a_meaning_or_is_control() -> None:
    assert set(MEANINGS) == set(OPS) - CONTROL


# --- running one op -------------------------------------------------------------------------------------------------


def make(name: str, types: Sequence[Type], *results: Type, **attributes: Any) -> Operation:
    block = Block(types)
    builder = Builder(block)
    builder.location = Location("kernels.add", 7, 5)
    return builder.create(OPS[name], block.arguments, attributes, results or None)


def batch_of(count: int, debug: bool = True) -> Batch:
    x, y, z = np.indices((1, 1, count), np.int32).reshape(3, -1)[::-1]
    return Batch(count, (x, y, z), (count, 1, 1), Memory(), Options(debug=debug), StringIO(), Fuel(None))


def run(operation: Operation, *values: BatchValue) -> Any:
    return MEANINGS[operation.name](operation)(batch_of(max((len(v) for v in values), default=1)), *values)


def apply(name: str, types: Sequence[Type], values: Sequence[np.ndarray], *results: Type, **attributes: Any) -> Any:
    """The op on scalars, one row a program; and once more on tiles of four, which must agree."""
    flat = dense(run(make(name, types, *results, **attributes), *values))
    assert flat.ndim == 1
    tiled = [np.resize(v, (-(-len(v) // 4), 4)) for v in values]
    tile_types = [TileType((4,), t) for t in types]  # type: ignore[arg-type]
    operation = make(name, tile_types, *(TileType((4,), t) for t in results), **attributes)  # type: ignore[arg-type]
    assert (bits(dense(run(operation, *tiled)).reshape(-1)[: len(flat)]) == bits(flat)).all()
    return flat


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


# --- integers -------------------------------------------------------------------------------------------------------


def int_samples(width: int) -> list[int]:
    top = 1 << width - 1
    special = {0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, width, width - 1, width + 1}
    return sorted({x % (2 * top) for x in special} | {int(x) for x in RNG.integers(0, 2 * top, 5, np.uint64)})


def stored(values: Iterable[int], type_: IntType) -> np.ndarray:
    """Unsigned Python integers as storage."""
    if type_.width == 1:
        return np.array([bool(v) for v in values])
    return np.array([v % (1 << type_.width) for v in values], f"u{type_.width // 8}").view(f"i{type_.width // 8}")


def unsigned_list(array: np.ndarray) -> list[int]:
    return [int(x) for x in bits(array)]


def signed(x: int, width: int) -> int:
    return x - (1 << width) if x >> width - 1 else x


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def as_signed(function: Callable[[int, int], int | bool]) -> Callable[[int, int, int], int | bool]:
    return lambda a, b, w: function(signed(a, w), signed(b, w))


INT_ORACLES: dict[str, Callable[[int, int, int], int | bool]] = {
    "add_i": lambda a, b, w: a + b,
    "sub_i": lambda a, b, w: a - b,
    "mul_i": lambda a, b, w: a * b,
    "div_u": lambda a, b, w: a // b if b else -1,
    "rem_u": lambda a, b, w: a % b if b else a,
    "div_s": as_signed(lambda a, b: truncated(a, b) if b else -1),
    "rem_s": as_signed(lambda a, b: a - truncated(a, b) * b if b else a),
    "mulhi_u": lambda a, b, w: a * b >> w,
    "mulhi_s": lambda a, b, w: signed(a, w) * signed(b, w) >> w,
    "and": lambda a, b, w: a & b,
    "or": lambda a, b, w: a | b,
    "xor": lambda a, b, w: a ^ b,
    "shl": lambda a, b, w: a << b if b < w else 0,
    "shr_u": lambda a, b, w: a >> b if b < w else 0,
    "shr_s": lambda a, b, w: signed(a, w) >> min(b, w - 1),
    "min_s": as_signed(min),
    "max_s": as_signed(max),
    "min_u": lambda a, b, w: min(a, b),
    "max_u": lambda a, b, w: max(a, b),
    "cmp_eq_i": lambda a, b, w: a == b,
    "cmp_ne_i": lambda a, b, w: a != b,
    "cmp_lt_s": as_signed(lambda a, b: a < b),
    "cmp_le_s": as_signed(lambda a, b: a <= b),
    "cmp_gt_s": as_signed(lambda a, b: a > b),
    "cmp_ge_s": as_signed(lambda a, b: a >= b),
    "cmp_lt_u": lambda a, b, w: a < b,
    "cmp_le_u": lambda a, b, w: a <= b,
    "cmp_gt_u": lambda a, b, w: a > b,
    "cmp_ge_u": lambda a, b, w: a >= b,
}


@pytest.mark.parametrize("name", INT_ORACLES)
def test_integer_ops(name: str) -> None:
    for (type_, _), result in OPS[name].signatures:
        assert isinstance(type_, IntType) and isinstance(result, IntType)
        pairs = list(itertools.product(int_samples(type_.width), repeat=2))
        a, b = (stored(column, type_) for column in zip(*pairs, strict=True))
        want = [int(INT_ORACLES[name](x, y, type_.width)) % (1 << result.width) for x, y in pairs]
        got = apply(name, (type_, type_), (a, b))
        assert got.dtype == storage(result)
        assert unsigned_list(got) == want, (name, str(type_))


@pytest.mark.parametrize("name", ["abs_i", "trunc_i", "ext_s", "ext_u"])
def test_one_operand_integer_ops(name: str) -> None:
    for (type_,), result in OPS[name].signatures:
        assert isinstance(type_, IntType) and isinstance(result, IntType)
        samples = int_samples(type_.width)
        signs = [signed(x, type_.width) for x in samples]
        want = {"abs_i": [abs(x) for x in signs], "ext_s": signs}.get(name, samples)
        got = apply(name, (type_,), (stored(samples, type_),), result)
        assert got.dtype == storage(result)
        assert unsigned_list(got) == [x % (1 << result.width) for x in want], (str(type_), str(result))


# --- floats ---------------------------------------------------------------------------------------------------------


def float_samples(type_: FloatType, count: int) -> np.ndarray:
    """Special values of a format (as codes) and random codes."""
    row = FORMATS[type_.name]
    one = row.bias << row.mantissa_bits
    codes = {0, 1, 2, one - 1, one, one + 1, row.max_code, row.max_code - 1, (1 << row.mantissa_bits) - 1, one // 2}
    codes |= {c for c in (row.inf_code, row.nan_code) if c is not None}
    codes |= {c ^ row.sign_bit for c in codes}
    chosen = sorted(codes) + [int(c) for c in RNG.integers(0, 2 * row.sign_bit, count, np.uint64)]
    return np.array(chosen, row.carrier).view(row.storage)


def values_of(array: np.ndarray, type_: FloatType) -> list[float]:
    return [FORMATS[type_.name].value(int(code)) for code in bits(array)]


def nearest(value: Fraction, row: FloatFormat, negative: bool = False) -> float:
    """A rational rounded to nearest even in a format, by the definition of the format."""
    size = abs(value)
    sign = -1.0 if value < 0 or (value == 0 and negative) else 1.0
    if size == 0:
        return 0.0 if not row.has_negative_zero else copysign(0.0, sign)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, 1 - row.bias) - row.mantissa_bits)
    steps = round(size / quantum)  # Python rounds rationals to even
    if steps * quantum > Fraction(row.max_finite):
        return sign * (row.max_finite if row.saturates else float("inf"))
    rounded = sign * float(steps * quantum)
    return 0.0 if rounded == 0 and not row.has_negative_zero else rounded


def rounded(value: float | Fraction, type_: FloatType) -> float:
    """A real result in a format: 8-bit formats by way of f32."""
    row = FORMATS[type_.name]
    negative = False
    if isinstance(value, float):
        if isnan(value):
            return value if row.has_nan else row.max_finite
        if isinf(value):
            return copysign(row.max_finite, value) if row.saturates else value
        negative = copysign(1, value) < 0
    if row.bits == 8:
        wide = nearest(Fraction(value), FORMATS["f32"], negative)
        return rounded(wide, type_) if isinf(wide) else nearest(Fraction(wide), row, copysign(1, wide) < 0)
    return nearest(Fraction(value), row, negative)


def finite(*values: float) -> bool:
    return not any(isnan(v) or isinf(v) for v in values)


def real(function: Callable[..., Fraction], ieee: Callable[..., Any]) -> Callable[..., float | Fraction]:
    """Rational arithmetic where it applies; where zeros, infinities or NaNs decide, IEEE f64 arithmetic does."""

    def oracle(*xs: float) -> float | Fraction:
        if finite(*xs):
            try:
                exact = function(*map(Fraction, xs))
            except ZeroDivisionError:
                exact = Fraction(0)
            if exact:
                return exact
        with np.errstate(all="ignore"):
            return float(ieee(*map(np.float64, xs)))

    return oracle


def smaller(a: float, b: float) -> float:
    return min(a, b, key=lambda x: (x, copysign(1, x)))


def larger(a: float, b: float) -> float:
    return max(a, b, key=lambda x: (x, copysign(1, x)))


def ignoring_nan(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: b if isnan(a) else a if isnan(b) else pick(a, b)


def passing_nan(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: float("nan") if isnan(a) or isnan(b) else pick(a, b)


def whole(function: Callable[[Fraction], int]) -> Callable[[float], float | Fraction]:
    return lambda x: (Fraction(function(Fraction(x))) or copysign(0.0, x)) if finite(x) else x


FLOAT_ORACLES: dict[str, Callable[..., float | Fraction]] = {
    "add_f": real(lambda a, b: a + b, np.add),
    "sub_f": real(lambda a, b: a - b, np.subtract),
    "mul_f": real(lambda a, b: a * b, np.multiply),
    "div_f": real(lambda a, b: a / b, np.divide),
    "div_rn": real(lambda a, b: a / b, np.divide),
    "rem_f": lambda a, b: fmod(a, b) if finite(a) and b and not isnan(b) else float("nan"),
    "minnum": ignoring_nan(smaller),
    "maxnum": ignoring_nan(larger),
    "minimum": passing_nan(smaller),
    "maximum": passing_nan(larger),
    "fma": real(lambda a, b, c: a * b + c, lambda a, b, c: c if finite(a, b) and isinf(c) else a * b + c),
    "floor": whole(lambda x: x.numerator // x.denominator),
    "ceil": whole(lambda x: -(-x.numerator // x.denominator)),
}


def agree(got: np.ndarray, want: Sequence[float], type_: FloatType) -> list[int]:
    """The positions where results differ from what was wanted; any NaN is as good as any other."""
    wrong = []
    for index, (x, y) in enumerate(zip(values_of(got, type_), want, strict=True)):
        if isnan(x) != isnan(y) or (not isnan(x) and (x != y or copysign(1, x) != copysign(1, y))):
            wrong.append(index)
    return wrong


@pytest.mark.parametrize("name", FLOAT_ORACLES)
def test_float_ops(name: str) -> None:
    arity = len(OPS[name].operands)
    for (type_, *_), _ in OPS[name].signatures:
        assert isinstance(type_, FloatType)
        samples = float_samples(type_, 6 if arity < 3 else 1)
        rows = list(itertools.product(range(len(samples)), repeat=arity))
        if len(rows) > 1500:
            rows = [rows[i] for i in RNG.choice(len(rows), 1500, replace=False)]
        columns = [samples[list(column)] for column in zip(*rows, strict=True)]
        inputs = zip(*(values_of(column, type_) for column in columns), strict=True)
        want = [rounded(FLOAT_ORACLES[name](*xs), type_) for xs in inputs]
        got = apply(name, (type_,) * arity, columns)
        assert got.dtype == storage(type_)
        assert not agree(got, want, type_), (name, str(type_))


@pytest.mark.parametrize(("name", "flips"), [("neg_f", True), ("abs_f", False)])
def test_sign_ops_move_one_bit(name: str, flips: bool) -> None:
    for (type_,), _ in OPS[name].signatures:
        assert isinstance(type_, FloatType)
        row, samples = FORMATS[type_.name], float_samples(type_, 20)
        sign = row.sign_bit
        want = [c ^ sign if flips else c & ~sign for c in unsigned_list(samples)]
        if not row.has_negative_zero:
            want = [c if c & (sign - 1) == 0 else w for c, w in zip(unsigned_list(samples), want, strict=True)]
        assert unsigned_list(apply(name, (type_,), (samples,))) == want


def mp_oracle(name: str) -> Callable[[float], Any]:
    if name in ("sqrt", "sqrt_rn"):
        return lambda x: mpmath.sqrt(x) if x > 0 else x if x == 0 else float("nan")
    if name == "rsqrt":
        return lambda x: 1 / mpmath.sqrt(x) if x > 0 else copysign(float("inf"), x) if x == 0 else float("nan")
    if name in ("log", "log2"):
        base = 2 if name == "log2" else mpmath.e
        return lambda x: mpmath.log(x, base) if x > 0 else float("-inf") if x == 0 else float("nan")
    if name == "exp2":
        return lambda x: mpmath.power(2, x)
    return getattr(mpmath, name)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "name", ["exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "sin", "cos", "tanh", "erf"]
)
def test_functions_are_rounded_once_in_f32(name: str) -> None:
    samples = np.concatenate((float_samples(F32, 60), RNG.standard_normal(60).astype(np.float32) * 8))
    samples = samples[np.isfinite(samples) & ((np.abs(samples) < 80) | np.array(name in ("log", "sqrt", "rsqrt")))]
    want = []
    with mpmath.workprec(300):
        for x in values_of(samples, F32):
            value = mp_oracle(name)(x)
            if isinstance(value, mpmath.mpf):
                sign, man, exponent, _ = value._mpf_
                exact = (-1) ** sign * Fraction(int(man)) * Fraction(2) ** int(exponent)
                value = exact or copysign(0.0, x)
            want.append(rounded(value, F32))
    assert not agree(apply(name, (F32,), (samples,)), want, F32)


@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_float_comparisons(predicate: str) -> None:
    python = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}[predicate]
    for (type_, _), _ in OPS[f"cmp_{predicate}_f"].signatures:
        assert isinstance(type_, FloatType)
        samples = float_samples(type_, 6)
        i, j = np.indices((len(samples),) * 2).reshape(2, -1)
        values = values_of(samples, type_)
        want = [getattr(values[a], python)(values[b]) for a, b in zip(i, j, strict=True)]
        assert apply(f"cmp_{predicate}_f", (type_, type_), (samples[i], samples[j])).tolist() == want


# --- conversions ----------------------------------------------------------------------------------------------------


def sampled(type_: ScalarType) -> np.ndarray:
    if isinstance(type_, FloatType):
        return float_samples(type_, 30)
    width = type_.width if isinstance(type_, IntType) else 64
    return stored(int_samples(width), IntType(width))


@pytest.mark.parametrize("name", ["s_to_f", "u_to_f"])
def test_integers_to_floats_round_once(name: str) -> None:
    for (type_,), result in OPS[name].signatures:
        assert isinstance(type_, IntType) and isinstance(result, FloatType)
        samples = int_samples(type_.width)
        if name == "s_to_f":
            want = [nearest(Fraction(signed(x, type_.width)), FORMATS[result.name]) for x in samples]
        else:
            want = [nearest(Fraction(x), FORMATS[result.name]) for x in samples]
        assert not agree(apply(name, (type_,), (stored(samples, type_),), result), want, result), (type_, result)


@pytest.mark.parametrize("name", ["f_to_s", "f_to_u"])
def test_floats_to_integers_truncate_and_clamp(name: str) -> None:
    for (type_,), result in OPS[name].signatures:
        assert isinstance(type_, FloatType) and isinstance(result, IntType)
        samples = float_samples(type_, 30)
        low, high = (
            (-(1 << result.width - 1), (1 << result.width - 1) - 1) if name[-1] == "s" else (0, (1 << result.width) - 1)
        )
        want = []
        for x in values_of(samples, type_):
            clamped = 0 if isnan(x) else (high if x > 0 else low) if isinf(x) else min(max(int(x), low), high)
            want.append(clamped % (1 << result.width))
        assert unsigned_list(apply(name, (type_,), (samples,), result)) == want, (str(type_), str(result))


def test_casts_between_floats_round_once() -> None:
    for (type_,), result in OPS["cast_f"].signatures:
        assert isinstance(type_, FloatType) and isinstance(result, FloatType)
        row = FORMATS[result.name]
        samples = float_samples(type_, 40)
        want = []
        for x in values_of(samples, type_):
            if not finite(x):
                sign = copysign(1, x)
                x = sign * row.max_finite if row.saturates and (isinf(x) or not row.has_nan) else x
                want.append(x)
            else:
                want.append(nearest(Fraction(x), row, copysign(1, x) < 0))
        got = apply("cast_f", (type_,), (samples,), result)
        assert not [
            i for i in agree(got, want, result) if not (isnan(values_of(samples, type_)[i]) and not row.has_nan)
        ]


def test_rounding_toward_zero_never_grows() -> None:
    samples = float_samples(F32, 300)
    samples = samples[np.isfinite(samples)]
    down = values_of(apply("cast_f", (F32,), (samples,), F16, rounding="rtz"), F16)
    near = values_of(apply("cast_f", (F32,), (samples,), F16), F16)
    for x, d, n in zip(values_of(samples, F32), down, near, strict=True):
        assert abs(d) <= abs(x) and abs(d) <= abs(n) and copysign(1, d) == copysign(1, x)
    assert down != near


def test_bit_moves_change_no_bit() -> None:
    for (type_,), result in OPS["bitcast"].signatures:
        samples = sampled(type_)
        got = apply("bitcast", (type_,), (samples,), result)
        assert got.dtype == storage(result) and (bits(got) == bits(samples)).all()
    for name in ("ptr_to_int", "int_to_ptr"):
        for (type_,), result in OPS[name].signatures:
            samples = sampled(type_)
            assert (apply(name, (type_,), (samples,), result) == samples).all()


def test_select_moves_bits() -> None:
    for (_, type_, _), _ in OPS["select"].signatures:
        a = sampled(type_)
        b, condition = a[::-1].copy(), np.resize([True, False, False], len(a))
        got = apply("select", (I1, type_, type_), (condition, a, b))
        assert got.dtype == a.dtype and (bits(got) == np.where(condition, bits(a), bits(b))).all()


# --- making values and shapes ---------------------------------------------------------------------------------------


def test_constants() -> None:
    for type_, literal, code in (
        (I8, -1, 0xFF),
        (I8, 255, 0xFF),
        (I64, -(2**63), 1 << 63),
        (I1, 1, 1),
        (I1, -1, 1),
        (F16, 65520.0, 0x7C00),
        (F32, -0.0, 1 << 31),
        (BF16, 1.00390625, 0x3F80),
        (F8E4M3FN, 1e9, 0x7E),
        (F64, 0.1, 0x3FB999999999999A),
    ):
        for shape in ((), (2, 4)):
            value = dense(run(make("constant", (), TileType(shape, type_) if shape else type_, value=literal)))
            assert value.shape == (1, *shape) and set(unsigned_list(value.reshape(-1))) == {code}


def test_program_indices_and_ranges() -> None:
    batch = batch_of(3)
    assert MEANINGS["program_id"](make("program_id", (), axis=0))(batch).tolist() == [0, 1, 2]
    assert MEANINGS["program_id"](make("program_id", (), axis=2))(batch).tolist() == [0, 0, 0]
    assert MEANINGS["num_programs"](make("num_programs", (), axis=0))(batch).tolist() == [3]
    ramp = dense(run(make("arange", (), start=-2, end=2)))
    assert ramp.tolist() == [[-2, -1, 0, 1]] and ramp.dtype == np.int32
    assert dense(run(make("poison", (), TileType((2,), F32)))).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("element", [F32, F8E5M2, I1, I32])
def test_shape_ops_on_arrays(element: ScalarType) -> None:
    values = sampled(element)
    a = np.resize(values, (2, 2, 4, 1))
    tile = TileType((2, 4, 1), element)

    def check(name: str, expected: np.ndarray, **attributes: Any) -> None:
        got = dense(run(make(name, (tile,), **attributes), a))
        assert got.shape == expected.shape and (bits(got) == bits(expected)).all()

    check("broadcast", np.repeat(a, 8, axis=3), shape=(2, 4, 8))
    check("expand_dims", a[:, :, None], axis=1)
    check("reshape", a.reshape(2, 8), shape=(8,))
    check("permute", a.transpose(0, 3, 1, 2), order=(2, 0, 1))
    check("hint", a, divisibility=(1, 1, 1))
    b = np.resize(values[::-1], a.shape)
    joined = dense(run(make("join", (tile, tile)), a, b))
    assert (bits(joined) == bits(np.stack((a, b), axis=-1))).all()
    halves = run(make("split", (TileType((2, 4, 1, 2), element),)), joined)
    assert all((bits(dense(half)) == bits(part)).all() for half, part in zip(halves, (a, b), strict=True))
    scalars = a[:, 0, 0, 0]
    splat = dense(run(make("splat", (element,), shape=(2, 4)), scalars))
    assert (bits(splat) == bits(scalars)[:, None, None]).all() and splat.shape == (2, 2, 4)


def test_pointer_arithmetic_counts_elements_and_wraps() -> None:
    for type_, size in ((PointerType(I1), 1), (PointerType(F16), 2), (PointerType(I64), 8)):
        pointer = np.array([1000, 2**63 - 1], np.int64)
        for offset_type in (I8, I32, I64):
            got = apply("add_ptr", (type_, offset_type), (pointer, np.array([-3, 1], storage(offset_type))))
            assert got.tolist() == [1000 - 3 * size, (2**63 - 1 + size + 2**63) % 2**64 - 2**63]


# --- reductions and products ----------------------------------------------------------------------------------------


INT_FOLDS: dict[str, Callable[[list[int], int], int]] = {
    "reduce_add_i": lambda xs, w: sum(xs),
    "reduce_xor": lambda xs, w: reduce(lambda a, b: a ^ b, xs),
    "reduce_or": lambda xs, w: reduce(lambda a, b: a | b, xs),
    "reduce_min_s": lambda xs, w: min(signed(x, w) for x in xs),
    "reduce_max_s": lambda xs, w: max(signed(x, w) for x in xs),
    "reduce_min_u": lambda xs, w: min(xs),
    "reduce_max_u": lambda xs, w: max(xs),
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", INT_FOLDS)
def test_integer_reductions(name: str, axis: int) -> None:
    for type_ in INTS:
        a = np.resize(RNG.permutation(stored(int_samples(type_.width), type_)), (3, 4, 8))
        got = dense(run(make(name, (TileType((4, 8), type_),), axis=axis), a))
        lines = np.moveaxis(a, axis + 1, -1)
        assert got.dtype == a.dtype and got.shape == lines.shape[:-1]
        for index in np.ndindex(got.shape):
            want = INT_FOLDS[name](unsigned_list(lines[index]), type_.width) % (1 << type_.width)
            assert int(bits(got)[index]) == want, (str(type_), index)


def test_float_sums_are_real_sums_rounded_once() -> None:
    for type_ in (F8E4M3FN, F16, BF16, F32, F64):
        samples = float_samples(type_, 200)
        samples = samples[[finite(x) for x in values_of(samples, type_)]]
        a = RNG.choice(samples, (5, 8))
        got = dense(run(make("reduce_add_f", (TileType((8,), type_),), axis=0), a))
        want = [rounded(sum(map(Fraction, values_of(row, type_)), Fraction(0)), type_) for row in a]
        assert not agree(got, want, type_)


@pytest.mark.parametrize(("name", "pick"), [("reduce_minnum", smaller), ("reduce_maxnum", larger)])
def test_extreme_numbers(name: str, pick: Callable[[float, float], float]) -> None:
    for (type_, _), _ in OPS["minnum"].signatures:
        assert isinstance(type_, FloatType)
        row = FORMATS[type_.name]
        codes = bits(RNG.choice(float_samples(type_, 8), (60, 4)))
        codes[0] = 0
        if row.has_negative_zero:
            codes[1] = [0, row.sign_bit, 0, 0]
        if row.nan_code is not None:
            codes[2:4] = row.nan_code
            codes[3, 1] = 1
        rows = codes.view(row.storage)
        got = dense(run(make(name, (TileType((4,), type_),), axis=0), rows))
        want = []
        for row in rows:
            numbers = [x for x in values_of(row, type_) if not isnan(x)]
            want.append(rounded(reduce(pick, numbers), type_) if numbers else float("nan"))
        assert not agree(got, want, type_), str(type_)


ARGS = [(f"arg{side}_{kind}", side, kind) for side in ("min", "max") for kind in "suf"]


@pytest.mark.parametrize(("name", "side", "kind"), ARGS)
def test_index_of_the_extreme_value(name: str, side: str, kind: str) -> None:
    types = [t for t in (*INTS, F8E5M2, F16, BF16, F32, F64) if isinstance(t, FloatType) == (kind == "f")]
    for type_ in types:
        a = np.resize(RNG.choice(sampled(type_), 24), (40, 8)) if kind != "f" else RNG.choice(sampled(type_), (40, 8))
        values, index = run(make(name, (TileType((8,), type_),), axis=0), a)
        assert index.dtype == np.int32 and values.dtype == a.dtype
        for row, value, where in zip(a, values, index, strict=True):
            if isinstance(type_, FloatType):
                keys: list[Any] = values_of(row, type_)
                numbers = [x for x in keys if not isnan(x)]
                want = keys.index((min if side == "min" else max)(numbers)) if numbers else 0
            else:
                keys = [signed(x, type_.width) if kind == "s" else x for x in unsigned_list(row)]
                want = keys.index((min if side == "min" else max)(keys))
            assert where == want and bits(np.array([value])) == bits(row[want : want + 1])


@pytest.mark.parametrize(("a_type", "b_type", "acc_type"), [
    (F16, F16, F32), (F16, F16, F16), (BF16, BF16, F32), (F32, F32, F32), (F8E5M2, F8E4M3FN, F32),
    (F8E4M3FN, F8E4M3FN, F16), (F64, F64, F64),
])  # fmt: skip
def test_products_are_real_products_rounded_once(a_type: FloatType, b_type: FloatType, acc_type: FloatType) -> None:
    def finite_tile(type_: FloatType, shape: tuple[int, ...]) -> np.ndarray:
        samples = float_samples(type_, 40)
        return RNG.choice(samples[[finite(x) and abs(x) < 1e30 for x in values_of(samples, type_)]], shape)

    a, b, acc = finite_tile(a_type, (2, 4, 8)), finite_tile(b_type, (2, 8, 2)), finite_tile(acc_type, (2, 4, 2))
    types = (TileType((4, 8), a_type), TileType((8, 2), b_type), TileType((4, 2), acc_type))
    got = dense(run(make("dot", types), a, b, acc))
    x, y, z = (np.array([Fraction(v) for v in values_of(t.reshape(-1), k)], object).reshape(t.shape)
               for t, k in ((a, a_type), (b, b_type), (acc, acc_type)))  # fmt: skip
    want = [rounded(v, acc_type) for v in (np.matmul(x, y) + z).reshape(-1)]
    assert got.shape == (2, 4, 2) and not agree(got.reshape(-1), want, acc_type)


def test_tf32_products_truncate_their_operands() -> None:
    types = tuple(TileType((1, 1), F32) for _ in range(3))
    x, one, zero = (np.full((1, 1, 1), v, np.float32) for v in (1 + 2**-11 + 2**-12, 1, 0))
    assert dense(run(make("dot", types, precision="tf32"), x, one, zero)).item() == 1.0
    for precision in ("ieee", "tf32x3", "bf16x3", "bf16x6"):
        assert dense(run(make("dot", types, precision=precision), x, one, zero)).item() == x.item()


def test_integer_products_wrap() -> None:
    a = RNG.integers(-128, 128, (2, 4, 8)).astype(np.int8)
    b = RNG.integers(-128, 128, (2, 8, 2)).astype(np.int8)
    acc = np.full((2, 4, 2), 2**31 - 1, np.int32)
    types = (TileType((4, 8), I8), TileType((8, 2), I8), TileType((4, 2), I32))
    want = (a.astype(np.int64) @ b.astype(np.int64) + acc + 2**31) % 2**32 - 2**31
    assert (dense(run(make("dot", types), a, b, acc)) == want).all()


# --- prints, asserts ------------------------------------------------------------------------------------------------


def printed(types: Sequence[Type], values: Sequence[np.ndarray], count: int = 1, **attributes: Any) -> list[str]:
    batch = batch_of(count)
    operation = make("print", types, **attributes)
    assert MEANINGS["print"](operation)(batch, *values) is None
    assert isinstance(batch.stdout, StringIO)
    return batch.stdout.getvalue().splitlines()


def test_print_writes_one_line_an_element() -> None:
    tile = np.array([[[1.5, 0.1]], [[float("nan"), -0.0]]], np.float32)
    assert printed((TileType((1, 2), F32),), (tile,), 2, prefix="x: ") == [
        "pid (0, 0, 0) idx (0, 0) x: 1.5",
        "pid (0, 0, 0) idx (0, 1) x: 0.1",
        "pid (1, 0, 0) idx (0, 0) x: nan",
        "pid (1, 0, 0) idx (0, 1) x: -0.0",
    ]


def test_print_of_several_values_signs_and_hex() -> None:
    values = (np.array([-1], np.int8), np.array([-1], np.int8), np.array([True]))
    assert printed((I8, I8, I1), values, prefix="v", signed=(True, False, False)) == [
        "pid (0, 0, 0) idx () v (operand 0): -1",
        "pid (0, 0, 0) idx () v (operand 1): 255",
        "pid (0, 0, 0) idx () v (operand 2): 1",
    ]
    assert printed((F16,), (np.array([1.0], np.float16),), prefix="h", hex=True) == ["pid (0, 0, 0) idx () h: 0x3c00"]
    assert printed((PointerType(F16),), (np.array([4096]),), prefix="p") == [
        "pid (0, 0, 0) idx () p: 0x0000000000001000"
    ]
    assert printed((), (), 2, prefix="here") == ["pid (0, 0, 0) here", "pid (1, 0, 0) here"]


def test_assertions_name_message_program_and_index() -> None:
    types = (TileType((2, 2), I1), TileType((2, 2), I1))
    condition = np.ones((3, 2, 2), np.bool_)
    condition[1, 1, 0] = condition[2, 0, 0] = False
    check = MEANINGS["assert"](make("assert", types[:1], message="x must be even"))
    with pytest.raises(DeviceAssertError) as caught:
        check(batch_of(3), condition)
    assert str(caught.value) == (
        "kernels.add:7:5: device assertion failed: x must be even; at index (1, 0) of the tile (program (1, 0, 0))"
    )
    assert check(batch_of(3, debug=False), condition) is None
    masked = MEANINGS["assert"](make("assert", types, message="m"))
    assert masked(batch_of(3), condition, condition) is None
    with pytest.raises(DeviceAssertError, match="m "):
        MEANINGS["assert"](make("assert", (I1,), message="m"))(batch_of(1), np.array([False]))


def test_promises_and_barriers_do_nothing() -> None:
    assert MEANINGS["assume"](make("assume", (I1,)))(batch_of(1), np.array([False])) is None
    assert MEANINGS["barrier"](make("barrier", ()))(batch_of(1)) is None
