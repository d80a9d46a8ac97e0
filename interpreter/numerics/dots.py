"""Matrix products: `acc + a @ b` as a real number rounded once (floats), or modulo 2**32 (integers).

Products of two floats of at most 24 significant bits are exact in f64, so `np.matmul` in f64 commits only the errors
of its additions, and the result is settled by the first of these that applies:

1. *Enclosed.* By Cauchy and Schwarz `sum |a_k * b_k| <= ||a|| * ||b||`, hence every element is within
   `(K + 2) * 2**-53 * (||a_i|| * ||b_j|| + |acc_ij|)` of the real value. Both ends round to the same result. (The
   largest bound of a matrix is tried on all of it first, then the bound of each element on those left open.)
2. *Exact.* All terms are multiples of some 2**g, and ||a_i|| * ||b_j|| + |acc_ij| < 2**(g + 53): then every partial
   sum is a multiple of 2**g that f64 holds, so the value is exact, whatever the order of additions. (This settles
   the ties, which products of short significands often hit. Where it settles nearly all, it is tried first.)
3. *Redone* from its terms (see `sums`): elements still open, and those with infinities and NaNs.

f64 operands split each product into itself and its error (TwoProduct) and always take the third way.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._lazy import one_blas_thread
from .casts import Array, decode
from .exact import F64Array, two_product
from .factors import Factor, Starts, factors, finest_held, grids, multiply, pairs_below
from .formats import FORMATS
from .sums import exact_rational_sum, exact_sums, finish, round_enclosure

_U = 2.0**-53
_SLACK = 1.001
_BLOCK = 1 << 17
"""Result elements (of 8 bytes) worked on at a time, so that temporaries stay in the second-level cache."""
_FEW_PLACES = 32
"""Up to so many open elements a redo costs less than looking for exact ones."""
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
    one_block = _dot_f64 if "f64" in (fmt, right_fmt) else _dot_block
    left, right = factors(a, fmt, 2), factors(b, right_fmt, 1)
    at_once = max(1, _BLOCK // max(1, m * n))
    with one_blas_thread:
        for first in range(0, len(a), at_once):
            part = slice(first, first + at_once)
            block = _Block(left(part), right(part), None if start is None else start[part], a.shape[2], out)
            one_block(result[part].reshape(-1), block)
    return result.reshape(*batch, m, n)


@dataclass(frozen=True, slots=True)
class _Block:
    """A few products: [P, M, K] times [P, K, N], `length` K, plus accumulators [P, M, N] (None: +0.0), in format `out`.

    Single elements of the result are named by *places*: indices into the flattened [P, M, N].
    """

    left: Factor
    right: Factor
    acc: Array | None
    length: int
    out: str

    @property
    def unit(self) -> float:
        """The relative error bound of an f64 sum of the K products and the accumulator."""
        return (self.length + 2) * _U * _SLACK

    def lines(self, places: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """For each place its matrix and row on the left, and its matrix and column on the right."""
        row, column = np.divmod(places, self.right.norms.shape[1])
        program, row = np.divmod(row, self.left.norms.shape[1])
        return (self.left.matrix(program), row), (self.right.matrix(program), column)

    def sizes(self, places: Array) -> F64Array:
        """For each place a bound of the sum of the magnitudes of its terms."""
        row, column = self.lines(places)
        size = self.left.norms[row] * self.right.norms[column]
        if self.acc is not None:
            size += np.abs(self.acc.reshape(-1)[places])
        return size

    def terms(self, places: Array) -> tuple[F64Array, F64Array, F64Array]:
        """For each place its row of `a` and column of `b` [R, K], and its accumulator [R, 1] (+0.0 without one)."""
        row, (matrix, column) = self.lines(places)
        start = np.zeros(len(places)) if self.acc is None else self.acc.reshape(-1)[places].astype(np.float64)
        return self.left.values[row], self.right.values[matrix, :, column], start[:, None]


def _stacked(x: Array, batch: tuple[int, ...]) -> Array:
    """Matrices with any leading axes as [P, rows, columns], broadcast to the shape `batch`."""
    return np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:])


def _dot_block(result: Array, block: _Block) -> None:
    """Fill the flat `result` with `acc + a @ b` for matrices whose products are exact in f64."""
    left, right, acc = block.left, block.right, block.acc
    inexact = None if block.out == "f64" else _perhaps_inexact(block)
    m, n = left.norms.shape[1], right.norms.shape[1]
    value = np.empty((len(result) // max(1, m * n), m, n))
    multiply(left, right, value)
    value += 0.0 if acc is None else acc  # adding +0.0 turns -0.0, which the BLAS may give or not, into +0.0
    if inexact is None:
        places = np.concatenate([_enclose_all(result, value, block), _negative_zeros(value, acc)])
    else:
        if block.out == "f32":  # no NaN is left here, so the plain conversion is the rounding
            np.copyto(result.reshape(value.shape), value, casting="same_kind")
        else:
            result[...] = finish(value, block.out).reshape(-1)
        places = _enclose_again(result, value.reshape(-1), inexact, block) if len(inexact) else inexact
    if len(places):
        _redo(result, places, block)


def _perhaps_inexact(block: _Block) -> Array | None:
    """The places whose f64 value may differ from the real one, found by rows and columns.

    All terms of element (i, j) are multiples of the grid of row i times the grid of column j, and of the grid of its
    accumulator; it is exact where f64 holds all multiples of these up to the largest sum of magnitudes of any element.
    None where the test has nothing to say: infinities, NaNs, a -0.0 that may have to stay one.
    """
    left, right = block.left, block.right
    size = float(left.spread(left.norms).max(initial=0)) * float(right.spread(right.norms).max(initial=0))
    start = None if block.acc is None else Starts.of(block.acc)
    size = _SLACK * (size + (0.0 if start is None else start.largest))
    if not np.isfinite(size):
        return None
    need = int(finest_held(size))
    places = pairs_below(left, right, need)
    small = np.empty(0, np.intp) if start is None else start.below(need)
    if places is None or small is None:
        return None
    return np.union1d(places, small) if len(small) else places


def _enclose_all(result: Array, value: F64Array, block: _Block) -> Array:
    """Fill the flat `result` by a bound for each matrix, then one for each element; the places of those still open."""
    left, right = block.left, block.right
    unit = block.unit
    bound = unit * left.spread(left.norms.max(axis=1, initial=0)) * right.spread(right.norms.max(axis=1, initial=0))
    if block.acc is not None:
        high, low = block.acc.max(axis=(1, 2), initial=0), block.acc.min(axis=(1, 2), initial=0)
        bound += unit * np.maximum(high, -low)
    rounded, redo = round_enclosure(value, bound[:, None, None], block.out)
    result[...] = rounded.reshape(-1)
    if not np.isfinite(bound).all():
        redo[~np.isfinite(bound)] = True
    redo |= block.out == "f64"
    places = np.flatnonzero(redo)
    return _enclose_again(result, value.reshape(-1), places, block) if len(places) else places


def _enclose_again(result: Array, value: F64Array, places: Array, block: _Block) -> Array:
    """Settle elements by bounds of their own, and return the places of those still open."""
    size = block.sizes(places)
    error = block.unit * size
    result[places], open_ = round_enclosure(value[places], error, block.out)
    open_ |= ~np.isfinite(error)
    if block.out == "f64":
        open_ |= error > 0
    left = places[open_]
    if len(left) <= _FEW_PLACES:
        return left
    exact = _exact(left, size[open_], block)
    result[left[exact]] = finish(value[left[exact]], block.out)
    return left[~exact]


def _exact(places: Array, size: F64Array, block: _Block) -> NDArray[np.bool_]:
    """For which elements every partial sum is a multiple of a power of two that f64 holds; `size` is sum |terms|."""
    row, column = block.lines(places)
    grid = block.left.grids[row] + block.right.grids[column]
    if block.acc is not None:
        starts = block.acc.reshape(-1)[places]
        form = FORMATS["f32" if starts.dtype == np.float32 else "f64"]
        grid = np.minimum(grid, grids(starts.view(form.carrier)[:, None], form, 1))
    size = size * _SLACK
    return np.asarray(np.isfinite(size) & (finest_held(size) <= grid))


def _negative_zeros(value: F64Array, acc: Array | None) -> Array:
    """The places of results that may be -0.0: zeros that started from a -0.0 accumulator."""
    if acc is None:
        return np.empty(0, np.intp)
    zero = value == 0
    zero &= acc == 0
    if zero.any():
        zero &= np.signbit(acc)
    return np.flatnonzero(zero)


def _chunks(places: Array, length: int) -> list[Array]:
    """The places in portions that keep the gathered terms in bounds."""
    at_once = max(1, _TERMS_AT_ONCE // (length + 1))
    return [places[start : start + at_once] for start in range(0, len(places), at_once)]


def _redo(result: Array, places: Array, block: _Block) -> None:
    """Replace elements of the flat `result` by the sums of their terms, rounded once."""
    for part in _chunks(places, block.length):
        left, right, start = block.terms(part)
        result[part] = exact_sums(np.concatenate([left * right, start], axis=1), block.out)


def _dot_f64(result: Array, block: _Block) -> None:
    """Fill the flat `result` for f64 operands: each product becomes two terms, or a rational where that is inexact."""
    for part in _chunks(np.arange(len(result)), 2 * block.length):
        left, right, start = block.terms(part)
        product, rest = two_product(left, right)
        safe = _splits_safely(left) & _splits_safely(right)
        plain = ~(np.isfinite(left) & np.isfinite(right)).all(axis=1)
        rest[plain] = 0.0
        # What overflows on the way to the error of a product with zero is no error.
        signed = ((rest == 0) & np.isfinite(product)) | (left == 0) | (right == 0)
        rest[signed] = product[signed] * 0.0  # a zero error takes the sign of its product, for -0.0 sums
        swallowed = ~plain & ~np.isfinite(start[:, 0])  # finite products, however large, do not move it
        product[swallowed] = rest[swallowed] = 0.0
        sums = exact_sums(np.concatenate([product, rest, start], axis=1), block.out)
        for at in np.flatnonzero(~safe & ~plain & np.isfinite(start[:, 0])):
            sums[at] = _rational_dot(left[at].tolist(), right[at].tolist(), float(start[at, 0]), sums[at], block.out)
        result[part] = sums


def _rational_dot(left: list[float], right: list[float], start: float, zero: Any, fmt: str) -> Any:
    """One dot product in rational arithmetic; `zero` is the result if all terms are zeros, whose signs it knows."""
    terms = [Fraction(x) * Fraction(y) for x, y in zip(left, right, strict=True)]
    if start == 0 and not any(terms):
        return zero
    return exact_rational_sum(sum(terms, Fraction(start)), fmt)


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
    with one_blas_thread:
        product: NDArray[Any] = np.matmul(left.astype(carrier), right.astype(carrier)).astype(np.int64)
    if acc is not None:
        product = product + np.asarray(acc).astype(np.int64)
    return product.astype(np.int32)
