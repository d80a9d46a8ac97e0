"""The registers of a block: `setmaxnreg` takes some of a warp group's away, or gives it more once they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..collective import GROUP
from ..errors import BarrierError

if TYPE_CHECKING:
    from ..frame import Frame
    from ..program import Program
    from ..site import Site
    from .engines import Engines

Threads = NDArray[np.intp]

LEAST, MOST, STEP = 24, 256, 8
"""Registers a thread that `setmaxnreg` may ask for."""
_FILE = 65_536
"""Registers of a multiprocessor."""


def at_launch(program: Program, threads: int) -> int:
    """Registers a thread that a launch begins with: those of `.maxnreg`, or all that the block's threads can have."""
    given = program.entry.attributes.get("maxnreg")
    most = min(MOST - 1, _FILE // threads)
    return (min(given[0], most) if given else most) // STEP * STEP


class Pool:
    """What each warp group of a frame has, a thread, and what is free, a block."""

    def __init__(self, frame: Frame, engines: Engines) -> None:
        self._frame, self._engines = frame, engines
        self._each = max(1, frame.threads // GROUP)
        self._has = np.full(frame.blocks * self._each, at_launch(frame.program, frame.threads), np.int64)
        self._free = np.zeros(frame.blocks, np.int64)

    def fits(self, warpgroups: Threads, count: int) -> NDArray[np.bool_]:
        """For which warp groups enough registers are free, one after the other."""
        found = np.zeros(len(warpgroups), np.bool_)
        free = self._free.copy()
        for number, warpgroup in enumerate(warpgroups.tolist()):
            more = (count - int(self._has[warpgroup])) * GROUP
            found[number] = more <= free[warpgroup // self._each]
            free[warpgroup // self._each] -= more if found[number] else 0
        return found

    def set(self, site: Site, warpgroups: Threads, count: int, grows: bool) -> None:
        """Warp groups have so many registers a thread now. Raises BarrierError for the wrong direction."""
        for warpgroup in warpgroups.tolist():
            has = int(self._has[warpgroup])
            if (count < has) if grows else (count > has):
                block, number = divmod(warpgroup, self._each)
                what = f"`{site.instruction.opcode}` to {count} registers, the warp group has {has}"
                raise site.fault(BarrierError, what, self._frame, block * self._frame.threads + number * GROUP)
            self._has[warpgroup] = count
            self._free[warpgroup // self._each] += (has - count) * GROUP
        if not grows:
            self._frame.changes += 1
            self._engines.wake()
