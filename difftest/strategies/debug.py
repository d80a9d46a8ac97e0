"""Strategies for prints, asserts, promises and the barrier."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.lang import I1, I32, NUMBERS, Value, with_shape

from ..cases import Case
from ..choices import Choices
from .sketch import KernelSketch, Sketch

PREFIXES = ("x", "value: ", "", "a b=", "é", " y ")


def print_(choices: Choices) -> Case:
    """Up to two values of any number type, in decimal or hexadecimal, or only the prefix."""
    sketch = Sketch("print", choices)
    values: list[Value] = []
    for _ in range(choices.integer(0, 2)):
        values.append(sketch.operand(with_shape(choices.sample(NUMBERS), sketch.shape())))
    signs = tuple(choices.boolean() for _ in values) if choices.boolean() else ()
    sketch.emit("print", values, prefix=choices.sample(PREFIXES), hex=choices.boolean(30), signed=signs)
    return sketch.finish([sketch.drawn(I32)])


def assert_(choices: Choices) -> Case:
    """Conditions that mostly hold, under masks that may hide a failure."""
    sketch = Sketch("assert", choices)
    shape = sketch.shape()
    condition = _mostly_true(sketch, shape) if choices.boolean(80) else sketch.operand(with_shape(I1, shape))
    operands = [condition, *([sketch.operand(with_shape(I1, shape))] if choices.boolean() else [])]
    sketch.emit("assert", operands, message="x < n")
    return sketch.finish([sketch.drawn(I32)])


def _mostly_true(sketch: Sketch, shape: tuple[int, ...]) -> Value:
    stream = sketch.choices.stream()
    count = sketch.programs
    for extent in shape:
        count *= extent
    return sketch.argument(with_shape(I1, shape), [int(not stream.chance(3)) for _ in range(count)])


def assume(choices: Choices) -> Case:
    """A promise that is kept."""
    sketch = Sketch("assume", choices)
    value = sketch.drawn(I32)
    condition = sketch.value("cmp_eq_i", (value, value))
    sketch.emit("assume", (condition,))
    return sketch.finish([value])


def barrier(choices: Choices) -> Case:
    """Each program stores a tile, waits, and loads it in another order."""
    sketch = KernelSketch("barrier", choices, (choices.integer(1, 3), 1, 1))
    extent = choices.sample((2, 4, 8))
    data = sketch.buffer("data", I32, [0] * extent * sketch.programs)
    base = sketch.splat(sketch.value("mul_i", (sketch.program(), sketch.integer(extent))), (extent,))
    lane = sketch.numbers((extent,))
    here = sketch.value("add_i", (base, lane))
    square = sketch.value("mul_i", (here, here))
    sketch.emit("store", (sketch.at(data, here), square), cache="", eviction="")
    sketch.emit("barrier")
    swapped = sketch.value("xor", (lane, sketch.splat(sketch.integer(choices.integer(0, extent - 1)), (extent,))))
    found = sketch.read(data, sketch.value("add_i", (base, swapped)))
    sketch.write("out", here, found)
    return sketch.finish()


DEBUG_STRATEGIES: dict[str, Callable[[Choices], Case]] = {
    "print": print_,
    "assert": assert_,
    "assume": assume,
    "barrier": barrier,
}
