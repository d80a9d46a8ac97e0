"""Operations that contracts grant more than one rounding, and functions of one number.

The real result lies between those at the ends of the operand, widened by what the contract grants
(docs/semantics.md, accuracy contracts).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.lang import OPS, AbsRel, Contract, Exact, Ulp

from .. import numerics
from ..numerics import FORMATS
from ..numerics.functions import BOUND, estimate
from .arithmetic import all_of, any_of, combinations, may_be_nan, rounded, settled
from .arrays import EMPTY_LOW, INFINITY, MINUS_INFINITY, MINUS_ZERO, Array, Numbers, Span, numbers_of

#: Keys that a function of f64, itself rounded once, may be from a result within one unit in the last place.
_F64_STEPS = 4


def contract_of(name: str, fmt: str) -> Contract:
    """The accuracy contract of an op on a format."""
    contracts = OPS[name].contracts
    assert contracts is not None
    return contracts.by_type.get(fmt, contracts.default)


def ulps(x: Numbers, fmt: str) -> Numbers:
    """The unit in the last place of a format at some numbers."""
    row = FORMATS[fmt]
    _, exponent = np.frexp(x)
    least = 1 - row.bias
    return np.ldexp(1.0, np.maximum(np.where(x == 0, least, exponent - 1), least) - row.mantissa_bits)


def widened(
    value: Array, low: Numbers, high: Numbers, nan: Array, point: Array, special: Array, contract: Contract, fmt: str,
    operand: Numbers | None = None,
) -> Span:  # fmt: skip
    """The enclosure of a real result between `low` and `high`, under a contract.

    special: where the row states the result of a point, as at zeros and infinities. operand: the largest magnitude of
    the first operand, where the contract grows with it. What overflows float64 stays infinite.
    """
    if isinstance(contract, Exact):
        return settled(value, rounded(low, fmt), rounded(high, fmt), nan, point, fmt)
    # A point that gives NaN is outside of where the operation is defined, which the row states.
    single = point & (special | np.isnan(low))
    if fmt == "f64":
        ends = settled(value, low, high, nan, single, fmt)
        move = np.where(single | ends.empty, 0, _F64_STEPS)
        bottom = np.where(ends.low == MINUS_INFINITY, ends.low, ends.low - move)
        top = np.where(ends.high == INFINITY, ends.high, ends.high + move)
        return ends._replace(low=bottom, high=top, fused_low=bottom, fused_high=top)
    finite = [np.where(np.isfinite(end), np.abs(end), 0.0) for end in (low, high)]
    size = np.maximum(*finite) * np.where(np.isfinite(low) & np.isfinite(high), 1.0, 2.0)  # the next binade, perhaps
    slack = granted(contract, size, fmt, operand) + 2 * BOUND * size
    return settled(value, rounded(low - slack, fmt), rounded(high + slack, fmt), nan, single, fmt)


def granted(contract: Contract, size: Numbers, fmt: str, operand: Numbers | None) -> Numbers:
    """How far a result of this size may be from the real one."""
    match contract:
        case Ulp(units, growth):
            count = units + (growth * operand if growth and operand is not None else 0.0)
            return np.asarray(count * ulps(size, fmt))
        case AbsRel(absolute, relative):
            return absolute + relative * size
        case _:
            raise ValueError(f"{contract} is no bound on the result of a function")


def division(name: str) -> Callable[[Span, Span, str], Span]:
    """The rule of `div_f` or `div_rn`."""

    def rule(a: Span, b: Span, fmt: str) -> Span:
        value = numerics.div(a.value, b.value, fmt)
        point = all_of([a.point, b.point])
        low, high = combinations(np.divide, a, b)
        crossing = b.has_zero & ~b.empty & ~point
        low, high = np.where(crossing, -np.inf, low), np.where(crossing, np.inf, high)
        nan = may_be_nan(a, b) | crossing | (a.has_infinity & b.has_infinity & ~point)
        contract = contract_of(name, fmt)
        (a_low, _), (b_low, _) = a.numbers(), b.numbers()
        special = np.isinf(a_low) | np.isinf(b_low) | (b_low == 0)  # what the row states; 0 / x is like any other
        return widened(value, low, high, nan, point, special, contract, fmt)

    return rule


#: Where functions are defined, as the least key of their operands.
_FROM_ZERO = frozenset(("sqrt", "sqrt_rn", "rsqrt", "log", "log2"))
_WAVES = frozenset(("sin", "cos"))
_FALLING = frozenset(("rsqrt",))


def function(name: str) -> Callable[[Span, str], Span]:
    """The rule of a function of one number."""
    reference = getattr(numerics, name.removesuffix("_rn"))

    def rule(a: Span, fmt: str) -> Span:
        value = reference(a.value, fmt)
        least = np.where(a.low < MINUS_ZERO, MINUS_ZERO, a.low) if name in _FROM_ZERO else a.low
        nan = may_be_nan(a) | (a.low != least)
        outside = (a.high < MINUS_ZERO) & ~a.empty if name in _FROM_ZERO else np.zeros_like(a.empty)
        ends = [numbers_of(np.where(outside, EMPTY_LOW, key)) for key in (least, a.high)]
        low, high = (_real(name, end, fmt, reference) for end in ends)
        if name in _FALLING:
            low, high = np.where(a.has_zero & ~a.point, -np.inf, high), np.where(a.has_zero & ~a.point, np.inf, low)
        if name in _WAVES:
            low, high = _wave(low, high, ends[0], ends[1], a.point)
            nan = nan | a.has_infinity
        special = any_of([(e == 0) | np.isinf(e) | ((e == 1) & name.startswith("log")) for e in ends])
        single = a.point | outside
        size = np.maximum(*map(np.abs, ends))
        return widened(value, low, high, nan, single, special | outside, contract_of(name, fmt), fmt, size)

    return rule


def _real(name: str, x: Numbers, fmt: str, reference: Callable[..., Array]) -> Numbers:
    """The real value of a function: in f64 itself rounded once, else within `BOUND`."""
    if name in ("floor", "ceil"):
        return np.asarray(getattr(np, name)(x))
    if fmt == "f64":
        return reference(x, "f64")
    return np.sqrt(x) if name.startswith("sqrt") else estimate(name, x)


def _wave(at_low: Numbers, at_high: Numbers, low: Numbers, high: Numbers, point: Array) -> tuple[Numbers, Numbers]:
    """Between two points a wave of slope and height 1 at most stays close to its values there."""
    width = np.where(point, 0.0, np.nextafter(high - low, np.inf))
    width = np.where(np.isfinite(width), width, 2.0)
    bottom = np.maximum(np.fmin(at_low, at_high) - width, -1.0)
    top = np.minimum(np.fmax(at_low, at_high) + width, 1.0)
    infinite = ~point & ~(np.isfinite(low) & np.isfinite(high))
    return np.where(infinite, -1.0, bottom), np.where(infinite, 1.0, top)
