"""Products of matrices as `mma` computes them, on bits.

Floating-point sums run in one of two ways (`options.mma`). `exact`: the accumulator and all products of an instruction
as a real number, rounded once to nearest. `hardware`: as the tensor cores of a generation add (`tensor_cores`).
Integers are exact and wrap, or clamp with `.satfinite`; f64 is a chain of fused multiply-adds along k, each rounded,
where `hardware` says which NaN comes of NaNs as well.
Of tf32 operands the low 13 bits do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import numerics
from .fragments import Fragment, accumulator, left, right
from .rounding import arithmetic
from .table import Modifiers
from .tensor_cores import Unit, group_unit_of, multiply, unit_of
from .types import TYPES, Array

Product = Callable[[Array, Array, Array], Array]
"""Bits of a [warps, M, K], b [warps, K, N] and c [warps, M, N] to bits of the result, for all warps at once.

Elements are unsigned integers of their width; those narrower than a byte fill one each.
"""

_NARROW = {"s4": 4, "u4": 4, "b1": 1}
"""The widths of operands that have no type of their own elsewhere."""

_TF32 = np.uint32(0xFFFF_E000)
_MADE, _QUIET = np.uint64(0xFFF8 << 48), np.uint64(1 << 51)
"""The f64 NaN that tensor cores make, and the bit of a quiet one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instruction multiplies: M, K, the types of a and b, and that of accumulator and result."""

    rows: int
    depth: int
    a: str
    b: str
    c: str

    @classmethod
    def of(cls, m: Modifiers) -> Shape:
        """From the modifiers `shape`, such as m16n8k16, `a`, `b` and `c`."""
        rows, depth = re.findall(r"\d+", m["shape"])[::2]
        return cls(int(rows), int(depth), m["a"], m["b"], m["c"])

    @property
    def fragments(self) -> tuple[Fragment, Fragment, Fragment]:
        """The layouts of a, b, and of both accumulator and result."""
        return (
            left(self.rows, self.depth, width(self.a)),
            right(self.depth, width(self.b)),
            accumulator(self.rows, width(self.c)),
        )


def width(name: str) -> int:
    """The bits of an element of a type."""
    return _NARROW.get(name) or TYPES[name].bits


def products_of(m: Modifiers, generation: int) -> dict[str, Product]:
    """What an `mma` of these modifiers computes on a generation (90 for sm_90), by `options.mma`."""
    shape = Shape.of(m)
    if shape.c in ("f16", "f32"):
        return {"exact": _exact(shape), "hardware": _hardware(shape, generation)}
    if shape.c == "f64":
        return {"exact": _doubles(shape, m), "hardware": _doubles(shape, m, _passed)}
    product = (_bits if shape.a == "b1" else _integers)(shape, m)
    return {"exact": product, "hardware": product}


def group_products_of(m: Modifiers, depth: int) -> dict[str, Product]:
    """What a `wgmma` of these modifiers computes, by `options.mma`: 64 rows, all columns at once."""
    shape = Shape(64, depth, m["a"], m["b"], m["d"])
    if shape.c == "s32":
        product = _integers(shape, m)
        return {"exact": product, "hardware": product}
    unit = group_unit_of(TYPES[shape.a], TYPES[shape.c].format)
    return {"exact": _exact(shape), "hardware": _multiplied(shape, unit)}


def _operands(shape: Shape, x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
    """Bits as floats."""
    if shape.a == "tf32":
        x, y = x & _TF32, y & _TF32
    return x.view(TYPES[shape.a].dtype), y.view(TYPES[shape.b].dtype), z.view(TYPES[shape.c].dtype)


def _exact(shape: Shape) -> Product:
    a, b, c = (TYPES[name] for name in (shape.a, shape.b, shape.c))

    def product(x: Array, y: Array, z: Array) -> Array:
        return numerics.dot(*_operands(shape, x, y, z), a.format, c.format, b_fmt=b.format).view(c.carrier)

    return product


def _hardware(shape: Shape, generation: int) -> Product:
    return _multiplied(shape, unit_of(generation, TYPES[shape.a], TYPES[shape.c].format))


def _multiplied(shape: Shape, unit: Unit) -> Product:
    a, b, c = (TYPES[name] for name in (shape.a, shape.b, shape.c))

    def product(x: Array, y: Array, z: Array) -> Array:
        return multiply(unit, *_operands(shape, x, y, z), (a.format, b.format), c.format).view(c.carrier)

    return product


def _doubles(shape: Shape, m: Modifiers, nans: Callable[..., Array] | None = None) -> Product:
    """The chain; `nans` of the operands and the result of a link gives the result with other NaNs in it."""
    fma = arithmetic("fma", "f64", m["rnd"])

    def product(a: Array, b: Array, c: Array) -> Array:
        x, y, total = a.view(np.float64), b.view(np.float64), c.view(np.float64).reshape(-1)
        for k in range(shape.depth):
            column, row = (v.reshape(-1) for v in np.broadcast_arrays(x[:, :, k, None], y[:, k, None, :]))
            link = fma(column, row, total)
            total = link if nans is None else nans(column, row, total, link)
        return total.view(np.uint64).reshape(c.shape)

    return product


def _passed(a: Array, b: Array, c: Array, link: Array) -> Array:
    """NaN as an H200 has it: b, else c, else a if it is one, made quiet; one of no NaN is the negative default."""
    nan = np.isnan(link)
    if not nan.any():
        return link
    bits = _MADE
    for x in (a, c, b):
        bits = np.where(np.isnan(x), x.view(np.uint64) | _QUIET, bits)
    return np.where(nan, bits, link.view(np.uint64)).view(np.float64)


def _integers(shape: Shape, m: Modifiers) -> Product:
    saturate = bool(m["satfinite"])
    bounds = np.iinfo(np.int32)

    def product(a: Array, b: Array, c: Array) -> Array:
        # In f32 every partial sum is exact: it stays under 2**24, even for 32 products of two bytes.
        total = np.matmul(_whole(a, shape.a), _whole(b, shape.b)).astype(np.int64) + c.view(np.int32)
        if saturate:
            total = np.clip(total, bounds.min, bounds.max)
        return total.astype(np.int32).view(np.uint32)

    return product


def _whole(x: Array, name: str) -> Array:
    """Integer elements as f32."""
    if name == "s4":
        x = (x << np.uint8(4)).view(np.int8) >> np.int8(4)
    elif name == "s8":
        x = x.view(np.int8)
    return x.astype(np.float32)


def _bits(shape: Shape, m: Modifiers) -> Product:
    """How many bits are set in both rows (`and`), or differ (`xor`)."""
    differ = m["bit"] == "xor"

    def product(a: Array, b: Array, c: Array) -> Array:
        x, y = a.astype(np.float32), b.astype(np.float32)
        total = np.matmul(x, y)
        if differ:
            total = x.sum(2)[:, :, None] + y.sum(1)[:, None, :] - 2 * total
        return total.astype(np.uint32) + c

    return product
