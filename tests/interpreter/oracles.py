"""What the tests of op meanings share: running one op, sample values, and the definition of rounding, in rationals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from io import StringIO
from math import copysign, isinf, isnan
from typing import Any

import numpy as np

from tilewright.interpreter.batch import Batch, Fuel, Options
from tilewright.interpreter.meanings import MEANINGS
from tilewright.interpreter.memory import Buffer, Memory
from tilewright.interpreter.numerics import FORMATS, FloatFormat
from tilewright.interpreter.values import BatchValue, dense
from tilewright.lang import (
    OPS,
    Block,
    Builder,
    FloatType,
    Function,
    IntType,
    Location,
    Operation,
    ScalarType,
    TileType,
    Type,
)

RNG = np.random.default_rng(20240607)


def make(name: str, types: Sequence[Type], *results: Type, **attributes: Any) -> Operation:
    """An op on the parameters x0, x1, ... of the kernel `k`."""
    block = Block(types, [f"x{i}" for i in range(len(types))])
    Function("k", block)
    builder = Builder(block)
    builder.location = Location("kernels.f", 3, 9)
    return builder.create(OPS[name], block.arguments, attributes, results or None)


def batch_of(count: int, *buffers: Buffer, kernel: str = "k", debug: bool = True) -> Batch:
    """Programs 0 to count - 1 along x, with the kernel's buffers."""
    x, y, z = np.indices((1, 1, count), np.int32).reshape(3, -1)[::-1]
    memory = Memory(buffers, kernel)
    return Batch(count, (x, y, z), (count, 1, 1), memory, Options(debug=debug), StringIO(), Fuel(None))


def run(operation: Operation, batch: Batch, *values: BatchValue) -> Any:
    """The meaning of an op on the values of a batch."""
    return MEANINGS[operation.name](operation)(batch, *values)


def evaluate(operation: Operation, *values: BatchValue) -> Any:
    """The meaning of an op without memory, in a batch as large as its operands."""
    return run(operation, batch_of(max((len(dense(value)) for value in values), default=1)), *values)


def apply(name: str, types: Sequence[Type], values: Sequence[np.ndarray], *results: Type, **attributes: Any) -> Any:
    """The op on scalars, one row a program; and once more on tiles of four, which must agree."""
    flat = dense(evaluate(make(name, types, *results, **attributes), *values))
    assert flat.ndim == 1
    tiled = [np.resize(v, (-(-len(v) // 4), 4)) for v in values]
    tile_types = [TileType((4,), t) for t in types]  # type: ignore[arg-type]
    operation = make(name, tile_types, *(TileType((4,), t) for t in results), **attributes)  # type: ignore[arg-type]
    assert (bits(dense(evaluate(operation, *tiled)).reshape(-1)[: len(flat)]) == bits(flat)).all()
    return flat


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def int_samples(width: int) -> list[int]:
    top = 1 << width - 1
    special = {0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, width, width - 1, width + 1}
    return sorted({x % (2 * top) for x in special} | {int(x) for x in RNG.integers(0, 2 * top, 5, np.uint64)})


def stored(values: Iterable[int], type_: IntType) -> np.ndarray:
    """Unsigned Python integers as storage."""
    if type_.width == 1:
        return np.array([bool(v) for v in values])
    return np.array([v % (1 << type_.width) for v in values], f"u{type_.width // 8}").view(f"i{type_.width // 8}")


def unsigned_list(array: np.ndarray) -> list[int]:
    return [int(x) for x in bits(array)]


def signed(x: int, width: int) -> int:
    return x - (1 << width) if x >> width - 1 else x


def float_samples(type_: FloatType, count: int) -> np.ndarray:
    """Special values of a format (as codes) and random codes."""
    row = FORMATS[type_.name]
    one = row.bias << row.mantissa_bits
    codes = {0, 1, 2, one - 1, one, one + 1, row.max_code, row.max_code - 1, (1 << row.mantissa_bits) - 1, one // 2}
    codes |= {c for c in (row.inf_code, row.nan_code) if c is not None}
    codes |= {c ^ row.sign_bit for c in codes}
    chosen = sorted(codes) + [int(c) for c in RNG.integers(0, 2 * row.sign_bit, count, np.uint64)]
    return np.array(chosen, row.carrier).view(row.storage)


def values_of(array: np.ndarray, type_: FloatType) -> list[float]:
    return [FORMATS[type_.name].value(int(code)) for code in bits(array)]


def nearest(value: Fraction, row: FloatFormat, negative: bool = False) -> float:
    """A rational rounded to nearest even in a format, by the definition of the format."""
    size = abs(value)
    sign = -1.0 if value < 0 or (value == 0 and negative) else 1.0
    if size == 0:
        return 0.0 if not row.has_negative_zero else copysign(0.0, sign)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, 1 - row.bias) - row.mantissa_bits)
    steps = round(size / quantum)  # Python rounds rationals to even
    if steps * quantum > Fraction(row.max_finite):
        return sign * (row.max_finite if row.saturates else float("inf"))
    rounded = sign * float(steps * quantum)
    return 0.0 if rounded == 0 and not row.has_negative_zero else rounded


def rounded(value: float | Fraction, type_: FloatType) -> float:
    """A real result in a format: 8-bit formats by way of f32."""
    row = FORMATS[type_.name]
    negative = False
    if isinstance(value, float):
        if isnan(value):
            return value if row.has_nan else row.max_finite
        if isinf(value):
            return copysign(row.max_finite, value) if row.saturates else value
        negative = copysign(1, value) < 0
    if row.bits == 8:
        wide = nearest(Fraction(value), FORMATS["f32"], negative)
        return rounded(wide, type_) if isinf(wide) else nearest(Fraction(wide), row, copysign(1, wide) < 0)
    return nearest(Fraction(value), row, negative)


def finite(*values: float) -> bool:
    return not any(isnan(v) or isinf(v) for v in values)


def smaller(a: float, b: float) -> float:
    return min(a, b, key=lambda x: (x, copysign(1, x)))


def larger(a: float, b: float) -> float:
    return max(a, b, key=lambda x: (x, copysign(1, x)))


def agree(got: np.ndarray, want: Sequence[float], type_: FloatType) -> list[int]:
    """The positions where results differ from what was wanted; any NaN is as good as any other."""
    wrong = []
    for index, (x, y) in enumerate(zip(values_of(got, type_), want, strict=True)):
        if isnan(x) != isnan(y) or (not isnan(x) and (x != y or copysign(1, x) != copysign(1, y))):
            wrong.append(index)
    return wrong


def sampled(type_: ScalarType) -> np.ndarray:
    if isinstance(type_, FloatType):
        return float_samples(type_, 30)
    width = type_.width if isinstance(type_, IntType) else 64
    return stored(int_samples(width), IntType(width))
