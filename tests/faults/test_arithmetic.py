"""Reports of arithmetic: types of results, division, shifts, random bits, rounding, fusion and subnormal numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import Level, deep

Array = np.ndarray[Any, Any]
INTEGERS = ["uint8", "int16", "int32", "uint64", *deep("int8", "uint16", "uint32", "int64")]


def wrapped(values: Any, name: str) -> Array:
    """Python integers modulo 2 to the width."""
    bits = np.iinfo(name).bits
    return (np.asarray(values, object) % (1 << bits)).astype(f"uint{bits}").view(name)


def samples(name: str, count: int = 64) -> Array:
    """Numbers of all magnitudes, the ends of the range among them."""
    info = np.iinfo(name)
    rng = np.random.default_rng(info.bits)
    drawn = rng.integers(info.min, info.max, count, name, endpoint=True) >> rng.integers(0, info.bits, count).astype(
        name
    )
    drawn[:6] = [0, 1, info.max, info.min, wrapped([-1], name)[0], 7]
    return drawn


# --- integers ---


@tilewright.jit
def with_numbers(x, out, sizes, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    results = (value << 2, value + 100, tl.maximum(value, 100), value * 3, value & 15, value - 1, value * True)
    for k in tl.static_range(7):
        tl.store(out + k * N + i, results[k])
        tl.store(sizes + k, results[k].dtype.primitive_bitwidth)
        tl.store(sizes + 7 + k, results[k].dtype.is_int_signed())


@pytest.mark.parametrize("name", INTEGERS)
def test_a_number_beside_a_tile_takes_the_type_of_the_tile(level: Level, name: str) -> None:
    """The seven results keep their type, so that they wrap in it: uint8 stays uint8."""
    info, x = np.iinfo(name), samples(name)
    out, sizes = np.zeros((7, 64), np.int64), np.zeros(14, np.int32)
    level.run(with_numbers, (1,), x, out, sizes, N=64)
    wide = x.astype(object)
    results = [wide * 4, wide + 100, np.maximum(wide, 100), wide * 3, wide & 15, wide - 1, wide]
    for got, want in zip(out, results, strict=True):
        assert (got == wrapped(want, name).astype(np.int64)).all()
    assert sizes.tolist() == [info.bits] * 7 + [int(info.min < 0)] * 7


@tilewright.jit
def with_floats(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    half = value * 0.5
    tl.store(out + i, half)
    tl.store(out + N + i, value + 1)
    tl.store(out + 2 * N, half.dtype.primitive_bitwidth)


@pytest.mark.parametrize(("dtype", "width"), [(np.float16, 16), (np.float32, 32), (np.float64, 64), (np.int16, 32)])
def test_a_float_literal_does_not_widen_floats(level: Level, dtype: Any, width: int) -> None:
    x, out = np.arange(-32, 32).astype(dtype), np.zeros(129, np.float64)
    level.run(with_floats, (1,), x, out, N=64)
    assert out.tolist() == [*(x.astype(float) * 0.5), *(x.astype(float) + 1), width]


@tilewright.jit
def quotients(a, b, both, quotient, remainder, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(quotient + i, x // y)
    tl.store(remainder + i, x % y)
    tl.store(both + i, x // y)
    tl.store(both + N + i, x % y)


@tilewright.jit
def by_zero(a, out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    tl.store(out + i, x // 0)
    tl.store(out + N + i, x % 0)


@pytest.mark.parametrize("name", INTEGERS)
def test_division_by_zero_has_its_value_beside_the_remainder_too(level: Level, name: str) -> None:
    """All ones and the dividend; the rest truncates, and the least number by -1 wraps."""
    a, b = (each.ravel() for each in np.meshgrid(samples(name, 8), samples(name, 8)))
    both, zero = np.zeros((2, 64), name), np.zeros((2, 64), name)
    quotient, remainder = np.zeros(64, name), np.zeros(64, name)
    level.run(quotients, (1,), a, b, both, quotient, remainder, N=64)
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    divided = [-1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    wanted = (
        wrapped(divided, name),
        wrapped([x - q * y if y else x for (x, y), q in zip(pairs, divided, strict=True)], name),
    )
    for got in (both, (quotient, remainder)):
        assert (got[0] == wanted[0]).all() and (got[1] == wanted[1]).all()
    level.run(by_zero, (1,), a, zero, N=64)
    assert (zero[0] == wrapped([-1], name)[0]).all() and (zero[1] == a).all()


@tilewright.jit
def shifts(x, amounts, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value, amount = tl.load(x + i), tl.load(amounts + i)
    right = value >> amount
    tl.store(out + i, right)
    tl.store(out + N + i, value)
    tl.store(out + 2 * N + i, value << amount)
    tl.store(out + 3 * N + i, ~value)
    tl.store(out + 4 * N + i, value >> 1)


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts_follow_the_sign_and_leave_their_operand_alone(level: Level, name: str) -> None:
    """Also past the width, where nothing of the number is left but its sign."""
    info = np.iinfo(name)
    x, amounts = samples(name, 256), np.resize(np.arange(info.bits + 9), 256).astype(name)
    out = np.zeros((5, 256), name)
    level.run(shifts, (1,), x, amounts, out, N=256)
    wide, by = x.astype(object), amounts.astype(object)
    assert (out == [wrapped(each, name) for each in (wide >> by, wide, wide << by, ~wide, wide >> 1)]).all()


# --- random bits ---


@tilewright.jit
def random_numbers(offsets, bits, uniform, folded, words, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    offset = tl.load(offsets + i)
    tl.store(bits + i, tl.randint(seed, offset))
    tl.store(uniform + i, tl.rand(seed, offset))
    tl.store(folded + i, tl.uint_to_uniform_float(tl.load(words + i)))


def philox(offset: int, seed: int) -> int:
    """The first word of Philox 4x32 after ten rounds, in Python integers."""
    mask = 0xFFFFFFFF
    k0, k1 = seed & mask, seed >> 32 & mask
    c0, c1, c2, c3 = offset & mask, offset >> 32 & mask, 0, 0
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & mask, p0 >> 32 ^ c3 ^ k1, p0 & mask
        k0, k1 = k0 + 0x9E3779B9 & mask, k1 + 0xBB67AE85 & mask
    return c0


@pytest.mark.parametrize("name", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("seed", [2**32 + 5, *deep(0, 7)])
def test_random_bits_are_those_of_philox_and_uniform_numbers_take_every_word(
    level: Level, name: str, seed: int
) -> None:
    """The first word of a counter depends on an offset of 32 bits as on the same one of 64."""
    offsets = samples(name)
    words = np.array([-(2**31), 2**31 - 1, -1, 0, 1, -2, 2**30, -(2**30)] * 8, np.int32)
    bits, uniform, folded = np.zeros(64, np.uint32), np.zeros(64, np.float32), np.zeros(64, np.float32)
    level.run(random_numbers, (1,), offsets, bits, uniform, folded, words, seed, N=64)
    limit = 0xFFFFFFFF if np.iinfo(name).bits == 32 else 2**64 - 1
    want = np.array([philox(int(offset) & limit, seed) for offset in offsets], np.uint32)
    assert (bits == want).all()

    def scaled(word: Array) -> Array:
        return np.where(word < 0, ~word, word).astype(np.float32) * np.float32(4.6566127342e-10)

    assert (uniform == scaled(want.view(np.int32))).all() and (folded == scaled(words)).all()
    assert 0 <= folded.min() and folded.max() < 1


# --- division, roots and fusion ---


@tilewright.jit
def divisions(a, b, plain, exact, flagged, root, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(plain + i, x / y)
    tl.store(exact + i, tl.div_rn(x, y))
    tl.store(flagged + i, tl.fdiv(x, y, ieee_rounding=True))
    tl.store(root + i, tl.sqrt_rn(tl.abs(x)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_division_is_exact_where_it_is_asked_for_and_within_2_units_elsewhere(level: Level, dtype: Any) -> None:
    """Of every magnitude, subnormal operands and results among them: nothing is flushed."""
    rng = np.random.default_rng(4)
    unsigned = f"u{np.dtype(dtype).itemsize}"
    count = 1 << (20 if level.device == "cuda:0" else 13)
    a, b = (rng.integers(0, np.iinfo(unsigned).max, count, unsigned).view(dtype) for _ in "ab")
    a[:4], b[:4] = [4.6875, 1, 2, -0.0], [0.9375, 3, 0, 5]
    tiny = np.finfo(dtype).smallest_subnormal
    a[4:8], b[4:8] = [tiny, tiny * 3, np.finfo(dtype).tiny, -tiny], [1, 2, 2, 0.5]
    plain, exact, flagged, root = np.zeros((4, count), dtype)
    level.run(divisions, (count // 1024,), a, b, plain, exact, flagged, root, N=1024)
    with np.errstate(all="ignore"):
        want, roots = a / b, np.sqrt(np.abs(a))
        nan = np.isnan(want)
        assert np.array_equal(exact, want, equal_nan=True) and np.array_equal(flagged, want, equal_nan=True)
        assert np.array_equal(root, roots, equal_nan=True)
        assert (np.signbit(exact) == np.signbit(want))[~nan].all()
        apart = np.abs(plain.astype(np.float64) - want.astype(np.float64))
        allowed = 2.5 * np.abs(np.spacing(want)).astype(np.float64) if dtype is np.float32 else 0 * want
        assert ((apart <= allowed) | (plain == want) | (nan & np.isnan(plain))).all()
    assert exact[0] == 5


@tilewright.jit
def ratio_of_integers(a, out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    tl.store(out + i, (2 * x) / x)
    tl.store(out + N + i, tl.div_rn((2 * x).to(tl.float32), x.to(tl.float32)).to(tl.int64))


def test_twice_an_integer_by_itself(level: Level) -> None:
    """`/` of integers is a division in float32: 2 within its 2 units, which a store to integers truncates."""
    a, out = np.arange(1, 65, dtype=np.int64) * 1001, np.zeros((2, 64), np.float32)
    level.run(ratio_of_integers, (1,), a, out, N=64)
    assert (np.abs(out[0] - 2) <= 2 * np.spacing(np.float32(2))).all() and (out[1] == 2).all()


@tilewright.jit
def root_of_a_difference(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(out + i, tl.sqrt(tl.div_rn(value, 0.75) * 0.75 + 0.25))


@pytest.mark.parametrize("fuse", [True, False])
def test_a_product_and_a_sum_are_two_roundings_where_fusion_is_off(level: Level, fuse: bool) -> None:
    """0 as two roundings, and the root of a negative number as one."""
    x, out = np.full(32, -0.25, np.float32), np.zeros(32, np.float32)
    made = level.run(root_of_a_difference, (1,), x, out, N=32, enable_fp_fusion=fuse)
    if level.device == "interpreter" or not fuse:
        assert (out == 0).all()
    else:
        assert np.isnan(out).all()
    if level.device != "interpreter":
        ptx = str(made.asm["ptx"])
        assert ("fma.rn.f32" in ptx) == fuse
        assert fuse or ("mul.rn.f32" in ptx and "add.rn.f32" in ptx)


# --- subnormal numbers ---


@tilewright.jit
def small_results(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value, other = tl.load(x + i), tl.load(y + i)
    tl.store(out + 0 * N + i, tl.div_rn(value, other))
    tl.store(out + 1 * N + i, value * other)
    tl.store(out + 2 * N + i, value - other)
    tl.store(out + 3 * N + i, tl.sqrt_rn(value))
    tl.store(out + 4 * N + i, tl.fma(value, other, value))


@tilewright.jit
def powers_of_two(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.exp2(tl.load(x + tl.arange(0, N))))


def test_subnormal_results_and_operands_are_kept(level: Level) -> None:
    tiny = 2.0**-149
    x = np.array(
        [tiny, 3 * tiny, 2.0**-126, 2.0**-127, 2.0**-140, 1.5 * 2.0**-130, 7 * tiny, 2.0**-126] * 4, np.float32
    )
    y = np.array([1.0, 0.5, 2.0, 4.0, 2.0**-9, 0.75, 2.0**-126, 2.0**-126 - tiny] * 4, np.float32)
    out = np.full((5, 32), 9, np.float32)
    level.run(small_results, (1,), x, y, out, N=32)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64) * y.astype(np.float64) + x.astype(np.float64)  # exact: both are short
        want = np.stack([x / y, x * y, x - y, np.sqrt(x), wide.astype(np.float32)])
    assert out.tobytes() == want.tobytes()


def test_powers_of_two_reach_the_smallest_number(level: Level) -> None:
    """Within the contract of `exp2`, two units in the last place: of a subnormal number, two of the smallest."""
    x, out = np.arange(-150, -118, dtype=np.float32), np.zeros(32, np.float32)
    level.run(powers_of_two, (1,), x, out, N=32)
    want = np.exp2(x.astype(np.float64))
    assert (np.abs(out - want) <= 2 * np.maximum(np.spacing(want.astype(np.float32)), 2.0**-149)).all()
    assert (out[x >= -146] > 0).all()
