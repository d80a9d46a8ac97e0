"""Compute the same thing once.

    %a = add_i %x, %y : i32              %a = add_i %x, %y : i32
    %b = add_i %x, %y : i32       ->     %c = mul_i %a, %a : i32
    %c = mul_i %a, %b : i32

Only pure operations without regions, and only where the first one is visible: in the same block or around it.
Attributes are compared as text, for 0.0 is not -0.0 and 1 is not True.
"""

from __future__ import annotations

from typing import Any

from tilewright.lang import Block, Module, Operation, Trait


def cse(module: Module) -> bool:
    """Merge equal operations in every function."""
    changes = [_merge(function.body, {}) for function in module.functions.values()]
    return sum(changes) > 0


def _merge(block: Block, outer: dict[Any, Operation]) -> int:
    """Merge inside a block, given what is visible from around it; says how many went."""
    known, merged = dict(outer), 0
    for operation in list(block.operations):
        if operation.definition.is_pure and not operation.regions:
            first = known.setdefault(_key(operation), operation)
            if first is not operation:
                for old, new in zip(operation.results, first.results, strict=True):
                    new.name = new.name or old.name
                    old.replace_uses(new)
                operation.erase()
                merged += 1
        for region in operation.regions:
            merged += _merge(region, known)
    return merged


def _key(operation: Operation) -> Any:
    operands = list(map(id, operation.operands))
    if Trait.COMMUTATIVE in operation.definition.traits:
        operands.sort()
    types = [result.type for result in operation.results]
    attributes = repr(operation.attributes) if operation.attributes else ""
    return operation.name, *operands, attributes, *types
