"""The rules of all float operations on enclosures by name, and of casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numerics
from ..numerics import FORMATS
from .arithmetic import abs_, add, extremum, fma, mul, neg, remainder, settled, stored, sub, wide
from .arrays import ANY, NEVER, Span
from .functions import division, function


def cast(source: str, target: str, mode: Any) -> Callable[[Span], Span]:
    """The rule of a cast between formats."""

    def rule(a: Span) -> Span:
        value = numerics.cast(a.value, source, target, mode)
        low, high = (wide(numerics.cast(stored(key, source), source, target, mode), target) for key in (a.low, a.high))
        point, nan = a.point, a.nan != NEVER
        if FORMATS[target].has_nan:
            low, high = (np.where(a.empty, np.nan, end) for end in (low, high))
        else:  # a NaN becomes the largest number of its sign
            most = FORMATS[target].max_finite
            point = point & ((a.nan != ANY) | ~a.empty)
            low, high = np.where(nan, -most, low), np.where(nan, most, high)
            nan = np.zeros_like(nan)
        return settled(value, low, high, nan, point, target)

    return rule


ARITHMETIC: dict[str, Callable[..., Span]] = {
    "add_f": add,
    "sub_f": sub,
    "mul_f": mul,
    "fma": fma,
    "div_f": division("div_f"),
    "div_rn": division("div_rn"),
    "rem_f": remainder,
    "neg_f": neg,
    "abs_f": abs_,
    **{name: extremum(name) for name in ("minnum", "maxnum", "minimum", "maximum")},
    **{name: function(name) for name in ("exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "sin", "cos")},
    **{name: function(name) for name in ("tanh", "erf", "floor", "ceil")},
}
