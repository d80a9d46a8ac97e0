"""Strategies for structured control flow, calls and terminators."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.lang import I1, I32, INTS, NUMBERS, IntType, Type, Value, with_shape

from ..cases import Case
from ..choices import Choices
from .bodies import derived, filled
from .sketch import Sketch

#: The longest loop.
MOST_TRIPS = 6


def carried_types(sketch: Sketch) -> list[Type]:
    """Types of one to three values that a region passes on; some of the same type, so that they can change places."""
    first = with_shape(sketch.choices.sample(NUMBERS), sketch.shape())
    more = [first] * sketch.choices.integer(0, 1)
    if sketch.choices.boolean(30):
        more.append(with_shape(sketch.choices.sample(NUMBERS), sketch.shape()))
    return [first, *more]


def choice(sketch: Sketch, condition: Value, types: list[Type]) -> tuple[Value, ...]:
    """An `if` whose regions make values of these types from what is in scope."""
    then, other = (filled(sketch, sketch.region(()), types) for _ in range(2))
    return sketch.emit("if", (condition,), types, (then, other)).results


def if_(choices: Choices, row: str = "if") -> Case:
    """Programs of one batch on either side; perhaps a second `if` on what came out of the first."""
    sketch = Sketch(row, choices)
    types = carried_types(sketch)
    for type_ in types:
        sketch.drawn(type_)
    results = choice(sketch, sketch.drawn(I1), types)
    if choices.boolean(30):
        results = choice(sketch, sketch.drawn(I1), types)
    return sketch.finish(results)


def loop_bounds(choices: Choices, element: IntType, unsigned: bool) -> tuple[int, int, int]:
    """Codes of start, stop and step for a loop of at most `MOST_TRIPS` rounds; now and then a step of 0."""
    low, high = (0, 2**element.width - 1) if unsigned else (-(2 ** (element.width - 1)), 2 ** (element.width - 1) - 1)
    if choices.boolean(3):
        return 0, min(1, high) & (2**element.width - 1), 0
    step = choices.sample([step for step in (1, 2, 3, 7, -1, -2, -5) if low <= step <= high])
    anchors = (0, low, high, low + 1, high - 1, -3, 5)
    start = choices.sample([anchor for anchor in anchors if low <= anchor <= high])
    trips = choices.integer(0, MOST_TRIPS)
    stop = start + step * trips - choices.integer(0, abs(step) - 1) * (1 if step > 0 else -1) if trips else start
    if choices.boolean(10):
        stop = start - step  # on the wrong side: no rounds
    stop = min(max(stop, low), high)
    return start % 2**element.width, stop % 2**element.width, step % 2**element.width


def for_(choices: Choices) -> Case:
    """A loop whose bounds may differ between programs, which may hold an `if` on what it carries."""
    sketch = Sketch("for", choices)
    element, unsigned = choices.sample((I32, *INTS)), choices.boolean(25)
    bounds = [loop_bounds(choices, element, unsigned) for _ in range(sketch.programs)]
    if choices.boolean(40):
        bounds = bounds[:1]
    values = [sketch.argument(element, codes) for codes in zip(*bounds, strict=True)]
    types = carried_types(sketch)
    inits = [sketch.operand(type_) for type_ in types]
    body = sketch.region([element, *types])
    if choices.boolean(40):
        outer = sketch.builder, sketch.scope
        sketch.inside(body, sketch.scope)
        condition = sketch.value("cmp_eq_i", (body.arguments[0], choices.sample(values)))
        results = choice(sketch, condition, types)
        sketch.emit("yield", [derived(sketch, r.type) if choices.boolean() else r for r in results])
        sketch.builder, sketch.scope = outer
    else:
        filled(sketch, body, types)
    attributes = {"unsigned": unsigned, "num_stages": choices.integer(0, 3)}
    return sketch.finish(sketch.emit("for", [*values, *inits], types, (body,), **attributes).results)


def while_(choices: Choices, row: str = "while") -> Case:
    """A countdown, each program from its own number; `before` may pass on other values than it took."""
    sketch = Sketch(row, choices)
    counts = [choices.integer(0, MOST_TRIPS) for _ in range(sketch.programs)]
    counter = sketch.argument(I32, counts)
    types = carried_types(sketch)
    inits = [sketch.operand(type_) for type_ in types]
    passed: list[Type] = [I32, *types, *([types[0]] if choices.boolean(30) else [])]

    outer = sketch.builder, sketch.scope
    before = sketch.region([I32, *types])
    sketch.inside(before, sketch.scope)
    flag = sketch.value("cmp_gt_s", (before.arguments[0], sketch.integer(0)))
    values = [derived(sketch, type_) for type_ in passed[1:]]
    sketch.emit("condition", [flag, before.arguments[0], *values])

    after = sketch.region(passed)
    sketch.inside(after, outer[1])
    left = sketch.value("sub_i", (after.arguments[0], sketch.integer(1)))
    sketch.emit("yield", [left, *(derived(sketch, type_) for type_ in types)])
    sketch.builder, sketch.scope = outer
    return sketch.finish(sketch.emit("while", [counter, *inits], passed, (before, after)).results)


def call(choices: Choices) -> Case:
    """A device function of up to three arguments, called once or twice, which may itself call another one."""
    sketch = Sketch("call", choices)
    types = carried_types(sketch)
    home = sketch.builder, sketch.scope
    for name in ("inner", "callee")[choices.integer(0, 1) :]:
        function = sketch.function(name, types, types)
        sketch.inside(function.body)
        if name == "callee" and "inner" in sketch.module.functions:
            sketch.emit("call", function.arguments, types, callee="inner")
        sketch.emit("return", [derived(sketch, type_) for type_ in types])
    sketch.builder, sketch.scope = home
    operands = [sketch.operand(type_) for type_ in types]
    results = sketch.emit("call", operands, types, callee="callee").results
    if choices.boolean():
        results = sketch.emit("call", results, types, callee="callee").results
    return sketch.finish(results)


def return_(choices: Choices) -> Case:
    """Several results, some of them twice, and some arguments as they are."""
    sketch = Sketch("return", choices)
    types = carried_types(sketch)
    values = [sketch.operand(type_) for type_ in types]
    return sketch.finish([choices.sample(values) for _ in range(choices.integer(1, 4))])


CONTROL_STRATEGIES: dict[str, Callable[[Choices], Case]] = {
    "if": if_,
    "for": for_,
    "while": while_,
    "call": call,
    "return": return_,
    "yield": lambda choices: if_(choices, "yield"),
    "condition": lambda choices: while_(choices, "condition"),
}
