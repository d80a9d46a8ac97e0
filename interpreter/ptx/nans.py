"""Which NaN an instruction gives, as an H200 was measured: PTX leaves the bits open, and the language has one NaN.

Where arithmetic is in f16, bf16 or f32 each NaN result is the canonical one of the format, which is what `numerics`
gives. In f64 it is an operand's, made quiet, or that of an invalid operation, which is negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numerics
from .types import Array

_QUIET = np.uint64(1 << 51)
_INVALID = np.uint64(0xFFF8 << 48)


def propagating(kernel: Callable[..., Any], order: tuple[int, ...], quiet: bool = True) -> Callable[..., Array]:
    """A kernel on f64 whose NaN results are that of the first operand in `order` that is NaN, or of invalid ones."""
    quieting = _QUIET if quiet else np.uint64(0)

    def run(*operands: Array) -> Array:
        result = np.atleast_1d(kernel(*operands))
        nan = np.isnan(result)
        if not nan.any():
            return result
        bits: Array = np.broadcast_to(_INVALID, result.shape)
        for number in reversed(order):
            x = operands[number]
            bits = np.where(np.isnan(x), x.view(np.uint64) | quieting, bits)
        return np.where(nan, bits, result.view(np.uint64)).view(np.float64)

    return run


def canonical(x: Array, fmt: str) -> Array:
    """Numbers in which each NaN is the canonical one of the format."""
    row = numerics.FORMATS[fmt]
    assert row.nan_code is not None
    nan = np.isnan(x)
    return np.where(nan, row.carrier.type(row.nan_code), x.view(row.carrier)).view(x.dtype) if nan.any() else x


def carried(x: Array, source: str, result: Array, target: str) -> Array:
    """The result of a conversion from or to f64: NaNs keep their sign and the high bits of the payload, made quiet."""
    nan = np.isnan(x)
    if not nan.any():
        return result
    row, to = numerics.FORMATS[source], numerics.FORMATS[target]
    code = x.view(row.carrier)[nan].astype(np.uint64)
    payload = (code & np.uint64((1 << row.mantissa_bits) - 1)) << np.uint64(64 - row.mantissa_bits)
    quiet = payload >> np.uint64(64 - to.mantissa_bits) | np.uint64(1 << to.mantissa_bits - 1)
    infinity = ((1 << to.exponent_bits) - 1) << to.mantissa_bits
    sign = (code >> np.uint64(row.bits - 1)) << np.uint64(to.bits - 1)
    bits = np.array(result).view(to.carrier)
    bits[nan] = (sign | np.uint64(infinity) | quiet).astype(to.carrier)
    return bits.view(result.dtype)
