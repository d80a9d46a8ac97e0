"""Arrays of enclosures: beside the reference value of a float, the set of all results that the contracts allow.

An enclosure says that a correct implementation gives one of the numbers from `low` to `high`, or, where `nan` says so,
a NaN. Ends are *keys*: integers in the order of the numbers, in which -0.0 comes just before +0.0. All formats are
subsets of float64, so one set of keys serves them all. No number at all (certainly NaN) is an empty range.

A product is kept a second time as it was before rounding (`fused_low` to `fused_high`), since an addition may be
fused with it; for all else these are the same ends.

Batch values are structured arrays, which everything that only moves elements takes as it takes any other array.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import numerics
from ..numerics import FORMATS

Array = NDArray[Any]
Keys = NDArray[np.int64]
Numbers = NDArray[np.float64]

#: What an enclosure says about NaN: there is none, there may be any, or there is the one of the reference value.
NEVER, ANY, SAME = 0, 1, 2
#: The range without numbers.
EMPTY_LOW, EMPTY_HIGH = np.iinfo(np.int64).max, np.iinfo(np.int64).min
_ENDS = [("low", np.int64), ("high", np.int64), ("fused_low", np.int64), ("fused_high", np.int64), ("nan", np.uint8)]

#: A condition that may depend on which of the allowed results a float has.
OPEN = np.dtype([("value", np.bool_), ("open", np.bool_)])


@cache
def enclosed(fmt: str) -> np.dtype[Any]:
    """The dtype of enclosures of a format."""
    return np.dtype([("value", FORMATS[fmt].carrier), *_ENDS])


def keys_of(x: Numbers) -> Keys:
    """The keys of float64 numbers, not NaN."""
    bits = np.ascontiguousarray(x, np.float64).view(np.int64).reshape(np.shape(x))
    return np.where(bits < 0, bits ^ EMPTY_LOW, bits)


def numbers_of(keys: Keys) -> Numbers:
    """The numbers that keys stand for; NaN for the ends of the empty range."""
    bits = np.where(keys < 0, keys ^ EMPTY_LOW, keys)
    return np.ascontiguousarray(bits).view(np.float64).reshape(keys.shape)


MINUS_INFINITY, INFINITY = (int(keys_of(np.array(end))) for end in (-np.inf, np.inf))
MINUS_ZERO, ZERO = -1, 0


class Span(NamedTuple):
    """The fields of an array of enclosures: `value` as storage of the format, the others as in the dtype."""

    value: Array
    low: Keys
    high: Keys
    fused_low: Keys
    fused_high: Keys
    nan: Array

    @property
    def empty(self) -> Array:
        """Where there is no number, only NaN."""
        return self.low > self.high

    @property
    def point(self) -> Array:
        """Where there is one result: one number, or NaN and no number."""
        return ((self.low == self.high) & (self.nan == NEVER)) | self.empty

    @property
    def is_exact(self) -> bool:
        """Whether every element has one result, the reference value, that nothing may be fused with."""
        return bool((self.point & (self.fused_low == self.low) & (self.fused_high == self.high)).all())

    def numbers(self) -> tuple[Numbers, Numbers]:
        """Both ends as numbers; NaN where there is none."""
        return numbers_of(self.low), numbers_of(self.high)

    def has(self, low: int, high: int) -> Array:
        """Where a number with a key in this range is possible."""
        return (self.low <= high) & (self.high >= low)

    @property
    def has_zero(self) -> Array:
        return self.has(MINUS_ZERO, ZERO)

    @property
    def has_infinity(self) -> Array:
        return self.has(MINUS_INFINITY, MINUS_INFINITY) | self.has(INFINITY, INFINITY)


def unpack(array: Array, fmt: str) -> Span:
    """The fields of an array of enclosures."""
    value, *ends = (array[name] for name in array.dtype.names or ())
    return Span(np.ascontiguousarray(value).view(FORMATS[fmt].storage).reshape(array.shape), *ends)


def pack(span: Span, fmt: str) -> Array:
    """The array with these fields."""
    shape = np.broadcast_shapes(*(np.shape(field) for field in span))
    out = np.empty(shape, enclosed(fmt))
    out["value"] = np.ascontiguousarray(span.value).view(FORMATS[fmt].carrier).reshape(span.value.shape)
    for name, field in zip(out.dtype.names[1:], span[1:], strict=True):  # type: ignore[index]
        out[name] = field
    return out


def points(x: Array, fmt: str, nan: int) -> Span:
    """Enclosures that hold the given storage and nothing else; `nan` says what is known where that is a NaN."""
    wide = numerics.decode(x, fmt).astype(np.float64)
    missing = np.isnan(wide)
    keys = keys_of(np.where(missing, 0.0, wide))
    low, high = np.where(missing, EMPTY_LOW, keys), np.where(missing, EMPTY_HIGH, keys)
    return Span(x, low, high, low, high, np.where(missing, nan, NEVER).astype(np.uint8))


def exact(x: Array, fmt: str) -> Array:
    """Storage as enclosures of bits that are what they are, those of a NaN too."""
    return pack(points(x, fmt, SAME), fmt)


def hull(a: Array, b: Array) -> Array:
    """What either may be, with the reference values of the first."""
    out = a.copy()
    for low in ("low", "fused_low"):
        out[low] = np.minimum(a[low], b[low])
    for high in ("high", "fused_high"):
        out[high] = np.maximum(a[high], b[high])
    same = (a["nan"] == SAME) & (b["nan"] == SAME) & (a["value"] == b["value"])
    out["nan"] = np.where(same, SAME, np.where((a["nan"] | b["nan"]) == NEVER, NEVER, ANY))
    return out
