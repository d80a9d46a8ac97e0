"""Where a warp holds the elements of a matrix: linear maps from lane, register and position to row and column.

All fragments of the ISA's dense matrix instructions are of this kind: each bit of the lane's number, of the register's
number and of the position in the register adds something to the row or the column. So a layout is three short lists of
(row, column), the lowest bit first, and the lists for all shapes and types follow from a few rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from .frame import WARP
from .types import CARRIERS, Array

Place = tuple[int, int]
"""What one bit adds to the row and to the column."""


def _sums(places: Iterable[Place], columns: int) -> NDArray[np.intp]:
    """For every number the sum of what its bits add, as a position in the matrix, row by row."""
    found = np.zeros(1, np.intp)
    for row, column in places:
        found = np.concatenate([found, found + row * columns + column])
    return found


@dataclass(frozen=True)
class Fragment:
    """A matrix of `rows` times `columns` elements of `width` bits, spread over the registers of a warp."""

    rows: int
    columns: int
    width: int
    lane: tuple[Place, ...]
    register: tuple[Place, ...]
    element: tuple[Place, ...]

    @property
    def registers(self) -> int:
        """Registers a lane."""
        return 1 << len(self.register)

    @property
    def bits(self) -> int:
        """The width of a register."""
        return self.width << len(self.element)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """The position, row by row, of each element: by register, lane and position in the register."""
        register, lane, element = (_sums(p, self.columns) for p in (self.register, self.lane, self.element))
        return register[:, None, None] + lane[None, :, None] + element

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """For each position of the matrix where among the elements it is."""
        return np.argsort(self.places.reshape(-1))

    def matrices(self, registers: Array) -> Array:
        """The matrices [warps, rows, columns] of registers [warps, registers, lanes].

        Elements are unsigned integers of their width; those narrower than a byte fill one each.
        """
        elements = _unpacked(registers, self.width).reshape(len(registers), -1)
        return elements.take(self._order, axis=1).reshape(-1, self.rows, self.columns)

    def spread(self, matrices: Array) -> Array:
        """The registers [warps, registers, lanes] of matrices whose elements have at least a byte."""
        elements = matrices.reshape(len(matrices), -1).take(self.places.reshape(-1), axis=1)
        return elements.view(CARRIERS[self.bits]).reshape(-1, self.registers, WARP)


def _unpacked(registers: Array, width: int) -> Array:
    """Registers as elements, the lowest bits first."""
    if width >= 8:
        return registers.view(CARRIERS[width])
    octets = registers.view(np.uint8)
    if width == 4:
        return np.stack([octets & np.uint8(15), octets >> np.uint8(4)], axis=-1)
    return np.unpackbits(octets, axis=-1, bitorder="little")


def _doubling(first: int, end: int) -> list[int]:
    """first, 2 * first, ... below `end`."""
    found: list[int] = []
    while first < end:
        found.append(first)
        first *= 2
    return found


@cache
def left(rows: int, depth: int, width: int) -> Fragment:
    """The left operand: a register holds neighbours along k, four lanes a row, further registers rows 8 to 15 and the
    rest of k."""
    part = max(1, 32 // width)
    lanes = ((0, part), (0, 2 * part), (1, 0), (2, 0), (4, 0))
    registers = [(8, 0)] if rows == 16 else []
    registers += [(0, k) for k in _doubling(4 * part, depth)]
    return Fragment(rows, depth, width, lanes, tuple(registers), tuple((0, k) for k in _doubling(1, part)))


@cache
def right(depth: int, width: int) -> Fragment:
    """The right operand, of 8 columns: as the left one, with rows and columns swapped."""
    return transposed(left(8, depth, width))


@cache
def accumulator(rows: int, width: int) -> Fragment:
    """The accumulator, of 8 columns: a lane holds two neighbours of a row, and of the row 8 further down."""
    lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    pair = ((0, 1),)
    below = ((8, 0),) if rows == 16 else ()
    if width == 16:
        return Fragment(rows, 8, width, lanes, below, pair)
    return Fragment(rows, 8, width, lanes, pair + below, ())


def transposed(fragment: Fragment) -> Fragment:
    """The same registers taken for the transposed matrix."""
    lane, register, element = (
        tuple((column, row) for row, column in places)
        for places in (fragment.lane, fragment.register, fragment.element)
    )
    return Fragment(fragment.columns, fragment.rows, fragment.width, lane, register, element)
