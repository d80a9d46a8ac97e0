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

from functools import cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .blocks import BLOCK, Array, Kernel, by_blocks
from .exact import sum_to_odd
from .formats import FORMATS, FloatFormat

Mode = Literal["rtne", "rtz"]

_F32 = FORMATS["f32"]
_MAGNITUDE = np.uint32(0x7FFF_FFFF)
_F32_INF = np.uint32(0x7F80_0000)
_LOW_HALF = np.uint32(0xFFFF)
_MAGNITUDE_16 = np.uint16(0x7FFF)
_F16_INF = np.uint16(0x7C00)
_BF16_INF = np.uint16(0x7F80)
_NOT_COPIES = np.int32(-0x7000_0001)
_F16_SCALE = np.float32(2.0**112)
_F16_MIN_NORMAL = np.float32(2.0**-14).view(np.uint32)
_F16_BEYOND = np.float32(2.0**16).view(np.uint32)
_F16_POWER = np.uint32((13 << 23) + (2 << 10))
_NAN: dict[str, int] = {name: row.nan_code for name, row in FORMATS.items() if row.nan_code is not None}


def _set_nan(x: Array, fmt: str) -> None:
    nan = np.isnan(x)
    if nan.any():
        x.view(FORMATS[fmt].carrier)[nan] = _NAN[fmt]


def with_canonical_nan(x: Array, fmt: str) -> Array:
    """Overwrite every NaN of `x` (storage of an IEEE-style format, f16, f32 or f64) by the canonical one, in place."""
    if x.size <= BLOCK or not x.flags.c_contiguous:
        _set_nan(x, fmt)
        return x
    flat = x.reshape(-1)
    for start in range(0, x.size, BLOCK):
        _set_nan(flat[start : start + BLOCK], fmt)
    return x


@cache
def _decode_table(fmt: str) -> NDArray[np.float32]:
    """The f32 value of each of the 256 codes of an 8-bit format."""
    row = FORMATS[fmt]
    values = np.array([row.value(code) for code in range(256)], dtype=np.float32)
    return with_canonical_nan(values, "f32")


def _widen_f16(out: NDArray[np.float32], x: Array) -> None:
    """Widen f16: below the sign of f32 its magnitude reads 2**112 times too small, and is scaled (exactly)."""
    wide = out.view(np.int32)
    wide[...] = x.view(np.int16)
    wide <<= 13  # leaves four copies of the sign at the top
    wide &= _NOT_COPIES
    out *= _F16_SCALE
    size = x.view(np.uint16) & _MAGNITUDE_16
    if size.max(initial=0) >= _F16_INF:
        out[size == _F16_INF] *= np.float32(np.inf)
        wide[size > _F16_INF] = _NAN["f32"]


def _widen_bf16(out: NDArray[np.float32], x: Array) -> None:
    """Widen bf16: it is the high half of f32."""
    wide = out.view(np.uint32)
    wide[...] = x.view(np.uint16)
    wide <<= 16
    size = x.view(np.uint16) & _MAGNITUDE_16
    if size.max(initial=0) > _BF16_INF:
        wide[size > _BF16_INF] = _NAN["f32"]


def _widen_fp8(fmt: str, out: NDArray[np.float32], x: Array) -> None:
    np.take(_decode_table(fmt), x.view(np.uint8), out=out, mode="clip")  # no code is out of range: "raise" would copy


_WIDEN: dict[str, Kernel] = {"f16": _widen_f16, "bf16": _widen_bf16}
_WIDEN |= {name: partial(_widen_fp8, name) for name, row in FORMATS.items() if row.bits == 8}


@np.errstate(all="ignore")
def decode(x: Array, fmt: str) -> Array:
    """Widen exactly: storage of any format of at most 16 bits to float32; f32 and f64 come back as they are.

    NaN codes of the narrow formats become the canonical f32 NaN.
    """
    x = np.asarray(x)
    return x if FORMATS[fmt].bits > 16 else by_blocks(_WIDEN[fmt], (x,), np.float32)


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


def _to_fp8(row: FloatFormat, mode: Mode, saturate: bool, out: Array, x: NDArray[np.float32]) -> None:
    """Round f32 to an 8-bit format: to odd at the 8 bits of bf16, at least two more than any fp8 has, then a table."""
    bits = x.view(np.uint32)
    odd = bits & _LOW_HALF
    odd += _LOW_HALF  # carries into bit 16 unless all of them are zero
    odd |= bits
    odd >>= 16
    np.take(_fp8_table(row.name, mode, saturate), odd, out=out.view(np.uint8), mode="clip")


def _to_bf16(out: Array, x: NDArray[np.float32]) -> None:
    """Round f32 to bf16, to nearest even: half a unit, less one bit where the last kept bit is 0, then truncate."""
    bits = x.view(np.uint32)
    code = bits >> 16
    code &= 1
    code += np.uint32(0x7FFF)
    code += bits
    code >>= 16
    narrow = out.view(np.uint16)
    narrow[...] = code
    nan = np.isnan(x)
    if nan.any():
        narrow[nan] = _NAN["bf16"]


def _to_f16(out: Array, x: NDArray[np.float32]) -> None:
    """Round f32 to f16, to nearest even, by one addition of f32.

    With e the exponent of |x|, at least that of the smallest normal f16, a unit of 2**(e + 13) is 2**(e - 10): so the
    sum of |x| and that power of two is |x| rounded to f16, counted in units in the low bits of the sum, subnormal or
    not. Adding e at the place of the exponent (the power of two carries it) makes that the code. Only the 16 low bits
    of all this matter. What the bias of e exceeds the one wanted by is 126 = 62 modulo 64, which makes 2 up the rest:
    these 2 << 10 units go into the power of two beforehand; they are even and move no rounding.
    """
    bits = x.view(np.uint32)
    size = bits & _MAGNITUDE
    largest = size.max(initial=0)
    nan = size > _F32_INF if largest > _F32_INF else None
    if largest > _F16_BEYOND:
        np.minimum(size, _F16_BEYOND, out=size)
    power = np.maximum(size, _F16_MIN_NORMAL)
    power &= _F32_INF
    power += _F16_POWER
    total = size.view(np.float32)
    total += power.view(np.float32)
    power >>= 13
    size += power
    np.right_shift(bits, 16, out=power)
    power &= np.uint32(0x8000)
    size += power
    narrow = out.view(np.uint16)
    narrow[...] = size
    if nan is not None:
        narrow[nan] = _NAN["f16"]


def _to_narrow(row: FloatFormat, mode: Mode, saturate: bool, out: Array, x: NDArray[np.float32]) -> None:
    out.view(row.carrier)[...] = _narrow_bits(x, row, mode, saturate)


def _rounded_beyond(narrow: NDArray[np.float32], x: NDArray[np.float64]) -> tuple[Array, Array]:
    """Where f64 `x` became `narrow`: whether that is farther from zero, and whether it differs at all.

    Read as integers, floats of one sign are ordered by magnitude, whichever sign it is.
    """
    back = narrow.astype(np.float64).view(np.int64)
    return back > x.view(np.int64), back != x.view(np.int64)


def _f64_to_f32(mode: Mode, out: NDArray[np.float32], x: NDArray[np.float64]) -> None:
    """Round f64 to f32, to nearest even or toward zero."""
    out[...] = x
    if mode == "rtz":
        out.view(np.uint32)[...] -= _rounded_beyond(out, x)[0]
    _set_nan(out, "f32")


def _f64_to_odd_f32(x: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round f64 to odd in f32, from where any format of at most 16 bits is one more rounding away.

    Values beyond the range of f32 become its largest finite value, which is odd. Infinity stays, and NaN a NaN.
    """
    y = x.astype(np.float32)
    beyond, inexact = _rounded_beyond(y, x)
    bits = y.view(np.uint32)
    bits -= beyond
    bits |= inexact
    return y


def _saturated(x: Array, row: FloatFormat) -> Array:
    """Clamp a wide array to the finite range of `row`; NaN stays."""
    return np.clip(x, x.dtype.type(-row.max_finite), x.dtype.type(row.max_finite))


@np.errstate(all="ignore")
def round_to(x: Array, fmt: str, mode: Mode = "rtne", saturate: bool | None = None) -> Array:
    """Round a float32 or float64 array once to the format `fmt`; returns storage of that format, of the same shape.

    `saturate` None takes the rule of the format (see the module's docstring). With False an 8-bit overflow becomes
    infinity where the format has it and NaN where it does not (f8e4m3b15 has neither and saturates all the same); with
    True every format clamps to its finite range.
    """
    x = np.asarray(x)
    row = FORMATS[fmt]
    clamp = row.saturates if saturate is None else saturate or not (row.has_inf or row.has_nan)
    if clamp and not row.saturates:
        x = np.asarray(_saturated(x, row))
    if fmt == "f64":
        return with_canonical_nan(np.array(x, dtype=np.float64), "f64")
    if fmt == "f32":
        if x.dtype == np.float32:
            return with_canonical_nan(np.array(x), "f32")
        return by_blocks(partial(_f64_to_f32, mode), (x,), np.float32)
    return by_blocks(narrowing(row, x.dtype, mode, clamp), (x,), row.storage)


def narrowing(row: FloatFormat, source: np.dtype[Any], mode: Mode, saturate: bool) -> Kernel:
    """The kernel, for `by_blocks`, that rounds float32 or float64 to a format of at most 16 bits."""
    if row.bits == 8:
        kernel = partial(_to_fp8, row, mode, saturate)
    elif mode == "rtne":
        kernel = _to_bf16 if row.name == "bf16" else _to_f16
    else:
        kernel = partial(_to_narrow, row, mode, saturate)
    return kernel if source == np.float32 else lambda out, x: kernel(out, _f64_to_odd_f32(x))


@np.errstate(all="ignore")
def cast(x: Array, src_fmt: str, dst_fmt: str, mode: Mode = "rtne", saturate: bool | None = None) -> Array:
    """Convert storage of one float format to another, rounding once where the target is narrower.

    A cast to the same format is the identity, NaN payload included.
    """
    x = np.asarray(x)
    if src_fmt == dst_fmt:
        return x
    result = round_to(decode(x, src_fmt), dst_fmt, mode, saturate)
    if FORMATS[dst_fmt].nan_code is None and FORMATS[src_fmt].bits <= 16:
        _sign_nan(result, x, FORMATS[src_fmt], FORMATS[dst_fmt])
    return result


def _sign_nan(result: Array, x: Array, source: FloatFormat, target: FloatFormat) -> None:
    """Give what NaN became in a format without NaN the sign that `decode` took from the NaN."""
    if not source.has_nan:
        return
    negative = np.isnan(x) & (x.view(source.carrier) >= source.carrier.type(source.sign_bit))
    if negative.any():
        np.asarray(result.view(target.carrier))[negative] |= target.carrier.type(target.sign_bit)


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
