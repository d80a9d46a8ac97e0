"""Linear algebra over F2, the field of two elements, for `layout.py`.

A vector is a non-negative integer: bit i is component i, and addition is XOR. A matrix is a sequence of such
vectors, its columns: column j is the image of unit vector j. Sizes here are a few dozen bits, so plain
integers beat arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Echelon:
    """A matrix after elimination: what `eliminate` returns, ready to solve equations.

    `rows` pairs each reduced vector with the columns whose sum it is (a mask); every vector is zero at the
    leading bits of those before it. `pivots` masks the columns that are independent of the columns before
    them. `kernel` holds, for each other column, the one solution of `matrix * x = 0` made of that column and
    of pivots.
    """

    rows: tuple[tuple[int, int], ...]
    pivots: int
    kernel: tuple[int, ...]

    def solve(self, target: int) -> int | None:
        """Find x with `matrix * x == target`, non-pivot components zero; None when there is none.

        >>> eliminate([0b01, 0b01, 0b11]).solve(0b10)
        5
        """
        remainder, combination = _reduce(target, 0, self.rows)
        return None if remainder else combination


def _reduce(vector: int, combination: int, rows: Iterable[tuple[int, int]]) -> tuple[int, int]:
    for row, columns in rows:
        if vector >> (row.bit_length() - 1) & 1:
            vector ^= row
            combination ^= columns
    return vector, combination


def eliminate(columns: Sequence[int]) -> Echelon:
    """Reduce a matrix, column by column from the first, keeping track of combinations.

    >>> eliminate([1, 1, 2])
    Echelon(rows=((1, 1), (2, 4)), pivots=5, kernel=(3,))
    """
    rows: list[tuple[int, int]] = []
    kernel: list[int] = []
    pivots = 0
    for index, column in enumerate(columns):
        remainder, combination = _reduce(column, 1 << index, rows)
        if remainder:
            rows.append((remainder, combination))
            pivots |= 1 << index
        else:
            kernel.append(combination)
    return Echelon(tuple(rows), pivots, tuple(kernel))


def solve(columns: Sequence[int], target: int) -> int | None:
    """Find x with `matrix * x == target`, free variables zero; None when there is none.

    >>> solve([1, 2, 3], 3), solve([1], 2)
    (3, None)
    """
    return eliminate(columns).solve(target)


def rank(vectors: Sequence[int]) -> int:
    """Count the dimensions that the vectors span.

    >>> rank([1, 2, 3])
    2
    """
    return len(eliminate(vectors).rows)


def rref(vectors: Iterable[int]) -> tuple[int, ...]:
    """Give the reduced basis of the span, in ascending order: equal for equal spans.

    The leading (highest) bit of each basis vector is zero in all the others.

    >>> rref([3, 1]), rref([6, 3])
    ((1, 2), (3, 5))
    """
    basis: list[int] = []
    for vector in vectors:
        for row in basis:
            vector = min(vector, vector ^ row)
        if vector:
            basis = [min(row, row ^ vector) for row in basis]
            basis.append(vector)
    return tuple(sorted(basis))


def multiply(columns: Sequence[int], vector: int) -> int:
    """Multiply a matrix by a vector: the sum of the columns that the vector's bits choose.

    >>> multiply([1, 6, 4], 0b110)
    2
    """
    result = 0
    for index, column in enumerate(columns):
        if vector >> index & 1:
            result ^= column
    return result


def gather(vector: int, positions: Sequence[int]) -> int:
    """Pick components: bit k of the result is bit `positions[k]` of the vector.

    >>> bin(gather(0b1000, [3, 0]))
    '0b1'
    """
    return sum((vector >> position & 1) << k for k, position in enumerate(positions))


def scatter(vector: int, positions: Sequence[int]) -> int:
    """Place components: bit k of the vector goes to bit `positions[k]`, the rest is zero.

    >>> bin(scatter(0b11, [3, 0]))
    '0b1001'
    """
    return sum((vector >> k & 1) << position for k, position in enumerate(positions))
