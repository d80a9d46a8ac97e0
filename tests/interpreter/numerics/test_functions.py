"""The one-argument functions against mpmath: every f16 and bf16 number (slow), samples and hard cases of the rest."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tests.interpreter.numerics import oracle
from tilewright.interpreter import numerics as nx
from tilewright.interpreter.numerics import FORMATS, functions

NAMES = ("cos", "erf", "exp", "exp2", "log", "log2", "rsqrt", "sin", "tanh")
POSITIVE = ("log", "log2", "rsqrt")


def real(name: str, x: float, precision: int = 200) -> Fraction | float:
    """The value of a function with at least `precision` - 10 correct bits; infinities and NaN as floats."""
    if math.isnan(x) or (name in POSITIVE and x < 0):
        return math.nan
    if x == 0 and name in POSITIVE:
        return math.copysign(math.inf, x) if name == "rsqrt" else -math.inf
    if x == 0 and name in ("erf", "sin", "tanh"):
        return x
    if math.isinf(x):
        low, high = {"exp": (0.0, x), "exp2": (0.0, x), "rsqrt": (0.0, 0.0), "log": (x, x), "log2": (x, x)}.get(
            name, (math.nan, math.nan) if name in ("sin", "cos") else (-1.0, 1.0)
        )
        return low if x < 0 else high
    if name in ("exp", "exp2") and abs(x) > 1e4:
        return math.inf if x > 0 else 0.0
    with mpmath.workprec(precision):
        point = mpmath.mpf(x)
        if name == "erf" and abs(x) < 1e-40:  # where mpmath is slow; the relative error is x**2 / 3
            return real("scaled", x, precision)
        if name == "erf" and abs(x) > 1e3:
            return Fraction(int(math.copysign(1, x)))
        value = {
            "scaled": lambda: 2 * point / mpmath.sqrt(mpmath.pi),
            "exp2": lambda: mpmath.power(2, point),
            "log2": lambda: mpmath.log(point) / mpmath.log(2),
            "rsqrt": lambda: 1 / mpmath.sqrt(point),
        }.get(name, lambda: getattr(mpmath, name)(point))()
        if name == "log2" and math.frexp(x)[0] == 0.5:
            return Fraction(math.frexp(x)[1] - 1)
        sign, mantissa, exponent, _ = value._mpf_
        return (-1) ** sign * int(mantissa) * Fraction(2) ** int(exponent)


def rounded(value: Fraction | float, name: str) -> float:
    """A real value rounded once to a format (8-bit formats: through f32), as a float."""
    if isinstance(value, float):
        return value
    if name == "f64":
        return oracle.round_f64(value)
    if name == "f32":
        return oracle.round_f32(value)
    return float(oracle.decode(np.array([oracle.round_fraction(value, name)], np.uint16), name)[0])


def numbers(x: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(nx.decode(x, name)).astype(np.float64)


def check(name: str, x: np.ndarray, fmt: str) -> None:
    got = numbers(getattr(nx, name)(x, fmt), fmt)
    want = np.array([rounded(real(name, value), fmt) for value in numbers(x, fmt).tolist()])
    wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
    assert not wrong.any(), (numbers(x, fmt)[wrong][:5], got[wrong][:5], want[wrong][:5])


def random_f32(count: int, seed: int) -> np.ndarray:
    """All magnitudes, ordinary magnitudes, and the neighbourhood of 1."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 0xFF80_0000, count, dtype=np.uint64).astype(np.uint32)
    bits = bits[(bits & 0x7FFF_FFFF) <= 0x7F80_0000]
    ordinary = rng.uniform(-20, 20, count).astype(np.float32)
    near_one = (1 + rng.standard_normal(count) * 2.0 ** rng.integers(-23, -2, count)).astype(np.float32)
    return np.concatenate([bits.view(np.float32), ordinary, near_one])


def hard_f32(name: str) -> np.ndarray:
    """Arguments where a function in f64 is least accurate, or its result lies close to a midpoint."""
    powers = 2.0 ** np.arange(-149, 128)
    points = [powers, 1 + 2.0 ** -np.arange(1.0, 24), 1 - 2.0 ** -np.arange(1.0, 25)]
    if name in ("sin", "cos"):
        with mpmath.workprec(200):
            turns = [*range(1, 300), *(3**n for n in range(6, 80))]
            points.append(np.array([float(mpmath.pi * k / 2) for k in turns]))
    if name in ("exp", "exp2"):
        points.append(
            np.array([88.722835, 88.72284, -87.33655, -103.27893, -103.97208, 128, 127.99999, -149, -150, -151])
        )
    if name == "erf":
        points.append(np.arange(1, 780) / 128)
    every = np.concatenate(points)
    every = every[every < 3.4e38].astype(np.float32)
    return np.concatenate([every, -every]) if name not in POSITIVE else every


@pytest.mark.parametrize("name", NAMES)
def test_f32(name: str) -> None:
    check(name, random_f32(500, 1), "f32")
    check(name, hard_f32(name), "f32")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_f32(name: str) -> None:
    check(name, random_f32(10_000, 2), "f32")


@pytest.mark.slow
@pytest.mark.parametrize("fmt", ["f16", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_every_16_bit_number(name: str, fmt: str) -> None:
    row = FORMATS[fmt]
    check(name, np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(row.storage), fmt)


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_some_16_bit_numbers(name: str, fmt: str) -> None:
    row = FORMATS[fmt]
    check(name, np.arange(0, 1 << 16, 97, dtype=np.uint32).astype(np.uint16).view(row.storage), fmt)


@pytest.mark.parametrize("fmt", oracle.FP8)
@pytest.mark.parametrize("name", NAMES)
def test_every_8_bit_number_goes_through_f32(name: str, fmt: str) -> None:
    x = np.arange(256, dtype=np.uint8).view(FORMATS[fmt].storage)
    wide = np.array([rounded(real(name, value), "f32") for value in numbers(x, fmt).tolist()], np.float32)
    got = getattr(nx, name)(x, fmt).view(np.uint8)
    want = nx.round_to(wide, fmt).view(np.uint8)
    keep = ~np.isnan(wide) | FORMATS[fmt].has_nan
    assert np.array_equal(got[keep], want[keep])


@pytest.mark.parametrize("name", NAMES)
def test_f64(name: str) -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**63 - 1, 150, dtype=np.uint64) << np.uint64(1) | rng.integers(0, 2, 150, dtype=np.uint64)
    every = bits.view(np.float64)
    if name in ("sin", "cos"):
        every = np.clip(every, -1e60, 1e60)
    x = np.concatenate([every[np.isfinite(every)], rng.uniform(-30, 30, 200), 1 + rng.standard_normal(50) * 1e-9])
    check(name, x, "f64")
    check(
        name,
        np.array([0.0, -0.0, 1.0, 4.0, 0.5, -708.5, -745.2, -1074.0, -1075.0, 710.0, 1024.0, 5e-324, np.nan]),
        "f64",
    )


@pytest.mark.parametrize("fmt", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: str, fmt: str) -> None:
    inf, nan = math.inf, math.nan
    want = {
        "cos": [1, 1, nan, nan], "erf": [0.0, -0.0, 1, -1], "exp": [1, 1, inf, 0.0], "exp2": [1, 1, inf, 0.0],
        "log": [-inf, -inf, inf, nan], "log2": [-inf, -inf, inf, nan], "rsqrt": [inf, -inf, 0.0, nan],
        "sin": [0.0, -0.0, nan, nan], "tanh": [0.0, -0.0, 1, -1],
    }[name]  # fmt: skip
    got = getattr(nx, name)(
        nx.round_to(np.array([0.0, -0.0, inf, -inf, nan, -1.0 if name in POSITIVE else nan]), fmt), fmt
    )
    expected = nx.round_to(np.array([*want, nan, nan], dtype=np.float64), fmt)
    assert np.array_equal(got.view(FORMATS[fmt].carrier), expected.view(FORMATS[fmt].carrier))


def test_halves_of_the_smallest_number_are_exact_ties() -> None:
    assert nx.exp2(np.array([-149.0, -150.0, -150.5, -149.5], np.float32), "f32").tolist() == [
        2.0**-149,
        0,
        0,
        2.0**-149,
    ]
    assert nx.exp2(np.array([-24.0, -25.0], np.float16), "f16").tolist() == [2.0**-24, 0.0]
    assert nx.exp2(np.array([-1074.0, -1075.0, -1074.5]), "f64").tolist() == [5e-324, 0.0, 5e-324]


def errors(name: str, x: np.ndarray) -> float:
    """The largest relative error of a f64 kernel against mpmath, on f32 arguments."""
    x = x[np.isfinite(x) & (x != 0) & ((x > 0) | (name not in POSITIVE))]
    with np.errstate(all="ignore"):
        values = functions._KERNELS[name](x.astype(np.float64)).tolist()
    worst = 0.0
    for point, value in zip(x.tolist(), values, strict=True):
        exact = real(name, point, 120)
        if isinstance(exact, float) or exact == 0 or abs(exact) < Fraction(2) ** -1000 or not math.isfinite(value):
            continue
        worst = max(worst, float(abs(Fraction(value) / exact - 1)))
    return worst


@pytest.mark.parametrize("name", NAMES)
def test_the_bound_on_the_kernels_has_room(name: str) -> None:
    assert errors(name, np.concatenate([random_f32(400, 4), hard_f32(name)])) <= functions.BOUND / 4


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_bound_on_the_kernels_has_room_on_a_large_sample(name: str) -> None:
    assert errors(name, random_f32(20_000, 5)) <= functions.BOUND / 4


def test_shapes_survive() -> None:
    for fmt in FORMATS:
        for shape in ((), (0,), (2, 3)):
            result = nx.exp(nx.round_to(np.zeros(shape, np.float32), fmt), fmt)
            assert (result.shape, result.dtype) == (shape, FORMATS[fmt].storage)
