"""Clusters of blocks: whose shared memory an address means, and which clusters a launch may have.

In a window of shared memory the upper byte of a 32-bit address is 0 for the block's own memory, and else 1 plus the
rank of another block of its cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...errors import LaunchError, MemoryAccessError
from ..frame import tuple_of
from ..types import Array

if TYPE_CHECKING:
    from ..access import Access
    from ..frame import Frame, Triple
    from ..program import Program

REMOTE = 24
"""How far up an address of shared memory has the block."""
OFFSET = (1 << REMOTE) - 1
LARGEST = 16
"""The most blocks of a cluster that any GPU takes, where it is asked to."""

Threads = NDArray[np.intp]


def rank_of(addresses: Array, own: Array) -> Array:
    """The rank of the block that addresses of shared memory mean, given that of the threads' own."""
    upper = (addresses >> addresses.dtype.type(REMOTE)).astype(np.int64)
    return np.where(upper > 0, upper - 1, own)


def mapped(addresses: Array, rank: Array, own: Array) -> Array:
    """The addresses of the same place in the shared memory of blocks of some ranks."""
    offset = addresses & addresses.dtype.type(OFFSET)
    upper = np.where(rank == own, 0, rank + 1).astype(addresses.dtype)
    return offset | upper << addresses.dtype.type(REMOTE)


def row_of(access: Access, frame: Frame, threads: Threads, addresses: Array) -> tuple[Array, Threads]:
    """Addresses within a block's shared memory, and the block of each, numbered through the frame.

    Raises MemoryAccessError for blocks that there are not, or that have ended.
    """
    own = threads // frame.threads
    upper = (addresses >> np.uint64(REMOTE)).astype(np.int64)
    far = upper > 0
    if not far.any():
        return addresses, own
    block = np.where(far, own // frame.cluster * frame.cluster + upper - 1, own)
    bad = upper > frame.cluster
    opcode = access.site.instruction.opcode
    if ".shared" in opcode and "shared::cluster" not in opcode:
        bad |= far & (block != own)
    alive = frame.alive[np.where(bad, own, block)[:, None] * frame.threads + np.arange(frame.threads)].any(axis=1)
    gone = ~bad & far & ~alive
    for wrong, why in ((bad, "which is in no block that it may touch"), (gone, "in a block that has ended")):
        if wrong.any():
            at = int(np.argmax(wrong))
            what = f"{access.what} at shared address {int(addresses[at]):#x}, {why}"
            raise access.site.fault(MemoryAccessError, what, frame, int(threads[at]))
    return addresses & np.uint64(OFFSET), block


def cluster_of(program: Program, grid: Triple, given: Triple | None) -> Triple | None:
    """The shape of a launch's clusters, None where nobody asked for any. Raises LaunchError for one that cannot be."""
    attributes, name = program.entry.attributes, program.entry.name
    required = attributes.get("reqnctapercluster")
    if required is not None:
        wanted = tuple_of((*required, 1, 1)[:3])
        if given not in (None, wanted):
            raise LaunchError(f"`{name}` needs clusters of {wanted} blocks, found {given}")
        given = wanted
    if given is None:
        if "explicitcluster" in attributes:
            raise LaunchError(f"`{name}` must be launched in clusters")
        return None
    blocks = given[0] * given[1] * given[2]
    largest = attributes.get("maxclusterrank", (LARGEST,))[0]
    if min(given) < 1 or blocks > largest:
        raise LaunchError(f"a cluster of {given} blocks: `{name}` takes 1 to {largest}")
    if any(n % c for n, c in zip(grid, given, strict=True)):
        raise LaunchError(f"a grid of {grid} blocks is no whole number of clusters of {given}")
    return given
