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
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._lazy import one_blas_thread
from .casts import Array, decode, decode64
from .exact import F64Array, two_product
from .formats import FORMATS, FloatFormat
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
    at_once = max(1, _BLOCK // max(1, m * n))
    formats = FORMATS[fmt], FORMATS[right_fmt], FORMATS[acc_fmt]
    one_block = _dot_f64 if "f64" in (fmt, right_fmt) else _dot_block
    with one_blas_thread:
        for first in range(0, len(a), at_once):
            part = slice(first, first + at_once)
            codes = a[part].view(formats[0].carrier), b[part].view(formats[1].carrier)
            left, right = decode64(a[part], fmt), decode64(b[part], right_fmt)
            block = _Block(left, right, None if start is None else start[part], codes, formats, out)
            one_block(result[part].reshape(-1), block)
    return result.reshape(*batch, m, n)


@dataclass(frozen=True)
class _Block:
    """A few matrices to multiply: [P, M, K] and [P, K, N] in f64, accumulators [P, M, N] or None, and what they were.

    `codes` are the bits of both operands as stored, `formats` the formats of operands and accumulator, `out` that of
    the result. Single elements of the result are named by *places*: indices into the flattened [P, M, N].
    """

    a: F64Array
    b: F64Array
    acc: Array | None
    codes: tuple[Array, Array]
    formats: tuple[FloatFormat, FloatFormat, FloatFormat]
    out: str

    @property
    def unit(self) -> float:
        """The relative error bound of an f64 sum of the K products and the accumulator."""
        return (self.a.shape[-1] + 2) * _U * _SLACK

    @cached_property
    def grids(self) -> tuple[F64Array, F64Array]:
        """The grid of each row of `a` [P, M] and of each column of `b` [P, N] (see `_grid`)."""
        left, right, _ = self.formats
        return _grid(self.codes[0], left, 2), _grid(self.codes[1], right, 1)

    def rows_and_columns(self, places: Array) -> tuple[Array, Array]:
        """For each place its row of `a` among all P * M, and its column of `b` among all P * N."""
        m, n = self.a.shape[1], self.b.shape[2]
        row, column = np.divmod(places, n)
        return row, row // m * n + column

    def terms(self, places: Array) -> tuple[F64Array, F64Array, F64Array]:
        """For each place its row of `a` and column of `b` [R, K], and its accumulator [R, 1] (+0.0 without one)."""
        row, column = self.rows_and_columns(places)
        n = self.b.shape[2]
        start = np.zeros(len(places)) if self.acc is None else self.acc.reshape(-1)[places].astype(np.float64)
        left = self.a.reshape(-1, self.a.shape[-1])[row]
        return left, self.b[column // n, :, column % n], start[:, None]


def _stacked(x: Array, batch: tuple[int, ...]) -> Array:
    """Matrices with any leading axes as [P, rows, columns], broadcast to the shape `batch`."""
    return np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:])


def _dot_block(result: Array, block: _Block) -> None:
    """Fill the flat `result` with `acc + a @ b` for matrices whose products are exact in f64."""
    a, b, acc = block.a, block.b, block.acc
    value = np.matmul(a, b)
    value += 0.0 if acc is None else acc  # adding +0.0 turns -0.0, which the BLAS may give or not, into +0.0
    norms = np.sqrt(np.einsum("pmk,pmk->pm", a, a)), np.sqrt(np.einsum("pkn,pkn->pn", b, b))
    size = float(norms[0].max(initial=0)) * float(norms[1].max(initial=0))
    inexact = None if block.out == "f64" else _perhaps_inexact(block, size)
    if inexact is None:
        places = _enclose_all(result, value, norms, block)
        places = np.concatenate([places, _negative_zeros(value, acc)])
    else:
        if block.out == "f32":  # no NaN is left here, so the plain conversion is the rounding
            np.copyto(result.reshape(value.shape), value, casting="same_kind")
        else:
            result[...] = finish(value, block.out).reshape(-1)
        places = _enclose_again(result, value.reshape(-1), inexact, norms, block) if len(inexact) else inexact
    if len(places):
        _redo(result, places, block)


def _perhaps_inexact(block: _Block, size: float) -> Array | None:
    """The places whose f64 value may differ from the real one, found by rows and columns at a time.

    `size` bounds sum |a_k * b_k| everywhere. All terms of element (i, j) are multiples of the grid of row i times the
    grid of column j, and of the grid of its accumulator; it is exact where 2**52 times these covers the size. A few
    very small elements would spoil that for all, so their rows and columns are set aside. None where the test has
    nothing to say: infinities, NaNs, a -0.0 that may have to stay one, or too many places left.
    """
    start = None if block.acc is None else _Codes.of(block.acc)
    size += 0.0 if start is None else start.largest
    if not np.isfinite(size) or (start is not None and start.has_negative_zero):
        return None
    need = size * 2.0**-52
    rows, columns = block.grids
    apart: Array | None = None
    if (rows.min(axis=1, initial=np.inf) * columns.min(axis=1, initial=np.inf) < need).any():
        usual = np.partition(columns, columns.shape[1] // 16, axis=1)[:, columns.shape[1] // 16, None]
        bad_rows = rows * usual < need
        least = np.where(bad_rows, np.inf, rows).min(axis=1, initial=np.inf)
        apart = bad_rows[:, :, None] | (columns * least[:, None] < need)[:, None, :]
    if start is not None and start.least_grid < need:
        small = start.grids_below(need)
        apart = small if apart is None else apart | small
    if apart is None:
        return np.empty(0, np.intp)
    places = np.flatnonzero(apart)
    return places if len(places) < apart.size // 4 else None


@dataclass(frozen=True, slots=True)
class _Codes:
    """What the bits of accumulators tell without arithmetic, in few passes over them.

    `shifted` are the codes without sign, less one: zeros wrap to the largest code, so that the minimum is that of the
    nonzero values. `largest` is the largest magnitude (infinity where there is a NaN), `least_grid` what the last
    place of the smallest nonzero value is worth: it divides all of them (infinity for zeros only). Where the
    accumulators are one value or row for all, only that is looked at; it broadcasts.
    """

    shifted: Array
    fmt: FloatFormat
    largest: float
    least_grid: float
    has_negative_zero: bool

    @classmethod
    def of(cls, acc: Array) -> "_Codes":
        core = np.ascontiguousarray(acc[tuple(slice(0, 1) if step == 0 else slice(None) for step in acc.strides)])
        fmt = FORMATS["f32" if acc.dtype == np.float32 else "f64"]
        codes = core.view(fmt.carrier)
        one = fmt.carrier.type(1)
        shifted = codes << one
        top = np.array([shifted.max(initial=0) >> one], fmt.carrier).view(fmt.storage)[0]
        shifted -= one
        least = _worth(shifted.min(initial=np.iinfo(shifted.dtype).max), fmt)
        # As a signed integer -0.0 is the smallest of all codes.
        signed = codes.view(np.dtype(f"i{codes.dtype.itemsize}"))
        negative_zero = signed.min(initial=0) == np.iinfo(signed.dtype).min
        return cls(shifted, fmt, float(top) if np.isfinite(top) else np.inf, float(least), bool(negative_zero))

    def grids_below(self, need: float) -> Array:
        """Where the value is nonzero and its last place is worth less than `need`."""
        exponent = int(np.ceil(np.log2(need))) + self.fmt.bias + self.fmt.mantissa_bits
        exponent = min(exponent, (1 << self.fmt.exponent_bits) - 1)  # beyond it nothing finite has that grid
        return np.asarray(self.shifted < self.fmt.carrier.type((exponent << self.fmt.mantissa_bits + 1) - 1))


def _enclose_all(result: Array, value: F64Array, norms: tuple[F64Array, F64Array], block: _Block) -> Array:
    """Fill the flat `result` by a bound for each matrix, then one for each element; the places of those still open."""
    rows, columns = norms
    unit = block.unit
    bound = unit * rows.max(axis=1, initial=0) * columns.max(axis=1, initial=0)
    if block.acc is not None:
        high, low = block.acc.max(axis=(1, 2), initial=0), block.acc.min(axis=(1, 2), initial=0)
        bound += unit * np.maximum(high, -low)
    rounded, redo = round_enclosure(value, bound[:, None, None], block.out)
    result[...] = rounded.reshape(-1)
    if not np.isfinite(bound).all():
        redo[~np.isfinite(bound)] = True
    redo |= block.out == "f64"
    places = np.flatnonzero(redo)
    return _enclose_again(result, value.reshape(-1), places, norms, block) if len(places) else places


def _enclose_again(
    result: Array, value: F64Array, places: Array, norms: tuple[F64Array, F64Array], block: _Block
) -> Array:
    """Settle elements by bounds of their own, and return the places of those still open."""
    row, column = block.rows_and_columns(places)
    size = norms[0].reshape(-1)[row] * norms[1].reshape(-1)[column]  # bounds sum |terms|
    if block.acc is not None:
        size += np.abs(block.acc.reshape(-1)[places])
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
    row, column = block.rows_and_columns(places)
    left, right = block.grids
    grid = left.reshape(-1)[row] * right.reshape(-1)[column]
    if block.acc is not None:
        starts = block.acc.reshape(-1)[places][:, None]
        form = FORMATS["f32" if starts.dtype == np.float32 else "f64"]
        grid = np.minimum(grid, _grid(starts.view(form.carrier), form, 1))
    return np.asarray(size <= 2.0**52 * grid)


def _grid(codes: Array, fmt: FloatFormat, axis: int) -> F64Array:
    """A power of two that divides all finite values along an axis, from the smallest exponent; for zeros infinity."""
    one = codes.dtype.type(1)
    shifted = codes << one  # without the sign
    shifted -= one  # zero wraps to the largest code
    return _worth(shifted.min(axis=axis, initial=np.iinfo(codes.dtype).max), fmt)


def _worth(shifted: Array, fmt: FloatFormat) -> F64Array:
    """What the last place of values is worth, by their codes without sign, doubled and less one; for zeros infinity."""
    one = shifted.dtype.type(1)
    field = (shifted >> one) + (shifted & one) >> shifted.dtype.type(fmt.mantissa_bits)
    worth = np.ldexp(1.0, np.maximum(field.astype(np.int32), 1) - (fmt.bias + fmt.mantissa_bits))
    return np.where(shifted == np.iinfo(shifted.dtype).max, np.inf, worth)


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
    for part in _chunks(places, block.a.shape[-1]):
        left, right, start = block.terms(part)
        result[part] = exact_sums(np.concatenate([left * right, start], axis=1), block.out)


def _dot_f64(result: Array, block: _Block) -> None:
    """Fill the flat `result` for f64 operands: each product becomes two terms, or a rational where that is inexact."""
    for part in _chunks(np.arange(len(result)), 2 * block.a.shape[-1]):
        left, right, start = block.terms(part)
        product, rest = two_product(left, right)
        safe = _splits_safely(left) & _splits_safely(right)
        plain = ~(np.isfinite(left) & np.isfinite(right)).all(axis=1)
        rest[plain] = 0.0
        signed = (rest == 0) & np.isfinite(product)
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
