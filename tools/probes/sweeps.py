"""Sweeps over all 2**32 operands of the f32 functions: exact ones by digest, approximate ones by their errors.

A sweep has 256 blocks of 2**24 operands in a row. The reference is the function in f64, once for the plain form and the
one that flushes subnormals; the correctly rounded result is the one rounded from it, which is wrong by one code where
the real value is within 2**-49 of the middle between two (about 300 operands of a sweep).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.interpreter.ptx.bounds import Bound
from tilewright.interpreter.ptx.table import find
from tilewright.interpreter.ptx.types import Array

from .approximate import NOTHING, flushed
from .measures import F64, REAL, Measured
from .sweep_machine import SLICE, U32, SweepMachine, missing

BLOCK = 1 << 24
BLOCKS = 256
_INF, _NORMAL, _SIGN = 0x7F80_0000, 0x0080_0000, 0x8000_0000
_NAN = np.uint32(0x7FFF_FFFF)
"""What f32 arithmetic gives for a NaN."""
_ROUNDED = Bound("ulp", 0)
"""Of the exact functions."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A function in f32: the instructions that compute it, the second with `.ftz` if there are two."""

    opcodes: tuple[str, ...]
    exact: bool = False

    @property
    def function(self) -> Callable[..., Any]:
        """The function in f64."""
        return REAL[self.opcodes[0].partition(".")[0]]

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Those of its row."""
        return (_ROUNDED,) if self.exact else find(self.opcodes[0], missing)[0].bounds


_APPROXIMATE = ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos")
SWEEPS: tuple[Sweep, ...] = (
    *(Sweep((f"{op}.approx.f32", f"{op}.approx.ftz.f32")) for op in _APPROXIMATE),
    Sweep(("tanh.approx.f32",)),
    *(Sweep((f"{op}.rn.f32", f"{op}.rn.ftz.f32"), exact=True) for op in ("rcp", "sqrt")),
)  # fmt: skip
"""All of them."""


@dataclass(slots=True)
class Swept:
    """What one instruction gave: digests of the blocks that are equal bit by bit, by number, and its errors."""

    digests: dict[int, str] = field(default_factory=dict[int, str])
    measured: Measured = field(default_factory=Measured)

    def merge(self, other: Swept) -> None:
        """Take in other blocks."""
        self.digests |= other.digests
        self.measured.merge(other.measured)

    @property
    def equal(self) -> bool:
        """Whether every result is the correctly rounded one, NaNs included."""
        seen = self.measured
        return not seen.special and not seen.beyond.any() and seen.nans <= {int(_NAN)}


def digest(results: U32) -> str:
    """Of the bits of a block, little endian."""
    return hashlib.sha256(np.ascontiguousarray(results, "<u4").data).hexdigest()[:32]


# --- one block ---


def _code(x: float) -> int:
    """The last code whose number is not above a positive one."""
    rounded = np.float32(min(x, 3.4028234663852886e38))
    return int(rounded.view(np.uint32)) - (float(rounded) > x)


def parts(bounds: tuple[Bound, ...], base: int, count: int) -> Iterator[tuple[int, int, int]]:
    """A block in slices that one bound holds for, or none: the first operand and the one behind the last, both
    relative to the base, and the number of the bound (-1 for none; infinities and NaNs have the last one's)."""
    edges = {1, _NORMAL, _INF, _INF + 1}
    for bound in bounds:
        edges |= {_code(bound.high) + 1} | ({_code(np.nextafter(bound.low, 0.0)) + 1} if bound.low else set())
    cuts = sorted({0, count, *(e + sign - base for e in edges for sign in (0, _SIGN) if 0 < e + sign - base < count)})
    for start, end in zip(cuts, cuts[1:], strict=False):
        number = _bound_of(bounds, base + start & _SIGN - 1)
        for first in range(start, end, SLICE):
            yield first, min(end, first + SLICE), number


def _bound_of(bounds: tuple[Bound, ...], magnitude: int) -> int:
    if magnitude >= _INF:
        return len(bounds) - 1
    x = np.array([magnitude], np.uint32).view(np.float32).astype(np.float64)
    return next((n for n, bound in enumerate(bounds) if bound.holds(x)[0]), -1)


def _reference(sweep: Sweep, x: Array) -> tuple[F64, U32]:
    """The real values, and the correctly rounded results."""
    if sweep.exact:
        one = np.divide(np.float32(1), x) if sweep.opcodes[0].startswith("rcp") else np.sqrt(x)
        real, want = one.astype(np.float64), one.view(np.uint32)
    else:
        real = np.asarray(sweep.function(x.astype(np.float64)))
        want = real.astype(np.float32).view(np.uint32)
    if (nan := np.isnan(real)).any():
        want = np.where(nan, _NAN, want)
    return real, want


@np.errstate(all="ignore")
def swept_block(machine: SweepMachine, sweep: Sweep, base: int, count: int) -> list[Swept]:
    """Run a block of all instructions of a sweep, and look at what came back."""
    bounds, found = sweep.bounds, machine.results(sweep.opcodes, base, count)
    outcome, both = [Swept() for _ in sweep.opcodes], Measured()
    for first, end, number in parts(bounds, base, count):
        codes = np.arange(base + first, base + end, dtype=np.uint32)
        bound = bounds[number] if number >= 0 else NOTHING
        real, want = _reference(sweep, codes.view(np.float32))
        some = [results[first:end] for results in found]
        if _none_flushed(codes, want) and all(np.array_equal(some[0], other) for other in some[1:]):
            both.add(number, bound, [codes], some[0], want, real, "f32")
            continue
        for form, results in enumerate(some):
            if form == 1:
                real, want = _flushing(sweep, codes, real, want)
            outcome[form].measured.add(number, bound, [codes], results, want, real, "f32")
    for own, results in zip(outcome, found, strict=True):
        own.measured.merge(both)
        own.measured.worst.done()
        if own.equal:
            own.digests[base // BLOCK] = digest(results)
    return outcome


def _none_flushed(codes: U32, want: U32) -> bool:
    """Whether no operand and no result is subnormal (or zero), so that both forms should give the same."""
    return not 0 < int(codes[0]) & _SIGN - 1 < _NORMAL and bool((want & np.uint32(_SIGN - 1)).min() >= _NORMAL)


def _flushing(sweep: Sweep, codes: U32, real: F64, want: U32) -> tuple[F64, U32]:
    """The references of the form that flushes: of subnormal operands (all of a slice, or none), and results."""
    magnitude = int(codes[0]) & _SIGN - 1
    if 0 < magnitude < _NORMAL:
        real, want = _reference(sweep, (codes & np.uint32(_SIGN)).view(np.float32))
    if (want & np.uint32(_SIGN - 1)).min() < _NORMAL:
        want = flushed(want, "f32")
    return real, want
