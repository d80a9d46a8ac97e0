"""The two sides of matrix products, and the accumulators, as `dots` needs them: f64 values, and bounds by lines.

A *line* is what meets a line of the other side: a row of the left matrix, a column of the right one. The *grid* of some
values is the exponent of the last place of the smallest nonzero one: 2**grid divides all finite ones. For zeros it is
`NO_GRID`, larger than any other.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .casts import Array, decode64
from .exact import F64Array
from .formats import FORMATS, FloatFormat

Grids = NDArray[np.int32]

NO_GRID = 1 << 20
_LARGE = 1 << 11
"""From so many elements on it pays to find out whether programs have the same matrix."""
_MANY = 0.25
"""The share of elements from which on they are not worth being named one by one."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One side of the products of some programs: distinct matrices, and which of them each program has.

    `values` [D, rows, columns] are f64; `norms` and `grids` [D, lines] are the Euclidean norms of the lines and their
    grids. `which` [P] are indices of matrices, None where program p has matrix p.
    """

    values: F64Array
    norms: F64Array
    grids: Grids
    which: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, stored: Array, fmt: str, axis: int) -> "Factor":
        """The factor of stored matrices of a format; their lines run along `axis`."""
        row = FORMATS[fmt]
        values = decode64(stored, fmt)
        norms = np.sqrt(np.einsum("pmk,pmk->pm" if axis == 2 else "pkn,pkn->pn", values, values))
        return cls(values, norms, grids(stored.view(row.carrier), row, axis))

    def part(self, programs: slice) -> "Factor":
        """The factor of some of the programs, of those that share matrices."""
        return self if self.which is None else Factor(self.values, self.norms, self.grids, self.which[programs])

    def spread(self, facts: Array) -> Array:
        """Facts [D, ...] by program [P, ...]."""
        return facts if self.which is None else facts[self.which]

    def matrix(self, program: Array | int) -> Array:
        """Which matrix a program has."""
        return np.asarray(program) if self.which is None else self.which[program]


def factors(x: Array, fmt: str, axis: int) -> Callable[[slice], Factor]:
    """From matrices of all programs [P, rows, columns] to the factor of some: of a matrix that many have, made once."""
    found = _distinct(x.view(FORMATS[fmt].carrier))
    if found is None:
        return lambda programs: Factor.of(x[programs], fmt, axis)
    first, which = found
    return replace(Factor.of(x[first], fmt, axis), which=which).part


def _distinct(codes: Array) -> tuple[list[int], NDArray[np.intp]] | None:
    """The programs that are the first with their matrix, and for all whose that is; None if hardly any repeat."""
    if len(codes) < 2 or not codes[0].size:
        return None
    if codes.strides[0] == 0:
        return [0], np.zeros(len(codes), np.intp)
    if codes[0].size < _LARGE:
        return None
    first: list[int] = []
    seen: dict[bytes, int] = {}  # by the first row
    which = np.empty(len(codes), np.intp)
    for program, matrix in enumerate(codes):
        at = which[program] = seen.setdefault(matrix[0].tobytes(), len(first))
        if at == len(first):
            first.append(program)
        elif matrix.tobytes() != codes[first[at]].tobytes():  # several times as fast as comparing elements
            return None
    return (first, which) if 2 * len(first) <= len(codes) else None


def multiply(left: Factor, right: Factor, out: F64Array) -> None:
    """The products of the programs' matrices, in f64 and in whatever order the BLAS adds."""
    if (left.which is None or len(left.values) == 1) and (right.which is None or len(right.values) == 1):
        np.matmul(left.values, right.values, out=out)
        return
    for program, product in enumerate(out):
        np.matmul(left.values[left.matrix(program)], right.values[right.matrix(program)], out=product)


def grids(codes: Array, fmt: FloatFormat, axis: int) -> Grids:
    """The grids of values along an axis, from their codes; it disappears."""
    one, zeros = codes.dtype.type(1), np.iinfo(codes.dtype).max
    shifted = codes << one  # without the sign
    shifted -= one  # zero wraps to the largest code
    least = shifted.min(axis=axis, initial=zeros)
    field = (least + one >> codes.dtype.type(fmt.mantissa_bits + 1)).astype(np.int32)
    exponent = np.maximum(field, 1) - (fmt.bias + fmt.mantissa_bits)
    exponent[least == zeros] = NO_GRID
    return exponent


def finest_held(size: Array | float) -> Array:
    """The least grids of which f64 holds all multiples of magnitude less than or equal to `size`, if that is finite."""
    return np.asarray(np.frexp(size)[1] - 53)


def pairs_below(left: Factor, right: Factor, need: int) -> Array | None:
    """The places in the flattened [P, M, N] whose row and column have grids that add up to less than `need`.

    None if there are many.
    """
    rows, columns = left.spread(left.grids), right.spread(right.grids)
    low = np.flatnonzero(rows + columns.min(axis=1, initial=NO_GRID)[:, None] < need)  # rows that have such a column
    if not len(low):
        return low
    m, n = rows.shape[1], columns.shape[1]
    below = rows.reshape(-1)[low, None] + columns[low // m] < need
    if np.count_nonzero(below) > _MANY * rows.size * n:
        return None
    row, column = np.nonzero(below)
    return np.asarray(low[row] * n + column)


@dataclass(frozen=True, slots=True)
class Starts:
    """Accumulators [P, M, N] in f32 or f64, and the largest magnitude of any (infinity or NaN where there is one).

    Where they are one value or row for all, only that is looked at; `core` and `sizes` (its magnitudes) broadcast.
    """

    shape: tuple[int, ...]
    core: Array
    sizes: Array
    largest: float

    @classmethod
    def of(cls, acc: Array) -> "Starts":
        """Look at accumulators once."""
        core = acc[tuple(slice(0, 1) if step == 0 else slice(None) for step in acc.strides)]
        sizes = np.abs(core)
        return cls(acc.shape, core, sizes, float(sizes.max(initial=0)))

    def below(self, need: int) -> Array | None:
        """The places where the value is not zero and its grid may be less than `need`.

        None if there are many, or a -0.0.
        """
        row = FORMATS["f32" if self.core.dtype == np.float32 else "f64"]
        # A last place of 2**need belongs to values of 2**(need + mantissa_bits) and more. Zeros are always looked at.
        limit = np.maximum(self.core.dtype.type(2.0 ** (need + row.mantissa_bits)), row.min_subnormal)
        if self.sizes.min(initial=np.inf) >= limit:
            return np.empty(0, np.intp)
        zero = self.sizes == 0
        small = (self.sizes < limit) & ~zero
        if (zero & np.signbit(self.core)).any() or np.count_nonzero(small) > _MANY * small.size:
            return None
        return np.flatnonzero(np.broadcast_to(small, self.shape))
