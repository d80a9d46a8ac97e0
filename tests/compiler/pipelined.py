"""Kernels whose loops are pipelined, or must not be, with arguments for loops of any number of rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright
import tilewright.language as tl
from tests.compiler.kernels import Sample

ROWS, COLUMNS, STEP, MOST = 16, 32, 16, 128

# Each takes the bounds of its loop along K; `M`, `N`, `BK` are the extents of the tiles and `K` that of the arrays.


@tilewright.jit
def plain(a, b, out, start, stop, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(start, stop, BK):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def masked(
    a, b, out, start, stop,
    OTHER: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    a_ptrs = a + i[:, None] * K + k[None, :]
    b_ptrs = b + k[:, None] * N + j[None, :]
    for at in range(start, stop, BK):
        x = tl.load(a_ptrs + at, mask=(i < M - 3)[:, None], other=OTHER)
        y = tl.load(b_ptrs, mask=(at + k < K - 40)[:, None], other=OTHER)
        acc = tl.dot(x, y, acc)
        b_ptrs += BK * N
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def gather(a, b, index, out, start, stop, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(start, stop, BK):
        rows = tl.load(index + at + k)
        first = tl.load(index + at)
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + rows[:, None] * N + j[None, :], mask=(rows > first)[:, None], other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def conditional(a, b, out, start, stop, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(start, stop, BK):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        if at % 48 != 16:
            acc = tl.dot(x, y, acc)
        else:
            acc += 1.0
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def storing(a, b, out, start, stop, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(start, stop, BK):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        acc = tl.dot(x, y, acc)
        # What the next round loads.
        tl.store(a + i[:, None] * K + (at + BK + k)[None, :], x, mask=(at + BK + k < K)[None, :])
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def shared_pointers(a, b, out, start, stop, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    pointers = a + i[:, None] * K + k[None, :]
    total = tl.zeros((M, BK), tl.float32)
    for at in range(start, stop, BK):
        x = tl.load(pointers)
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        acc = tl.dot(x, y, acc)
        total += x.to(tl.float32)
        pointers += BK
    tl.store(out + i[:, None] * N + j[None, :], acc + tl.sum(total, axis=1)[:, None])
    tl.store(pointers, total.to(tl.float16), mask=(k < 0)[None, :])


@tilewright.jit
def two_dots(a, b, out, start, stop, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    first = tl.load(a + i[:, None] * K + k[None, :])
    acc = tl.zeros((M, N), tl.float32)
    for at in range(start, stop, BK):
        y = tl.load(b + (at + k)[:, None] * N + j[None, :])
        z = tl.load(a + i[:, None] * K + (at + k)[None, :])
        p = tl.dot(first, y).to(tl.float16)
        acc = tl.dot(z, y, acc) + p
    tl.store(out + i[:, None] * N + j[None, :], acc)


@tilewright.jit
def nested(a, b, out, start, stop, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for again in range(0, 3):
        for at in range(start, stop, BK):
            x = tl.load(a + i[:, None] * K + (at + k)[None, :])
            y = tl.load(b + (at + k)[:, None] * N + j[None, :])
            acc = tl.dot(x, y, acc)
        acc = acc * 0.5 + again
    tl.store(out + i[:, None] * N + j[None, :], acc)


def sample(name: str, rounds: int, **constants: Any) -> Sample:
    """A kernel on arrays for a loop of so many rounds; -1 for bounds the wrong way round."""
    rng = np.random.default_rng(rounds + 5)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((ROWS, MOST), (MOST, COLUMNS)))
    extents = {"M": ROWS, "N": COLUMNS, "K": MOST, "BK": STEP}
    more = (rng.permutation(MOST).astype(np.int32),) if name == "gather" else ()
    out = np.zeros((ROWS, COLUMNS), np.float32)
    return Sample(KERNELS[name], (a, b, *more, out, 0, rounds * STEP), (1, 1, 1), {**extents, **constants})


KERNELS: dict[str, Any] = {
    "plain": plain,
    "masked": masked,
    "gather": gather,
    "conditional": conditional,
    "storing": storing,
    "shared_pointers": shared_pointers,
    "two_dots": two_dots,
    "nested": nested,
}
