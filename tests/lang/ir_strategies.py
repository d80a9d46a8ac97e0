"""Hypothesis strategies for well-typed modules that the verifier accepts; every row of the op tables can be drawn.

`modules()` draws from all rows, `modules(rows=["dot"], size=1)` is sure to hold a `dot`. The programs are well formed,
not sensible: they may load from any address and loop for ever, so they are for printing, parsing, checking and
rewriting, not for running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any, TypeAlias, TypeVar

from hypothesis import strategies as st

from tilewright.lang import (
    FLOATS,
    I1,
    I32,
    I64,
    INTS,
    NUMBERS,
    OPS,
    POINTERS,
    UNKNOWN_LOCATION,
    Block,
    Builder,
    FloatType,
    Function,
    IntType,
    Location,
    Module,
    OpDef,
    Operation,
    OpTypeError,
    PointerType,
    ScalarType,
    TileType,
    Type,
    Value,
    element_of,
    shape_of,
    stage_slots,
    with_shape,
)
from tilewright.lang.layout import LinearLayout

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]

SCALARS: tuple[ScalarType, ...] = (*NUMBERS, *POINTERS)
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (4,), (2, 4), (8, 1), (2, 2, 4))
TILE_SHAPES = SHAPES[1:]
LAYOUT = LinearLayout.identity(4, "lane", "dim0")
HINTS = ("", "", "acc", "x", "x_1", "_", "if", "é", "a b", '"', "0", "x.1")
FUNCTION_NAMES = ("helper", "mod.helper", "f$1", "a b", 'say "hi"\n', "λ", "", "0")
MAX_DEPTH = 2

#: How an operation of each row that is not elementwise is made, given the row's name. `maker` fills it; terminators
#: come with their regions.
Make: TypeAlias = "Callable[[Growth, str], object]"
MAKERS: dict[str, Make] = {}


def scalar_types() -> st.SearchStrategy[ScalarType]:
    """Every number and pointer type."""
    return st.sampled_from(SCALARS)


@st.composite
def types(draw: Draw[Any], elements: Sequence[ScalarType] = SCALARS) -> Type:
    """Scalars and small tiles of the elements, now and then with a layout."""
    type_ = with_shape(draw(st.sampled_from(elements)), draw(st.sampled_from(SHAPES)))
    if shape_of(type_) == (4,) and draw(st.booleans()):
        return TileType((4,), element_of(type_), LAYOUT)
    return type_


def attribute_values() -> st.SearchStrategy[Any]:
    """Every kind of attribute value, nested tuples included."""
    leaves = st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=5), types())
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def attribute_dictionaries() -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of a module, a function or an argument."""
    names = st.sampled_from(("divisibility", "noinline", "tw.arch", "a b", "é"))
    return st.dictionaries(names, attribute_values(), max_size=2)


def locations() -> st.SearchStrategy[Location]:
    """Known locations, some of inlined code."""
    sources = st.sampled_from(("mod.kernel", 'a "b"\n', "é"))
    place = st.builds(Location, sources, st.integers(1, 99), st.integers(1, 99))
    return st.one_of(place, st.builds(Location, sources, st.just(7), st.just(3), place))


@st.composite
def modules(draw: Draw[Any], rows: Sequence[str] | None = None, size: int = 6) -> Module:
    """A kernel with `size` drawn operations (and what they need) and the device functions that it calls.

    With `rows` every drawn operation, down to the depth where regions stay plain, is of one of these.
    """
    return Growth(draw, tuple(ROWS if rows is None else rows)).module(size)


class Growth:
    """A module while it is drawn: the place where operations are made, and the values in scope there."""

    def __init__(self, draw: Draw[Any], rows: Sequence[str]) -> None:
        self.draw = draw
        self.rows = rows
        self.result = Module()
        self.builder = Builder()
        self.scope: list[Value] = []
        self.depth = 0
        self.located = False

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def shape(self) -> tuple[int, ...]:
        return self.pick(SHAPES)

    def types(self, most: int = 2) -> list[Type]:
        return self.draw(st.lists(types(), max_size=most))

    # Functions and regions

    def module(self, size: int) -> Module:
        self.result.attributes.update(self.draw(attribute_dictionaries()))
        arguments = self.draw(st.lists(scalar_types(), max_size=3))
        self.function("kernel", arguments, (), size)
        return self.result

    def function(self, name: str, arguments: Sequence[Type], results: Sequence[Type], size: int) -> Function:
        outer = self.located, self.builder.location
        self.located = self.flag()
        location = self.draw(locations()) if self.located else UNKNOWN_LOCATION
        body = Block(arguments, [self.pick(HINTS) for _ in arguments])
        attributes = [self.draw(attribute_dictionaries()) for _ in arguments]
        function = Function(name, body, tuple(results), self.draw(attribute_dictionaries()), attributes, location)
        self.result.add(function)
        self.fill(body, [], size, "return", results)
        self.located, self.builder.location = outer
        return function

    def region(
        self, arguments: Sequence[Type], results: Sequence[Type], ending: str = "yield", size: int | None = None
    ) -> Block:
        """A block that may use what is in scope."""
        block = Block(arguments, [self.pick(HINTS) for _ in arguments])
        self.fill(block, self.scope, self.draw(st.integers(0, 2)) if size is None else size, ending, results)
        return block

    def fill(self, block: Block, scope: Sequence[Value], size: int, ending: str, results: Sequence[Type]) -> None:
        with self.inside(block, scope):
            for _ in range(size):
                self.grow()
            flag = [self.value(I1)] if ending == "condition" else []
            self.emit(ending, flag + [self.value(type_) for type_ in results])

    @contextmanager
    def inside(self, block: Block, scope: Sequence[Value]) -> Iterator[None]:
        outer = self.builder, self.scope
        self.builder, self.scope = Builder(block), [*scope, *block.arguments]
        self.depth += 1
        yield
        self.depth -= 1
        self.builder, self.scope = outer

    # Operations and values

    def grow(self) -> None:
        """Make an operation of a drawn row."""
        rows = self.rows
        if self.depth > MAX_DEPTH:
            rows = [row for row in rows if row not in NESTING] or ["poison"]
        name = self.pick(rows)
        if name in MAKERS:
            MAKERS[name](self, name)
        else:
            self.elementwise(OPS[name])

    def elementwise(self, row: OpDef) -> None:
        operands, result = self.pick(row.signatures)
        shape = self.shape()
        layout = LAYOUT if shape == (4,) and self.flag() else None
        of = [TileType(shape, t, layout) if shape else t for t in (*operands, result)]
        self.emit(row.name, [self.value(t) for t in of[:-1]], types=[of[-1]])

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        types: Sequence[Type] | None = None,
        regions: Sequence[Block] = (),
        **given: Any,
    ) -> Operation:
        """Make an operation, with drawn names, location and those attributes that are not given."""
        row = OPS[name]
        self.builder.location = self.draw(locations()) if self.located else UNKNOWN_LOCATION
        operation = self.builder.create(row, operands, self.attributes(row, given), types, regions)
        for result in operation.results:
            result.name = self.pick(HINTS)
        self.scope += operation.results
        return operation

    def attributes(self, row: OpDef, given: Mapping[str, Any]) -> dict[str, Any]:
        chosen = dict(given)
        for attribute in row.attributes:
            if attribute.name in given or attribute.kind is tuple:
                continue
            if attribute.choices:
                chosen[attribute.name] = self.pick(attribute.choices)
            else:
                kinds: dict[Any, st.SearchStrategy[Any]] = {bool: st.booleans(), int: st.integers(0, 8)}
                chosen[attribute.name] = self.draw(kinds.get(attribute.kind, st.text(max_size=8)))
        return chosen

    def value(self, type_: Type) -> Value:
        """A value in scope of this type, or a new one."""
        present = [value for value in self.scope if value.type == type_]
        if present and self.flag():
            return self.pick(present)
        if self.flag():
            return self.emit("poison", types=[type_]).result
        return self.constant(type_)

    def constant(self, type_: Type) -> Value:
        element = element_of(type_)
        if isinstance(element, FloatType):
            literal: int | float = self.draw(st.floats())
        elif isinstance(element, IntType):
            literal = self.draw(st.integers(-(1 << element.width - 1), (1 << element.width) - 1))
        else:
            literal = 0
        return self.emit("constant", types=[type_], value=literal).result

    def of(self, elements: Sequence[ScalarType], shapes: Sequence[tuple[int, ...]] = SHAPES) -> Value:
        """A value of one of the elements and one of the shapes."""
        return self.value(with_shape(self.pick(elements), self.pick(shapes)))


def maker(*names: str) -> Callable[[Make], Make]:
    """Register how operations of these rows are made."""

    def register(make: Make) -> Make:
        MAKERS.update(dict.fromkeys(names, make))
        return make

    return register


def accepts(name: str, types: Sequence[Type], attributes: Mapping[str, Any]) -> bool:
    """Whether the row's type rule takes the operands."""
    try:
        OPS[name].rule(types, attributes, None)
    except OpTypeError:
        return False
    return True


@cache
def reducible(name: str) -> tuple[ScalarType, ...]:
    """The elements that a reduction takes."""
    return tuple(t for t in NUMBERS if accepts(name, [TileType((4,), t)], {"axis": 0}))


@cache
def accessible(name: str, count: int, kind: str = "") -> tuple[PointerType, ...]:
    """The pointers that an access takes with `count` values of their pointee."""
    return tuple(p for p in POINTERS if accepts(name, [p, *[p.pointee] * count], {"kind": kind}))


@cache
def dot_elements() -> tuple[tuple[ScalarType, ...], ...]:
    """The element types of a, b and acc that `dot` takes."""
    return tuple(ts for ts in product(NUMBERS, repeat=3) if accepts("dot", [TileType((2, 2), t) for t in ts], {}))


# Making values and changing their shape

maker("constant")(lambda g, _: g.constant(g.draw(types())))
maker("poison")(lambda g, name: g.emit(name, types=[g.draw(types())]))
maker("program_id", "num_programs", "barrier")(lambda g, name: g.emit(name))
maker("join")(lambda g, name: g.emit(name, [g.value(t) for t in [g.draw(types())] * 2]))
maker("split")(lambda g, name: g.emit(name, [g.of(SCALARS, [(2,), (4, 2)])]))
maker("splat")(lambda g, name: g.emit(name, [g.of(SCALARS, [()])], shape=g.shape()))


@maker("arange")
def _arange(g: Growth, name: str) -> object:
    start = g.pick([0, -4, 3])
    return g.emit(name, start=start, end=start + g.pick([1, 4, 8]))


@maker("broadcast")
def _broadcast(g: Growth, name: str) -> object:
    operand = g.of(SCALARS, TILE_SHAPES)
    return g.emit(name, [operand], shape=tuple(2 if n == 1 else n for n in shape_of(operand.type)))


@maker("expand_dims")
def _expand_dims(g: Growth, name: str) -> object:
    operand = g.of(SCALARS)
    return g.emit(name, [operand], axis=g.draw(st.integers(0, len(shape_of(operand.type)))))


@maker("reshape")
def _reshape(g: Growth, name: str) -> object:
    return g.emit(name, [g.of(SCALARS, [(8,), (2, 4), (8, 1)])], shape=g.pick([(8,), (4, 2), (1, 8), (2, 2, 2)]))


@maker("permute")
def _permute(g: Growth, name: str) -> object:
    operand = g.of(SCALARS, TILE_SHAPES)
    order = g.draw(st.permutations(range(len(shape_of(operand.type)))))
    return g.emit(name, [operand], order=tuple(order))


@maker("add_ptr")
def _add_ptr(g: Growth, name: str) -> object:
    shape = g.shape()
    return g.emit(name, [g.of(POINTERS, [shape]), g.of(INTS[1:], [shape])])


@maker("hint")
def _hint(g: Growth, name: str) -> object:
    operand = g.of([I32, I64, *POINTERS])
    promise = (16,) * max(1, len(shape_of(operand.type)))
    return g.emit(name, [operand], divisibility=promise, constancy=promise if g.flag() else ())


@maker("convert_layout")
def _convert_layout(g: Growth, name: str) -> object:
    return g.emit(name, [g.of(SCALARS, TILE_SHAPES)])


# Buffers

maker("async_commit")(lambda g, name: g.emit(name))
maker("async_wait")(lambda g, name: g.emit(name, [_buffer(g) for _ in range(g.pick([0, 1, 2]))]))


def _buffer(g: Growth) -> Value:
    """A tile that could be a buffer, or a new buffer."""
    stages, shape = g.pick([1, 2, 3, 4]), g.pick(TILE_SHAPES)
    type_ = TileType((stage_slots(stages), *shape), g.pick(NUMBERS))
    return g.value(type_) if g.flag() else g.emit("local_alloc", types=[type_], stages=stages).result


@maker("local_alloc")
def _local_alloc(g: Growth, name: str) -> object:
    stages = g.pick([1, 2, 3, 4])
    type_ = TileType((stage_slots(stages), *g.pick(TILE_SHAPES)), g.pick(NUMBERS))
    return g.emit(name, types=[type_], stages=stages)


@maker("async_copy")
def _async_copy(g: Growth, name: str) -> object:
    buffer = _buffer(g)
    shape, element = shape_of(buffer.type)[1:], element_of(buffer.type)
    assert not isinstance(element, PointerType)
    mask = [g.value(TileType(shape, I1))] if g.flag() else []
    return g.emit(name, [g.value(TileType(shape, PointerType(element))), buffer, g.value(I32), g.value(I1), *mask])


@maker("local_store")
def _local_store(g: Growth, name: str) -> object:
    buffer = _buffer(g)
    return g.emit(name, [buffer, g.value(I32), g.value(TileType(shape_of(buffer.type)[1:], element_of(buffer.type)))])


@maker("local_load")
def _local_load(g: Growth, name: str) -> object:
    buffer = _buffer(g)
    if g.flag():
        return g.emit(name, [buffer, g.value(I32)])
    _, *extents = shape_of(buffer.type)
    part = TileType((1, *extents[1:]), element_of(buffer.type))
    return g.emit(name, [buffer, g.value(I32)], (part,), first=(extents[0] - 1, *(0 for _ in extents[1:])))


# Memory


def _access(g: Growth, name: str, values: int, masked: bool, **given: Any) -> None:
    """A pointer, `values` values of its pointee and perhaps a mask (after which a load may have another value)."""
    shape = g.shape()
    pointer = g.pick(accessible(name, values, given.get("kind", "")))
    operands = [g.value(with_shape(t, shape)) for t in (pointer, *[pointer.pointee] * values)]
    if masked and g.flag():
        operands.append(g.value(with_shape(I1, shape)))
        if name == "load" and g.flag():
            operands.append(g.value(with_shape(pointer.pointee, shape)))
    g.emit(name, operands, **given)


maker("load", "atomic_load")(lambda g, name: _access(g, name, 0, True))
maker("store", "atomic_store")(lambda g, name: _access(g, name, 1, True))
maker("atomic_cas")(lambda g, name: _access(g, name, 2, False))


@maker("atomic_rmw")
def _atomic_rmw(g: Growth, name: str) -> object:
    kinds = next(a.choices for a in OPS[name].attributes if a.name == "kind")
    return _access(g, name, 1, True, kind=g.pick(kinds))


@maker("atomic_poll")
def _atomic_poll(g: Growth, name: str) -> object:
    pointer = g.pick(accessible(name, 1))
    timeout = [g.value(I64)] if g.flag() else []
    return g.emit(name, [g.value(pointer), g.value(pointer.pointee), *timeout])


# Reductions and the matrix product


@maker(*[name for name in OPS if name.startswith(("reduce_", "argmin_", "argmax_"))])
def _reduction(g: Growth, name: str) -> object:
    operand = g.of(reducible(name), TILE_SHAPES)
    return g.emit(name, [operand], axis=g.draw(st.integers(0, len(shape_of(operand.type)) - 1)))


@maker("reduce")
def _reduce(g: Growth, name: str) -> object:
    shape = g.pick(TILE_SHAPES)
    elements = g.draw(st.lists(scalar_types(), min_size=1, max_size=2))
    operands = [g.value(with_shape(t, shape)) for t in elements]
    combine = g.region([*elements, *elements], elements)
    return g.emit(name, operands, regions=[combine], axis=g.draw(st.integers(0, len(shape) - 1)))


@maker("dot")
def _dot(g: Growth, name: str) -> object:
    batch = g.pick([(), (2,)])
    m, n, k = (g.pick([1, 2, 4]) for _ in range(3))
    shapes = ((*batch, m, k), (*batch, k, n), (*batch, m, n))
    elements = g.pick(dot_elements())
    return g.emit(name, [g.value(with_shape(t, shape)) for t, shape in zip(elements, shapes, strict=True)])


# Control flow, calls and prints


@maker("for")
def _for(g: Growth, name: str) -> object:
    index, carried = g.pick(INTS), g.types()
    operands = [g.value(t) for t in (index, index, index, *carried)]
    return g.emit(name, operands, carried, [g.region([index, *carried], carried)])


@maker("while")
def _while(g: Growth, name: str) -> object:
    carried, passed = g.types(), g.types()
    operands = [g.value(t) for t in carried]
    before = g.region(carried, passed, "condition")
    return g.emit(name, operands, passed, [before, g.region(passed, carried)])


@maker("if")
def _if(g: Growth, name: str) -> object:
    results = g.types()
    return g.emit(name, [g.value(I1)], results, [g.region([], results), g.region([], results)])


@maker("call")
def _call(g: Growth, name: str) -> object:
    arguments, results = g.types(), g.types()
    callee = f"{g.pick(FUNCTION_NAMES)}{len(g.result.functions)}"
    operands = [g.value(t) for t in arguments]
    g.function(callee, arguments, results, 1)
    return g.emit(name, operands, results, callee=callee)


@maker("print")
def _print(g: Growth, name: str) -> object:
    values = [g.of((*INTS, *FLOATS)) for _ in range(g.pick([0, 1, 2]))]
    return g.emit(name, values, signed=tuple(g.flag() for _ in values))


@maker("assert")
def _assert(g: Growth, name: str) -> object:
    shape = g.shape()
    return g.emit(name, [g.value(with_shape(I1, shape)) for _ in range(g.pick([1, 2]))])


maker("assume")(lambda g, name: g.emit(name, [g.value(I1)]))

#: Every row that `modules` can be asked for: all but the terminators.
ROWS: tuple[str, ...] = tuple(name for name, row in OPS.items() if not row.is_terminator)
#: Those that hold operations, in regions or in a callee.
NESTING = frozenset({name for name, row in OPS.items() if row.regions} | {"call"})
