"""Approximate instructions against the real values of what they compute, as far as their rows bound the error."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tilewright.interpreter.numerics import FORMATS, decode, round_to
from tilewright.interpreter.ptx.bounds import Bound
from tilewright.interpreter.ptx.types import TYPES, Array

from .cases import Case, results
from .measures import F64, REAL, Measured

NOTHING = Bound("relative", float("inf"))
"""Of operands that no bound of a row speaks of."""


def is_tabled(case: Case) -> bool:
    """Whether the emulator takes its values from a table that needs numbers of more precision than f64."""
    return bool(re.match(r"(ex2|tanh|sin|cos|lg2)\.", case.name))


def flushed(codes: Array, fmt: str) -> Array:
    """Subnormal codes as zeros of their sign."""
    row, type_ = FORMATS[fmt], codes.dtype.type
    small = (codes & type_(row.sign_bit - 1)) < type_(1 << row.mantissa_bits)
    return np.where(small, codes & type_(row.sign_bit), codes)


def _numbers(case: Case, operands: Sequence[Array]) -> tuple[list[F64], str]:
    """The operands in f64, lane by lane, flushed where the instruction does so; and their format."""
    type_ = TYPES[case.inputs[0]]
    fmt, found = type_.format, list[F64]()
    for x in operands:
        codes = np.ascontiguousarray(x).view(FORMATS[fmt].carrier)
        codes = flushed(codes, fmt) if ".ftz" in case.name and fmt != "f16" else codes
        found.append(decode(codes.view(FORMATS[fmt].storage), fmt).astype(np.float64))
    return found, fmt


@np.errstate(all="ignore")
def measured(case: Case, operands: Sequence[Array], octets: Array, emulated: Array | None) -> Measured:
    """Measure what a kernel wrote. Special results are compared with `emulated`, if given."""
    result, outcome = results(case, len(operands[0]))[0], Measured()
    numbers, fmt = _numbers(case, operands)
    carrier = FORMATS[fmt].carrier
    real = np.asarray(REAL[case.name.partition(".")[0]](*numbers))
    found = result.of(octets).view(carrier)
    if emulated is None:
        want = round_to(real, fmt).view(carrier)
        want = flushed(want, fmt) if ".ftz" in case.name and fmt != "f16" else want
    else:
        want = result.of(emulated).view(carrier)
    columns = [np.ascontiguousarray(x).view(carrier) for x in operands]
    left = np.ones(len(found), np.bool_)
    for number, bound in (*enumerate(case.bounds), (-1, NOTHING)):
        here = left & bound.holds(numbers[bound.operand]) if number >= 0 else left
        left &= ~here
        if here.any():
            outcome.add(number, bound, [x[here] for x in columns], found[here], want[here], real[here], fmt)
    outcome.worst.done()
    return outcome
