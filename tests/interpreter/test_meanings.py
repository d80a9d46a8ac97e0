"""What ops on integers, conversions, shapes and prints mean, against Python's integers and rationals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from io import StringIO
from math import copysign, isinf, isnan
from typing import Any

import numpy as np
import pytest

from tests.interpreter.oracles import (
    agree,
    apply,
    batch_of,
    bits,
    evaluate,
    finite,
    float_samples,
    int_samples,
    make,
    nearest,
    sampled,
    signed,
    stored,
    unsigned_list,
    values_of,
)
from tilewright.interpreter.errors import DeviceAssertError
from tilewright.interpreter.meanings import MEANINGS
from tilewright.interpreter.numerics import FORMATS
from tilewright.interpreter.values import dense, storage
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
    OPS,
    FloatType,
    IntType,
    PointerType,
    ScalarType,
    TileType,
    Type,
)

CONTROL = {"for", "while", "if", "call", "reduce", "yield", "condition", "return"}


def test_every_row_has_a_meaning_or_is_control() -> None:
    assert set(MEANINGS) == set(OPS) - CONTROL


# --- integers -------------------------------------------------------------------------------------------------------


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


# --- conversions ----------------------------------------------------------------------------------------------------


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
            value = dense(evaluate(make("constant", (), TileType(shape, type_) if shape else type_, value=literal)))
            assert value.shape == (1, *shape) and set(unsigned_list(value.reshape(-1))) == {code}


def test_program_indices_and_ranges() -> None:
    batch = batch_of(3)
    assert MEANINGS["program_id"](make("program_id", (), axis=0))(batch).tolist() == [0, 1, 2]
    assert MEANINGS["program_id"](make("program_id", (), axis=2))(batch).tolist() == [0, 0, 0]
    assert MEANINGS["num_programs"](make("num_programs", (), axis=0))(batch).tolist() == [3]
    ramp = dense(evaluate(make("arange", (), start=-2, end=2)))
    assert ramp.tolist() == [[-2, -1, 0, 1]] and ramp.dtype == np.int32
    assert dense(evaluate(make("poison", (), TileType((2,), F32)))).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("element", [F32, F8E5M2, I1, I32])
def test_shape_ops_on_arrays(element: ScalarType) -> None:
    values = sampled(element)
    a = np.resize(values, (2, 2, 4, 1))
    tile = TileType((2, 4, 1), element)

    def check(name: str, expected: np.ndarray, **attributes: Any) -> None:
        got = dense(evaluate(make(name, (tile,), **attributes), a))
        assert got.shape == expected.shape and (bits(got) == bits(expected)).all()

    check("broadcast", np.repeat(a, 8, axis=3), shape=(2, 4, 8))
    check("expand_dims", a[:, :, None], axis=1)
    check("reshape", a.reshape(2, 8), shape=(8,))
    check("permute", a.transpose(0, 3, 1, 2), order=(2, 0, 1))
    check("hint", a, divisibility=(1, 1, 1))
    b = np.resize(values[::-1], a.shape)
    joined = dense(evaluate(make("join", (tile, tile)), a, b))
    assert (bits(joined) == bits(np.stack((a, b), axis=-1))).all()
    halves = evaluate(make("split", (TileType((2, 4, 1, 2), element),)), joined)
    assert all((bits(dense(half)) == bits(part)).all() for half, part in zip(halves, (a, b), strict=True))
    scalars = a[:, 0, 0, 0]
    splat = dense(evaluate(make("splat", (element,), shape=(2, 4)), scalars))
    assert (bits(splat) == bits(scalars)[:, None, None]).all() and splat.shape == (2, 2, 4)


def test_pointer_arithmetic_counts_elements_and_wraps() -> None:
    for type_, size in ((PointerType(I1), 1), (PointerType(F16), 2), (PointerType(I64), 8)):
        pointer = np.array([1000, 2**63 - 1], np.int64)
        for offset_type in (I8, I32, I64):
            got = apply("add_ptr", (type_, offset_type), (pointer, np.array([-3, 1], storage(offset_type))))
            assert got.tolist() == [1000 - 3 * size, (2**63 - 1 + size + 2**63) % 2**64 - 2**63]


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
        "kernels.f:3:9: device assertion failed: x must be even; at index (1, 0) of the tile (program (1, 0, 0))"
    )
    assert check(batch_of(3, debug=False), condition) is None
    masked = MEANINGS["assert"](make("assert", types, message="m"))
    assert masked(batch_of(3), condition, condition) is None
    with pytest.raises(DeviceAssertError, match="m "):
        MEANINGS["assert"](make("assert", (I1,), message="m"))(batch_of(1), np.array([False]))


def test_promises_and_barriers_do_nothing() -> None:
    assert MEANINGS["assume"](make("assume", (I1,)))(batch_of(1), np.array([False])) is None
    assert MEANINGS["barrier"](make("barrier", ()))(batch_of(1)) is None
