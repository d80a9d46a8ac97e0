"""Matrix products of tiles of the kernel with matrices from memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ..choices import Choices
from .accesses import Kernel
from .maker import NUMERIC
from .numbers import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FP8E4B8,
    FP8E4NV,
    FP8E5,
    FP8E5B16,
    INT8,
    INT32,
    UINT8,
    Number,
    literal,
)
from .source import Expr, Shape

PRECISIONS = ("tf32", "ieee", "tf32x3", "bf16x3", "bf16x6")


@dataclass(frozen=True, slots=True)
class Multiplication:
    """The types of a product: of both operands, and of the result and accumulator."""

    left: Number
    right: Number
    result: Number


TYPES: tuple[tuple[Multiplication, int], ...] = (
    (Multiplication(FLOAT16, FLOAT16, FLOAT32), 6), (Multiplication(FLOAT32, FLOAT32, FLOAT32), 6),
    (Multiplication(BFLOAT16, BFLOAT16, FLOAT32), 4), (Multiplication(FLOAT16, FLOAT16, FLOAT16), 2),
    (Multiplication(INT8, INT8, INT32), 4), (Multiplication(FLOAT64, FLOAT64, FLOAT64), 2),
    (Multiplication(FP8E4NV, FP8E4NV, FLOAT32), 2), (Multiplication(FP8E5, FP8E4NV, FLOAT32), 1),
    (Multiplication(FP8E5, FP8E5, FLOAT16), 1), (Multiplication(FP8E4B8, FP8E5B16, FLOAT32), 1),
)  # fmt: skip
#: The most products that a kernel's programs add up, all loops counted.
MOST_PRODUCTS = 1 << 18


def options_of(choices: Choices, kinds: Multiplication, inner: int) -> str:
    """The arguments of a `dot` of so many products beside its operands."""
    options = f", out_dtype={kinds.result}" if kinds.result == FLOAT16 else ""
    if kinds.left == FLOAT32:
        options += f', input_precision="{choices.sample(PRECISIONS)}"'
    if kinds.left.bits == 8 and kinds.left.is_float and choices.boolean(30):
        options += f", max_num_imprecise_acc={choices.sample([most for most in (0, 16, 32) if most <= inner])}"
    return options


# --- a tile of the kernel and a matrix ---


def multiply(kernel: Kernel) -> bool:
    """A tile times a square matrix from memory, on either side, or times itself transposed; a new variable.

    False if there is no tile that fits.
    """
    found = kernel.specified(kernel.candidates(kernel.tile, NUMERIC))
    kinds = kernel.choices.weighted(TYPES)
    if kinds.result == INT32:
        found = [value for value in found if value.exact]
    if len(kernel.shape) == 1 or not found or kernel.shared.arrays <= 0:
        return False
    value = replace(kernel.choices.sample(found), product=False)
    *batch, rows, columns = kernel.shape
    on_left = kernel.choices.boolean(65)
    inner = columns if on_left else rows
    if kernel.shared.programs * prod(kernel.shape) * inner > MOST_PRODUCTS:
        return False
    mine = value.cast(kinds.left if on_left else kinds.right).operand
    if on_left and rows == columns and kernel.choices.boolean(25):
        other = f"tl.trans({value.cast(kinds.right).operand})"
    else:
        other = _matrix(kernel, (*batch, inner, inner), kinds.right if on_left else kinds.left)
    a, b = (mine, other) if on_left else (other, mine)
    total = _accumulator(kernel, kinds)
    text = f"tl.dot({a}, {b}{f', {total.text}' if total else ''}{options_of(kernel.choices, kinds, inner)})"
    holes = total is not None and total.holes
    exact = kinds.result == INT32 and (total is None or total.exact)
    made = kernel.let(Expr(text, kinds.result, kernel.shape, None, exact, False, holes))
    if rows == columns and not holes and kernel.choices.boolean(25) and kernel.shared.arrays > 0:
        _chain(kernel, made, kinds)
    return True


def _chain(kernel: Kernel, made: Expr, kinds: Multiplication) -> None:
    """A product of a product."""
    *batch, _, inner = kernel.shape
    b = _matrix(kernel, (*batch, inner, inner), kinds.right)
    text = f"tl.dot({made.cast(kinds.left).operand}, {b}{options_of(kernel.choices, kinds, inner)})"
    kernel.let(Expr(text, kinds.result, kernel.shape, None, made.exact))


def _accumulator(kernel: Kernel, kinds: Multiplication) -> Expr | None:
    """What is added to: a tile of the kernel, if anything."""
    whole = [v for v in kernel.candidates(kernel.tile, (kinds.result.kind,)) if v.shape == kernel.shape]
    if not whole or not kernel.choices.boolean(40):
        return None
    return replace(kernel.choices.sample(whole), product=False).cast(kinds.result)


def _matrix(kernel: Kernel, shape: Shape, type_: Number) -> str:
    """A matrix from memory, which may lie there transposed, or in another type."""
    from_type = memory_type(kernel, type_)
    turned = kernel.choices.boolean(35)
    *batch, rows, columns = shape
    inside = (*batch, columns, rows) if turned else shape
    array = kernel.input(prod(shape), from_type)
    text = f"tl.load({array.name} + {row_major(inside, [f'tl.arange(0, {extent})' for extent in inside])})"
    return fed(kernel, f"tl.trans({text})" if turned else text, from_type, type_)


def memory_type(kernel: Kernel, type_: Number) -> Number:
    """The type in which an operand lies in memory: its own, mostly."""
    if kernel.choices.boolean(70):
        return type_
    return kernel.choices.sample((UINT8, INT32) if type_ == INT8 else (FLOAT32, FLOAT16, INT8, FLOAT64))


def fed(kernel: Kernel, text: str, from_type: Number, type_: Number) -> str:
    """Loaded elements as operands: perhaps changed one by one, and cast."""
    if from_type.bits > 8 and kernel.choices.boolean(25):
        text = f"({text} * {literal(kernel.choices, from_type)})"
    return text if from_type == type_ else f"{text}.to({type_})"


def row_major(shape: Shape, indices: Sequence[str]) -> str:
    """The offset of each element of a tile, from its indices along each axis."""
    terms: list[str] = []
    for axis, index in enumerate(indices):
        step, laid = prod(shape[axis + 1 :]), index + along(axis, len(shape))
        terms.append(laid if step == 1 else f"{laid} * {step}")
    return " + ".join(terms)


def along(axis: int, rank: int) -> str:
    """The subscript that lays a vector along an axis of a tile."""
    return f"[{', '.join(':' if d == axis else 'None' for d in range(rank))}]" if rank > 1 else ""
