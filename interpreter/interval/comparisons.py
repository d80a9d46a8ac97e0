"""What comparisons of enclosures give: a truth value, or that either may come out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import numerics
from .arithmetic import may_be_nan
from .arrays import OPEN, Array, Numbers, Span

#: (the operands' spans) -> where the comparison may hold, and where it may fail, of ranges that are not empty.
COMPARISONS: dict[str, Callable[[Numbers, Numbers, Numbers, Numbers], tuple[Array, Array]]] = {
    "lt": lambda al, ah, bl, bh: (al < bh, ah >= bl),
    "le": lambda al, ah, bl, bh: (al <= bh, ah > bl),
    "gt": lambda al, ah, bl, bh: (ah > bl, al <= bh),
    "ge": lambda al, ah, bl, bh: (ah >= bl, al < bh),
    "eq": lambda al, ah, bl, bh: ((al <= bh) & (ah >= bl), (al < ah) | (bl < bh) | (al != bl)),
    "ne": lambda al, ah, bl, bh: ((al < ah) | (bl < bh) | (al != bl), (al <= bh) & (ah >= bl)),
}


def compare(predicate: str, a: Span, b: Span, fmt: str, itself: bool) -> Array:
    """A comparison, `OPEN` where it may come out either way. `itself`: both operands are one value."""
    value = numerics.compare(a.value, b.value, fmt, predicate)  # type: ignore[arg-type]
    none = a.empty | b.empty
    if itself and predicate in ("eq", "ne"):
        numbers = ~none
        holds, fails = (numbers, np.zeros_like(numbers)) if predicate == "eq" else (np.zeros_like(numbers), numbers)
    else:
        holds, fails = (flags & ~none for flags in COMPARISONS[predicate](*a.numbers(), *b.numbers()))
    nan = may_be_nan(a, b)
    holds, fails = (holds | nan, fails) if predicate == "ne" else (holds, fails | nan)
    out = np.empty(np.broadcast_shapes(holds.shape, fails.shape, value.shape), OPEN)
    out["value"], out["open"] = value, holds & fails
    return out
