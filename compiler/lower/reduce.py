"""Reductions: a thread folds its registers, a warp its lanes by shuffles, the block its warps through shared memory.

The order of the steps is that of the attribute `tree` (see `passes/trees.py`). Every thread has the result at the end.
A warp whose lanes all lie along the axis folds 32-bit integers by one instruction, for operations that have any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import (
    I32,
    IntType,
    LinearLayout,
    Operation,
    PointerType,
    ScalarType,
    bit_width,
    byte_width,
    element_of,
)

from ..analysis.placement import layout_of, slots
from ..analysis.scratch import rounded_bytes
from .context import Lowering, flat
from .memory import from_memory, memory_type, to_memory
from .registry import lowers
from .text import PTR, SHARED, llvm_type

#: What one instruction folds over a warp, by the operation that combines two elements.
REDUX = {
    "add_i": "add", "min_s": "min", "min_u": "umin", "max_s": "max", "max_u": "umax", "and": "and", "or": "or",
    "xor": "xor",
}  # fmt: skip
#: What a thread loads at once.
VECTOR_BYTES = 16
#: For each place along the other dimensions and along the axis, the registers of all operands.
Part = dict[tuple[int, ...], list[str]]


@lowers("reduce")
def _reduce(to: Lowering, operation: Operation) -> None:
    layout, axis = layout_of(operation.operands[0].type), operation.attributes["axis"]
    assert layout is not None and isinstance(axis, int)
    columns = [to.values[operand] for operand in operation.operands]
    part: Part = {place: [column[r] for column in columns] for r, place in enumerate(slots(layout).registers)}
    work = _Reduction(to, operation, layout, axis)
    part = work.lanes(work.registers(part))
    part = work.warps(part)
    result = layout_of(operation.results[0].type)
    places = ((),) if result is None else slots(result).registers
    rows = [part[(*place[:axis], 0, *place[axis:])] for place in places]
    for number, value in enumerate(operation.results):
        to.values[value] = tuple(row[number] for row in rows)


class _Reduction:
    def __init__(self, to: Lowering, operation: Operation, layout: LinearLayout, axis: int) -> None:
        self.to = to
        self.operation = operation
        self.layout = layout
        self.axis = axis
        self.elements = [element_of(operand.type) for operand in operation.operands]
        threads = slots(layout).bits
        #: (bit of the thread index, bit of the index along the axis), lowest along the axis first.
        self.bits = sorted(
            ((at, bit[1]) for at, bit in enumerate(threads) if bit is not None and bit[0] == axis),
            key=lambda pair: (pair[0] >= 5, pair[1]),
        )

    def combine(self, a: Sequence[str], b: Sequence[str]) -> list[str]:
        """The region, written out for one pair."""
        to, (block,) = self.to, self.operation.regions
        for argument, register in zip(block.arguments, (*a, *b), strict=True):
            to.values[argument] = (register,)
        to.block(block)
        return [to.scalar(value) for value in block.terminator.operands]

    # Registers

    def registers(self, part: Part) -> Part:
        """Fold what a thread holds, by the lowest bit of the axis first."""
        held = [place[self.axis] for place in part]
        for bit in (1 << at for at in range(max(held).bit_length())):
            if not any(index & bit for index in held):
                continue
            folded: Part = {}
            for place, mine in part.items():
                if not place[self.axis] & bit:
                    other = (*place[: self.axis], place[self.axis] | bit, *place[self.axis + 1 :])
                    folded[place] = self.combine(mine, part[other])
            part = folded
        return part

    # Lanes

    def lanes(self, part: Part) -> Part:
        name = redux(self.operation)
        if name and sum(at < 5 for at, _ in self.bits) == 5:
            return {place: [self.folded_at_once(name, value) for value in mine] for place, mine in part.items()}
        for at, _ in self.bits:
            if at < 5:
                part = {place: self.exchanged(mine, at) for place, mine in part.items()}
        return part

    def folded_at_once(self, name: str, value: str) -> str:
        return self.to.text.call("i32", f"llvm.nvvm.redux.sync.{name}", [("i32", value), ("i32", "-1")])

    def exchanged(self, mine: list[str], at: int) -> list[str]:
        """Fold with the lane that differs in one bit; the one with 0 comes first where the order counts."""
        to = self.to
        his = [shuffled(to, element, value, 1 << at) for element, value in zip(self.elements, mine, strict=True)]
        if not self.operation.attributes["ordered"]:
            return self.combine(mine, his)
        second = to.thread_bit(at)
        pairs = list(zip(self.elements, mine, his, strict=True))
        first = [to.text.value(f"select i1 {second}, {llvm_type(e)} {b}, {llvm_type(e)} {a}") for e, a, b in pairs]
        last = [to.text.value(f"select i1 {second}, {llvm_type(e)} {a}, {llvm_type(e)} {b}") for e, a, b in pairs]
        return self.combine(first, last)

    # Warps

    def warps(self, part: Part) -> Part:
        """Each warp writes what it found, side by side with the others of the axis; each thread folds them all."""
        along = [at for at, _ in self.bits if at >= 5]
        if not along:
            return part
        to, count = self.to, 1 << len(along)
        write, written = to.text.label("write"), to.text.label("written")
        row, warp = self.row(), self.index_of(along)
        bases: list[tuple[str, str]] = []
        start = 0
        shape = [extent for axis, extent in enumerate(self.layout.shape) if axis != self.axis]
        elements = 1
        for extent in shape:
            elements *= extent
        for element in self.elements:
            size = byte_width(element)
            read = self.scaled(row, count * size, start)
            own = to.text.at_entry(f"mul i32 {warp}, {size}")
            bases.append((to.scratch(self.operation, read), own))
            start += rounded_bytes(elements * count * size)
        silent = self.silent()
        if silent:
            masked = to.text.at_entry(f"and i32 {to.thread}, {silent}")
            to.text.branch(to.text.at_entry(f"icmp eq i32 {masked}, 0"), write, written)
            to.text.begin(write)
        for place, values in part.items():
            for element, value, (base, own) in zip(self.elements, values, bases, strict=True):
                address = self.address(base, self.flat_place(place) * count * byte_width(element))
                address = to.text.value(f"getelementptr i8, {SHARED} {address}, i32 {own}")
                stored = to_memory(to, element, value)
                to.text.effect(
                    f"store {memory_type(element)} {stored}, {SHARED} {address}, align {byte_width(element)}"
                )
        if silent:
            to.text.jump(written)
            to.text.begin(written)
        to.barrier()
        return {place: self.folded(place, count, [base for base, _ in bases]) for place in part}

    def folded(self, place: tuple[int, ...], count: int, bases: list[str]) -> list[str]:
        """What all warps found for one place, folded by the lowest bit first.

        A lane reads no more than one vector of them, if there are others that need the result too, and they exchange
        what they get: this takes few registers.
        """
        widest = max(map(byte_width, self.elements))
        spare = [at for at in range(5) if self.silent() >> at & 1]
        own = min(count, max(VECTOR_BYTES // widest, count >> len(spare)))
        sharing = spare[: (count // own).bit_length() - 1]
        part = self.index_of(sharing)
        columns: list[list[str]] = []
        for element, base in zip(self.elements, bases, strict=True):
            size = byte_width(element)
            address = self.address(base, self.flat_place(place) * count * size)
            if sharing:
                skipped = self.to.text.at_entry(f"mul i32 {part}, {own * size}")
                address = self.to.text.value(f"getelementptr i8, {SHARED} {address}, i32 {skipped}")
            columns.append(self.found(element, address, own))
        rows = [list(row) for row in zip(*columns, strict=True)]
        while len(rows) > 1:
            rows = [self.combine(rows[at], rows[at + 1]) for at in range(0, len(rows), 2)]
        for at in sharing:
            rows = [self.exchanged(rows[0], at)]
        return rows[0]

    def found(self, element: ScalarType, address: str, count: int) -> list[str]:
        """What some warps found, of one operand."""
        text, kind = self.to.text, memory_type(element)
        align = min(VECTOR_BYTES, byte_width(element) * count)
        vector = text.value(f"load <{count} x {kind}>, {SHARED} {address}, align {align}")
        each = [text.value(f"extractelement <{count} x {kind}> {vector}, i32 {i}") for i in range(count)]
        return [from_memory(self.to, element, value) for value in each]

    def address(self, base: str, offset: int) -> str:
        return self.to.text.value(f"getelementptr i8, {SHARED} {base}, i32 {offset}") if offset else base

    def scaled(self, row: str, size: int, start: int) -> str | int:
        if row == "0":
            return start
        offset = self.to.text.at_entry(f"mul i32 {row}, {size}")
        return self.to.text.at_entry(f"add i32 {offset}, {start}") if start else offset

    def silent(self) -> int:
        """The bits of the thread index that are 0 in the one thread that writes."""
        mask = slots(self.layout).replica_mask
        for at, _ in self.bits:
            mask |= 1 << at if at < 5 else 0
        return mask

    def flat_place(self, place: tuple[int, ...]) -> int:
        """The index of a register's place in the result, row by row."""
        return flat(place, self.weights())

    def weights(self) -> list[int]:
        """The weight of each dimension in the result; 0 for the axis."""
        shape = tuple(1 if axis == self.axis else extent for axis, extent in enumerate(self.layout.shape))
        total, weights = 1, [0] * len(shape)
        for axis in reversed(range(len(shape))):
            weights[axis] = 0 if axis == self.axis else total
            total *= shape[axis]
        return weights

    def row(self) -> str:
        """The index in the result of this thread's first place."""
        total = "0"
        for axis, weight in enumerate(self.weights()):
            place = self.to.place(self.layout, axis) if weight else "0"
            if place != "0":
                part = place if weight == 1 else self.to.text.at_entry(f"mul i32 {place}, {weight}")
                total = part if total == "0" else self.to.text.at_entry(f"add i32 {total}, {part}")
        return total

    def index_of(self, bits: list[int]) -> str:
        """Some bits of the thread index as a number, the first of them lowest."""
        total = "0"
        for number, at in enumerate(bits):
            shifted = self.to.text.at_entry(f"lshr i32 {self.to.thread}, {at}")
            bit = self.to.text.at_entry(f"and i32 {shifted}, 1")
            placed = self.to.text.at_entry(f"shl i32 {bit}, {number}") if number else bit
            total = placed if total == "0" else self.to.text.at_entry(f"or i32 {total}, {placed}")
        return total


def redux(operation: Operation) -> str:
    """The instruction over a warp that is what the region does; "" where there is none."""
    (block,) = operation.regions
    first, *rest = block.operations
    combines = set(first.operands) == set(block.arguments) and tuple(block.terminator.operands) == first.results
    if len(rest) != 1 or not combines or [argument.type for argument in block.arguments] != [I32, I32]:
        return ""
    return REDUX.get(first.name, "")


def shuffled(to: Lowering, element: ScalarType, value: str, lanes: int) -> str:
    """What the lane whose index differs in these bits holds."""
    width = max(8, bit_width(element))
    kind = f"i{width}"
    bits = value
    if element == IntType(1):
        bits = to.text.value(f"zext i1 {value} to i8")
    elif isinstance(element, PointerType):
        bits = to.text.value(f"ptrtoint {PTR} {value} to i64")
    elif llvm_type(element) != kind:
        bits = to.text.value(f"bitcast {llvm_type(element)} {value} to {kind}")
    if width == 64:
        low, high = to.text.value(f"trunc i64 {bits} to i32"), to.text.value(f"lshr i64 {bits}, 32")
        parts = [shuffle_word(to, low, lanes), shuffle_word(to, to.text.value(f"trunc i64 {high} to i32"), lanes)]
        wide = [to.text.value(f"zext i32 {part} to i64") for part in parts]
        bits = to.text.value(f"or i64 {wide[0]}, {to.text.value(f'shl i64 {wide[1]}, 32')}")
    elif width == 32:
        bits = shuffle_word(to, bits, lanes)
    else:
        moved = shuffle_word(to, to.text.value(f"zext {kind} {bits} to i32"), lanes)
        bits = to.text.value(f"trunc i32 {moved} to {kind}")
    if element == IntType(1):
        return to.text.value(f"trunc i8 {bits} to i1")
    if isinstance(element, PointerType):
        return to.text.value(f"inttoptr i64 {bits} to {PTR}")
    return bits if llvm_type(element) == kind else to.text.value(f"bitcast {kind} {bits} to {llvm_type(element)}")


def shuffle_word(to: Lowering, word: str, lanes: int) -> str:
    """A butterfly over a full warp."""
    return to.text.call(
        "i32", "llvm.nvvm.shfl.sync.bfly.i32", [("i32", "-1"), ("i32", word), ("i32", str(lanes)), ("i32", "31")]
    )
