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
    assert plan.memory is not None
    base = to.scratch(operation)
    with to.only(slots(src)):
        store_tile(to, base, plan.memory, src, element, registers)
    to.barrier()
    to.values[result] = load_tile(to, base, plan.memory, dst, element)
