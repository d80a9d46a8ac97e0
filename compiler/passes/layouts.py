"""Give every tile a layout: where in the block's threads and registers its elements live.

    %x = load %p : tile<256xf32>             %p.1 = add_ptr %a, %o.1 : tile<256xptr<f32>, #linear<...>>
    %s = reduce_add_f %x             ->      %x = load %p.1 : tile<256xf32, #linear<...>>
    store %q, %x                             %s = reduce_add_f %x
                                             store %q.1, %x

Every value that has a natural layout (see `analysis/natural.py`) is made in it, once. What has none is made where it
is wanted, again for each layout. Where a user wants another layout than the value has, a `convert_layout` moves it;
only a cast to a wider type is made again instead, behind the conversion of its narrower operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import (
    OPS,
    Block,
    CompilerBug,
    LinearLayout,
    Module,
    Operation,
    TileType,
    Value,
    bit_width,
    element_of,
    shape_of,
)

from ..analysis.coalesce import default_layout
from ..analysis.natural import ACCESSES, REGIONS, Layout, Naturals, is_reduction
from ..analysis.placement import layout_of
from ..errors import NotCompiledYet
from ..targets import target_named
from .dce import dce

ROOTS = ACCESSES - {"load"} | {"print", "assert"}


def assign_layouts(module: Module) -> bool:
    """Place all tiles of the kernel. Calls must have been inlined; `num_warps` and `target` are attributes.

    Raises NotCompiledYet.
    """
    num_warps, target = module.attributes["num_warps"], module.attributes["target"]
    assert isinstance(num_warps, int) and isinstance(target, str)
    operations = list(module.kernel.walk())
    work = _Assignment(Naturals(module.kernel, target_named(target), num_warps), num_warps)
    for operation in operations:
        work.visit(operation)
    for operation in operations:
        work.leftovers(operation)
    return dce(module) or bool(operations)


class _Assignment:
    def __init__(self, naturals: Naturals, num_warps: int) -> None:
        self.naturals = naturals
        self.num_warps = num_warps
        self.made: dict[tuple[Value, LinearLayout], Value] = {}

    # In program order: what has a layout of its own, and what asks for one

    def visit(self, operation: Operation) -> None:
        """Place what an operation makes, or what it uses if it makes nothing."""
        if operation.name == "print":
            for index, operand in enumerate(operation.operands):
                self.operand(operation, index, self.own(operand) if isinstance(operand.type, TileType) else None)
        elif operation.name in ROOTS:
            self.root(operation)
        elif is_reduction(operation) and operation.block is not None:
            self.settle_operation(operation, self.naturals.of(operation.results[0]))
        for value in (*operation.results, *(argument for region in operation.regions for argument in region.arguments)):
            self.settle(value)

    def own(self, value: Value) -> LinearLayout:
        """The natural layout of a value, or the default one."""
        return self.naturals.of(value) or default_layout(shape_of(value.type), self.num_warps)

    def root(self, operation: Operation) -> None:
        """A store, an atomic or an assert: everything in one layout."""
        first = operation.operands[0]
        if not isinstance(first.type, TileType) or any(layout_of(result.type) for result in operation.results):
            return
        layout = self.naturals.of_access(operation) if operation.name in ACCESSES else self.own(first)
        self.settle_operation(operation, layout, [layout] * len(operation.operands))

    def settle(self, value: Value) -> None:
        """Make a value in its natural layout, if it has one and is not made yet."""
        if layout_of(value.type) is not None or (natural := self.naturals.of(value)) is None:
            return
        producer = value.producer
        if producer is None or producer.name in REGIONS:
            self.place_carried(value, natural)
        elif producer.name in ROOTS:
            self.root(producer)
        else:
            self.settle_operation(producer, natural)

    def settle_operation(self, operation: Operation, layout: Layout, wanted: Sequence[Layout] | None = None) -> None:
        """Place the results, then make the operands where they must be for it."""
        wanted = self.naturals.operands(operation, layout) if wanted is None else wanted
        if wanted is None:
            raise NotCompiledYet(operation, form=f" of {operation.operands[0].type}" if operation.operands else "")
        for result in operation.results:
            self.place(result, layout)
        for index, one in enumerate(wanted):
            self.operand(operation, index, one)

    def operand(self, operation: Operation, index: int, layout: Layout) -> None:
        value = operation.operands[index]
        if isinstance(value.type, TileType):
            assert layout is not None
            operation.set_operand(index, self.want(value, layout))

    def place(self, value: Value, layout: Layout) -> None:
        """Give a value its layout for good."""
        if isinstance(value.type, TileType):
            value.type = TileType(value.type.shape, value.type.element, layout)

    # On demand

    def want(self, value: Value, layout: LinearLayout) -> Value:
        """The value in this layout: as it is, as made before, made now, or moved."""
        self.settle(value)
        have, producer = layout_of(value.type), value.producer
        if have == layout:
            return value
        if (value, layout) not in self.made:
            if have is None and (producer is None or producer.name in REGIONS):
                self.place_carried(value, layout)
                return value
            if producer is not None and (have is None or is_widening(producer)):
                self.repeat(producer, value, layout)
            else:
                self.convert(value, layout)
        return self.made[value, layout]

    def repeat(self, producer: Operation, value: Value, layout: LinearLayout) -> None:
        """Make an operation again, beside itself, with its results in this layout."""
        wanted = self.naturals.operands(producer, layout)
        if wanted is None or producer.regions:
            raise NotCompiledYet(producer, form=f" of {producer.operands[0].type}" if producer.operands else "")
        operands = [
            operand if one is None else self.want(operand, one)
            for operand, one in zip(producer.operands, wanted, strict=True)
        ]
        types = [
            TileType(shape_of(r.type), element_of(r.type), layout) if shape_of(r.type) else r.type
            for r in producer.results
        ]
        copied = Operation(producer.definition, operands, producer.attributes, types, (), producer.location)
        insert(copied, value, before=True)
        for old, new in zip(producer.results, copied.results, strict=True):
            new.name = old.name
            self.made[old, layout] = new

    def convert(self, value: Value, layout: LinearLayout) -> None:
        """Move a value, right where it is made."""
        row = OPS["convert_layout"]
        type_ = TileType(shape_of(value.type), element_of(value.type), layout)
        maker_ = maker(value)
        moved = Operation(row, [value], row.fill({}), [type_], (), maker_.location)
        moved.result.name = value.name
        insert(moved, value, before=False)
        self.made[value, layout] = moved.result

    # Regions

    def place_carried(self, value: Value, layout: LinearLayout) -> None:
        """Place what a region operation carries or yields, in all the places where it goes by another name."""
        holder = maker(value)
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

    def leftovers(self, operation: Operation) -> None:
        """Scalars made of tiles, and what is still carried without a layout."""
        if is_plain_scalar(operation) and any(layout_of(operand.type) is None for operand in operation.operands):
            self.settle_operation(operation, None)
        blocks = [*operation.regions] if operation.name in REGIONS else []
        carried = [*operation.results, *(argument for block in blocks for argument in block.arguments)]
        for value in carried if blocks else ():
            if isinstance(value.type, TileType) and value.type.layout is None:
                self.place_carried(value, default_layout(value.type.shape, self.num_warps))


def is_plain_scalar(operation: Operation) -> bool:
    """Whether an operation without regions makes only scalars that are used, out of tiles."""
    tiles = any(isinstance(operand.type, TileType) for operand in operation.operands)
    scalars = operation.results and not any(isinstance(result.type, TileType) for result in operation.results)
    used = any(result.uses for result in operation.results)
    return bool(tiles and scalars and used) and operation.name not in ROOTS and not operation.regions


def is_widening(operation: Operation) -> bool:
    """Whether an operation makes wider elements of one tile: to move it, its operand is the cheaper one."""
    if len(operation.operands) != 1 or not operation.definition.is_elementwise or not operation.operands[0].uses:
        return False
    (source,) = operation.operands
    return bit_width(element_of(source.type)) < bit_width(element_of(operation.result.type))


def insert(operation: Operation, value: Value, before: bool) -> None:
    """Put an operation beside what makes a value; for a block's argument, at the block's start."""
    producer = value.producer
    block = value.owner if isinstance(value.owner, Block) else value.owner.block
    assert block is not None
    operation.block = block
    block.operations.insert(0 if producer is None else block.operations.index(producer) + (not before), operation)


def maker(value: Value) -> Operation:
    """The operation that a value comes from: its producer, or the one whose region it enters."""
    holder = value.owner.parent if isinstance(value.owner, Block) else value.owner
    if not isinstance(holder, Operation):
        raise CompilerBug("a kernel parameter is a tile")
    return holder
