"""Matrix products: `acc + a @ b` as a real number rounded once (floats), or modulo 2**32 (integers).

Products of two floats of at most 24 significant bits are exact in f64, so `np.matmul` in f64 commits only the errors
of its additions, and the result is settled by the first of these that applies:

1. *Enclosed.* By Cauchy and Schwarz `sum |a_k * b_k| <= ||a|| * ||b||`, hence every element is within
   `(K + 2) * 2**-53 * (||a_i|| * ||b_j|| + |acc_ij|)` of the real value. Both ends round to the same result. (The
   largest bound of a matrix is tried on all of it first, then the bound of each element on those left open.)
2. *Exact.* All terms are multiples of some 2**g, and ||a_i|| * ||b_j|| + |acc_ij| <= 2**(g + 52): then every partial
   sum is a multiple of 2**g that f64 holds, so the value is exact, whatever the order of additions. (This settles
   the ties, which products of short significands often hit.)
3. *Redone* from its terms (see `sums`): elements still open, and those with infinities and NaNs.

f64 operands split each product into itself and its error (TwoProduct) and always take the third way.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .casts import Array, decode, decode64
from .exact import F64Array, two_product
from .formats import FORMATS, FloatFormat
from .sums import exact_rational_sum, exact_sums, round_enclosure

_U = 2.0**-53
_SLACK = 1.001
_BLOCK = 1 << 15
"""Result elements (of 8 bytes) worked on at a time, so that temporaries stay in the second-level cache."""
_TERMS_AT_ONCE = 1 << 18


@np.errstate(all="ignore")
def dot(
    a: Array,
    b: Array,
    acc: Array | None,
    fmt: str,
    acc_fmt: str = "f32",
    out_fmt: str | None = None,
    b_fmt: str | None = None,
) -> Array:
    """`acc + a @ b`, the real value rounded once to `out_fmt` (None: `acc_fmt`).

    `a` is [..., M, K] in `fmt`, `b` is [..., K, N] in `b_fmt` (None: `fmt`), `acc` is [..., M, N] in `acc_fmt` or None
    for +0.0; leading axes broadcast. For tf32 pass f32 operands that went through `round_tf32`.
    """
    out, right_fmt = out_fmt or acc_fmt, b_fmt or fmt
    a, b = np.asarray(a), np.asarray(b)
    start = None if acc is None else decode(acc, acc_fmt)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], () if start is None else start.shape[:-2])
    a, b = _stacked(a, batch), _stacked(b, batch)
    start = None if start is None else _stacked(start, batch)
    m, n = a.shape[1], b.shape[2]
    result = np.empty((len(a), m, n), FORMATS[out].storage)
    at_once = max(1, _BLOCK // max(1, m * n))
    formats = FORMATS[fmt], FORMATS[right_fmt], FORMATS[acc_fmt]
    for first in range(0, len(a), at_once):
        part = slice(first, first + at_once)
        left, right = decode64(a[part], fmt), decode64(b[part], right_fmt)
        block = _Block(left, right, None if start is None else start[part], formats, out)
        (_dot_f64 if "f64" in (fmt, right_fmt) else _dot_block)(result[part], block)
    return result.reshape(*batch, m, n)


@dataclass(frozen=True, slots=True)
class _Block:
    """A few matrices to multiply: [P, M, K] and [P, K, N] in f64, the accumulators, and all formats."""

    a: F64Array
    b: F64Array
    acc: Array | None
    formats: tuple[FloatFormat, FloatFormat, FloatFormat]
    out: str


def _stacked(x: Array, batch: tuple[int, ...]) -> Array:
    """Matrices with any leading axes as [P, rows, columns], broadcast to the shape `batch`."""
    return np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:])


def _dot_block(result: Array, block: _Block) -> None:
    """Fill `result` [P, M, N] with `acc + a @ b` for matrices whose products are exact in f64."""
    a, b, acc = block.a, block.b, block.acc
    value = np.matmul(a, b)
    value += 0.0 if acc is None else acc  # adding +0.0 turns -0.0, which the BLAS may give or not, into +0.0
    unit = (a.shape[-1] + 2) * _U * _SLACK
    rows = np.sqrt(np.einsum("pmk,pmk->pm", a, a))
    columns = np.sqrt(np.einsum("pkn,pkn->pn", b, b))
    bound = unit * rows.max(axis=1, initial=0) * columns.max(axis=1, initial=0)
    if acc is not None:
        bound += unit * np.maximum(acc.max(axis=(1, 2), initial=0), -acc.min(axis=(1, 2), initial=0))
    result[...], redo = round_enclosure(value, bound[:, None, None], block.out)
    if not np.isfinite(bound).all():
        redo[~np.isfinite(bound)] = True
    if redo.any():
        index = np.nonzero(redo)
        error = unit * _sizes(index, rows, columns, acc)
        error[_exact(index, error / unit, block)] = 0.0
        result[index], still = round_enclosure(value[index], error, block.out)
        if block.out == "f64":
            still = error > 0
        redo[index] = still | ~np.isfinite(error)
    signs = _negative_zeros(value, acc)
    if signs is not None:
        redo |= signs
    if redo.any():
        _redo(result, redo, block)


def _sizes(index: tuple[Array, ...], rows: F64Array, columns: F64Array, acc: Array | None) -> F64Array:
    """A bound on the sum of the magnitudes of the terms of each element at `index`."""
    batch, row, column = index
    return rows[batch, row] * columns[batch, column] + (0.0 if acc is None else np.abs(acc[index]))


def _exact(index: tuple[Array, ...], size: F64Array, block: _Block) -> NDArray[np.bool_]:
    """For which of the elements at `index` every partial sum is a multiple of a power of two that f64 holds."""
    batch, row, column = index
    left = _grid(np.abs(block.a), block.formats[0], axis=2)[batch, row]
    right = _grid(np.abs(block.b), block.formats[1], axis=1)[batch, column]
    grid = left * right
    if block.acc is not None:
        grid = np.minimum(grid, _grid(np.abs(block.acc[index])[:, None], block.formats[2], axis=1))
    return np.asarray(size <= 2.0**52 * grid)


def _grid(size: Array, fmt: FloatFormat, axis: int) -> F64Array:
    """The largest power of two (a bound below it) that divides all finite values along an axis; for zeros, infinity."""
    smallest = np.min(np.where(size == 0, np.inf, size), axis=axis, initial=np.inf)
    exponent = np.frexp(smallest)[1] - fmt.precision
    grid = np.maximum(np.ldexp(1.0, exponent), fmt.min_subnormal)
    return np.asarray(np.where(np.isfinite(smallest), grid, np.inf), dtype=np.float64)


def _negative_zeros(value: F64Array, acc: Array | None) -> NDArray[np.bool_] | None:
    """Where the result may be -0.0: a zero that started from a -0.0 accumulator. None: nowhere."""
    if acc is None:
        return None
    zero = value == 0
    zero &= acc == 0
    if not zero.any():
        return None
    zero &= np.signbit(acc)
    return zero


def _chunks(redo: NDArray[np.bool_], length: int) -> list[tuple[Array, ...]]:
    """The places to redo, as index tuples of a size that keeps the gathered terms in bounds."""
    picked = np.argwhere(redo)
    at_once = max(1, _TERMS_AT_ONCE // (length + 1))
    return [tuple(picked[start : start + at_once].T) for start in range(0, len(picked), at_once)]


def _gather(index: tuple[Array, ...], block: _Block) -> tuple[F64Array, ...]:
    """The operands of the elements at `index`: rows of `a` and columns of `b` [R, K], accumulators [R, 1]."""
    batch, row, column = index
    start = np.zeros((len(batch), 1)) if block.acc is None else block.acc[index][:, None].astype(np.float64)
    return block.a[batch, row], block.b[batch, :, column], start


def _redo(result: Array, redo: NDArray[np.bool_], block: _Block) -> None:
    """Replace the picked elements of `result` by the sums of their terms, rounded once."""
    for index in _chunks(redo, block.a.shape[-1]):
        left, right, start = _gather(index, block)
        result[index] = exact_sums(np.concatenate([left * right, start], axis=1), block.out)


def _dot_f64(result: Array, block: _Block) -> None:
    """Fill `result` for f64 operands: every product becomes two terms, or a rational where that could be inexact."""
    for index in _chunks(np.ones(result.shape, np.bool_), 2 * block.a.shape[-1]):
        left, right, start = _gather(index, block)
        product, rest = two_product(left, right)
        safe = _splits_safely(left) & _splits_safely(right)
        plain = ~(np.isfinite(left) & np.isfinite(right)).all(axis=1)
        rest[plain] = 0.0
        rest = np.where(rest == 0, product * 0.0, rest)  # a zero error takes the sign of its product, for -0.0 sums
        sums = exact_sums(np.concatenate([product, rest, start], axis=1), block.out)
        for at in np.flatnonzero(~safe & ~plain & np.isfinite(start[:, 0])):
            terms = [Fraction(x) * Fraction(y) for x, y in zip(left[at].tolist(), right[at].tolist(), strict=True)]
            total = sum(terms, Fraction(start[at, 0]))
            if total != 0:
                sums[at] = exact_rational_sum(total, block.out)
            elif any(terms) or start[at, 0] != 0:
                sums[at] = 0.0
        result[index] = sums


def _splits_safely(x: F64Array) -> NDArray[np.bool_]:
    """Which rows TwoProduct handles without overflow or underflow."""
    size = np.abs(x)
    return np.asarray((((size >= 2.0**-480) & (size <= 2.0**480)) | (size == 0)).all(axis=1))


def dot_int(a: Array, b: Array, acc: Array | None = None, signed: bool = True) -> NDArray[np.int32]:
    """`acc + a @ b` modulo 2**32 for i8 operands [..., M, K] and [..., K, N], signed or unsigned; returns int32.

    The products are summed in f32 or f64 by the BLAS where every partial sum is an integer that the type holds
    exactly, so that the order does not matter, and in wrapping 64-bit integers otherwise.
    """
    kind = np.int8 if signed else np.uint8
    left, right = np.asarray(a).view(kind), np.asarray(b).view(kind)
    largest = left.shape[-1] * (2**14 if signed else 255**2)
    carrier: type[np.generic] = np.float32 if largest <= 2**24 else np.float64 if largest <= 2**53 else np.int64
    product: NDArray[Any] = np.matmul(left.astype(carrier), right.astype(carrier)).astype(np.int64)
    if acc is not None:
        product = product + np.asarray(acc).astype(np.int64)
    return product.astype(np.int32)
