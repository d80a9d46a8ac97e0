"""Give every buffer, and every operation that needs shared memory while it runs, its place there.

    %b = local_alloc {stages = 2}         %b = local_alloc {stages = 2, scratch = 0}
    (a loop on %b)                 ->     (a loop on %b)
    %d = convert_layout %c                %d = convert_layout %c {scratch = 0}

A buffer lives from its `local_alloc` to the last operation on what descends from it; a loop around that operation, but
not around the `local_alloc`, counts as a whole. Buffers that are alive at the same time lie side by side. Scratch
memory is needed for one operation only and goes where no living buffer is. All of it could have the same bytes; but the
next operation would have to wait until all threads are done with the last. They take turns in a window instead, as
large as the largest asks for, and at least as large as costs no occupancy while no buffer lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.lang import Block, Function, Module, Operation

from ..analysis.buffers import buffer_bytes, home, is_buffer
from ..analysis.natural import is_reduction
from ..analysis.scratch import scratch_bytes
from ..errors import SharedMemoryExceeded, SharedNeed
from ..targets import target_named

ALIGNMENT = 128
#: What a block may use without keeping another from its multiprocessor: the smallest has 100 KB for 1536 threads.
WINDOW = 16 * 1024

Span = tuple[int, int]


@dataclass(slots=True)
class Need:
    """Bytes that an operation makes room for, from its own number to that of the last that uses them."""

    operation: Operation
    size: int
    first: int
    last: int
    start: int = 0

    @property
    def span(self) -> Span:
        return self.start, self.start + self.size

    def meets(self, other: Need) -> bool:
        """Whether both need their bytes at some time."""
        return self.first <= other.last and other.first <= self.last


def allocate(module: Module) -> bool:
    """Set `scratch` where it is needed, and the module's attribute `shared`: the bytes that a block needs.

    Raises SharedMemoryExceeded.
    """
    num_warps, target = module.attributes["num_warps"], module.attributes["target"]
    assert isinstance(num_warps, int) and isinstance(target, str)
    buffers, scratches = needs_of(module.kernel, num_warps)
    limit = target_named(target).shared_bytes
    place_buffers(buffers)
    top = place_scratches(scratches, buffers, WINDOW)
    if top > limit:
        top = place_scratches(scratches, buffers, 0)
    if top > limit:
        refuse([*buffers, *scratches], top, limit, target)
    for need in (*buffers, *scratches):
        need.operation.attributes["scratch"] = need.start
    module.attributes["shared"] = top
    return bool(buffers or scratches)


def needs_of(kernel: Function, num_warps: int) -> tuple[list[Need], list[Need]]:
    """The buffers of a kernel, and the scratch memory of its operations, in order."""
    number = {operation: at for at, operation in enumerate(kernel.walk())}
    buffers: dict[Operation, Need] = {}
    scratches: list[Need] = []
    for operation, at in number.items():
        if operation.name == "local_alloc":
            buffers[operation] = Need(operation, rounded(buffer_bytes(operation)), at, at)
        elif size := scratch_bytes(operation, num_warps):
            scratches.append(Need(operation, rounded(size), at, at))
        for operand in operation.operands:
            if is_buffer(operand.type):
                need = buffers[home(operand)]
                need.last = max(need.last, end_of_use(operation, need.operation, number))
    return list(buffers.values()), scratches


def end_of_use(user: Operation, maker: Operation, number: dict[Operation, int]) -> int:
    """The number of the last operation of the outermost loop around a user that is not around the maker as well."""
    outer = user
    around = set(ancestors(maker))
    for holder in ancestors(user):
        if holder in around:
            break
        outer = holder
    return max(number[inner] for inner in outer.walk())


def ancestors(operation: Operation) -> Iterable[Operation]:
    """The operations that an operation is inside, innermost first."""
    block: Block | None = operation.block
    while block is not None and isinstance(holder := block.parent, Operation):
        yield holder
        block = holder.block


def place_buffers(buffers: Sequence[Need]) -> None:
    """The largest first, each as low as it fits beside those that live at the same time."""
    placed: list[Need] = []
    for need in sorted(buffers, key=lambda need: -need.size):
        need.start = lowest(0, need.size, [other.span for other in placed if other.meets(need)])
        placed.append(need)


def place_scratches(scratches: Sequence[Need], buffers: Sequence[Need], window: int) -> int:
    """Take turns in a window of free bytes; the top of all that is used."""
    window = max([window, *(need.size for need in scratches)])
    offset = 0
    for need in scratches:
        busy = [buffer.span for buffer in buffers if buffer.meets(need)]
        end = max([window, *(stop for _, stop in busy)])
        need.start = lowest(offset, need.size, busy)
        if need.start + need.size > end:
            need.start = lowest(0, need.size, busy)
        offset = need.start + need.size
    return max((need.start + need.size for need in (*buffers, *scratches)), default=0)


def lowest(start: int, size: int, busy: Sequence[Span]) -> int:
    """The first place from `start` on for so many bytes that are all free."""
    for first, stop in sorted(busy):
        if first < start + size and start < stop:
            start = stop
    return start


def rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def refuse(needs: Sequence[Need], top: int, limit: int, target: str) -> None:
    """Raise SharedMemoryExceeded for what reaches beyond the limit, with all that lives at the same time."""
    worst = max(needs, key=lambda need: need.start + need.size)
    together = [
        SharedNeed(need.start, need.size, purpose(need.operation), need.operation.location)
        for need in sorted(needs, key=lambda need: need.start)
        if need.meets(worst)
    ]
    ahead = any(need.operation.attributes.get("stages", 1) != 1 for need in needs if need.meets(worst))
    raise SharedMemoryExceeded(
        worst.operation,
        together,
        what=purpose(worst.operation),
        bytes=top,
        target=target,
        limit=limit,
        advice=", or lower num_stages: so many rounds of a loop are loaded at a time" if ahead else "",
    )


#: What an operation wants shared memory for, as an author knows it.
PURPOSES = {
    "convert_layout": "moving a tile between threads",
    "dot": "the operands of a product",
    "load": "handing a loaded value to every thread",
}


def purpose(operation: Operation) -> str:
    """What an operation wants shared memory for."""
    if operation.name == "local_alloc":
        stages = operation.attributes["stages"]
        return f"{stages} rounds of a loop's loads" if stages != 1 else "a tile that all threads read"
    if is_reduction(operation):
        return "what each warp reduces to"
    return PURPOSES.get(operation.name, "handing an old value to every thread")
