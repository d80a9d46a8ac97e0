"""The frame of a kernel: its grid, the tile that each program has, where elements lie in memory, and the first lines.

Tile axis d runs along axis d of an index space of ragged extents; the axes of the grid that no tile axis uses number
copies of that space (planes). `at` is the offset of an element, `inside` whether it exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from ..choices import Choices
from .numbers import INT32
from .source import Expr, Shape

#: Tiles, the simplest first, with their weights.
TILES: tuple[tuple[Shape, int], ...] = (
    ((32,), 3), ((128,), 5), ((1,), 1), ((2,), 1), ((16,), 2), ((64,), 2), ((256,), 6), ((512,), 4), ((1024,), 2),
    ((8, 16), 4), ((16, 16), 4), ((1, 64), 1), ((64, 1), 1), ((4, 32), 3), ((32, 8), 3), ((2, 2), 1), ((16, 32), 3),
    ((2, 4, 16), 3), ((4, 4, 8), 2), ((8, 1, 16), 1), ((1, 2, 32), 1), ((2, 2, 2), 1), ((32, 32), 3), ((16, 64), 2),
    ((64, 16), 2), ((2, 16, 16), 2), ((4, 8, 16), 1),
)  # fmt: skip
MOST_ELEMENTS = 3072
NAMES = {1: ("i",), 2: ("row", "col"), 3: ("i", "j", "k")}


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the programs and elements of a kernel are.

    grid: its extents. axes: for each tile axis the grid axis that moves it, None for one that stays. extents: how
    many elements there are along each tile axis. strides: by how much an offset grows along it. plane: how far planes
    lie apart. masked: which axes are checked against their extent.
    """

    shape: Shape
    grid: tuple[int, int, int]
    axes: tuple[int | None, ...]
    extents: Shape
    strides: Shape
    plane: int
    masked: tuple[bool, ...]

    @property
    def programs(self) -> int:
        return prod(self.grid)

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def size(self) -> int:
        """How many elements an array has that is accessed at `at`."""
        inside = sum((extent - 1) * stride for extent, stride in zip(self.extents, self.strides, strict=True))
        return (self.planes - 1) * self.plane + inside + 1

    @property
    def planes(self) -> int:
        return prod(extent for axis, extent in enumerate(self.grid) if axis not in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[len(self.shape)]


def draw_frame(choices: Choices) -> Frame:
    """A grid and a tile that are small together."""
    shape = choices.weighted(TILES)
    grid: list[int] = []
    for extents in ((2, 1, 3, 4, 5), (1, 1, 2, 3), (1, 1, 1, 2)):
        fitting = [extent for extent in extents if extent * prod(grid) * prod(shape) <= MOST_ELEMENTS]
        grid.append(choices.sample(fitting) if fitting else 1)
    order = choices.permutation(3)[: len(shape)]
    axes = tuple(axis if grid[axis] > 1 or choices.boolean() else None for axis in order)
    whole = [tile * (1 if axis is None else grid[axis]) for tile, axis in zip(shape, axes, strict=True)]
    missing = [choices.integer(0, tile - 1) if choices.boolean(60) else 0 for tile in shape]
    extents = tuple(extent - less for extent, less in zip(whole, missing, strict=True))
    masked = tuple(extent < full or choices.boolean(30) for extent, full in zip(extents, whole, strict=True))
    strides, plane = _strides(choices, extents)
    return Frame(shape, (grid[0], grid[1], grid[2]), axes, extents, strides, plane, masked)


def _strides(choices: Choices, extents: Shape) -> tuple[Shape, int]:
    """Strides under which no two elements share a place: the last axis innermost, mostly, and rows perhaps padded."""
    order = list(reversed(range(len(extents))))
    if choices.boolean(25):
        order.reverse()
    strides, step = [0] * len(extents), choices.weighted(((1, 8), (2, 1), (3, 1)))
    for axis in order:
        strides[axis] = step
        step *= extents[axis]
        step += choices.weighted(((0, 3), (-step % 16, 3), (1, 1), (5, 1)))
    return tuple(strides), step


@dataclass(slots=True)
class Opening:
    """The first lines of a kernel, and what they need: values of parameters by name, constexprs and plain ints."""

    frame: Frame
    lines: list[str] = field(default_factory=list[str])
    constants: dict[str, int] = field(default_factory=dict[str, int])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    masks: list[str] = field(default_factory=list[str])
    inside: str = ""

    def along(self, axis: int) -> str:
        """The subscript that lays a vector along an axis."""
        rank = len(self.frame.shape)
        return "" if rank == 1 else f"[{', '.join(':' if d == axis else 'None' for d in range(rank))}]"

    def start(self, axis: int) -> str:
        """The index of the first element of a program's tile along an axis."""
        mover = self.frame.axes[axis]
        return "0" if mover is None else f"tl.program_id({mover}) * {self.block(axis)}"

    def block(self, axis: int) -> str:
        name = "BLOCK" if len(self.frame.shape) == 1 else f"B{axis}"
        self.constants[name] = self.frame.shape[axis]
        return name


def open_kernel(choices: Choices, frame: Frame) -> Opening:
    """Write the first lines: the indices, the offsets and the mask."""
    opening = Opening(frame)
    grid_axes = [axis for axis in range(3) if frame.grid[axis] > 1] or [0]
    opening.lines.append(f"pid = {_number(grid_axes)}")
    terms: list[str] = []
    for axis, name in enumerate(frame.names):
        start = opening.start(axis)
        steps = f"tl.arange(0, {opening.block(axis)})"
        opening.lines.append(f"{name} = {steps}" if start == "0" else f"{name} = {start} + {steps}")
        if choices.boolean(10):
            block = opening.block(axis)
            opening.lines.append(f"{name} = tl.multiple_of(tl.max_contiguous({name}, {block}), {block})")
        terms.append(_term(choices, opening, axis, name))
        mask = ""
        if frame.masked[axis]:
            bound = f"n{axis}" if len(frame.shape) > 1 else "n"
            opening.numbers[bound] = frame.extents[axis]
            mask = f"{name} < {bound}"
        opening.masks.append(mask)
    others = [axis for axis in grid_axes if axis not in frame.axes]
    if frame.planes > 1:
        opening.numbers["plane"] = frame.plane
        number = _number(others)
        terms.append(f"{f'({number})' if '+' in number else number} * plane")
    total = " + ".join(terms)
    if choices.boolean(15):
        total = f"({total}).to(tl.int64)"
    opening.lines.append(f"at = {total}")
    parts = [f"({mask.replace(' ', opening.along(axis) + ' ', 1)})" for axis, mask in enumerate(opening.masks) if mask]
    if parts:
        opening.lines.append(f"inside = {' & '.join(parts) if len(parts) > 1 else parts[0][1:-1]}")
        opening.inside = "inside"
    return opening


def _term(choices: Choices, opening: Opening, axis: int, name: str) -> str:
    stride = opening.frame.strides[axis]
    laid = name + opening.along(axis)
    if stride == 1:
        return laid
    if choices.boolean(30):
        return f"{laid} * {stride}"
    parameter = f"stride{axis}" if len(opening.frame.shape) > 1 else "stride"
    opening.numbers[parameter] = stride
    return f"{laid} * {parameter}"


def _number(axes: list[int]) -> str:
    """The number of a program along some axes of the grid, the first fastest."""
    text = f"tl.program_id({axes[-1]})"
    for axis in reversed(axes[:-1]):
        inner = f"({text})" if "+" in text else text
        text = f"tl.program_id({axis}) + tl.num_programs({axis}) * {inner}"
    return text


def index_variables(opening: Opening) -> list[Expr]:
    """The indices as operands: known to every implementation, in all lanes."""
    frame, several = opening.frame, len(opening.frame.shape) > 1
    vectors = [
        Expr(name, INT32, (extent,), axis if several else None)
        for axis, (name, extent) in enumerate(zip(frame.names, frame.shape, strict=True))
    ]
    return [Expr("pid", INT32), *vectors]
