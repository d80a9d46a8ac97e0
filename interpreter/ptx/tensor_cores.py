"""How tensor cores add: bit models of floating-point `mma` by generation.

Hardware does not round a product sum once. It takes a few products and the accumulator together, aligns all of them to
the largest exponent among them, cuts each off toward zero, adds exactly, and cuts the sum off. `Unit` holds the numbers
of one such adder; the model is that of two independent studies (MMA-Sim, arXiv 2511.10909; Khattak and Mikaitis, arXiv
2512.07004). Where they disagree (`floor`, `zeros`) a field decides. A result that is zero, or too small not to become
one, is +0 whatever the signs: so an H200 does it, which decided the fields too (`python -m tools.probes.mma`).

Computed in f64, where every step but the cuts is exact: terms are at most 2**(fraction + 2) once they are scaled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import numerics
from ..numerics import FORMATS
from .types import Array, PtxType

F64Array = NDArray[np.float64]
Exponents = NDArray[np.int16]

_NONE = -(1 << 12)
"""The exponent of a term that takes no part in finding the largest one."""
_LEAST = -252
"""The least exponent of a product that is not zero."""


@dataclass(frozen=True, slots=True)
class Unit:
    """An adder of products.

    fraction: bits kept below the leading place of the largest term, whose product of two significands in [1, 2) is not
    normalised. products: how many are added at once; further ones follow with the sum so far as accumulator.
    kept: fraction bits of an f32 result. floor: the least exponent that terms are aligned to, None for no bound.
    zeros: whether a zero, or a product with one, counts with the exponents that it is written with, else not at all.
    pairs: 8-bit operands become f16, in which subnormals of e4m3 are normal, and are multiplied in two goes, k = 0, 1
    of every four first and k = 2, 3 after them, from +0; the accumulator is added at the end, to nearest. (So the
    assembler translates it for sm_90 and sm_100: two HMMA and an FADD.)
    """

    fraction: int
    products: int
    kept: int = 23
    floor: int | None = None
    zeros: bool = False
    pairs: bool = False


_ADDERS: dict[int, tuple[int, int]] = {75: (24, 16), 80: (24, 16), 90: (25, 32)}
"""By generation: the fraction bits, and the bytes of an operand's row that are multiplied at once."""

_EIGHT_BITS: dict[int, Unit] = {
    89: Unit(13, 16, kept=13),
    90: Unit(25, 16, pairs=True),
    120: Unit(25, 32),
}

FLOORS: dict[str, int | None] = {"f32": -133, "f16": -21}
"""The least alignment exponent by the format of the result, as Khattak and Mikaitis found it on an H100."""


def unit_of(generation: int, operand: PtxType, result: str) -> Unit:
    """The adder that a generation has for operands of a type and results in "f32" or "f16"."""
    if operand.bits == 8:
        unit = _EIGHT_BITS[max(known for known in _EIGHT_BITS if known <= generation)]
    else:
        fraction, row = _ADDERS[max(known for known in _ADDERS if known <= generation)]
        unit = Unit(fraction, row * 8 // operand.bits)
    return replace(unit, floor=FLOORS[result])


def group_unit_of(operand: PtxType, result: str) -> Unit:
    """The adder of `wgmma`: as that of `mma` on sm_90, but 8-bit operands have one of their own (MMA-Sim)."""
    if operand.bits == 8:
        return Unit(13, 32, kept=13, floor=FLOORS[result])
    return unit_of(90, operand, result)


class _Operand(NamedTuple):
    """The elements of an operand by k, shaped to be multiplied: values, and exponents of significands in [1, 2)."""

    value: F64Array
    exponent: Exponents


def multiply(unit: Unit, a: Array, b: Array, c: Array, formats: tuple[str, str], result: str) -> Array:
    """`a @ b + c` as the unit computes it.

    `a` is [warps, M, K] and `b` [warps, K, N] in `formats`, `c` [warps, M, N] in `result`, "f32" or "f16", which the
    sum has as well. For tf32 pass f32 whose low 13 bits are zero. NaN is canonical; infinities follow IEEE 754.
    """
    with np.errstate(all="ignore"):
        if unit.pairs:
            a, b = (numerics.cast(x, fmt, "f16") for x, fmt in zip((a, b), formats, strict=True))
            formats = ("f16", "f16")
        # Warps come last, so that inner loops are long.
        left = _operand(a.transpose(2, 1, 0)[:, :, None], formats[0], unit)
        right = _operand(b.transpose(1, 2, 0)[:, None], formats[1], unit)
        start = np.ascontiguousarray(c.transpose(1, 2, 0))
        total = np.zeros_like(start) if unit.pairs else start
        for chosen in _goes(unit, a.shape[2]):
            part = [_Operand(x.value[chosen], x.exponent[chosen]) for x in (left, right)]
            total = _fused(unit, part[0], part[1], total, result)
        if unit.pairs:
            total = numerics.add(start, total, result)
        return np.ascontiguousarray(total.transpose(2, 0, 1))


def _goes(unit: Unit, depth: int) -> Iterator[Any]:
    """Which of the products are added at once, one go after the other."""
    if unit.pairs:
        second = np.arange(depth) & 2 != 0
        yield from (~second, second)
    else:
        yield from (slice(k, k + unit.products) for k in range(0, depth, unit.products))


def _operand(x: Array, fmt: str, unit: Unit) -> _Operand:
    row, x = FORMATS[fmt], np.ascontiguousarray(x)
    value = numerics.decode(x, fmt).astype(np.float64)
    field = x.view(row.carrier) >> row.carrier.type(row.mantissa_bits) & row.carrier.type((1 << row.exponent_bits) - 1)
    exponent = np.maximum(field.astype(np.int16), 1) - np.int16(row.bias)
    if not unit.zeros:
        exponent[value == 0] = _NONE
    return _Operand(value, exponent)


def _fused(unit: Unit, a: _Operand, b: _Operand, c: Array, result: str) -> Array:
    """One go: the products and the accumulator added at once."""
    start = _operand(c, result, unit)
    special = _special(a, b, start.value)
    largest = start.exponent
    for x, y in zip(a.exponent, b.exponent, strict=True):
        largest = np.maximum(largest, x + y)
    largest = np.maximum(largest, _LEAST if unit.floor is None else unit.floor)
    scale = (1023 + unit.fraction - largest.astype(np.int64) << 52).view(np.float64)
    total = np.trunc(start.value * scale)
    for x, y in zip(a.value, b.value, strict=True):
        term = x * y
        term *= scale
        total += np.trunc(term, out=term)
    total /= scale
    if special is not None:
        total = np.where(np.isfinite(special), total, special)
    found = numerics.round_to(total, "f16") if result == "f16" else _cut(total, unit.kept)
    found[found == 0] = 0  # never -0
    return found


def _special(a: _Operand, b: _Operand, c: F64Array) -> F64Array | None:
    """What infinities and NaNs make of the sum, where there are any."""
    if np.isfinite(a.value).all() and np.isfinite(b.value).all() and np.isfinite(c).all():
        return None
    total = c
    for x, y in zip(a.value, b.value, strict=True):
        total = total + x * y
    return total


def _cut(x: F64Array, kept: int) -> Array:
    """f64 cut off toward zero to f32 with so many fraction bits; what is too large becomes infinite."""
    bits = x.view(np.int64) & ~((1 << 52 - kept) - 1)
    normal = bits.view(np.float64)
    small = np.abs(x) < 2.0**-126
    if small.any():
        quantum = 2.0 ** (-126 - kept)
        normal = np.where(small, np.trunc(x / quantum) * quantum, normal)
    return numerics.round_to(normal, "f32")
