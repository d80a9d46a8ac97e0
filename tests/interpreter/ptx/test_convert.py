"""Conversions against exact rationals: every pair of types and every mode."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.interpreter.numerics import oracle
from tests.interpreter.ptx.programs import evaluate
from tests.interpreter.ptx.reals import LAYOUTS, MODES, round_real, specials
from tilewright.interpreter.ptx import PtxError

INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")


def integer_type(name: str) -> np.dtype:
    return np.dtype(f"{'i' if name[0] == 's' else 'u'}{int(name[1:]) // 8}")


def integers(name: str) -> np.ndarray:
    bits = int(name[1:])
    raw = {0, 1, 2, 5, 127, 128, 255, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1}
    raw |= {(1 << k) + d for k in range(8, bits) for d in (-1, 1, (1 << max(k - 24, 0)), 3 << max(k - 25, 0))}
    raw |= {(1 << k) + (1 << max(k - 53, 0)) for k in range(54, bits)}
    rows = [(x & (1 << bits) - 1).to_bytes(bits // 8, "little") for x in sorted(raw)]
    return np.frombuffer(b"".join(rows), integer_type(name))


@pytest.mark.parametrize(("target", "source"), list(product(INTEGERS, INTEGERS)))
def test_integers(target: str, source: str) -> None:
    x = integers(source)
    bounds = np.iinfo(integer_type(target))
    # The result is taken from the whole register, to see that it is extended by its own sign.
    whole = np.dtype(f"{target[0].replace('s', 'i')}{max(2, bounds.bits // 8)}")
    (got,) = evaluate(f"cvt.{target}.{source} %d0, %a0;", x, results=[whole])
    size = 1 << bounds.bits
    wrapped = [(v - bounds.min) % size + bounds.min for v in x.tolist()]
    assert got.tolist() == wrapped
    if min(x.tolist()) >= bounds.min and max(x.tolist()) <= bounds.max:
        with pytest.raises(PtxError, match=f"cannot saturate: every {source} is a {target}"):
            evaluate(f"cvt.sat.{target}.{source} %d0, %a0;", x, results=[whole])
        return
    (clamped,) = evaluate(f"cvt.sat.{target}.{source} %d0, %a0;", x, results=[whole])
    assert clamped.tolist() == [min(max(v, bounds.min), bounds.max) for v in x.tolist()]


@pytest.mark.parametrize(("fmt", "mode"), list(product(("f16", "f32", "f64", "bf16"), MODES)))
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_to_floats(source: str, fmt: str, mode: str) -> None:
    x = integers(source)
    if fmt == "bf16" and source in ("u8", "s8"):
        with pytest.raises(PtxError, match="is not a form of `cvt`"):
            evaluate(f"cvt.{mode}.{fmt}.{source} %d0, %a0;", x, results=[np.uint16])
        return
    (got,) = evaluate(f"cvt.{mode}.{fmt}.{source} %d0, %a0;", x, results=[LAYOUTS[fmt][0]])
    want = [round_real(Fraction(v), fmt, mode) if v else 0.0 for v in x.tolist()]
    assert got.astype(np.float64).tolist() == want


WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("fmt", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("mode", WHOLE)
def test_floats_to_integers(target: str, fmt: str, mode: str) -> None:
    if fmt == "bf16" and target in ("u8", "s8"):
        return  # the ISA has no such conversion
    dtype = LAYOUTS[fmt][0]
    edges = [s * (2.0**k + d) for s, k, d in product((-1, 1), range(0, 16), (-0.5, 0, 0.5, 1))]
    more = [s * 2.0**k for s, k in product((-1, 1), (31, 32, 63, 64))] + [1.5, 2.5, -1.5, -2.5, 0.49]
    with np.errstate(over="ignore"):
        x = np.concatenate([specials(fmt), np.array(edges + more).astype(dtype)])
    x = np.concatenate([x, np.array([np.inf, -np.inf, np.nan]).astype(dtype)])
    bounds = np.iinfo(integer_type(target))
    whole = np.dtype(f"{target[0].replace('s', 'i')}{max(2, bounds.bits // 8)}")
    (got,) = evaluate(f"cvt.{mode}.{target}.{fmt} %d0, %a0;", x, results=[whole])
    nan = 0 if fmt != "f64" and bounds.bits != 64 else (bounds.min or 1 << (bounds.bits - 1))
    for value, result in zip(x.astype(np.float64).tolist(), got.tolist(), strict=True):
        if math.isnan(value):
            assert result == nan
        elif math.isinf(value):
            assert result == (bounds.max if value > 0 else bounds.min)
        else:
            assert result == min(max(WHOLE[mode](value), bounds.min), bounds.max)


@pytest.mark.parametrize(("target", "source"), list(product(LAYOUTS, LAYOUTS)))
def test_floats(target: str, source: str) -> None:
    if target == source:
        return
    dtype = LAYOUTS[source][0]
    rng = np.random.default_rng(5)
    raw = rng.integers(0, 1 << 8 * np.dtype(dtype).itemsize, 300, f"u{np.dtype(dtype).itemsize}").view(dtype)
    x = np.concatenate([specials(source), raw, np.array([np.inf, -np.inf, np.nan]).astype(dtype)])
    narrowing = np.dtype(dtype).itemsize > np.dtype(LAYOUTS[target][0]).itemsize or {target, source} == {"f16", "bf16"}
    for mode in MODES if narrowing else ("",):
        opcode = f"cvt.{mode}.{target}.{source}" if mode else f"cvt.{target}.{source}"
        (got,) = evaluate(f"{opcode} %d0, %a0;", x, results=[LAYOUTS[target][0]])
        for value, result in zip(x.astype(np.float64).tolist(), got.astype(np.float64).tolist(), strict=True):
            if not math.isfinite(value) or value == 0:
                assert (math.isnan(value) and math.isnan(result)) or (value, math.copysign(1, value)) == (
                    result, math.copysign(1, result),
                )  # fmt: skip
            else:
                assert result == round_real(Fraction(value), target, mode or "rn")


def test_whole_numbers_of_the_same_type() -> None:
    x = np.array([0.5, 1.5, -2.5, 2.7, -0.2, np.inf, 1e30], np.float32)
    for mode, rule in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        (got,) = evaluate(f"cvt.{mode}.f32.f32 %d0, %a0;", x, results=[np.float32])
        assert np.array_equal(got, rule(x))
    (same,) = evaluate("cvt.f32.f32 %d0, %a0;", x, results=[np.float32])
    assert np.array_equal(same, x)
    (flat,) = evaluate("cvt.sat.f32.f32 %d0, %a0;", x, results=[np.float32])
    assert flat.tolist() == [0.5, 1, 0, 1, 0, 1, 1]


@pytest.mark.parametrize(("name", "fmt"), [("e4m3x2", "f8e4m3fn"), ("e5m2x2", "f8e5m2")])
def test_fp8(name: str, fmt: str) -> None:
    table = oracle.decode(np.arange(256, dtype=np.uint16), fmt)
    values = table[np.isfinite(table)]
    ties = (np.sort(values)[1:] + np.sort(values)[:-1]) / 2
    x = np.concatenate([values, ties, [np.inf, -np.inf, 1e6, -1e6, 1e-9]]).astype(np.float32)
    high, low = x, x[::-1].copy()
    (got,) = evaluate(f"cvt.rn.satfinite.{name}.f32 %d0, %a0, %a1;", high, low, results=[np.uint16])
    want = oracle.encode(high.astype(np.float64), fmt, "rtne") << 8 | oracle.encode(low.astype(np.float64), fmt, "rtne")
    assert np.array_equal(got, want)
    codes = np.arange(256, dtype=np.uint16)
    (halves,) = evaluate(f"cvt.rn.f16x2.{name} %d0, %a0;", codes << 8 | codes)
    pairs = halves.view(np.float16).reshape(-1, 2).astype(np.float64)
    assert np.array_equal(pairs[:, 0], pairs[:, 1], equal_nan=True)
    assert np.array_equal(pairs[:, 0], table, equal_nan=True)
    exact = halves[np.isfinite(pairs[:, 0])]
    (back,) = evaluate(f"cvt.rn.satfinite.{name}.f16x2 %d0, %a0;", exact, results=[np.uint16])
    assert np.array_equal(back, (codes << 8 | codes)[np.isfinite(pairs[:, 0])])
    (relu,) = evaluate(f"cvt.rn.satfinite.relu.{name}.f32 %d0, %a0, %a1;", -np.abs(high), high, results=[np.uint16])
    assert (relu >> 8 == 0).all()


def test_packed_halves() -> None:
    a, b = np.array([1.5, -2.0, 70000.0, 1e-3], np.float32), np.array([3.25, 1e-8, -7.0, 65519.0], np.float32)
    for fmt in ("f16", "bf16"):
        (got,) = evaluate(f"cvt.rn.{fmt}x2.f32 %d0, %a0, %a1;", a, b)
        with np.errstate(over="ignore"):
            want = np.stack([b, a], 1).astype(LAYOUTS[fmt][0])
        assert np.array_equal(got, want.view(np.uint32)[:, 0])
    (relu,) = evaluate("cvt.rn.relu.f16x2.f32 %d0, %a0, %a1;", a, b)
    assert relu[1] >> 16 == 0
    (finite,) = evaluate("cvt.rn.satfinite.f16.f32 %d0, %a0;", a, results=[np.float16])
    assert finite[2] == 65504


def test_tf32() -> None:
    x = np.array([0x3F80_1000, 0x3F80_3000, 0x3F80_0FFF, 0x3F80_1001], np.uint32)
    for mode, want in {
        "rna": [0x3F80_2000, 0x3F80_4000, 0x3F80_0000, 0x3F80_2000],
        "rn": [0x3F80_0000, 0x3F80_4000, 0x3F80_0000, 0x3F80_2000],
        "rz": [0x3F80_0000, 0x3F80_2000, 0x3F80_0000, 0x3F80_0000],
    }.items():
        assert evaluate(f"cvt.{mode}.tf32.f32 %d0, %a0;", x)[0].tolist() == want


def test_tf32_of_a_nan_is_cut_and_may_be_an_infinity() -> None:
    """As an H200 gave it for these."""
    x = np.array([0x7F80_0001, 0xFF80_0001, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x7FC0_0000, 0x7F80_1000, 0x7F81_2345], np.uint32)
    want = [0x7F80_0000, 0xFF80_0000, 0x7FFF_E000, 0xFFFF_E000, 0x7FC0_0000, 0x7F80_0000, 0x7F81_2000]
    assert evaluate("cvt.rna.tf32.f32 %d0, %a0;", x)[0].tolist() == want


def test_packed_integers() -> None:
    a, b = np.array([70000, -1], np.int32), np.array([-40000, 5], np.int32)
    assert evaluate("cvt.pack.sat.s16.s32 %d0, %a0, %a1;", a, b)[0].tolist() == [0x7FFF_8000, 0xFFFF_0005]
    assert evaluate("cvt.pack.sat.u8.s32.b32 %d0, %a0, %a1, 0x1234;", a, b)[0].tolist() == [0x1234_FF00, 0x1234_0005]
    for name, low, high in (("u4", 0, 15), ("s4", -8, 7), ("u2", 0, 3), ("s2", -2, 1)):
        width = int(name[1:])
        rows = [[min(max(x, low), high) % (1 << width) for x in pair.tolist()] for pair in (a, b)]
        want = [0x1234_5678 << 2 * width & 0xFFFF_FFFF | x << width | y for x, y in zip(*rows, strict=True)]
        assert evaluate(f"cvt.pack.sat.{name}.s32.b32 %d0, %a0, %a1, 0x12345678;", a, b)[0].tolist() == want


def test_flush_and_wide_registers() -> None:
    x = np.array([1e-40, -1e-40, 1.0], np.float32)
    (got,) = evaluate("cvt.ftz.f64.f32 %d0, %a0;", x, results=[np.float64])
    assert got.view(np.uint64).tolist() == np.array([0.0, -0.0, 1.0]).view(np.uint64).tolist()
    (kept,) = evaluate("cvt.rp.ftz.f16.f32 %d0, %a0;", x, results=[np.float16])
    assert kept.view(np.uint16).tolist() == [1, 0x8000, 0x3C00]
    wide = np.array([0x1234_5680], np.uint32)
    assert evaluate("cvt.s32.s8 %d0, %a0;", wide, results=[np.int32])[0].tolist() == [-128]
    assert evaluate("cvt.u32.u8 %d0, %a0;", wide)[0].tolist() == [0x80]
