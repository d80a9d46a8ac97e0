"""Matrix products by multiply-adds: every result is a chain of them over K.

Narrow floats are multiplied and added up in f32 and rounded at the end. Operands that fit a thread's registers are
there. Larger ones are laid down in shared memory, and a loop over K reads a few columns of `a` and rows of `b` a round,
so that few registers hold them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.lang import (
    F16,
    F32,
    F64,
    I8,
    FloatType,
    LinearLayout,
    Operation,
    ScalarType,
    Value,
    byte_width,
    element_of,
    shape_of,
)

from ..analysis.dot_layouts import plain_operand_layout
from ..analysis.placement import layout_of, slots
from ..analysis.scratch import staged_bytes
from ..analysis.shared_accesses import Access, images, vectors
from ..analysis.swizzle import memory_layout
from .context import Lowering
from .control import Phis
from .dot_parts import cut
from .fp8 import decode
from .shared import Addresses, load_group, store_tile
from .text import llvm_type

Place: TypeAlias = tuple[int, ...]
#: What this thread has of an operand, by place.
Held: TypeAlias = Callable[[Place], str]
#: How many products of each result a round of the loop adds, at least: a power of two.
DEPTH = 4


def held(to: Lowering, value: Value) -> dict[Place, str]:
    """What this thread holds, by place."""
    layout = layout_of(value.type)
    assert layout is not None
    return dict(zip(slots(layout).registers, to.values[value], strict=True))


def multiply_add(to: Lowering, operation: Operation) -> None:
    """Write a dot without matrix instructions."""
    element = element_of(operation.result.type)
    totals = {place: wide(to, element, start) for place, start in held(to, operation.operands[2]).items()}
    if any(staged_bytes(operation)):
        totals = _piecewise(to, operation, totals)
    else:
        a, b = (_once(to, operation, index, held(to, operation.operands[index]).__getitem__) for index in (0, 1))
        totals = _added(to, element, totals, a, b, range(shape_of(operation.operands[0].type)[-1]))
    results = totals.values()
    if element == F16:
        results = [to.text.value(f"fptrunc float {total} to half") for total in results]
    to.values[operation.result] = tuple(results)


def _added(
    to: Lowering, element: ScalarType, totals: dict[Place, str], a: Held, b: Held, depths: Iterable[int]
) -> dict[Place, str]:
    """The totals with the products of some places along K added."""
    totals = dict(totals)
    for k in depths:
        for place in totals:
            *batch, m, n = place
            totals[place] = _fused(to, element, a((*batch, m, k)), b((*batch, k, n)), totals[place])
    return totals


def _once(to: Lowering, operation: Operation, index: int, source: Held) -> Held:
    """An operand as the multiply-add takes it, each element made so the first time that it is asked for."""
    element, precision = element_of(operation.operands[index].type), operation.attributes["precision"]
    known: dict[Place, str] = {}

    def once(place: Place) -> str:
        if place not in known:
            value = wide(to, element, source(place))
            known[place] = cut(to, [value])[1][0] if element == F32 and precision == "tf32" else value
        return known[place]

    return once


def wide(to: Lowering, element: ScalarType, register: str) -> str:
    """An element in the type in which products are added."""
    if element == I8:
        return to.text.value(f"sext i8 {register} to i32")
    if isinstance(element, FloatType) and element.is_fp8:
        return decode(to, element, [register])[0]
    if isinstance(element, FloatType) and element.width == 16:
        return to.text.value(f"fpext {llvm_type(element)} {register} to float")
    return register


def _fused(to: Lowering, element: ScalarType, a: str, b: str, total: str) -> str:
    if isinstance(element, FloatType):
        kind = "double" if element == F64 else "float"
        name = "llvm.fma.f64" if element == F64 else "llvm.fma.f32"
        return to.text.call(kind, name, [(kind, a), (kind, b), (kind, total)])
    product = to.text.value(f"mul i32 {a}, {b}")
    return to.text.value(f"add i32 {total}, {product}")


# Through shared memory


@dataclass(frozen=True, slots=True)
class _Staged:
    """An operand in shared memory at `base`: its place there, and how a thread reads what it needs of it. The lowest
    bits of a register's index are its place along K, and add `images[i]` each to the offset."""

    element: ScalarType
    base: str
    layout: LinearLayout
    access: Access
    images: tuple[int, ...]

    @property
    def together(self) -> int:
        """The bits of the place along K that one vector covers."""
        mask = 0
        for register in self.access.groups[0]:
            mask |= register
        return mask & (1 << len(self.images)) - 1

    def reader(self, to: Lowering, moving: str, moves: int) -> Held:
        """Elements by place, read by vectors when they are asked for. `moving` is added to each offset."""
        places, access = slots(self.layout).registers, self.access
        group_of = {places[register]: number for number, group in enumerate(access.groups) for register in group}
        addresses = Addresses(to, self.base, access, moving, moves)
        known: dict[Place, str] = {}

        def read(place: Place) -> str:
            if place not in known:
                number = group_of[place]
                got = load_group(addresses, access, number, self.element)
                known.update(zip((places[register] for register in access.groups[number]), got, strict=True))
            return known[place]

        return read


def _stage(to: Lowering, operation: Operation, index: int, offset: int) -> _Staged:
    """Write an operand to shared memory."""
    value, result = operation.operands[index], layout_of(operation.result.type)
    element, source = element_of(value.type), layout_of(value.type)
    assert source is not None and result is not None
    depth, size = shape_of(operation.operands[0].type)[-1], byte_width(element)
    wanted = plain_operand_layout(result, index, depth)
    memory, base = memory_layout(source, wanted, size), to.scratch(operation, offset)
    with to.only(slots(source)):
        store_tile(to, base, memory, source, element, to.values[value])
    along_k = images(memory, wanted, size)[0][: depth.bit_length() - 1]
    return _Staged(element, base, wanted, vectors(memory, wanted, size), along_k)


def _piecewise(to: Lowering, operation: Operation, totals: dict[Place, str]) -> dict[Place, str]:
    """The loop over K. A round covers the places along K that differ in the bits of `inner`."""
    text, element = to.text, element_of(operation.result.type)
    staged = [_stage(to, operation, index, (0, staged_bytes(operation)[0])[index]) for index in (0, 1)]
    to.barrier()
    bits = range(len(staged[0].images))
    together = staged[0].together | staged[1].together
    inner = [bit for bit in bits if together >> bit & 1]
    inner += [bit for bit in bits if bit not in inner][: max(0, DEPTH.bit_length() - 1 - len(inner))]
    outer = [bit for bit in bits if bit not in inner]
    depths = [sum(1 << bit for at, bit in enumerate(inner) if number >> at & 1) for number in range(1 << len(inner))]
    kind = {"f64": "double", "i32": "i32"}.get(str(element), "float")
    before, loop, after = text.current, text.label("products"), text.label("sum")
    text.jump(loop)
    text.begin(loop)
    phis = Phis(to, ["i32", *[kind] * len(totals)])
    count, *starts = phis.names
    readers = [_moved(to, operand, count, outer) for operand in staged]
    a, b = (_once(to, operation, index, reader) for index, reader in enumerate(readers))
    made = _added(to, element, dict(zip(totals, starts, strict=True)), a, b, depths)
    more = text.value(f"add i32 {count}, 1")
    phis.close((before, ["0", *totals.values()]), (text.current, [more, *made.values()]))
    text.branch(text.value(f"icmp ult i32 {more}, {1 << len(outer)}"), loop, after)
    text.begin(after)
    return made


def _moved(to: Lowering, operand: _Staged, count: str, outer: list[int]) -> Held:
    """An operand in the round `count`, whose bits are the places' `outer` bits."""
    moving, moves = "0", 0
    for at, image in enumerate(operand.images[bit] for bit in outer):
        # Place the one bit of the count at every bit of the image.
        bit = to.text.value(f"and i32 {count}, {1 << at}")
        set_ = to.text.value(f"icmp ne i32 {bit}, 0")
        part = to.text.value(f"select i1 {set_}, i32 {image}, i32 0")
        moving = part if moving == "0" else to.text.value(f"xor i32 {moving}, {part}")
        moves |= image
    return operand.reader(to, moving, moves)
