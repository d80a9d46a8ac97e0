"""A tile moved from one layout to another."""

from __future__ import annotations

from tilewright.lang import LinearLayout, Operation, byte_width, element_of

from ..analysis.conversion import conversion
from ..analysis.placement import layout_of, slots
from .context import Lowering, flat, flat_weights
from .memory import from_memory, memory_type, to_memory
from .registry import lowers
from .text import SHARED


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
    size, kind = byte_width(element), memory_type(element)
    base = to.scratch(operation, element_offset(to, src, size))
    chosen = to.chosen(slots(src))
    write, written = to.text.label("write"), to.text.label("written")
    if chosen:
        to.text.branch(chosen, write, written)
        to.text.begin(write)
    for place, register in zip(slots(src).registers, registers, strict=True):
        address = to.text.value(f"getelementptr i8, {SHARED} {base}, i32 {flat(place, flat_weights(src)) * size}")
        to.text.effect(f"store {kind} {to_memory(to, element, register)}, {SHARED} {address}, align {size}")
    if chosen:
        to.text.jump(written)
        to.text.begin(written)
    to.barrier()
    base = to.scratch(operation, element_offset(to, dst, size))
    got: list[str] = []
    for place in slots(dst).registers:
        address = to.text.value(f"getelementptr i8, {SHARED} {base}, i32 {flat(place, flat_weights(dst)) * size}")
        got.append(from_memory(to, element, to.text.value(f"load {kind}, {SHARED} {address}, align {size}")))
    to.values[result] = tuple(got)


def element_offset(to: Lowering, layout: LinearLayout, size: int) -> str:
    """The byte at which this thread's first element lies, row by row."""
    total = "0"
    for axis, weight in enumerate(flat_weights(layout)):
        place = to.place(layout, axis)
        if place == "0":
            continue
        part = place if weight * size == 1 else to.text.at_entry(f"mul i32 {place}, {weight * size}")
        total = part if total == "0" else to.text.at_entry(f"add i32 {total}, {part}")
    return total
