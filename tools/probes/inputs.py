"""Operands for matrix products, drawn so that each class of them stresses something else.

Whatever is drawn depends on the generator alone, so that every machine gets the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.numerics import FORMATS
from tilewright.interpreter.ptx.products import width
from tilewright.interpreter.ptx.types import TYPES

Array = NDArray[Any]
Operands = tuple[Array, Array, Array]


class Product(Protocol):
    """A product [rows, depth] by [depth, columns]: the types of a, of b, and of accumulator and result."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def c(self) -> str: ...


Draw = Callable[[np.random.Generator, Product, int], Operands]


def _limits(name: str) -> tuple[int, int]:
    """The exponents of a format's smallest and largest normal numbers."""
    row = FORMATS[TYPES[name].format]
    return 1 - row.bias, (row.max_code >> row.mantissa_bits) - row.bias


def floats(rng: np.random.Generator, name: str, shape: tuple[int, ...], low: int, high: int) -> Array:
    """Codes with exponents from `low` to `high`; what lies under the normal numbers is subnormal or zero."""
    row = FORMATS[TYPES[name].format]
    largest = row.max_code >> row.mantissa_bits
    field = np.clip(rng.integers(low, high, shape, dtype=np.int64, endpoint=True) + row.bias, 0, largest)
    mantissa = rng.integers(0, 1 << row.mantissa_bits, shape, dtype=np.int64)
    code = np.minimum((field << row.mantissa_bits) + mantissa, row.max_code)
    sign = rng.integers(0, 2, shape, dtype=np.int64) << (row.bits - 1)
    return (code | sign).astype(row.carrier)


def _some(rng: np.random.Generator, codes: Array, share: float | Array, others: Array) -> Array:
    """Codes, a share of them replaced."""
    return np.where(rng.random(codes.shape, dtype=np.float32) < share, others, codes)


def _shapes(mma: Product, count: int) -> tuple[tuple[int, ...], ...]:
    return (count, mma.rows, mma.depth), (count, mma.depth, mma.columns), (count, mma.rows, mma.columns)


def _ranges(*bounds: tuple[int, int]) -> Draw:
    """Exponents of a, b and c from ranges of their own."""

    def draw(rng: np.random.Generator, mma: Product, count: int) -> Operands:
        names = (mma.a, mma.b, mma.c)
        a, b, c = (floats(rng, n, s, *r) for n, s, r in zip(names, _shapes(mma, count), bounds, strict=True))
        return a, b, c

    return draw


def _wide(rng: np.random.Generator, mma: Product, count: int) -> Operands:
    """All exponents that the formats have."""
    bounds = [(low - 1, high) for low, high in map(_limits, (mma.a, mma.b, mma.c))]
    return _ranges(*bounds)(rng, mma, count)


def _around(place: int, spread: int) -> Draw:
    """Products near the smallest (`place` 0) or largest (1) numbers of the result, as far as the operands reach."""

    def draw(rng: np.random.Generator, mma: Product, count: int) -> Operands:
        middle = _limits(mma.c)[place]
        half = middle // 2
        bounds = ((half - spread, half + spread // 2), (half - spread, half + spread // 2))
        return _ranges(*bounds, (middle - 2 * spread, middle + 1))(rng, mma, count)

    return draw


def _cancel(rng: np.random.Generator, mma: Product, count: int) -> Operands:
    """The accumulator takes away nearly all of the sum, or the second half of k nearly all of the first."""
    a, b, c = _ranges((-3, 3), (-3, 3), (0, 0))(rng, mma, count)
    type_, half = TYPES[mma.c], mma.depth // 2
    x, y = (v.view(TYPES[name].dtype).astype(np.float64) for v, name in ((a, mma.a), (b, mma.b)))
    total = np.zeros(c.shape)
    for k in range(mma.depth):  # in this order on every machine
        total += x[:, :, k, None] * y[:, k, None, :]
    c = (-total).astype(type_.dtype).view(type_.carrier)
    mirrored = np.arange(count) % 2 == 1
    a[mirrored, :, half:] = a[mirrored, :, :half]
    sign = b.dtype.type(1 << width(mma.b) - 1)
    b[mirrored, half:] = b[mirrored, :half] ^ sign
    c[mirrored] = floats(rng, mma.c, c[mirrored].shape, -20, -4)
    return a, b, c


def _zeros(rng: np.random.Generator, mma: Product, count: int) -> Operands:
    """Mostly zeros of both signs, beside numbers of any size; a third has -0 alone, as products and accumulators."""
    found: list[Array] = []
    only = np.arange(count)[:, None, None] % 3 == 0
    for codes, name, negative in zip(_wide(rng, mma, count), (mma.a, mma.b, mma.c), (True, False, True), strict=True):
        sign = codes.dtype.type(1 << width(name) - 1)
        zeros = np.where(only, np.full(1, sign if negative else 0, codes.dtype), codes & sign)
        found.append(_some(rng, codes, np.where(only, 1.0, 0.7), zeros))
    return found[0], found[1], found[2]


def _special(rng: np.random.Generator, mma: Product, count: int) -> Operands:
    """A few infinities and NaNs, whatever the bits of the NaNs."""
    found: list[Array] = []
    for codes, name in zip(_ranges((-2, 2), (-2, 2), (-2, 4))(rng, mma, count), (mma.a, mma.b, mma.c), strict=True):
        row = FORMATS[TYPES[name].format]
        inf = row.inf_code or row.nan_code or 0
        nan = rng.integers(min(inf + 1, row.sign_bit - 1), row.sign_bit, codes.shape, dtype=np.int64)
        kind = rng.integers(0, 3, codes.shape)
        others = np.where(kind == 0, nan, np.where(kind == 1, inf, 0)).astype(row.carrier)
        signs = rng.integers(0, 2, codes.shape, dtype=row.carrier) << row.carrier.type(row.bits - 1)
        found.append(_some(rng, codes, 0.01, others | signs))
    return found[0], found[1], found[2]


def _edge(rng: np.random.Generator, mma: Product, count: int) -> Operands:
    """A product on the edge of two results near zero, and one far smaller, which decides unless it is cut off."""
    place = {"f16": -25, "f32": -149, "f64": -1074}[mma.c]
    rows, depth = np.arange(mma.rows), np.arange(1, mma.depth)
    a, b = np.zeros((count, mma.rows, mma.depth)), np.zeros((count, mma.depth, mma.columns))
    a[:, :, 0] = np.ldexp(2.0 * rng.integers(0, 8, a.shape[:2]) + 1, place // 2)
    b[:, 0] = np.ldexp(1.0, place - place // 2)
    far = rng.integers(1, 27, (count, mma.depth - 1))
    half = rng.integers(place // 2 - 12, place // 2 + 10, far.shape)
    one = np.ldexp(rng.choice([-1.0, 1.0], far.shape), half)
    a[:, rows, 1 + rows % (mma.depth - 1)] = one[:, rows % (mma.depth - 1)]
    b[:, depth] = np.ldexp(1.0, place - far - half)[:, :, None]
    with np.errstate(all="ignore"):
        x, y = (v.astype(TYPES[n].dtype).view(TYPES[n].carrier) for v, n in ((a, mma.a), (b, mma.b)))
    return x, y, np.zeros((count, mma.rows, mma.columns), TYPES[mma.c].carrier)


FLOATS: dict[str, Draw] = {
    "near": _ranges((-2, 2), (-2, 2), (-3, 4)),
    "gaps": _ranges((-14, 14), (-1, 1), (-22, 16)),
    "wide": _wide,
    "cancel": _cancel,
    "tiny": _around(0, 8),
    "subnormal": lambda rng, mma, count: _ranges(
        *((_limits(n)[0] - 1, _limits(n)[0] + 1) for n in (mma.a, mma.b)), (-150, -126)
    )(rng, mma, count),
    "edge": _edge,
    "large": _around(1, 3),
    "zeros": _zeros,
    "special": _special,
}
"""Classes of floating-point operands."""
_FAST = ("near", "gaps", "cancel", "special")
_ALL = 8
"""Of f64 all classes are drawn by so many seeds, and by others those that its model is fast on."""


def _integers(rng: np.random.Generator, mma: Product, count: int) -> Operands:
    names, shapes = (mma.a, mma.b, mma.c), _shapes(mma, count)
    types = [np.dtype(f"u{max(1, width(n) // 8)}") for n in names]
    a, b, c = (rng.integers(0, 1 << width(n), s, dtype=t) for n, s, t in zip(names, shapes, types, strict=True))
    return a, b, c


def _at_limits(rng: np.random.Generator, mma: Product, count: int) -> Operands:
    a, b, c = _integers(rng, mma, count)
    return a, b, np.where(c & 1, np.uint32(0x7FFF_FFFF) - (c >> 12), np.uint32(0x8000_0000) + (c >> 12))


INTEGERS: dict[str, Draw] = {"any": _integers, "limits": _at_limits}
"""Classes of integer operands."""


def drawn(mma: Product, seed: int, count: int) -> tuple[Array, Operands]:
    """The name of the class that each fragment is of, and the operands as bits."""
    classes = FLOATS if TYPES[mma.c].kind == "f" else INTEGERS
    if mma.a == "f64" and seed >= _ALL:
        classes = {name: FLOATS[name] for name in _FAST}
    rng = np.random.default_rng([seed, mma.rows, mma.depth])
    parts = np.array_split(np.arange(count), len(classes))
    drawn = [draw(rng, mma, len(part)) for draw, part in zip(classes.values(), parts, strict=True)]
    a, b, c = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
    return np.repeat(list(classes), [len(part) for part in parts]), (a, b, c)
