"""Where an operation needs its operands to live, given where its result lives, so that no value changes threads.

What the compiler chooses gives each tile bit to one register, lane or warp bit; but any layout can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import xor
from typing import Any, TypeAlias

from tilewright.lang import LayoutError, LinearLayout, Operation, TileType, f2, shape_of, tile_layouts

REGISTER, LANE, WARP = tile_layouts.REGISTER, tile_layouts.LANE, tile_layouts.WARP
#: (operation, layout of its result, number of warps) -> the layout of each operand; None for a scalar.
Placement: TypeAlias = Callable[[Operation, LinearLayout | None, int], list[LinearLayout | None]]
PLACEMENTS: dict[str, Placement] = {}


def placement(*names: str) -> Callable[[Placement], Placement]:
    """Register where these ops want their operands."""

    def register(function: Placement) -> Placement:
        PLACEMENTS.update(dict.fromkeys(names, function))
        return function

    return register


def operand_layouts(
    operation: Operation, layout: LinearLayout | None, num_warps: int
) -> list[LinearLayout | None] | None:
    """The layout that each operand must have for the results to be made in `layout`; None when none will do."""
    rule = PLACEMENTS.get(operation.name)
    if rule is None and not operation.definition.is_elementwise:
        return None
    found = [layout] * len(operation.operands) if rule is None else rule(operation, layout, num_warps)
    shapes = [shape_of(operand.type) for operand in operation.operands]
    return [one if shape else None for one, shape in zip(found, shapes, strict=True)]


@placement("constant", "poison", "arange", "program_id", "num_programs")
def _nothing(operation: Operation, layout: LinearLayout | None, num_warps: int) -> list[LinearLayout | None]:
    return []


@placement("splat", "hint", "add_ptr", "load", "convert_layout")
def _same(operation: Operation, layout: LinearLayout | None, num_warps: int) -> list[LinearLayout | None]:
    return [layout] * len(operation.operands)


@placement("broadcast")
def _broadcast(operation: Operation, layout: LinearLayout | None, num_warps: int) -> list[LinearLayout | None]:
    assert layout is not None
    return [narrowed(layout, shape_of(operation.operands[0].type))]


@placement("expand_dims")
def _expand_dims(operation: Operation, layout: LinearLayout | None, num_warps: int) -> list[LinearLayout | None]:
    axis: Any = operation.attributes["axis"]
    if layout is None or not shape_of(operation.operands[0].type):
        return [None]
    return [tile_layouts.sliced(layout, axis)]


@placement("reshape")
def _reshape(operation: Operation, layout: LinearLayout | None, num_warps: int) -> list[LinearLayout | None]:
    shape = shape_of(operation.operands[0].type)
    if not shape:
        return [None]
    if layout is None:  # a tile of one element becomes a scalar, which every thread has
        return [LinearLayout.from_bases(replicas(len(shape), num_warps), dict(tile_layouts.tile_dims(shape)))]
    return [tile_layouts.reshape(layout, shape)]


def replicas(rank: int, num_warps: int) -> dict[str, list[tuple[int, ...]]]:
    """The bases of a layout in which every thread holds the same."""
    none = (0,) * rank
    return {REGISTER: [], LANE: [none] * 5, WARP: [none] * (num_warps.bit_length() - 1)}


@placement("permute")
def _permute(operation: Operation, layout: LinearLayout | None, num_warps: int) -> list[LinearLayout | None]:
    assert layout is not None
    order: Any = operation.attributes["order"]
    return [tile_layouts.permute(layout, sorted(range(len(order)), key=order.__getitem__))]


@placement("join")
def _join(operation: Operation, layout: LinearLayout | None, num_warps: int) -> list[LinearLayout | None]:
    assert layout is not None
    half = tile_layouts.sliced(layout, len(layout.outs) - 1) if len(layout.outs) > 1 else None
    return [half, half]


@placement("split")
def _split(operation: Operation, layout: LinearLayout | None, num_warps: int) -> list[LinearLayout | None]:
    """The two halves side by side in a thread's registers."""
    extents = shape_of(operation.operands[0].type)
    dims = dict(tile_layouts.tile_dims(extents))
    pair = (*([0] * (len(extents) - 1)), 1)
    if layout is None:
        return [LinearLayout.from_bases({**replicas(1, num_warps), REGISTER: [pair]}, dims)]
    bases = {name: [(*vector, 0) for vector in vectors] for name, vectors in layout.bases.items()}
    bases[REGISTER] = [pair, *bases.get(REGISTER, [])]
    return [LinearLayout.from_bases(bases, dims)]


@cache
def narrowed(layout: LinearLayout, shape: tuple[int, ...]) -> LinearLayout:
    """The layout of what is stretched from `shape` to the layout's tile; registers that would repeat values go."""
    keep = [extent != 1 for extent in shape]
    bases: dict[str, list[tuple[int, ...]]] = {}
    for name, vectors in layout.bases.items():
        cut = [tuple(c if k else 0 for c, k in zip(vector, keep, strict=True)) for vector in vectors]
        bases[name] = [vector for vector in cut if any(vector) or name != REGISTER]
    return LinearLayout.from_bases(bases, dict(tile_layouts.tile_dims(shape)))


@dataclass(frozen=True, slots=True)
class Slots:
    """How a distributed layout shares a tile out. An element's place is the XOR of its register's and its thread's.

    `registers[r]` is the part of register r along each dimension, `threads[i]` what bit i of the thread's index (lane
    bits, then warp bits) is to it. The bits of `replica_mask` are zero in the one thread that counts of those that hold
    the same.
    """

    registers: tuple[tuple[int, ...], ...]
    threads: tuple[tuple[int, ...], ...]
    replica_mask: int

    @property
    def bits(self) -> tuple[tuple[int, int] | None, ...]:
        """For each bit of the thread's index which bit of which dimension it is; None for one that makes replicas.

        Raises LayoutError where a bit of the thread's index is more than one bit of the tile.
        """
        return tuple(map(_bit, self.threads))

    def moved_bits(self, axis: int) -> int:
        """The bits of an index along an axis that depend on the thread."""
        mask = 0
        for vector in self.threads:
            mask |= vector[axis]
        return mask


@cache
def slots(layout: LinearLayout) -> Slots:
    """The slots of a layout. Raises LayoutError for one with an XOR offset."""
    if layout.offset:
        raise LayoutError(f"{layout} has an offset")
    bases, rank = layout.bases, len(layout.outs)
    registers = bases.get(REGISTER, ())
    threads = (*bases.get(LANE, ()), *bases.get(WARP, ()))
    offsets = [(0,) * rank]
    for vector in registers:
        offsets += [tuple(map(xor, offset, vector)) for offset in offsets]
    independent = f2.eliminate([column for name in (REGISTER, LANE, WARP) for column in columns(layout, name)]).pivots
    return Slots(tuple(offsets), threads, ~independent >> len(registers) & (1 << len(threads)) - 1)


def columns(layout: LinearLayout, name: str) -> tuple[int, ...]:
    """The flat images of the bits of an input dimension; none if the layout does not have it."""
    start = 0
    for each, size in layout.ins:
        stop = start + size.bit_length() - 1
        if each == name:
            return layout.columns[start:stop]
        start = stop
    return ()


def thread_columns(layout: LinearLayout) -> tuple[int, ...]:
    """The flat images of the bits of the thread's index."""
    return (*columns(layout, LANE), *columns(layout, WARP))


def _bit(vector: tuple[int, ...]) -> tuple[int, int] | None:
    """The dimension and the bit that a vector with at most one set bit stands for."""
    (axis, *more) = [axis for axis, component in enumerate(vector) if component] or [-1]
    if axis < 0:
        return None
    if more or vector[axis] & (vector[axis] - 1):
        raise LayoutError(f"{vector} is more than one bit of the tile")
    return axis, vector[axis].bit_length() - 1


def layout_of(type_: Any) -> LinearLayout | None:
    """The layout of a tile type; None for scalars and for tiles that have none yet."""
    return type_.layout if isinstance(type_, TileType) else None
