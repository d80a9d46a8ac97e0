"""How far approximate results are from the real values: maxima, a histogram, the worst operands, what is special."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.numerics import FORMATS, decode
from tilewright.interpreter.ptx.bounds import Bound, distance
from tilewright.interpreter.ptx.types import Array

F64 = NDArray[np.float64]

WORST = 1000
"""How many of the worst operands are kept."""
NANS = 8
"""How many kinds of NaNs are told apart."""
STEPS = (1, 2, 3, 4, 6, 8, *(1 << n for n in range(4, 31)))
"""Where the bins of the histogram begin, in codes from the correctly rounded result; before them come equal results."""


def _reciprocal(x: F64) -> F64:
    return np.divide(1.0, x)


def _reciprocal_root(x: F64) -> F64:
    return np.divide(1.0, np.sqrt(x))


REAL: dict[str, Callable[..., Any]] = {
    "sin": np.sin, "cos": np.cos, "lg2": np.log2, "ex2": np.exp2, "tanh": np.tanh, "sqrt": np.sqrt, "div": np.divide,
    "rcp": _reciprocal, "rsqrt": _reciprocal_root,
}  # fmt: skip
"""The functions in f64, by the first part of the opcode: within 2**-49 of the real value for operands of f32."""


@dataclass(slots=True)
class Worst:
    """The worst results so far: errors, the operands as bits (one column each), and the results."""

    error: F64 = field(default_factory=lambda: np.empty(0))
    operands: Array = field(default_factory=lambda: np.empty((0, 1), np.uint64))
    found: Array = field(default_factory=lambda: np.empty(0, np.uint64))
    least: float = 0.0

    def add(self, error: F64, operands: Sequence[Array], found: Array) -> None:
        """Keep what is worse than the best of the worst. (Pruned only now and then; `done` does it once more.)"""
        at = np.flatnonzero(error > self.least)
        if not len(at):
            return
        columns = np.stack([x[at].astype(np.uint64) for x in operands], axis=1)
        before = self.operands if len(self.operands) else np.empty((0, columns.shape[1]), np.uint64)
        self.error = np.concatenate([self.error, error[at]])
        self.operands = np.concatenate([before, columns])
        self.found = np.concatenate([self.found, found[at].astype(np.uint64)])
        if len(self.error) > 8 * WORST:
            self.done()

    def done(self) -> None:
        """Keep the worst alone, the worst first and then by operands."""
        order = np.lexsort((*self.operands.T[::-1], -self.error))[:WORST]
        self.error, self.operands, self.found = self.error[order], self.operands[order], self.found[order]
        self.least = float(self.error[-1]) if len(order) == WORST else 0.0

    def merge(self, other: Worst) -> None:
        """Take in those of another part."""
        if len(other.error):
            self.add(other.error, list(other.operands.T), other.found)


@dataclass(slots=True)
class Peak:
    """The largest error in some unit, where (operands, result), and of how many results."""

    error: float = 0.0
    operands: tuple[int, ...] = ()
    found: int = 0
    compared: int = 0

    def merge(self, other: Peak) -> None:
        """Take in that of another part."""
        compared = self.compared + other.compared
        if other.error > self.error:
            self.error, self.operands, self.found = other.error, other.operands, other.found
        self.compared = compared


@dataclass(slots=True)
class Measured:
    """What was found out about one instruction: a peak for each bound (by its place) and -1 for where there is none.

    `furthest` is the peak in units in the last place of the real value, wherever there is a bound. `beyond` counts
    results that are at least so many codes (`STEPS`) away. `special` counts those that are infinite or NaN on one side
    and not the same on the other (without a bound: that should be), or zeros that are not zeros or not of that sign; a
    zero for a number that is nearly one has an error like any other. `nans` are the NaNs that came out.
    """

    peaks: dict[int, Peak] = field(default_factory=dict[int, Peak])
    furthest: Peak = field(default_factory=Peak)
    beyond: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(STEPS), np.int64))
    worst: Worst = field(default_factory=Worst)
    special: int = 0
    example: str = ""
    nans: set[int] = field(default_factory=set[int])

    def merge(self, other: Measured) -> None:
        """Take in what another part found out."""
        for number, peak in other.peaks.items():
            self.peaks.setdefault(number, Peak()).merge(peak)
        self.furthest.merge(other.furthest)
        self.beyond += other.beyond
        self.worst.merge(other.worst)
        self.special += other.special
        self.example = self.example or other.example
        self.nans = set(sorted(self.nans | other.nans)[:NANS])

    @property
    def compared(self) -> int:
        """How many results there are that are neither special nor without a bound."""
        return sum(peak.compared for number, peak in self.peaks.items() if number >= 0)

    def histogram(self) -> dict[str, int]:
        """How many results are so many codes from the correctly rounded one, by where each bin begins."""
        counts = [self.compared, *self.beyond.tolist(), 0]
        bins = {str(step): counts[n] - counts[n + 1] for n, step in enumerate((0, *STEPS))}
        return {step: n for step, n in bins.items() if n}

    def add(
        self, number: int, bound: Bound, operands: Sequence[Array], found: Array, want: Array, real: F64, fmt: str
    ) -> None:
        """Measure results for which one bound holds: as codes, with the correctly rounded and the real values."""
        if np.array_equal(found, want):
            self._equal(number, found, fmt)
            return
        usual = _ordinary(found, want, real, fmt)
        if not usual.all():
            self._special(operands, found, want, ~usual if number >= 0 else ~usual & ~_usual(want, fmt), fmt)
            operands = [x[usual] for x in operands]
            found, want, real = found[usual], want[usual], real[usual]
        if len(found):
            self._errors(number, bound, operands, found, want, real, fmt)

    def _equal(self, number: int, found: Array, fmt: str) -> None:
        usual = _usual(found, fmt)
        count = int(usual.sum())
        self.peaks.setdefault(number, Peak()).compared += count
        if count < len(found):
            self._note_nans(found[~usual], fmt)

    def _note_nans(self, found: Array, fmt: str) -> None:
        if len(self.nans) < NANS and len(nans := found[_nan(found, fmt)]):
            ends = int(nans.min()), int(nans.max())
            self.nans |= set(ends) if ends[0] == ends[1] else set(np.unique(nans)[:NANS].tolist())

    def _special(self, operands: Sequence[Array], found: Array, want: Array, chosen: Array, fmt: str) -> None:
        found, want = found[chosen], want[chosen]
        self._note_nans(found, fmt)
        if not len(found):
            return
        bad = (found != want) & ~(_nan(found, fmt) & _nan(want, fmt))
        count = int(bad.sum())
        self.special += count
        if count and not self.example:
            at = int(np.argmax(bad))
            shown = " ".join(f"{int(x[chosen][at]):x}" for x in operands)
            self.example = f"{shown} -> {int(found[at]):x}, should be {int(want[at]):x}"

    def _errors(
        self, number: int, bound: Bound, operands: Sequence[Array], found: Array, want: Array, real: F64, fmt: str
    ) -> None:
        row = FORMATS[fmt]
        codes = distance(found, want)
        error = np.abs(decode(found.view(row.storage), fmt).astype(np.float64) - real)
        size = np.abs(real)
        normal = 2.0 ** (1 - row.bias)
        np.maximum(size, normal, out=size)
        units = error / _place(size, row.mantissa_bits)
        if number >= 0:
            for n, step in enumerate(STEPS):
                if not (beyond := np.count_nonzero(codes >= step)):
                    break
                self.beyond[n] += beyond
        scale = {"ulp": units, "absolute": error, "relative": error / size if bound.kind == "relative" else error}
        rank = scale[bound.kind]
        peak = _peak(rank, operands, found)
        peak.error = float(codes.max()) if bound.kind == "ulp" else peak.error
        self.peaks.setdefault(number, Peak()).merge(peak)
        if number >= 0:
            self.furthest.merge(_peak(units, operands, found))
            self.worst.add(rank if math.isinf(bound.limit) else rank / max(bound.limit, 1e-30), operands, found)


def _peak(error: F64, operands: Sequence[Array], found: Array) -> Peak:
    at = int(np.argmax(error))
    return Peak(float(error[at]), tuple(int(x[at]) for x in operands), int(found[at]), len(found))


def _place(size: F64, bits: int) -> F64:
    """The unit in the last place of numbers that are normal in a format with so many bits of mantissa."""
    return ((size.view(np.uint64) & np.uint64(0x7FF0_0000_0000_0000)).view(np.float64)) * 2.0**-bits


def _magnitude(codes: Array, fmt: str) -> Array:
    return codes & codes.dtype.type(FORMATS[fmt].sign_bit - 1)


def _nan(codes: Array, fmt: str) -> Array:
    return _magnitude(codes, fmt) > codes.dtype.type(FORMATS[fmt].inf_code or FORMATS[fmt].max_code)


def _ordinary(found: Array, want: Array, real: F64, fmt: str) -> Array:
    """Where there is an error to measure: both are finite, and not both are zero, nor is the real value."""
    infinite = found.dtype.type(FORMATS[fmt].max_code)
    ordinary = (_magnitude(found, fmt) <= infinite) & (_magnitude(want, fmt) <= infinite)
    zero = _magnitude(want, fmt) == 0
    return ordinary & (~zero | ((_magnitude(found, fmt) != 0) & (real != 0))) if zero.any() else ordinary


def _usual(codes: Array, fmt: str) -> Array:
    """Where codes are neither zeros, infinities nor NaNs."""
    return _magnitude(codes, fmt) - codes.dtype.type(1) < codes.dtype.type(FORMATS[fmt].max_code)
