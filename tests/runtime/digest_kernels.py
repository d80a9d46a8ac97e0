"""Kernels whose PTX must be the same bytes on every machine; `python -m tools.digests` compiles them.

A changed line changes the digests, as every change of the compiler does: write them anew.
"""

import tilewright
import tilewright.language as tl


@tilewright.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


@tilewright.jit
def half_of(x):
    return 0.5 * x


@tilewright.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside).to(tl.float32)
    tl.store(out_ptr + offsets, half_of(x) * (1 + tl.erf(x * 0.7071067811865476)), mask=inside)


@tilewright.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    keep = tl.rand(seed, offsets) > p
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=inside)


@tilewright.jit
def bits(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    tl.store(out_ptr + offsets, (x % 1000003) // 7 + tl.umulhi(x, x))


@tilewright.jit
def broadcast(x_ptr, y_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x, y = tl.load(x_ptr + rows), tl.load(y_ptr + columns)
    tl.store(out_ptr + rows[:, None] * COLUMNS + columns[None, :], x[:, None] * y[None, :] + 1)


@tilewright.jit
def loops(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + offsets, mask=start + offsets < n, other=0.0)
        if tl.program_id(0) == 0:
            total += x
        else:
            total -= tl.sqrt(tl.abs(x))
    while n > 3:
        n = n // 2
    tl.store(out_ptr + tl.program_id(0) * BLOCK + offsets, total * n)


@tilewright.jit
def casts(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    x = x.to(tl.bfloat16).to(tl.float32) + x.to(tl.float16).to(tl.float32) + x.to(tl.float8e5).to(tl.float32)
    tl.store(out_ptr + offsets, (x * 3).to(tl.int64) + x.to(tl.int8).to(tl.int64))


@tilewright.jit
def atomics(count_ptr, sum_ptr, x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    old = tl.atomic_add(count_ptr + offsets % 7, 1, sem="relaxed")
    tl.atomic_max(count_ptr + 8 + offsets % 2, old, sem="acq_rel", scope="sys")
    tl.atomic_add(sum_ptr + offsets, tl.load(x_ptr + offsets).to(tl.float32), scope="cta")
    tl.atomic_cas(count_ptr + 10, 0, tl.program_id(0))


@tilewright.jit
def math(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.exp(x) + tl.log(tl.abs(x) + 1) + tl.sin(x) * tl.cos(x) + tl.rsqrt(tl.exp2(x)) + tl.floor(x)
    tl.store(out_ptr + offsets, tl.fma(y, tl.maximum(x, y), tl.sigmoid(x)))


@tilewright.jit
def reports(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.device_print("x", x)
    tl.device_assert(n > 0, "n is positive")
    tl.debug_barrier()
    tl.store(x_ptr + offsets, x - n)
