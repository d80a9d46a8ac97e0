"""What a contract allows: may a compiled result be these codes, given the operands of the op?

Contracts speak about the real result. It is enclosed by rationals, widened by what the contract grants, and both ends
are rounded to the result's format; since rounding is monotone, the codes between them are exactly those allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import repeat
from typing import Any, TypeAlias

from tilewright.lang import (
    F32,
    FLOATS,
    SPLIT_CEILING,
    SPLIT_FLOOR,
    AbsRel,
    Contract,
    Exact,
    FloatType,
    Mma,
    Operation,
    Sum,
    Ulp,
    element_of,
)

from ..storage import Codes
from .formats import Irrational, Real, as_real, decode, is_nan, least_exponent, max_code, ordinal, round_result, ulp_of
from .reals import REAL_RULES, real_product
from .tiles import dot_terms, float_formats, lines, real_dot, real_line_sum

#: Bits to which an irrational result is enclosed before it is widened by the contract.
_BITS = 120
#: An allowed range of ordinals; None for NaN and nothing else; `ANY` where the contract promises nothing.
Range: TypeAlias = tuple[int, int] | None
ANY = (-(1 << 64), 1 << 64)
_BY_NAME = {fmt.name: fmt for fmt in FLOATS}


def unit(fmt: FloatType) -> Fraction:
    """The unit roundoff."""
    return Fraction(1, 2 ** (fmt.mantissa + 1))


def enclosure(real: Real) -> tuple[Fraction, Fraction] | float:
    """Rationals on either side of a real number, or the infinity or NaN that it is."""
    if isinstance(real, Irrational):
        return real.enclose(_BITS)
    if isinstance(real, Fraction):
        return real, real
    return (Fraction(0), Fraction(0)) if real == 0 else real


def widened(real: Real, fmt: FloatType, slack: Callable[[Fraction], Fraction]) -> Range:
    """The ordinals within `slack(result)` of the real result."""
    ends = enclosure(real)
    if not isinstance(ends, tuple):
        if math.isnan(ends):
            return None
        code = round_result(ends, fmt)
        return ordinal(code, fmt), ordinal(code, fmt)
    low, high = ends[0] - slack(ends[0]), ends[1] + slack(ends[1])
    return tuple(ordinal(round_result(end or 0.0, fmt), fmt) for end in (low, high))  # type: ignore[return-value]


def _ulp(contract: Ulp, operation: Operation, operands: Sequence[Codes]) -> Iterator[Range]:
    fmt, rule = float_formats(operation)[0], REAL_RULES[operation.name]
    for codes in zip(*operands, strict=True):
        values = [decode(code, fmt) for code in codes]
        growth = Fraction(contract.growth) * Fraction(abs(values[0])) if math.isfinite(values[0]) else 0
        units = Fraction(contract.units) + growth
        yield widened(rule(*values), fmt, lambda size, units=units: units * ulp_of(size, fmt))


def _abs_rel(contract: AbsRel, operation: Operation, operands: Sequence[Codes]) -> Iterator[Range]:
    fmt, rule = float_formats(operation)[0], REAL_RULES[operation.name]
    absolute, relative = Fraction(contract.absolute), Fraction(contract.relative)
    for codes in zip(*operands, strict=True):
        values = [decode(code, fmt) for code in codes]
        outside = any(math.isfinite(value) and abs(value) > contract.domain for value in values)
        allowed = widened(rule(*values), fmt, lambda size: absolute + relative * abs(size))
        yield ANY if outside and allowed is not None else allowed


def _sum(contract: Sum, operation: Operation, operands: Sequence[Codes]) -> Iterator[Range]:
    """g(n - 1) * sum |x|, g(k) = k * u / (1 - k * u); 8-bit formats add in f32. A `dot` adds acc and K products."""
    fmt = element_of(operation.results[0].type)
    assert isinstance(fmt, FloatType)
    adds_in = _BY_NAME.get(contract.unit, F32 if fmt.width == 8 else fmt)
    for real, terms in _dots(operation, operands) if operation.name == "dot" else _line_sums(operation, operands):
        steps = (len(terms) - 1) * unit(adds_in)
        roundings = len(terms) - 1 if operation.name == "dot" else 1
        yield _order_free(real, terms, steps / (1 - steps), fmt, roundings * half_least(fmt))


def _line_sums(operation: Operation, operands: Sequence[Codes]) -> Iterator[tuple[Real, list[Real]]]:
    """For each element of a sum its real value and its terms."""
    (fmt,) = float_formats(operation)
    for line in lines(operation, operands[0]):
        yield real_line_sum(line, fmt), [as_real(decode(code, fmt)) for code in line]


def _dots(operation: Operation, operands: Sequence[Codes]) -> Iterator[tuple[Real, list[Real]]]:
    """For each element of a `dot` its real value, and its terms: the products and acc."""
    left, right, fmt = float_formats(operation)
    for acc, pairs in dot_terms(operation, operands):
        products = [real_product(decode(a, left), decode(b, right)) for a, b in pairs]
        yield real_dot(acc, pairs, operation), [*products, as_real(decode(acc, fmt))]


def _mma(contract: Mma, operation: Operation, operands: Sequence[Codes]) -> Iterator[Range]:
    """As `Bounded.dot`: each block of products is aligned to its largest exponent and truncated to the accumulator."""
    fmt, (left, *_) = element_of(operation.results[0].type), float_formats(operation)
    assert isinstance(fmt, FloatType)
    splits = [_split(pairs, left) for _, pairs in dot_terms(operation, operands)] if contract.dropped else repeat(0)
    for (real, terms), lost in zip(_dots(operation, operands), splits, strict=False):
        blocks = -(-(len(terms) - 1) // contract.terms)
        per_block = (contract.terms + 1) * Fraction(2) ** (2 - contract.fraction) + 2 * unit(fmt)
        relative = blocks * per_block + Fraction(contract.dropped)
        rounded = (len(terms) - 1) * half_least(fmt)
        yield ANY if lost is None else _order_free(real, terms, relative, fmt, Fraction(lost) + rounded)


def _split(pairs: Sequence[tuple[int, int]], fmt: FloatType) -> Fraction | None:
    """What products lose because short parts of their factors end at `SPLIT_FLOOR`; None where nothing is promised: a
    factor that is too large to be rounded, or that may become zero beside an infinite one."""
    sizes = [abs(decode(code, fmt)) for pair in pairs for code in pair]
    finite = [size for size in sizes if math.isfinite(size)]
    vanishing = len(finite) < len(sizes) and any(0 < size < 2.0**-126 for size in finite)
    if vanishing or max(finite, default=0.0) >= SPLIT_CEILING:
        return None
    return Fraction(SPLIT_FLOOR) * sum(map(Fraction, finite))


def _order_free(real: Real, terms: Sequence[Real], relative: Fraction, fmt: FloatType, lost: Fraction) -> Range:
    """A sum in any order, within `relative` of the sum of magnitudes and `lost`; anything where a partial sum may
    overflow."""
    total = sum((abs(term) for term in terms if isinstance(term, Fraction)), Fraction(0))
    if total * (1 + relative) > Fraction(decode(max_code(fmt), fmt)):
        return ANY
    if any(isinstance(term, float) and not math.isfinite(term) for term in terms):
        return widened(real, fmt, lambda size: Fraction(0))
    return widened(real, fmt, lambda size: relative * total + lost)


def half_least(fmt: FloatType) -> Fraction:
    """Half the smallest subnormal."""
    return Fraction(2) ** (least_exponent(fmt) - fmt.mantissa - 1)


#: (contract, operation, operands) -> what is allowed of each element of the result, row-major.
_RANGES: dict[type[Contract], Callable[[Any, Operation, Sequence[Codes]], Iterator[Range]]] = {  # pyright: ignore
    Ulp: _ulp,
    AbsRel: _abs_rel,
    Sum: _sum,
    Mma: _mma,
}


def allowed(operation: Operation, operands: Sequence[Codes]) -> list[Range] | None:
    """The ordinals that the op's contract allows for each element of its first result.

    None where the contract is no range: the reference value alone is allowed (any NaN for a NaN).
    """
    contracts, fmt = operation.definition.contracts, element_of(operation.results[0].type)
    if contracts is None or not isinstance(fmt, FloatType):
        return None
    precision = str(operation.attributes.get("precision", ""))
    contract = contracts.of(fmt, next(iter(float_formats(operation)), None), precision)
    if isinstance(contract, Exact) or type(contract) not in _RANGES:
        return None
    return list(_RANGES[type(contract)](contract, operation, operands))


def within(code: int, range_: Range, fmt: FloatType) -> bool:
    """Whether a code is allowed."""
    if range_ is None or is_nan(code, fmt):
        return (range_ is None or range_ == ANY) and (is_nan(code, fmt) or range_ == ANY)
    return range_[0] <= ordinal(code, fmt) <= range_[1]


def reference_range(code: int, fmt: FloatType, units: int) -> Range:
    """The ordinals within some units of a reference value."""
    return None if is_nan(code, fmt) else (ordinal(code, fmt) - units, ordinal(code, fmt) + units)
