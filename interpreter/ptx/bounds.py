"""Bounds of the approximate instructions: how far hardware may be from the real value.

They are what the PTX ISA promises; where an H200 was found to err more, what was measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..numerics import FORMATS, decode, round_to
from .types import Array


@dataclass(frozen=True, slots=True)
class Bound:
    """A promise of the PTX ISA 9.1 about one instruction, for operands of some magnitudes.

    A row whose promise hardware does not keep says so, and has what was measured.

    `kind` says what `limit` limits (`errors`): `ulp` the codes between the result and the correctly rounded one,
    `relative` and `absolute` the distance from the real value. It holds where operand number `operand` has a magnitude
    from `low` to `high`, both included. An infinite limit says that the ISA promises nothing.
    """

    kind: str
    limit: float
    low: float = 0.0
    high: float = math.inf
    operand: int = 0

    def holds(self, x: Array) -> Array:
        """Where it says something, given that operand as numbers."""
        size = np.abs(x)
        return (self.low <= size) & (size <= self.high)


def ordered(codes: Array) -> Array:
    """Codes of a format with sign and magnitude as integers that are ordered as the numbers are; both zeros are 0."""
    size = codes.dtype.itemsize
    magnitude = (codes & codes.dtype.type((1 << 8 * size - 1) - 1)).view(f"i{size}")
    return np.where(codes >> codes.dtype.type(8 * size - 1), -magnitude, magnitude)


def distance(found: Array, want: Array) -> Array:
    """How many codes lie between two arrays of codes, unsigned; wrong where either is a NaN."""
    size = found.dtype.itemsize
    if not ((found ^ want) >> found.dtype.type(8 * size - 1)).any():  # magnitudes alone differ
        return np.abs((found - want).view(f"i{size}")).view(found.dtype)
    a, b = ordered(found), ordered(want)
    return np.subtract(np.maximum(a, b), np.minimum(a, b)).view(found.dtype)


def errors(kind: str, found: Array, real: Array, fmt: str) -> Array:
    """The error of results, as codes of a format, against real values in f64, in the units of a kind of bound.

    Below the normal numbers the relative error is that to the smallest of them: it cannot be kept there.
    """
    row = FORMATS[fmt]
    if kind == "ulp":
        return distance(found, round_to(real, fmt).view(row.carrier)).astype(np.float64)
    error = np.abs(decode(found.view(row.storage), fmt).astype(np.float64) - real)
    return error if kind == "absolute" else error / np.maximum(np.abs(real), 2.0 ** (1 - row.bias))
