"""Sums and dot products against exact rationals, on data chosen to cancel, to tie, and to defeat f64."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interpreter.numerics import oracle
from tilewright.interpreter import numerics as nx
from tilewright.interpreter.numerics import FORMATS

WIDE = ("f32", "f64")


def stored(values: np.ndarray, name: str) -> np.ndarray:
    return nx.round_to(np.asarray(values, dtype=np.float64), name)


def numbers(x: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # widening a signaling NaN
        return np.asarray(nx.decode(x, name)).astype(np.float64)


def rounded(value: Fraction, name: str) -> float:
    if name == "f64":
        return oracle.round_f64(value)
    if name == "f32":
        return oracle.round_f32(value)
    if name in oracle.FP8:
        value = Fraction(oracle.round_f32(value))
    return float(oracle.decode(np.array([oracle.round_fraction(value, name)], np.uint16), name)[0])


def data(kind: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Storage of a format: smooth, of many magnitudes, small integers, or pairs that nearly cancel (last axis)."""
    rng = np.random.default_rng(len(kind) + shape[-1])
    x = rng.standard_normal(shape)
    if kind == "scaled":
        x *= 2.0 ** rng.integers(-12, 12, shape)
    if kind == "integers":
        x = rng.integers(-9, 10, shape).astype(np.float64)
    if kind == "cancelling":
        half = shape[-1] // 2
        x *= 2.0 ** rng.integers(-12, 12, shape)
        x[..., half : 2 * half] = -x[..., :half] * (1 + 2.0**-6 * (rng.integers(0, 4, x[..., :half].shape) == 0))
    return stored(x, name)


KINDS = ("smooth", "scaled", "integers", "cancelling")


def check_sum(x: np.ndarray, name: str, out: str) -> None:
    got = numbers(nx.sum_along(x, -1, name, out), out).reshape(-1).tolist()
    rows = numbers(x, name).reshape(-1, x.shape[-1]).tolist()
    assert got == [rounded(sum(map(Fraction, row), Fraction(0)), out) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMATS)
def test_sum_in_its_own_format(name: str, kind: str) -> None:
    check_sum(data(kind, (20, 37), name), name, name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("out", FORMATS)
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "f8e5m2"])
def test_sum_into_another_format(name: str, out: str, kind: str) -> None:
    check_sum(data(kind, (8, 24), name), name, out)


def test_sum_that_ends_at_a_tie_or_just_beside_it() -> None:
    tie = 2.0**-24
    rows = [[1.0, tie, 0.0], [1.0, tie, 2.0**-140], [1.0, tie, -(2.0**-140)], [1.0, 3 * tie, 2.0**-149], [1, tie, tie]]
    got = nx.sum_along(np.array(rows, np.float32), 1, "f32").tolist()
    assert got == [1.0, 1.0 + 2.0**-23, 1.0, 1.0 + 2.0**-22, 1.0 + 2.0**-23]
    up = [1.0 + 2.0**-52, 1.0, 1.0 + 2.0**-52]
    rows = [[1.0, 2.0**-53, 5e-324], [1.0, 2.0**-53, -5e-324], [2.0**-53, 1.0, 2.0**-1000]]
    assert nx.sum_along(np.array(rows), 1, "f64").tolist() == up


@pytest.mark.parametrize("exponent", [-1074, -30, 0, 900])
def test_sum_of_multiples_that_f64_holds_or_just_does_not(exponent: int) -> None:
    half, whole = 2.0**52, 2.0**53
    rows = [
        [half, half - 1, 0],
        [half, half - 1, 2],
        [whole, 1, 0],
        [whole, 1, 1],
        [-whole, -1, 2],
        [half - 1, -half, 1],
    ]
    rows += [[2.0**49, 2.0**49 + 1, 2.0**50 - 2], [2.0**51 - 1, 2.0**51 - 1, 1], [-0.0, -0.0, -0.0]]
    x = np.ldexp(np.array(rows), exponent)
    check_sum(x, "f64", "f64")
    assert np.signbit(nx.sum_along(x[-1:], 1, "f64")).all()


def test_sum_that_overflows_on_the_way() -> None:
    rows = np.array([[1e308, 1e308, -1e308], [1e308, 1e308, 1e308], [1e308, -1e308, 1.0]])
    assert nx.sum_along(rows, 1, "f64").tolist() == [1e308, math.inf, 1.0]
    huge = np.full((2, 8), 3e38, np.float32)
    huge[0, ::2] *= -1
    assert nx.sum_along(huge, 1, "f32").tolist() == [0.0, math.inf]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_sum_along_any_axis(axis: int) -> None:
    x = stored(np.random.default_rng(0).standard_normal((3, 4, 5)), "f16")
    got = nx.sum_along(x, axis, "f16", "f32")
    rows = np.moveaxis(numbers(x, "f16"), axis, -1)
    assert got.shape == rows.shape[:-1]
    assert got.reshape(-1).tolist() == [math.fsum(row) for row in rows.reshape(-1, rows.shape[-1]).tolist()]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_sum_of_special_values(name: str, axis: int) -> None:
    inf, nan = math.inf, math.nan
    rows = [
        [inf, 1, 2],
        [inf, -inf, 0],
        [nan, 1, 1],
        [-inf, -inf, 1],
        [-0.0, -0.0, -0.0],
        [-0.0, 0.0, -0.0],
        [1, -1, 0],
    ]
    x = stored(np.array(rows), name)
    got = numbers(nx.sum_along(x if axis else x.T, axis, name), name)
    assert np.array_equal(got, np.array([inf, nan, nan, -inf, 0, 0, 0]), equal_nan=True)
    assert np.signbit(got[4:]).tolist() == [True, False, False]
    assert nx.sum_along(x[:, :0], 1, name).tolist() == [0.0] * 7
    assert numbers(nx.sum_along(x[0], 0, name), name) == inf
    assert nx.sum_along(x[:0], 1, name).shape == (0,)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=12))
def test_sum_of_any_f32(values: list[float]) -> None:
    check_sum(np.array([values], np.float32), "f32", "f32")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
def test_sum_of_any_f64(values: list[float]) -> None:
    check_sum(np.array([values]), "f64", "f64")


def check_dot(
    a: np.ndarray, b: np.ndarray, acc: np.ndarray | None, fmt: str, out: str, b_fmt: str | None = None
) -> None:
    got = numbers(nx.dot(a, b, acc, fmt, out, b_fmt=b_fmt), out)
    left, right = numbers(a, fmt), numbers(b, b_fmt or fmt)
    start = np.zeros(got.shape) if acc is None else numbers(acc, out)
    assert got.shape == (*a.shape[:-1], b.shape[-1])
    for place in np.ndindex(got.shape):
        *batch, i, j = place
        pairs = zip(left[(*batch, i)].tolist(), right[(*batch, slice(None), j)].tolist(), strict=True)
        want = sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(start[place]))
        assert got[place] == rounded(want, out), place


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "fmt, out",
    [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"), ("f8e4m3fn", "f32"),
     ("f8e5m2", "f16"), ("f8e5m2fnuz", "f32"), ("f8e4m3fnuz", "f32"), ("f8e4m3b15", "f32"), ("f32", "f64")],
)  # fmt: skip
def test_dot(fmt: str, out: str, kind: str) -> None:
    a = data(kind, (2, 6, 24), fmt)
    right = np.swapaxes(numbers(data(kind, (2, 5, 24), fmt), fmt), 1, 2).copy()
    if kind == "cancelling":
        half = 12  # equal columns, so that the halves of the rows cancel
        right[:, half : 2 * half] = right[:, :half]
    b, acc = stored(right, fmt), data(kind, (2, 6, 5), out)
    check_dot(a, b, acc, fmt, out)
    check_dot(a, b, None, fmt, out)


@pytest.mark.parametrize("fmt, out", [("f16", "f32"), ("bf16", "f32"), ("f16", "f16")])
def test_dot_of_many_matrices(fmt: str, out: str) -> None:
    """More results than one block holds, of which many hit ties; checked in whole numbers of 2**-100."""
    rng = np.random.default_rng(12)
    shapes = [(9, 64, 16), (9, 16, 64), (9, 64, 64)]
    a, b, acc = (stored(rng.standard_normal(shape), name) for shape, name in zip(shapes, (fmt, fmt, out), strict=True))
    whole = [
        np.vectorize(lambda x: int(math.ldexp(x, 50)), otypes=[object])(numbers(x, name))
        for x, name in ((a, fmt), (b, fmt))
    ]
    start = np.vectorize(lambda x: int(math.ldexp(x, 100)), otypes=[object])(numbers(acc, out))
    total = np.matmul(*whole) + start
    want = [rounded(Fraction(value, 1 << 100), out) for value in total.reshape(-1)[::7].tolist()]
    assert numbers(nx.dot(a, b, acc, fmt, out), out).reshape(-1)[::7].tolist() == want


def test_dot_of_two_formats() -> None:
    check_dot(data("smooth", (4, 8), "f8e5m2"), data("smooth", (8, 3), "f8e4m3fn"), None, "f8e5m2", "f32", "f8e4m3fn")


def test_dot_broadcasts_its_batches() -> None:
    a, b = np.ones((3, 1, 2, 4), np.float16), np.ones((5, 4, 2), np.float16)
    got = nx.dot(a, b, np.float32(1.0).reshape(1, 1), "f16")
    assert (got.shape, got.dtype) == ((3, 5, 2, 2), np.float32)
    assert (got == 5.0).all()


@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
def test_dot_of_special_values(fmt: str) -> None:
    out = "f64" if fmt == "f64" else "f32"
    inf, nan = math.inf, math.nan
    a = stored(np.array([[1.0, inf], [0.0, inf], [nan, 0.0], [0.0, -0.0]]), fmt)
    b = stored(np.array([[1.0, -inf], [0.0, 1.0]]), fmt)
    got = nx.dot(a, b, None, fmt, out)
    assert np.array_equal(got, np.array([[nan, nan], [nan, nan], [nan, nan], [0, nan]]), equal_nan=True)
    acc = stored(np.array([[inf, -inf], [1, nan], [2, 3], [4, 5]]), out)
    got = nx.dot(np.abs(a[3:]), np.ones((2, 2), a.dtype), acc[:1], fmt, out)
    assert got.tolist() == [[inf, -inf]]
    assert np.isnan(nx.dot(a, b, acc, fmt, out)[1]).all()


@pytest.mark.parametrize("fmt", ["bf16", "f32", "f64"])
def test_dot_zero_has_the_sign_of_ieee_additions(fmt: str) -> None:
    out = "f64" if fmt == "f64" else "f32"
    zeros, ones = stored(np.zeros((1, 3)), fmt), stored(np.ones((3, 2)), fmt)
    negative = stored(np.full((1, 3), -0.0), fmt)
    acc = stored(np.array([[-0.0, 0.0]]), out)
    assert np.signbit(nx.dot(negative, ones, acc, fmt, out)).tolist() == [[True, False]]
    assert np.signbit(nx.dot(zeros, ones, acc, fmt, out)).tolist() == [[False, False]]
    assert np.signbit(nx.dot(negative, ones, None, fmt, out)).tolist() == [[False, False]]


@pytest.mark.parametrize(
    "left, right, acc, result",
    [
        ([math.inf, 1.0], [1.0, 1.0], 0.0, math.inf),
        ([math.inf, 1.0], [1.0, 1.0], -math.inf, math.nan),
        ([1e300, 1.0], [1e300, 1.0], -math.inf, -math.inf),
        ([1e300, 1.0], [-1e300, 1.0], math.inf, math.inf),
        ([1e300, 1e300], [1e300, -1e300], 3.0, 3.0),
        ([1e300, 1e300], [1e300, 1e300], 3.0, math.inf),
        ([0.0, math.inf], [math.inf, 1.0], 3.0, math.nan),
    ],
)
def test_dot_f64_of_infinities_and_overflowing_products(
    left: list[float], right: list[float], acc: float, result: float
) -> None:
    got = nx.dot(np.array([left]), np.array([right]).T, np.array([[acc]]), "f64", "f64")
    assert np.array_equal(got, [[result]], equal_nan=True)


@pytest.mark.parametrize("fmt", ["f16", "bf16", "f8e4m3fn", "f32"])
def test_dot_sets_rows_with_tiny_elements_apart(fmt: str) -> None:
    """Most elements pass the exactness test by rows and columns; the few that do not are settled one by one."""
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal((2, 16, 40)), rng.standard_normal((2, 40, 32))
    form = FORMATS[fmt]
    smallest = 2.0 ** max(1 - form.bias - form.mantissa_bits, -60)
    a[0, 3, 5], a[1, 7], b[0, 2, 9], b[1, :, 30] = smallest, smallest, -smallest, 3 * smallest
    acc = rng.standard_normal((2, 16, 32)).astype(np.float32)
    acc[0, 4, 4], acc[1, 5, 5] = 1e-30, -1e-38
    check_dot(stored(a, fmt), stored(b, fmt), acc, fmt, "f32")


@pytest.mark.parametrize("fmt", ["f16", "f8e4m3fn", "f32"])
def test_dot_of_matrices_that_programs_share(fmt: str) -> None:
    """Each program gets what it gets alone, whichever programs have its matrices, in whole or up to the first row."""
    left, right = data("scaled", (8, 32, 64), fmt), data("smooth", (2, 64, 64), fmt)
    acc = data("smooth", (8, 32, 64), "f32")
    right[1, 0] = right[0, 0]
    for a, b in [
        (left, right[[0, 0, 0, 0, 1, 1, 1, 1]]),
        (left[[0, 1, 2, 3, 0, 1, 2, 3]], right[:1]),
        (left[[5, 5, 5, 5, 2, 2, 2, 2]], np.swapaxes(np.swapaxes(right, 1, 2)[[0, 0, 0, 0, 0, 0, 0, 0]], 1, 2)),
        (left[:1], right[:1]),
    ]:
        got = nx.dot(a, b, acc, fmt)
        for program in range(8):
            alone = nx.dot(a[program % len(a)], b[program % len(b)], acc[program], fmt)
            assert np.array_equal(got[program].view(np.uint32), alone.view(np.uint32))


@pytest.mark.parametrize("largest, result", [(1.0, 2.0), (1.797e308, math.inf), (math.inf, math.inf), (math.nan,) * 2])
def test_dot_beside_an_accumulator_of_any_size(largest: float, result: float) -> None:
    a = np.array([[2.0**40, 1.0, -(2.0**40)]] * 2, np.float32)
    b = np.array([[2.0**40] * 2, [1.0] * 2, [2.0**40] * 2], np.float32)
    got = nx.dot(a, b, np.array([[largest, 0.0], [2.0**-140, 0.0]]), "f32", "f64", "f32")
    assert np.array_equal(got, [[result, 1.0], [1.0, 1.0]], equal_nan=True)


def test_dot_of_many_tiny_accumulators() -> None:
    a, b = data("smooth", (3, 8, 16), "f16"), data("smooth", (3, 16, 8), "f16")
    acc = data("smooth", (3, 8, 8), "f32") * np.float32(1e-30)
    check_dot(a, b, acc, "f16", "f32")


def test_dot_f64_beyond_the_range_of_error_free_products() -> None:
    a = np.array([[1e-300, 1e-200], [1e200, 1e200], [1e-160, -1e-160], [1e308, -1e308]])
    b = np.array([[1e-20, 1e200], [1e-124, -1e200]])
    check_dot(a, b, np.array([[5e-324, 0.0], [0.0, 0.0], [1.0, -1.0], [0.0, 1e-300]]), "f64", "f64")


def test_dot_that_f64_alone_would_round_wrongly() -> None:
    a = np.array([[2.0**12, 2.0**-60, -(2.0**12)]], np.float32)
    b = np.array([[2.0**12], [1.0], [2.0**12]], np.float32)
    assert nx.dot(a, b, None, "f32") == 2.0**-60
    tie = np.array([[1.0, 2.0**-12, 2.0**-70]], np.float32)
    assert nx.dot(tie, np.array([[1.0], [2.0**-12], [2.0**-70]], np.float32), None, "f32") == 1 + 2.0**-23


@pytest.mark.parametrize("k", [4, 1100, 20000])
@pytest.mark.parametrize("signed", [True, False])
def test_integer_dot_wraps(signed: bool, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.integers(-128, 128, (2, 3, k)).astype(np.int8), rng.integers(-128, 128, (2, k, 2)).astype(np.int8)
    a[0, 0] = b[0, :, 0] = -128 if signed else -1
    acc = np.full((2, 3, 2), 2**31 - 5, np.int32)
    wide = [x.view(np.int8 if signed else np.uint8).astype(np.int64) for x in (a, b)]
    want = (np.einsum("pmk,pkn->pmn", *wide) + acc).astype(np.int32)
    assert np.array_equal(nx.dot_int(a, b, acc, signed), want)
    assert np.array_equal(nx.dot_int(a, b, None, signed), (want.astype(np.int64) - acc).astype(np.int32))


@pytest.mark.parametrize("factor", [0.0, -0.0])
def test_the_largest_double_times_zero_is_zero(factor: float) -> None:
    """The error of such a product is no NaN, though a part of the largest double overflows on the way to it."""
    a, b = np.full((2, 4), -np.finfo(np.float64).max), np.full((4, 2), factor)
    for start in (None, np.zeros((2, 2)), np.full((2, 2), -0.0)):
        got = nx.dot(a, b, start, "f64", "f64")
        assert (got == 0).all()
        negative = factor == 0.0 and math.copysign(1, factor) > 0 and start is not None and np.signbit(start).all()
        assert (np.signbit(got) == negative).all()
