"""Reports of matrix products and of tiles that move from one layout to another.

Operands are small integers wherever the result must be exact: then no order of additions changes it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import Level, deep

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, most: int = 4) -> Array:
    return rng.integers(-most, most + 1, shape).astype(dtype)


def exact(a: Array, b: Array) -> Array:
    """The product in float64, which holds every sum of small integers."""
    return a.astype(np.float64) @ b.astype(np.float64)


@tilewright.jit
def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr, PRECISION: tl.constexpr):
    """HOW says which operands lie in memory the other way round, and are turned by `tl.trans`."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    if HOW == "a" or HOW == "both":
        x = tl.trans(tl.load(a + k[:, None] * M + i[None, :]))
    else:
        x = tl.load(a + i[:, None] * K + k[None, :])
    if HOW == "b" or HOW == "both":
        y = tl.trans(tl.load(b + j[:, None] * K + k[None, :]))
    else:
        y = tl.load(b + k[:, None] * N + j[None, :])
    tl.store(out + i[:, None] * N + j[None, :], tl.dot(x, y, input_precision=PRECISION))


def run_product(level: Level, a: Array, b: Array, out: Array, how: str = "", precision: str = "ieee") -> Array:
    (m, k), n = a.shape, b.shape[1]
    x = np.ascontiguousarray(a.T) if how in ("a", "both") else a
    y = np.ascontiguousarray(b.T) if how in ("b", "both") else b
    level.run(product, (1,), x, y, out, M=m, N=n, K=k, HOW=how, PRECISION=precision)
    return out


# --- types ---


@pytest.mark.parametrize(
    ("dtype", "result"),
    [(np.int8, np.int32), (np.float16, np.float32), (BF16, np.float32), (np.float32, np.float32), (float, float)],
)
@pytest.mark.parametrize("shape", [(16, 16, 16), (4, 8, 2), *deep((32, 16, 64))])
def test_products_of_small_integers_are_exact(
    level: Level, dtype: Any, result: Any, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m)
    most = 127 if dtype is np.int8 else 15
    a, b = integers(rng, (m, k), dtype, most), integers(rng, (k, n), dtype, most)
    a[0], b[:, 0] = most, -most  # far beyond the range of 8 bits
    assert (run_product(level, a, b, np.zeros((m, n), result)) == exact(a, b)).all()


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"])
def test_a_product_with_ones_is_the_sum_of_what_the_precision_keeps(level: Level, precision: str) -> None:
    """Integers of 13 bits, of which tf32 keeps 11: with ones their sums are exact in float32."""
    rng = np.random.default_rng(1)
    a, b = np.ones((16, 32), np.float32), rng.integers(4096, 8192, (32, 16)).astype(np.float32)
    kept = (b.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) if precision == "tf32" else b
    assert (kept != b).any() == (precision == "tf32")
    for x, y, z in ((a, b, kept), (b.T.copy(), a.T.copy(), kept.T)):
        out = run_product(level, x, y, np.zeros((16, 16), np.float32), precision=precision)
        assert (out == (exact(a, z) if x is a else exact(z, a.T))).all()


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_a_product_of_floats_is_within_its_contract(level: Level, precision: str) -> None:
    """`mma(24, 16)` of docs/semantics.md, which covers a chain of `fma` too, and what the splitting leaves out."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((32, 64)).astype(np.float32), rng.standard_normal((64, 32)).astype(np.float32)
    out = run_product(level, a, b, np.zeros((32, 32), np.float32), precision=precision)
    size = exact(np.abs(a), np.abs(b))
    slack = 64 / 16 * (17 * 2.0**-22 + 2 * 2.0**-24) + (2.0**-20 if precision == "tf32x3" else 0)
    want = exact(a, b)
    assert (np.abs(out - want) <= slack * size + np.spacing(np.abs(want).astype(np.float32)) / 2).all()


# --- operands that are turned ---


@pytest.mark.parametrize("dtype", [np.float16, np.float32, *deep(np.int8, BF16)])
@pytest.mark.parametrize(
    "turned", [("a", 16, 16, 16), ("b", 32, 16, 16), *deep(("both", 64, 32, 16), ("b", 32, 64, 32))], ids=str
)
def test_operands_may_lie_in_memory_the_other_way_round(
    level: Level, dtype: Any, turned: tuple[str, int, int, int]
) -> None:
    how, m, n, k = turned
    rng = np.random.default_rng(k)
    a, b = integers(rng, (m, k), dtype), integers(rng, (k, n), dtype)
    out = np.zeros((m, n), np.int32 if dtype is np.int8 else np.float32)
    assert (run_product(level, a, b, out, how, "tf32") == exact(a, b)).all()


# --- products of products ---


@tilewright.jit
def chained(q, k, v, out, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    x = tl.load(q + i[:, None] * D + d[None, :])
    y = tl.load(k + d[:, None] * N + j[None, :])
    z = tl.load(v + j[:, None] * D + d[None, :])
    p = tl.dot(x, y).to(q.dtype.element_ty)
    tl.store(out + i[:, None] * D + d[None, :], tl.dot(p, z))


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("shape", [(64, 16, 32), *deep((64, 64, 128), (16, 32, 16))])
def test_a_product_of_a_product(level: Level, dtype: Any, shape: tuple[int, int, int]) -> None:
    """All ones: 128 times 64 is 8192. And small integers, whose products bfloat16 holds."""
    m, n, d = shape
    ones = [np.ones(size, dtype) for size in ((m, d), (d, n), (n, d))]
    out = np.zeros((m, d), np.float32)
    level.run(chained, (1,), *ones, out, M=m, N=n, D=d)
    assert (out == n * d).all()
    rng = np.random.default_rng(m)
    q, k, v = (integers(rng, each.shape, dtype, 1) for each in ones)
    level.run(chained, (1,), q, k, v, out, M=m, N=n, D=d)
    assert (out == exact(exact(q, k), v)).all()


@tilewright.jit
def reuses_an_operand(a, b, out, copy, n, M: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + k[None, :])
    acc = tl.zeros((M, M), tl.float32)
    for t in range(n):
        y = tl.load(b + t * K * M + k[:, None] * M + i[None, :])
        acc = tl.dot(x, y, acc)
        x = x + 1
        tl.store(copy + t * M * K + i[:, None] * K + k[None, :], x)
    tl.store(out + i[:, None] * M + i[None, :], acc)


@pytest.mark.parametrize("rounds", [3, *deep(1, 2)])
def test_an_operand_is_copied_and_changed_after_it_was_multiplied(level: Level, rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    a, b = integers(rng, (32, 16), np.float16), integers(rng, (rounds, 16, 32), np.float16)
    out, copy = np.zeros((32, 32), np.float32), np.zeros((rounds, 32, 16), np.float16)
    level.run(reuses_an_operand, (1,), a, b, out, copy, rounds, M=32, K=16)
    assert (copy == a + np.arange(1, rounds + 1, dtype=np.float16)[:, None, None]).all()
    assert (out == sum(exact(a + t, b[t]) for t in range(rounds))).all()


# --- edges ---


@tilewright.jit
def masked_product(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for at in tl.range(0, K, BK, num_stages=STAGES):
        k = at + tl.arange(0, BK)
        x = tl.load(a + i[:, None] * K + k[None, :], mask=(i < M)[:, None] & (k < K)[None, :], other=0.0)
        y = tl.load(b + k[:, None] * N + j[None, :], mask=(k < K)[:, None] & (j < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    places, mask = out + i[:, None] * N + j[None, :], (i < M)[:, None] & (j < N)[None, :]
    if N > 0:
        if M > 0:
            tl.store(places, acc.to(tl.float16), mask=mask)
        else:
            tl.store(places, acc)
    else:
        tl.store(places, 1.0)


@pytest.mark.parametrize("sizes", [(33, 17, 40), *deep((16, 16, 16), (1, 50, 7), (31, 1, 33))])
@pytest.mark.parametrize("stages", [1, 3])
def test_products_whose_extents_are_no_multiples_of_the_tile(
    level: Level, sizes: tuple[int, int, int], stages: int
) -> None:
    """What stands behind the result stays as it was; and the arrays end where they end."""
    m, n, k = sizes
    rng = np.random.default_rng(m)
    a, b = integers(rng, (m, k), np.float16), integers(rng, (k, n), np.float16)
    memory = np.full(m * n + 64, 77, np.float16)
    constants = {"BM": 16, "BN": 32, "BK": 16, "STAGES": stages}
    level.run(masked_product, (-(-m // 16), -(-n // 32)), a, b, memory, m, n, k, **constants)
    assert (memory[: m * n].reshape(m, n) == exact(a, b)).all() and (memory[m * n :] == 77).all()


# --- layouts ---


@tilewright.jit
def turns(x, out, same, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(out + j[:, None] * M + i[None, :], tl.trans(tile))
    tl.store(same + i[:, None] * N + j[None, :], tile)


@tilewright.jit
def regroups(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    tile = tl.load(x + (a * B + b) * C + c)
    moved = tl.permute(tile, (2, 0, 1)).reshape(C * A, B)
    tl.store(out + tl.arange(0, C * A)[:, None] * B + tl.arange(0, B)[None, :], moved)


WIDTHS = [np.uint8, np.int16, np.float32, np.int64]


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("shape", [(2, 2), (32, 16), *deep((32, 32), (16, 8), (1, 64), (128, 2))])
def test_a_tile_of_any_width_comes_through_a_change_of_layout(level: Level, dtype: Any, shape: tuple[int, int]) -> None:
    m, n = shape
    x = (np.arange(m * n) % 251).astype(dtype).reshape(shape)
    out, same = np.zeros((n, m), dtype), np.zeros(shape, dtype)
    level.run(turns, (1,), x, out, same, M=m, N=n)
    assert (out == x.T).all() and (same == x).all()


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("shape", [(2, 2, 32), *deep((4, 16, 2), (1, 8, 8))])
def test_a_tile_of_three_dimensions_does_too(level: Level, dtype: Any, shape: tuple[int, int, int]) -> None:
    a, b, c = shape
    x = (np.arange(a * b * c) % 251).astype(dtype).reshape(shape)
    out = np.zeros((c * a, b), dtype)
    level.run(regroups, (1,), x, out, A=a, B=b, C=c)
    assert (out == x.transpose(2, 0, 1).reshape(c * a, b)).all()


@tilewright.jit
def product_to_narrow(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TO: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.dot(tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + j[None, :]))
    narrow = acc.to(TO)
    tl.store(out + j[:, None] * M + i[None, :], tl.trans(narrow).to(tl.uint8, bitcast=True))


@pytest.mark.parametrize("shape", [(16, 8, 16), *deep((32, 32, 16), (64, 16, 32))])
def test_a_product_of_8_bit_floats_leaves_its_fragments_byte_by_byte(level: Level, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = integers(rng, (m, k), np.float16, 1), integers(rng, (k, n), np.float16, 1)
    a[:, 1:], b[1:, :] = 0, 0
    a[:, 0], b[0] = (np.arange(m) % 4) - 2, (np.arange(n) % 4) + 1
    for to, dtype in ((tl.float8e5, ml_dtypes.float8_e5m2), (tl.float8e4nv, ml_dtypes.float8_e4m3fn)):
        out = np.zeros((n, m), np.uint8)
        level.run(product_to_narrow, (1,), a, b, out, M=m, N=n, K=k, TO=to)
        assert (out == exact(a, b).T.astype(dtype).view(np.uint8)).all()


@tilewright.jit
def negative_everywhere(out, value, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, *deep(np.int16, np.int64, np.float32)])
@pytest.mark.parametrize("size", [8, 2048, *deep(256)])
def test_one_negative_number_fills_wide_stores(level: Level, dtype: Any, size: int) -> None:
    out = np.zeros(size, dtype)
    level.run(negative_everywhere, (1,), out, -77, N=size)
    assert (out == -77).all()


@tilewright.jit
def sums_what_is_inside(x, out, n, ROWS: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, N)[None, :]
    tile = tl.load(x + i * n + j, mask=(j < n) & (i >= 0), other=0)
    tl.store(out + tl.arange(0, ROWS), tl.sum(tile, axis=1))


@pytest.mark.parametrize(("rows", "n"), [(1, 48), (2, 48), (4, 5), (8, 17)])
def test_sums_over_extents_that_are_no_powers_of_two(level: Level, rows: int, n: int) -> None:
    """1 to 48 is 1176; and batches that are narrower than the block."""
    x = np.arange(1, n + 1, dtype=np.int32)[None] * np.arange(1, rows + 1, dtype=np.int32)[:, None]
    out = np.zeros(rows, np.int32)
    level.run(sums_what_is_inside, (1,), np.ascontiguousarray(x), out, n, ROWS=rows, N=64)
    assert (out == n * (n + 1) // 2 * np.arange(1, rows + 1)).all()
