"""The state of lowering one kernel: its text, the registers of each value, and where this thread's elements lie."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod

from tilewright.lang import Block, LinearLayout, Location, Operation, TileType, Value, element_of

from ..analysis.axis import AxisInfo
from ..analysis.buffers import dot_ahead
from ..analysis.coalesce import WARP_SIZE
from ..analysis.placement import Slots, layout_of, slots
from ..analysis.scratch import EXCHANGE_BYTES
from ..errors import NotCompiledYet, NotOnTarget
from ..targets import Needs, Target
from .registry import LOWERINGS
from .text import SHARED, Text


class Lowering:
    """Writes a kernel. `values` holds for each value the LLVM names of this thread's registers.

    `left` holds what is still to be written of operations before a dot, with where it comes from in the source.
    `pairs` knows the register from which two narrow elements came apart, and `negated` what a flipped sign was before.
    """

    def __init__(self, text: Text, target: Target, num_warps: int, facts: dict[Value, AxisInfo]) -> None:
        self.text = text
        self.target = target
        self.num_warps = num_warps
        self.facts = facts
        self.values: dict[Value, Sequence[str]] = {}
        self.pairs: dict[tuple[str, str], str] = {}
        self.negated: dict[str, str] = {}
        self.left: list[tuple[Location, Callable[[], object]]] = []
        self._thread = ""
        self._places: dict[tuple[LinearLayout, int], str] = {}
        self._chosen: dict[int, str] = {}

    # Operations

    def block(self, block: Block) -> None:
        """Write the operations of a block, its terminator left out."""
        for operation in block.operations:
            if not operation.definition.is_terminator:
                self.operation(operation)

    def operation(self, operation: Operation) -> None:
        """Write one operation. Raises NotCompiledYet and NotOnTarget."""
        row = LOWERINGS.get(operation.name)
        operands = operation.operands
        if row is None or (operands and element_of(operands[0].type) in row.refused):
            raise NotCompiledYet(operation, form=f" of {element_of(operands[0].type)}" if operands else "")
        self.need(operation, row.needs)
        self.text.at(operation.location)
        row.lower(self, operation)

    def leave(self, operation: Operation, work: Callable[[], object]) -> None:
        """Write a part of an operation when the dot ahead has begun; at once, if there is none."""
        if dot_ahead(operation) is None:
            work()
        else:
            self.left.append((operation.location, work))

    def carry_on(self) -> None:
        """Write what was left."""
        now, self.left = self.left, []
        location = self.text.location
        for place, work in now:
            self.text.at(place)
            work()
        self.text.at(location)

    def need(self, operation: Operation, needs: Needs, form: str = "") -> None:
        """Refuse an operation that the target lacks something for."""
        if not self.target.meets(needs):
            ptx = f"{needs.ptx // 10}.{needs.ptx % 10}"
            raise NotOnTarget(operation, form=form, sm=needs.sm, ptx=ptx, target=self.target.name)

    def scalar(self, value: Value) -> str:
        """The one register of a scalar."""
        (only,) = self.values[value]
        return only

    def alike(self, value: Value) -> Sequence[int]:
        """For each register of a value the first one that must hold the same, by what is known of it."""
        layout = layout_of(value.type)
        return (0,) if layout is None else first_of_runs(layout, self.facts[value].constancy)

    # Threads and places

    @property
    def threads(self) -> int:
        return WARP_SIZE * self.num_warps

    @property
    def thread(self) -> str:
        """The index of this thread in its block."""
        if not self._thread:
            self.text.declarations.add("declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
            self._thread = self.text.at_entry("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        return self._thread

    def slots(self, value: Value) -> Slots:
        """Where the elements of a value live; a scalar lives in every thread."""
        layout = layout_of(value.type)
        if layout is None:
            if isinstance(value.type, TileType):
                raise ValueError(f"{value!r} has no layout")
            return self.slots_of_scalar()
        return slots(layout)

    def slots_of_scalar(self) -> Slots:
        """A scalar lives in every thread."""
        return Slots(((),), ((),) * (self.threads.bit_length() - 1), self.threads - 1)

    def place(self, layout: LinearLayout, axis: int) -> str:
        """The index along an axis of this thread's first element."""
        if (layout, axis) not in self._places:
            self._places[layout, axis] = self._compute_place(slots(layout), axis)
        return self._places[layout, axis]

    def _compute_place(self, where: Slots, axis: int) -> str:
        return self.sum_of_bits([vector[axis] for vector in where.threads])

    def sum_of_bits(self, images: Sequence[int]) -> str:
        """The XOR of the images of all bits of the thread's index that are set; bits that move alike move together."""
        moves: dict[int, int] = {}
        for index, image in enumerate(images):
            for bit in range(image.bit_length()):
                if image >> bit & 1:
                    moves[bit - index] = moves.get(bit - index, 0) | 1 << index
        total = "0"
        for shift, mask in moves.items():
            part = self.thread
            if mask != self.threads - 1:
                part = self.text.at_entry(f"and i32 {part}, {mask}")
            if shift:
                part = self.text.at_entry(f"{'shl' if shift > 0 else 'lshr'} i32 {part}, {abs(shift)}")
            total = part if total == "0" else self.text.at_entry(f"xor i32 {total}, {part}")
        return total

    def index(self, layout: LinearLayout, register: int, axis: int, start: int = 0) -> str:
        """The index along an axis of the element in a register, plus `start`."""
        where, first = slots(layout), self.place(layout, axis)
        own = where.registers[register][axis]
        if first == "0":
            return str(own + start)
        mixed = own & where.moved_bits(axis)
        if mixed:
            first = self.text.value(f"xor i32 {first}, {mixed}")
        more = (own ^ mixed) + start
        return self.text.value(f"add i32 {first}, {more}") if more else first

    def thread_bit(self, index: int) -> str:
        """Whether a bit of the thread index is set, as an i1."""
        masked = self.text.at_entry(f"and i32 {self.thread}, {1 << index}")
        return self.text.at_entry(f"icmp ne i32 {masked}, 0")

    def odd(self, bits: int) -> str:
        """Whether an odd number of some bits of the thread index are set, as an i1."""
        if not bits & bits - 1:
            return self.thread_bit(bits.bit_length() - 1)
        masked = self.text.at_entry(f"and i32 {self.thread}, {bits}")
        self.text.declarations.add("declare i32 @llvm.ctpop.i32(i32)")
        return self.text.at_entry(f"trunc i32 {self.text.at_entry(f'call i32 @llvm.ctpop.i32(i32 {masked})')} to i1")

    def chosen(self, where: Slots) -> str:
        """Whether this thread is the one of its replicas that counts, as an i1; "" when it has none."""
        mask = where.replica_mask
        if not mask:
            return ""
        if mask not in self._chosen:
            masked = self.thread if mask == self.threads - 1 else self.text.at_entry(f"and i32 {self.thread}, {mask}")
            self._chosen[mask] = self.text.at_entry(f"icmp eq i32 {masked}, 0")
        return self._chosen[mask]

    @contextmanager
    def only(self, where: Slots) -> Generator[None]:
        """What is written inside is done by the thread that counts of each set of replicas."""
        chosen = self.chosen(where)
        if not chosen:
            yield
            return
        begin, end = self.text.label("only"), self.text.label("all")
        self.text.branch(chosen, begin, end)
        self.text.begin(begin)
        yield
        self.text.jump(end)
        self.text.begin(end)

    # Synchronisation

    def barrier(self) -> None:
        """All threads wait for each other; their accesses before it come before those after it."""
        if self.num_warps == 1:
            self.text.call("void", "llvm.nvvm.bar.warp.sync", [("i32", "-1")])
        else:
            self.text.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", [("i32", "0")])

    def scratch(self, operation: Operation, offset: int | str = 0) -> str:
        """The address of a byte of an operation's shared memory."""
        start = operation.attributes["scratch"]
        assert isinstance(start, int) and start >= 0, f"{operation.name} has no scratch memory"
        self.text.globals["@shared"] = "@shared = external addrspace(3) global [0 x i8], align 128"
        base = f"getelementptr (i8, {SHARED} @shared, i32 {start})" if start else "@shared"
        return base if offset == 0 else self.text.value(f"getelementptr i8, {SHARED} {base}, i32 {offset}")

    def share(self, operation: Operation, where: Slots, type_: str, registers: Sequence[str]) -> tuple[str, ...]:
        """Give every replica what the thread that counts holds in these registers, through the scratch memory.

        Replicas must differ in bits of the thread's index that mean nothing else.
        """
        if not where.replica_mask or not registers:
            return tuple(registers)
        assert not any(any(vector) for at, vector in enumerate(where.threads) if where.replica_mask >> at & 1)
        keep = self.threads - 1 & ~where.replica_mask
        owner = self.text.at_entry(f"and i32 {self.thread}, {keep}")
        slot = self.scratch(operation, self.text.at_entry(f"mul i32 {owner}, {EXCHANGE_BYTES}"))
        got: list[str] = []
        for register in registers:
            if got:
                self.barrier()
            got.append(self._share_one(where, type_, slot, register))
        return tuple(got)

    def _share_one(self, where: Slots, type_: str, slot: str, register: str) -> str:
        write, written = self.text.label("share"), self.text.label("shared")
        self.text.branch(self.chosen(where), write, written)
        self.text.begin(write)
        stored, kind = (self.text.value(f"zext i1 {register} to i8"), "i8") if type_ == "i1" else (register, type_)
        self.text.effect(f"store {kind} {stored}, {SHARED} {slot}, align 8")
        self.text.jump(written)
        self.text.begin(written)
        self.barrier()
        got = self.text.value(f"load {kind}, {SHARED} {slot}, align 8")
        return self.text.value(f"trunc i8 {got} to i1") if type_ == "i1" else got


def register_count(value: Value) -> int:
    """How many registers a thread has for a value."""
    layout = layout_of(value.type)
    return 1 if layout is None else len(slots(layout).registers)


@cache
def first_of_runs(layout: LinearLayout, constancy: tuple[int, ...]) -> tuple[int, ...]:
    """For each register the first whose elements lie in the same constant runs, whatever the thread.

    The bits of a place come from the thread or from the register, so that equal register bits above the run decide.
    """
    first: dict[tuple[int, ...], int] = {}
    places = slots(layout).registers
    runs = [tuple(p // run for p, run in zip(place, constancy, strict=True)) for place in places]
    return tuple(first.setdefault(run, register) for register, run in enumerate(runs))


def register_map(dst: LinearLayout, src: LinearLayout, project: Sequence[int]) -> list[int]:
    """For each register of `dst`, the one of `src` whose place is that place with other strides: see `flat`.

    `project[d]` is the weight that a step along dimension d of dst has in the flat place of src.
    """
    weights = flat_weights(src)
    known = {flat(place, weights): r for r, place in enumerate(slots(src).registers)}
    return [known[flat(place, project)] for place in slots(dst).registers]


def flat(place: Sequence[int], weights: Sequence[int]) -> int:
    """A place as one number."""
    return sum(p * w for p, w in zip(place, weights, strict=True))


def flat_weights(layout: LinearLayout) -> list[int]:
    """The row-major weight of each dimension."""
    shape = layout.shape
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]
