"""The approximate functions. The ISA bounds their error; here each is the real value, rounded once to the type."""

from __future__ import annotations

import math

import numpy as np

from ... import numerics
from ..bounds import Bound
from ..rounding import finished
from ..table import Kernel, Modifiers, pure
from ..types import TYPES, Array

_FUNCTIONS = {
    "sin": numerics.sin,
    "cos": numerics.cos,
    "lg2": numerics.log2,
    "ex2": numerics.exp2,
    "tanh": numerics.tanh,
    "rsqrt": numerics.rsqrt,
}


def _function(name: str, m: Modifiers) -> Kernel:
    function, fmt = _FUNCTIONS[name], TYPES[m["type"]].format
    return finished(lambda x: function(x, fmt), m.get("ftz", ""))


_FURTHER = Bound("absolute", 2.0**-14.7, low=2 * math.pi, high=100 * math.pi)


@pure(
    "sin.approx[.ftz].<type:f32>", "type <- type", "float",
    (Bound("absolute", 2.0**-20.5, high=2 * math.pi), _FURTHER),
)  # fmt: skip
def sin(m: Modifiers) -> Kernel:
    return _function("sin", m)


# The ISA promises 2**-20.5, 6.743e-7, as of sin; of all 2**32 operands an H200 errs most at 409ccdb6, by 7.095e-7.
@pure("cos.approx[.ftz].<type:f32>", "type <- type", "float", (Bound("absolute", 7.1e-7, high=2 * math.pi), _FURTHER))
def cos(m: Modifiers) -> Kernel:
    return _function("cos", m)


_LOGARITHM = (
    Bound("relative", 2.0**-22, high=0.5),
    Bound("absolute", 2.0**-22, low=0.5, high=2.0),
    Bound("relative", 2.0**-22, low=2.0),
)


@pure("lg2.approx[.ftz].<type:f32>", "type <- type", "float", _LOGARITHM)
def lg2(m: Modifiers) -> Kernel:
    return _function("lg2", m)


@pure("ex2.approx[.ftz].<type:f32>", "type <- type", "float", (Bound("ulp", 2),))
@pure("ex2.approx[.ftz].<type:f16|f16x2>", "type <- type", "float", (Bound("relative", 2.0**-9.9),))
def ex2(m: Modifiers) -> Kernel:
    return _function("ex2", m)


@pure("ex2.approx.ftz.<type:bf16|bf16x2>", "type <- type", "float", (Bound("relative", 2.0**-7),))
def ex2_bf16(m: Modifiers) -> Kernel:
    """2 to a power of bf16, subnormal operands and results flushed."""

    def kernel(x: Array) -> Array:
        return _flushed_bf16(numerics.exp2(_flushed_bf16(x), "bf16"))

    return kernel


def _flushed_bf16(x: Array) -> Array:
    bits = x.view(np.uint16)
    return np.where(bits & np.uint16(0x7F80), bits, bits & np.uint16(0x8000)).view(x.dtype)


@pure("tanh.approx.<type:f32>", "type <- type", "float", (Bound("relative", 2.0**-11),))
@pure("tanh.approx.<type:f16|f16x2>", "type <- type", "float", (Bound("absolute", 2.0**-10.987),))
# The ISA promises 2**-8; of all 2**16 operands an H200 errs most at 3f3f, by 2**-7.99991.
@pure("tanh.approx.<type:bf16|bf16x2>", "type <- type", "float", (Bound("absolute", 2.0**-7.9999),))
def tanh(m: Modifiers) -> Kernel:
    return _function("tanh", m)


@pure("rsqrt.approx[.ftz].<type:f32>", "type <- type", "float", (Bound("relative", 2.0**-22.9),))
def rsqrt(m: Modifiers) -> Kernel:
    return _function("rsqrt", m)


@pure("rsqrt.approx[.ftz].f64", "f64 <- f64", "float", (Bound("relative", math.inf),))
def rsqrt_f64(m: Modifiers) -> Kernel:
    """In float64, within one unit in the last place; with .ftz the low half of the bits is zero."""

    def kernel(x: Array) -> Array:
        if not m["ftz"]:
            return numerics.round_to(1.0 / np.sqrt(x), "f64")
        small = np.abs(x) < 2.0**-1022
        y = numerics.round_to(1.0 / np.sqrt(np.where(small, np.copysign(0.0, x), x)), "f64")
        return (y.view(np.uint64) & np.uint64(0xFFFF_FFFF_0000_0000)).view(np.float64)

    return kernel
