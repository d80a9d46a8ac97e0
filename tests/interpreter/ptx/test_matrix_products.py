"""`mma`: every shape and type on data that is exact in any order, and `exact` arithmetic against rational numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.interpreter.ptx.products import Array, bits_of, codes, multiply, numbers, value_of
from tilewright.interpreter.numerics import FORMATS, round_to
from tilewright.interpreter.ptx.products import width
from tilewright.interpreter.ptx.targets import generation
from tilewright.interpreter.ptx.types import TYPES
from tools.probes.products import PRODUCTS, Mma

FLOATS = [mma for mma in PRODUCTS if TYPES.get(mma.a) is not None and TYPES[mma.a].kind == "f" and mma.a != "f64"]

UNDIRECTED = [mma for mma in PRODUCTS if mma.modifiers not in (".rz", ".rm", ".rp")]


def whole(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Array:
    """Small integers in a type, as bits; all of them for types of few bits."""
    if name in ("s4", "u4", "b1"):
        return rng.integers(0, 1 << width(name), shape).astype(np.uint8)
    if TYPES[name].kind != "f":
        return rng.integers(0, 1 << min(32, width(name)), shape).astype(TYPES[name].carrier)
    return bits_of(rng.integers(-8, 9, shape).astype(np.float64), name)


@pytest.mark.parametrize(
    ("mode", "target", "some"),
    [("exact", "sm_90a", UNDIRECTED), *(("hardware", f"sm_{n}", FLOATS) for n in ("80", "89", "90a", "103a", "120a"))],
)
def test_every_product_is_right_on_integers(mode: str, target: str, some: list[Mma]) -> None:
    """Sums of whole numbers below 2**11 are exact in every format and with every unit."""
    rng = np.random.default_rng(0)
    for mma in some:
        if mma.least > generation(target):
            continue
        a, b = whole(rng, (4, mma.rows, mma.depth), mma.a), whole(rng, (4, mma.depth, 8), mma.b)
        c = whole(rng, (4, mma.rows, 8), mma.c)
        x, y, z = numbers(a, mma.a), numbers(b, mma.b), numbers(c, mma.c)
        if "xor" in mma.suffix:
            want = z + (x[:, :, :, None] != y[:, None]).sum(axis=2)
        else:
            want = z + x @ y
        if "satfinite" in mma.modifiers:
            want = np.clip(want, -(2**31), 2**31 - 1)
        found = numbers(multiply(mma, a, b, c, mode, target), mma.c)
        assert (found == (want.astype(np.int32) if mma.c == "s32" else want)).all(), mma.label


@pytest.mark.parametrize("satfinite", ["", ".satfinite"])
def test_integer_sums_wrap_or_clamp(satfinite: str) -> None:
    mma = Mma(16, 32, "u8", "u8", "s32", 80, satfinite)
    a, b = np.full((1, 16, 32), 255, np.uint8), np.full((1, 32, 8), 255, np.uint8)
    c = np.full((1, 16, 8), 2**31 - 1, np.uint32)
    want = 2**31 - 1 if satfinite else 2**31 - 1 + 32 * 255**2 - 2**32
    assert (multiply(mma, a, b, c).view(np.int32) == want).all()
    mma = Mma(16, 32, "s8", "s8", "s32", 80, satfinite)
    a, b = np.full((1, 16, 32), 0x80, np.uint8), np.full((1, 32, 8), 0x7F, np.uint8)
    c = np.full((1, 16, 8), 2**31, np.uint32)
    want = -(2**31) if satfinite else 2**31 - 32 * 128 * 127
    assert (multiply(mma, a, b, c).view(np.int32) == want).all()


# --- exact ---


def once_rounded(total: Fraction, fmt: str) -> NDArray[np.generic]:
    """A rational as a number of a format: to odd with 60 bits, which f64 cannot be, so by way of integers."""
    if total == 0:
        return round_to(np.zeros(1), fmt)
    exponent = abs(total.numerator).bit_length() - total.denominator.bit_length()
    scaled = abs(total) * Fraction(2) ** (50 - exponent)
    whole, sticky = divmod(scaled.numerator, scaled.denominator)
    odd = whole | (sticky != 0)  # about 51 bits: f64 holds it, and it rounds to f32 and f16 as the sum itself does
    return round_to(np.array([math.copysign(math.ldexp(odd, exponent - 50), total)]), fmt)


@pytest.mark.parametrize("mma", FLOATS, ids=lambda mma: mma.label)
def test_exact_sums_are_rounded_once(mma: Mma) -> None:
    rng = np.random.default_rng(1)
    a, b = codes(rng, (4, mma.rows, mma.depth), mma.a), codes(rng, (4, mma.depth, 8), mma.b)
    c = codes(rng, (4, mma.rows, 8), mma.c)
    found = multiply(mma, a, b, c)
    x, y, z = numbers(a, mma.a), numbers(b, mma.b), numbers(c, mma.c)
    row = FORMATS[TYPES[mma.c].format]
    for at in rng.permutation(found.size)[:80].tolist():
        w, i, j = (int(n) for n in np.unravel_index(at, found.shape))
        with np.errstate(invalid="ignore"):
            terms = [float(z[w, i, j]), *(x[w, i] * y[w, :, j]).tolist()]
        if all(map(math.isfinite, terms)):
            pairs = zip(x[w, i].tolist(), y[w, :, j].tolist(), strict=True)
            total = sum((Fraction(p) * Fraction(q) for p, q in pairs), Fraction(terms[0]))
            want = int(once_rounded(total, row.name).view(row.carrier)[0])
            want = row.sign_bit if total == 0 and all(math.copysign(1, t) < 0 for t in terms) else want
        else:
            plain = value_of(terms)
            want = row.nan_code if math.isnan(plain) else row.inf_code | row.sign_bit * (plain < 0)  # type: ignore
        assert int(found[w, i, j]) == want, (mma.label, terms)


@pytest.mark.parametrize("mode", ["exact", "hardware"])
def test_tf32_operands_are_cut_off(mode: str) -> None:
    rng = np.random.default_rng(2)
    mma = Mma(16, 8, "tf32", "tf32", "f32", 80)
    a, b = (rng.standard_normal(shape).astype(np.float32).view(np.uint32) for shape in ((2, 16, 8), (2, 8, 8)))
    c = np.zeros((2, 16, 8), np.uint32)
    cut = [x & np.uint32(0xFFFFE000) for x in (a, b)]
    assert (multiply(mma, a, b, c, mode) == multiply(mma, *cut, c, mode)).all()
    assert (multiply(mma, a, b, c, mode) != multiply(mma, a ^ np.uint32(1 << 13), b, c, mode)).any()


@pytest.mark.parametrize("rounding", ["", ".rn", ".rz", ".rm", ".rp"])
@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_doubles_are_a_chain_of_fused_steps(rows: int, depth: int, rounding: str) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(s) for s in ((1, rows, depth), (1, depth, 8), (1, rows, 8)))
    mma = Mma(rows, depth, "f64", "f64", "f64", 90, rounding)
    found = multiply(mma, a.view(np.uint64), b.view(np.uint64), c.view(np.uint64)).view(np.float64)
    for i in range(rows):
        for j in range(8):
            total = float(c[0, i, j])
            for k in range(depth):
                total = directed(Fraction(total) + Fraction(a[0, i, k]) * Fraction(b[0, k, j]), rounding)
            assert found[0, i, j] == total


def directed(exact: Fraction, rounding: str) -> float:
    """A rational rounded to f64 in a direction, from the nearest one."""
    near = float(exact)
    if Fraction(near) == exact or rounding in ("", ".rn"):
        return near
    toward = {".rz": 0.0, ".rm": -math.inf, ".rp": math.inf}[rounding]
    beyond = Fraction(near) > exact if rounding == ".rm" else Fraction(near) < exact
    beyond = abs(Fraction(near)) > abs(exact) if rounding == ".rz" else beyond
    return math.nextafter(near, toward) if beyond else near
