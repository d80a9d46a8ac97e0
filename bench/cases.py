"""The work that kernels are measured and checked on: arguments, grid, and what the results must be.

Every case knows its reference as a `Bounded` computation: float64, with the error that the ops' contracts allow, so
that a result is right or wrong without a tolerance set by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import Bounded
from tilewright.lang import F16, F32

Reference = Callable[[], Mapping[int, Bounded]]


@dataclass(frozen=True, slots=True)
class Case:
    """One launch: `kernel` of the family's source file on `arguments` over `grid`.

    `reference()` gives what each output argument, by its position, must hold afterwards.
    """

    name: str
    family: str
    kernel: str
    arguments: tuple[Any, ...]
    constants: Mapping[str, Any]
    grid: tuple[int, ...]
    reference: Reference

    def check(self) -> float:
        """The worst |result - reference| / allowed error over all outputs: at most 1 if every value is right."""
        wanted = self.reference()
        return max(bound.utilisation(self.arguments[index].astype(np.float64)) for index, bound in wanted.items())


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def normal(shape: tuple[int, ...], dtype: Any, seed: int, scale: float = 1.0) -> NDArray[Any]:
    """Normal numbers, the same for the same seed."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def add(n: int = 98_432, block: int = 1024) -> Case:
    """x + y in f32."""
    x, y = normal((n,), np.float32, 1), normal((n,), np.float32, 2)
    return Case(
        f"vector add {n:,}", "elementwise", "add_kernel", (x, y, np.zeros_like(x), n), {"BLOCK": block},
        (cdiv(n, block),), lambda: {2: Bounded.exact(x, F32) + Bounded.exact(y, F32)},
    )  # fmt: skip


def philox_uniform(seed: int, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """The uniform numbers of `tl.rand`, by Philox-4x32-10 (Salmon et al., SC 2011) written out over 64-bit integers."""
    mask, c = np.uint64(0xFFFFFFFF), offsets.astype(np.uint64)
    c0, c1, c2, c3 = c & mask, c >> np.uint64(32), np.zeros_like(c), np.zeros_like(c)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            (b >> np.uint64(32)) ^ c1 ^ np.uint64(k0), b & mask, (a >> np.uint64(32)) ^ c3 ^ np.uint64(k1), a & mask
        )  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    signed = c0.astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32).astype(np.float64) * np.float32(
        4.6566127342e-10
    )


def dropout(n: int = 100_000, p: float = 0.25, seed: int = 123, block: int = 1024) -> Case:
    """Zero a share p of the elements and scale the rest by 1 / (1 - p)."""
    x = normal((n,), np.float32, 3)

    def reference() -> dict[int, Bounded]:
        keep = philox_uniform(seed, np.arange(n)).astype(np.float32) > np.float32(p)
        share = Bounded.exact(1.0, F32) - Bounded.exact(np.float32(p), F32)
        return {1: (Bounded.exact(x, F32) / share).where(keep, Bounded.exact(np.zeros(n), F32))}

    return Case(
        f"dropout {n:,}", "elementwise", "dropout_kernel", (x, np.zeros_like(x), n, p, seed), {"BLOCK": block},
        (cdiv(n, block),), reference,
    )  # fmt: skip


def softmax(rows: int = 1823, cols: int = 781, programs: int = 264) -> Case:
    """Softmax of each row, f32."""
    x = normal((rows, cols), np.float32, 4)

    def reference() -> dict[int, Bounded]:
        exact = Bounded.exact(x, F32)
        e = (exact - exact.max(1)[:, None]).exp()
        return {0: e / e.sum(1)[:, None]}

    block = 1 << (cols - 1).bit_length()
    return Case(
        f"softmax {rows}x{cols}", "softmax", "softmax_kernel", (np.zeros_like(x), x, cols, cols, rows, cols),
        {"BLOCK": block}, (programs,), reference,
    )  # fmt: skip


def layernorm(rows: int = 1151, cols: int = 8192, eps: float = 1e-5) -> Case:
    """Layer normalisation of each row, f16 in and out."""
    x, w, b = normal((rows, cols), np.float16, 5), normal((cols,), np.float16, 6), normal((cols,), np.float16, 7)
    mean, rstd = np.zeros(rows, np.float32), np.zeros(rows, np.float32)

    def reference() -> dict[int, Bounded]:
        exact, count = Bounded.exact(x, F32), Bounded.exact(float(cols), F32)
        means = exact.sum(1) / count
        centred = exact - means[:, None]
        variance = (centred * centred).sum(1) / count
        rstds = Bounded.exact(1.0, F32) / (variance + Bounded.exact(np.float32(eps), F32)).sqrt()
        y = centred * rstds[:, None] * Bounded.exact(w, F32)[None, :] + Bounded.exact(b, F32)[None, :]
        return {3: y.cast(F16), 4: means, 5: rstds}

    return Case(
        f"layernorm {rows}x{cols}", "norms", "layernorm_kernel",
        (x, w, b, np.zeros_like(x), mean, rstd, cols, cols, eps), {"BLOCK": 1 << (cols - 1).bit_length()},
        (rows,), reference,
    )  # fmt: skip


def _product(a: NDArray[Any], b: NDArray[Any]) -> dict[int, Bounded]:
    zero = Bounded.exact(np.zeros((a.shape[0], b.shape[1])), F32)
    return {2: Bounded.exact(a, F32).dot(Bounded.exact(b, F32), zero).cast(F16)}


def matmul(
    m: int = 512, n: int = 512, k: int = 512, bm: int = 64, bn: int = 64, bk: int = 32, blocks: bool = False
) -> Case:
    """a @ b in f16 with an f32 accumulator, over pointers or block pointers."""
    a, b = normal((m, k), np.float16, 8, 0.5), normal((k, n), np.float16, 9, 0.5)
    c = np.zeros((m, n), np.float16)
    arguments = (a, b, c, m, n, k, k, 1, n, 1, n, 1)
    tiles: dict[str, Any] = {"BM": bm, "BN": bn, "BK": bk}
    across = (cdiv(m, bm), cdiv(n, bn))
    if blocks:
        return Case(
            f"matmul {m}x{n}x{k}, block pointers", "matmul", "matmul_block_kernel", arguments, tiles, across,
            partial(_product, a, b),
        )  # fmt: skip
    return Case(
        f"matmul {m}x{n}x{k}, pointers", "matmul", "matmul_kernel", arguments, tiles | {"GROUP": 8},
        (across[0] * across[1],), partial(_product, a, b),
    )  # fmt: skip


def _attention(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], scale: float, step: int, causal: bool
) -> dict[int, Bounded]:
    """The kernel's own recurrence over blocks of keys, so that the bound covers its rescaling."""
    n = q.shape[1]
    factor = Bounded.exact(np.float32(scale), F32) * Bounded.exact(np.float32(1.4426950408889634), F32)
    zeros = Bounded.exact(np.zeros((*q.shape[:2], step)), F32)
    top: Bounded | None = None
    total, acc = Bounded.exact(np.zeros(q.shape[:2]), F32), Bounded.exact(np.zeros(q.shape), F32)
    for start in range(0, n, step):
        keys = np.swapaxes(k[:, start : start + step], 1, 2)
        s = Bounded.exact(q, F32).dot(Bounded.exact(keys, F32), zeros) * factor
        if causal:
            seen = np.arange(n)[:, None] >= start + np.arange(step)[None, :]
            s = s.where(np.broadcast_to(seen, s.value.shape), Bounded.exact(np.full(s.value.shape, -1.0e6), F32))
        new = s.max(2) if top is None else top.maximum(s.max(2))
        p = (s - new[:, :, None]).exp2()
        if top is not None:
            shrink = (top - new).exp2()
            total, acc = total * shrink, acc * shrink[:, :, None]
        total = total + p.sum(2)
        acc = p.cast(F16).dot(Bounded.exact(v[:, start : start + step], F16), acc)
        top = new
    return {3: (acc / total[:, :, None]).cast(F16)}


def attention(heads: int = 2, n: int = 512, d: int = 64, bm: int = 64, bn: int = 64, causal: bool = True) -> Case:
    """Attention forward in f16, heads x n x d."""
    q, k, v = (normal((heads, n, d), np.float16, seed) for seed in (10, 11, 12))
    scale = 1.0 / d**0.5
    return Case(
        f"attention {heads}x{n}x{d}{', causal' if causal else ''}", "attention", "attention_kernel",
        (q, k, v, np.zeros_like(q), scale, n * d, d, n), {"D": d, "BM": bm, "BN": bn, "CAUSAL": causal},
        (cdiv(n, bm), heads), partial(_attention, q, k, v, scale, bn, causal),
    )  # fmt: skip
