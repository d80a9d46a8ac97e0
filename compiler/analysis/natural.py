"""The layout that each value would have if nobody else were asked: its *natural* layout.

Accesses to memory have one by coalescing, dots by their instruction, reductions by what they reduce; it passes on to
what is computed from these. What can be made anywhere at little cost (constants, indices, masks, whatever is stretched,
loads of less than one element a thread) has none: it is made where it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tilewright.lang import (
    Block,
    Function,
    LinearLayout,
    Operation,
    PointerType,
    TileType,
    Value,
    byte_width,
    element_of,
    shape_of,
    tile_layouts,
)

from ..targets import Target
from . import dot_layouts
from .axis import axis_analysis
from .coalesce import WARP_SIZE, blocked, default_layout, fastest_first, vector_elements
from .placement import LANE, REGISTER, WARP, operand_layouts
from .swizzle import row_major

Layout: TypeAlias = LinearLayout | None
ACCESSES = frozenset(("load", "store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "atomic_poll"))
BUFFERS = frozenset(("local_alloc", "async_copy", "async_wait", "local_store", "local_load"))
REGIONS = frozenset(("for", "while", "if"))


class Naturals:
    """The natural layouts of a kernel's values, found when asked for."""

    def __init__(self, kernel: Function, target: Target, num_warps: int) -> None:
        self.target = target
        self.num_warps = num_warps
        self.facts = axis_analysis(kernel)
        self.vectors = self._vectors(kernel)
        self._known: dict[Value, Layout] = {}
        self._busy: set[Value] = set()
        self._cut = False
        dots = [operation for operation in kernel.walk() if operation.name == "dot"]
        self._chained = {dot for first in dots for dot in (first, *fed_dots(first)) if fed_dots(first)}

    # Accesses

    def _vectors(self, kernel: Function) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
        """By shape and order of dimensions the most neighbours that an access of the kernel takes: all of them share
        one layout then, and no value needs to move between an access of wide elements and one of narrow ones."""
        widest: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        for operation in kernel.walk():
            if operation.name in ACCESSES and isinstance(pointer := operation.operands[0].type, TileType):
                order, vector = self._access(operation.operands[0])
                key = pointer.shape, order
                widest[key] = max(widest.get(key, 1), vector)
        return widest

    def _access(self, pointer: Value) -> tuple[tuple[int, ...], int]:
        """The order of dimensions of an access, fastest first, and how many neighbours along it are one access."""
        info, element = self.facts[pointer], element_of(pointer.type)
        assert isinstance(element, PointerType)
        order = fastest_first(info)
        return order, vector_elements(info, order[0], byte_width(element.pointee))

    def coalesced(self, pointer: Value) -> LinearLayout:
        """The layout in which the lanes of a warp touch neighbouring bytes, in wide vectors."""
        assert isinstance(pointer.type, TileType)
        shape = pointer.type.shape
        order, _ = self._access(pointer)
        share = max(1, pointer.type.numel // (WARP_SIZE * self.num_warps))
        vector = min(self.vectors.get((shape, order), 1), share, shape[order[0]])
        return blocked(shape, vector, order, self.num_warps)

    def is_small(self, value: Value) -> bool:
        """Whether there is at most one element for each thread."""
        return isinstance(value.type, TileType) and value.type.numel <= WARP_SIZE * self.num_warps

    def of_access(self, operation: Operation) -> LinearLayout:
        """The layout of a store or an atomic: coalesced, but for few elements where the value or the pointer lives."""
        pointer = operation.operands[0]
        atomic = operation.name != "store"
        if atomic or self.is_small(pointer):
            for operand in reversed(operation.operands):
                if shape_of(operand.type) == shape_of(pointer.type) and (found := self.of(operand)) is not None:
                    return found
        return self.coalesced(pointer)

    # Values

    def of(self, value: Value) -> Layout:
        """The natural layout of a value; None for a scalar and for what can be made anywhere."""
        if not isinstance(value.type, TileType):
            return None
        if value.type.layout is not None:
            return value.type.layout
        if value in self._known:
            return self._known[value]
        if value in self._busy:
            self._cut = True
            return None
        self._busy.add(value)
        found = self._compute(value)
        self._busy.discard(value)
        # What a loop carries is looked at while it is not yet known; nothing may be concluded from not finding it then.
        if found is not None or not self._cut or not self._busy:
            self._known[value] = found
        self._cut = self._cut and bool(self._busy)
        return found

    def _compute(self, value: Value) -> Layout:
        producer = value.producer
        if producer is None or producer.regions and producer.name in REGIONS:
            return next((found for source in sources(value) if (found := self.of(source)) is not None), None)
        if is_reduction(producer):
            axis: Any = producer.attributes["axis"]
            return tile_layouts.sliced(self.reduced(producer), axis)
        rule = FORWARD.get(producer.name)
        if rule is not None:
            return rule(self, producer)
        return self.first(producer) if producer.definition.is_elementwise else None

    def first(self, operation: Operation) -> Layout:
        """The natural layout of the first operand that has one."""
        return next((found for operand in operation.operands if (found := self.of(operand)) is not None), None)

    # Anchors

    def reduced(self, operation: Operation) -> LinearLayout:
        """The layout of what a reduction reduces; registers, lanes and warps in this order along the axis where the
        order of the elements counts."""
        found = self.first(operation) or default_layout(shape_of(operation.operands[0].type), self.num_warps)
        axis: Any = operation.attributes["axis"]
        return in_order(found, axis) if operation.attributes["ordered"] else found

    def _instruction(self, operation: Operation) -> tuple[dot_layouts.Mma, dot_layouts.Share] | None:
        """The instruction of a dot, and how the warps share its result; None for plain multiply-adds."""
        if operation.attributes["instruction"] != "mma":
            return None
        found = dot_layouts.instruction_of(operation, self.target)
        assert found is not None
        shape = shape_of(operation.result.type)
        return found, dot_layouts.share_of(shape, self.num_warps, found, operation in self._chained)

    def of_dot(self, operation: Operation) -> LinearLayout:
        """The layout of the result of a dot."""
        shape = shape_of(operation.result.type)
        chosen = self._instruction(operation)
        if chosen is None:
            return dot_layouts.plain_result_layout(shape, self.num_warps)
        return dot_layouts.result_layout(shape, *chosen)

    def operands(self, operation: Operation, layout: Layout) -> Sequence[Layout] | None:
        """The layout of each operand, for the result in this layout; None when none will do."""
        if is_reduction(operation):
            return [self.reduced(operation)] * len(operation.operands)
        if operation.name in BUFFERS:
            return self._around_buffers(operation)
        if operation.name != "dot":
            return operand_layouts(operation, layout, self.num_warps)
        a, b, _ = (shape_of(operand.type) for operand in operation.operands)
        chosen = self._instruction(operation)
        assert layout is not None
        if chosen is None:
            return [*self._plain_operands(operation, layout), layout]
        return [dot_layouts.operand_layout(a, 0, *chosen), dot_layouts.operand_layout(b, 1, *chosen), layout]

    def _plain_operands(self, operation: Operation, layout: LinearLayout) -> list[Layout]:
        """Each operand by rows or columns in the registers of those who need them; where that were too many, wherever
        it is: then the operation sees to it itself."""
        operands = operation.operands[:2]
        depth = shape_of(operands[0].type)[-1]
        plain = [dot_layouts.plain_operand_layout(layout, index, depth) for index in (0, 1)]
        if sum(1 << len(each.bases[REGISTER]) for each in plain) <= dot_layouts.PLAIN_REGISTERS:
            return [*plain]
        return [self.of(value) or default_layout(shape_of(value.type), self.num_warps) for value in operands]

    def _around_buffers(self, operation: Operation) -> Sequence[Layout] | None:
        """Buffers element after element, tiles spread by default; none will do for several results."""
        if len(operation.results) > 1:
            return None
        types, names = [operand.type for operand in operation.operands], operation.definition.operands
        return [
            None if not shape_of(type_)
            else row_major(shape_of(type_)) if name.startswith("buffer")
            else default_layout(shape_of(type_), self.num_warps)
            for type_, name in zip(types, names, strict=False)
        ]  # fmt: skip


def is_reduction(operation: Operation) -> bool:
    """Whether an op reduces along an axis. The other reductions are expanded to this one by now."""
    return operation.name == "reduce"


def in_order(layout: LinearLayout, axis: int) -> LinearLayout:
    """The layout with the bits of an axis dealt out again, the lowest to registers, then lanes, then warps."""
    bases = {name: list(vectors) for name, vectors in layout.bases.items()}
    slots_ = [
        (name, at) for name in (REGISTER, LANE, WARP) for at, vector in enumerate(bases.get(name, ())) if vector[axis]
    ]
    steps = sorted(bases[name][at] for name, at in slots_)
    for (name, at), step in zip(slots_, steps, strict=True):
        bases[name][at] = step
    return LinearLayout.from_bases(bases, dict(tile_layouts.tile_dims(layout.shape)))


def fed_dots(operation: Operation) -> list[Operation]:
    """The dots that what a dot gives is an operand of, by way of elementwise operations."""
    found: list[Operation] = []
    seen: set[Value] = set()
    queue = list(operation.results)
    while queue:
        value = queue.pop()
        for user, index in value.uses:
            if user.name == "dot" and index < 2:
                found.append(user)
            for result in user.results if user.definition.is_elementwise else ():
                if result not in seen:
                    seen.add(result)
                    queue.append(result)
    return found


def sources(value: Value) -> Iterator[Value]:
    """What a region operation carries, yields or takes as this value: what comes round first, then what goes in."""
    holder = value.owner.parent if isinstance(value.owner, Block) else value.owner
    if not isinstance(holder, Operation) or holder.name not in REGIONS:
        return
    if holder.name == "if":
        yield from (region.terminator.operands[value.index] for region in holder.regions)
    elif holder.name == "for":
        index = value.index - isinstance(value.owner, Block)
        if index >= 0:
            yield holder.regions[0].terminator.operands[index]
            yield holder.operands[index + 3]
    elif value.owner is holder.regions[0]:
        yield holder.regions[1].terminator.operands[value.index]
        yield holder.operands[value.index]
    else:
        yield holder.regions[0].terminator.operands[value.index + 1]


# What passes a layout on

Rule: TypeAlias = Callable[[Naturals, Operation], Layout]


def _load(known: Naturals, operation: Operation) -> Layout:
    pointer = operation.operands[0]
    if known.is_small(pointer) and not operation.attributes["volatile"]:
        return None
    own = known.of(pointer)
    return own if own is not None and known.vectors.get(_key(known, pointer), 1) == 1 else known.coalesced(pointer)


def _key(known: Naturals, pointer: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape_of(pointer.type), fastest_first(known.facts[pointer])


def _atomic(known: Naturals, operation: Operation) -> Layout:
    return known.of_access(operation)


def _dot(known: Naturals, operation: Operation) -> Layout:
    return known.of_dot(operation)


def _expand_dims(known: Naturals, operation: Operation) -> Layout:
    axis: Any = operation.attributes["axis"]
    found = known.first(operation)
    return None if found is None else tile_layouts.expand_dims(found, axis)


def _reshape(known: Naturals, operation: Operation) -> Layout:
    found, shape = known.first(operation), shape_of(operation.result.type)
    return None if found is None or not shape else tile_layouts.reshape(found, shape)


def _permute(known: Naturals, operation: Operation) -> Layout:
    found = known.first(operation)
    order: Any = operation.attributes["order"]
    return None if found is None else tile_layouts.permute(found, order)


def _join(known: Naturals, operation: Operation) -> Layout:
    found = known.first(operation)
    if found is None:
        return None
    bases = {name: [(*vector, 0) for vector in vectors] for name, vectors in found.bases.items()}
    bases[REGISTER] = [(*([0] * len(found.outs)), 1), *bases.get(REGISTER, [])]
    return LinearLayout.from_bases(bases, dict(tile_layouts.tile_dims((*found.shape, 2))))


def _split(known: Naturals, operation: Operation) -> Layout:
    found = known.first(operation)
    return None if found is None or len(found.outs) == 1 else tile_layouts.sliced(found, len(found.outs) - 1)


def _first(known: Naturals, operation: Operation) -> Layout:
    return known.first(operation)


def _nowhere(known: Naturals, operation: Operation) -> Layout:
    return None


def _buffer(known: Naturals, operation: Operation) -> Layout:
    """Buffers that no pass made lie in memory element after element, and their stages in threads by default."""
    return row_major(shape_of(operation.results[0].type))


def _local_load(known: Naturals, operation: Operation) -> Layout:
    return default_layout(shape_of(operation.result.type), known.num_warps)


FORWARD: dict[str, Rule] = {
    "load": _load,
    **dict.fromkeys(ACCESSES - {"load", "store"}, _atomic),
    "dot": _dot,
    "expand_dims": _expand_dims,
    "reshape": _reshape,
    "permute": _permute,
    "join": _join,
    "split": _split,
    **dict.fromkeys(("hint", "add_ptr", "convert_layout"), _first),
    **dict.fromkeys(BUFFERS - {"local_load"}, _buffer),
    "local_load": _local_load,
    **dict.fromkeys(("broadcast", "splat", "constant", "poison", "arange"), _nowhere),
}
