"""Reports of loops whose loads were made too early, or kept too short; and of what threads hand each other."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import Level, deep

STAGES = (2, 4, *deep(1, 3))


def trips(stages: int) -> list[int]:
    """Numbers of rounds around the number of stages, none and fewer than none among them."""
    return sorted({-2, 0, 1, stages - 1, stages, stages + 1, 9})


@tilewright.jit
def scatters_conditionally(index, flag, out, n, STAGES: tl.constexpr):
    always = tl.load(flag) != 0
    for i in tl.range(0, n, num_stages=STAGES):
        place = tl.load(index + i)
        if always:
            tl.store(out + place, i + 1)


@pytest.mark.parametrize("stages", STAGES)
def test_an_index_that_is_loaded_in_a_loop_is_the_one_of_its_round(level: Level, stages: int) -> None:
    for n in (*trips(stages), 17):
        index = np.random.default_rng(n + 9).permutation(17).astype(np.int32)
        out = np.zeros(17, np.int32)
        level.run(scatters_conditionally, (1,), index, np.ones(1, np.int32), out, n, STAGES=stages)
        want = np.zeros(17, np.int32)
        want[index[: max(n, 0)]] = np.arange(1, max(n, 0) + 1)
        assert (out == want).all(), n


@tilewright.jit
def reads_back_what_it_wrote(x, out, n, m, BLOCK: tl.constexpr, STAGES: tl.constexpr, FLATTEN: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for a in range(n):
        for b in tl.range(0, m, num_stages=STAGES, flatten=FLATTEN, loop_unroll_factor=2):
            value = i + 100 * a + b
            tl.store(x + i, value)
            tl.store(out + (a * m + b) * BLOCK + i, tl.load(x + i) - value)


@tilewright.jit
def reads_back_another_threads(x, out, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for a in tl.range(0, n, num_stages=STAGES):
        tl.store(x + i, i + 1000 * a)
        tl.store(out + a * BLOCK + i, tl.load(x + (i + 37) % BLOCK))


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("flatten", [True, False])
def test_a_load_in_a_loop_sees_the_store_before_it(level: Level, stages: int, flatten: bool) -> None:
    for n, m in ((1, 1), (2, 5), (3, 0)):
        x, out = np.full(64, -1, np.int32), np.full((max(n * m, 1), 64), 99, np.int32)
        level.run(reads_back_what_it_wrote, (1,), x, out, n, m, BLOCK=64, STAGES=stages, FLATTEN=flatten)
        assert (out == (0 if n * m else 99)).all(), (n, m)
    x, out = np.full(64, -1, np.int32), np.zeros((5, 64), np.int32)
    level.run(reads_back_another_threads, (1,), x, out, 5, BLOCK=64, STAGES=stages)
    assert (out == (np.arange(64) + 37) % 64 + 1000 * np.arange(5)[:, None]).all()


@tilewright.jit
def sums_rows(x, out, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(0, n, num_stages=STAGES):
        total += tl.load(x + row * BLOCK + i)
    tl.store(out + i, total)


@pytest.mark.parametrize("stages", (*STAGES, *deep(5)))
def test_fewer_rounds_than_stages_load_nothing_else(level: Level, stages: int) -> None:
    """The array ends behind the last row: one load too many is an error."""
    for n in trips(stages):
        x = np.random.default_rng(3).integers(-9, 10, (max(n, 0), 64)).astype(np.float32)
        out = np.full(64, np.nan, np.float32)
        level.run(sums_rows, (1,), x, out, n, BLOCK=64, STAGES=stages)
        assert (out == x.sum(axis=0)).all(), n


@tilewright.jit
def two_products_one_sum(a, b, c, d, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in tl.range(0, K, BK, num_stages=STAGES):
        rows, columns = i[:, None] * K + (at + k)[None, :], (at + k)[:, None] * N + j[None, :]
        acc = tl.dot(tl.load(a + rows), tl.load(b + columns), acc, input_precision="ieee")
        acc = tl.dot(tl.load(c + rows), tl.load(d + columns), acc, input_precision="ieee")
    tl.store(out + i[:, None] * N + j[None, :], acc)


@pytest.mark.parametrize("dtype", [np.float16, *deep(ml_dtypes.bfloat16, np.float32)])
@pytest.mark.parametrize("stages", [3, *deep(1)])
def test_two_products_in_a_round_go_into_one_accumulator(level: Level, dtype: Any, stages: int) -> None:
    rng = np.random.default_rng(stages)
    m, n, bk = (64, 32, 16) if level.num_warps > 1 else (32, 16, 16)
    for rounds in (0, 1, 4):
        k = rounds * bk
        a, b, c, d = (rng.integers(-3, 4, size).astype(dtype) for size in ((m, k), (k, n)) * 2)
        out = np.full((m, n), np.nan, np.float32)
        level.run(two_products_one_sum, (1,), a, b, c, d, out, k, M=m, N=n, BK=bk, STAGES=stages)
        wide = [each.astype(np.float64) for each in (a, b, c, d)]
        assert (out == wide[0] @ wide[1] + wide[2] @ wide[3]).all(), rounds


@tilewright.jit
def with_advice(a, b, out, K, M: tl.constexpr, BK: tl.constexpr, SPECIAL: tl.constexpr, PLAIN: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, BK)
    window = tl.make_block_ptr(b, (K, M), (M, 1), (0, 0), (BK, M), (1, 0))
    acc = tl.zeros((M, M), tl.float32)
    for at in tl.range(
        0, K, BK, warp_specialize=SPECIAL, disallow_acc_multi_buffer=PLAIN, disable_licm=PLAIN, loop_unroll_factor=3
    ):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        acc = tl.dot(x, tl.load(window), acc)
        window = tl.advance(window, (BK, 0))
    tl.store(out + i[:, None] * M + i[None, :], acc)


@pytest.mark.parametrize("special", [True, *deep(False)])
@pytest.mark.parametrize("plain", [True, *deep(False)])
def test_advice_changes_no_result_whether_it_is_taken_or_not(level: Level, special: bool, plain: bool) -> None:
    """Warps with different tasks, one accumulator, nothing hoisted, unrolled: of a loop with pointers of two kinds."""
    rng = np.random.default_rng(8)
    for rounds in (0, 1, 4):
        a, b = (rng.integers(-4, 5, size).astype(np.float16) for size in ((32, 16 * rounds), (16 * rounds, 32)))
        out = np.full((32, 32), np.nan, np.float32)
        level.run(with_advice, (1,), a, b, out, 16 * rounds, M=32, BK=16, SPECIAL=special, PLAIN=plain)
        assert (out == a.astype(np.float64) @ b.astype(np.float64)).all()


# --- what one thread writes and another one reads ---


@tilewright.jit
def through_memory(x, y, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    flat = tl.arange(0, M * N)
    tl.store(y + i[:, None] * N + j[None, :], tl.load(x + i[:, None] * N + j[None, :]))
    again = tl.load(y + flat) + 1
    tl.store(y + flat, again)
    tl.store(x + j[:, None] * M + i[None, :], tl.load(y + j[:, None] + N * i[None, :]))


@tilewright.jit
def through_a_row(x, y, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tl.store(y + j, tl.load(x + j))
    tl.store(out + i[:, None] * N + j[None, :], tl.load(y + j[None, :] + 0 * i[:, None]) + i[:, None])


@tilewright.jit
def products_of_what_it_wrote(a, b, c, out, n, M: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, M)
    for t in range(n):
        at = t * M * M + i[:, None] * M + j[None, :]
        tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)).to(tl.float16))
    acc = tl.zeros((M, M), tl.float32)
    for t in range(n):
        at = t * M * M + i[:, None] * M + j[None, :]
        acc = tl.dot(tl.load(c + at), tl.load(b + at), acc)
    tl.store(out + i[:, None] * M + j[None, :], acc)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, *deep(np.float16, np.int64)])
@pytest.mark.parametrize("shape", [(4, 4), (16, 32), *deep((64, 16))])
def test_a_program_sees_what_its_other_threads_have_written(level: Level, dtype: Any, shape: tuple[int, int]) -> None:
    """What is there before is NaN, or 77, so that a value from before shows."""
    m, n = shape
    x = (np.arange(m * n) % 50).astype(dtype).reshape(shape)
    y = np.full(m * n, np.nan if np.issubdtype(dtype, np.floating) else 77, dtype)
    given, out, row = x.copy(), np.zeros(shape, dtype), y[:n].copy()
    level.run(through_memory, (1,), given, y, M=m, N=n)
    assert (y.reshape(shape) == x + 1).all() and (given.reshape(n, m) == (x + 1).T).all()
    level.run(through_a_row, (1,), x, row, out, M=m, N=n)
    assert (out == x[0] + np.arange(m, dtype=dtype)[:, None]).all()


def test_a_second_loop_multiplies_what_the_first_one_stored(level: Level) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, (3, 16, 16)).astype(np.float16) for _ in "ab")
    c, out = np.full_like(a, np.nan), np.zeros((16, 16), np.float32)
    level.run(products_of_what_it_wrote, (1,), a, b, c, out, 3, M=16)
    assert (c == a @ b).all()
    assert (out == (c.astype(np.float64) @ b.astype(np.float64)).sum(axis=0)).all()


@tilewright.jit
def one_exchange_after_another(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + i[:, None] * N + j[None, :])
    rows = tl.sum(tile, axis=1)
    columns = tl.max(tile, axis=0)
    turned = tl.trans(tile).reshape(M, N)
    again = tl.trans(turned).reshape(M, N) + rows[:, None] * columns[None, :]
    tl.store(
        out + i[:, None] * N + j[None, :], again + tl.sum(again, axis=1)[:, None] - tl.min(turned, axis=0)[None, :]
    )


@pytest.mark.parametrize("shape", [(2, 64), (16, 16), (64, 8)])
def test_exchanges_that_follow_each_other_do_not_mix(level: Level, shape: tuple[int, int]) -> None:
    """Reductions and changes of layout through the same shared memory; the emulator looks for races as well."""
    m, n = shape
    x = np.random.default_rng(5).integers(-99, 100, shape).astype(np.int32)
    turned = x.T.reshape(m, n)
    again = turned.T.reshape(m, n) + x.sum(axis=1)[:, None] * x.max(axis=0)[None, :]
    want = again + again.sum(axis=1)[:, None] - turned.min(axis=0)[None, :]
    for _ in range(50 if level.device == "cuda:0" else 1):
        out = np.zeros(shape, np.int32)
        level.run(one_exchange_after_another, (1,), x, out, M=m, N=n)
        assert (out == want).all()
