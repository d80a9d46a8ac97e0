"""Making values, and changing shape: which register of the operand each register of the result is."""

from __future__ import annotations

from typing import Any

from tilewright.lang import IntType, Operation, bit_width, element_of

from ..analysis.placement import layout_of, slots
from .context import Lowering, flat, flat_weights, register_count, register_map
from .formats import literal
from .registry import lowers, lowers_elements
from .text import PTR, llvm_type, zero

AXES = "xyz"


@lowers("constant")
def _constant(to: Lowering, operation: Operation) -> None:
    result = operation.result
    to.values[result] = (literal(element_of(result.type), operation.attributes["value"]),) * register_count(result)


@lowers("poison")
def _poison(to: Lowering, operation: Operation) -> None:
    """Zeros: anything will do, and this is what the interpreter has."""
    (result,) = operation.results
    to.values[result] = (zero(element_of(result.type)),) * register_count(result)


@lowers("arange")
def _arange(to: Lowering, operation: Operation) -> None:
    (result,) = operation.results
    layout, start = layout_of(result.type), operation.attributes["start"]
    assert layout is not None and isinstance(start, int)
    to.values[result] = tuple(to.index(layout, r, 0, start) for r in range(register_count(result)))


@lowers("program_id", "num_programs")
def _grid(to: Lowering, operation: Operation) -> None:
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    register = "ctaid" if operation.name == "program_id" else "nctaid"
    to.values[operation.result] = (to.text.call("i32", f"llvm.nvvm.read.ptx.sreg.{register}.{AXES[axis]}", []),)


@lowers("splat")
def _splat(to: Lowering, operation: Operation) -> None:
    to.values[operation.result] = (to.scalar(operation.operands[0]),) * register_count(operation.result)


@lowers("hint")
def _hint(to: Lowering, operation: Operation) -> None:
    to.values[operation.result] = to.values[operation.operands[0]]


@lowers_elements("add_ptr")
def _add_ptr(to: Lowering, operation: Operation, args: list[str]) -> str:
    offset = element_of(operation.operands[1].type)
    pointer: Any = element_of(operation.operands[0].type)
    wide = args[1] if bit_width(offset) == 64 else to.text.value(f"sext {offset} {args[1]} to i64")
    step = "i8" if pointer.pointee == IntType(1) else llvm_type(pointer.pointee)
    return to.text.value(f"getelementptr {step}, {PTR} {args[0]}, i64 {wide}")


def take(to: Lowering, operation: Operation, weights: list[int]) -> None:
    """Bind each register of the result to the operand's register at the place that `weights` lead to."""
    source, result = operation.operands[0], operation.result
    src, dst = layout_of(source.type), layout_of(result.type)
    registers = to.values[source]
    if src is None or dst is None:  # one element, which is in every thread
        to.values[result] = tuple(registers) * register_count(result)
        return
    to.values[result] = tuple(registers[r] for r in register_map(dst, src, weights))


@lowers("broadcast")
def _broadcast(to: Lowering, operation: Operation) -> None:
    source = operation.operands[0]
    layout = layout_of(source.type)
    assert layout is not None
    weights = [0 if extent == 1 else w for extent, w in zip(layout.shape, flat_weights(layout), strict=True)]
    take(to, operation, weights)


@lowers("expand_dims", "reshape")
def _reshape(to: Lowering, operation: Operation) -> None:
    """The flat place of an element stays what it is."""
    layout = layout_of(operation.result.type)
    take(to, operation, [] if layout is None else flat_weights(layout))


@lowers("permute")
def _permute(to: Lowering, operation: Operation) -> None:
    layout, order = layout_of(operation.operands[0].type), operation.attributes["order"]
    assert layout is not None and isinstance(order, tuple)
    weights = flat_weights(layout)
    take(to, operation, [weights[axis] for axis in order if isinstance(axis, int)])


@lowers("join")
def _join(to: Lowering, operation: Operation) -> None:
    """Where the two lie in different registers each takes its own; where in different threads each thread chooses."""
    result = operation.result
    layout = layout_of(result.type)
    assert layout is not None
    where, last = slots(layout), len(layout.outs) - 1
    columns = [to.values[operand] for operand in operation.operands]
    half = layout_of(operation.operands[0].type)
    known = {}
    if half is not None:
        known = {flat(place, flat_weights(half)): r for r, place in enumerate(slots(half).registers)}
    bits = [index for index, bit in enumerate(where.bits) if bit == (last, 0)]
    second = to.thread_bit(bits[0]) if bits else ""
    type_ = llvm_type(element_of(result.type))
    registers: list[str] = []
    for place in where.registers:
        source = known[flat(place[:last], flat_weights(half))] if half is not None else 0
        a, b = (column[source] for column in columns)
        if second:
            registers.append(to.text.value(f"select i1 {second}, {type_} {b}, {type_} {a}"))
        else:
            registers.append(b if place[last] else a)
    to.values[result] = tuple(registers)


@lowers("split")
def _split(to: Lowering, operation: Operation) -> None:
    """The placement has put the two halves into a thread's own registers."""
    source = operation.operands[0]
    layout = layout_of(source.type)
    assert layout is not None
    places = {place: r for r, place in enumerate(slots(layout).registers)}
    for index, result in enumerate(operation.results):
        half = layout_of(result.type)
        rows = ((),) if half is None else slots(half).registers
        to.values[result] = tuple(to.values[source][places[(*row, index)]] for row in rows)
