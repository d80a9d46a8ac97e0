"""Elementwise kernels: vector add, gelu, dropout from a seed, a hash on 32-bit words, a two-dimensional broadcast."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=inside)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=inside)


@triton.jit
def hash_kernel(x_ptr, hash_ptr, ones_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    h = tl.load(x_ptr + offsets, mask=inside)
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    h = h ^ (h >> 16)
    tl.store(hash_ptr + offsets, h, mask=inside)
    # Ones are counted in fields of 2, 4 and 8 bits, then added up by a product.
    pairs = h - ((h >> 1) & 0x55555555)
    nibbles = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    octets = (nibbles + (nibbles >> 4)) & 0x0F0F0F0F
    tl.store(ones_ptr + offsets, ((octets * 0x01010101) >> 24).to(tl.int32), mask=inside)


@triton.jit
def scale_shift_kernel(
    x_ptr, scale_ptr, shift_ptr, out_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    places = rows[:, None] * stride + cols[None, :]
    x = tl.load(x_ptr + places, mask=inside)
    scale = tl.load(scale_ptr + cols, mask=cols < N)
    shift = tl.load(shift_ptr + rows, mask=rows < M)
    tl.store(out_ptr + places, x * scale[None, :] + shift[:, None], mask=inside)
