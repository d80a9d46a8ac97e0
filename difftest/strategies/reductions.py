"""Strategies for reductions along an axis and for `dot`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from tilewright.lang import (
    F32,
    FP8,
    NUMBERS,
    OPS,
    FloatType,
    OpTypeError,
    ScalarType,
    TileType,
    Type,
    shape_of,
    with_shape,
)

from ..cases import Case
from ..choices import Choices
from ..recipes import draw_codes, edge, moderate, short
from .bodies import combining
from .sketch import TILES, Sketch

#: Tiles with longer axes than most, for reductions.
LONG: tuple[tuple[int, ...], ...] = (*TILES, (32,), (2, 16), (16, 2))


def accepts(name: str, types: list[Type]) -> bool:
    """Whether a row takes operands of these types along axis 0."""
    try:
        OPS[name].rule(types, {"axis": 0}, None)
    except OpTypeError:
        return False
    return True


def reduction(name: str) -> Callable[[Choices], Case]:
    """The strategy for a reduction by a fixed op, indexed or not."""
    admitted = [t for t in NUMBERS if accepts(name, [TileType((4,), t)])]
    indexed = name.startswith("arg")

    def strategy(choices: Choices) -> Case:
        sketch = Sketch(name, choices)
        operand = sketch.operand(with_shape(choices.sample(admitted), sketch.shape(LONG)))
        axis = choices.integer(0, len(shape_of(operand.type)) - 1)
        attributes: dict[str, Any] = {"tie_break_left": choices.boolean()} if indexed else {}
        return sketch.finish(sketch.emit(name, (operand,), axis=axis, **attributes).results)

    return strategy


def reduce(choices: Choices) -> Case:
    """One or two operands folded by a drawn region."""
    sketch = Sketch("reduce", choices)
    shape = sketch.shape(TILES)
    elements: list[ScalarType] = [choices.sample(NUMBERS) for _ in range(choices.integer(1, 2))]
    operands = [sketch.operand(with_shape(element, shape)) for element in elements]
    body = combining(sketch, elements)
    axis = choices.integer(0, len(shape) - 1)
    return sketch.finish(sketch.emit("reduce", operands, regions=[body], axis=axis).results)


#: The element types of a, b and acc that `dot` takes, and those of them that are not 8-bit floats.
DOT_ELEMENTS = [
    elements
    for elements in product(NUMBERS, repeat=3)
    if accepts("dot", [TileType((1, 1), element) for element in elements])
]
WIDE_ELEMENTS = [elements for elements in DOT_ELEMENTS if elements[0] not in FP8]
_FLOAT_DATA = ((moderate, 4), (short, 4), (edge, 1))
_INTEGER_DATA = ((edge, 1),)


def dot_shape(choices: Choices) -> tuple[tuple[int, ...], int, int, int]:
    """The batch and M, N, K: mostly far too small for matrix instructions, sometimes just large enough."""
    if choices.boolean(25):
        return (
            choices.sample(((), (), (2,))),
            choices.sample((16, 32)),
            choices.sample((8, 16)),
            choices.sample((16, 32)),
        )
    batch = choices.sample(((), (1,), (2,)))
    m, n, k = (choices.sample((1, 2, 4)) for _ in range(3))
    return batch, m, n, choices.sample((k, k, 16)) if not batch and m * n <= 4 else k


def dot(choices: Choices) -> Case:
    """Matrices of every type, batched or not; moderate data more often than not, so that sums do not overflow."""
    sketch = Sketch("dot", choices)
    elements = choices.sample(choices.sample((DOT_ELEMENTS, WIDE_ELEMENTS)))
    batch, m, n, k = dot_shape(choices)
    operands = []
    for element, shape in zip(elements, ((*batch, m, k), (*batch, k, n), (*batch, m, n)), strict=True):
        type_ = with_shape(element, shape)
        if shape == (*batch, m, n) and choices.boolean(25):
            operands.append(sketch.constant(type_))
            continue
        lanes = TileType(shape, element).numel * sketch.programs
        recipes = _FLOAT_DATA if isinstance(element, FloatType) else _INTEGER_DATA
        operands.append(sketch.argument(type_, draw_codes(choices, element, lanes, recipes)))
    is_f32, is_fp8 = elements[0] == F32, elements[0] in FP8
    attributes = {
        "precision": choices.sample(PRECISIONS) if is_f32 else "ieee",
        "max_imprecise": choices.sample(tuple(each for each in (0, 16, 32) if each <= k)) if is_fp8 else 0,
    }
    return sketch.finish([sketch.value("dot", operands, **attributes)])


PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")

REDUCE_STRATEGIES: dict[str, Callable[[Choices], Case]] = {
    **{name: reduction(name) for name in OPS if name.startswith(("reduce_", "argmin_", "argmax_"))},
    "reduce": reduce,
    "dot": dot,
}
