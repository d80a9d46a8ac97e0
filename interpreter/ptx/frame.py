"""What a chunk of thread blocks holds while it runs: registers, shared and local memory, and who its threads are.

Threads are numbered through the chunk: thread `t` belongs to block `t // threads` of the chunk, with lane and warp
following from `t % threads`. A register is an array with one element a thread, or with a single element where all
threads are known to agree; arrays are never written in place, so that instructions may share them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .types import CARRIERS, Array

if TYPE_CHECKING:
    from .copies import Copies
    from .hopper.engines import Engines
    from .launch import Launch
    from .program import Program
    from .taint import Holes, Taint
    from .watch import Watch

Index = NDArray[np.intp] | None
"""Threads of a chunk, ascending; None for all of them."""

Triple = tuple[int, int, int]

WARP = 32


def spread(values: Array, count: int) -> Array:
    """One value a thread, of a register that may hold one for all."""
    return values if len(values) == count else np.broadcast_to(values, (count, *values.shape[1:]))


class Frame:
    """The state of `blocks` thread blocks, from block number `first` of the grid on (x varies fastest).

    cluster: the blocks of a cluster; those of one follow each other. changes: grows with whatever a thread that polls
    may look for (see `circles`). `copies` are those in flight, `engines` what runs beside the threads. `watch` checks
    accesses, None for a launch without checks; `holes` is what it has just found unwritten, and `taint` where in the
    registers such values are. `flying` are the accumulators of products in flight. `stack` is where, in local memory,
    what a thread has asked for ends (nothing for programs without `alloca`).
    """

    copies: Copies
    engines: Engines

    def __init__(self, launch: Launch, program: Program, first: int, blocks: int) -> None:
        self.launch = launch
        self.program = program
        self.first = first
        self.blocks = blocks
        self.threads = launch.block[0] * launch.block[1] * launch.block[2]
        self.count = blocks * self.threads
        self.cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        self.changes = 0
        self.flying: frozenset[int] = frozenset()
        self.registers: list[Any] = [None] * len(program.registers)
        for number in program.tracked:
            self.registers[number] = np.zeros(1, CARRIERS[program.registers[number].bits])
        self.shared = launch.shared_rows(blocks)
        self.local = launch.local_rows(self.count)
        self.stack = np.full(self.count if program.stack else 0, program.stack.start)
        self.alive = np.ones(self.count, np.bool_)
        self.watch: Watch | None = None
        self.holes: list[Holes] = []
        self.taint: Taint | None = None
        self._number: NDArray[np.intp] | None = None
        self._warp: NDArray[np.intp] | None = None
        self._specials: dict[str, Array] = {}

    @property
    def number(self) -> NDArray[np.intp]:
        """All threads of the chunk."""
        if self._number is None:
            self._number = np.arange(self.count)
        return self._number

    @property
    def warp(self) -> NDArray[np.intp]:
        """The warp of each thread, numbered through the chunk."""
        if self._warp is None:
            number, threads = self.number, self.threads
            self._warp = number // threads * -(-threads // WARP) + number % threads // WARP
        return self._warp

    def indices(self, index: Index) -> NDArray[np.intp]:
        """The threads that an index stands for."""
        return self.number if index is None else index

    def size(self, index: Index) -> int:
        """How many threads an index stands for."""
        return self.count if index is None else len(index)

    def narrowed(self, index: Index, chosen: Array) -> Index:
        """Those of the threads for which a mask (one element, or one a thread) holds; None when that is all."""
        if chosen.all():
            return index
        if len(chosen) == 1:
            return np.empty(0, np.intp)
        return np.flatnonzero(chosen) if index is None else index[chosen]

    def write(self, register: int, index: Index, bits: Array, width: int) -> None:
        """Set a register of some threads."""
        if index is None:
            self.registers[register] = bits
            return
        old = self.registers[register]
        if old is None:
            new = np.zeros(self.count, CARRIERS[width])
        elif len(old) == self.count:
            new = old.copy()
        else:
            new = np.full(self.count, old[0])
        new[index] = bits
        self.registers[register] = new

    def special(self, name: str) -> Array:
        """A special register that does not change, for all threads."""
        found = self._specials.get(name)
        if found is None:
            found = self._specials[name] = self.launch.special(self, name)
        return found

    def block_of(self, thread: int) -> Triple:
        """The block that a thread belongs to, as its index along the axes of the grid."""
        return self.launch.place(self.first + thread // self.threads)

    def thread_of(self, thread: int) -> Triple:
        """The index of a thread in its block."""
        return unravel(thread % self.threads, self.launch.block)


def unravel(number: int, extent: Triple) -> Triple:
    """The index (x, y, z) of a number, x varying fastest."""
    x, y, _ = extent
    return number % x, number // x % y, number // (x * y)


def tuple_of(values: Iterable[int]) -> Triple:
    """Three numbers."""
    x, y, z = values
    return x, y, z
