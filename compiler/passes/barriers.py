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

Shared memory is told apart by its bytes. Operations with scratch memory write it, make all threads wait, and read it;
so whoever writes the same bytes next must wait until these reads are done. What an asynchronous copy writes is there
once its thread has waited for it, and for other threads after the next barrier: its accesses count as those of the
`async_wait`. Whoever makes such copies sees to it that each is waited for before its buffer goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.lang import OPS, Block, Builder, Effect, Module, Operation, TileType, Value, shape_of

from ..analysis.axis import AxisInfo, axis_analysis
from ..analysis.buffers import buffer_bytes, home, is_buffer
from ..analysis.placement import slots
from ..analysis.scratch import scratch_bytes

READS = frozenset((Effect.READ, Effect.READ_WRITE))
WRITES = frozenset((Effect.WRITE, Effect.READ_WRITE))
Span = tuple[int, int]
RELEASES, ACQUIRES = frozenset(("release", "acq_rel")), frozenset(("acquire", "acq_rel"))


@dataclass(frozen=True, slots=True)
class Pending:
    """The accesses since the last barrier: through which pointers (None: any) global memory was read and written, and
    which spans of shared memory."""

    reads: frozenset[Value | None] = frozenset()
    writes: frozenset[Value | None] = frozenset()
    shared_reads: frozenset[Span] = frozenset()
    shared_writes: frozenset[Span] = frozenset()

    def forgetting(self) -> Pending:
        """The same accesses seen from the next round of a loop, in which values have changed."""
        any_ = frozenset([None])
        return replace(self, reads=any_ if self.reads else self.reads, writes=any_ if self.writes else self.writes)

    def __or__(self, other: Pending) -> Pending:
        return Pending(
            self.reads | other.reads,
            self.writes | other.writes,
            self.shared_reads | other.shared_reads,
            self.shared_writes | other.shared_writes,
        )

    @property
    def any(self) -> bool:
        return bool(self.reads or self.writes)

    def meets(self, span: Span, writes: bool) -> bool:
        """Whether an access to shared memory must wait for one of these."""
        others = self.shared_writes | self.shared_reads if writes else self.shared_writes
        return any(span[0] < end and start < span[1] for start, end in others)


#: Operations on buffers that touch shared memory, or that make what was done to it count.
BUFFERS = frozenset(("async_copy", "async_wait", "local_store", "local_load"))


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
        span = start, start + scratch_bytes(operation, self.num_warps)
        if pending.meets(span, writes=True):
            self.insert(operation)
        return Pending(shared_reads=frozenset((span,)))

    def buffers(self, operation: Operation, pending: Pending) -> Pending:
        """An operation on buffers. A copy reads and writes until it is waited for, but what it reads must be there now,
        and what was done with the bytes that it writes must be over."""
        copies, waits, reads = (operation.name == name for name in ("async_copy", "async_wait", "local_load"))
        spans = frozenset(span_of(operand) for operand in operation.operands if is_buffer(operand.type))
        late = not waits and any(pending.meets(span, writes=not reads) for span in spans)
        if late or (copies and self.conflicts(operation.operands[0], pending, reads=True, writes=False)):
            self.insert(operation)
            pending = Pending()
        if copies:
            return pending
        if reads:
            return pending | Pending(shared_reads=spans)
        return pending | Pending(reads=frozenset([None] * waits), shared_writes=spans)

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


def span_of(buffer: Value) -> Span:
    """The bytes of a buffer."""
    operation = home(buffer)
    start = operation.attributes["scratch"]
    assert isinstance(start, int)
    return start, start + buffer_bytes(operation)
