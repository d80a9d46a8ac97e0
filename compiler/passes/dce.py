"""Remove operations whose results nobody uses and that do nothing else.

    %a = add_i %x, %y : i32
    %b = load %p : f32           ->     store %p, %v
    store %p, %v

Loads go too, unless volatile. A `for` or `if` with no effect inside goes as a whole; a `while` stays, for it may
never end.
"""

from __future__ import annotations

from tilewright.lang import Block, Effect, Module, Operation


def dce(module: Module) -> bool:
    """Remove dead operations from every function."""
    changes = [_sweep(function.body) for function in module.functions.values()]
    return any(changes)


def _sweep(block: Block) -> bool:
    """From the end to the start, so that a chain goes in one sweep. Says whether anything went."""
    changed = False
    for operation in reversed(list(block.operations)):
        for region in operation.regions:
            changed |= _sweep(region)
        if not any(result.uses for result in operation.results) and is_removable(operation):
            operation.erase()
            changed = True
    return changed


def is_removable(operation: Operation) -> bool:
    """Whether an operation does nothing but make its results."""
    if operation.definition.is_terminator or operation.name == "while":
        return False
    if operation.name == "load":
        return not operation.attributes["volatile"]
    if operation.definition.effect is not Effect.NONE:
        return False
    inside = [inner for region in operation.regions for inner in region.operations]
    return all(inner.definition.is_terminator or is_removable(inner) for inner in inside)
