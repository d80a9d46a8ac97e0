"""The work that kernels are measured and checked on: arguments, grid, and what the results must be.

Every case knows its reference as a `Bounded` computation: float64, with the error that the ops' contracts allow, so
that a result is right or wrong without a tolerance set by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import Bounded
from tilewright.lang import BF16, F16, F32, F64, FloatType

Reference = Callable[[slice], Mapping[int, Bounded]]

#: What arrays of a type hold.
STORED: Mapping[FloatType, Any] = {F32: np.float32, F16: np.float16, BF16: ml_dtypes.bfloat16}
#: Elements of an output that are checked at once: their float64 values and errors stay in the cache.
PART = 1 << 18


@dataclass(frozen=True, slots=True)
class Case:
    """One launch: `kernel` of the family's source file on `arguments` over `grid`.

    `reference(part)` gives what each of the arguments at the positions `outputs` must hold, afterwards, in that part of
    its first axis, which is equally long for all of them. `flops` counts floating-point operations, a multiply-add as
    two; 0 where memory alone decides the time.
    """

    name: str
    family: str
    kernel: str
    arguments: tuple[Any, ...]
    constants: Mapping[str, Any]
    grid: tuple[int, ...]
    outputs: tuple[int, ...]
    reference: Reference
    flops: int = 0

    @property
    def bytes(self) -> int:
        """The bytes that have to move: each input is read once, and each output written once."""
        return sum(part.nbytes for part in self.arguments if isinstance(part, np.ndarray))

    @property
    def programs(self) -> int:
        """How many programs one launch runs."""
        return math.prod(self.grid)

    def fresh(self) -> list[Any]:
        """The arguments with every array copied, outputs as they are before the launch."""
        return [part.copy() if isinstance(part, np.ndarray) else part for part in self.arguments]

    def check(self, arguments: Sequence[Any] | Mapping[int, Any] | None = None) -> float:
        """The worst |result - reference| / allowed error over all outputs: at most 1 if every value is right.

        `arguments`: those of the launch, or the outputs by their positions, if it was not on the case's own arrays.
        """
        given = self.arguments if arguments is None else arguments
        results = {index: np.asarray(given[index]) for index in self.outputs}

        def worst(part: slice) -> float:
            bounds = self.reference(part)
            return max(bounds[i].utilisation(result[part].astype(np.float64)) for i, result in results.items())

        extent = len(results[self.outputs[0]])
        step = max(1, PART * extent // max(result.size for result in results.values()))
        with ThreadPoolExecutor() as pool:
            return max(pool.map(worst, (slice(start, start + step) for start in range(0, extent, step))))


def said(element: FloatType, usual: FloatType) -> str:
    """What a case's name says of the type of its data."""
    return "" if element == usual else f", {element}"


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def normal(shape: tuple[int, ...], dtype: Any, seed: int, scale: float = 1.0) -> NDArray[Any]:
    """Normal numbers, the same for the same seed."""
    return (np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)).astype(
        dtype, copy=False
    )


def _flat(
    name: str, kernel: str, arguments: tuple[Any, ...], n: int, block: int, outputs: tuple[int, ...],
    reference: Reference,
) -> Case:  # fmt: skip
    """A case of the elementwise family: `n` elements, `block` of them a program."""
    return Case(
        f"{name} {n:,}", "elementwise", kernel, arguments, {"BLOCK": block}, (cdiv(n, block),), outputs, reference
    )


def add(n: int = 98_432, block: int = 1024) -> Case:
    """x + y in f32."""
    x, y = normal((n,), np.float32, 1), normal((n,), np.float32, 2)

    def reference(part: slice) -> dict[int, Bounded]:
        return {2: Bounded.exact(x[part], F32) + Bounded.exact(y[part], F32)}

    return _flat("vector add", "add_kernel", (x, y, np.zeros_like(x), n), n, block, (2,), reference)


def gelu_reference(x: NDArray[np.float32]) -> Bounded:
    """x / 2 * (1 + erf(x / sqrt 2)), the form without an approximation of its own (Hendrycks and Gimpel, 2016)."""
    half, one, root = (Bounded.exact(np.float32(number), F32) for number in (0.5, 1.0, 0.7071067811865476))
    exact = Bounded.exact(x, F32)
    return half * exact * (one + (exact * root).erf())


def gelu(n: int = 100_000, block: int = 1024) -> Case:
    """The activation function of transformers, in f32."""
    x = normal((n,), np.float32, 13, 2.0)
    return _flat(
        "gelu", "gelu_kernel", (x, np.zeros_like(x), n), n, block, (1,), lambda part: {1: gelu_reference(x[part])}
    )


def hash_reference(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The finaliser of MurmurHash3 (Appleby) over 64-bit integers."""
    mask, h = np.uint64(0xFFFFFFFF), x.astype(np.uint64)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> np.uint64(shift)) * np.uint64(factor) & mask
    return h.astype(np.uint32)


def hash_bits(n: int = 100_000, block: int = 1024) -> Case:
    """A hash of each 32-bit word, and how many of its bits are ones."""
    x = np.random.default_rng(14).integers(0, 2**32, n, np.uint32)

    def reference(part: slice) -> dict[int, Bounded]:
        hashed = hash_reference(x[part])
        return {1: Bounded.exact(hashed, F64), 2: Bounded.exact(np.bitwise_count(hashed), F64)}

    arguments = (x, np.zeros_like(x), np.zeros(n, np.int32), n)
    return _flat("hash and popcount", "hash_kernel", arguments, n, block, (1, 2), reference)


def scale_shift(m: int = 300, n: int = 500, bm: int = 16, bn: int = 64) -> Case:
    """x * scale + shift in f32, m x n, with a factor for each column and a summand for each row."""
    x, scale, shift = (normal(shape, np.float32, seed) for shape, seed in (((m, n), 15), ((n,), 16), ((m,), 17)))

    def reference(part: slice) -> dict[int, Bounded]:
        scaled = Bounded.exact(x[part], F32) * Bounded.exact(scale, F32)[None, :]
        return {3: scaled + Bounded.exact(shift[part], F32)[:, None]}

    return Case(
        f"scale and shift {m}x{n}", "elementwise", "scale_shift_kernel", (x, scale, shift, np.zeros_like(x), m, n, n),
        {"BM": bm, "BN": bn}, (cdiv(m, bm), cdiv(n, bn)), (3,), reference,
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

    def reference(part: slice) -> dict[int, Bounded]:
        kept = philox_uniform(seed, np.arange(n)[part]).astype(np.float32) > np.float32(p)
        share = Bounded.exact(1.0, F32) - Bounded.exact(np.float32(p), F32)
        return {1: (Bounded.exact(x[part], F32) / share).where(kept, Bounded.exact(0.0, F32))}

    return _flat("dropout", "dropout_kernel", (x, np.zeros_like(x), n, p, seed), n, block, (1,), reference)


def softmax(rows: int = 1823, cols: int = 781, programs: int = 264, element: FloatType = F32) -> Case:
    """Softmax of each row, computed in f32."""
    x = normal((rows, cols), STORED[element], 4)

    def reference(part: slice) -> dict[int, Bounded]:
        exact = Bounded.exact(x[part], F32)
        e = (exact - exact.max(1)[:, None]).exp()
        return {0: (e / e.sum(1)[:, None]).cast(element)}

    block = 1 << (cols - 1).bit_length()
    return Case(
        f"softmax {rows}x{cols}{said(element, F32)}", "softmax", "softmax_kernel",
        (np.zeros_like(x), x, cols, cols, rows, cols),
        {"BLOCK": block}, (programs,), (0,), reference,
    )  # fmt: skip


def layernorm(rows: int = 1151, cols: int = 8192, eps: float = 1e-5, element: FloatType = F16) -> Case:
    """Layer normalisation of each row, computed in f32."""
    dtype = STORED[element]
    x, w, b = normal((rows, cols), dtype, 5), normal((cols,), dtype, 6), normal((cols,), dtype, 7)
    mean, rstd = np.zeros(rows, np.float32), np.zeros(rows, np.float32)

    def reference(part: slice) -> dict[int, Bounded]:
        exact, count = Bounded.exact(x[part], F32), Bounded.exact(float(cols), F32)
        means = exact.sum(1) / count
        centred = exact - means[:, None]
        variance = (centred * centred).sum(1) / count
        rstds = Bounded.exact(1.0, F32) / (variance + Bounded.exact(np.float32(eps), F32)).sqrt()
        y = centred * rstds[:, None] * Bounded.exact(w, F32)[None, :] + Bounded.exact(b, F32)[None, :]
        return {3: y.cast(element), 4: means, 5: rstds}

    return Case(
        f"layernorm {rows}x{cols}{said(element, F16)}", "norms", "layernorm_kernel",
        (x, w, b, np.zeros_like(x), mean, rstd, cols, cols, eps), {"BLOCK": 1 << (cols - 1).bit_length()},
        (rows,), (3, 4, 5), reference,
    )  # fmt: skip


def rmsnorm(rows: int = 1151, cols: int = 8192, eps: float = 1e-5, element: FloatType = F16) -> Case:
    """Each row over its root mean square, times a weight for each column, computed in f32."""
    x, w = normal((rows, cols), STORED[element], 18), normal((cols,), STORED[element], 19)

    def reference(part: slice) -> dict[int, Bounded]:
        exact, count = Bounded.exact(x[part], F32), Bounded.exact(float(cols), F32)
        mean = (exact * exact).sum(1) / count
        rstd = Bounded.exact(1.0, F32) / (mean + Bounded.exact(np.float32(eps), F32)).sqrt()
        return {2: (exact * rstd[:, None] * Bounded.exact(w, F32)[None, :]).cast(element)}

    return Case(
        f"rmsnorm {rows}x{cols}{said(element, F16)}", "norms", "rmsnorm_kernel",
        (x, w, np.zeros_like(x), cols, cols, eps), {"BLOCK": 1 << (cols - 1).bit_length()}, (rows,), (2,), reference,
    )  # fmt: skip


def _product(a: NDArray[Any], b: NDArray[Any], part: slice) -> dict[int, Bounded]:
    rows = Bounded.exact(a[part], F32)
    zero = Bounded.exact(np.zeros((len(rows.value), b.shape[1])), F32)
    return {2: rows.dot(Bounded.exact(b, F32), zero).cast(F16)}


def matmul(
    m: int = 512, n: int = 512, k: int = 512, bm: int = 64, bn: int = 64, bk: int = 32, blocks: bool = False
) -> Case:
    """a @ b in f16 with an f32 accumulator, over pointers or block pointers."""
    a, b = normal((m, k), np.float16, 8, 0.5), normal((k, n), np.float16, 9, 0.5)
    c = np.zeros((m, n), np.float16)
    tiles = {"BM": bm, "BN": bn, "BK": bk} | ({} if blocks else {"GROUP": 8})
    across = (cdiv(m, bm), cdiv(n, bn))
    return Case(
        f"matmul {m}x{n}x{k}, {'block ' if blocks else ''}pointers", "matmul",
        "matmul_block_kernel" if blocks else "matmul_kernel", (a, b, c, m, n, k, k, 1, n, 1, n, 1), tiles,
        across if blocks else (math.prod(across),), (2,), partial(_product, a, b), 2 * m * n * k,
    )  # fmt: skip


def _attention(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], scale: float, step: int, causal: bool, part: slice
) -> dict[int, Bounded]:
    """The kernel's own recurrence over blocks of keys, so that the bound covers its rescaling."""
    q, k, v = q[part], k[part], v[part]
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
        (cdiv(n, bm), heads), (3,), partial(_attention, q, k, v, scale, bn, causal),
        4 * heads * n * n * d // (2 if causal else 1),
    )  # fmt: skip
