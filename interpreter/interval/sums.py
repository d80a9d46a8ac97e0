"""What sums and matrix products make of enclosures: all that any order of additions may give, by one closed bound.

A term lies between two ends; so does the real sum. What compiled code gives lies within the contract's share of the
sum of magnitudes around that (docs/semantics.md, accuracy contracts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.lang import (
    F32,
    F64,
    OPS,
    SPLIT_CEILING,
    SPLIT_FLOOR,
    FloatType,
    IntType,
    Mma,
    Operation,
    Sum,
    element_of,
)

from .. import numerics
from .._lazy import one_blas_thread
from ..batch import Batch
from ..bounded import unit
from ..meanings import MEANINGS, Runner
from ..numerics import FORMATS
from ..values import BatchValue, dense
from .arithmetic import rounded, settled
from .arrays import Array, Numbers, Span, pack, unpack
from .memory import references

#: Of an addition in float64, as used here.
_U = 2.0**-53


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Finite real numbers to be added up: their sums at both ends, and the sum of their magnitudes.

    count: of the terms. zero: where all of them are zero. single: where each of them is one number (or infinite, or
    NaN). broken: where some may be infinite or NaN, which are not among the sums.
    """

    low: Numbers
    high: Numbers
    size: Numbers
    count: int
    zero: Array
    single: Array
    broken: Array


def in_any_order(value: Array, terms: Terms, relative: float, lost: Any, fmt: FloatType, unsure: Any = False) -> Span:
    """The enclosure of the terms' sum, of which the reference is `value`, rounded to a format.

    relative, lost: what the contract grants, of the magnitudes and besides. unsure: where it promises nothing.
    Where all are zeros, or an infinity or NaN is certain, the row states the result.
    """
    adds_in = F32 if fmt.is_fp8 else fmt
    reach = terms.size * (1 + relative)
    anything = (reach > FORMATS[adds_in.name].max_finite) | (terms.broken & ~terms.single) | unsure
    granted = relative * terms.size + lost
    low, high = terms.low, terms.high
    # The sums here are float64's own, and off by this much; where all is known there is the real one, rounded once.
    own = 2 * (terms.count + 2) * _U * terms.size
    if fmt == F64:
        known = terms.single & np.isfinite(value)
        low, high = (np.where(known, value, end) for end in (low, high))
        own = np.where(known, 3 * _U * (np.abs(np.where(known, value, 0.0)) + granted), own)
    low, high = (rounded(end, fmt.name) for end in (low - granted - own, high + granted + own))
    low, high = (np.where(anything, np.nan, end) for end in (low, high))
    stated = terms.single & ~anything & (terms.broken | terms.zero | (terms.count == 1))
    return settled(value, low, high, np.zeros_like(anything), stated, fmt.name)


def finite_ends(span: Span) -> tuple[Numbers, Numbers, Array]:
    """Both ends of each element, 0 where it may be infinite or NaN; and where that is."""
    low, high = span.numbers()
    finite = np.isfinite(low) & np.isfinite(high) & (span.nan == 0)
    return np.where(finite, low, 0.0), np.where(finite, high, 0.0), ~finite


def share_of(contract: Sum | Mma, count: int, fmt: FloatType) -> float:
    """What a contract grants `count` terms, as a share of the sum of their magnitudes (`Bounded.sum`, `.dot`)."""
    if isinstance(contract, Sum):
        steps = (count - 1) * unit(F32 if fmt.is_fp8 else fmt)
        return steps / (1 - steps)
    per_block = (contract.terms + 1) * 2.0 ** (2 - contract.fraction) + 2 * unit(fmt)
    return -(-(count - 1) // contract.terms) * per_block + contract.dropped


def half_least(fmt: FloatType, count: int) -> Numbers:
    """So many halves of the smallest subnormal."""
    bias = 2 ** (fmt.exponent - 1) - 1
    return np.ldexp(float(count), -bias - fmt.mantissa)


def contract_of(operation: Operation) -> Sum | Mma:
    """The contract of a sum or product of floats."""
    contracts, fmt = OPS[operation.name].contracts, element_of(operation.result.type)
    operand, precision = element_of(operation.operands[0].type), str(operation.attributes.get("precision", ""))
    assert contracts is not None and isinstance(fmt, FloatType) and isinstance(operand, FloatType)
    contract = contracts.of(fmt, operand, precision)
    assert isinstance(contract, (Sum, Mma))
    return contract


def sum_along(operation: Operation) -> Runner:
    """`reduce_add_f`."""
    plain, fmt, axis = MEANINGS[operation.name](operation), element_of(operation.result.type), _axis(operation)
    assert isinstance(fmt, FloatType)
    contract = contract_of(operation)

    def run(batch: Batch, a: BatchValue) -> Array:
        span = unpack(dense(a), fmt.name)
        low, high, broken = finite_ends(span)
        size = np.maximum(np.abs(low), np.abs(high)).sum(axis)
        terms = Terms(
            low.sum(axis), high.sum(axis), size, low.shape[axis], size == 0,
            np.asarray(span.point.all(axis)), np.asarray(broken.any(axis)),
        )  # fmt: skip
        value = plain(batch, references(a, fmt.name))
        share = share_of(contract, terms.count, fmt)
        return pack(in_any_order(value, terms, share, half_least(fmt, 1), fmt), fmt.name)

    return run


def _axis(operation: Operation) -> int:
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    return axis + 1


def dot(operation: Operation) -> Runner:
    """`dot` of floats, by the contract of the matrix instructions; of integers as ever."""
    plain = MEANINGS["dot"](operation)
    formats = [element_of(operand.type) for operand in operation.operands]
    fmt = formats[2]
    if isinstance(fmt, IntType):
        return plain
    assert isinstance(fmt, FloatType)
    names = [str(each) for each in formats]
    contract = contract_of(operation)
    cuts = formats[0] == F32 and operation.attributes["precision"] == "tf32"

    def run(batch: Batch, *operands: BatchValue) -> Array:
        spans = [unpack(dense(x), name) for x, name in zip(operands, names, strict=True)]
        a, b, acc = (_Matrix.of(span, cuts and index < 2) for index, span in enumerate(spans))
        terms = products(a, b, acc)
        lost, unsure = half_least(fmt, terms.count - 1), np.zeros_like(terms.broken)
        if isinstance(contract, Mma) and contract.dropped:
            dropped, unsure = _split(a, b, terms.broken)
            lost = lost + dropped
        value = plain(batch, *(references(x, name) for x, name in zip(operands, names, strict=True)))
        return pack(in_any_order(value, terms, share_of(contract, terms.count, fmt), lost, fmt, unsure), fmt.name)

    return run


@dataclass(frozen=True, slots=True, eq=False)
class _Matrix:
    """The ends of the elements of an operand, finite ones; where they are single, and where they may be no numbers."""

    low: Numbers
    high: Numbers
    single: Array
    broken: Array

    @classmethod
    def of(cls, span: Span, cuts: bool) -> _Matrix:
        """From enclosures; `cuts`: to tf32, toward zero, as part of the operation."""
        low, high, broken = finite_ends(span)
        if cuts:
            low, high = (numerics.round_tf32(end.astype(np.float32)).astype(np.float64) for end in (low, high))
        return cls(low, high, span.point, broken)

    @property
    def size(self) -> Numbers:
        return np.maximum(np.abs(self.low), np.abs(self.high))


def products(a: _Matrix, b: _Matrix, acc: _Matrix) -> Terms:
    """The terms of `acc + a @ b`."""
    with one_blas_thread:
        if (a.low == a.high).all() and (b.low == b.high).all():
            low = high = a.low @ b.low
        else:
            ends = [x[..., :, :, None] * y[..., None, :, :] for x in (a.low, a.high) for y in (b.low, b.high)]
            low, high = (pick.reduce(ends).sum(-2) for pick in (np.minimum, np.maximum))
        size = a.size @ b.size + acc.size
        some = (a.size > 0).astype(np.float64) @ (b.size > 0) + (acc.size > 0)  # the products may be too small
    row, column = (x.single.all(axis, keepdims=True) for x, axis in ((a, -1), (b, -2)))
    bad_row, bad_column = (x.broken.any(axis, keepdims=True) for x, axis in ((a, -1), (b, -2)))
    return Terms(
        acc.low + low, acc.high + high, size, a.low.shape[-1] + 1, some == 0,
        row & column & acc.single, bad_row | bad_column | acc.broken,
    )  # fmt: skip


def _split(a: _Matrix, b: _Matrix, broken: Array) -> tuple[Numbers, Array]:
    """What short parts of the factors lose by ending at `SPLIT_FLOOR`, and where nothing is promised: a factor that is
    too large to be rounded, or that may become zero beside an infinite one."""
    sizes = [(x.size, axis) for x, axis in ((a, -1), (b, -2))]
    rows, columns = (size.sum(axis, keepdims=True) for size, axis in sizes)
    large = [(size >= SPLIT_CEILING).any(axis, keepdims=True) for size, axis in sizes]
    tiny = [((size > 0) & (size < 2.0**-126)).any(axis, keepdims=True) for size, axis in sizes]
    return SPLIT_FLOOR * (rows + columns), large[0] | large[1] | (broken & (tiny[0] | tiny[1]))
