"""Give every tile a layout: where in the block's threads and registers its elements live.

    %x = load %p : tile<256xf32>             %p.1 = add_ptr %a, %o.1 : tile<256xptr<f32>, #linear<...>>
    store %q, %x                      ->     %x.1 = load %p.1 : tile<256xf32, #linear<...>>
                                             store %q.1, %x.1

From the effects backward: stores, atomics, prints and asserts choose (a store by coalescing), and what they use is made
in the layout that they want. A value wanted in two layouts is made twice when that changes nothing, that is when
what makes it is pure or a plain load, which is repeated where it stands; else the kernel is refused. What loops
carry, what an `if` yields and what atomics return have one layout, that of the first who asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import (
    Block,
    CompilerBug,
    LinearLayout,
    Module,
    Operation,
    TileType,
    Value,
    element_of,
    shape_of,
)

from ..analysis.axis import axis_analysis
from ..analysis.coalesce import coalesced_layout, default_layout
from ..analysis.placement import layout_of, operand_layouts
from ..errors import NeedsConversion, NotCompiledYet
from .dce import dce

ACCESSES = frozenset(("store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "atomic_poll"))
ROOTS = ACCESSES | {"print", "assert"}
REGIONS = frozenset(("for", "while", "if"))


def assign_layouts(module: Module) -> bool:
    """Place all tiles of the kernel. Calls must have been inlined; `num_warps` is an attribute of the module.

    Raises NeedsConversion and NotCompiledYet.
    """
    num_warps = module.attributes["num_warps"]
    assert isinstance(num_warps, int)
    work = _Assignment(module, num_warps)
    roots = [operation for operation in module.kernel.walk() if is_root(operation)]
    for operation in roots:
        work.root(operation)
    work.leftovers()
    dce(module)
    return bool(roots)


def is_root(operation: Operation) -> bool:
    """Whether an operation asks for layouts by itself: it has an effect on tiles, or must not be repeated."""
    tiles = [value for value in (*operation.operands, *operation.results) if isinstance(value.type, TileType)]
    volatile = operation.name == "load" and bool(operation.attributes["volatile"])
    return bool(tiles) and (operation.name in ROOTS or volatile)


class _Assignment:
    def __init__(self, module: Module, num_warps: int) -> None:
        self.module = module
        self.num_warps = num_warps
        self.facts = axis_analysis(module.kernel)
        self.made: dict[tuple[Value, LinearLayout], Value] = {}

    # Roots

    def root(self, operation: Operation) -> None:
        """Choose the layout of a root, and make what it uses in it."""
        if operation.name == "print":
            for index, operand in enumerate(operation.operands):
                self.operand(operation, index, self.choice(operation, [operand]))
            return
        layout = self.choice(operation, operation.operands)
        for result in operation.results:
            self.place(result, layout)
        for index in range(len(operation.operands)):
            self.operand(operation, index, layout)

    def choice(self, operation: Operation, operands: Sequence[Value]) -> LinearLayout | None:
        """What an operand that cannot be made again already has, else the coalesced layout."""
        tiles = [operand for operand in operands if isinstance(operand.type, TileType)]
        if not tiles:
            return None
        fixed = next((found for tile in tiles if (found := self.fixed(tile, set())) is not None), None)
        if fixed is not None:
            return fixed
        if operation.name in ACCESSES or operation.name == "load":
            return coalesced_layout(tiles[0].type, self.facts[tiles[0]], self.num_warps)
        return default_layout(shape_of(tiles[0].type), self.num_warps)

    def fixed(self, value: Value, seen: set[Value]) -> LinearLayout | None:
        """The layout of something of the same shape, in what the value is computed from, that is placed for good."""
        if value in seen:
            return None
        seen.add(value)
        if layout_of(value.type) is not None:
            return layout_of(value.type)
        producer = value.producer
        if producer is None or producer.regions:
            return None
        for operand in producer.operands:
            if shape_of(operand.type) == shape_of(value.type):
                if (found := self.fixed(operand, seen)) is not None:
                    return found
        return None

    def operand(self, operation: Operation, index: int, layout: LinearLayout | None) -> None:
        value = operation.operands[index]
        if isinstance(value.type, TileType):
            assert layout is not None
            operation.set_operand(index, self.want(value, layout))

    # Values

    def want(self, value: Value, layout: LinearLayout) -> Value:
        """The value in this layout: as it is, as made before, or made now."""
        have = layout_of(value.type)
        if have == layout:
            return value
        if have is not None:
            raise NeedsConversion(maker(value), have=have, want=layout)
        if (value, layout) not in self.made:
            producer = value.producer
            if producer is None or producer.regions:
                self.place_carried(value, layout)
                return value
            self.repeat(producer, value, layout)
        return self.made[value, layout]

    def repeat(self, producer: Operation, value: Value, layout: LinearLayout) -> None:
        """Make an operation again, beside itself, with its results in this layout."""
        layouts = operand_layouts(producer, layout, self.num_warps)
        if layouts is None:
            raise NotCompiledYet(producer, form=f" of {producer.operands[0].type}" if producer.operands else "")
        self.put(producer, layouts, layout)

    def put(
        self, producer: Operation, layouts: Sequence[LinearLayout | None], layout: LinearLayout | None
    ) -> Operation:
        operands = [
            operand if wanted is None else self.want(operand, wanted)
            for operand, wanted in zip(producer.operands, layouts, strict=True)
        ]
        types = [
            TileType(shape_of(r.type), element_of(r.type), layout) if shape_of(r.type) else r.type
            for r in producer.results
        ]
        copied = Operation(producer.definition, operands, producer.attributes, types, (), producer.location)
        copied.block = producer.block
        assert producer.block is not None
        producer.block.operations.insert(producer.block.operations.index(producer), copied)
        for old, new in zip(producer.results, copied.results, strict=True):
            new.name = old.name
            if layout is not None:
                self.made[old, layout] = new
        return copied

    def place(self, value: Value, layout: LinearLayout | None) -> None:
        """Give a value its layout for good."""
        if isinstance(value.type, TileType):
            value.type = TileType(value.type.shape, value.type.element, layout)

    # Regions

    def place_carried(self, value: Value, layout: LinearLayout) -> None:
        """Place what a region operation carries or yields, in all the places where it goes by another name."""
        holder = value.owner.parent if isinstance(value.owner, Block) else value.owner
        assert isinstance(holder, Operation)
        if holder.name not in REGIONS:
            raise NotCompiledYet(holder, form="")
        followers = {"for": self.place_for, "while": self.place_while, "if": self.place_if}
        followers[holder.name](holder, value, layout)

    def place_if(self, operation: Operation, value: Value, layout: LinearLayout) -> None:
        self.place(value, layout)
        for region in operation.regions:
            self.operand(region.terminator, value.index, layout)

    def place_for(self, operation: Operation, value: Value, layout: LinearLayout) -> None:
        index = value.index - isinstance(value.owner, Block)
        (body,) = operation.regions
        self.place(operation.results[index], layout)
        self.place(body.arguments[index + 1], layout)
        self.operand(operation, index + 3, layout)
        self.operand(body.terminator, index, layout)

    def place_while(self, operation: Operation, value: Value, layout: LinearLayout) -> None:
        """What `before` takes is what comes in and what `after` yields; what it passes on is taken and comes out."""
        before, after = operation.regions
        index = value.index
        if value.owner is before:
            self.place(value, layout)
            self.operand(operation, index, layout)
            self.operand(after.terminator, index, layout)
            return
        self.place(operation.results[index], layout)
        self.place(after.arguments[index], layout)
        self.operand(before.terminator, index + 1, layout)

    # What nobody asked for

    def leftovers(self) -> None:
        """Scalars made of tiles, then what is still carried without a layout, then what must be refused."""
        for operation in list(self.module.kernel.walk()):
            if is_plain_scalar(operation):
                self.scalar(operation)
        for operation in list(self.module.kernel.walk()):
            blocks = [*operation.regions] if operation.name in REGIONS else []
            carried = [*operation.results, *(argument for block in blocks for argument in block.arguments)]
            for value in carried if blocks else ():
                if isinstance(value.type, TileType) and value.type.layout is None:
                    self.place_carried(value, default_layout(value.type.shape, self.num_warps))

    def scalar(self, operation: Operation) -> None:
        """Place what a scalar is made of."""
        layouts = operand_layouts(operation, None, self.num_warps)
        if layouts is None:
            raise NotCompiledYet(operation, form=f" of {operation.operands[0].type}")
        if all(
            operand.type == TileType(shape_of(operand.type), element_of(operand.type)) for operand in operation.operands
        ):
            copied = self.put(operation, layouts, None)
            for old, new in zip(operation.results, copied.results, strict=True):
                old.replace_uses(new)


def is_plain_scalar(operation: Operation) -> bool:
    """Whether an operation without regions makes only scalars that are used, out of tiles."""
    tiles = any(isinstance(operand.type, TileType) for operand in operation.operands)
    scalars = operation.results and not any(isinstance(result.type, TileType) for result in operation.results)
    used = any(result.uses for result in operation.results)
    return bool(tiles and scalars and used) and operation.name not in ROOTS and not operation.regions


def maker(value: Value) -> Operation:
    """The operation that a value comes from: its producer, or the one whose region it enters."""
    holder = value.owner.parent if isinstance(value.owner, Block) else value.owner
    if not isinstance(holder, Operation):
        raise CompilerBug("a kernel parameter is a tile")
    return holder
