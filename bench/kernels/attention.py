"""Attention forward with an online softmax, over block pointers."""

import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, stride_h, stride_n, N_CTX,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BM
    head = tl.program_id(1).to(tl.int64) * stride_h
    q_block = tl.make_block_ptr(q_ptr + head, (N_CTX, D), (stride_n, 1), (start_m, 0), (BM, D), (1, 0))
    k_block = tl.make_block_ptr(k_ptr + head, (D, N_CTX), (1, stride_n), (0, 0), (D, BN), (0, 1))
    v_block = tl.make_block_ptr(v_ptr + head, (N_CTX, D), (stride_n, 1), (0, 0), (BN, D), (1, 0))
    out_block = tl.make_block_ptr(out_ptr + head, (N_CTX, D), (stride_n, 1), (start_m, 0), (BM, D), (1, 0))
    offs_m = start_m + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    m = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    qk_scale = scale * 1.4426950408889634
    q = tl.load(q_block)
    end = N_CTX
    if CAUSAL:
        end = start_m + BM
    for n in range(0, end, BN):
        s = tl.dot(q, tl.load(k_block)) * qk_scale
        if CAUSAL:
            s = tl.where(offs_m[:, None] >= n + offs_n[None, :], s, -1.0e6)
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - m_new[:, None])
        shrink = tl.math.exp2(m - m_new)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(v_ptr.dtype.element_ty), tl.load(v_block), acc * shrink[:, None])
        m = m_new
        k_block = tl.advance(k_block, (0, BN))
        v_block = tl.advance(v_block, (BN, 0))
    tl.store(out_block, (acc / total[:, None]).to(out_ptr.dtype.element_ty))
