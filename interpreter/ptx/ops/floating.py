"""Floating-point arithmetic, and the operations that pick or move floats.

An operation without a stated rounding may be fused by the assembler; here it rounds to nearest even. NaN results are
canonical, as in `numerics`, except in f64 (`nans`) and where bits only move (`copysign`).
"""

from __future__ import annotations

import math

import numpy as np

from ... import numerics
from ..bounds import Bound
from ..nans import canonical, propagating
from ..rounding import arithmetic, finished, flushing
from ..table import ROUND, Kernel, Modifiers, pure
from ..types import TYPES, Array

_HALVES = "f16|f16x2"
_BFLOATS = "bf16|bf16x2"


_NAN_ORDER = {"add": (1, 0), "mul": (1, 0), "fma": (1, 2, 0), "div": (0, 1), "sqrt": (0,)}
"""Of which operand an f64 result has its NaN, if there are several; by measurement."""


def _format(m: Modifiers) -> str:
    return TYPES[m["type"]].format


def _rounded(name: str, m: Modifiers) -> Kernel:
    """The operation with its rounding, flushing and clamps."""
    fmt, mode = _format(m), m.get("rnd", "")
    if fmt == "f64":
        return propagating(arithmetic(name, fmt, mode), _NAN_ORDER[name])
    kernel = (flushing if m.get("ftz", "") else arithmetic)(name, fmt, mode)
    return finished(kernel, sat=m.get("sat", ""), relu=m.get("relu", ""))


@pure(f"add{ROUND}[.ftz][.sat].<type:f32>", "type <- type type", "float")
@pure(f"add{ROUND}[.ftz].<type:f32x2>", "type <- type type", "float")
@pure(f"add{ROUND}.<type:f64>", "type <- type type", "float")
@pure(f"add[.rn][.ftz][.sat].<type:{_HALVES}>", "type <- type type", "float")
@pure(f"add[.rn].<type:{_BFLOATS}>", "type <- type type", "float")
def add(m: Modifiers) -> Kernel:
    return _rounded("add", m)


@pure(f"sub{ROUND}[.ftz][.sat].<type:f32>", "type <- type type", "float")
@pure(f"sub{ROUND}[.ftz].<type:f32x2>", "type <- type type", "float")
@pure(f"sub{ROUND}.<type:f64>", "type <- type type", "float")
@pure(f"sub[.rn][.ftz][.sat].<type:{_HALVES}>", "type <- type type", "float")
@pure(f"sub[.rn].<type:{_BFLOATS}>", "type <- type type", "float")
def sub(m: Modifiers) -> Kernel:
    if _format(m) == "f64":
        nearest = arithmetic("add", "f64", m["rnd"])
        return propagating(lambda a, b: nearest(a, -b), _NAN_ORDER["add"])  # a NaN is not negated
    total = _rounded("add", m)
    return lambda a, b: total(a, -b)


@pure(f"mul{ROUND}[.ftz][.sat].<type:f32>", "type <- type type", "float")
@pure(f"mul{ROUND}[.ftz].<type:f32x2>", "type <- type type", "float")
@pure(f"mul{ROUND}.<type:f64>", "type <- type type", "float")
@pure(f"mul[.rn][.ftz][.sat].<type:{_HALVES}>", "type <- type type", "float")
@pure(f"mul[.rn].<type:{_BFLOATS}>", "type <- type type", "float")
def mul(m: Modifiers) -> Kernel:
    return _rounded("mul", m)


@pure("fma.<rnd:rn|rz|rm|rp>[.ftz][.sat].<type:f32>", "type <- type type type", "float")
@pure("fma.<rnd:rn|rz|rm|rp>[.ftz].<type:f32x2>", "type <- type type type", "float")
@pure("fma.<rnd:rn|rz|rm|rp>.<type:f64>", "type <- type type type", "float")
@pure(f"fma.rn[.ftz][.sat].<type:{_HALVES}>", "type <- type type type", "float")
@pure(f"fma.rn[.ftz].<relu:relu>.<type:{_HALVES}>", "type <- type type type", "float")
@pure(f"fma.rn.<type:{_BFLOATS}>", "type <- type type type", "float")
@pure(f"fma.rn.<relu:relu>.<type:{_BFLOATS}>", "type <- type type type", "float")
@pure("mad.<rnd:rn|rz|rm|rp>[.ftz][.sat].<type:f32>", "type <- type type type", "float")
@pure("mad.<rnd:rn|rz|rm|rp>.<type:f64>", "type <- type type type", "float")
def fma(m: Modifiers) -> Kernel:
    return _rounded("fma", m)


@pure(f"add{ROUND}[.sat].<type:f32>.<narrow:f16|bf16>", "type <- narrow type", "float")
def add_widened(m: Modifiers) -> Kernel:
    """The sum of a narrow and a full operand, rounded once to f32 (sm_100 and later)."""
    total = _rounded("add", m)
    return lambda a, b: total(numerics.decode(a, m["narrow"]), b)


@pure(f"sub{ROUND}[.sat].<type:f32>.<narrow:f16|bf16>", "type <- narrow type", "float")
def sub_widened(m: Modifiers) -> Kernel:
    total = _rounded("add", m)
    return lambda a, b: total(numerics.decode(a, m["narrow"]), -b)


@pure("fma.<rnd:rn|rz|rm|rp>[.sat].<type:f32>.<narrow:f16|bf16>", "type <- narrow narrow type", "float")
def fma_widened(m: Modifiers) -> Kernel:
    fused = _rounded("fma", m)
    return lambda a, b, c: fused(numerics.decode(a, m["narrow"]), numerics.decode(b, m["narrow"]), c)


@pure("div.<rnd:rn|rz|rm|rp>[.ftz].<type:f32>", "type <- type type", "float")
@pure("div.<rnd:rn|rz|rm|rp>.<type:f64>", "type <- type type", "float")
@pure("div.full[.ftz].<type:f32>", "type <- type type", "float", (Bound("ulp", 2, operand=1),))
def div(m: Modifiers) -> Kernel:
    return _rounded("div", m)


@pure(
    "div.approx[.ftz].<type:f32>", "type <- type type", "float",
    (Bound("ulp", 2, low=2.0**-126, high=2.0**126, operand=1),),
)  # fmt: skip
def div_approx(m: Modifiers) -> Kernel:
    """To nearest; over a divisor beyond 2**126, whose reciprocal hardware loses, 0 (NaN for an infinite dividend)."""
    nearest = arithmetic("div", "f32", "rn")

    def kernel(a: Array, b: Array) -> Array:
        huge = (np.abs(b) > 2.0**126) & np.isfinite(b)
        lost = np.where(np.isinf(a), np.float32(np.nan), np.copysign(np.float32(0), np.sign(a) * np.sign(b)))
        return numerics.round_to(np.where(huge & ~np.isnan(a), lost, nearest(a, b)), "f32")

    return finished(kernel, m["ftz"])


@pure("rcp.<rnd:rn|rz|rm|rp>[.ftz].<type:f32>", "type <- type", "float")
@pure("rcp.<rnd:rn|rz|rm|rp>.<type:f64>", "type <- type", "float")
@pure("rcp.approx[.ftz].<type:f32>", "type <- type", "float", (Bound("ulp", 1),))
def rcp(m: Modifiers) -> Kernel:
    quotient = _rounded("div", m)
    return lambda x: quotient(np.ones(1, x.dtype), x)


def _high_word(x: Array) -> Array:
    """A float64 with the low half of its bits cleared, as the approximate f64 instructions give it."""
    x = numerics.round_to(np.asarray(x), "f64")
    return (x.view(np.uint64) & np.uint64(0xFFFF_FFFF_0000_0000)).view(np.float64)


def _flushed64(x: Array) -> Array:
    return np.where(np.abs(x) < 2.0**-1022, np.copysign(0.0, x), x)


@pure("rcp.approx.ftz.f64", "f64 <- f64", "float", (Bound("relative", math.inf),))
def rcp_f64(m: Modifiers) -> Kernel:
    return lambda x: _flushed64(_high_word(1.0 / _flushed64(x)))


@pure("sqrt.<rnd:rn|rz|rm|rp>[.ftz].<type:f32>", "type <- type", "float")
@pure("sqrt.<rnd:rn|rz|rm|rp>.<type:f64>", "type <- type", "float")
@pure("sqrt.approx[.ftz].<type:f32>", "type <- type", "float", (Bound("relative", 2.0**-23),))
def sqrt(m: Modifiers) -> Kernel:
    return _rounded("sqrt", m)


def _flips(m: Modifiers) -> Kernel:
    fmt = _format(m)
    if fmt == "f64":
        return propagating(lambda x: np.where(np.isnan(x), x, numerics.neg(x, fmt)), (0,))
    return lambda x: canonical(numerics.neg(x, fmt), fmt)


def _clears(m: Modifiers) -> Kernel:
    fmt = _format(m)
    if fmt == "f64":
        return propagating(lambda x: np.where(np.isnan(x), x, numerics.abs_(x, fmt)), (0,))
    return lambda x: canonical(numerics.abs_(x, fmt), fmt)


@pure(f"neg[.ftz].<type:f32|{_HALVES}>", "type <- type", "float")
@pure(f"neg.<type:f64|{_BFLOATS}>", "type <- type", "float")
def neg(m: Modifiers) -> Kernel:
    return finished(_flips(m), m.get("ftz", ""))


@pure(f"abs[.ftz].<type:f32|{_HALVES}>", "type <- type", "float")
@pure(f"abs.<type:f64|{_BFLOATS}>", "type <- type", "float")
def abs_(m: Modifiers) -> Kernel:
    return finished(_clears(m), m.get("ftz", ""))


_EXTREMES = {
    ("min", ""): numerics.minnum,
    ("max", ""): numerics.maxnum,
    ("min", "NaN"): numerics.minimum,
    ("max", "NaN"): numerics.maximum,
}


def _extreme(which: str, m: Modifiers) -> Kernel:
    pick, fmt = _EXTREMES[which, m.get("NaN", "")], _format(m)
    if fmt == "f64":
        return propagating(lambda a, b: pick(a, b, fmt), (1, 0))
    if not m.get("xorsign", ""):
        return finished(lambda a, b: pick(a, b, fmt), m.get("ftz", ""))

    def kernel(a: Array, b: Array) -> Array:
        sign = np.signbit(a) != np.signbit(b)
        result = pick(numerics.abs_(a, fmt), numerics.abs_(b, fmt), fmt)
        return np.where(sign & ~np.isnan(result), numerics.neg(result, fmt), result)

    return finished(kernel, m.get("ftz", ""))


@pure(f"min[.ftz][.NaN][.<xorsign:xorsign.abs>].<type:f32|{_HALVES}>", "type <- type type", "float")
@pure(f"min[.NaN][.<xorsign:xorsign.abs>].<type:{_BFLOATS}>", "type <- type type", "float")
@pure("min.<type:f64>", "type <- type type", "float")
def min_(m: Modifiers) -> Kernel:
    return _extreme("min", m)


@pure(f"max[.ftz][.NaN][.<xorsign:xorsign.abs>].<type:f32|{_HALVES}>", "type <- type type", "float")
@pure(f"max[.NaN][.<xorsign:xorsign.abs>].<type:{_BFLOATS}>", "type <- type type", "float")
@pure("max.<type:f64>", "type <- type type", "float")
def max_(m: Modifiers) -> Kernel:
    return _extreme("max", m)


@pure("copysign.<type:f32|f64>", "type <- type type", "float")
def copysign(m: Modifiers) -> Kernel:
    """The first operand's sign on the second."""
    bits = np.dtype(f"u{TYPES[m['type']].bits // 8}")
    top = bits.type(1 << (8 * bits.itemsize - 1))
    return lambda a, b: (b.view(bits) & ~top) | (a.view(bits) & top)


def _is_subnormal(x: Array) -> Array:
    return (x != 0) & (np.abs(x) < np.finfo(x.dtype).smallest_normal)


_TESTS: dict[str, Kernel] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & ~_is_subnormal(x),  # a zero is normal
    "subnormal": _is_subnormal,
}


@pure(f"testp.<test:{'|'.join(_TESTS)}>.<type:f32|f64>", "pred <- type", "float")
def testp(m: Modifiers) -> Kernel:
    return _TESTS[m["test"]]
