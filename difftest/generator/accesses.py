"""Loads, stores and atomics: rows from a kernel under construction to lines of it.

What a program reads is either never written, or written by the same program to places that are its own; so no order of
the programs is visible. Atomics meet only where their order cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TypeAlias

from tilewright.lang import FloatType

from ..choices import Choices
from ..oracles.formats import is_nan
from ..recipes import draw_codes, moderate
from .arrays import Parameter, draw_array, empty_array
from .maker import NUMERIC, Maker, Shared
from .numbers import (
    BOOL,
    FLOAT,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FP8E4B15,
    IN_MEMORY,
    INT,
    INT1,
    INT32,
    UINT,
    Number,
    literal,
)
from .operations import condition
from .skeleton import Opening
from .source import SCALAR, Expr

CACHES = ("", "", "", ', cache_modifier=".cg"', ', cache_modifier=".ca"', ', eviction_policy="evict_last"')
STORE_CACHES = ("", "", "", ', cache_modifier=".cs"', ', eviction_policy="evict_first"')


class Kernel(Maker):
    """A kernel under construction. `own`: arrays of which each program reads and writes only its own elements."""

    def __init__(self, choices: Choices, opening: Opening, shared: Shared) -> None:
        super().__init__(choices, opening.frame.shape, shared)
        self.opening = opening
        self.frame = opening.frame
        self.parameters: list[Parameter] = []
        self.own: list[Parameter] = []
        #: For an array that is part of another argument too: the name of that, and how many elements lie before.
        self.views: dict[str, tuple[str, int]] = {}
        self.uses_lane = False
        self.inside = opening.inside
        for line in opening.lines:
            self.text.line(line)
        self.opened = len(self.text.lines)

    def type_in_memory(self) -> Number:
        return self.choices.weighted(IN_MEMORY)

    def input(self, size: int, type_: Number) -> Parameter:
        """A new array to load from."""
        self.shared.arrays -= 1
        self.parameters.append(draw_array(self.choices, self.shared.fresh("x"), type_, size))
        return self.parameters[-1]

    def output(self, size: int, type_: Number, prefix: str = "out") -> Parameter:
        """A new array of zeros."""
        self.parameters.append(empty_array(self.choices, self.shared.fresh(prefix), type_, size))
        return self.parameters[-1]

    def pointer(self, array: Parameter, offset: str) -> str:
        """Addresses in an array, sometimes through another argument that shares its memory."""
        if not self.choices.boolean(15):
            return f"{array.name} + {offset}"
        name, before = self.views.get(array.name) or self._shared(array)
        return f"{name} + {before} + {offset}" if before else f"{name} + {offset}"

    def _shared(self, array: Parameter) -> tuple[str, int]:
        """A new argument, of which an array becomes the end, or all."""
        name, before = self.shared.fresh("same"), self.choices.sample((0, 1, 16))
        codes = (0,) * before + array.codes
        at = next(index for index, each in enumerate(self.parameters) if each.name == array.name)
        self.parameters[at] = replace(array, within=name, start=before)
        self.parameters.append(Parameter(name, array.type, codes, skipped=array.skipped))
        self.views[array.name] = name, before
        return name, before

    def number(self, type_: Number) -> Expr:
        """A number as a parameter, of a type that is written down."""
        (code,) = draw_codes(self.choices, type_.element, 1, ((moderate, 1),))
        if isinstance(type_.element, FloatType) and is_nan(code, type_.element):
            code = 0  # which of the NaNs a number is does not survive its way into the launch
        name = self.shared.fresh("a")
        self.parameters.append(Parameter(name, type_, (code,), is_array=False, annotation=f"tl.{type_.name}"))
        return Expr(name, type_)

    def rounds(self) -> str:
        """A small number as a parameter, which may become a constant."""
        name = self.shared.fresh("rounds")
        self.parameters.append(Parameter(name, INT32, (self.choices.integer(0, 4),), is_array=False))
        return name

    @property
    def lane(self) -> str:
        """The row-major number of each element of the tile, in a variable that is made at the top."""
        self.uses_lane = True
        return "lane"

    def lane_line(self) -> str:
        """The line that makes it."""
        if len(self.shape) == 1:
            return f"lane = tl.arange(0, {self.shape[0]})"
        if self.choices.boolean(25):
            return f"lane = tl.reshape(tl.arange(0, {prod(self.shape)}), {self.shape})"
        terms: list[str] = []
        for axis, extent in enumerate(self.shape):
            step = prod(self.shape[axis + 1 :])
            laid = f"tl.arange(0, {extent}){self.opening.along(axis)}"
            terms.append(laid if step == 1 else f"{laid} * {step}")
        return f"lane = {' + '.join(terms)}"

    def mask(self) -> tuple[str, bool]:
        """The mask of the tile, "" for none; and whether it has a condition more than that the element exists."""
        inside = self.opening.inside
        with self.choices.span():
            more = condition(self, self.tile) if self.choices.boolean(20) else None
        if more is None or not more.shape:
            return inside, False
        return (f"{inside} & ({more.text})" if inside else more.text), True


def given(**arguments: str) -> str:
    """Keyword arguments, those that are empty left out."""
    return "".join(f", {name}={value}" for name, value in arguments.items() if value)


# --- loads ---


def load_direct(kernel: Kernel) -> Expr:
    """Every program its own tile; without `other` the elements outside are unspecified."""
    array = kernel.input(kernel.frame.size, kernel.type_in_memory())
    if kernel.choices.boolean(35):
        kernel.own.append(array)
    return loaded(kernel, array)


def loaded(kernel: Kernel, array: Parameter, offset: str = "at") -> Expr:
    mask, more = kernel.mask()
    other = literal(kernel.choices, array.type) if more or (mask and kernel.choices.boolean(60)) else ""
    advice = kernel.choices.sample(CACHES)
    text = f"tl.load({kernel.pointer(array, offset)}{given(mask=mask, other=other)}{advice})"
    return Expr(text, array.type, kernel.shape, holes=bool(mask) and not other)


def load_own(kernel: Kernel) -> Expr:
    """What a program has stored itself, perhaps."""
    return loaded(kernel, kernel.choices.sample(kernel.own)) if kernel.own else load_direct(kernel)


def load_vector(kernel: Kernel) -> Expr:
    """One element for each row or column of the tile."""
    axis = kernel.choices.integer(0, len(kernel.shape) - 1)
    array = kernel.input(kernel.frame.extents[axis], kernel.type_in_memory())
    name, mask = kernel.frame.names[axis], kernel.opening.masks[axis]
    other = literal(kernel.choices, array.type) if mask and kernel.choices.boolean(60) else ""
    text = f"tl.load({array.name} + {name}{given(mask=mask, other=other)})"
    several = len(kernel.shape) > 1
    return Expr(text, array.type, (kernel.shape[axis],), axis if several else None, holes=bool(mask) and not other)


def load_scalar(kernel: Kernel) -> Expr:
    """One element for each program, or one for all."""
    each = kernel.choices.boolean()
    array = kernel.input(kernel.frame.programs if each else 1, kernel.type_in_memory())
    return Expr(f"tl.load({array.name} + pid)" if each else f"tl.load({array.name})", array.type)


def load_gathered(kernel: Kernel) -> Expr:
    """From a table, by index: any integer, cut to the size of the table."""
    size = kernel.choices.sample((8, 2, 32, 128))
    place = kernel.place()
    index = kernel.integer(place)
    array = kernel.input(size, kernel.type_in_memory())
    text = f"tl.load({array.name} + ({index.operand} & {size - 1}))"
    return Expr(text, array.type, index.shape, index.axis, holes=index.holes)


#: Maps of an index below `m`, with their weights: the text for an index `i`, and how many values there are.
_MAPS: tuple[tuple[Callable[[str, int], tuple[str, int]], int], ...] = (
    (lambda i, m: (f"{i} + 16", m + 16), 1),
    (lambda i, m: (f"{m} - {i}", m + 1), 6),
    (lambda i, m: (f"{i} % 4", 4), 2),
    (lambda i, m: (f"{i}.to(tl.uint32) % 2", 2), 4),
    (lambda i, m: (f"{i} // 4", (m + 3) // 4), 1),
    (lambda i, m: (f"{i}.to(tl.uint32) // 2", (m + 1) // 2), 2),
    (lambda i, m: (f"({i} & 3)", 4), 2),
    (lambda i, m: (f"({i} ^ 1)", m + 1), 1),
    (lambda i, m: (f"({i} >> 2)", (m + 3) // 4), 1),
    (lambda i, m: (f"{i} * 2 + 1", 2 * m), 2),
    (lambda i, m: (f"({i} | 4)", m + 4), 1),
    (lambda i, m: (f"tl.minimum({i}, 9)", 10), 1),
    (lambda i, m: (f"tl.where({i} < 8, {i}, 0)", 8), 1),
)


def load_mapped(kernel: Kernel) -> Expr:
    """At functions of the indices that an analysis of addresses knows something about, in one dimension or in all."""
    frame, rank = kernel.frame, len(kernel.shape)
    axes = list(range(rank)) if kernel.choices.boolean() else [kernel.choices.integer(0, rank - 1)]
    parts, size = list[str](), 1
    for axis in reversed(axes):
        whole = frame.shape[axis] * (1 if (mover := frame.axes[axis]) is None else frame.grid[mover])
        text, count = kernel.choices.weighted(_MAPS)(frame.names[axis], whole)
        laid = f"({text}){kernel.opening.along(axis)}" if len(axes) > 1 else f"({text})"
        parts.insert(0, laid if size == 1 else f"{laid} * {size}")
        size *= count
    array = kernel.input(size, kernel.type_in_memory())
    lone = rank > 1 and len(axes) == 1
    shape = kernel.shape if len(axes) == rank else (kernel.shape[axes[0]],)
    return Expr(f"tl.load({array.name} + {' + '.join(parts)})", array.type, shape, axes[0] if lone else None)


def load_block(kernel: Kernel) -> Expr:
    """Through a block pointer, whose bounds are checked."""
    frame, opening = kernel.frame, kernel.opening
    if len(frame.shape) > 2 or frame.planes > 1:
        return load_direct(kernel)
    array = kernel.input(frame.size, kernel.choices.weighted([row for row in IN_MEMORY if row[0] != INT1]))
    rank = range(len(frame.shape))
    parts = [
        ", ".join(str(value) for value in column) + ("," if len(frame.shape) == 1 else "")
        for column in (frame.extents, frame.strides, map(opening.start, rank), frame.shape, reversed(rank))
    ]
    name = kernel.shared.fresh("block")
    shown = ", ".join(f"({part})" for part in parts)
    kernel.text.line(f"{name} = tl.make_block_ptr({array.name}, {shown})")
    checked = ", ".join(map(str, rank)) + ("," if len(frame.shape) == 1 else "")
    return Expr(f'tl.load({name}, boundary_check=({checked}), padding_option="zero")', array.type, frame.shape)


Load: TypeAlias = Callable[[Kernel], Expr]
LOADS: tuple[tuple[Load, int], ...] = (
    (load_direct, 12), (load_scalar, 3), (load_vector, 4), (load_gathered, 3), (load_own, 6), (load_block, 2),
    (load_mapped, 12),
)  # fmt: skip


def load(kernel: Kernel) -> None:
    """A new variable with something from memory."""
    if kernel.shared.arrays > 0:
        kernel.let(kernel.choices.weighted(LOADS)(kernel))


# --- stores ---


def stored(kernel: Kernel, value: Expr) -> tuple[Expr, Number]:
    """A value to store, and the type in which it lies in memory."""
    if value.type == FP8E4B15:
        return value.cast(FLOAT16), FLOAT16
    return value, value.type


def store_tile(kernel: Kernel, value: Expr) -> None:
    """Every program to its own tile of a new array, in the value's type or a narrower one, which the store casts to."""
    value, type_ = stored(kernel, value)
    if type_.is_float and kernel.choices.boolean(20):
        type_ = kernel.choices.sample((FLOAT32, FLOAT16, FLOAT64))
    array = kernel.output(kernel.frame.size, type_)
    advice = kernel.choices.sample(STORE_CACHES)
    kernel.text.line(f"tl.store({array.name} + at, {value.text}{given(mask=kernel.mask()[0])}{advice})")


def store_own(kernel: Kernel, value: Expr) -> None:
    """In place: over what the same program loads."""
    fitting = [array for array in kernel.own if array.type.is_float or value.exact or not value.type.is_float]
    if not fitting or value.type == FP8E4B15:
        return store_tile(kernel, value)
    array = kernel.choices.sample(fitting)
    cast, pointer, mask = value.cast(array.type), kernel.pointer(array, "at"), given(mask=kernel.mask()[0])
    text = cast.text
    if array.type != INT1 and kernel.choices.boolean(70):  # alone between barriers, so that one between them may go
        kernel.text.line("tl.debug_barrier()")
        text = f"tl.load({pointer}{mask}) - {cast.operand}"
    kernel.text.line(f"tl.store({pointer}, {text}{mask})")


def store_few(kernel: Kernel, value: Expr) -> None:
    """A vector or a scalar, to places of the program's own."""
    value, type_ = stored(kernel, value)
    count = prod(value.shape)
    array = kernel.output(kernel.frame.programs * count, type_)
    where = "pid" if not value.shape else f"pid * {count} + tl.arange(0, {count})"
    mask = kernel.opening.masks[value.axis] if value.holes and value.axis is not None else ""
    kernel.text.line(f"tl.store({array.name} + {where}, {value.text}{given(mask=mask)})")


def store(kernel: Kernel) -> None:
    """Store a late variable."""
    if kernel.shared.stores <= 0:
        return
    kernel.shared.stores -= 1
    place = kernel.place()
    value = kernel.pick(place, (FLOAT, INT, UINT, BOOL))
    if value.axis is not None or (not value.shape and place == SCALAR):
        return store_few(kernel, value)
    kernel.choices.weighted(((store_tile, 7), (store_own, 4)))(kernel, value)


def exchange(kernel: Kernel) -> None:
    """Elements change places through memory of the program's own: what one lane stores another loads."""
    if kernel.shared.arrays <= 0:
        return
    kernel.shared.arrays -= 1
    own = kernel.specified(kernel.changing()) if kernel.choices.boolean(60) else []
    found = own or kernel.specified(kernel.candidates(kernel.tile, NUMERIC)) or [Expr("pid", INT32)]
    value, type_ = stored(kernel, kernel.choices.sample(found))
    count, lane = prod(kernel.shape), kernel.lane
    array = kernel.output(kernel.frame.programs * count, type_, "scratch")
    kernel.text.line(f"tl.store({kernel.pointer(array, f'pid * {count} + {lane}')}, {value.text})")
    moved = kernel.choices.sample((f"({count - 1} - {lane})", f"({lane} ^ 1)", f"(({lane} * 5 + 3) & {count - 1})"))
    if count == 1:
        moved = lane
    text = f"tl.load({kernel.pointer(array, f'pid * {count} + {moved}')})"
    made = kernel.let(Expr(text, type_, kernel.shape, None, value.exact, True))
    found = [v for v in kernel.changing() if v.shape == kernel.shape and v.type == type_ and v != made]
    if found:
        kernel.mix(kernel.choices.sample(found), made)
