"""Reports of conversions: between numbers of any two types, of literals, and of what launches pass."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import Level, deep
from tests.interpreter.numerics import oracle

Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf


@tilewright.jit
def casts(x, out, BLOCK: tl.constexpr, TO: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(TO))


@tilewright.jit
def casts_to_bits(x, out, BLOCK: tl.constexpr, TO: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(TO).to(tl.uint8, bitcast=True))


@tilewright.jit
def casts_from_bits(x, out, BLOCK: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(FROM, bitcast=True).to(TO))


# --- floats to integers ---


def clamped(x: Array, name: str) -> list[int]:
    """Truncated toward zero, held to the range; 0 for NaN."""
    info = np.iinfo(name)
    values = [float(value) for value in x.astype(np.float64)]
    return [
        0 if v != v else info.max if v > info.max else info.min if v < info.min else int(v) for v in values
    ]  # fmt: skip


@pytest.mark.parametrize("source", [np.float16, np.float32, *deep(ml_dtypes.bfloat16, np.float64)])
@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint64", *deep("int16", "uint16", "uint32", "int64")])
def test_floats_beyond_an_integer_type_are_clamped_and_nan_is_0(level: Level, source: Any, name: str) -> None:
    info = np.iinfo(name)
    ends = [float(info.min), float(info.max)]
    values = [INF, -INF, NAN, -NAN, 510, -200, -1, -0.5, 0.5, -1.5, 300, 1e30, -1e30, *ends]
    beside = [end * (1 + sign * 2.0**-p) for end in ends for sign in (1, -1) for p in (6, 9, 20, 40)]
    with np.errstate(over="ignore"):
        x = np.resize(np.array([*values, *beside, *(end + d for end in ends for d in (1, -1))]).astype(source), 64)
    out = np.zeros(64, name)
    level.run(casts, (1,), x, out, BLOCK=64, TO=getattr(tl, name))
    assert out.tolist() == clamped(x, name)


# --- 8-bit floats ---

FP8 = {"float8e5": "f8e5m2", "float8e4nv": "f8e4m3fn", "float8e5b16": "f8e5m2fnuz", "float8e4b8": "f8e4m3fnuz"}
FP8 |= {"float8e4b15": "f8e4m3b15"}


def encoded(x: Array, name: str) -> Array:
    """The codes of the numbers, rounded once, to nearest even and saturating: in rational arithmetic."""
    with np.errstate(invalid="ignore"):
        return oracle.encode(x.astype(np.float64), FP8[name], "rtne")


@pytest.mark.parametrize("name", FP8)
@pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("step", [17, *deep(1)])
def test_numbers_of_16_bits_become_the_nearest_of_8(level: Level, name: str, source: Any, step: int) -> None:
    """Every one of them in deep runs, and on a GPU."""
    codes = np.arange(0, 1 << 16, step).astype(np.uint16)
    x = np.resize(codes, -(-len(codes) // 1024) * 1024).view(source)
    out = np.zeros(len(x), np.uint8)
    level.run(casts_to_bits, (len(x) // 1024,), x, out, BLOCK=1024, TO=getattr(tl, name))
    nan = np.isnan(x.astype(np.float32))
    wrong = (out != encoded(x, name)) & ~nan
    assert not wrong.any(), (x[wrong][:5], out[wrong][:5])
    if name == "float8e4b15":  # which has no NaN: the largest number of the NaN's sign
        assert (out[nan] == np.where(np.signbit(x[nan].astype(np.float32)), 0xFF, 0x7F)).all()
    else:
        assert np.isnan(oracle.decode(out[nan].astype(np.uint16), FP8[name])).all()


@pytest.mark.parametrize("name", FP8)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_wide_numbers_around_every_tie_are_rounded_once(level: Level, name: str, source: Any) -> None:
    """Ties, their neighbours (which a step through float16 would lose), subnormals, both zeros, and what saturates."""
    table = oracle.table(FP8[name])
    points = np.concatenate([table.values, table.midpoints, [table.limit, 2 * table.limit, 1e-30, 57344 * 1.1, 0.0]])
    beside = [points * (1 + s * 2.0**-p) for s in (1, -1) for p in (10, 14, 22)]
    x = np.concatenate([points, *beside, [INF]]).astype(source)
    x = np.concatenate([x, -x])
    x = np.resize(x, 256 * -(-len(x) // 256))
    out = np.zeros(len(x), np.uint8)
    level.run(casts_to_bits, (len(x) // 256,), x, out, BLOCK=256, TO=getattr(tl, name))
    assert (out == encoded(x, name)).all()


@pytest.mark.parametrize("name", FP8)
@pytest.mark.parametrize("target", ["float32", *deep("float16", "bfloat16", "float64")])
def test_every_number_of_8_bits_widens_to_itself(level: Level, name: str, target: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    dtype = ml_dtypes.bfloat16 if target == "bfloat16" else np.dtype(target)
    out = np.zeros(256, dtype)
    level.run(casts_from_bits, (1,), codes, out, BLOCK=256, FROM=getattr(tl, name), TO=getattr(tl, target))
    finite = np.isfinite(out.astype(np.float64))
    assert (encoded(out[finite], name) == codes[finite]).all()
    assert finite.sum() >= 247


def test_the_values_of_the_reports(level: Level) -> None:
    cases = [
        ("float8e5", np.float16, [1.125, 9, INF, -INF], [1.0, 8.0, 57344, -57344]),
        ("float8e4nv", np.float32, [1.0625001, 126.24, INF, 500], [1.125, 128, 448, 448]),
        ("float8e4nv", np.float64, [1.0625000001, 126.24, -0.0, 2.0**-10], [1.125, 128, -0.0, 0.0]),
    ]
    for name, source, given, wanted in cases:
        codes, back = np.zeros(4, np.uint8), np.zeros(4, np.float32)
        level.run(casts_to_bits, (1,), np.array(given, source), codes, BLOCK=4, TO=getattr(tl, name))
        level.run(casts_from_bits, (1,), codes, back, BLOCK=4, FROM=getattr(tl, name), TO=tl.float32)
        assert back.tobytes() == np.array(wanted, np.float32).tobytes(), name


# --- literals ---


@tilewright.jit
def negative_zeros(x, out, N: tl.constexpr, ZERO: tl.constexpr, zero):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    minus = -0.0
    tl.store(out + 0 * N + i, tl.where(value > 0, -0.0, value))
    tl.store(out + 1 * N + i, tl.where(value > 0, minus, value))
    tl.store(out + 2 * N + i, tl.where(value > 0, ZERO, value))
    tl.store(out + 3 * N + i, tl.where(value > 0, zero, value))
    tl.store(out + 4 * N + i, tl.full((N,), -0.0, out.dtype.element_ty))
    tl.store(out + 5 * N + i, value * 0 + 1 / tl.full((N,), -0.0, out.dtype.element_ty))
    tl.store(out + 6 * N + i, tl.load(x + i, mask=i < 0, other=-0.0))
    tl.store(out + 7 * N + i, -0.0)


@tilewright.jit
def positive_zeros(out, N: tl.constexpr, ZERO: tl.constexpr):
    tl.store(out + tl.arange(0, N), ZERO)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a_literal_keeps_the_sign_of_its_zero(level: Level, dtype: Any) -> None:
    x, out = np.full(16, 2, dtype), np.full((8, 16), 3, dtype)
    level.run(negative_zeros, (1,), x, out, N=16, ZERO=-0.0, zero=-0.0)
    got = out.astype(np.float64)
    assert np.signbit(got).all() and (got[5] == -INF).all() and (np.delete(got, 5, 0) == 0).all()
    for zero in (0.0, -0.0, 0.0):  # kernels for both, one after the other
        level.run(positive_zeros, (1,), out, N=16, ZERO=zero)
        assert (np.signbit(out[0].astype(float)) == np.signbit(zero)).all()


# --- numbers that a launch passes ---


@tilewright.jit
def receives(
    a: tl.int1, b: tl.float64, c: tl.int8, d: tl.uint64, e: tl.float16, f: tl.int32, g: tl.uint8, h: tl.int64,
    i: tl.bfloat16, j: tl.uint16, k: tl.float32, m: tl.int16, n: tl.uint32, nothing, out, floats,
):  # fmt: skip
    tl.static_assert(nothing is None)
    tl.store(out + 0, a)
    tl.store(out + 1, c)
    tl.store(out + 2, m)
    tl.store(out + 3, f)
    tl.store(out + 4, h)
    tl.store(out + 5, g)
    tl.store(out + 6, j)
    tl.store(out + 7, n)
    tl.store(out + 8, d.to(tl.int64, bitcast=True))
    tl.store(floats + 0, b)
    tl.store(floats + 1, e)
    tl.store(floats + 2, i)
    tl.store(floats + 3, k)


@pytest.mark.parametrize("sign", [0, 1])
def test_a_number_of_every_type_arrives_at_its_place(level: Level, sign: int) -> None:
    signed = {name: -(1 << (bits - 1)) if sign else (1 << (bits - 1)) - 1 for name, bits in BITS.items()}
    unsigned = {"g": 255 - sign, "j": 65535 - sign, "n": 2**32 - 1 - sign, "d": 2**64 - 1 - sign}
    floats = {"b": -0.1, "e": 65500.0, "i": 2.5, "k": 0.125} if sign else {"b": 1e300, "e": 42.0, "i": -1.0, "k": 3e38}
    out, got = np.zeros(9, np.int64), np.zeros(4, np.float64)
    level.run(receives, (1,), a=bool(sign), **signed, **unsigned, **floats, nothing=None, out=out, floats=got)
    whole = [sign, *(signed[n] for n in "cmfh"), *(unsigned[n] for n in "gjn"), -1 - sign]
    assert out.tolist() == whole
    rounded = [floats["b"], float(np.float16(floats["e"])), floats["i"], float(np.float32(floats["k"]))]
    assert got.tolist() == rounded


BITS = {"c": 8, "m": 16, "f": 32, "h": 64}


@tilewright.jit
def unannotated(n, out, wide):
    tl.store(out, n)
    tl.store(wide, n.dtype.primitive_bitwidth)
    tl.store(wide + 1, n.dtype.is_int_signed())


@pytest.mark.parametrize(
    ("value", "width", "signed"),
    [
        (2**31 - 1, 32, True), (2**31, 64, True), (2**32 - 1, 64, True), (2**32, 64, True), (2**63 - 1, 64, True),
        (2**63, 64, False), (2**64 - 1, 64, False), (-1, 32, True), (-(2**31), 32, True), (-(2**31) - 1, 64, True),
        (-(2**63), 64, True),
    ],
)  # fmt: skip
def test_an_integer_has_the_type_that_holds_it(level: Level, value: int, width: int, signed: bool) -> None:
    out, wide = np.zeros(1, np.int64 if signed else np.uint64), np.zeros(2, np.int32)
    level.run(unannotated, (1,), value, out, wide)
    assert int(out[0]) == value and wide.tolist() == [width, int(signed)]
