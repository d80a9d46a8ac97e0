"""Write the reductions by a fixed operation as `reduce` with a region, so that all later stages know one kind.

    %s = reduce_max_s %a {axis = 0}      ->     %s = reduce %a {axis = 0, ordered = false, tree = (0, 1)} {
                                                ^combine(%x: i32, %y: i32):
                                                  %m = max_s %x, %y
                                                  yield %m
                                                }

A sum of floats of fewer than 32 bits adds up in f32 and is rounded once, and `argmin` and `argmax` carry an index
along. All of these may be taken in any order: by pairs of neighbours, until it is recorded how the threads do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tilewright.lang import (
    F32,
    OPS,
    Block,
    Builder,
    FloatType,
    Module,
    Operation,
    ScalarType,
    Value,
    element_of,
    shape_of,
    with_element,
)

#: Builds in a region the combination of (accumulated values, next values).
Combine: TypeAlias = Callable[[Builder, list[Value], list[Value]], list[Value]]
#: The op that combines two elements.
STEPS = {
    "reduce_add_i": "add_i", "reduce_add_f": "add_f", "reduce_xor": "xor", "reduce_or": "or",
    "reduce_min_s": "min_s", "reduce_min_u": "min_u", "reduce_max_s": "max_s", "reduce_max_u": "max_u",
    "reduce_minnum": "minnum", "reduce_maxnum": "maxnum",
}  # fmt: skip
#: (better, equal) comparisons of the indexed reductions.
ORDERS = {
    "argmin_s": ("cmp_lt_s", "cmp_eq_i"), "argmin_u": ("cmp_lt_u", "cmp_eq_i"), "argmin_f": ("cmp_lt_f", "cmp_eq_f"),
    "argmax_s": ("cmp_gt_s", "cmp_eq_i"), "argmax_u": ("cmp_gt_u", "cmp_eq_i"), "argmax_f": ("cmp_gt_f", "cmp_eq_f"),
}  # fmt: skip


def expand_reductions(module: Module) -> bool:
    """Expand the reductions of the kernel."""
    found = [operation for operation in module.kernel.walk() if operation.name in STEPS or operation.name in ORDERS]
    for operation in found:
        builder = Builder()
        builder.at(operation)
        results = _indexed(builder, operation) if operation.name in ORDERS else [_simple(builder, operation)]
        for old, new in zip(operation.results, results, strict=True):
            new.name = old.name
            old.replace_uses(new)
        operation.erase()
    return bool(found)


def _simple(builder: Builder, operation: Operation) -> Value:
    """A reduction by one op."""
    (source,) = operation.operands
    element = element_of(source.type)
    narrow = operation.name == "reduce_add_f" and isinstance(element, FloatType) and element.width < 32
    if narrow:
        source = builder.value(OPS["cast_f"], [source], None, with_element(source.type, F32))
    step = OPS[STEPS[operation.name]]
    (made,) = _reduce(builder, operation, [source], lambda inside, a, b: [inside.value(step, [*a, *b])])
    return builder.value(OPS["cast_f"], [made], None, with_element(made.type, element)) if narrow else made


def _indexed(builder: Builder, operation: Operation) -> list[Value]:
    """The best element and where it is. Equal ones go to the smaller index, which is right for both kinds of ties."""
    (source,) = operation.operands
    axis: Any = operation.attributes["axis"]
    shape = shape_of(source.type)
    index = builder.value(OPS["arange"], (), {"start": 0, "end": shape[axis]})
    for at in range(len(shape)):
        if at != axis:
            index = builder.value(OPS["expand_dims"], [index], {"axis": at})
    if len(shape) > 1:
        index = builder.value(OPS["broadcast"], [index], {"shape": shape})

    def choose(inside: Builder, a: list[Value], b: list[Value]) -> list[Value]:
        better, equal = (inside.value(OPS[name], [b[0], a[0]]) for name in ORDERS[operation.name])
        if operation.name.endswith("_f"):  # NaN loses to every number, and equals itself
            nan, other = (inside.value(OPS["cmp_ne_f"], [each[0], each[0]]) for each in (a, b))
            number = inside.value(OPS["cmp_eq_f"], [b[0], b[0]])
            better = inside.value(OPS["or"], [better, inside.value(OPS["and"], [nan, number])])
            equal = inside.value(OPS["or"], [equal, inside.value(OPS["and"], [nan, other])])
        earlier = inside.value(OPS["and"], [equal, inside.value(OPS["cmp_lt_s"], [b[1], a[1]])])
        take = inside.value(OPS["or"], [better, earlier])
        return [inside.value(OPS["select"], [take, mine, his]) for mine, his in zip(b, a, strict=True)]

    return _reduce(builder, operation, [source, index], choose)


def _reduce(builder: Builder, operation: Operation, sources: list[Value], combine: Combine) -> list[Value]:
    """A `reduce` beside the operation, whose region `combine` builds."""
    elements: list[ScalarType] = [element_of(source.type) for source in sources]
    block = Block([*elements, *elements])
    inside = Builder(block)
    inside.location = operation.location
    half = len(elements)
    inside.create(OPS["yield"], combine(inside, block.arguments[:half], block.arguments[half:]))
    row, axis = OPS["reduce"], operation.attributes["axis"]
    assert isinstance(axis, int)
    extent = shape_of(sources[0].type)[axis]
    attributes = {"axis": axis, "ordered": False, "tree": tuple(range(extent.bit_length() - 1))}
    return list(builder.create(row, sources, attributes, regions=[block]).results)
