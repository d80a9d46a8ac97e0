"""Floating-point instructions against exact rationals, in every rounding mode, on special and random values."""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.interpreter.ptx.programs import evaluate
from tests.interpreter.ptx.reals import LAYOUTS, MODES, round_real, specials

pytestmark = pytest.mark.usefixtures("quiet")

NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFF_FFFF, "f64": 0x7FF8_0000_0000_0000}


@pytest.fixture
def quiet() -> Iterator[None]:
    """Reading a signaling NaN is no reason to warn."""
    with np.errstate(all="ignore"):
        yield


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def samples(fmt: str, count: int, arity: int) -> list[np.ndarray]:
    """Every combination of special values, and random ones of all sizes."""
    dtype = np.dtype(LAYOUTS[fmt][0])
    rng = np.random.default_rng(len(fmt) + count)
    raw = rng.integers(0, 1 << 8 * dtype.itemsize, (arity, count), f"u{dtype.itemsize}").view(dtype)
    near = rng.standard_normal((arity, count)).astype(dtype)
    chosen = specials(fmt)[:: 1 if arity < 3 else 3]
    rows = np.array(list(product(chosen, repeat=arity)), dtype).T
    edges = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0]).astype(dtype)
    odd = np.array(list(product(edges, repeat=arity)), dtype).T
    return [np.concatenate([raw[k], near[k], rows[k], odd[k]]) for k in range(arity)]


def exact(name: str, values: tuple[float, ...]) -> Fraction | None:
    """The real result; None where it is no nonzero rational."""
    if not all(map(math.isfinite, values)):
        return None
    a, *rest = (Fraction(v) for v in values)
    if name in ("add", "sub", "mul"):
        result = {"add": a + rest[0], "sub": a - rest[0], "mul": a * rest[0]}[name]
    elif name == "fma":
        result = a * rest[0] + rest[1]
    elif name == "div":
        if not rest[0]:
            return None
        result = a / rest[0]
    else:
        if not a:
            return None
        result = 1 / a
    return result or None


def plain(name: str, values: tuple[float, ...], mode: str) -> float:
    """The result where no rounding takes place: infinities, NaN and zeros."""
    with np.errstate(all="ignore"):
        x = [np.float64(v) for v in values]
        total = {
            "add": lambda: x[0] + x[1], "sub": lambda: x[0] - x[1], "mul": lambda: x[0] * x[1],
            "div": lambda: x[0] / x[1], "rcp": lambda: np.float64(1) / x[0],
        }  # fmt: skip
        if name == "fma":
            if all(map(math.isfinite, x)):
                parts = (x[0] * x[1], x[2]) if 0 in x[:2] else (np.float64(1), np.float64(-1))
            elif all(map(math.isfinite, x[:2])):
                return float(x[2])
            else:
                parts = (x[0] * x[1], x[2])
        elif name in ("add", "sub"):
            parts = (x[0], x[1] if name == "add" else -x[1])
        else:
            return float(total[name]())
        result = float(parts[0] + parts[1])
        opposite = math.copysign(1, parts[0]) != math.copysign(1, parts[1])
        return -0.0 if result == 0 and mode == "rm" and opposite else result


def expected(name: str, fmt: str, mode: str, columns: list[np.ndarray]) -> np.ndarray:
    out = []
    for row in zip(*(c.astype(np.float64).tolist() for c in columns), strict=True):
        real = exact(name, row)
        out.append(plain(name, row, mode) if real is None else round_real(real, fmt, mode))
    result = np.array(out).astype(LAYOUTS[fmt][0])
    bits(result)[np.isnan(result)] = NAN[fmt]
    return result


ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "rcp": 1}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", ["f32", "f64"])
@pytest.mark.parametrize("name", ARITY)
def test_rounding(name: str, fmt: str, mode: str) -> None:
    columns = samples(fmt, 300, ARITY[name])
    operands = ", ".join(f"%a{k}" for k in range(len(columns)))
    (got,) = evaluate(f"{name}.{mode}.{fmt} %d0, {operands};", *columns, results=[columns[0].dtype])
    want = expected(name, fmt, mode, columns)
    if fmt == "f64":  # whose NaNs are in `test_nans`
        got, want = (np.where(np.isnan(x), np.nan, x) for x in (got, want))
    wrong = np.flatnonzero(bits(got) != bits(want))
    assert not len(wrong), [(c[wrong[0]] for c in columns), got[wrong[0]], want[wrong[0]]]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_halves_and_pairs(name: str, fmt: str) -> None:
    columns = samples(fmt, 300, ARITY[name])
    columns = [c[: len(c) // 2 * 2] for c in columns]
    operands = ", ".join(f"%a{k}" for k in range(len(columns)))
    want = expected(name, fmt, "rn", columns)
    (got,) = evaluate(f"{name}.rn.{fmt} %d0, {operands};", *columns, results=[columns[0].dtype])
    assert np.array_equal(bits(got), bits(want))
    (pairs,) = evaluate(f"{name}.rn.{fmt}x2 %d0, {operands};", *(c.view(np.uint32) for c in columns))
    assert np.array_equal(pairs, want.view(np.uint32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_sqrt(fmt: str, mode: str) -> None:
    x = np.abs(samples(fmt, 300, 1)[0])
    (got,) = evaluate(f"sqrt.{mode}.{fmt} %d0, %a0;", x, results=[x.dtype])
    for value, root in zip(x.tolist(), got.tolist(), strict=True):
        if not math.isfinite(value) or value == 0:
            assert root == math.sqrt(value) or math.isnan(value)
            continue
        # Enough digits that the root, rounded down, decides every mode but an exact tie, which a square root is never.
        scale = 4**1200
        whole = math.isqrt(Fraction(value) * scale * scale // 1)
        real = Fraction(whole, scale)
        if whole * whole != Fraction(value) * scale * scale:
            real += Fraction(1, 4 * scale)
        assert root == round_real(real, fmt, mode), value
    negative = np.array([-1.0, -0.0, -np.inf], x.dtype)
    (got,) = evaluate(f"sqrt.{mode}.{fmt} %d0, %a0;", negative, results=[x.dtype])
    assert np.isnan(got[[0, 2]]).all() and bits(got)[1] == bits(negative)[1]


def flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)


@pytest.mark.parametrize("name", ["add", "mul", "fma"])
def test_flush_to_zero(name: str) -> None:
    columns = samples("f32", 300, ARITY[name])
    operands = ", ".join(f"%a{k}" for k in range(len(columns)))
    (got,) = evaluate(f"{name}.rn.ftz.f32 %d0, {operands};", *columns, results=[np.float32])
    columns = [flush(c) for c in columns]
    want = expected(name, "f32", "rn", columns)
    for n, row in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        real = exact(name, row)  # 2**64 times as large its exponent has no end here
        if real is not None and abs(round_real(real * 2**64, "f32", "rn")) < 2.0**-62:
            want[n] = np.copysign(np.float32(0), want[n])
    assert np.array_equal(bits(got), bits(want))


def test_what_is_flushed_is_rounded_as_if_the_exponent_had_no_end() -> None:
    a = np.array([2.0**-75, 2.0**-76, 2.0**-70], np.float32)
    body = "neg.f32 %a1, %a1; fma.{}.ftz.f32 %d0, %a0, %a1, 0f00800000;"
    for mode, want in (("rn", [0, 0x80_0000, 0]), ("rp", [0, 0x80_0000, 0]), ("rz", [0, 0, 0])):
        (got,) = evaluate(body.format(mode), a, a, results=[np.float32])
        assert bits(got).tolist() == want


def test_saturation_and_relu() -> None:
    a = np.array([-1.0, -0.0, 0.25, 1.0, 7.0, np.inf, -np.inf, np.nan], np.float32)
    (got,) = evaluate("add.rn.sat.f32 %d0, %a0, 0f00000000;", a, results=[np.float32])
    assert bits(got).tolist() == bits(np.array([0, 0, 0.25, 1, 1, 1, 0, 0], np.float32)).tolist()
    h = a.astype(np.float16)
    one, zero = np.ones(8, np.float16), np.zeros(8, np.float16)
    (got,) = evaluate("fma.rn.relu.f16 %d0, %a0, %a1, %a2;", h, one, zero, results=[np.float16])
    assert got[:7].tolist() == [0, 0, 0.25, 1, 7, np.inf, 0] and bits(got)[7] == 0x7FFF


@pytest.mark.parametrize("fmt", ["f32", "f64", "f16", "bf16"])
def test_minima_and_maxima(fmt: str) -> None:
    a, b = samples(fmt, 50, 2)
    modifiers = [""] if fmt == "f64" else ["", ".NaN"]
    for name, modifier in product(("min", "max"), modifiers):
        (got,) = evaluate(f"{name}{modifier}.{fmt} %d0, %a0, %a1;", a, b, results=[a.dtype])
        for x, y, z in zip(*(v.astype(np.float64).tolist() for v in (a, b, got)), strict=True):
            if math.isnan(x) or math.isnan(y):
                other = y if math.isnan(x) else x
                assert math.isnan(z) if modifier or math.isnan(other) else z == other
                continue
            key = lambda v: (v, math.copysign(1, v))  # noqa: E731
            want = min(x, y, key=key) if name == "min" else max(x, y, key=key)
            assert (z, math.copysign(1, z)) == (want, math.copysign(1, want))


def test_signs_move_bits() -> None:
    """Those of numbers; a NaN becomes the one of f32, except under copysign."""
    a, b = samples("f32", 50, 2)
    for name, moved in (("neg", bits(a) ^ 0x8000_0000), ("abs", bits(a) & 0x7FFF_FFFF)):
        (got,) = evaluate(f"{name}.f32 %d0, %a0;", a, results=[np.float32])
        assert np.array_equal(bits(got), np.where(np.isnan(a), NAN["f32"], moved))
    (got,) = evaluate("copysign.f32 %d0, %a0, %a1;", a, b, results=[np.float32])
    assert np.array_equal(bits(got), bits(b) & 0x7FFF_FFFF | bits(a) & 0x8000_0000)


@pytest.mark.parametrize("fmt", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("operator", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(operator: str, fmt: str) -> None:
    a, b = samples(fmt, 50, 2)
    x, y = a.astype(np.float64), b.astype(np.float64)
    nan = np.isnan(x) | np.isnan(y)
    rule = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[operator]
    (ordered,) = evaluate(f"setp.{operator}.{fmt} %d0, %a0, %a1;", a, b, results=[np.bool_])
    (unordered,) = evaluate(f"setp.{operator}u.{fmt} %d0, %a0, %a1;", a, b, results=[np.bool_])
    assert np.array_equal(ordered, rule & ~nan)
    assert np.array_equal(unordered, rule | nan)
    num, is_nan = (evaluate(f"setp.{k}.{fmt} %d0, %a0, %a1;", a, b, results=[np.bool_])[0] for k in ("num", "nan"))
    assert np.array_equal(num, ~nan) and np.array_equal(is_nan, nan)


def test_packed_comparison_and_set() -> None:
    a = np.array([1.0, 2.0, np.nan, 4.0], np.float16)
    b = np.array([2.0, 2.0, 1.0, 3.0], np.float16)
    p, q = evaluate("setp.lt.f16x2 %d0|%d1, %a0, %a1;", a.view(np.uint32), b.view(np.uint32), results=[np.bool_] * 2)
    assert p.tolist() == [True, False] and q.tolist() == [False, False]
    words = a.view(np.uint32), b.view(np.uint32)
    assert evaluate("set.le.u32.f16x2 %d0, %a0, %a1;", *words)[0].tolist() == [0xFFFF_FFFF, 0]
    assert evaluate("set.geu.s32.f16x2 %d0, %a0, %a1;", *words)[0].tolist() == [0xFFFF_0000, 0xFFFF_FFFF]
    (got,) = evaluate("set.gtu.f16x2.f16x2 %d0, %a0, %a1;", *words, results=[np.uint32])
    assert got.view(np.float16).tolist() == [0, 0, 1, 1]
    (got,) = evaluate("set.lt.or.bf16x2.bf16x2 %d0, %a0, %a1, %a2;", *words, np.array([True, False]))
    assert got.tolist() == [0x3F80_3F80, 0]
    tiny = np.array([[1, 0x8001], [0, 0]], np.uint16).view(np.uint32).reshape(-1)
    (got,) = evaluate("set.eq.and.ftz.u32.f16x2 %d0, %a0, 0, !%a1;", tiny, np.array([False, True]))
    assert got.tolist() == [0xFFFF_FFFF, 0]
    x = np.array([1.0, 3.0], np.float32)
    (got,) = evaluate("set.lt.f32.f32 %d0, %a0, 0f40000000;", x, results=[np.float32])
    assert got.tolist() == [1.0, 0.0]


TESTS: dict[str, Any] = {
    "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda x: ~np.isnan(x),
    "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= np.finfo(x.dtype).tiny) | (x == 0)),
    "subnormal": lambda x: (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0),
}  # fmt: skip


@pytest.mark.parametrize("test", TESTS)
def test_testp(test: str) -> None:
    for fmt in ("f32", "f64"):
        (x,) = samples(fmt, 50, 1)
        (got,) = evaluate(f"testp.{test}.{fmt} %d0, %a0;", x, results=[np.bool_])
        assert np.array_equal(got, TESTS[test](x))


FUNCTIONS: dict[str, Any] = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt, "rcp": lambda x: 1 / x,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_approximations_are_nearest(name: str) -> None:
    x = np.concatenate([samples("f32", 200, 1)[0], np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)])
    (got,) = evaluate(f"{name}.approx.f32 %d0, %a0;", x, results=[np.float32])
    with np.errstate(all="ignore"):
        real = FUNCTIONS[name](x.astype(np.float64))
        want = real.astype(np.float32)
        near = np.abs(got.astype(np.float64) - real) <= np.spacing(np.abs(want)).astype(np.float64) * 0.5000001
    assert (near | (got == want) | (np.isnan(got) & np.isnan(want))).all()


def test_approximate_division() -> None:
    a = np.array([1, 7, np.inf, 0, np.nan, 3, -3], np.float32)
    b = np.array([3, 2.0**127, 2.0**127, 0, 1, np.inf, 2.0**127], np.float32)
    (got,) = evaluate("div.approx.f32 %d0, %a0, %a1;", a, b, results=[np.float32])
    assert got[0] == np.float32(1) / np.float32(3) and bits(got)[1] == 0 and np.isnan(got[2:5]).all()
    assert bits(got)[5] == 0 and bits(got)[6] == 0x8000_0000
    (full,) = evaluate("div.full.f32 %d0, %a0, %a1;", a, b, results=[np.float32])
    assert full[1] == np.float32(7 * 2.0**-127) and full[2] == np.inf


def test_half_precision_functions() -> None:
    x = np.array([0.5, -1.25, 0.0, 10.0], np.float16)
    for name, rule in (("ex2", np.exp2), ("tanh", np.tanh)):
        (got,) = evaluate(f"{name}.approx.f16 %d0, %a0;", x, results=[np.float16])
        assert np.array_equal(got, rule(x.astype(np.float64)).astype(np.float16))
        (pairs,) = evaluate(f"{name}.approx.f16x2 %d0, %a0;", x.view(np.uint32))
        assert np.array_equal(pairs.view(np.float16), got)
