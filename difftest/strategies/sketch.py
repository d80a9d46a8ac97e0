"""What a case is drawn on: a module under construction, its arguments, and the values in reach.

Every strategy draws its decisions through a sketch. A `Sketch` makes a case that runs a function on arrays; a
`KernelSketch` one that runs a kernel on buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tilewright.lang import (
    I1,
    I32,
    I64,
    OPS,
    Block,
    Builder,
    FloatType,
    Function,
    Location,
    Module,
    Operation,
    PointerType,
    Type,
    Value,
    bit_width,
    element_of,
    shape_of,
    with_shape,
)

from ..cases import Case, Grid
from ..choices import Choices
from ..oracles.formats import decode, is_nan
from ..oracles.tiles import count_of
from ..recipes import draw_code, draw_codes, draw_related
from ..storage import Array, Codes, to_array

T = TypeVar("T")
Shape = tuple[int, ...]

SHAPES: tuple[Shape, ...] = (
    (), (1,), (2,), (4,), (8,), (16,),
    (1, 1), (2, 2), (1, 4), (4, 1), (4, 2), (2, 8),
    (2, 2, 2), (1, 4, 2), (4, 1, 2), (2, 2, 1),
)  # fmt: skip
TILES = SHAPES[1:]
#: How many elements an argument of a case may have, all programs together.
MOST_LANES = 48


class Canvas:
    """What both kinds of sketch have: choices, a module and a place where operations are made."""

    def __init__(self, row: str, choices: Choices) -> None:
        self.row = row
        self.choices = choices
        self.module = Module()
        self.lines = 0
        self.builder = Builder()
        self.scope: list[Value] = []

    def function(self, name: str, types: Sequence[Type], results: Sequence[Type] = ()) -> Function:
        """A new function of the module."""
        self.lines += 1
        location = Location(f"difftest.{self.row}", self.lines, 1)
        names = [f"a{index}" for index in range(len(types))]
        return self.module.add(Function(name, Block(types, names), tuple(results), location=location))

    def inside(self, block: Block, scope: Sequence[Value] = ()) -> None:
        """Make operations at the end of a block from now on."""
        self.builder = Builder(block)
        self.scope = [*scope, *block.arguments]

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        types: Sequence[Type] | None = None,
        regions: Sequence[Block] = (),
        **attributes: Any,
    ) -> Operation:
        """Make an operation; attributes that are not given are drawn where they have choices, else left at default."""
        row = OPS[name]
        self.lines += 1
        self.builder.location = Location(f"difftest.{self.row}", self.lines, 5)
        chosen = {
            a.name: self.choices.sample(a.choices) for a in row.attributes if a.choices and a.name not in attributes
        }
        operation = self.builder.create(row, operands, chosen | attributes, types, regions)
        self.scope += operation.results
        return operation

    def value(self, name: str, operands: Sequence[Value] = (), type_: Type | None = None, **attributes: Any) -> Value:
        """`emit` for an operation with one result."""
        return self.emit(name, operands, None if type_ is None else (type_,), **attributes).result

    def integer(self, value: int, type_: Type = I32) -> Value:
        """A constant."""
        return self.value("constant", type_=type_, value=value)

    def region(self, types: Sequence[Type]) -> Block:
        """A block for an operation that is about to be made."""
        return Block(types, [f"r{index}" for index in range(len(types))])

    def splat(self, scalar: Value, shape: Shape) -> Value:
        """A scalar in every element of a shape."""
        return self.value("splat", (scalar,), shape=shape) if shape else scalar

    def numbers(self, shape: Shape, start: int = 0, spread: bool = False) -> Value:
        """An i32 tile with the row-major number of each element, by way of one arange or (`spread`) one a dimension."""
        if not shape:
            return self.integer(start)
        if not spread:
            flat = self.value("arange", start=start, end=start + count_of(with_shape(I32, shape)))
            return flat if len(shape) == 1 else self.value("reshape", (flat,), shape=shape)
        total, stride = self.splat(self.integer(start), shape), count_of(with_shape(I32, shape))
        for axis, extent in enumerate(shape):
            stride //= extent
            steps = self.along(axis, shape, self.value("arange", start=0, end=extent))
            total = self.value("add_i", (total, self.value("mul_i", (steps, self.splat(self.integer(stride), shape)))))
        return total

    def along(self, axis: int, shape: Shape, steps: Value) -> Value:
        """A vector laid along one dimension of a shape and repeated along the others."""
        for other in range(len(shape)):
            if other != axis:
                steps = self.value("expand_dims", (steps,), axis=other)
        return self.value("broadcast", (steps,), shape=shape) if len(shape) > 1 else steps

    def bound(self, value: int) -> Value:
        """An i32 scalar that bounds a range."""
        return self.integer(value)

    def box(self, shape: Shape) -> Value:
        """An i1 tile that holds inside a drawn range along each dimension."""
        if not shape:
            return self.value("cmp_lt_s", (self.integer(0), self.integer(self.choices.integer(0, 1))))
        total: Value | None = None
        for axis, extent in enumerate(shape):
            steps = self.along(axis, shape, self.value("arange", start=0, end=extent))
            bound = self.splat(self.bound(self.choices.integer(0, extent)), shape)
            part = self.value(self.choices.sample(("cmp_lt_s", "cmp_ge_s", "cmp_le_s", "cmp_lt_u")), (steps, bound))
            total = part if total is None else self.value("and", (total, part))
        assert total is not None
        return total


class Sketch(Canvas):
    """A case that runs a function on arrays, for a few programs at once."""

    def __init__(self, row: str, choices: Choices) -> None:
        super().__init__(row, choices)
        self.programs = choices.integer(1, 3)
        self.arrays: list[Array] = []
        self.codes: dict[Value, Codes] = {}
        kernel = self.function("unused", ())
        self.inside(kernel.body)
        self.emit("return")
        self.tested = self.function("tested", ())
        self.inside(self.tested.body)

    def shape(self, options: Sequence[Shape] = SHAPES) -> Shape:
        """A shape that keeps the case small."""
        fitting = [shape for shape in options if count_of(with_shape(I32, shape)) * self.programs <= MOST_LANES]
        return self.choices.sample(fitting)

    def argument(self, type_: Type, codes: Sequence[int], name: str = "") -> Value:
        """A new argument; `codes` for one program (then all get the same) or for all of them."""
        value = self.tested.body.add_argument(type_, name or f"a{len(self.arrays)}")
        self.tested.argument_attributes.append({})
        lead = 1 if len(codes) == count_of(type_) else self.programs
        self.arrays.append(to_array(codes, element_of(type_), (lead, *shape_of(type_))))
        self.codes[value] = tuple(codes)
        self.scope.append(value)
        return value

    def drawn(self, type_: Type) -> Value:
        """A new argument with drawn codes, perhaps related to those of an earlier one of its type."""
        lanes = count_of(type_) * (1 if self.choices.boolean(15) else self.programs)
        others = [codes for value, codes in self.codes.items() if value.type == type_ and len(codes) == lanes]
        if others and self.choices.boolean(40):
            return self.argument(type_, draw_related(self.choices, element_of(type_), self.choices.sample(others)))
        return self.argument(type_, draw_codes(self.choices, element_of(type_), lanes))

    def operand(self, type_: Type) -> Value:
        """An operand for the row under test: an argument, or something that executors treat in their own way."""
        element, shape = element_of(type_), shape_of(type_)
        sources = [("argument", 8), ("constant", 1)] + [("splat", 1)] * bool(shape)
        sources += [("numbers", 3)] * (element in (I32, I64) and bool(shape)) + [("box", 3)] * (element == I1)
        return _SOURCES[self.choices.weighted(sources)](self, type_)

    def constant(self, type_: Type) -> Value:
        """A literal."""
        element = element_of(type_)
        if isinstance(element, PointerType):
            return self.integer(0, type_)
        code = draw_code(self.choices, element)
        if isinstance(element, FloatType):
            return self.value(
                "constant", type_=type_, value=decode(code, element) if not is_nan(code, element) else 1.0
            )
        return self.integer(
            code if self.choices.boolean() else code - (code >> element.width - 1 << element.width), type_
        )

    def affine(self, type_: Type) -> Value:
        """Integers that are linear in the index of the element: i32, perhaps widened."""
        shape, element = shape_of(type_), element_of(type_)
        value = self.numbers(shape, self.choices.sample((0, 1, -3, 2**31 - 64, -(2**31))), self.choices.boolean())
        if self.choices.boolean():
            factor = self.splat(self.integer(self.choices.sample((1, 2, -1, 3, 0, -5))), shape)
            value = self.value("mul_i", (value, factor))
        if self.choices.boolean():
            value = self.value("add_i", (value, self.splat(self.drawn(I32), shape)))
        return value if element == I32 else self.value(self.choices.sample(("ext_s", "ext_u")), (value,), type_)

    def finish(self, results: Sequence[Value]) -> Case:
        """The case whose function returns these values."""
        self.emit("return", results)
        self.tested.result_types = tuple(value.type for value in results)
        return Case(self.row, self.module, tuple(self.arrays), function="tested")


#: Where an operand comes from.
_SOURCES: Mapping[str, Any] = {
    "argument": Sketch.drawn,
    "constant": Sketch.constant,
    "splat": lambda sketch, type_: sketch.splat(sketch.drawn(element_of(type_)), shape_of(type_)),
    "numbers": Sketch.affine,
    "box": lambda sketch, type_: sketch.box(shape_of(type_)),
}


class KernelSketch(Canvas):
    """A case that runs a kernel on buffers."""

    def __init__(self, row: str, choices: Choices, grid: Grid) -> None:
        super().__init__(row, choices)
        self.grid = grid
        self.programs = grid[0] * grid[1] * grid[2]
        self.arrays: list[Array] = []
        self.kernel = self.function("kernel", ())
        self.inside(self.kernel.body)

    def _parameter(self, type_: Type, array: Array, name: str) -> Value:
        value = self.kernel.body.add_argument(type_, name)
        self.kernel.argument_attributes.append({})
        self.arrays.append(array)
        return value

    def buffer(self, name: str, element: Any, codes: Sequence[int]) -> Value:
        """A pointer to a buffer with these codes."""
        return self._parameter(PointerType(element), to_array(codes, element, (len(codes),)), name)

    def bound(self, value: int) -> Value:
        """An i32 scalar: a literal, or a parameter of the kernel."""
        if self.choices.boolean():
            return self.integer(value)
        return self._parameter(I32, to_array([value], I32, ()), f"n{len(self.arrays)}")

    def program(self) -> Value:
        """The number of this program, x fastest, as an i32."""
        x, y, z = (self.value("program_id", axis=axis) for axis in range(3))
        across, down = (self.value("num_programs", axis=axis) for axis in range(2))
        rows = self.value("add_i", (y, self.value("mul_i", (z, down))))
        return self.value("add_i", (x, self.value("mul_i", (rows, across))))

    def places(self, shape: Shape, spread: bool = False) -> Value:
        """For each element of a tile its number among those of all programs."""
        base = self.value("mul_i", (self.program(), self.integer(count_of(with_shape(I32, shape)))))
        return self.value("add_i", (self.numbers(shape, spread=spread), self.splat(base, shape)))

    def at(self, pointer: Value, offsets: Value) -> Value:
        """Pointers to the elements at some offsets after a scalar pointer."""
        return self.value("add_ptr", (self.splat(pointer, shape_of(offsets.type)), offsets))

    def read(self, pointer: Value, places: Value) -> Value:
        """Load a tile of drawn data."""
        return self.value("load", (self.at(pointer, places),), cache="", eviction="")

    def write(self, name: str, places: Value, value: Value) -> None:
        """Store a tile into a new buffer, large enough for all programs, of codes that are not zero."""
        element = element_of(value.type)
        lanes = self.programs * count_of(value.type)
        target = self.buffer(name, element, [0x5A & ((1 << min(bit_width(element), 8)) - 1)] * lanes)
        self.emit("store", (self.at(target, places), value), cache="", eviction="")

    def finish(self, unordered: bool = False) -> Case:
        """The case."""
        self.emit("return")
        return Case(self.row, self.module, tuple(self.arrays), self.grid, unordered=unordered)
