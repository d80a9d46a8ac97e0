"""Conversions: from one float format to another, between floats and integers, and to tf32.

Rules (they are the language's, and every target matches them):

- A conversion to a narrower float rounds the real value ONCE: to nearest with ties to even ("rtne") or toward zero
  ("rtz"). Subnormals are kept on both sides.
- Too large for f16, bf16, f32: infinity under "rtne", the largest finite value under "rtz" (infinity stays infinity).
- All 8-bit formats saturate in both modes: values too large, and infinity, become the largest finite value.
- NaN becomes the canonical NaN of the result format, as PTX `cvt` gives. f8e4m3b15 has no NaN: there NaN becomes the
  largest finite value with the sign of the NaN. The formats without negative zero turn -0.0 into 0.
- Float to integer truncates toward zero and clamps to the range of the destination; NaN becomes 0. To i1 it is
  `x != 0` (so NaN becomes true).
- Integer to float rounds once, to nearest even, from every width to every format.
"""

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .exact import sum_to_odd
from .formats import FORMATS, FloatFormat

Array = NDArray[Any]
Mode = Literal["rtne", "rtz"]

_F32 = FORMATS["f32"]
_F64 = FORMATS["f64"]
_MAGNITUDE = np.uint32(0x7FFF_FFFF)
_F32_INF = np.uint32(0x7F80_0000)
_F16_INF = np.uint16(0x7C00)
_NAN: dict[str, int] = {name: row.nan_code for name, row in FORMATS.items() if row.nan_code is not None}


def with_canonical_nan(x: Array, fmt: str) -> Array:
    """Overwrite every NaN of `x` (storage of an IEEE-style format, f16, f32 or f64) by the canonical one, in place."""
    if x.size and np.isnan(x).any():
        x.view(FORMATS[fmt].carrier)[np.isnan(x)] = _NAN[fmt]
    return x


@cache
def _decode_table(fmt: str) -> NDArray[np.float32]:
    """The f32 value of each of the 256 codes of an 8-bit format."""
    row = FORMATS[fmt]
    values = np.array([row.value(code) for code in range(256)], dtype=np.float32)
    return with_canonical_nan(values, "f32")


def _decode_f16(x: Array) -> NDArray[np.float32]:
    """Widen f16: move the magnitude below the f32 sign, where it reads 2**112 times too small, and scale (exact)."""
    bits = np.asarray(x.view(np.uint16)).astype(np.uint32)
    sign = bits & np.uint32(0x8000)
    sign <<= np.uint32(16)
    bits &= np.uint32(0x7FFF)
    bits <<= np.uint32(13)
    values = np.asarray(bits.view(np.float32))
    values *= np.float32(2.0**112)
    beyond = values >= np.float32(2.0**16)
    if beyond.any():
        code = np.asarray(x.view(np.uint16)) & np.uint16(0x7FFF)
        values[beyond] = np.float32(np.inf)
        bits[code > _F16_INF] = _NAN["f32"]
        sign[code > _F16_INF] = 0
    bits |= sign
    return values


@np.errstate(all="ignore")
def decode(x: Array, fmt: str) -> Array:
    """Widen exactly: storage of any format of at most 16 bits to float32; f32 and f64 come back as they are.

    NaN codes of the narrow formats become the canonical f32 NaN.
    """
    x = np.asarray(x)
    row = FORMATS[fmt]
    if row.bits == 8:
        return np.asarray(_decode_table(fmt).take(x.view(np.uint8)))
    if row.bits > 16:
        return x
    flat = np.atleast_1d(x)
    if fmt == "f16":
        return _decode_f16(flat).reshape(x.shape)
    wide = flat.view(np.uint16).astype(np.uint32)
    wide <<= np.uint32(16)
    return with_canonical_nan(wide.view(np.float32), "f32").reshape(x.shape)


def decode64(x: Array, fmt: str) -> NDArray[np.float64]:
    """Widen exactly to float64, from storage of any format."""
    return decode(x, fmt).astype(np.float64, copy=False)


def _narrow_bits(x: NDArray[np.float32], row: FloatFormat, mode: Mode, saturate: bool) -> NDArray[np.uint32]:
    """The codes of `row` (at most 16 bits wide) for an f32 array, by integer arithmetic on the f32 bits."""
    bits = x.view(np.uint32)
    magnitude = bits & _MAGNITUDE
    drop = np.uint32(_F32.mantissa_bits - row.mantissa_bits)
    code = magnitude - np.uint32((_F32.bias - row.bias) << _F32.mantissa_bits)
    if mode == "rtne":
        last = code >> drop
        last &= np.uint32(1)
        last += np.uint32((1 << (int(drop) - 1)) - 1)
        code += last
    code >>= drop
    if row.bias != _F32.bias:
        # Below the smallest normal number the spacing is constant: scale it to one (exact) and round to an integer.
        small = magnitude < np.float32(row.min_normal).view(np.uint32)
        if small.any():
            scaled = magnitude[small].view(np.float32) * np.float32(1 / row.min_subnormal)
            code[small] = (np.rint(scaled) if mode == "rtne" else np.trunc(scaled)).astype(np.uint32)
    if saturate:
        np.minimum(code, np.uint32(row.max_code), out=code)
    else:
        overflow = magnitude == _F32_INF if mode == "rtz" else code > np.uint32(row.max_code)
        np.minimum(code, np.uint32(row.max_code), out=code)
        if overflow.any():
            code[overflow] = row.inf_code if row.inf_code is not None else _NAN[row.name]
    sign = bits >> np.uint32(32 - row.bits)
    sign &= np.uint32(row.sign_bit)
    code |= sign
    if not row.has_negative_zero:
        code[code == np.uint32(row.sign_bit)] = 0
    nan = magnitude > _F32_INF
    if nan.any():
        code[nan] = row.nan_code if row.nan_code is not None else np.uint32(row.max_code) | sign[nan]
    return code


@cache
def _fp8_table(fmt: str, mode: Mode, saturate: bool) -> NDArray[np.uint8]:
    """The code of an 8-bit format for each of the 65,536 possible high halves of an f32 (that is, each bf16)."""
    high_halves = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return _narrow_bits(high_halves.view(np.float32), FORMATS[fmt], mode, saturate).astype(np.uint8)


def _f32_to_fp8(x: NDArray[np.float32], row: FloatFormat, mode: Mode, saturate: bool) -> Array:
    """Round f32 to an 8-bit format: to odd at the 8 bits of bf16, at least two more than any fp8 has, then a table."""
    bits = x.view(np.uint32)
    odd: NDArray[np.uint32] = bits >> np.uint32(16)
    odd |= (bits & np.uint32(0xFFFF)) != 0
    return np.asarray(_fp8_table(row.name, mode, saturate).take(odd)).view(row.storage)


def _f32_to_bf16(x: NDArray[np.float32]) -> Array:
    """Round f32 to the nearest bf16: both have the same exponent field, so one integer addition does it."""
    bits = x.view(np.uint32)
    code = bits >> np.uint32(16)
    code &= np.uint32(1)
    code += np.uint32(0x7FFF)
    code += bits
    code >>= np.uint32(16)
    narrow = code.astype(np.uint16)
    nan = np.isnan(x)
    if nan.any():
        narrow[nan] = _NAN["bf16"]
    return narrow.view(FORMATS["bf16"].storage)


def _f64_to_f32(x: NDArray[np.float64], mode: Mode) -> NDArray[np.float32]:
    """Round f64 to f32, to nearest even or toward zero."""
    y = np.array(x, dtype=np.float32)
    if mode == "rtz":
        y.view(np.uint32)[np.abs(y.astype(np.float64)) > np.abs(x)] -= np.uint32(1)
    return y


def _f64_to_odd_f32(x: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round f64 to odd in f32, from where any format of at most 16 bits is one more rounding away.

    Values beyond the range of f32 become its largest finite value, which is odd. Infinity and NaN stay.
    """
    low = np.int64((1 << 29) - 1)  # the mantissa bits that f32 lacks
    bits = x.view(np.int64)
    odd = bits & low
    odd += low  # carries into bit 29 unless all of them are zero
    odd |= bits
    odd &= ~low
    y = odd.view(np.float64).astype(np.float32)
    size = np.abs(x)
    inexact = (size < _F32.min_normal) & (size > 0)
    inexact |= (size > _F32.max_finite) & (size < np.inf)
    if inexact.any():
        y[inexact] = _odd_at_the_ends(x[inexact])
    return y


def _odd_at_the_ends(x: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round f64 to odd in f32 where f32 is subnormal or overflows: round to nearest, then step to the odd neighbour."""
    y = x.astype(np.float32)
    bits = y.view(np.uint32)
    wide, size = np.abs(y.astype(np.float64)), np.abs(x)
    even = (bits & np.uint32(1)) == 0
    bits += even & (wide < size)
    bits -= even & (wide > size)
    return y


def _saturated(x: Array, row: FloatFormat) -> Array:
    """Clamp a wide array to the finite range of `row`; NaN stays."""
    return np.clip(x, x.dtype.type(-row.max_finite), x.dtype.type(row.max_finite))


@np.errstate(all="ignore")
def round_to(x: Array, fmt: str, mode: Mode = "rtne", saturate: bool | None = None) -> Array:
    """Round a float32 or float64 array once to the format `fmt`; returns storage of that format, of the same shape.

    `saturate` None takes the rule of the format (see the module's docstring). With False an 8-bit overflow becomes
    infinity where the format has it and NaN where it does not; with True every format clamps to its finite range.
    """
    x = np.asarray(x)
    row = FORMATS[fmt]
    clamp = row.saturates if saturate is None else saturate
    if clamp and not row.saturates:
        x = np.asarray(_saturated(x, row))
    if fmt == "f64":
        return with_canonical_nan(np.array(x, dtype=np.float64), "f64")
    if fmt == "f32":
        y = np.array(x) if x.dtype == np.float32 else _f64_to_f32(x, mode)
        return with_canonical_nan(y, "f32")
    flat = np.atleast_1d(x)
    if flat.dtype == np.float64:
        flat = _f64_to_odd_f32(flat)
    if row.bits == 8:
        return _f32_to_fp8(flat, row, mode, clamp).reshape(x.shape)
    if fmt == "bf16" and mode == "rtne":
        return _f32_to_bf16(flat).reshape(x.shape)
    return _narrow_bits(flat, row, mode, clamp).astype(np.uint16).view(row.storage).reshape(x.shape)


def cast(x: Array, src_fmt: str, dst_fmt: str, mode: Mode = "rtne", saturate: bool | None = None) -> Array:
    """Convert storage of one float format to another, rounding once where the target is narrower.

    A cast to the same format is the identity, NaN payload included.
    """
    if src_fmt == dst_fmt:
        return np.asarray(x)
    return round_to(decode(x, src_fmt), dst_fmt, mode, saturate)


def _as_integers(x: Array, signed: bool) -> Array:
    """Signless integer storage read with or without sign; i1 becomes int8 or uint8."""
    x = np.asarray(x)
    if x.dtype == np.bool_:
        wide = np.asarray(x.astype(np.int8))
        return np.asarray(-wide) if signed else wide.view(np.uint8)
    return np.asarray(x.view(f"{'i' if signed else 'u'}{x.dtype.itemsize}"))


@np.errstate(all="ignore")
def int_to_float(x: Array, signed: bool, fmt: str) -> Array:
    """Round integers (signless storage of i1 to i64) once to the format `fmt`. A signed i1 holds 0 and -1."""
    values = _as_integers(x, signed)
    if values.dtype.itemsize < 8:
        return round_to(np.asarray(values.astype(np.float64)), fmt)
    if fmt == "f64":
        return np.asarray(values.astype(np.float64))
    # Each half is exact in f64 (53 bits); their sum, rounded to odd there, is one rounding away from every format.
    high = np.asarray((values >> values.dtype.type(32)).astype(np.float64) * 2.0**32)
    low = np.asarray((values & values.dtype.type(0xFFFF_FFFF)).astype(np.float64))
    return round_to(sum_to_odd(high, low), fmt)


@np.errstate(all="ignore")
def float_to_int(x: Array, src_fmt: str, width: int, signed: bool) -> Array:
    """Truncate floats to integers of `width` 1, 8, 16, 32 or 64 bits, clamped to the range; NaN is 0.

    Returns signless storage (np.bool_ for width 1, where the meaning is `x != 0`).
    """
    wide = decode(x, src_fmt)
    if width == 1:
        return np.asarray(wide != 0)
    whole = np.atleast_1d(np.trunc(wide))
    target = np.dtype(f"{'i' if signed else 'u'}{width // 8}")
    bounds = np.iinfo(target)
    low, limit = float(bounds.min), float(int(bounds.max) + 1)  # both exact in f32: zero or powers of two
    inside = (whole >= low) & (whole < limit)
    if inside.all():
        result = whole.astype(target)
    else:
        result = np.where(inside, whole, whole.dtype.type(0)).astype(target)
        result[whole >= limit] = bounds.max
        result[whole < low] = bounds.min
    return result.view(f"i{width // 8}").reshape(wide.shape)


@np.errstate(all="ignore")
def round_tf32(x: NDArray[np.float32], mode: Literal["rtne", "rna", "rtz"] = "rtz") -> NDArray[np.float32]:
    """Round float32 to tf32 (the exponent of f32, 10 mantissa bits), kept as float32 with 13 zero bits at the end.

    "rtz" truncates, as matrix instructions do with their operands; "rtne" and "rna" round to nearest, with ties to
    even and away from zero (PTX `cvt.rn.tf32`, `cvt.rna.tf32`). NaN becomes the canonical NaN truncated: 0x7fffe000.
    """
    x = np.asarray(x, dtype=np.float32)
    bits = np.array(x.view(np.uint32))
    if mode == "rtne":
        bits += ((bits >> np.uint32(13)) & np.uint32(1)) + np.uint32(0xFFF)
    elif mode == "rna":
        bits += np.uint32(0x1000)
    bits &= np.uint32(0xFFFF_E000)
    bits[np.isnan(x)] = 0x7FFF_E000
    return bits.view(np.float32)
