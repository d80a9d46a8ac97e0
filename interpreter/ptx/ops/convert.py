"""Conversions. Each rounds once; what the modes, clamps and NaN do is said at the rows.

Registers may be wider than the types: sources are cut off, integer results extended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ... import numerics
from ...numerics.exact import sum_to_odd, two_sum
from ..nans import canonical, carried
from ..rounding import flushed, rectified, rounded, saturated, stepped
from ..site import Site, joined
from ..table import Kernel, Modifiers, Step, pure, step
from ..types import TYPES, Array, PtxType

_INT = "u8|u16|u32|u64|s8|s16|s32|s64"
_NO_BYTES = "u16|u32|u64|s16|s32|s64"
_FLOAT = "f16|bf16|f32|f64"
_RND = "rn|rz|rm|rp"
_WHOLE: dict[str, Callable[[Array], Array]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _unary(rule: Callable[[Modifiers, PtxType, PtxType], Kernel]) -> Callable[[Site], Step]:
    """A row of one source and one result, either of which may sit in a wider register."""

    def build(site: Site) -> Step:
        site.arity(2)
        target, source = TYPES[site.modifiers["dtype"]], TYPES[site.modifiers["atype"]]
        kernel = rule(site.modifiers, target, source)
        target_write = site.write(site.operands[0], target, wider=target.kind != "f")
        return joined(kernel, [site.read(site.operands[1], source, wider=True)], [target_write])

    return build


def _clamped(x: Array, target: PtxType) -> Array:
    """Integers clamped to the range of a type."""
    bounds, own = np.iinfo(target.dtype), np.iinfo(x.dtype)
    return np.clip(x, max(bounds.min, own.min), min(bounds.max, own.max)).astype(target.dtype)


@step(f"cvt[.sat].<dtype:{_INT}>.<atype:{_INT}>", "convert")
def int_to_int(site: Site) -> Step:
    """Cut off or extended; with .sat clamped, which the ISA allows only where a value may be out of range."""
    m = site.modifiers
    target, source = np.iinfo(TYPES[m["dtype"]].dtype), np.iinfo(TYPES[m["atype"]].dtype)
    if m["sat"] and target.min <= source.min and source.max <= target.max:
        site.fail(f"`{site.instruction.opcode}` cannot saturate: every {m['atype']} is a {m['dtype']}")
    return _unary(_integer_kernel)(site)


def _integer_kernel(m: Modifiers, target: PtxType, source: PtxType) -> Kernel:
    return (lambda x: _clamped(x, target)) if m["sat"] else (lambda x: x.astype(target.dtype))


def _int_to_float(x: Array, fmt: str, mode: str) -> Array:
    """Round integers once, in any mode: each half is exact in float64, and so is their sum with its error."""
    if x.dtype.itemsize < 8:
        return rounded(x.astype(np.float64), fmt, mode)
    high = (x >> x.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (x & x.dtype.type(0xFFFF_FFFF)).astype(np.float64)
    if fmt == "f64" and mode != "rn":
        total, error = two_sum(high, low)
        return stepped(total, np.sign(error), total, mode)
    if mode == "rn":
        return numerics.int_to_float(x.view(np.int64), x.dtype.kind == "i", fmt)
    return rounded(sum_to_odd(high, low), fmt, mode)


@step(f"cvt.<rnd:{_RND}>[.ftz][.sat].<dtype:f32>.<atype:{_INT}>", "convert")
@step(f"cvt.<rnd:{_RND}>[.sat].<dtype:f16|f64>.<atype:{_INT}>", "convert")
@step(f"cvt.<rnd:{_RND}>.<dtype:bf16>.<atype:{_NO_BYTES}>", "convert")
@_unary
def int_to_float(m: Modifiers, target: PtxType, source: PtxType) -> Kernel:
    def kernel(x: Array) -> Array:
        result = _int_to_float(x, target.format, m["rnd"])
        return saturated(result) if m.get("sat") else result

    return kernel


@step(f"cvt.<rnd:rni|rzi|rmi|rpi>[.ftz][.sat].<dtype:{_INT}>.<atype:f32>", "convert")
@step(f"cvt.<rnd:rni|rzi|rmi|rpi>[.sat].<dtype:{_INT}>.<atype:f16|f64>", "convert")
@step(f"cvt.<rnd:rni|rzi|rmi|rpi>.<dtype:{_NO_BYTES}>.<atype:bf16>", "convert")
@_unary
def float_to_int(m: Modifiers, target: PtxType, source: PtxType) -> Kernel:
    """To an integer in the stated direction, clamped to the range.

    NaN becomes 0, but the smallest signed integer of the width where f64 or 64 bits are involved.
    """
    whole, fmt = _WHOLE[m["rnd"]], source.format
    nan = target.dtype.type(0)
    if source.bits == 64 or target.bits == 64:
        nan = np.array([1 << (target.bits - 1)], np.uint64).astype(target.carrier).view(target.dtype)[0]

    def kernel(x: Array) -> Array:
        x = flushed(x) if m.get("ftz") else x
        wide = numerics.decode(x, fmt)
        wide_fmt = "f64" if wide.dtype == np.float64 else "f32"
        result = numerics.float_to_int(whole(wide), wide_fmt, target.bits, target.signed).view(target.dtype)
        return np.where(np.isnan(wide), nan, result)

    return kernel


def _float_kernel(m: Modifiers, target: PtxType, source: PtxType) -> Kernel:
    """From a float to another: flush, round to an integer where asked, round to the format, clamp, flush.

    (From f32 to f16 `.ftz` does nothing: an H200 keeps the subnormals of both.)
    """
    whole = _WHOLE.get(m.get("rnd", ""))
    mode = "rn" if whole else m.get("rnd", "")
    saturate = bool(m.get("satfinite", ""))
    carries = (source.bits == 64 or target.bits == 64) and not m.get("sat", "")
    flushes = m.get("ftz", "") and source.format == "f32" and target.format != "f16"

    def kernel(x: Array) -> Array:
        x = canonical(flushed(x), "f32") if flushes else x
        wide = numerics.decode(x, source.format).astype(np.float64)
        result = rounded(whole(wide) if whole else wide, target.format, mode, saturate)
        if m.get("relu", ""):
            result = rectified(result)
        if m.get("sat", ""):
            result = saturated(result)
        result = flushed(result) if m.get("ftz", "") and target.format == "f32" else result
        return carried(x, source.format, result, target.format) if carries else result

    return kernel


def _move(m: Modifiers, target: PtxType, source: PtxType) -> Kernel:
    return lambda x: canonical(x, "f16") if target.format == "f16" else x


def _widened_bf16(m: Modifiers, target: PtxType, source: PtxType) -> Kernel:
    """From bf16 to f32 bits move: a NaN stays as it is."""
    return lambda x: (x.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


_SIZES = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


@step(f"cvt[.<rnd:rni|rzi|rmi|rpi|{_RND}>][.ftz][.sat].<dtype:f16|f32|f64>.<atype:{_FLOAT}>", "convert")
@step("cvt.<rnd:rni|rzi|rmi|rpi>.<dtype:bf16>.<atype:bf16>", "convert")
@step(f"cvt.<rnd:{_RND}>.<dtype:bf16>.<atype:f16|f32|f64>", "convert")
@step("cvt.<rnd:rn|rz>[.relu][.satfinite].<dtype:f16|bf16>.<atype:f32>", "convert")
def float_to_float(site: Site) -> Step:
    """Rounding is required where bits are lost, and an integer rounding only where the types are the same. (From bf16
    the assembler takes a rounding everywhere.)"""
    m = site.modifiers
    rounding, narrowing = (
        m["rnd"],
        _SIZES[m["dtype"]] < _SIZES[m["atype"]] or {m["dtype"], m["atype"]} == {"f16", "bf16"},
    )
    if narrowing and not rounding:
        site.fail(f"`{site.instruction.opcode}` needs a rounding modifier")
    if not narrowing and rounding in ("rn", "rz", "rm", "rp") and m["atype"] != "bf16":
        site.fail(f"`{site.instruction.opcode}` is exact: a rounding modifier is not allowed")
    if m.get("ftz") and "f32" not in (m["dtype"], m["atype"]):
        site.fail(f"`.ftz` of `{site.instruction.opcode}` needs an f32")
    if m["dtype"] == m["atype"] and not rounding and not any(m.get(name, "") for name in ("ftz", "sat", "relu")):
        return _unary(_move)(site)
    if (m["dtype"], m["atype"]) == ("f32", "bf16") and not m["ftz"] and not m["sat"]:
        return _unary(_widened_bf16)(site)
    return _unary(_float_kernel)(site)


_TF32: dict[str, Literal["rtne", "rna", "rtz"]] = {"rn": "rtne", "rna": "rna", "rz": "rtz"}


@pure("cvt.<rnd:rna>[.satfinite].tf32.f32", "b32 <- f32", "convert")
@pure("cvt.<rnd:rn|rz>[.satfinite][.relu].tf32.f32", "b32 <- f32", "convert")
def to_tf32(m: Modifiers) -> Kernel:
    mode = _TF32[m["rnd"]]
    largest = np.array([0x7F7F_E000], np.uint32).view(np.float32)[0]

    def kernel(x: Array) -> Array:
        result = numerics.round_tf32(rectified(x) if m.get("relu", "") else x, mode)
        if mode == "rna":
            result = np.where(np.isnan(x), _nan_to_tf32(x, bool(m["satfinite"])), result)
        return np.clip(result, -largest, largest) if m["satfinite"] else result

    return kernel


def _nan_to_tf32(x: Array, saturate: bool) -> Array:
    """What an H200 makes of NaNs under .rna: the low bits are cut off, which may leave an infinity; and as from an
    infinity, .satfinite takes one unit off, whatever is left."""
    bits = x.view(np.uint32) & np.uint32(0xFFFF_E000)
    return (bits - np.uint32(0x2000) if saturate else bits).view(np.float32)


def _packed(m: Modifiers, kernel: Callable[[Array], Array]) -> Kernel:
    """Two numbers into one register: the first becomes the upper half."""
    return lambda a, b: np.stack(np.broadcast_arrays(kernel(b), kernel(a)), axis=1)


@pure("cvt.<rnd:rn|rz>[.relu][.satfinite].<dtype:f16x2|bf16x2>.f32", "dtype <- f32 f32", "convert")
def pack_halves(m: Modifiers) -> Kernel:
    return _packed(m, _float_kernel(m, TYPES[m["dtype"]], TYPES["f32"]))


def _fp8_kernel(m: Modifiers, fmt: str, source: str) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        wide = numerics.decode(x, source)
        return numerics.round_to(rectified(wide) if m["relu"] else wide, fmt)

    return kernel


_FP8 = "e4m3x2|e5m2x2"


@pure(f"cvt.rn.satfinite[.relu].<dtype:{_FP8}>.f32", "dtype <- f32 f32", "convert")
def pack_fp8(m: Modifiers) -> Kernel:
    return _packed(m, _fp8_kernel(m, TYPES[m["dtype"]].format, "f32"))


@pure(f"cvt.rn.satfinite[.relu].<dtype:{_FP8}>.<atype:f16x2>", "dtype <- atype", "convert")
def halves_to_fp8(m: Modifiers) -> Kernel:
    return _fp8_kernel(m, TYPES[m["dtype"]].format, TYPES[m["atype"]].format)


@pure(f"cvt.rn[.relu].<dtype:f16x2>.<atype:{_FP8}>", "dtype <- atype", "convert")
def fp8_to_halves(m: Modifiers) -> Kernel:
    return _float_kernel(m, TYPES[m["dtype"]], TYPES[m["atype"]])


@pure("cvt.pack.sat.<dtype:u16|s16>.s32", "b32 <- s32 s32", "convert")
def pack_integers(m: Modifiers) -> Kernel:
    target = TYPES[m["dtype"]]
    both = _packed(m, lambda x: _clamped(x, target))
    return lambda a, b: both(a, b).view(np.uint32).reshape(-1)


@pure("cvt.pack.sat.<dtype:u4|s4|u2|s2>.s32.b32", "b32 <- s32 s32 b32", "convert")
@pure("cvt.pack.sat.<dtype:u8|s8>.s32.b32", "b32 <- s32 s32 b32", "convert")
def pack_below(m: Modifiers) -> Kernel:
    """Two numbers, the second one lowest, below what a third register has."""
    width, signed = int(m["dtype"][1:]), m["dtype"][0] == "s"
    low, high = (-1 << width - 1, (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    mask, bits = np.uint32((1 << width) - 1), np.uint32(width)

    def kernel(a: Array, b: Array, c: Array) -> Array:
        a, b = (np.clip(x, low, high).view(np.uint32) & mask for x in (a, b))
        return c << 2 * bits | a << bits | b

    return kernel
