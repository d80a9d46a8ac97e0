"""Bulk copies: `cp.async.bulk` and `cp.reduce.async.bulk` of a row of bytes, their groups, and prefetches.

Sizes and addresses are multiples of 16. A copy into shared memory signals an mbarrier beside its target; one out of it
belongs to its thread's bulk group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...errors import MemoryAccessError
from ..access import Access, engine_access
from ..frame import Frame, Index, spread
from ..hopper.checks import Place
from ..hopper.clusters import OFFSET, mapped, row_of
from ..hopper.transfers import Combine, Target, Transfer
from ..site import Read, Site
from ..spaces import in_shared, resolve
from ..syntax import Address, Operand, Vector
from ..table import Step, step
from ..targets import needs
from ..types import TYPES, Array, PtxType
from .atomic import apply, combiner
from .copy import MOST_LEFT, groups_left
from .memory import address_reader

_U16, _U32 = TYPES["b16"], TYPES["u32"]
_HINT = "[.L2::cache_hint]"
_CAST = "[.<cast:multicast::cluster>]"
_SIGNAL = "mbarrier::complete_tx::bytes"


class Operands:
    """The operands of an asynchronous copy, taken one after the other."""

    def __init__(self, site: Site) -> None:
        needs(site, 90)
        self.site, self._rest = site, list(site.operands)
        if site.modifiers.get("L2__cache_hint"):
            self.take()
            self._rest = list(site.operands[:-1])

    def take(self) -> Operand:
        """The next one."""
        if not self._rest:
            self.site.fail(f"`{self.site.instruction.opcode}` needs more operands, found {len(self.site.operands)}")
        return self._rest.pop(0)

    def address(self, space: str, coordinates: bool = False) -> tuple[Read, Address]:
        """How to read the next operand, an address in a space."""
        operand = self.take()
        if not isinstance(operand, Address) or bool(operand.coordinates) != coordinates:
            wanted = "a tensor map and coordinates" if coordinates else "an address"
            self.site.fail(f"`{self.site.instruction.opcode}` needs {wanted} in brackets")
        return address_reader(self.site, operand, space), operand

    def number(self, type_: PtxType = _U32) -> Read:
        """How to read the next operand, a number."""
        return self.site.read(self.take(), type_)

    def numbers(self, count: int, type_: PtxType) -> list[Read]:
        """How to read the next operand, so many numbers in braces."""
        operand = self.take()
        parts = operand.elements if isinstance(operand, Vector) else ()
        if len(parts) != count:
            self.site.fail(f"`{self.site.instruction.opcode}` needs {{...}} of {count} here, one a dimension of pixels")
        return [self.site.read(part, type_) for part in parts]

    def end(self) -> None:
        """There must be no more."""
        if self._rest:
            self.site.fail(f"`{self.site.instruction.opcode}` has {len(self._rest)} operands too many")


class Lane(NamedTuple):
    """A thread that executes an instruction, and what stands in its place among others: to read its operands."""

    frame: Frame
    thread: int

    def value(self, read: Read) -> int:
        """An operand."""
        return int(spread(read(self.frame, self.alone), 1)[0])

    @property
    def alone(self) -> Array:
        """The thread as an index."""
        return np.array([self.thread])


def lanes(frame: Frame, index: Index) -> list[Lane]:
    """The threads of an index."""
    return [Lane(frame, thread) for thread in frame.indices(index).tolist()]


def fault(site: Site, lane: Lane, what: str) -> MemoryAccessError:
    """An error about a copy of a thread."""
    return site.fault(MemoryAccessError, f"`{site.instruction.opcode}`: {what}", lane.frame, lane.thread)


def shared_place(access: Access, lane: Lane, address: int, nbytes: int, align: int, dtype: str) -> tuple[Place, int]:
    """Consecutive elements in shared memory, and the block of the frame that they belong to."""
    frame, rows, site = lane.frame, lane.frame.shared, access.site
    offsets, block = row_of(access, frame, lane.alone, np.array([address], np.uint64))
    start, row = int(offsets[0]), int(block[0])
    if start % align:
        raise fault(site, lane, f"shared address {address:#x} is no multiple of {align}")
    if start + nbytes > rows.size:
        raise fault(site, lane, f"{nbytes} bytes at shared address {address:#x}, out of bounds: there are {rows.size}")
    view = rows.typed(np.dtype(dtype))
    unit = view.dtype.itemsize
    position = (row * rows.stride + start) // unit + np.arange(nbytes // unit)
    return Place(rows, view, position), row


def global_place(access: Access, lane: Lane, address: int, nbytes: int, dtype: str) -> Place:
    """Consecutive elements in global memory, of one argument."""
    if address % 16:
        raise fault(access.site, lane, f"byte address {address:#x} is no multiple of 16")
    unit = np.dtype(dtype).itemsize
    addresses = np.uint64(address) + np.arange(0, nbytes, unit, dtype=np.uint64)
    return placed(access, lane, addresses, dtype)


def placed(access: Access, lane: Lane, addresses: Array, dtype: str) -> Place:
    """Elements in global memory, of one argument. Raises MemoryAccessError."""
    element = access.narrowed(np.dtype(dtype))
    cells = resolve(element, "global", lane.frame, np.full(len(addresses), lane.thread), addresses)
    if len(cells) > 1:
        raise fault(access.site, lane, f"from byte address {int(addresses[0]):#x} on it touches several arguments")
    (part,) = cells
    return Place(part.home, part.view, part.position, part.start)


def key_of(access: Access, lane: Lane, address: int) -> int:
    """The mbarrier at an address of shared memory."""
    offsets, block = row_of(access, lane.frame, lane.alone, np.array([address], np.uint64))
    start = int(offsets[0])
    if start % 8 or start + 8 > lane.frame.shared.size:
        raise fault(access.site, lane, f"no mbarrier can be at shared address {address:#x}")
    key = int(block[0]) * (lane.frame.shared.stride // 8) + start // 8
    lane.frame.engines.mbarriers.at(access.site, lane.thread, key)
    return key


def cast_to(site: Site, lane: Lane, address: int, mask: int | None) -> list[int]:
    """The addresses that a copy goes to: one, or the same in the blocks of the cluster that a mask names."""
    if mask is None:
        return [address]
    cluster = lane.frame.cluster
    if mask == 0 or mask >> cluster:
        raise fault(site, lane, f"the mask {mask:#x} of a cluster of {cluster} blocks")
    own = np.array([lane.thread // lane.frame.threads % cluster])
    ranks = [rank for rank in range(cluster) if mask >> rank & 1]
    return [int(mapped(np.array([address & OFFSET], np.uint64), np.array([rank]), own)[0]) for rank in ranks]


def size_of(site: Site, lane: Lane, read: Read) -> int:
    """How many bytes a copy has."""
    nbytes = lane.value(read)
    if nbytes % 16 or nbytes == 0:
        raise fault(site, lane, f"a size of {nbytes} bytes, which is no multiple of 16")
    return nbytes


class Accesses(NamedTuple):
    """What a copy does to memory: it reads, it writes, and it signals mbarriers."""

    read: Access
    write: Access
    signal: Access


def accesses(site: Site, source: str, target: str, kind: str = "copy", size: int = 16) -> Accesses:
    """The accesses of a copy between spaces, of pieces of a size; it reduces where `red` is a modifier."""
    reduces = site.modifiers.get("red")
    read = engine_access(site, source, size, f"read of a {kind}", "read")
    write = engine_access(site, target, size, f"write of a {kind}", "atomic" if reduces else "write")
    return Accesses(read, write, engine_access(site, "shared", 8, f"signal of a {kind}", "peek"))


def combination(site: Site, type_: PtxType, flush: bool = False) -> Combine | None:
    """How a reduction writes, and whether subnormals are zeros to it; None for a copy."""
    op = site.modifiers.get("red")
    if not op:
        return None
    combine = combiner(op, type_, flush=flush)

    def run(view: Array, position: Array, values: Array) -> None:
        apply(view.view(type_.carrier), position, (values.view(type_.carrier),), combine, type_)

    return run


def _window(site: Site, read: Read, space: str) -> Callable[[Lane], int]:
    """How to read an address of shared memory, where `space` is empty a generic one."""
    if space:
        return lambda lane: lane.value(read)
    return lambda lane: int(in_shared(site, lane.frame, lane.alone, np.array([lane.value(read)], np.uint64))[0])


def _bulk(source: str, target: str) -> Callable[[Site], Step]:
    """A copy between spaces; into shared memory it signals an mbarrier."""

    def build(site: Site) -> Step:
        operands, signals = Operands(site), target == "shared"
        type_ = TYPES[site.modifiers.get("type") or "b64"]
        to, origin = operands.address(target)[0], operands.address(source)[0]
        nbytes = operands.number()
        barrier = operands.address("shared")[0] if signals else None
        mask = operands.number(_U16) if site.modifiers.get("cast") else None
        operands.end()
        uses, combine, dtype = accesses(site, source, target, "bulk copy"), combination(site, type_), str(type_.carrier)

        def place(access: Access, space: str, lane: Lane, address: int, size: int) -> Place:
            if space == "shared":
                return shared_place(access, lane, address, size, 16, dtype)[0]
            return global_place(access, lane, address, size, dtype)

        def run(frame: Frame, index: Index) -> None:
            for lane in lanes(frame, index):
                if source == target and not frame.launch.explicit_cluster:
                    raise fault(site, lane, "the kernel is launched without clusters, where hardware has no such copy")
                size, chosen = size_of(site, lane, nbytes), None if mask is None else lane.value(mask)
                begins = cast_to(site, lane, lane.value(to), chosen)
                keys: list[int | None] = [None]
                if barrier is not None:
                    keys = [key_of(uses.signal, lane, a) for a in cast_to(site, lane, lane.value(barrier), chosen)]
                places = [place(uses.write, target, lane, begin, size) for begin in begins]
                targets = tuple(Target(p, None, key) for p, key in zip(places, keys, strict=True))
                taken = place(uses.read, source, lane, lane.value(origin), size)
                transfer = Transfer(
                    site, lane.thread, uses.read, uses.write, taken, targets, len(taken.position), size,
                    combine=combine,
                )  # fmt: skip
                frame.engines.transfers.issue(transfer, grouped=not signals)

        return run

    return build


_INTO = "<to:shared::cluster|shared::cta>"
step(f"cp.async.bulk.{_INTO}.global.{_SIGNAL}{_CAST}{_HINT}", "async")(_bulk("global", "shared"))
step(f"cp.async.bulk.shared::cluster.shared::cta.{_SIGNAL}", "async")(_bulk("shared", "shared"))
step(f"cp.async.bulk.global.shared::cta.bulk_group{_HINT}", "async")(_bulk("shared", "global"))

for _reduction in (
    "<red:and|or|xor>.<type:b32>",
    "<red:add|inc|dec|min|max>.<type:u32>",
    "<red:add|min|max>.<type:s32>",
    "<red:add>.<type:u64>",
):
    step(f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_SIGNAL}.{_reduction}", "async")(_bulk("shared", "shared"))
for _reduction in (
    "<red:and|or|xor>.<type:b32|b64>",
    "<red:add|inc|dec|min|max>.<type:u32>",
    "<red:add|min|max>.<type:s32|u64>",
    "<red:min|max>.<type:s64>",
    "<red:min|max>.<type:f16|bf16>",
    "<red:add>.noftz.<type:f16|bf16>",
    "<red:add>.<type:f32|f64>",
):
    step(f"cp.reduce.async.bulk.global.shared::cta.bulk_group{_HINT}.{_reduction}", "async")(_bulk("shared", "global"))


@step("cp.async.bulk.commit_group", "async")
def commit(site: Site) -> Step:
    """The thread's copies since the last one become a group."""
    needs(site, 90)
    site.arity(0)
    return lambda frame, index: frame.engines.transfers.commit(index)


@step("cp.async.bulk.wait_group[.read]", "async")
def wait_group(site: Site) -> Step:
    """Wait for all groups of the thread but the last so many, or with `.read` until they have read."""
    needs(site, 90)
    site.arity(1)
    leave, reading = groups_left(site, MOST_LEFT), bool(site.modifiers["read"])
    return lambda frame, index: frame.engines.transfers.wait(index, leave, reading)


@step(f"cp.async.bulk.prefetch.L2.global{_HINT}", "prefetch")
def prefetch(site: Site) -> Step:
    """Nothing but the checks of address and size."""
    operands = Operands(site)
    origin, nbytes = operands.address("global")[0], operands.number()
    operands.end()
    access = engine_access(site, "global", 16, "prefetch", "read")

    def run(frame: Frame, index: Index) -> None:
        for lane in lanes(frame, index):
            global_place(access, lane, lane.value(origin), size_of(site, lane, nbytes), "uint64")

    return run
