"""Takes out what the walk made and nothing uses: results of `if`, and pure operations without uses.

Joins yield every variable and flag that differs between two arms; only later does it show which of them are read.
"""

from __future__ import annotations

from ..ir import Block, Function, Operation, Value
from ..ops.control import IF


def tidy(function: Function) -> None:
    """Drop unused results of every `if`, and unused pure operations, from the end to the beginning."""
    _tidy_block(function.body)


def _tidy_block(block: Block) -> None:
    for operation in reversed(list(block.operations)):
        if operation.definition is IF:
            operation = _without_unused_results(operation)
        if operation.definition.is_pure and not any(result.uses for result in operation.results):
            operation.erase()
            continue
        for region in reversed(operation.regions):
            _tidy_block(region)


def _without_unused_results(operation: Operation) -> Operation:
    """The `if` with only the results that are used."""
    kept = [index for index, result in enumerate(operation.results) if result.uses]
    if len(kept) == len(operation.results):
        return operation
    for region in operation.regions:
        keep_operands(region.terminator, kept)
    types = [operation.results[index].type for index in kept]
    slim = Operation(
        operation.definition, operation.operands, operation.attributes, types, operation.regions, operation.location
    )
    block = operation.block
    assert block is not None
    slim.block = block
    for index, result in zip(kept, slim.results, strict=True):
        result.name = operation.results[index].name
        operation.results[index].replace_uses(result)
    block.operations[block.operations.index(operation)] = slim
    for index, value in enumerate(operation.operands):
        del value.uses[operation, index]
    return slim


def keep_operands(operation: Operation, kept: list[int]) -> None:
    """Reduce the operands to those at these places."""
    operands: list[Value] = [operation.operands[index] for index in kept]
    for index, value in enumerate(operation.operands):
        del value.uses[operation, index]
    operation.operands = operands
    for index, value in enumerate(operands):
        value.uses[operation, index] = None
