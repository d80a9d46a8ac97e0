"""What accesses cost the memory system: sectors of global memory, wavefronts of shared memory.

A request is one instruction of one warp. A global request touches as many sectors as there are different 32-byte pieces
that its lanes touch; the least is the bytes divided by 32. A shared request is served in phases: all 32 lanes together
for up to 4 bytes a lane, 16 lanes for 8 bytes, 8 lanes for 16 bytes. Each of the 32 banks gives one 4-byte word a
wavefront (word `w` lies in bank `w % 32`), to any number of lanes, so a phase takes as many wavefronts as the most
different words that one bank has to give. Bank conflicts are the wavefronts beyond one a phase.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .frame import WARP, Frame, Index
from .types import Array

_BANKS = 32
_SECTOR = 5
_PATTERNS = 4096


class Traffic:
    """The counts of each access of a program.

    requests: by warps. units: sectors or wavefronts. phases: the wavefronts that shared requests need at least. lanes:
    the threads that made them, of a guarded access those whose guard held.
    """

    def __init__(self, accesses: int = 0) -> None:
        self.requests, self.units, self.phases, self.lanes = np.zeros((4, 2, accesses), np.int64)
        self._known: dict[tuple[int, bytes], tuple[int, int]] = {}

    def touch_global(self, access: int, frame: Frame, index: Index, addresses: Array) -> None:
        """Count an access to global memory by all threads of an index, at one address each or at one for all."""
        self.lanes[0, access] += frame.size(index)
        if len(addresses) == 1:
            warps = len(_rows(frame, index))
            self._add(0, access, warps, warps, 0)
            return
        sectors = _lanes(frame, index, addresses.view(np.int64) >> _SECTOR)
        if (sectors[:, 1:] < sectors[:, :-1]).any():
            sectors = np.sort(sectors, axis=1)
        different = int(np.count_nonzero(sectors[:, 1:] != sectors[:, :-1]))
        absent = int(np.count_nonzero(sectors[:, 0] < 0))
        self._add(0, access, len(sectors), different + len(sectors) - absent, 0)

    def touch_shared(self, access: int, size: int, frame: Frame, index: Index, addresses: Array) -> None:
        """Count an access of `size` bytes to shared memory by all threads of an index, at one address each."""
        self.lanes[1, access] += frame.size(index)
        lanes = _lanes(frame, index, addresses.view(np.int64))
        times = 1
        blocks = lanes.reshape(frame.blocks, -1) if len(lanes) % frame.blocks == 0 else lanes.reshape(1, -1)
        if len(blocks) > 1 and (blocks == blocks[0]).all():
            times, lanes = len(blocks), blocks[0].reshape(-1, WARP)
        wavefronts, phases = self._wavefronts(size, lanes)
        self._add(1, access, times * len(lanes), times * wavefronts, times * phases)

    def _wavefronts(self, size: int, lanes: NDArray[np.int64]) -> tuple[int, int]:
        if len(lanes) > WARP:
            return wavefronts(size, lanes)
        key = size, lanes.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _PATTERNS:
                self._known.clear()
            found = self._known[key] = wavefronts(size, lanes)
        return found

    def _add(self, space: int, access: int, requests: int, units: int, phases: int) -> None:
        self.requests[space, access] += requests
        self.units[space, access] += units
        self.phases[space, access] += phases


def wavefronts(size: int, lanes: NDArray[np.int64]) -> tuple[int, int]:
    """Wavefronts and phases of requests of `size` bytes a lane: `lanes` are addresses, (requests, 32), -1 for none."""
    each = max(1, size // 4)
    phases = lanes.reshape(-1, WARP // each)
    words = ((phases >> 2)[:, :, None] + np.arange(each)).reshape(len(phases), -1)
    words[np.repeat(phases < 0, each, axis=1)] = -1
    words.sort(axis=1)
    first = np.ones_like(words, np.bool_)
    first[:, 1:] = words[:, 1:] != words[:, :-1]
    row, column = np.nonzero(first & (words >= 0))
    load = np.bincount(row * _BANKS + words[row, column] % _BANKS, minlength=len(phases) * _BANKS)
    return int(load.reshape(-1, _BANKS).max(1).sum()), int(np.count_nonzero((phases >= 0).any(1)))


def _rows(frame: Frame, index: Index) -> NDArray[np.intp]:
    """The positions in an index where another warp begins."""
    warp = frame.warp if index is None else frame.warp[index]
    return np.flatnonzero(np.diff(warp, prepend=-1))


def _lanes(frame: Frame, index: Index, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Values by warp and lane, -1 for lanes that are not there."""
    if index is None and frame.threads % WARP == 0:
        return values.reshape(-1, WARP)
    threads = frame.indices(index)
    starts = _rows(frame, index)
    table = np.full((len(starts), WARP), -1, np.int64)
    row = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(threads))))
    table[row, threads % frame.threads % WARP] = values
    return table
