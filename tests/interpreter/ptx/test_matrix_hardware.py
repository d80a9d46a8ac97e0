"""The bit models of tensor cores against the same rule in rational numbers, and against sums worked out by hand."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.interpreter.ptx.products import bits_of, codes, multiply
from tilewright.interpreter.numerics import FORMATS
from tilewright.interpreter.ptx import tensor_cores
from tilewright.interpreter.ptx.targets import generation
from tilewright.interpreter.ptx.tensor_cores import Unit, unit_of
from tilewright.interpreter.ptx.types import TYPES
from tools.probes.products import PRODUCTS, Mma

FLOATS = [mma for mma in PRODUCTS if mma.c in ("f32", "f16")]
Number = Fraction | float
"""A rational, or infinity or NaN."""


def decoded(code: int, name: str, as_f16: bool = False) -> tuple[Number, int]:
    """The value of a code and the exponent of its significand in [1, 2), or below for a subnormal; of an f16 of the
    same value if asked for."""
    row = FORMATS[TYPES[name].format]
    code = code & ~0x1FFF if name == "tf32" else code
    value = row.value(code)
    if as_f16:
        row, code = FORMATS["f16"], int(np.float16(value).view(np.uint16))
    field = (code & row.sign_bit - 1) >> row.mantissa_bits
    return (Fraction(value) if math.isfinite(value) else value), max(field, 1) - row.bias


def fused(unit: Unit, terms: list[tuple[Number, int]], fmt: str) -> int:
    """The code of the sum of some terms, as the unit adds them."""
    row = FORMATS[fmt]
    if any(isinstance(value, float) for value, _ in terms):
        total = sum(value for value, _ in terms if isinstance(value, float))
        return row.nan_code if math.isnan(total) else row.inf_code | row.sign_bit * (total < 0)  # type: ignore
    exponents = [e for value, e in terms if value or unit.zeros]
    floor = [] if unit.floor is None else [unit.floor]
    largest = max([*exponents, *floor], default=0)
    place = Fraction(2) ** (largest - unit.fraction)
    total = sum(int(value / place) for value, _ in terms) * place
    code = to_nearest_f16(total) if fmt == "f16" else cut_off(total, unit.kept)
    return 0 if code == row.sign_bit else code  # there is no -0


def significand(total: Fraction, bits: int, least: int) -> tuple[int, Fraction, int]:
    """|total| as a whole number of the last places of a format, what is left over, and the exponent."""
    exponent = abs(total.numerator).bit_length() - total.denominator.bit_length()
    exponent -= abs(total) < Fraction(2) ** exponent
    exponent = max(exponent, least)
    scaled = abs(total) / Fraction(2) ** (exponent - bits)
    return int(scaled), scaled - int(scaled), exponent


def cut_off(total: Fraction, kept: int) -> int:
    if total == 0:
        return 0
    whole, _, exponent = significand(total, kept, -126)
    sign = 0x8000_0000 * (total < 0)
    return sign | (0x7F80_0000 if exponent > 127 else (exponent + 126 << 23) + (whole << 23 - kept))


def to_nearest_f16(total: Fraction) -> int:
    if total == 0:
        return 0
    whole, rest, exponent = significand(total, 10, -14)
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)
    return 0x8000 * (total < 0) | min((exponent + 14 << 10) + whole, 0x7C00)


def reference(mma: Mma, unit: Unit, a: list[int], b: list[int], c: int) -> int:
    """One element of the result, from a row of a, a column of b and an accumulator."""
    fmt = TYPES[mma.c].format
    pairs = [(decoded(x, mma.a, unit.pairs), decoded(y, mma.b, unit.pairs)) for x, y in zip(a, b, strict=True)]
    products = [(times(x[0], y[0]), x[1] + y[1]) for x, y in pairs]
    if unit.pairs:
        total = 0
        for wanted in (0, 2):
            some = [term for k, term in enumerate(products) if k & 2 == wanted]
            total = fused(unit, [*some, decoded(total, mma.c)], fmt)
        x, y = (np.array([code], FORMATS[fmt].carrier).view(FORMATS[fmt].storage) for code in (c, total))
        with np.errstate(all="ignore"):
            added = x + y
        code = int(added.view(FORMATS[fmt].carrier)[0])
        return FORMATS[fmt].nan_code if np.isnan(added[0]) else code  # type: ignore
    total = c
    for k in range(0, len(a), unit.products):
        total = fused(unit, [*products[k : k + unit.products], decoded(total, mma.c)], fmt)
    return total


def times(x: Number, y: Number) -> Number:
    return float(x) * float(y) if isinstance(x, float) or isinstance(y, float) else x * y


def compare(mma: Mma, unit: Unit, target: str, checked: int) -> None:
    rng = np.random.default_rng(5)
    a, b = codes(rng, (6, mma.rows, mma.depth), mma.a), codes(rng, (6, mma.depth, 8), mma.b)
    c = codes(rng, (6, mma.rows, 8), mma.c)
    found = multiply(mma, a, b, c, "hardware", target)
    for at in rng.permutation(found.size)[:checked].tolist():
        w, i, j = (int(n) for n in np.unravel_index(at, found.shape))
        want = reference(mma, unit, a[w, i].tolist(), b[w, :, j].tolist(), int(c[w, i, j]))
        assert int(found[w, i, j]) == want, (mma.label, hex(found[w, i, j]), hex(want))


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("mma", FLOATS, ids=lambda mma: mma.label)
def test_models(mma: Mma, target: str) -> None:
    if mma.least <= generation(target):
        compare(mma, unit_of(generation(target), TYPES[mma.a], mma.c), target, 15)


@pytest.mark.parametrize("changes", [{"floor": -133}, {"floor": -15}, {"zeros": True}, {"fraction": 11}, {"kept": 9}])
@pytest.mark.parametrize("types", [("bf16", "f32"), ("f16", "f16")])
def test_every_number_of_a_model_counts(
    types: tuple[str, str], changes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = replace(unit_of(90, TYPES[types[0]], types[1]), **changes)
    monkeypatch.setattr("tilewright.interpreter.ptx.products.unit_of", lambda *_: unit)
    compare(Mma(16, 16, types[0], types[0], types[1], 80), unit, "sm_90a", 100)


# --- by hand ---


def row(mma: Mma, products: list[float], c: float, target: str) -> float:
    """The sum of products of 1.0 and numbers, at one place of the result."""
    a, b = np.zeros((1, 16, mma.depth)), np.zeros((1, mma.depth, 8))
    a[0, 3, : len(products)], b[0, : len(products), 5] = 1.0, products
    start = np.zeros((1, 16, 8))
    start[0, 3, 5] = c
    found = multiply(mma, bits_of(a, mma.a), bits_of(b, mma.b), bits_of(start, mma.c), "hardware", target)
    return float(found.view(TYPES[mma.c].dtype)[0, 3, 5])


F16 = Mma(16, 16, "f16", "f16", "f32", 80)


def test_small_terms_are_cut_off_one_by_one() -> None:
    """Beside 2**3 Hopper keeps places down to 2**-22, Ampere down to 2**-21."""
    assert row(F16, [2.0**-22] * 16, 8.0, "sm_90a") == 8.0 + 2.0**-18
    assert row(F16, [2.0**-22] * 16, 8.0, "sm_80") == 8.0
    assert row(F16, [2.0**-21] * 16, 8.0, "sm_80") == 8.0 + 2.0**-17
    assert row(F16, [2.0**-23] * 16, 8.0, "sm_90a") == 8.0


def test_sums_are_cut_off_and_not_rounded() -> None:
    last = 2.0**-17  # of 64
    assert row(F16, [64.0, 0.75 * last, 0.5 * last], 0.0, "sm_90a") == 64.0 + last
    assert row(F16, [64.0, 0.75 * last], 0.0, "sm_90a") == 64.0
    assert row(F16, [-64.0, -0.75 * last], 0.0, "sm_90a") == -64.0


def test_the_groups_of_products_differ() -> None:
    """Eight products that cancel, and a small one behind them: Ampere adds it alone, Hopper beside the large ones."""
    terms = [1024.0, -1024.0, 0, 0, 0, 0, 0, 0, 2.0**-16]
    assert row(F16, terms, 0.0, "sm_80") == 2.0**-16
    assert row(F16, terms, 0.0, "sm_90a") == 0.0
    assert row(F16, terms, 2.0**-16, "sm_80") == 2.0**-16  # the accumulator stands beside the first eight


def test_eight_bit_products_keep_few_places() -> None:
    e4m3 = Mma(16, 32, "e4m3", "e4m3", "f32", 89)
    assert row(e4m3, [256.0, 2.0**-5], 0.0, "sm_89") == 256.0 + 2.0**-5
    assert row(e4m3, [256.0, 2.0**-6], 0.0, "sm_89") == 256.0
    assert row(e4m3, [256.0, 2.0**-6], 0.0, "sm_120a") == 256.0 + 2.0**-6
    # By way of f16 the accumulator comes last and is rounded to nearest.
    assert row(e4m3, [2.0**-6, 2.0**-6, 2.0**-7], 2.0**18, "sm_90a") == 2.0**18 + 2.0**-5
    assert row(e4m3, [2.0**-6, 2.0**-6, 2.0**-7], 2.0**18, "sm_89") == 2.0**18


def test_subnormals_of_e4m3_are_normal_in_f16() -> None:
    """Of 2**-9 * 2**15 the exponent is 6, not 9, from where 2**-17 would be cut off."""
    for types in (("e4m3", "e5m2"), ("e5m2", "e4m3")):
        mma, numbers = Mma(16, 16, *types, "f32", 89), {"e4m3": [2.0**-9, 2.0**-7], "e5m2": [2.0**15, 2.0**-10]}
        a, b = np.zeros((1, 16, 16)), np.zeros((1, 16, 8))
        a[0, :, :2], b[0, :2] = numbers[types[0]], np.array(numbers[types[1]])[:, None]
        found = multiply(
            mma, bits_of(a, mma.a), bits_of(b, mma.b), np.zeros((1, 16, 8), np.uint32), "hardware", "sm_90a"
        )
        assert (found.view(np.float32) == 2.0**6 + 2.0**-17).all()


@pytest.mark.parametrize("c", [0.0, -0.0])
def test_a_result_is_never_minus_zero(c: float) -> None:
    half = Mma(16, 16, "f16", "f16", "f16", 80)
    for terms in ([-0.0] * 16, [-(2.0**-24), 2.0**-24]):
        assert math.copysign(1, row(half, terms, c, "sm_90a")) == 1
    a, b = (np.zeros(shape) for shape in ((1, 16, 16), (1, 16, 8)))
    a[:, :, 0], b[:, 0] = -(2.0**-14), 2.0**-12  # their product is under half the smallest f16
    start = bits_of(np.full((1, 16, 8), c), "f16")
    assert not multiply(half, bits_of(a, "f16"), bits_of(b, "f16"), start, "hardware", "sm_90a").any()
    assert (multiply(half, bits_of(a, "f16"), bits_of(b, "f16"), start, "exact", "sm_90a") == 0x8000).all()


A, B, C, MADE = 0x7FF8_0000_0000_000A, 0xFFF8_0000_0000_000B, 0x7FF8_0000_0000_000C, 0xFFF8_0000_0000_0000


@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [
        (A, B, C, B),
        (A, 0, C, C),
        (A, 0, 0, A),
        (0, 0, C - (1 << 51), C),  # a signalling one becomes quiet
        (0x7FF0 << 48, 0, 0, MADE),
        (0x7FF0 << 48, 0, C, C),
    ],
)
def test_nans_of_f64(a: int, b: int, c: int, want: int) -> None:
    double = Mma(8, 4, "f64", "f64", "f64", 80)
    operands = [np.zeros((1, *shape), np.uint64) for shape in ((8, 4), (4, 8), (8, 8))]
    operands[0][:, :, 2], operands[1][:, 2], operands[2][:] = a, b, c
    left, right, start = operands
    assert (multiply(double, left, right, start, "hardware", "sm_90a") == want).all()
    assert (multiply(double, left, right, start, "exact", "sm_90a") == 0x7FF8 << 48).all()


def test_too_large_sums_are_infinite_and_canonical_nans() -> None:
    half = Mma(16, 16, "f16", "f16", "f16", 80)
    assert row(half, [60000.0, 5516.0], 0.0, "sm_90a") == 65504.0
    assert row(half, [60000.0, 5520.0], 0.0, "sm_90a") == math.inf
    bf16 = Mma(16, 16, "bf16", "bf16", "f32", 80)
    assert row(bf16, [2.0**127, 2.0**127], 0.0, "sm_90a") == math.inf
    assert row(bf16, [2.0**127, 2.0**127, -(2.0**127)], 0.0, "sm_90a") == 2.0**127
    assert math.isnan(row(bf16, [math.inf, 1.0], -math.inf, "sm_90a"))


@pytest.mark.parametrize(
    ("target", "name", "unit"),
    [
        ("sm_80", "f16", Unit(24, 8)),
        ("sm_86", "tf32", Unit(24, 4)),
        ("sm_89", "bf16", Unit(24, 8)),
        ("sm_89", "e4m3", Unit(13, 16, kept=13)),
        ("sm_90a", "f16", Unit(25, 16)),
        ("sm_90a", "tf32", Unit(25, 8)),
        ("sm_90a", "e5m2", Unit(25, 16, pairs=True)),
        ("sm_103a", "e4m3", Unit(25, 16, pairs=True)),
        ("sm_120a", "bf16", Unit(25, 16)),
        ("sm_120a", "e4m3", Unit(25, 32)),
    ],
)
def test_units_by_target(target: str, name: str, unit: Unit) -> None:
    for result in ("f32", "f16"):
        want = replace(unit, floor=tensor_cores.FLOORS[result])
        assert unit_of(generation(target), TYPES[name], result) == want
