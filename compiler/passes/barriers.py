"""Insert the barriers that make a program's accesses to memory happen in the order of its text, across its threads.

    store %p, %x                   store %p, %x
    %y = load %q            ->     barrier
    store %r, %y                   %y = load %q
                                   barrier
                                   store %r, %y

An access must wait when it may touch, in another thread, bytes that an earlier one has touched since the last
barrier, and one of the two writes. Pointers may alias, so that only one thing proves that it may not: both go
through the very same tile of pointers, whose elements differ and belong to one thread each. Around an atomic that
releases or acquires the whole program waits, since the order is that of the program and not of a thread.

Operations with scratch memory write it, make all threads wait, and read it; so whoever writes the same bytes next must
wait until these reads are done.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.lang import OPS, Block, Builder, Effect, Module, Operation, TileType, Value, shape_of

from ..analysis.axis import AxisInfo, axis_analysis
from ..analysis.placement import slots
from ..analysis.scratch import scratch_bytes

READS = frozenset((Effect.READ, Effect.READ_WRITE))
WRITES = frozenset((Effect.WRITE, Effect.READ_WRITE))
RELEASES, ACQUIRES = frozenset(("release", "acq_rel")), frozenset(("acquire", "acq_rel"))


@dataclass(frozen=True, slots=True)
class Pending:
    """The accesses since the last barrier: through which pointers (None: any) global memory was read and written, and
    which spans of shared memory were read."""

    reads: frozenset[Value | None] = frozenset()
    writes: frozenset[Value | None] = frozenset()
    shared: frozenset[tuple[int, int]] = frozenset()

    def forgetting(self) -> Pending:
        """The same accesses seen from the next round of a loop, in which values have changed."""
        return Pending(frozenset([None] * bool(self.reads)), frozenset([None] * bool(self.writes)), self.shared)

    def __or__(self, other: Pending) -> Pending:
        return Pending(self.reads | other.reads, self.writes | other.writes, self.shared | other.shared)

    @property
    def any(self) -> bool:
        return bool(self.reads or self.writes)


def barriers(module: Module) -> bool:
    """Insert barriers into the kernel."""
    num_warps = module.attributes["num_warps"]
    assert isinstance(num_warps, int)
    work = _Barriers(axis_analysis(module.kernel), num_warps)
    work.block(module.kernel.body, Pending())
    return work.inserted > 0


@dataclass(slots=True)
class _Barriers:
    facts: dict[Value, AxisInfo]
    num_warps: int
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
        if operation.regions:
            ends = [self.block(region, pending) for region in operation.regions]
            return ends[0] | ends[-1]
        if operation.definition.effect in READS | WRITES:
            pending = self.access(operation, pending)
        return self.exchange(operation, pending)

    def exchange(self, operation: Operation, pending: Pending) -> Pending:
        """An operation that writes its scratch memory, has all threads wait, and reads it."""
        start = operation.attributes.get("scratch", -1)
        assert isinstance(start, int)
        if start < 0:
            return pending
        end = start + scratch_bytes(operation, self.num_warps)
        if any(start < other_end and other_start < end for other_start, other_end in pending.shared):
            self.insert(operation)
        return Pending(shared=frozenset(((start, end),)))

    def loop(self, operation: Operation, pending: Pending) -> Pending:
        """Twice round, the second time with what the first leaves behind; not going round at all leaves `pending`."""
        (body,) = operation.regions
        once = self.block(body, pending)
        again = self.block(body, pending | once.forgetting())
        return pending | once | again

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
        if self.conflicts(pointer, pending, reads, writes) or (sem in RELEASES and pending.any):
            self.insert(operation)
            pending = Pending()
        seen = frozenset((pointer,))
        pending |= Pending(seen if reads else frozenset(), seen if writes else frozenset())
        if sem in ACQUIRES:
            self.insert(operation, after=True)
            return Pending()
        return pending

    def conflicts(self, pointer: Value, pending: Pending, reads: bool, writes: bool) -> bool:
        others = (pending.writes if reads or writes else frozenset()) | (pending.reads if writes else frozenset())
        if not others:
            return False
        return others != {pointer} or not self.own_bytes(pointer)

    def own_bytes(self, pointer: Value) -> bool:
        """Whether each element of a tile of pointers has bytes and a thread of its own."""
        if not isinstance(pointer.type, TileType) or pointer.type.layout is None:
            return False
        distinct = self.facts[pointer].contiguity == shape_of(pointer.type) if pointer in self.facts else False
        return distinct and slots(pointer.type.layout).replica_mask == 0

    def insert(self, operation: Operation, after: bool = False) -> None:
        block = operation.block
        assert block is not None
        builder = Builder()
        builder.at(operation)
        if after:
            where = block.operations.index(operation) + 1
            if block.operations[where].name == "barrier":
                return
            builder.at(block.operations[where])
            builder.location = operation.location
        builder.create(OPS["barrier"])
        self.inserted += 1
