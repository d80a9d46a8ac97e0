"""Float64 values that carry the error which the accuracy contracts allow.

`Bounded(v, e)` says: every result that a correct implementation may give lies within e of v. Each operation applies
the first-order-free error rules of its op (|ab| propagates as |a|eb + |b|ea + ea*eb, and so on) and adds what the op's
contract allows at the target format; a slack of 2^-50 covers the float64 arithmetic done here. A kernel written out in
these operations gives a sound enclosure of its result, so a comparison needs no tolerance set by hand.

Rules: N. Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import F32, OPS, SPLIT_FLOOR, AbsRel, Contract, Exact, FloatType, Mma, Sum, Ulp

Array = NDArray[np.float64]
SLACK = 2.0**-50


def unit(fmt: FloatType) -> float:
    """The unit roundoff: half the distance from 1 to the next number."""
    return 2.0 ** -(fmt.mantissa + 1)


def floor_of(fmt: FloatType) -> float:
    """The largest error of rounding a subnormal: half the smallest positive number."""
    bias = 2 ** (fmt.exponent - 1) - 1
    return 2.0 ** (1 - bias - fmt.mantissa - 1)


def allowed(name: str, value: Array, fmt: FloatType, operand: Array | None = None) -> Array:
    """How far the op's result may be from the real result `value`: the contract beyond the one rounding."""
    contracts = OPS[name].contracts
    contract: Contract = Exact() if contracts is None else contracts.of(fmt)
    size = np.abs(value)
    rounding = unit(fmt) * size + floor_of(fmt)
    match contract:
        case Exact():
            return rounding
        case Ulp(units, growth):
            count = units + growth * (np.abs(operand) if growth and operand is not None else 0.0)
            return count * (2 * unit(fmt) * size + 2 * floor_of(fmt)) + rounding
        case AbsRel(absolute, relative):
            return absolute + relative * size + rounding
        case _:
            raise ValueError(f"{name}: {contract} is no bound on one rounding")


def _erf(x: Array) -> Array:
    """The error function of each element; NumPy has none."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """Real values `value` (float64) known to within `error` (float64, same shape, at least 0), in format `fmt`."""

    value: Array
    error: Array
    fmt: FloatType

    @classmethod
    def exact(cls, value: Any, fmt: FloatType) -> Bounded:
        """Values that are what they are."""
        array = np.asarray(value, np.float64)
        return cls(array, np.zeros_like(array), fmt)

    def _result(self, name: str, value: Array, error: Array, operand: Array | None = None) -> Bounded:
        total = error + allowed(name, np.abs(value) + error, self.fmt, operand) + SLACK * np.abs(value)
        return Bounded(value, total, self.fmt)

    def __add__(self, other: Bounded) -> Bounded:
        return self._result("add_f", self.value + other.value, self.error + other.error)

    def __sub__(self, other: Bounded) -> Bounded:
        return self._result("sub_f", self.value - other.value, self.error + other.error)

    def __mul__(self, other: Bounded) -> Bounded:
        a, b = np.abs(self.value), np.abs(other.value)
        return self._result(
            "mul_f", self.value * other.value, a * other.error + b * self.error + self.error * other.error
        )

    def __truediv__(self, other: Bounded) -> Bounded:
        quotient = self.value / other.value
        least = np.maximum(np.abs(other.value) - other.error, np.finfo(np.float64).tiny)
        return self._result("div_f", quotient, (self.error + np.abs(quotient) * other.error) / least)

    def _monotone(self, name: str, function: Callable[[Array], Array]) -> Bounded:
        """A monotone function: the image of the interval's ends bounds the propagated error."""
        value = function(self.value)
        low, high = function(self.value - self.error), function(self.value + self.error)
        spread = np.maximum(np.abs(high - value), np.abs(value - low))
        return self._result(name, value, spread, np.abs(self.value) + self.error)

    def exp(self) -> Bounded:
        return self._monotone("exp", np.exp)

    def exp2(self) -> Bounded:
        return self._monotone("exp2", np.exp2)

    def erf(self) -> Bounded:
        return self._monotone("erf", _erf)

    def sqrt(self) -> Bounded:
        return self._monotone("sqrt", lambda x: np.sqrt(np.maximum(x, 0.0)))

    def maximum(self, other: Bounded) -> Bounded:
        """Exact, and no error grows: the maximum is 1-Lipschitz in each argument."""
        return Bounded(np.maximum(self.value, other.value), np.maximum(self.error, other.error), self.fmt)

    def max(self, axis: int) -> Bounded:
        return Bounded(self.value.max(axis), self.error.max(axis), self.fmt)

    def sum(self, axis: int) -> Bounded:
        """Any order of additions: g(n-1) * sum |x| beside the propagated errors."""
        contract = OPS["reduce_add_f"].contracts
        assert contract is not None and isinstance(contract.of(self.fmt), Sum)
        # Sums of 8-bit floats add up in f32 and are cast at the end.
        steps = (self.value.shape[axis] - 1) * unit(F32 if self.fmt.is_fp8 else self.fmt)
        spread = self.error.sum(axis)
        sizes = np.abs(self.value).sum(axis) + spread
        error = spread + (steps / (1 - steps) + SLACK) * sizes + floor_of(self.fmt)
        total = self.value.sum(axis)
        return Bounded(total, error + unit(self.fmt) * (np.abs(total) + error), self.fmt)

    def dot(self, other: Bounded, acc: Bounded, precision: str = "ieee") -> Bounded:
        """acc + self @ other in the accumulator's format, by the op's matrix-instruction contract. In the precision
        `tf32` pass operands that were cut to it.

        A block of L products is aligned to its largest exponent with F fraction bits kept, and each block's result is
        truncated to the accumulator (docs/semantics.md, dot): per block (L + 1) * 2^-F * (largest magnitude doubled)
        and one truncation of the running sum.
        """
        a, b = np.abs(self.value) + self.error, np.abs(other.value) + other.error
        propagated = a @ other.error + self.error @ b + acc.error
        sizes = a @ b + np.abs(acc.value) + acc.error
        contracts = OPS["dot"].contracts
        assert contracts is not None
        contract = contracts.of(acc.fmt, self.fmt, precision)
        k = self.value.shape[-1]
        if isinstance(contract, Mma):
            blocks = -(-k // contract.terms)
            per_block = (contract.terms + 1) * 2.0 ** (2 - contract.fraction) + 2 * unit(acc.fmt)
            relative = blocks * per_block + contract.dropped
            if contract.dropped:
                propagated = propagated + SPLIT_FLOOR * (a.sum(-1)[..., :, None] + b.sum(-2)[..., None, :])
        else:
            relative = (k + 1) * unit(acc.fmt) / (1 - (k + 1) * unit(acc.fmt))
        error = propagated + (relative + SLACK) * sizes + k * floor_of(acc.fmt)
        return Bounded(acc.value + self.value @ other.value, error, acc.fmt)

    def cast(self, fmt: FloatType) -> Bounded:
        """Rounded once to another format; widening is exact."""
        if fmt.mantissa >= self.fmt.mantissa and fmt.exponent >= self.fmt.exponent:
            return Bounded(self.value, self.error, fmt)
        return Bounded(self.value, self.error, fmt)._result("cast_f", self.value, self.error)

    def where(self, condition: NDArray[np.bool_], other: Bounded) -> Bounded:
        """A choice by a condition that no error touches."""
        return Bounded(
            np.where(condition, self.value, other.value), np.where(condition, self.error, other.error), self.fmt
        )

    def __getitem__(self, index: Any) -> Bounded:
        return Bounded(self.value[index], self.error[index], self.fmt)

    def utilisation(self, result: Any) -> float:
        """The largest |result - value| / error, 0 where both are 0: at most 1 for a correct implementation.

        A NaN or infinity counts as infinitely wrong unless the value is the same.
        """
        got = np.asarray(result, np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.abs(got - self.value) / self.error
        same = (got == self.value) | (np.isnan(got) & np.isnan(self.value))
        share = np.where(same, 0.0, np.where(np.isnan(share), np.inf, share))
        return float(share.max(initial=0.0))
