"""What a launch executed, counted the way a profiler counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .frame import Index
    from .machine import Machine
    from .program import Program


@dataclass(frozen=True, slots=True)
class Counters:
    """Instructions executed, by class.

    threads: by thread. warps: by warp, in which some threads may be inactive. Guarded instructions count for all.
    issued: how many the emulator went through, each for as many threads as stood there together.
    """

    threads: Counter[str] = field(default_factory=Counter[str])
    warps: Counter[str] = field(default_factory=Counter[str])
    issued: int = 0


class Tally:
    """Executions of each basic block, by threads and by warps."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._threads = [0] * len(program.blocks)
        self._warps = [0] * len(program.blocks)

    def add(self, number: int, index: Index, machine: Machine) -> None:
        """Threads execute a block."""
        frame = machine.frame
        if index is None:
            self._threads[number] += frame.count
            self._warps[number] += frame.blocks * -(-frame.threads // 32)
        else:
            warps = machine.warp[index]  # ascending, as the threads are
            self._threads[number] += len(index)
            self._warps[number] += int(np.count_nonzero(warps[1:] != warps[:-1])) + 1

    def counters(self, issued: int) -> Counters:
        """The sums."""
        result = Counters(issued=issued)
        for block, threads, warps in zip(self._program.blocks, self._threads, self._warps, strict=True):
            for family, count in block.families.items():
                result.threads[family] += count * threads
                result.warps[family] += count * warps
        return result
