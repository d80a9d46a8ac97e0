"""What is remembered of memory: for each small piece of it, the accesses that came last.

A piece is a granule: as many bytes as the smallest access of the program to that space has, so that every access
touches whole granules. An access is remembered as a record, one int64: its stamp times 2**32 plus the number of its
thread in the grid. Stamps count the instructions that touch memory, so that of two records of one thread the larger is
the later one; between threads they say nothing.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .access import GRID, Access
from .types import Array

if TYPE_CHECKING:
    from .spaces import Cells

Records = NDArray[np.int64]
"""Records, or granule numbers, or stamps."""

SHIFT = 32
THREAD = (1 << 30) - 1
COLLECTIVE = 1 << 30
"""Set in a record whose bytes come from, or go to, other threads than the one that gave the address."""
ENGINE = 1 << 60
"""Set in a record of what ran beside the threads and was told to whoever waited; in place of the thread stands a slot
of its block (see `order`)."""
STAMPS = (1 << 60 - SHIFT) - 1
PENDING = 1 << 61
"""Records from here on are copies in flight; in place of the stamp stands the number of the copy."""
UNWRITTEN = 1 << 62
"""The record of a write for bytes that nobody has written."""

_LARGEST = 16


class Clock:
    """The stamps of a launch: which access each was given to."""

    def __init__(self, accesses: list[Access]) -> None:
        self._accesses = accesses
        self._log = array("i", [-1])

    @property
    def next(self) -> int:
        """The stamp that the next access will have: all records so far are smaller."""
        return len(self._log)

    def stamp(self, access: Access) -> int:
        """A new stamp, for an access."""
        self._log.append(access.number)
        return len(self._log) - 1

    def access(self, stamp: int) -> Access:
        """The access that a stamp was given to."""
        return self._accesses[self._log[stamp]]


def granule_bits(accesses: list[Access], space: str) -> int:
    """log2 of the bytes of a granule, given all accesses of a program."""
    sizes = (access.size for access in accesses if access.space in (space, "generic"))
    return min(min(sizes, default=_LARGEST), _LARGEST).bit_length() - 1


def firsts(where: Array) -> NDArray[np.bool_]:
    """Which accesses are the first of those that meet at one place, given the granules of each."""
    found = np.zeros(len(where), np.bool_)
    found[np.unique(where.reshape(len(where), -1)[:, 0], return_index=True)[1]] = True
    return found


class Shadow:
    """The records of `nbytes` bytes of memory, by kind of access.

    `last` has the last access of each kind, `other` one of another thread that is not ordered before the last, as far
    from it as can be had, and 0 where there is none. `messages` has when something was last released at a place (a
    row for each reach), `held` counts the copies in flight that have yet to read it, `reserved` says where mbarriers
    are.
    """

    def __init__(self, nbytes: int, bits: int, unwritten: bool) -> None:
        self.bits = bits
        self.size = -(-nbytes >> bits) + 1
        self.last: dict[str, Records] = {"write": np.full(self.size, UNWRITTEN) if unwritten else self._zeros()}
        self.other: dict[str, Records] = {}
        self.messages: Records | None = None
        self.held: NDArray[np.int32] | None = None
        self.reserved: NDArray[np.bool_] | None = None

    def _zeros(self) -> Records:
        return np.zeros(self.size, np.int64)

    def granules(self, access: Access, part: Cells) -> Array:
        """The granules that each thread's access touches: shape (threads,), or (threads, granules)."""
        unit = access.dtype.itemsize
        first = (part.position * unit + part.start) >> self.bits
        count = max(1, access.size >> self.bits)
        return first if count == 1 else first[:, None] + np.arange(count)

    def hold(self, where: Array, more: int, each_once: bool = False) -> None:
        """Copies that will read begin (1) or have been waited for (-1); `each_once` where no granule stands twice."""
        if self.held is None:
            self.held = np.zeros(self.size, np.int32)
        if each_once:
            self.held[where] += more
        else:
            np.add.at(self.held, where, more)

    def send(self, reach: int, where: Array, now: int) -> None:
        """Something is released."""
        if self.messages is None:
            self.messages = np.zeros((GRID + 1, self.size), np.int64)
        self.messages[reach, where] = now

    def received(self, where: Array) -> Records:
        """The last messages of each reach: [reaches, threads]."""
        if self.messages is None:
            return np.zeros((GRID + 1, len(where)), np.int64)
        found = self.messages.take(where, axis=1)
        return found if where.ndim == 1 else found.max(2)

    def fill(self, where: Array) -> None:
        """Strong writes, which `write` records none of, leave no granule unwritten."""
        writes = self.last["write"]
        writes[where[writes.take(where) == UNWRITTEN]] = 0

    def pair(self, kind: str) -> tuple[Records, Records]:
        """The last records of a kind and the others, made if there are none yet."""
        if kind not in self.last:
            self.last[kind] = self._zeros()
        if kind not in self.other:
            self.other[kind] = self._zeros()
        return self.last[kind], self.other[kind]

    def note(self, kind: str, where: Array, mine: Records) -> None:
        """Remember accesses; of several to one granule the last as the last one, the first as the other."""
        last, other = self.pair(kind)
        last[where] = mine
        other[where[::-1].copy()] = mine[::-1].copy()  # NumPy goes through arrays that run backwards forwards

    def keep(self, kind: str, where: Records, candidate: Records) -> None:
        """Remember candidates as the other accesses where they are farther from the last than those there."""
        last, other = self.pair(kind)
        here, best = last[where], other[where]
        farther = ((candidate ^ here) & THREAD) > ((best ^ here) & THREAD)
        other[where] = np.where(farther & (candidate > 0), candidate, best)
