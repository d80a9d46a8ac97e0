"""What goes into regions: a few elementwise ops on values in scope, of the types that are wanted at the end."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import Block, FloatType, IntType, ScalarType, Type, Value, element_of

from .sketch import Canvas

#: Binary ops that any type of a kind takes.
INTEGER_OPS = ("add_i", "sub_i", "mul_i", "and", "or", "xor", "min_s", "max_u", "shl", "div_s", "rem_u")
FLOAT_OPS = ("add_f", "sub_f", "mul_f", "minnum", "maximum")


def binary_op(canvas: Canvas, element: ScalarType) -> str | None:
    """An op that takes two values of an element type; None for pointers."""
    if isinstance(element, IntType):
        return canvas.choices.sample(INTEGER_OPS)
    return canvas.choices.sample(FLOAT_OPS) if isinstance(element, FloatType) else None


def derived(canvas: Canvas, type_: Type) -> Value:
    """A value of a type, from those in scope (at least one has it): one of them, or two combined."""
    present = [value for value in canvas.scope if value.type == type_]
    first = canvas.choices.sample(present)
    name = binary_op(canvas, element_of(type_))
    if name is None or canvas.choices.boolean(30):
        return first
    return canvas.value(name, (first, canvas.choices.sample(present)))


def filled(
    canvas: Canvas, block: Block, types: Sequence[Type], ending: str = "yield", lead: Sequence[Value] = ()
) -> Block:
    """End a block with values of these types, made from what is in scope there, and return to where it was made."""
    outer = canvas.builder, canvas.scope
    canvas.inside(block, canvas.scope)
    values = [derived(canvas, type_) for type_ in types]
    canvas.emit(ending, [*lead, *values])
    canvas.builder, canvas.scope = outer
    return block


def combining(canvas: Canvas, elements: Sequence[ScalarType]) -> Block:
    """The region of a `reduce`: from N accumulated and N next scalars to N.

    Either each pair is combined by an op, or all follow the better one by a comparison of the first pair.
    """
    outer = canvas.builder, canvas.scope
    block = canvas.region([*elements, *elements])
    canvas.inside(block)
    count = len(elements)
    old, new = block.arguments[:count], block.arguments[count:]
    if canvas.choices.boolean(40):
        less = "cmp_lt_f" if isinstance(elements[0], FloatType) else "cmp_lt_s"
        better = canvas.value(less, (old[0], new[0]))
        results = [canvas.value("select", (better, a, b)) for a, b in zip(old, new, strict=True)]
    else:
        results = [_paired(canvas, a, b) for a, b in zip(old, new, strict=True)]
    canvas.emit("yield", results)
    canvas.builder, canvas.scope = outer
    return block


def _paired(canvas: Canvas, a: Value, b: Value) -> Value:
    name = binary_op(canvas, element_of(a.type))
    assert name is not None
    return canvas.value(name, (a, b))
