"""Integer arithmetic: results wrap, quotients truncate toward zero.

What the ISA leaves open is as an H200 does it: x / 0 and x % 0 are all ones. (The language has x for x % 0.)
"""

from __future__ import annotations

import numpy as np

from ... import numerics
from ..table import Kernel, Modifiers, pure
from ..types import TYPES, Array

INT = "u16|u32|u64|s16|s32|s64"
_SIGNED = "s16|s32|s64"


def _wider(x: Array) -> Array:
    """The same integers at twice the width."""
    return x.astype(f"{x.dtype.kind}{2 * x.dtype.itemsize}")


def _saturated(operation: np.ufunc) -> Kernel:
    """A 32-bit operation that clamps to its range."""
    bounds = np.iinfo(np.int32)
    return lambda a, b: np.clip(operation(_wider(a), _wider(b)), bounds.min, bounds.max).astype(np.int32)


@pure("add.<sat:sat>.<type:s32>", "type <- type type")
@pure(f"add.<type:{INT}|u16x2|s16x2>", "type <- type type")
def add(m: Modifiers) -> Kernel:
    return _saturated(np.add) if m.get("sat") else np.add


@pure("sub.<sat:sat>.<type:s32>", "type <- type type")
@pure(f"sub.<type:{INT}>", "type <- type type")
def sub(m: Modifiers) -> Kernel:
    return _saturated(np.subtract) if m.get("sat") else np.subtract


def _signless(operation: Kernel) -> Kernel:
    """An operation of `numerics`, which takes signless storage, on numbers."""

    def kernel(a: Array, b: Array) -> Array:
        return operation(a.view(f"i{a.dtype.itemsize}"), b.view(f"i{b.dtype.itemsize}")).view(a.dtype)

    return kernel


def _high(type_name: str) -> Kernel:
    return _signless(numerics.mulhi_s if TYPES[type_name].signed else numerics.mulhi_u)


def _product(m: Modifiers) -> Kernel:
    """The low or high half of a product, or all of it."""
    if m["half"] == "wide":
        return lambda a, b: np.multiply(_wider(a), _wider(b))
    return np.multiply if m["half"] == "lo" else _high(m["type"])


@pure(f"mul.<half:lo|hi>.<type:{INT}>", "type <- type type")
def mul(m: Modifiers) -> Kernel:
    return _product(m)


@pure("mul.<half:wide>.<type:u16|u32|s16|s32>", "type*2 <- type type")
def mul_wide(m: Modifiers) -> Kernel:
    return _product(m)


@pure("mad.<half:hi>.<sat:sat>.<type:s32>", "type <- type type type")
@pure(f"mad.<half:lo|hi>.<type:{INT}>", "type <- type type type")
def mad(m: Modifiers) -> Kernel:
    product, total = _product(m), _saturated(np.add) if m.get("sat") else np.add
    return lambda a, b, c: total(product(a, b), c)


@pure("mad.<half:wide>.<type:u16|u32|s16|s32>", "type*2 <- type type type*2")
def mad_wide(m: Modifiers) -> Kernel:
    product = _product(m)
    return lambda a, b, c: product(a, b) + c


def _low24(x: Array) -> Array:
    """The 24 low bits as a number of 64 bits, by the sign of the type."""
    if x.dtype.kind == "u":
        return (x & np.uint32(0xFF_FFFF)).astype(np.uint64)
    return ((x << np.int32(8)) >> np.int32(8)).astype(np.int64)


def _product24(m: Modifiers) -> Kernel:
    shift = 0 if m["half"] == "lo" else 16
    return lambda a, b: ((_low24(a) * _low24(b)) >> shift).astype(a.dtype)


@pure("mul24.<half:lo|hi>.<type:u32|s32>", "type <- type type")
def mul24(m: Modifiers) -> Kernel:
    return _product24(m)


@pure("mad24.<half:hi>.<sat:sat>.<type:s32>", "type <- type type type")
@pure("mad24.<half:lo|hi>.<type:u32|s32>", "type <- type type type")
def mad24(m: Modifiers) -> Kernel:
    product, total = _product24(m), _saturated(np.add) if m.get("sat") else np.add
    return lambda a, b, c: total(product(a, b), c)


@pure(f"div.<type:{INT}>", "type <- type type")
def div(m: Modifiers) -> Kernel:
    return _signless(numerics.div_s if TYPES[m["type"]].signed else numerics.div_u)


@pure(f"rem.<type:{INT}>", "type <- type type")
def rem(m: Modifiers) -> Kernel:
    remainder = _signless(numerics.rem_s if TYPES[m["type"]].signed else numerics.rem_u)
    return lambda a, b: np.where(b == 0, np.invert(b), remainder(a, b))


@pure(f"abs.<type:{_SIGNED}>", "type <- type")
def abs_(m: Modifiers) -> Kernel:
    return np.abs


@pure(f"neg.<type:{_SIGNED}>", "type <- type")
def neg(m: Modifiers) -> Kernel:
    return np.negative


def _relu(kernel: Kernel, relu: str) -> Kernel:
    return (lambda a, b: np.maximum(kernel(a, b), a.dtype.type(0))) if relu else kernel


@pure(f"min.<type:{INT}|u16x2>", "type <- type type")
@pure("min[.relu].<type:s32|s16x2>", "type <- type type")
def min_(m: Modifiers) -> Kernel:
    return _relu(np.minimum, m.get("relu", ""))


@pure(f"max.<type:{INT}|u16x2>", "type <- type type")
@pure("max[.relu].<type:s32|s16x2>", "type <- type type")
def max_(m: Modifiers) -> Kernel:
    return _relu(np.maximum, m.get("relu", ""))


def _distance(a: Array, b: Array) -> Array:
    """|a - b|, as the bits of the type."""
    return np.where(a < b, b - a, a - b)


@pure(f"sad.<type:{INT}>", "type <- type type type")
def sad(m: Modifiers) -> Kernel:
    return lambda a, b, c: c + _distance(a, b)


def _parts(x: Array, kind: str, size: int) -> Array:
    """The parts of a register, so many bytes each, as numbers of 64 bits: [threads, parts]."""
    return np.ascontiguousarray(x).view(f"{'i' if kind == 's' else 'u'}{size}").reshape(len(x), -1).astype(np.int64)


def _dot(m: Modifiers, size: int, first: int = 0) -> Kernel:
    """c + the sum of products of the parts of a, so many bytes each, by as many bytes of b, from the first one on."""
    count, kind_a, kind_b = 4 // size, m["atype"][0], m["btype"][0]

    def kernel(a: Array, b: Array, c: Array) -> Array:
        total = (_parts(a, kind_a, size) * _parts(b, kind_b, 1)[:, first : first + count]).sum(1)
        return (c.view(np.uint32).astype(np.int64) + total).astype(np.uint32)

    return kernel


@pure("dp4a.<atype:u32|s32>.<btype:u32|s32>", "b32 <- atype btype b32")
def dp4a(m: Modifiers) -> Kernel:
    return _dot(m, 1)


@pure("dp2a.<half:lo|hi>.<atype:u32|s32>.<btype:u32|s32>", "b32 <- atype btype b32")
def dp2a(m: Modifiers) -> Kernel:
    return _dot(m, 2, 0 if m["half"] == "lo" else 2)
