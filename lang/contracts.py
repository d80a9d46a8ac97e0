"""Accuracy contracts: how far a compiled result may be from the reference value.

The reference value of a float op is the real-number result rounded once to the result type. A contract bounds
the distance of an *allowed* result from it. Bounds come from the PTX ISA 9.1 and the CUDA 13.1 programming guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from .types import FloatType


class _Bare:
    """A contract without parameters, equal by its type. No dataclass: making one takes a millisecond of the import."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Exact(_Bare):
    """The reference value and no other (any NaN stands for any NaN)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Ulp:
    """Within `units + growth * |x|` units in the last place of the real result, x the first operand."""

    units: float
    growth: float = 0.0


@dataclass(frozen=True, slots=True)
class AbsRel:
    """Within `absolute + relative * |result|` of the real result, for operands of magnitude up to `domain`."""

    absolute: float
    relative: float
    domain: float = inf


@dataclass(frozen=True, slots=True)
class Sum:
    """Any order of n terms, each addition rounded to nearest in the accumulator's format (or `unit`, if named):
    within `(n - 1) * u / (1 - (n - 1) * u) * sum(|x|)` of the real sum (Higham, Accuracy and Stability, 4.2)."""

    unit: str = ""


@dataclass(frozen=True, slots=True)
class Mma:
    """A matrix multiply-accumulate: products exact, aligned to the largest exponent with `fraction` bits kept,
    `terms` products a fused block, blocks truncated to the accumulator.

    `dropped` is the share of each |a * b| that is left out where operands are split into short parts. Such operands
    besides lose up to `SPLIT_FLOOR` each, and nothing is promised if one of them is `SPLIT_CEILING` or more.
    """

    fraction: int = 24
    terms: int = 16
    dropped: float = 0.0


#: The smallest positive bf16, and where rounding to a short part may overflow: see `Mma`.
SPLIT_FLOOR, SPLIT_CEILING = 2.0**-133, 2.0**127


class Tree(_Bare):
    """Any order-preserving bracketing of a user's combining function; the reference is the left fold."""

    __slots__ = ()


class Unordered(_Bare):
    """Any order of the concurrent operations on one address."""

    __slots__ = ()


Contract: TypeAlias = Exact | Ulp | AbsRel | Sum | Mma | Tree | Unordered


@dataclass(frozen=True, slots=True)
class Contracts:
    """The contract of one op: `default`, with exceptions by the name of the result's and of the operands' float type,
    and by the attribute `precision`.

    `contractable`: a multiply feeding an add may be fused with it (one rounding instead of two).
    `ftz`: subnormal operands and results may be flushed to zero.
    """

    default: Contract
    by_type: Mapping[str, Contract] = field(default_factory=dict[str, Contract])
    by_operand: Mapping[str, Contract] = field(default_factory=dict[str, Contract])
    by_precision: Mapping[str, Contract] = field(default_factory=dict[str, Contract])
    contractable: bool = False
    ftz: bool = False

    def of(self, type_: FloatType, operand: FloatType | None = None, precision: str = "") -> Contract:
        """The contract for results of this type, from operands of that type and in that precision where it matters."""
        if precision in self.by_precision:
            return self.by_precision[precision]
        if operand is not None and operand.name in self.by_operand:
            return self.by_operand[operand.name]
        return self.by_type.get(type_.name, self.default)


EXACT = Contracts(Exact())
