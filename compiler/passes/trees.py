"""Record on every reduction the bracketing that its layout leads to, so that the reference can replay it.

    reduce %a {axis = 0}        ->       reduce %a {axis = 0, tree = (0, 1, 7, 2, 3, 4, 5, 6)}

A thread combines its registers, then a warp its lanes, then the block its warps, in each of them by the lowest bit of
the index first. What differs in one bit is combined at each step: hence the bracketing is the order of the bits.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tilewright.lang import Module, Operation

from ..analysis.natural import is_reduction
from ..analysis.placement import LANE, REGISTER, WARP, layout_of

#: The line in the source of a reduction, its axis, and the bits of the index in the order in which they are folded.
Tree: TypeAlias = tuple[int, int, tuple[int, ...]]


def record_trees(module: Module) -> bool:
    """Set `tree` on the reductions of the kernel, whose tiles are placed."""
    found = [operation for operation in module.kernel.walk() if is_reduction(operation)]
    for operation in found:
        operation.attributes["tree"] = tree(operation)
    return bool(found)


def recorded(module: Module) -> tuple[Tree, ...]:
    """The bracketings of a module's reductions that were recorded, in the order of the program."""
    found: list[Tree] = []
    for operation in module.kernel.walk():
        if is_reduction(operation):
            axis, bits = operation.attributes["axis"], operation.attributes["tree"]
            assert isinstance(axis, int) and isinstance(bits, tuple)
            found.append((operation.location.line, axis, tuple(bit for bit in bits if isinstance(bit, int))))
    return tuple(found)


def tree(operation: Operation) -> tuple[int, ...]:
    """The bits of the index along the axis, in the order in which they are folded."""
    layout, axis = layout_of(operation.operands[0].type), operation.attributes["axis"]
    assert layout is not None and isinstance(axis, int)
    order: list[int] = []
    for name in (REGISTER, LANE, WARP):
        bits: Any = [vector[axis].bit_length() - 1 for vector in layout.bases.get(name, ()) if vector[axis]]
        order += sorted(bits)
    return tuple(order)
