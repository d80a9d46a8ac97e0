"""What ops on floats, reductions and products mean, against rationals and mpmath rounded once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from math import copysign, fmod, isinf, isnan
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.interpreter.oracles import (
    RNG,
    agree,
    apply,
    bits,
    evaluate,
    finite,
    float_samples,
    int_samples,
    larger,
    make,
    rounded,
    sampled,
    signed,
    smaller,
    stored,
    unsigned_list,
    values_of,
)
from tilewright.interpreter.numerics import FORMATS
from tilewright.interpreter.values import dense, storage
from tilewright.lang import (
    BF16,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I32,
    INTS,
    OPS,
    FloatType,
    TileType,
)

# --- floats ---------------------------------------------------------------------------------------------------------


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
        got = dense(evaluate(make(name, (TileType((4, 8), type_),), axis=axis), a))
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
        got = dense(evaluate(make("reduce_add_f", (TileType((8,), type_),), axis=0), a))
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
        got = dense(evaluate(make(name, (TileType((4,), type_),), axis=0), rows))
        want = []
        for row in rows:
            numbers = [x for x in values_of(row, type_) if not isnan(x)]
            want.append(rounded(reduce(pick, numbers), type_) if numbers else float("nan"))
        assert not agree(got, want, type_), str(type_)


@pytest.mark.parametrize("nan", ["quiet", "signaling"])
@pytest.mark.parametrize("type_", [F16, F32, F64], ids=str)
def test_extremes_beside_every_nan(type_: FloatType, nan: str) -> None:
    row = FORMATS[type_.name]
    payload = 1 if nan == "signaling" else 1 << (row.mantissa_bits - 1)
    assert row.inf_code is not None
    numbers = np.array([3.0, 1.0, 2.0, 1.5]).astype(row.storage)
    for length, sign in itertools.product((5, 8, 67), (0, row.sign_bit)):
        tiles = np.full((5, length), row.inf_code | payload | sign, row.carrier).view(row.storage)
        for place, tile in enumerate(tiles[:4]):
            tile[np.arange(place, place + 2) % 5] = numbers[place : place + 2] if place < 3 else numbers[[3, 0]]
        shape = (TileType((length,), type_),)
        for name, pick in (("min", min), ("max", max)):
            want = [pick(x for x in values_of(tile, type_) if not isnan(x)) for tile in tiles[:4]]
            number = dense(evaluate(make(f"reduce_{name}num", shape, axis=0), tiles))
            assert values_of(number[:4], type_) == want and bits(number)[4] == row.nan_code
            value, index = evaluate(make(f"arg{name}_f", shape, axis=0), tiles)
            assert values_of(value[:4], type_) == want and bits(value)[4] == bits(tiles)[4, 0]
            assert index.tolist() == [values_of(t, type_).index(x) for t, x in zip(tiles, want, strict=False)] + [0]


ARGS = [(f"arg{side}_{kind}", side, kind) for side in ("min", "max") for kind in "suf"]


@pytest.mark.parametrize(("name", "side", "kind"), ARGS)
def test_index_of_the_extreme_value(name: str, side: str, kind: str) -> None:
    types = [t for t in (*INTS, F8E5M2, F16, BF16, F32, F64) if isinstance(t, FloatType) == (kind == "f")]
    for type_ in types:
        a = np.resize(RNG.choice(sampled(type_), 24), (40, 8)) if kind != "f" else RNG.choice(sampled(type_), (40, 8))
        values, index = evaluate(make(name, (TileType((8,), type_),), axis=0), a)
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
    got = dense(evaluate(make("dot", types), a, b, acc))
    x, y, z = (np.array([Fraction(v) for v in values_of(t.reshape(-1), k)], object).reshape(t.shape)
               for t, k in ((a, a_type), (b, b_type), (acc, acc_type)))  # fmt: skip
    want = [rounded(v, acc_type) for v in (np.matmul(x, y) + z).reshape(-1)]
    assert got.shape == (2, 4, 2) and not agree(got.reshape(-1), want, acc_type)


def test_tf32_products_truncate_their_operands() -> None:
    types = tuple(TileType((1, 1), F32) for _ in range(3))
    x, one, zero = (np.full((1, 1, 1), v, np.float32) for v in (1 + 2**-11 + 2**-12, 1, 0))
    assert dense(evaluate(make("dot", types, precision="tf32"), x, one, zero)).item() == 1.0
    for precision in ("ieee", "tf32x3", "bf16x3", "bf16x6"):
        assert dense(evaluate(make("dot", types, precision=precision), x, one, zero)).item() == x.item()


def test_integer_products_wrap() -> None:
    a = RNG.integers(-128, 128, (2, 4, 8)).astype(np.int8)
    b = RNG.integers(-128, 128, (2, 8, 2)).astype(np.int8)
    acc = np.full((2, 4, 2), 2**31 - 1, np.int32)
    types = (TileType((4, 8), I8), TileType((8, 2), I8), TileType((4, 2), I32))
    want = (a.astype(np.int64) @ b.astype(np.int64) + acc + 2**31) % 2**32 - 2**31
    assert (dense(evaluate(make("dot", types), a, b, acc)) == want).all()
