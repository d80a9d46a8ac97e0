"""A tile moved from one layout to another."""

from __future__ import annotations

from tilewright.lang import Operation, byte_width, element_of

from ..analysis.conversion import conversion
from ..analysis.placement import layout_of, slots
from .context import Lowering
from .registry import lowers
from .shared import load_tile, store_tile


@lowers("convert_layout")
def _convert_layout(to: Lowering, operation: Operation) -> None:
    source, result = operation.operands[0], operation.result
    src, dst, element = layout_of(source.type), layout_of(result.type), element_of(result.type)
    assert src is not None and dst is not None
    plan = conversion(src, dst, byte_width(element))
    registers = to.values[source]
    if plan.registers is not None:
        to.values[result] = tuple(registers[r] for r in plan.registers)
        return
    assert plan.memory is not None and plan.pieces is not None
    base, pieces, moved = to.scratch(operation), plan.pieces, [""] * len(slots(dst).registers)
    for number, (sources, results) in enumerate(pieces.registers):
        if number:
            to.barrier()
        with to.only(slots(src)):
            store_tile(to, base, plan.memory, pieces.src, element, [registers[r] for r in sources])
        to.barrier()
        for register, value in zip(results, load_tile(to, base, plan.memory, pieces.dst, element), strict=True):
            moved[register] = value
    to.values[result] = tuple(moved)
