"""Casts against an oracle that shares no code with them: exhaustive where 16 bits allow, at every tie elsewhere."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from tests.interpreter.numerics import oracle
from tilewright.interpreter import numerics as nx
from tilewright.interpreter.numerics import FORMATS

MODES = ("rtne", "rtz")


def stored(codes: np.ndarray, name: str) -> np.ndarray:
    row = FORMATS[name]
    return codes.astype(row.carrier).view(row.storage)


def codes_of(x: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(x).view(FORMATS[name].carrier).astype(np.uint64)


def all_codes(name: str) -> np.ndarray:
    return np.arange(1 << FORMATS[name].bits, dtype=np.uint32)


def same_numbers(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal values, signs of zero included, NaN equal to NaN."""
    numbers = (got == want) & (np.signbit(got) == np.signbit(want))
    return bool((numbers | (np.isnan(got) & np.isnan(want))).all())


@pytest.mark.parametrize("name", oracle.NARROW)
def test_the_facts_of_each_format(name: str) -> None:
    row = FORMATS[name]
    exponent_bits, mantissa_bits, bias, largest, infinity, nan, negative_zero, saturates = oracle.LAYOUTS[name]
    assert (row.exponent_bits, row.mantissa_bits, row.bias) == (exponent_bits, mantissa_bits, bias)
    assert (row.max_code, row.inf_code, row.nan_code) == (largest, infinity, nan)
    assert (row.has_negative_zero, row.saturates) == (negative_zero, saturates)
    assert (row.has_inf, row.has_nan) == (infinity is not None, nan is not None)
    values = oracle.table(name).values
    assert row.max_finite == values[-1]
    assert row.min_subnormal == values[1]
    assert row.min_normal == values[1 << mantissa_bits]


@pytest.mark.parametrize("name", oracle.NARROW)
def test_decode_every_code(name: str) -> None:
    got = nx.decode(stored(all_codes(name), name), name)
    assert got.dtype == np.float32
    assert same_numbers(got.astype(np.float64), oracle.decode(all_codes(name), name))
    assert set(np.asarray(got[np.isnan(got)]).view(np.uint32).tolist()) <= {0x7FFF_FFFF}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source, target", list(itertools.permutations(oracle.NARROW, 2)))
def test_every_cast_between_narrow_formats(source: str, target: str, mode: str) -> None:
    x = stored(all_codes(source), source)
    values = np.asarray(nx.decode(x, source)).astype(np.float64)
    # f8e4m3b15 turns NaN into a number of the sign of the NaN, which `decode` does not tell.
    sign = np.where(all_codes(source) & FORMATS[source].sign_bit, -1.0, 1.0)
    values = np.where(np.isnan(values), np.copysign(values, sign), values)
    got = codes_of(nx.cast(x, source, target, mode), target)
    assert np.array_equal(got, oracle.encode(values, target, mode))


@pytest.mark.parametrize("name", FORMATS)
def test_a_cast_to_the_same_format_changes_no_bit(name: str) -> None:
    row = FORMATS[name]
    x = np.arange(0, 1 << 16, dtype=np.uint64).astype(row.carrier) * row.carrier.type(0xFFFF_0001 & (2**row.bits - 1))
    assert np.array_equal(nx.cast(x.view(row.storage), name, name).view(row.carrier), x)


def around_ties(name: str) -> np.ndarray:
    """Values, midpoints and overflow thresholds of a format with their f64 and f32 neighbours, of both signs."""
    t = oracle.table(name)
    points = np.concatenate([t.values, t.midpoints, [t.limit, 2 * t.limit, 1e-45, 5e-324, 1e300, 3.4028236e38]])
    beside = [np.nextafter(points, np.inf), np.nextafter(points, -np.inf)]
    with np.errstate(over="ignore"):
        narrow = points.astype(np.float32)
        beside += [np.nextafter(narrow, np.float32(s) * np.float32(np.inf)).astype(np.float64) for s in (1, -1)]
    every = np.concatenate([points, *beside, [np.inf, np.nan]])
    return np.concatenate([every, -every])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", oracle.NARROW)
def test_wide_to_narrow_at_every_tie(name: str, mode: str) -> None:
    x = around_ties(name)
    assert np.array_equal(codes_of(nx.round_to(x, name, mode), name), oracle.encode(x, name, mode))
    with np.errstate(over="ignore"):
        narrow = x.astype(np.float32)
    want = oracle.encode(narrow.astype(np.float64), name, mode)
    assert np.array_equal(codes_of(nx.round_to(narrow, name, mode), name), want)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", oracle.NARROW)
def test_wide_to_narrow_for_a_sweep_over_all_exponents(name: str, mode: str) -> None:
    rng = np.random.default_rng(11)
    for high in range(0, 1 << 32, 1 << 28):
        bits = rng.integers(high, high + (1 << 28), 1 << 20, dtype=np.uint64).astype(np.uint32)
        x = bits.view(np.float32)
        with np.errstate(invalid="ignore"):  # widening a signaling NaN
            want = oracle.encode(x.astype(np.float64), name, mode)
        assert np.array_equal(codes_of(nx.round_to(x, name, mode), name), want)


def test_f64_to_f32_at_ties() -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 0x7F80_0000, 4000).astype(np.uint32)
    bits = np.concatenate([bits, rng.integers(0, 0x0080_0000, 1000).astype(np.uint32), [0, 1, 0x7F7F_FFFF]])
    low = bits.astype(np.uint32).view(np.float32).astype(np.float64)
    step = np.ldexp(1.0, np.maximum(np.frexp(low)[1] - 24, -149))
    middle = low + step / 2
    x = np.concatenate([low, middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0.0)])
    x = np.concatenate([x, -x, [1e300, -1e300, np.inf, 1e-46]])
    want = [oracle.round_f32(Fraction(v)) if np.isfinite(v) and v != 0 else v for v in x.tolist()]
    assert same_numbers(nx.round_to(x, "f32").astype(np.float64), np.array(want))
    down = nx.round_to(x, "f32", "rtz").astype(np.float64)
    finite = np.isfinite(x)
    assert (np.abs(down[finite]) <= np.abs(x[finite])).all()
    up = (np.abs(down[finite]).astype(np.float32).view(np.uint32) + 1).view(np.float32).astype(np.float64)
    assert (up > np.abs(x[finite])).all()
    assert down[~finite].tolist() == [np.inf]


def test_nan_becomes_canonical_in_every_format() -> None:
    payloads = np.array([0x7FC0_0001, 0xFFFF_FFFF, 0x7F80_0001, 0xFF80_0001], dtype=np.uint32).view(np.float32)
    wide = np.array([0x7FF0_0000_0000_0001, 0xFFF8_0000_0000_0002], dtype=np.uint64).view(np.float64)
    for name, row in FORMATS.items():
        if row.nan_code is None:
            assert codes_of(nx.round_to(payloads, name), name).tolist() == [0x7F, 0xFF, 0x7F, 0xFF]
            assert codes_of(nx.round_to(wide, name), name).tolist() == [0x7F, 0xFF]
        else:
            assert set(codes_of(nx.round_to(payloads, name), name).tolist()) == {row.nan_code}
            assert set(codes_of(nx.round_to(wide, name), name).tolist()) == {row.nan_code}


def test_saturation_can_be_chosen() -> None:
    x = np.array([1e6, np.inf, -1e6, 3.0], dtype=np.float32)
    assert codes_of(nx.round_to(x, "f8e5m2", saturate=False), "f8e5m2").tolist() == [0x7C, 0x7C, 0xFC, 0x42]
    assert codes_of(nx.round_to(x, "f8e4m3fn", saturate=False), "f8e4m3fn").tolist() == [0x7F, 0x7F, 0xFF, 0x44]
    assert codes_of(nx.round_to(x, "f8e4m3b15", saturate=False), "f8e4m3b15").tolist() == [0x7F, 0x7F, 0xFF, 0x7F]
    assert nx.round_to(x, "f16", saturate=True).tolist() == [65504.0, 65504.0, -65504.0, 3.0]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_shapes_survive(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    for name in FORMATS:
        narrow = nx.round_to(x, name)
        assert (narrow.shape, narrow.dtype) == (shape, FORMATS[name].storage)
        assert nx.decode(narrow, name).shape == shape
        assert nx.float_to_int(narrow, name, 32, True).shape == shape
        assert nx.cast(narrow[..., ::2] if shape else narrow, name, "f32").dtype == np.float32
    assert nx.int_to_float(np.zeros(shape, np.int64), True, "f16").shape == shape


def integers_at_ties(precision: int, width: int, signed: bool) -> list[int]:
    """Integers around every midpoint between neighbours of the given precision, at every exponent of the width."""
    rng = np.random.default_rng(precision)
    top = width - 1 if signed else width
    found = {0, 1, 2, (1 << top) - 1}
    for length in range(precision + 1, top + 1):
        step = 1 << (length - precision)
        for head in {1 << (precision - 1), (1 << precision) - 1, *rng.integers(0, 1 << (precision - 1), 3).tolist()}:
            middle = (head | 1 << (precision - 1)) * step + step // 2
            found |= {middle - 1, middle, middle + 1, middle - step // 2, middle + step // 2}
    if signed:
        found |= {-value for value in found} | {-(1 << top)}
    return sorted(value for value in found if -(1 << top) * signed <= value < 1 << top)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("name", FORMATS)
def test_integers_to_every_float_at_ties(name: str, width: int, signed: bool) -> None:
    values = integers_at_ties(FORMATS[name].precision, width, signed)
    x = np.array(values, dtype=f"{'i' if signed else 'u'}{width // 8}").view(f"i{width // 8}")
    got = nx.int_to_float(x, signed, name)
    if name in oracle.LAYOUTS:
        want = [oracle.round_fraction(Fraction(value), name) for value in values]
        assert codes_of(got, name).tolist() == want
    else:
        exact = oracle.round_f32 if name == "f32" else oracle.round_f64
        assert got.tolist() == [exact(Fraction(value)) for value in values]


def test_i1_to_float() -> None:
    x = np.array([False, True])
    assert nx.int_to_float(x, False, "f16").tolist() == [0.0, 1.0]
    assert nx.int_to_float(x, True, "f16").tolist() == [0.0, -1.0]


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("name", FORMATS)
def test_floats_to_integers(name: str, width: int, signed: bool) -> None:
    row = FORMATS[name]
    if row.bits <= 16:
        x = stored(all_codes(name), name)
    else:
        low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
        edges = np.array(
            [low - 1, low - 0.5, low, low + 0.5, high - 1, high - 0.5, high, 2.0 * high, 0.5, -0.5, -1.5], np.float64
        )
        edges = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), [np.inf, -np.inf]])
        x = nx.round_to(np.concatenate([edges, [np.nan, 1e300, -1e300, 5e-324, -0.0]]), name)
    values = np.asarray(nx.decode(x, name)).astype(np.float64).tolist()
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)

    def one(value: float) -> int:
        if value != value:
            return 0
        if abs(value) == float("inf"):
            return high if value > 0 else low
        return max(low, min(high, int(value)))

    got = nx.float_to_int(x, name, width, signed)
    assert got.dtype == np.dtype(f"i{width // 8}")
    assert got.view(f"{'i' if signed else 'u'}{width // 8}").tolist() == [one(value) for value in values]


@pytest.mark.parametrize("name", FORMATS)
def test_float_to_i1_is_not_equal_zero(name: str) -> None:
    x = nx.round_to(np.array([0.0, -0.0, 1.0, 0.25, np.nan]), name)
    assert nx.float_to_int(x, name, 1, False).tolist() == [False, False, True, True, True]


def test_tf32() -> None:
    one = 0x3F80_0000
    bits = np.array([one + 0x1000, one + 0x3000, one + 0xFFF, one + 0x1001, 0x7FFF_FFFF, 0x7F7F_FFFF], np.uint32)
    x = bits.view(np.float32)
    nan = 0x7FFF_E000
    assert nx.round_tf32(x, "rtz").view(np.uint32).tolist() == [one, one + 0x2000, one, one, nan, 0x7F7F_E000]
    want = [one, one + 0x4000, one, one + 0x2000, nan, 0x7F80_0000]
    assert nx.round_tf32(x, "rtne").view(np.uint32).tolist() == want
    assert nx.round_tf32(x, "rna").view(np.uint32).tolist() == [one + 0x2000, *want[1:]]
