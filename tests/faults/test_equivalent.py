"""Kernels that must compute the same: with code beside them that has no effect, or written in another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import Level, deep

M, N, BK = 16, 32, 16


@tilewright.jit
def product(a, b, flag, scratch, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def with_statistics(a, b, flag, scratch, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    collect = tl.load(flag) != 0
    acc = tl.zeros((M, N), tl.float32)
    largest = tl.zeros((M,), tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        if collect:
            largest = tl.maximum(largest, tl.max(tl.abs(x.to(tl.float32)), axis=1))
        acc = tl.dot(x, y, acc)
    tl.store(scratch + i, largest)
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def with_a_store_in_the_loop(a, b, flag, scratch, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        if tl.load(flag) != 0:
            tl.store(scratch + i, tl.max(x.to(tl.float32), axis=1))
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def with_the_same_load_in_both_arms(a, b, flag, scratch, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BK):
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        if tl.load(flag) != 0:
            x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        else:
            x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def with_a_branch_around_the_product(a, b, flag, scratch, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        if tl.load(flag + 1) != 0:
            acc = tl.dot(x, y, acc)
        else:
            tl.store(scratch + i, tl.sum(acc, axis=1))
            acc = acc * 0
    tl.store(out + i[:, None] * N + j[None, :], acc)


VARIANTS = [
    product,
    with_statistics,
    with_a_store_in_the_loop,
    with_the_same_load_in_both_arms,
    with_a_branch_around_the_product,
]


@pytest.mark.parametrize("kernel", VARIANTS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("stages", [3, *deep(1)])
def test_branches_that_touch_a_scratch_buffer_only_leave_a_product_as_it_is(
    level: Level, kernel: Any, stages: int
) -> None:
    """Small integers, so that every order of additions gives the exact product."""
    rng = np.random.default_rng(stages)
    for flag in (0, 1):
        for rounds in (0, 1, 5):
            a, b = (rng.integers(-4, 5, size).astype(np.float16) for size in ((M, rounds * BK), (rounds * BK, N)))
            scratch, out = np.zeros(M, np.float32), np.full((M, N), np.nan, np.float32)
            flags = np.array([flag, 1], np.int32)
            level.run(kernel, (1,), a, b, flags, scratch, out, rounds * BK, M=M, N=N, BK=BK, num_stages=stages)
            assert (out == a.astype(np.float64) @ b.astype(np.float64)).all(), (flag, rounds)
            if kernel is with_statistics:
                assert (scratch == flag * np.abs(a).max(axis=1, initial=0)).all()


@tilewright.jit
def sum_of_rows(x, out, rows, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total = total * 0.75 + tl.load(x + row * BLOCK + i)
    tl.store(out + i, total)


@tilewright.jit
def sum_of_rows_unrolled(x, out, rows, BLOCK: tl.constexpr, MOST: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in tl.static_range(MOST):
        inside = row < rows
        next_ = total * 0.75 + tl.load(x + row * BLOCK + i, mask=inside, other=0.0)
        total = tl.where(inside, next_, total)
    tl.store(out + i, total)


@pytest.mark.parametrize("fuse", [True, False])
def test_a_loop_and_its_unrolled_form_agree_to_the_bit(level: Level, fuse: bool) -> None:
    x = np.random.default_rng(7).standard_normal((6, 128)).astype(np.float32)
    for rows in range(7):
        loop, unrolled = np.full(128, np.nan, np.float32), np.full(128, np.nan, np.float32)
        level.run(sum_of_rows, (1,), x, loop, rows, BLOCK=128, enable_fp_fusion=fuse)
        level.run(sum_of_rows_unrolled, (1,), x, unrolled, rows, BLOCK=128, MOST=6, enable_fp_fusion=fuse)
        assert loop.tobytes() == unrolled.tobytes(), rows
        if not fuse:
            want = np.zeros(128, np.float32)
            for row in x[:rows]:
                want = want * np.float32(0.75) + row
            assert loop.tobytes() == want.tobytes(), rows


@tilewright.jit
def takes_work(counter, out, total, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    task = tl.atomic_add(counter, 1)
    while task < total:
        tl.atomic_add(out + task * BLOCK + i, i + task)
        task = tl.atomic_add(counter, 1)


@tilewright.jit
def takes_work_in_the_condition(counter, out, total, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    while (task := tl.atomic_add(counter, 1)) < total:
        tl.atomic_add(out + task * BLOCK + i, i + task)


@pytest.mark.parametrize("kernel", [takes_work, takes_work_in_the_condition], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(("programs", "total"), [(1, 5), (3, 7), (4, 0), (5, 3)])
def test_programs_that_take_their_work_from_a_counter_do_each_piece_once(
    level: Level, kernel: Any, programs: int, total: int
) -> None:
    counter, out = np.zeros(1, np.int32), np.zeros((max(total, 1), 32), np.int32)
    level.run(kernel, (programs,), counter, out, total, BLOCK=32)
    want = np.add.outer(np.arange(max(total, 1)), np.arange(32)) * (total > 0)
    assert (out == want).all()
    assert counter[0] == total + programs
