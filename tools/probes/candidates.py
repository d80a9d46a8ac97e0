"""Models of matrix products that a probe tries: the emulator's own, and what else is published or plausible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import numerics
from tilewright.interpreter.ptx.products import products_of
from tilewright.interpreter.ptx.tensor_cores import Unit, multiply, unit_of
from tilewright.interpreter.ptx.types import TYPES

from .inputs import Product
from .products import Mma

Array = NDArray[Any]
Model = Callable[[Array, Array, Array], Array]
"""Bits of a, b and c to bits of the result."""

_TF32 = np.uint32(0x1FFF)


def model(mma: Mma, generation: int) -> Model:
    """The emulator's own, for `options.mma = "hardware"`."""
    modifiers = {
        "shape": f"m{mma.rows}n8k{mma.depth}", "a": mma.a, "b": mma.b, "c": mma.c, "d": mma.c,
        "rnd": mma.modifiers.strip(".") if mma.a == "f64" else "",
        "satfinite": "satfinite" if mma.modifiers == ".satfinite" else "",
        "bit": mma.suffix.removesuffix(".popc").strip("."),
    }  # fmt: skip
    return products_of(modifiers, generation)["hardware"]


def candidates(mma: Mma, generation: int) -> dict[str, Model]:
    """Other models, by name."""
    if mma.a == "f64":
        return {} if mma.modifiers else {"descending": _descending, "once": _once}
    if mma.c not in ("f16", "f32"):
        return {}
    return alternatives(mma, unit_of(generation, TYPES[mma.a], mma.c))


def alternatives(mma: Product, own: Unit, units: dict[str, Unit] | None = None) -> dict[str, Model]:
    """Models with other adders than a product's own, by name: what is published of other generations, and clamps."""
    units = units or _units(mma, own)
    found = {name: _summing(mma, unit) for name, unit in units.items() if unit != own}
    if mma.a == "tf32":
        found["tf32 to nearest even"] = _summing(mma, own, _to_even)
        found["tf32 to nearest away"] = _summing(mma, own, _away)
        found["tf32 uncut"] = _summing(mma, own, lambda x: x)
    return found


def _units(mma: Product, own: Unit) -> dict[str, Unit]:
    floors = (None, -126, -127, -132, -133, -134) if mma.c == "f32" else (None, -14, -15, -20, -21, -22)
    found = {f"floor={floor}": replace(own, floor=floor) for floor in floors}
    found["zeros"] = replace(own, zeros=True)
    found |= {f"F={f}": replace(own, fraction=f) for f in (23, 24, 25, 26)}
    found |= {f"L={n}": replace(own, products=n) for n in (4, 8, 16, 32) if n <= mma.depth and not own.pairs}
    if TYPES[mma.a].bits == 8:
        floor = own.floor
        found |= {f"F=13 L={n}": Unit(13, n, kept=13, floor=floor) for n in (16, 32) if n <= mma.depth}
        found |= {f"F=25 L={n}": Unit(25, n, floor=floor) for n in (16, 32) if n <= mma.depth}
        found["pairs"] = Unit(25, 16, floor=floor, pairs=True)
    return found


def _cut(x: Array) -> Array:
    return x & ~_TF32


def _to_even(x: Array) -> Array:
    return x + np.uint32(0xFFF) + (x >> np.uint32(13) & np.uint32(1)) & ~_TF32


def _away(x: Array) -> Array:
    return x + np.uint32(0x1000) & ~_TF32


def _summing(mma: Product, unit: Unit, prepare: Callable[[Array], Array] = _cut) -> Model:
    a, b, c = (TYPES[name] for name in (mma.a, mma.b, mma.c))

    def run(x: Array, y: Array, z: Array) -> Array:
        if mma.a == "tf32":
            x, y = prepare(x), prepare(y)
        found = multiply(unit, x.view(a.dtype), y.view(b.dtype), z.view(c.dtype), (a.format, b.format), c.format)
        return found.view(c.carrier)

    return run


def _descending(a: Array, b: Array, c: Array) -> Array:
    """The chain of f64 from the last k to the first."""
    x, y, total = a.view(np.float64), b.view(np.float64), c.view(np.float64)
    for k in range(x.shape[2] - 1, -1, -1):
        column, row = np.broadcast_to(x[:, :, k, None], total.shape), np.broadcast_to(y[:, k, None, :], total.shape)
        total = numerics.fma(column, row, total, "f64")
    return total.view(np.uint64)


def _once(a: Array, b: Array, c: Array) -> Array:
    """The f64 sum rounded once."""
    return numerics.dot(a.view(np.float64), b.view(np.float64), c.view(np.float64), "f64", "f64").view(np.uint64)
