"""Fences beside arrivals and waits that are relaxed: those tell and learn nothing but by them.

Who arrives without release semantics tells what it knew at its last fence; who waits without acquire semantics learns
at its next one what it would have learned. Programs without such instructions have no need of this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .access import CLUSTER
from .frame import Frame

Threads = NDArray[np.intp]
Known = NDArray[np.int32]


class Fences:
    """For each thread a row of `width` columns, as `order` has them, of what fences have made ready, or will teach."""

    def __init__(self, frame: Frame, width: int) -> None:
        self._ready = np.zeros((CLUSTER + 1, frame.count, width), np.int32)
        self._awaited = np.zeros((CLUSTER + 1, frame.count, width), np.int32)

    def prepare(self, threads: Threads, known: Known, reach: int) -> None:
        """Threads pass a fence that reaches so far: what they know is ready to be told."""
        self._ready[: reach + 1, threads] = known

    def ready(self, threads: Threads, reach: int) -> Known:
        """What threads tell by a relaxed arrival that others of their block, or of their cluster, wait for."""
        return self._ready[reach, threads]

    def wait(self, threads: Threads, known: Known, reach: int) -> None:
        """Threads have waited, relaxed, for others of their block, or of their cluster."""
        self._awaited[reach, threads] = np.maximum(self._awaited[reach, threads], known)

    def awaited(self, threads: Threads, reach: int) -> Known:
        """What threads learn at a fence that reaches so far."""
        return self._awaited[: reach + 1, threads].max(0)
