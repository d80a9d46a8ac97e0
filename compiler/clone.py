"""Copies of IR: of an operation, a block or a module, with the values inside replaced."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.lang import Block, Function, Location, Module, Operation, Value

Values = dict[Value, Value]


def same_location(location: Location) -> Location:
    """The location of a plain copy."""
    return location


def clone_operation(
    operation: Operation, values: Values, relocate: Callable[[Location], Location] = same_location
) -> Operation:
    """A copy in no block; `values` maps operands to those of the copy and gets the results added."""
    copied = Operation(
        operation.definition,
        [values.get(operand, operand) for operand in operation.operands],
        operation.attributes,
        [result.type for result in operation.results],
        [],
        relocate(operation.location),
    )
    regions: list[Block] = []
    for region in operation.regions:
        block = clone_block(region, values, relocate)
        block.parent = copied
        regions.append(block)
    copied.regions = tuple(regions)
    for old, new in zip(operation.results, copied.results, strict=True):
        new.name = old.name
        values[old] = new
    return copied


def clone_block(block: Block, values: Values, relocate: Callable[[Location], Location] = same_location) -> Block:
    """A copy without a parent, with arguments of its own."""
    copied = Block([argument.type for argument in block.arguments], [argument.name for argument in block.arguments])
    values.update(zip(block.arguments, copied.arguments, strict=True))
    append_clones(block, copied, values, relocate)
    return copied


def append_clones(
    block: Block, to: Block, values: Values, relocate: Callable[[Location], Location] = same_location
) -> None:
    """Append copies of a block's operations to another block."""
    for operation in block.operations:
        copied = clone_operation(operation, values, relocate)
        copied.block = to
        to.operations.append(copied)


def clone_module(module: Module) -> Module:
    """A copy that shares nothing that can change."""
    copied = Module(attributes=dict(module.attributes))
    for function in module.functions.values():
        body = clone_block(function.body, {})
        attributes = [dict(each) for each in function.argument_attributes]
        copied.add(
            Function(
                function.name, body, function.result_types, dict(function.attributes), attributes, function.location
            )
        )
    return copied
