"""Reports of reductions: their order, width, axes and special values, and of truth values that come of numbers."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import Level, deep
from tilewright.lang import CompilationError

Array = np.ndarray[Any, Any]
NAN = np.nan


# --- truth values ---


@tilewright.jit
def sums_as_truth(x, truth, cast, equal, N: tl.constexpr):
    total = tl.sum(tl.load(x + tl.arange(0, N)).to(tl.int32))
    tl.store(truth, total)
    tl.store(cast, total.to(tl.int1))
    tl.store(equal, total != 0)


@pytest.mark.parametrize("count", [0, 1, 128, 256, 512])
def test_a_sum_is_true_whatever_its_low_byte_is(level: Level, count: int) -> None:
    x = np.arange(512) < count
    results = [np.full(1, 7, np.uint8).view(np.bool_) for _ in range(3)]
    level.run(sums_as_truth, (1,), x, *results, N=512)
    assert [int(each.view(np.uint8)[0]) for each in results] == [count > 0] * 3


@tilewright.jit
def as_truth(x, stored, cast, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(stored + i, value)
    tl.store(cast + i, tl.where(value.to(tl.int1), 1, 0).to(tl.int8))


def numbers_around_zero(dtype: Any) -> Array:
    if np.issubdtype(dtype, np.integer):
        bits = np.iinfo(dtype).bits
        edges = [0, 1, -1, 2, *(s << b for s in (1, -1, 3) for b in range(bits))]
        return np.array([value % 2**bits for value in edges], f"u{bits // 8}").view(dtype)
    tiny = np.array([1], f"u{np.dtype(dtype).itemsize}").view(dtype)[0]  # the smallest subnormal number
    values = np.array([0.0, -0.0, 0.02, -0.02, 0.999, 1.5, np.inf, -np.inf, NAN, tiny, -tiny]).astype(dtype)
    return np.concatenate([values, (0.02 * np.arange(128) - 1.28).astype(dtype)])


@pytest.mark.parametrize(
    "dtype",
    [
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.uint8,
        np.uint64,
        np.float16,
        ml_dtypes.bfloat16,
        np.float32,
        np.float64,
    ],
)
def test_a_number_is_true_where_it_is_not_zero_and_true_is_the_byte_1(level: Level, dtype: Any) -> None:
    x = np.resize(numbers_around_zero(dtype), 256)
    stored, cast = np.full(256, 9, np.uint8), np.full(256, 9, np.int8)
    level.run(as_truth, (1,), x, stored.view(np.bool_), cast, N=256)
    want = x != np.zeros(1, dtype)
    assert (stored == want).all() and (cast == want).all()


@tilewright.jit
def compares_truths(a, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(out + i, x < y)
    tl.store(out + N + i, x <= y)
    tl.store(out + 2 * N + i, x == y)
    tl.store(out + 3 * N + i, x != y)
    tl.store(out + 4 * N + i, x >= y)
    tl.store(out + 5 * N + i, x > y)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8])
def test_false_is_less_than_true(level: Level, dtype: Any) -> None:
    a, b = np.array([0, 0, 1, 1]).astype(dtype), np.array([0, 1, 0, 1]).astype(dtype)
    out = np.zeros((6, 4), np.bool_)
    level.run(compares_truths, (1,), a, b, out, N=4)
    orders = (operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt)
    assert (out == [order(a.astype(int), b.astype(int)) for order in orders]).all()


# --- NaN in extremes ---


@tilewright.jit
def extremes(a, b, low, high, out, N: tl.constexpr, MODE: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(out + i, tl.maximum(x, y, propagate_nan=MODE))
    tl.store(out + N + i, tl.minimum(x, y, propagate_nan=MODE))
    tl.store(out + 2 * N + i, tl.clamp(x, tl.load(low + i), tl.load(high + i), propagate_nan=MODE))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("propagates", [True, False])
def test_extremes_treat_nan_as_their_mode_says(level: Level, dtype: Any, propagates: bool) -> None:
    special = np.array([NAN, -np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, NAN])
    a, b = (each.ravel() for each in np.meshgrid(special, special, indexing="ij"))
    low, high = np.full(64, -1.0), np.full(64, 1.0)
    mode = tl.PropagateNan.ALL if propagates else tl.PropagateNan.NONE
    out = np.zeros((3, 64), dtype)
    level.run(extremes, (1,), *(each.astype(dtype) for each in (a, b, low, high)), out, N=64, MODE=mode)
    larger, smaller = (np.maximum, np.minimum) if propagates else (np.fmax, np.fmin)
    want = [larger(a, b), smaller(a, b), np.minimum(np.maximum(a, -1), 1) if propagates else np.fmin(np.fmax(a, -1), 1)]
    for got, expected in zip(out.astype(np.float64), want, strict=True):
        assert np.array_equal(got, expected, equal_nan=True)
    zero = (a == 0) & (b == 0)
    assert (np.signbit(out[0].astype(float)) == np.signbit(a) & np.signbit(b))[zero].all()
    assert (np.signbit(out[1].astype(float)) == np.signbit(a) | np.signbit(b))[zero].all()


# --- nearest of several centres, counted ---


@tilewright.jit
def counts_nearest(points, centres, counts, P: tl.constexpr, D: tl.constexpr, C: tl.constexpr):
    p, d, c = tl.arange(0, P), tl.arange(0, D), tl.arange(0, C)
    x = tl.load(points + p[:, None] * D + d[None, :])
    y = tl.load(centres + d[:, None] * C + c[None, :])
    nearest = tl.argmin(tl.dot(x, y), axis=1)
    tl.atomic_add(counts + nearest, 1)


@pytest.mark.parametrize("shape", [(16, 16, 4), (64, 16, 16), *deep((128, 32, 8))])
def test_the_smallest_product_of_each_row_is_counted_once(level: Level, shape: tuple[int, int, int]) -> None:
    """A product, its `argmin` and a count: what a histogram of the indices gives, with atomics."""
    p, d, c = shape
    rng = np.random.default_rng(p)
    x, y = rng.integers(-3, 4, (p, d)).astype(np.float16), rng.integers(-3, 4, (d, c)).astype(np.float16)
    counts = np.zeros(c, np.int32)
    level.run(counts_nearest, (1,), x, y, counts, P=p, D=d, C=c)
    nearest = np.argmin(x.astype(np.float64) @ y.astype(np.float64), axis=1)
    assert counts.sum() == p and (counts == np.bincount(nearest, minlength=c)).all()


# --- widths ---


@tilewright.jit
def multiply(a, b):
    return a * b


@tilewright.jit
def wrapping(x, sums, products, total, M: tl.constexpr, N: tl.constexpr, TYPE: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(sums + i, tl.sum(tile, axis=1, dtype=TYPE))
    tl.store(products + j, tl.reduce(tile, 0, multiply))
    tl.store(total, tl.sum(tile, dtype=TYPE))


@pytest.mark.parametrize("name", ["int8", "uint16", "int32", "uint64", *deep("uint8", "int16", "uint32", "int64")])
def test_sums_and_products_of_integers_wrap(level: Level, name: str) -> None:
    info = np.iinfo(name)
    x = np.full((4, 128), 1 << (info.bits - 2), name)
    x[2:] = np.random.default_rng(info.bits).integers(info.min, info.max, (2, 128), name, endpoint=True)
    x[3, ::2] = info.min
    sums, products, total = np.zeros(4, name), np.zeros(128, name), np.zeros(1, name)
    level.run(wrapping, (1,), x, sums, products, total, M=4, N=128, TYPE=getattr(tl, name))
    exact = x.astype(object)

    def wrap(value: Any) -> Array:
        return (np.asarray(value, object) % 2**info.bits).astype(f"uint{info.bits}").view(name)

    assert (sums == wrap(exact.sum(axis=1))).all() and total[0] == wrap([exact.sum()])[0]
    assert (products == wrap(exact.prod(axis=0))).all()


# --- several values at once ---


@tilewright.jit
def welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    delta = mean_b - mean_a
    count = count_a + count_b
    share = tl.where(count == 0, 0.0, count_b / count)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@tilewright.jit
def mean_and_variance(x, out, N: tl.constexpr, TYPE: tl.constexpr):
    value = tl.load(x + tl.arange(0, N)).to(TYPE)
    mean, m2, count = tl.reduce((value, value * 0, value * 0 + 1), 0, welford)
    tl.store(out, mean.to(tl.float32))
    tl.store(out + 1, (m2 / count).to(tl.float32))


def test_a_combining_function_that_widens_its_values_is_refused(level: Level) -> None:
    """In float16 and bfloat16 a quotient is float32, and so are the results: not what was combined."""
    for type_, name in ((tl.float16, "float16"), (tl.bfloat16, "bfloat16")):
        with pytest.raises(CompilationError) as caught:
            level.run(mean_and_variance, (1,), np.ones(64, np.float16), np.zeros(2, np.float32), N=64, TYPE=type_)
        assert name in str(caught.value) and "float32" in str(caught.value) and "reduce" in str(caught.value)


@pytest.mark.parametrize("size", [4, 256, *deep(1, 32, 64)])
def test_mean_and_variance_in_one_reduction(level: Level, size: int) -> None:
    """In float64, of which what the bracketing changes is far below the float32 that is stored."""
    x, out = np.full(size, 3, np.float32), np.zeros(2, np.float32)
    level.run(mean_and_variance, (1,), x, out, N=size, TYPE=tl.float32)
    assert list(out) == [3, 0]  # with equal values nothing rounds
    x = np.random.default_rng(size).integers(-8, 9, size).astype(np.float32)
    level.run(mean_and_variance, (1,), x, out, N=size, TYPE=tl.float64)
    want = np.array([x.astype(np.float64).mean(), x.astype(np.float64).var()])
    assert (np.abs(out - want) <= np.spacing(np.float32(np.maximum(np.abs(want), 1)))).all()


# --- axes ---


@tilewright.jit
def sums_columns(x, out, rows, B: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    b, r, c = tl.arange(0, B), tl.arange(0, R), tl.arange(0, C)
    total = tl.zeros((B, C), tl.int32)
    for at in range(0, rows, R):
        places = b[:, None, None] * rows * C + (at + r)[None, :, None] * C + c[None, None, :]
        total += tl.sum(tl.load(x + places), axis=1)
    tl.store(out + b[:, None] * C + c[None, :], total)


@pytest.mark.parametrize("columns", [1, 4, 16, *deep(2, 8)])
@pytest.mark.parametrize("batches", [1, 4])
def test_columns_of_a_batch_are_summed_in_tiles_smaller_than_the_block(
    level: Level, batches: int, columns: int
) -> None:
    x = np.random.default_rng(columns).integers(-99, 100, (batches, 32, columns)).astype(np.int32)
    out = np.zeros((batches, columns), np.int32)
    level.run(sums_columns, (1,), x, out, 32, B=batches, R=8, C=columns)
    assert (out == x.sum(axis=1)).all()


@tilewright.jit
def sums_every_way(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(out, tl.sum(tl.sum(tile, 0), 0))
    tl.store(out + 1, tl.sum(tl.sum(tile, 1), 0))
    tl.store(out + 2, tl.sum(tile, None))
    tl.store(out + 3, tl.sum(tl.sum(tl.trans(tile), 1), 0))
    tl.store(out + 4, tl.sum(tile.reshape(M * N), 0))


@pytest.mark.parametrize("shape", [(4, 4), (8, 8), *deep((2, 64), (64, 2), (1, 1), (32, 32))])
def test_sums_along_one_axis_after_the_other_agree(level: Level, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(3).integers(-999, 1000, shape).astype(np.int32)
    out = np.zeros(5, np.int32)
    level.run(sums_every_way, (1,), x, out, M=shape[0], N=shape[1])
    assert (out == x.sum()).all()
