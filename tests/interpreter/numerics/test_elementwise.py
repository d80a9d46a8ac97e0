"""Float arithmetic against exact rationals, and the grids of special values of every operation."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interpreter.numerics import oracle
from tilewright.interpreter import numerics as nx
from tilewright.interpreter.numerics import FORMATS

SPECIALS = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.25, math.inf, -math.inf, math.nan, 3.0, -3.0]


def stored(values: list[float] | np.ndarray, name: str) -> np.ndarray:
    return nx.round_to(np.asarray(values, dtype=np.float64), name)


def numbers(x: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # widening a signaling NaN
        return np.asarray(nx.decode(x, name)).astype(np.float64)


def random_codes(name: str, count: int, seed: int) -> np.ndarray:
    row = FORMATS[name]
    rng = np.random.default_rng(seed)
    return rng.integers(0, 1 << row.bits, count, dtype=np.uint64).astype(row.carrier).view(row.storage)


def rounded(value: Fraction, name: str) -> float:
    """The value that an exact result has in a format; 8-bit formats go through f32, as the language says."""
    if name == "f64":
        return oracle.round_f64(value)
    if name == "f32":
        return oracle.round_f32(value)
    if name in oracle.FP8:
        wide = oracle.round_f32(value)
        if math.isinf(wide):
            return math.copysign(oracle.table(name).values[-1], wide)
        value = Fraction(wide)
    return float(oracle.decode(np.array([oracle.round_fraction(value, name)], np.uint16), name)[0])


EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rem": lambda a, b: a - math.trunc(a / b) * b,
}


@pytest.mark.parametrize("operation", EXACT)
@pytest.mark.parametrize("name", FORMATS)
def test_finite_results_are_the_real_ones_rounded_once(name: str, operation: str) -> None:
    a, b = random_codes(name, 1500, 1), random_codes(name, 1500, 2)
    got = numbers(getattr(nx, operation)(a, b, name), name).tolist()
    checked = 0
    for x, y, result in zip(numbers(a, name).tolist(), numbers(b, name).tolist(), got, strict=True):
        if math.isfinite(x) and math.isfinite(y) and (y != 0 or operation not in ("div", "rem")):
            assert result == rounded(EXACT[operation](Fraction(x), Fraction(y)), name), (x, y)
            checked += 1
    assert checked > 1000


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("name", oracle.FP8)
def test_every_pair_of_8_bit_numbers(name: str, operation: str) -> None:
    codes = np.arange(256, dtype=np.uint8).view(FORMATS[name].storage)
    a, b = (x.reshape(-1) for x in np.meshgrid(codes, codes))
    numpy_operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[operation]
    with np.errstate(all="ignore"):
        # In f64 sums and products of 8-bit numbers are exact, and quotients far from every midpoint of f32.
        wide = numpy_operation(numbers(a, name), numbers(b, name)).astype(np.float32)
    want = oracle.encode(wide.astype(np.float64), name, "rtne")
    got = getattr(nx, operation)(a, b, name).view(np.uint8)
    held = ~np.isnan(wide) | FORMATS[name].has_nan
    assert np.array_equal(got[held], want[held])


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_subnormal_products_and_quotients(name: str) -> None:
    row = FORMATS[name]
    rng = np.random.default_rng(5)
    small = rng.integers(1, 1 << (row.mantissa_bits + 2), 3000).astype(row.carrier).view(row.storage)
    other = stored(rng.uniform(0.5, 2.0, 3000) * 2.0 ** rng.integers(-8, 8, 3000), name)
    for operation in ("mul", "div"):
        got = numbers(getattr(nx, operation)(small, other, name), name).tolist()
        pairs = zip(numbers(small, name).tolist(), numbers(other, name).tolist(), strict=True)
        want = [rounded(EXACT[operation](Fraction(x), Fraction(y)), name) for x, y in pairs]
        assert got == want


@pytest.mark.parametrize("name", ["bf16", "f32"])
def test_products_of_numbers_near_the_square_root_of_the_smallest(name: str) -> None:
    rng = np.random.default_rng(6)
    a = stored(rng.uniform(1, 2, 3000) * 2.0 ** rng.integers(-70, -60, 3000), name)
    b = stored(rng.uniform(1, 2, 3000) * 2.0 ** rng.integers(-80, -60, 3000), name)
    got = numbers(nx.mul(a, b, name), name).tolist()
    pairs = zip(numbers(a, name).tolist(), numbers(b, name).tolist(), strict=True)
    assert got == [rounded(Fraction(x) * Fraction(y), name) for x, y in pairs]


def isqrt_nearest(x: Fraction) -> Fraction:
    """A rational within 2**-200 relative of the square root."""
    shift = 200 + x.denominator.bit_length()
    scaled = x.numerator * x.denominator << 2 * shift
    return Fraction(math.isqrt(scaled) * 2 + (math.isqrt(scaled) ** 2 != scaled), x.denominator << shift + 1)


@pytest.mark.parametrize("name", FORMATS)
def test_square_roots(name: str) -> None:
    x = nx.abs_(random_codes(name, 600, 3), name)
    for value, result in zip(numbers(x, name).tolist(), numbers(nx.sqrt(x, name), name).tolist(), strict=True):
        if math.isfinite(value):
            assert result == rounded(isqrt_nearest(Fraction(value)), name), value
    special = numbers(nx.sqrt(stored([-0.0, -1.0], name), name), name)
    if FORMATS[name].has_nan:
        assert np.isnan(special[1])
        assert np.signbit(special[0]) == FORMATS[name].has_negative_zero


def ieee(operation: str, a: float, b: float) -> float:
    """Binary operations on special values, written from the rules rather than from NumPy."""
    nan = math.isnan(a) or math.isnan(b)
    sign = math.copysign(1.0, a) * math.copysign(1.0, b)
    if operation in ("minnum", "maxnum", "minimum", "maximum"):
        if nan:
            numbers_ = [x for x in (a, b) if not math.isnan(x)]
            return numbers_[0] if numbers_ and operation.endswith("num") else math.nan
        ordered = sorted((a, b), key=lambda x: (x, math.copysign(1.0, x)))
        return ordered[0] if operation.startswith("min") else ordered[1]
    if nan:
        return math.nan
    if operation == "sub":
        return ieee("add", a, -b)
    if operation == "add":
        return math.nan if math.isinf(a) and math.isinf(b) and a != b else a + b
    if operation == "mul":
        return math.nan if {0.0, math.inf} == {abs(a), abs(b)} else a * b
    if operation == "div":
        if (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
            return math.nan
        return math.copysign(math.inf, sign) if b == 0 else a / b
    if b == 0 or math.isinf(a):
        return math.nan
    return a if math.isinf(b) else math.fmod(a, b)


BINARY = ["add", "sub", "mul", "div", "rem", "minnum", "maxnum", "minimum", "maximum"]


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("name", FORMATS)
def test_grid_of_special_values(name: str, operation: str) -> None:
    row = FORMATS[name]
    pairs = list(itertools.product(SPECIALS, SPECIALS))
    a, b = (stored([pair[side] for pair in pairs], name) for side in (0, 1))
    got = getattr(nx, operation)(a, b, name)
    exact = [ieee(operation, x, y) for x, y in zip(numbers(a, name).tolist(), numbers(b, name).tolist(), strict=True)]
    want = stored(np.array(exact, dtype=np.float32 if row.bits <= 32 else np.float64), name)
    assert np.array_equal(got.view(row.carrier), want.view(row.carrier))


def every_nan(name: str) -> np.ndarray:
    """Codes of NaN of both signs, quiet and signaling, of small and large payloads (as many as the format has)."""
    row = FORMATS[name]
    if row.inf_code is None:
        codes = [code for code in (0x7F, 0x80, 0xFF) if row.is_nan_code(code)]
    else:
        quiet = 1 << (row.mantissa_bits - 1)
        payloads = {1, quiet - 1, quiet, quiet + 1, 2 * quiet - 1} - {0}
        codes = [row.inf_code | payload | sign for payload in sorted(payloads) for sign in (0, row.sign_bit)]
    return np.array(codes, row.carrier).view(row.storage)


def beside_nan(name: str, operands: int) -> list[np.ndarray]:
    """All combinations of NaNs and a few numbers, in arrays long enough for vector code and for the code after it."""
    pool = np.concatenate([every_nan(name), stored([1.5, -2.0, 0.0, -0.0, math.inf, -math.inf], name)])
    count = len(pool) ** operands
    combinations = np.resize(np.arange(count), max(count, 200) + 3)
    return [pool[combinations // len(pool) ** place % len(pool)] for place in range(operands)]


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("name", FORMATS)
def test_binary_operations_beside_every_nan(name: str, operation: str) -> None:
    row = FORMATS[name]
    a, b = beside_nan(name, 2)
    exact = [ieee(operation, x, y) for x, y in zip(numbers(a, name).tolist(), numbers(b, name).tolist(), strict=True)]
    want = stored(np.array(exact), name).view(row.carrier)
    assert np.array_equal(getattr(nx, operation)(a, b, name).view(row.carrier), want)
    scalar = [getattr(nx, operation)(x, y, name).view(row.carrier) for x, y in zip(a[:99], b[:99], strict=True)]
    assert np.array_equal(scalar, want[:99])


@pytest.mark.parametrize("name", FORMATS)
def test_other_operations_on_every_nan(name: str) -> None:
    row = FORMATS[name]
    x = np.resize(every_nan(name), 203) if row.has_nan else every_nan(name)
    results = [getattr(nx, f)(x, name) for f in ("sqrt", "floor", "ceil")]
    results += [getattr(nx, f)(x, name) for f in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt")]
    results += [nx.sum_along(x[:, None], 1, name), nx.sum_along(x[None, :], 0, name)]
    for result in results:
        assert set(result.view(row.carrier).tolist()) <= {row.nan_code}
    a, b, c = beside_nan(name, 3)
    values = zip(*(numbers(v, name).tolist() for v in (a, b, c)), strict=True)
    exact = np.array([ieee("add", ieee("mul", *pair), z) for *pair, z in values])
    assert np.array_equal(nx.fma(a, b, c, name).view(row.carrier), stored(exact, name).view(row.carrier))
    for width in (8, 16, 32, 64):
        assert not nx.float_to_int(x, name, width, True).any() and not nx.float_to_int(x, name, width, False).any()
    assert nx.float_to_int(x, name, 1, False).all()
    for other in numbers(stored([1.0, -1.0], name), name):
        assert not any(nx.compare(x, stored([other], name), name, p).any() for p in ("eq", "lt", "le", "gt", "ge"))
        assert nx.compare(x, stored([other], name), name, "ne").all()
    assert nx.compare(x, x, name, "ne").all()


def test_a_nan_that_arithmetic_makes_is_positive_where_it_becomes_a_number() -> None:
    name = "f8e4m3b15"
    one, zero = stored([-1.0] * 40, name), stored([0.0] * 40, name)
    made = [nx.div(zero, zero, name), nx.rem(one, zero, name), nx.sqrt(one, name), nx.log(one, name)]
    assert [set(x.tolist()) for x in made] == [{FORMATS[name].max_code}] * 4


@pytest.mark.parametrize("name", FORMATS)
def test_compare(name: str) -> None:
    pairs = list(itertools.product(SPECIALS, SPECIALS))
    a, b = (stored([pair[side] for pair in pairs], name) for side in (0, 1))
    values = list(zip(numbers(a, name).tolist(), numbers(b, name).tolist(), strict=True))
    python: dict[str, Callable[[float, float], bool]] = {
        "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
    }  # fmt: skip
    for predicate, meaning in python.items():
        assert nx.compare(a, b, name, predicate).tolist() == [meaning(x, y) for x, y in values]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", oracle.NARROW)
def test_floor_and_ceil_of_every_code(name: str) -> None:
    row = FORMATS[name]
    x = np.arange(1 << row.bits, dtype=np.uint32).astype(row.carrier).view(row.storage)
    for operation, meaning in ((nx.floor, math.floor), (nx.ceil, math.ceil)):
        got = numbers(operation(x, name), name).tolist()
        for value, result in zip(numbers(x, name).tolist(), got, strict=True):
            if math.isnan(value):
                assert math.isnan(result)
            elif math.isinf(value):
                assert abs(result) == (row.max_finite if row.saturates else math.inf)
            else:
                assert result == max(-row.max_finite, min(row.max_finite, meaning(value)))


def test_ceil_keeps_the_sign_of_zero() -> None:
    for name in ("f16", "bf16", "f32", "f64", "f8e5m2"):
        assert np.signbit(numbers(nx.ceil(stored([-0.5], name), name), name)).all()
        assert np.signbit(numbers(nx.floor(stored([-0.0], name), name), name)).all()


@pytest.mark.parametrize("name", FORMATS)
def test_neg_and_abs_move_only_the_sign(name: str) -> None:
    row = FORMATS[name]
    bits = random_codes(name, 2000, 4).view(row.carrier)
    x = bits.view(row.storage)
    sign = row.carrier.type(row.sign_bit)
    flipped, cleared = bits ^ sign, bits & ~sign
    if not row.has_negative_zero:
        still = (bits & ~sign) == 0
        flipped, cleared = np.where(still, bits, flipped), np.where(still, bits, cleared)
    assert np.array_equal(nx.neg(x, name).view(row.carrier), flipped)
    assert np.array_equal(nx.abs_(x, name).view(row.carrier), cleared)


def check_fma(a: np.ndarray, b: np.ndarray, c: np.ndarray, name: str) -> None:
    got = numbers(nx.fma(a, b, c, name), name).tolist()
    operands = zip(*(numbers(x, name).tolist() for x in (a, b, c)), strict=True)
    for (x, y, z), result in zip(operands, got, strict=True):
        if math.isfinite(x) and math.isfinite(y) and math.isfinite(z):
            assert result == rounded(Fraction(x) * Fraction(y) + Fraction(z), name), (x, y, z)


@pytest.mark.parametrize("name", FORMATS)
def test_fma_of_random_codes(name: str) -> None:
    check_fma(*(random_codes(name, 1500, seed) for seed in (7, 8, 9)), name)


@pytest.mark.parametrize("name", FORMATS)
def test_fma_under_cancellation(name: str) -> None:
    rng = np.random.default_rng(10)
    a, b = (stored(rng.uniform(1, 2, 1500) * 2.0 ** rng.integers(-3, 3, 1500), name) for _ in range(2))
    product = numbers(a, name) * numbers(b, name)
    check_fma(a, b, stored(-product, name), name)
    tiny = 2.0 ** rng.integers(-60, 0, 1500)
    check_fma(a, b, stored(product * tiny, name), name)
    check_fma(a, stored(tiny, name), b, name)


@pytest.mark.parametrize("name", FORMATS)
def test_fma_of_special_values(name: str) -> None:
    row = FORMATS[name]
    triples = list(itertools.product([0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan], repeat=3))
    a, b, c = (stored([triple[side] for triple in triples], name) for side in range(3))
    values = zip(*(numbers(x, name).tolist() for x in (a, b, c)), strict=True)
    exact = np.array([ieee("add", ieee("mul", x, y), z) for x, y, z in values], dtype=np.float64)
    assert np.array_equal(nx.fma(a, b, c, name).view(row.carrier), stored(exact, name).view(row.carrier))


finite = st.floats(allow_nan=False, allow_infinity=False)
single = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(finite, finite, finite)
def test_fma_f64_anywhere(a: float, b: float, c: float) -> None:
    check_fma(*(np.array([x]) for x in (a, b, c)), "f64")


@given(single, single, single)
def test_fma_f32_anywhere(a: float, b: float, c: float) -> None:
    check_fma(*(np.array([x], np.float32) for x in (a, b, c)), "f32")


def test_fma_f64_at_the_ends_of_the_range() -> None:
    a = np.array([1e-200, 1e200, 5e-324, 1e308, 2.0**-537, 1.5 * 2.0**-538, 1e300])
    b = np.array([1e-200, 1e200, 0.5, 10.0, 2.0**-537, 1.25 * 2.0**-538, 1e-300])
    c = np.array([5e-324, -1e308, -5e-324, -1e308, 5e-324, 2.0**-1022, 1e-320])
    check_fma(a, b, c, "f64")


@pytest.mark.parametrize("name", ["f16", "f32"])
def test_blocks_of_large_operands_change_nothing(name: str) -> None:
    a, b = (random_codes(name, 3 * 70_001, seed).reshape(3, 70_001) for seed in (20, 21))
    code = FORMATS[name].carrier
    whole = nx.add(a, b, name).view(code)
    parts = [nx.add(a[i, j : j + 7000], b[i, j : j + 7000], name) for i in range(3) for j in range(0, 70_001, 7000)]
    assert np.array_equal(whole.reshape(-1), np.concatenate(parts).view(code))
    assert np.array_equal(nx.add(a[:, ::2], b[:, ::2], name).view(code), whole[:, ::2])
    for x, y in ((a[:, :1], b), (a[:1], b), (a, b[0]), (a.T, b[:1].T), (a[0, 0], b)):
        full = [np.ascontiguousarray(v) for v in np.broadcast_arrays(x, y)]
        assert np.array_equal(nx.add(x, y, name).view(code), nx.add(*full, name).view(code))


def test_operands_broadcast() -> None:
    column, row = np.ones((3, 1), np.float16), np.ones((1, 4), np.float16)
    assert nx.add(column, row, "f16").shape == (3, 4)
    assert nx.fma(column, row, np.float16(1), "f16").tolist() == [[2.0] * 4] * 3
    assert nx.fma(np.ones((3, 1)), np.ones(4), np.float64(1), "f64").tolist() == [[2.0] * 4] * 3
