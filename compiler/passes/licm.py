"""Move pure operations out of loops that they do not depend on.

    for %i = ... {                        %a = mul_i %n, %m : i32
      %a = mul_i %n, %m : i32      ->     for %i = ... {
      ... use %a                            ... use %a

Loads stay: memory may change under them. A loop that says `disable_licm` is left alone.
"""

from __future__ import annotations

from tilewright.lang import Block, Module, Operation, Value

LOOPS = ("for", "while")


def licm(module: Module) -> bool:
    """Hoist out of every loop, innermost first."""
    moved = 0
    for function in module.functions.values():
        loops = [operation for operation in function.walk() if operation.name in LOOPS]
        moved += sum(_hoist(loop) for loop in reversed(loops) if not loop.attributes["disable_licm"])
    return moved > 0


def _hoist(loop: Operation) -> int:
    """Move what can go in front of a loop; says how much."""
    inside = {value for region in loop.regions for value in _defined(region)}
    moved = 0
    for region in loop.regions:
        for operation in list(region.operations):
            if not operation.definition.is_pure or operation.regions:
                continue
            if any(operand in inside for operand in operation.operands):
                continue
            inside.difference_update(operation.results)
            _move_before(operation, loop)
            moved += 1
    return moved


def _defined(block: Block) -> set[Value]:
    """Every value made in a block, nested ones included."""
    values = set(block.arguments)
    for operation in block.operations:
        values.update(operation.results)
        for region in operation.regions:
            values |= _defined(region)
    return values


def _move_before(operation: Operation, place: Operation) -> None:
    assert operation.block is not None and place.block is not None
    operation.block.operations.remove(operation)
    place.block.operations.insert(place.block.operations.index(place), operation)
    operation.block = place.block
