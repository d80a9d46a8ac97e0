"""Insert the barriers that make a program's accesses to memory happen in the order of its text, across its threads.

    store %p, %x                   store %p, %x
    %y = load %q            ->     barrier
    store %r, %y                   %y = load %q
                                   barrier
                                   store %r, %y

An access must wait when it may touch, in another thread, bytes that an earlier one has touched since the last
barrier, and one of the two writes. Pointers may alias, so that only one thing proves that it may not: both go
through the very same tile of pointers, whose elements differ and belong to one thread each; or both are of the first
thread, as writes of a single element are. In front of an atomic that releases the whole program waits, and behind one
that acquires until there is another access, since the order is that of the program and not of a thread.

Shared memory is told apart by its bytes. Operations with scratch memory write it, make all threads wait, and read it;
so whoever writes the same bytes next must wait until these reads are done. Stages of a buffer are told apart where
their numbers differ (`analysis/stages.py`). What an asynchronous copy writes is there
once its thread has waited for it, and for other threads after the next barrier: its accesses count as those of the
`async_wait`. Whoever makes such copies sees to it that each is waited for before its buffer goes. Where threads read
from a buffer only what they have copied there themselves, none waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tilewright.lang import (
    OPS,
    Block,
    Builder,
    Effect,
    Function,
    LinearLayout,
    Module,
    Operation,
    TileType,
    Trait,
    Value,
    byte_width,
    element_of,
    shape_of,
)

from ..analysis.axis import AxisInfo, axis_analysis
from ..analysis.buffers import buffer_bytes, home, is_buffer, stage_of
from ..analysis.coalesce import WARP_SIZE
from ..analysis.constants import constant_of
from ..analysis.placement import layout_of, slots
from ..analysis.scratch import scratch_bytes
from ..analysis.shared_accesses import load_access
from ..analysis.stages import carried_stages, differ

READS = frozenset((Effect.READ, Effect.READ_WRITE))
WRITES = frozenset((Effect.WRITE, Effect.READ_WRITE))
#: In the place of a pointer: through any, but by the first thread of the program alone.
ALONE: Literal["alone"] = "alone"
Through = Value | Literal["alone"] | None
RELEASES, ACQUIRES = frozenset(("release", "acq_rel")), frozenset(("acquire", "acq_rel"))


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of shared memory: a span; of which buffer, if they are one's, and of which stage of it, if of only one; and
    whether no thread touches what is another's there."""

    first: int
    stop: int
    buffer: Operation | None = None
    stage: Value | None = None
    private: bool = False

    def meets(self, other: Part) -> bool:
        """Whether a thread may touch here what another touched there."""
        if self.stop <= other.first or other.stop <= self.first:
            return False
        if self.buffer is None or self.buffer is not other.buffer:
            return True
        return not self.private and (self.stage is None or other.stage is None or not differ(self.stage, other.stage))

    def renamed(self, olds: Sequence[Value], news: Sequence[Value]) -> set[Part]:
        """The part as it is called where some stages have new names. A stage that has none is any."""
        if self.stage is None:
            return {self}
        names = [new for old, new in zip(olds, news, strict=True) if old is self.stage]
        kept = [] if constant_of(self.stage) is None else [self.stage]
        return {replace(self, stage=name) for name in names or kept or [None]}


@dataclass(frozen=True, slots=True)
class Pending:
    """The accesses since the last barrier: through which pointers (None: any) global memory was read and written, and
    which spans of shared memory. `acquired`: through which of them something was acquired."""

    reads: frozenset[Through] = frozenset()
    writes: frozenset[Through] = frozenset()
    acquired: frozenset[Through] = frozenset()
    shared_reads: frozenset[Part] = frozenset()
    shared_writes: frozenset[Part] = frozenset()

    def forgetting(self, olds: Sequence[Value] = (), news: Sequence[Value] = ()) -> Pending:
        """The same accesses seen from the next round of a loop, in which values have changed, and stages have new
        names."""
        reads, writes, acquired = (
            frozenset(each if each == ALONE else None for each in some)
            for some in (self.reads, self.writes, self.acquired)
        )
        return replace(self, reads=reads, writes=writes, acquired=acquired).renamed(olds, news)

    def renamed(self, olds: Sequence[Value] = (), news: Sequence[Value] = ()) -> Pending:
        """The same accesses where stages have new names."""
        reads, writes = (
            frozenset(new for part in some for new in part.renamed(olds, news))
            for some in (self.shared_reads, self.shared_writes)
        )
        return replace(self, shared_reads=reads, shared_writes=writes)

    def __or__(self, other: Pending) -> Pending:
        return Pending(
            self.reads | other.reads,
            self.writes | other.writes,
            self.acquired | other.acquired,
            self.shared_reads | other.shared_reads,
            self.shared_writes | other.shared_writes,
        )

    def meets(self, part: Part, writes: bool) -> bool:
        """Whether an access to shared memory must wait for one of these."""
        others = self.shared_writes | self.shared_reads if writes else self.shared_writes
        return any(part.meets(other) for other in others)


#: Operations on buffers that touch shared memory, or that make what was done to it count.
BUFFERS = frozenset(("async_copy", "async_wait", "local_store", "local_load"))
#: Which operand of those that write it has the layout in which threads do it.
TILE_AT = {"async_copy": 0, "local_store": 2}


def barriers(module: Module) -> bool:
    """Insert barriers into the kernel."""
    num_warps = module.attributes["num_warps"]
    assert isinstance(num_warps, int)
    work = _Barriers(axis_analysis(module.kernel), num_warps, private_buffers(module.kernel))
    work.block(module.kernel.body, Pending())
    return work.inserted > 0


@dataclass(slots=True)
class _Barriers:
    facts: dict[Value, AxisInfo]
    num_warps: int
    private: frozenset[Operation]
    inserted: int = field(default=0)

    def block(self, block: Block, pending: Pending) -> Pending:
        for operation in list(block.operations):
            pending = self.operation(operation, pending)
        return pending

    def operation(self, operation: Operation, pending: Pending) -> Pending:
        if operation.name == "barrier":
            return Pending()
        if operation.name == "for":
            return self.loop(operation, pending)
        if operation.name == "while":
            return self.whilst(operation, pending)
        if operation.name == "if":
            ends = [self.block(region, pending) for region in operation.regions]
            return ends[0] | ends[-1]
        if operation.name in BUFFERS:
            return self.buffers(operation, pending)
        if operation.definition.effect in READS | WRITES:
            pending = self.access(operation, pending)
        return self.exchange(operation, pending)

    def exchange(self, operation: Operation, pending: Pending) -> Pending:
        """An operation that writes its scratch memory, has all threads wait, and reads it."""
        start = operation.attributes.get("scratch", -1)
        assert isinstance(start, int)
        if start < 0 or operation.name == "local_alloc":
            return pending
        part = Part(start, start + scratch_bytes(operation, self.num_warps))
        if pending.meets(part, writes=True):
            self.insert(operation)
        return Pending(shared_reads=frozenset((part,)))

    def buffers(self, operation: Operation, pending: Pending) -> Pending:
        """An operation on buffers. A copy reads and writes until it is waited for, but what it reads must be there now,
        and what was done with the bytes that it writes must be over."""
        copies, waits, reads = (operation.name == name for name in ("async_copy", "async_wait", "local_load"))
        stage = None if waits else operation.operand("index")
        parts = frozenset(self.part(home(each), stage) for each in operation.operands if is_buffer(each.type))
        late = not waits and any(pending.meets(part, writes=not reads) for part in parts)
        if late or (copies and self.conflicts(operation.operands[0], pending, reads=True, writes=False)):
            self.insert(operation)
            pending = Pending()
        if copies:
            return pending
        if reads:
            return pending | Pending(shared_reads=parts)
        return pending | Pending(reads=frozenset([None] * waits), shared_writes=parts)

    def loop(self, operation: Operation, pending: Pending) -> Pending:
        """Round until another round would find nothing new pending; not going round at all leaves `pending`."""
        (body,) = operation.regions
        stages = carried_stages(operation)
        arguments, inits, ends = (
            [values[index] for index in stages]
            for values in (body.arguments[1:], operation.operands[3:], body.terminator.operands)
        )
        entering = pending.renamed(inits, arguments)
        while True:
            left = self.block(body, entering)
            again = entering | left.forgetting(ends, arguments)
            if again == entering:
                return pending | left.renamed()
            entering = again

    def whilst(self, operation: Operation, pending: Pending) -> Pending:
        before, after = operation.regions
        left = self.block(before, pending)
        once = self.block(after, left)
        left |= self.block(before, pending | once.forgetting())
        self.block(after, left)
        return left

    def access(self, operation: Operation, pending: Pending) -> Pending:
        pointer = operation.operands[0]
        reads, writes = operation.definition.effect in READS, operation.definition.effect in WRITES
        sem = operation.attributes.get("sem", "")
        if self.conflicts(pointer, pending, reads, writes, sem in RELEASES):
            self.insert(operation)
            pending = Pending()
        seen: frozenset[Through] = frozenset((ALONE if writes and self.is_alone(pointer) else pointer,))
        none: frozenset[Through] = frozenset()
        return pending | Pending(seen if reads else none, seen if writes else none, seen if sem in ACQUIRES else none)

    def conflicts(self, pointer: Value, pending: Pending, reads: bool, writes: bool, releases: bool = False) -> bool:
        """Whether an access through a pointer must wait for one of these."""
        ordered = pending.acquired | (pending.reads | pending.writes if releases else frozenset())
        others = (pending.writes if reads or writes else frozenset()) | (pending.reads if writes else frozenset())
        if writes and self.is_alone(pointer):
            ordered, others = ordered - {ALONE}, others - {ALONE}
        return bool(ordered) or (bool(others) and (others != {pointer} or not self.own_bytes(pointer)))

    def own_bytes(self, pointer: Value) -> bool:
        """Whether each element of a tile of pointers has bytes and a thread of its own.

        Contiguity is known for each dimension by itself: with two of them, `p + i[:, None] + j[None, :]` meets itself.
        """
        if not isinstance(pointer.type, TileType) or pointer.type.layout is None or pointer not in self.facts:
            return False
        shape = shape_of(pointer.type)
        distinct = self.facts[pointer].contiguity == shape and sum(extent > 1 for extent in shape) <= 1
        return distinct and slots(pointer.type.layout).replica_mask == 0

    def part(self, maker: Operation, stage: Value | None) -> Part:
        """The bytes of a buffer."""
        start = maker.attributes["scratch"]
        assert isinstance(start, int)
        return Part(start, start + buffer_bytes(maker), maker, stage, maker in self.private)

    def is_alone(self, pointer: Value) -> bool:
        """Whether all threads hold the same elements, which are then the first one's to write."""
        if not isinstance(pointer.type, TileType):
            return True
        layout = pointer.type.layout
        return layout is not None and slots(layout).replica_mask == WARP_SIZE * self.num_warps - 1

    def insert(self, operation: Operation) -> None:
        builder = Builder()
        builder.at(operation)
        builder.create(OPS["barrier"])
        self.inserted += 1


def private_buffers(kernel: Function) -> frozenset[Operation]:
    """The `local_alloc`s of buffers that are written and read in one layout, without replicas, and by plain accesses:
    a matrix instruction reads what other lanes have written."""
    layouts: dict[Operation, set[LinearLayout | None]] = {}
    for operation in kernel.walk():
        if (
            operation.name != "async_wait"
            and not operation.regions
            and Trait.TERMINATOR not in operation.definition.traits
        ):
            for buffer in operation.operands:
                if is_buffer(buffer.type):
                    layouts.setdefault(home(buffer), set()).add(threads_of(operation))
    return frozenset(maker for maker, found in layouts.items() if len(found) == 1 and is_plain(maker, *found))


def threads_of(operation: Operation) -> LinearLayout | None:
    """The layout in which threads touch a buffer; None where it is not known."""
    if operation.name == "local_load":
        return layout_of(operation.result.type)
    return layout_of(operation.operands[TILE_AT[operation.name]].type) if operation.name in TILE_AT else None


def is_plain(maker: Operation, layout: LinearLayout | None) -> bool:
    """Whether each thread reads elements of its own by itself."""
    memory = layout_of(maker.result.type)
    if layout is None or memory is None or slots(layout).replica_mask or layout.shape != memory.shape[1:]:
        return False
    return not load_access(stage_of(memory), layout, byte_width(element_of(maker.result.type))).matrix
