"""Barriers of clusters: each thread arrives, and later waits until all threads of its cluster have arrived.

Threads that have exited count as having arrived. A relaxed arrival tells nothing but what `fence.mbarrier_init` made
ready before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..access import CLUSTER
from ..errors import BarrierError
from ..fences import Known

if TYPE_CHECKING:
    from ..frame import Frame
    from ..site import Site
    from .engines import Engines

Threads = NDArray[np.intp]


class Meetings:
    """The barriers of a frame's clusters: who has arrived, and who may pass because all have."""

    def __init__(self, frame: Frame, engines: Engines) -> None:
        self._frame, self._engines = frame, engines
        self._span = frame.cluster * frame.threads
        self._arrived = np.zeros(frame.count, np.bool_)
        self._passes = np.zeros(frame.count, np.bool_)
        self._told: dict[int, Known] = {}
        self._known: dict[int, Known] = {}

    def arrive(self, site: Site, threads: Threads, releases: bool) -> None:
        """Threads arrive. Raises BarrierError for one that has and did not wait."""
        again = self._arrived[threads]
        if again.any():
            what = f"`{site.instruction.opcode}` twice without `barrier.cluster.wait`"
            raise site.fault(BarrierError, what, self._frame, int(threads[np.argmax(again)]))
        self._arrived[threads] = True
        watch = self._frame.watch
        if watch is not None:
            fences = watch.order.fences
            rows = watch.order.known(threads) if releases or fences is None else fences.ready(threads, CLUSTER)
            for cluster in np.unique(threads // self._span).tolist():
                row = rows[threads // self._span == cluster].max(0)
                told = self._told.get(cluster)
                self._told[cluster] = row if told is None else np.maximum(told, row)
        self.complete()

    def complete(self) -> None:
        """Threads have arrived or exited: where all have, they may pass."""
        if not self._arrived.any():
            return
        here = (self._arrived & ~self._passes).reshape(-1, self._span)
        missing = (self._frame.alive & ~(self._arrived & ~self._passes)).reshape(-1, self._span).any(1)
        for cluster in np.flatnonzero(here.any(1) & ~missing).tolist():
            self._passes[cluster * self._span : (cluster + 1) * self._span] |= here[cluster]
            if cluster in self._told:
                self._known[cluster] = self._told.pop(cluster)
            self._engines.wake()

    def passes(self, site: Site, threads: Threads) -> NDArray[np.bool_]:
        """Which threads need not wait. Raises BarrierError for one that has not arrived."""
        absent = ~self._arrived[threads]
        if absent.any():
            what = f"`{site.instruction.opcode}` without `barrier.cluster.arrive`"
            raise site.fault(BarrierError, what, self._frame, int(threads[np.argmax(absent)]))
        return self._passes[threads]

    def leave(self, threads: Threads, acquires: bool) -> None:
        """Threads that may pass do so."""
        self._arrived[threads] = self._passes[threads] = False
        watch = self._frame.watch
        if watch is not None and acquires:
            for cluster in np.unique(threads // self._span).tolist():
                known = self._known.get(cluster)
                if known is not None:
                    watch.order.learn(threads[threads // self._span == cluster], known)
