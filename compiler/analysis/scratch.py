"""How many bytes of shared memory an operation needs while it runs, so that threads can exchange what they hold."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from tilewright.lang import Operation, byte_width, element_of, shape_of, tile_layouts

from .coalesce import WARP_SIZE
from .conversion import conversion
from .dot_layouts import plain_operand_layout
from .natural import is_reduction
from .placement import WARP, layout_of, slots

Rule: TypeAlias = Callable[[Operation, int], int]
#: Bytes through which one value of a thread reaches its replicas.
EXCHANGE_BYTES = 8


def scratch_bytes(operation: Operation, num_warps: int) -> int:
    """The bytes for an operation whose tiles are placed; 0 for most."""
    if is_reduction(operation):
        return _reduction(operation)
    rule = RULES.get(operation.name)
    return 0 if rule is None else rule(operation, num_warps)


def _convert_layout(operation: Operation, num_warps: int) -> int:
    src, dst = layout_of(operation.operands[0].type), layout_of(operation.result.type)
    assert src is not None and dst is not None
    return conversion(src, dst, byte_width(element_of(operation.result.type))).bytes


def _reduction(operation: Operation) -> int:
    """What each warp along the axis found, for every element of the result, and each operand."""
    layout, axis = layout_of(operation.operands[0].type), operation.attributes["axis"]
    assert layout is not None and isinstance(axis, int)
    along = sum(1 for vector in layout.bases[WARP] if vector[axis])
    if not along:
        return 0
    rest: Any = tile_layouts.sliced(layout, axis) if len(layout.outs) > 1 else None
    elements = 1
    for extent in rest.shape if rest is not None else ():
        elements *= extent
    return sum(rounded_bytes((elements << along) * byte_width(element_of(o.type))) for o in operation.operands)


def _dot(operation: Operation, num_warps: int) -> int:
    """Both operands of plain multiply-adds, where they are read piece by piece."""
    return sum(staged_bytes(operation))


def staged_bytes(operation: Operation) -> tuple[int, int]:
    """The bytes in which the operands of a dot are laid down; 0 where their registers are used as they are."""
    result, operands = layout_of(operation.result.type), operation.operands[:2]
    depth = shape_of(operands[0].type)[-1]
    assert result is not None
    plain = [plain_operand_layout(result, index, depth) for index in (0, 1)]
    if operation.attributes["instruction"] == "mma" or [layout_of(operand.type) for operand in operands] == plain:
        return 0, 0
    first, second = (prod(shape_of(operand.type)) * byte_width(element_of(operand.type)) for operand in operands)
    return rounded_bytes(first), rounded_bytes(second)


def rounded_bytes(size: int) -> int:
    """A size that keeps what follows aligned for the widest access."""
    return -(-size // 16) * 16


def _load(operation: Operation, num_warps: int) -> int:
    return _atomic(operation, num_warps) if operation.attributes["volatile"] else 0


def _atomic(operation: Operation, num_warps: int) -> int:
    (result,) = operation.results
    layout = layout_of(result.type)
    replicated = layout is None or bool(slots(layout).replica_mask)
    return WARP_SIZE * num_warps * EXCHANGE_BYTES if result.uses and replicated else 0


RULES: dict[str, Rule] = {
    "convert_layout": _convert_layout,
    "dot": _dot,
    "load": _load,
    **dict.fromkeys(("atomic_rmw", "atomic_cas", "atomic_load", "atomic_poll"), _atomic),
}
