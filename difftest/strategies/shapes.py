"""Strategies for the rows that make values and change shapes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.lang import I32, I64, INTS, NUMBERS, POINTERS, ScalarType, element_of, shape_of, with_shape

from ..cases import Case
from ..choices import Choices
from .sketch import TILES, KernelSketch, Shape, Sketch

SCALARS: tuple[ScalarType, ...] = (*NUMBERS, *POINTERS)


def constant(choices: Choices) -> Case:
    """A literal, plus what it was made with: half of the cases add it to an argument, so that it is not folded."""
    sketch = Sketch("constant", choices)
    type_ = with_shape(choices.sample(SCALARS), sketch.shape())
    value = sketch.constant(type_)
    return sketch.finish([value] if choices.boolean() else [value, sketch.drawn(type_)])


def poison(choices: Choices) -> Case:
    """A value that executors fill with zeros."""
    sketch = Sketch("poison", choices)
    return sketch.finish([sketch.value("poison", type_=with_shape(choices.sample(SCALARS), sketch.shape()))])


def arange(choices: Choices) -> Case:
    """A range, from anywhere in i32, alone or used."""
    sketch = Sketch("arange", choices)
    (extent,) = sketch.shape([shape for shape in TILES if len(shape) == 1])
    start = choices.sample((0, 1, -5, 7, 2**31 - extent, -(2**31)))
    value = sketch.value("arange", start=start, end=start + extent)
    if choices.boolean():
        value = sketch.value("add_i", (value, sketch.drawn(value.type)))
    return sketch.finish([value])


def grid_rows(name: str) -> Callable[[Choices], Case]:
    """The strategy for `program_id` and `num_programs`: every program stores it at its own place."""

    def strategy(choices: Choices) -> Case:
        x, y, z = (choices.integer(1, 3) for _ in range(3))
        sketch = KernelSketch(name, choices, (x, y, z))
        places = sketch.places(())
        sketch.write("out", places, sketch.value(name, axis=choices.integer(0, 2)))
        return sketch.finish()

    return strategy


def splat(choices: Choices) -> Case:
    """A scalar of any type in a tile."""
    sketch = Sketch("splat", choices)
    scalar = sketch.operand(choices.sample(SCALARS))
    return sketch.finish([sketch.value("splat", (scalar,), shape=sketch.shape(TILES))])


def broadcast(choices: Choices) -> Case:
    """Some extents of 1 stretched."""
    sketch = Sketch("broadcast", choices)
    shape = sketch.shape(TILES)
    source = tuple(1 if choices.boolean() else extent for extent in shape)
    operand = sketch.operand(with_shape(choices.sample(SCALARS), source))
    return sketch.finish([sketch.value("broadcast", (operand,), shape=shape)])


def expand_dims(choices: Choices) -> Case:
    """An extent of 1 put in anywhere, into a scalar too."""
    sketch = Sketch("expand_dims", choices)
    operand = sketch.operand(with_shape(choices.sample(SCALARS), sketch.shape()))
    axis = choices.integer(0, len(shape_of(operand.type)))
    return sketch.finish([sketch.value("expand_dims", (operand,), axis=axis)])


def reshape(choices: Choices) -> Case:
    """Any shape with the same number of elements; () is one for a single element."""
    sketch = Sketch("reshape", choices)
    operand = sketch.operand(with_shape(choices.sample(SCALARS), sketch.shape()))
    shapes: list[Shape] = [shape for shape in ((), *TILES) if prod(shape) == prod(shape_of(operand.type))]
    return sketch.finish([sketch.value("reshape", (operand,), shape=choices.sample(shapes))])


def permute(choices: Choices) -> Case:
    """Dimensions in any order."""
    sketch = Sketch("permute", choices)
    operand = sketch.operand(with_shape(choices.sample(SCALARS), sketch.shape(TILES)))
    order = choices.permutation(len(shape_of(operand.type)))
    return sketch.finish([sketch.value("permute", (operand,), order=order)])


def join(choices: Choices) -> Case:
    """Two values side by side."""
    sketch = Sketch("join", choices)
    type_ = with_shape(choices.sample(SCALARS), sketch.shape([shape for shape in ((), *TILES) if len(shape) < 3]))
    return sketch.finish([sketch.value("join", (sketch.operand(type_), sketch.operand(type_)))])


def split(choices: Choices) -> Case:
    """The halves, in either order."""
    sketch = Sketch("split", choices)
    operand = sketch.operand(with_shape(choices.sample(SCALARS), sketch.shape([s for s in TILES if s[-1] == 2])))
    halves = sketch.emit("split", (operand,)).results
    return sketch.finish(halves if choices.boolean() else halves[::-1])


def add_ptr(choices: Choices) -> Case:
    """An address and an offset of any integer type that has a sign worth the name."""
    sketch = Sketch("add_ptr", choices)
    shape = sketch.shape()
    pointer = sketch.operand(with_shape(choices.sample(POINTERS), shape))
    offset = sketch.operand(with_shape(choices.sample(INTS[1:]), shape))
    return sketch.finish([sketch.value("add_ptr", (pointer, offset))])


def hint(choices: Choices) -> Case:
    """A promise that is kept: every element is a multiple of 16."""
    sketch = Sketch("hint", choices)
    shape = sketch.shape()
    element = choices.sample((I32, I64, *POINTERS))
    operand = sketch.operand(with_shape(element, shape))
    rank = max(1, len(shape))
    if element_of(operand.type) in (I32, I64):
        sixteen = sketch.splat(sketch.integer(16, element), shape)
        operand = sketch.value("mul_i", (operand, sixteen))
        return sketch.finish([sketch.value("hint", (operand,), divisibility=(16,) * rank)])
    return sketch.finish([sketch.value("hint", (operand,), contiguity=(1,) * rank, constancy=(1,) * rank)])


def convert_layout(choices: Choices) -> Case:
    """Nothing changes; where the compiler puts the two is its choice."""
    sketch = Sketch("convert_layout", choices)
    operand = sketch.operand(with_shape(choices.sample(SCALARS), sketch.shape(TILES)))
    return sketch.finish([sketch.value("convert_layout", (operand,))])


SHAPE_STRATEGIES: dict[str, Callable[[Choices], Case]] = {
    "constant": constant,
    "poison": poison,
    "arange": arange,
    "program_id": grid_rows("program_id"),
    "num_programs": grid_rows("num_programs"),
    "splat": splat,
    "broadcast": broadcast,
    "expand_dims": expand_dims,
    "reshape": reshape,
    "permute": permute,
    "join": join,
    "split": split,
    "add_ptr": add_ptr,
    "hint": hint,
    "convert_layout": convert_layout,
}
