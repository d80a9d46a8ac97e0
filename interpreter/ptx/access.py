"""What kind of access to memory an instruction makes: how large, in which space, and how strong.

`access_of` declares one while a program is built; `spaces.load` and `spaces.store` then make it, and all that is
checked and counted goes with it. `ldmatrix` and `stmatrix` are `collective`: the threads that give the addresses are
not those that get or give the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .types import TYPES

if TYPE_CHECKING:
    from .site import Site

_ACQUIRES = frozenset(("acquire", "acq_rel"))
_RELEASES = frozenset(("release", "acq_rel"))
_STRONG = _ACQUIRES | _RELEASES | {"relaxed", "volatile", "mmio.relaxed"}
_ATOMIC = frozenset(("atom", "red"))

BLOCK, CLUSTER, GRID = range(3)
"""How far a strong access or a fence reaches."""
_NARROW = {"cta": BLOCK, "cluster": CLUSTER}


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """An instruction's access, one for each thread that gives an address.

    space: `global`, `shared`, `local`, `param`, `const` or `generic`. dtype: of an element. size: bytes of all elements
    together, to which the address must be aligned. verb: how messages call it. kind: `read`, `write`, or among strong
    accesses (atomics, `.relaxed` and stronger, `.volatile`) `peek` for a read and `atomic` for anything that writes.
    constant: the bytes must not change while the kernel runs (`ld.global.nc`). updates: it reads what it writes.
    number: its place in `program.accesses`. asynchronous: an engine makes it (its proxy); it is of no certain size.
    object: of an mbarrier's own instructions. reach: how far a strong one does. unit: the bytes of what a strong one
    reads or writes at once, which is a number, not a vector or a pair; 0 where they do not count.
    """

    site: Site
    space: str
    dtype: np.dtype[np.generic]
    size: int
    verb: str
    writes: bool
    kind: str
    number: int
    acquires: bool = False
    releases: bool = False
    collective: bool = False
    constant: bool = False
    updates: bool = False
    asynchronous: bool = False
    object: bool = False
    reach: int = GRID
    unit: int = 0

    @property
    def what(self) -> str:
        """The access, for messages."""
        return self.verb if self.asynchronous or self.object else f"{self.verb} {self.size} bytes"

    @property
    def count(self) -> int:
        """How many elements it has."""
        return self.size // self.dtype.itemsize

    def narrowed(self, dtype: np.dtype[np.generic]) -> Access:
        """The same access to a single element of another type."""
        return replace(self, dtype=dtype, size=dtype.itemsize)


def reach_of(site: Site) -> int:
    """How far a strong access or a fence reaches by its scope: without one, as far as with `gpu`."""
    return _NARROW.get(site.modifiers.get("scope", ""), GRID)


def access_of(
    site: Site, space: str, dtype: np.dtype[np.generic], count: int, verb: str, writes: bool, collective: bool = False
) -> Access:
    """Declare the access of an instruction: `count` elements of a type at each address."""
    semantics, base = site.modifiers.get("sem", ""), site.instruction.opcode.partition(".")[0]
    strong = base in _ATOMIC or semantics in _STRONG
    accesses = site.program.accesses
    access = Access(
        site, space, dtype, dtype.itemsize * count, verb, writes,
        kind=("atomic" if strong else "write") if writes else ("peek" if strong else "read"),
        number=len(accesses), acquires=semantics in _ACQUIRES, releases=semantics in _RELEASES, collective=collective,
        constant="nc" in site.instruction.opcode.split("."), updates=base in _ATOMIC,
        reach=reach_of(site) if strong else GRID,
        unit=dtype.itemsize // TYPES[site.modifiers["type"]].lanes if strong and semantics != "volatile" else 0,
    )  # fmt: skip
    accesses.append(access)
    return access


def engine_access(site: Site, space: str, size: int, verb: str, kind: str) -> Access:
    """Declare what an engine does with pieces of `size` bytes of shared or global memory."""
    accesses = site.program.accesses
    access = Access(
        site, space, np.dtype(np.uint64 if size > 4 else np.uint32), size, verb, kind != "read", kind, len(accesses),
        asynchronous=True,
    )  # fmt: skip
    accesses.append(access)
    return access


def object_access(site: Site, verb: str, kind: str) -> Access:
    """Declare the access of an instruction to an mbarrier: a plain `write` if it makes or ends one."""
    accesses = site.program.accesses
    access = Access(
        site, "shared", np.dtype(np.uint64), 8, verb, kind != "peek", kind, len(accesses), object=True,
        reach=reach_of(site),
    )  # fmt: skip
    accesses.append(access)
    return access


def unwatched(site: Site, size: int, writes: bool) -> Access:
    """An access of `size` bytes that the runtime makes, about which nothing is checked but its address."""
    dtype, kind = np.dtype(f"u{size}"), "write" if writes else "read"
    return Access(site, "generic", dtype, size, "store of" if writes else "load of", writes, kind, -1)
