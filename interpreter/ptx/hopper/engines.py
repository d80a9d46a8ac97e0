"""What runs beside the threads of a chunk: the parts, the threads that wait for them, and when they do their work.

What is in flight is done at a random legal moment by the seed. With seed 0 that is the last one: when a wait of the
thread that started it covers it, or when no thread can go on without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .mbarriers import Mbarriers
from .meetings import Meetings
from .pool import Pool
from .products import Products
from .transfers import Transfers

if TYPE_CHECKING:
    from ..frame import Frame
    from ..machine import Machine
    from ..site import Site

Threads = NDArray[np.intp]

_HURRY = 0.25
"""With a seed, how likely a `try_wait` does not wait."""
_LATEST = 1024
"""After so many basic blocks what is in flight is done, though some threads can go on without it: they may poll."""


class Parked(NamedTuple):
    """Threads that wait at the gate of a block for an engine: the mbarrier that each waits for, if it is one."""

    site: Site
    threads: Threads
    keys: Threads | None


class Engines:
    """The engines of a frame."""

    machine: Machine

    def __init__(self, frame: Frame, seed: int) -> None:
        self._frame = frame
        self.random = Random(seed ^ 0x5EED) if seed else None
        self.mbarriers = Mbarriers(frame, self)
        self.transfers = Transfers(frame, self)
        self.products = Products(frame, self)
        self.meetings = Meetings(frame, self)
        self.pool = Pool(frame, self)
        self._parked: list[Parked] = []
        self._late = np.zeros(0, np.bool_)

    @property
    def waiting(self) -> bool:
        """Whether threads wait."""
        return bool(self._parked)

    def park(self, site: Site, threads: Threads, keys: Threads | None = None) -> None:
        """Keep threads at the gate of an instruction until something has happened."""
        if len(threads):
            self._parked.append(Parked(site, threads, keys))

    def wake(self) -> None:
        """Something has happened that threads may wait for: they look again."""
        parked, self._parked = self._parked, []
        for wait in parked:
            self.machine.go(wait.site.block, wait.threads)

    def hurried(self, threads: Threads) -> NDArray[np.bool_]:
        """Which of the threads, whose phase is not complete, do not wait for it any longer."""
        found = self._late[threads] if len(self._late) else np.zeros(len(threads), np.bool_)
        if len(self._late):
            self._late[threads] = False
        if self.random is not None and self.random.random() < _HURRY:
            found[:] = True
        return found

    def hurry(self) -> bool:
        """Nothing else can happen any more: the time of those that try to wait is up. Whether there are any."""
        tries = [wait for wait in self._parked if wait.keys is not None]
        if not tries:
            return False
        if not len(self._late):
            self._late = np.zeros(self._frame.count, np.bool_)
        for wait in tries:
            self._late[wait.threads] = True
        self.wake()
        return True

    def drift(self, turn: int) -> None:
        """Time passes: by the luck of the seed something is done, and sooner or later everything."""
        if self.random is not None:
            self.transfers.drift()
            self.products.drift()
        elif turn % _LATEST == 0:
            self.transfers.settle()

    def settle(self) -> bool:
        """Do what is in flight and threads may wait for; whether there was anything."""
        return self.transfers.settle()

    def end(self) -> None:
        """The threads have ended. Raises RaceError for copies that nobody has waited for."""
        self.transfers.end()

    def waits(self) -> Iterator[tuple[int, Threads, str]]:
        """The blocks where threads wait, with them and what is known of the first one's mbarrier."""
        for wait in self._parked:
            state = "" if wait.keys is None else self.mbarriers.describe(int(wait.keys[0]))
            yield wait.site.block, wait.threads, state
