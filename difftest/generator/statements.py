"""Statements: definitions, branches, loops and calls of functions, which are written when they are first called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

from .accesses import Kernel, exchange, load, store
from .atomics import atomic, private_atomic
from .expressions import expression
from .maker import Maker
from .numbers import BOOL, INT, INT32, UINT
from .operations import condition
from .pipelines import product
from .source import SCALAR, Expr, Place, blurred

#: Of a kernel, or of any function under construction.
Statement: TypeAlias = Callable[[Any], None]
#: (start, stop, step) of loops.
RANGES = ((0, 3, 1), (0, 1, 1), (1, 6, 2), (4, 0, -1), (2, 2, 1), (0, 4, 3))

#: The largest tile that is printed, one line an element.
MOST_LINES = 64
#: What happens in memory, with weights.
ACTIONS: tuple[tuple[Callable[[Kernel], None], int], ...] = (
    (load, 6), (store, 6), (exchange, 4), (atomic, 3), (private_atomic, 1),
)  # fmt: skip


def define(maker: Maker) -> None:
    """A new variable."""
    maker.let(expression(maker, maker.place()))


def act(maker: Maker) -> None:
    """Something with memory; functions have none."""
    if isinstance(maker, Kernel):
        maker.choices.weighted(ACTIONS)(maker)
    else:
        define(maker)


def update(maker: Maker) -> None:
    """A new value for a variable, of its type and shape, from the old one and another."""
    found = maker.changing()
    if not found:
        return define(maker)
    variable = maker.choices.sample(found)
    maker.mix(variable, maker.alike(variable.place, variable, (variable.type.kind,)))


def branch(kernel: Kernel) -> None:
    """An `if` on a scalar, perhaps with an `else`; all changes are to variables from before."""
    flag = condition(kernel, SCALAR)
    if kernel.choices.boolean(15):  # known when compiling, though not to the frontend
        flag = kernel.let(replace(flag, text=str(kernel.choices.boolean())))
    with kernel.block(f"if {flag.text}:"):
        statements(kernel, 2, SIMPLE)
    if kernel.choices.boolean(25):
        with kernel.block(f"elif {condition(kernel, SCALAR).text}:"):
            statements(kernel, 1, SIMPLE)
    if kernel.choices.boolean():
        with kernel.block("else:"):
            statements(kernel, 2, SIMPLE)


def leave(kernel: Kernel) -> None:
    """Some programs end here."""
    with kernel.block(f"if {condition(kernel, SCALAR).text}:"):
        kernel.text.line("return")


def promise(kernel: Kernel) -> None:
    """What changes nothing: a promise that holds, or a barrier."""
    kernel.text.line(kernel.choices.sample(("tl.assume(pid >= 0)", "tl.debug_barrier()")))


def show(maker: Maker) -> None:
    """Print a few integers, which every implementation writes alike."""
    found = [v for v in maker.candidates(maker.tile, (INT, UINT, BOOL)) if not v.holes and prod(v.shape) <= MOST_LINES]
    if not found:
        return define(maker)
    values = [maker.choices.sample(found) for _ in range(maker.choices.integer(1, 2))]
    base = ", hex=True" if maker.choices.boolean(20) else ""
    maker.text.line(f'tl.device_print("{values[0].text}", {", ".join(value.text for value in values)}{base})')


def conditional_value(kernel: Kernel) -> None:
    """`a if c else b`, which runs the side that it takes."""
    place = kernel.place()
    a, b = (kernel.pick(place) for _ in range(2))
    if a.shape != b.shape or a.type != b.type:
        return define(kernel)
    flag = condition(kernel, SCALAR)
    kernel.let(blurred(replace(a, text=f"{a.text} if {flag.text} else {b.text}", simple=False), b))


def carried(kernel: Kernel) -> set[str]:
    """The variables that a loop may change: two at most, of which nothing is known any more inside."""
    found = kernel.changing()
    chosen = {kernel.choices.sample(found).text for _ in range(2)} if found else set[str]()
    for variable in [v for v in kernel.scope if v.text in chosen]:
        is_float, masks = variable.type.is_float, kernel.opening.masks
        holes = bool(variable.shape and kernel.opening.inside) if variable.axis is None else bool(masks[variable.axis])
        kernel.forget(variable, replace(variable, exact=not is_float, product=is_float, holes=holes))
    return chosen


def body(kernel: Kernel, chosen: set[str], may_leave: bool = True) -> None:
    """A few statements that change what is carried, and sometimes leave the loop, or go on, early."""
    before, kernel.changeable = kernel.changeable, chosen
    statements(kernel, 3, BODIES)
    update(kernel)
    if may_leave and kernel.choices.boolean(20):
        flag = condition(kernel, SCALAR)
        with kernel.block(f"if {flag.text}:"):
            kernel.text.line(kernel.choices.sample(("break", "continue")))
        update(kernel)
    kernel.changeable = before


def count(kernel: Kernel) -> None:
    """A `for` over a range, unrolled by the frontend or not, its bounds known or not."""
    chosen, name = carried(kernel), kernel.shared.fresh("t")
    start, stop, step = kernel.choices.sample(RANGES)
    function = kernel.choices.weighted((("range", 5), ("tl.range", 2), ("tl.static_range", 2)))
    unrolled = function == "tl.static_range"
    last = kernel.rounds() if (start, step) == (0, 1) and not unrolled and kernel.choices.boolean() else stop
    with kernel.block(f"for {name} in {function}({start}, {last}, {step}):"):
        if not unrolled:
            kernel.scope.append(Expr(name, INT32))
        body(kernel, chosen, may_leave=not unrolled)


def repeat(kernel: Kernel) -> None:
    """A `while` that counts."""
    chosen, name = carried(kernel), kernel.shared.fresh("t")
    limit = kernel.choices.integer(0, 4)
    kernel.text.line(f"{name} = {kernel.choices.sample(('0', 'pid'))}")
    more = f" and {condition(kernel, SCALAR).operand}" if kernel.choices.boolean(20) else ""
    with kernel.block(f"while {name} < {limit}{more}:"):
        kernel.scope.append(Expr(name, INT32))
        kernel.text.line(f"{name} += 1")
        body(kernel, chosen)


def call(kernel: Kernel) -> None:
    """A call of a new device function of some variables; its results are new variables."""
    if kernel.shared.counts.get("f", -1) >= 1:
        return define(kernel)
    place = kernel.place()
    given = [kernel.pick(place) for _ in range(kernel.choices.integer(1, 3))]
    inner = Maker(kernel.choices, kernel.shape, kernel.shared)
    parameters = [value.named(name) for value, name in zip(given, "xyz", strict=False)]
    inner.scope += parameters
    flag = kernel.choices.boolean(30)
    made = _function_body(inner, place, flag)
    name = kernel.shared.fresh("f")
    head = ", ".join([*(p.text for p in parameters), *(["FLAG: tl.constexpr"] if flag else [])])
    lines = [f"def {name}({head}):", *inner.text.lines, f"    return {', '.join(m.text for m in made)}"]
    kernel.shared.functions.append("\n".join(["@tilewright.jit", *lines]))
    arguments = ", ".join([*(value.text for value in given), *([str(kernel.choices.boolean())] if flag else [])])
    results = [kernel.shared.fresh("v") for _ in made]
    kernel.text.line(f"{', '.join(results)} = {name}({arguments})")
    for result, value in zip(results, made, strict=True):
        kernel.declare(value.named(result))


def _function_body(inner: Maker, place: Place, flag: bool) -> list[Expr]:
    """The statements of a function, and what it returns: one value or two."""
    statements(inner, 3, SIMPLE)
    results = [inner.let(expression(inner, place))]
    if flag:
        inner.changeable = {results[0].text}
        with inner.block("if FLAG:"):
            update(inner)
        results = [v for v in inner.scope if v.text == results[0].text]
    if inner.choices.boolean(30):
        results.append(inner.let(expression(inner, place)))
    return results


SIMPLE: tuple[tuple[Statement, int], ...] = ((define, 5), (update, 4), (act, 4))
BODIES: tuple[tuple[Statement, int], ...] = (*SIMPLE, (branch, 2))
STATEMENTS: tuple[tuple[Statement, int], ...] = (
    (define, 30), (act, 13), (update, 3), (branch, 4), (count, 4), (repeat, 2), (call, 4), (conditional_value, 2),
    (leave, 1), (promise, 1), (show, 2), (product, 5),
)  # fmt: skip


def statements(maker: Maker, most: int, options: tuple[tuple[Statement, int], ...] = STATEMENTS) -> None:
    """Some statements in a row, seldom none of them."""
    for _ in maker.choices.repeat(most, 88 if most > 3 else 80):
        maker.choices.weighted(options)(maker)
