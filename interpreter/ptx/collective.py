"""What the instructions of a whole warp have in common (`.sync.aligned`): who waits for whom, and their registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import BarrierError
from .frame import WARP, Frame, Index
from .machine import Machine
from .site import Site
from .syntax import Operand, Vector
from .table import Gate
from .types import Array

GROUP = 4 * WARP
"""Threads of a warp group."""


def aligned_gate(site: Site) -> Gate:
    """Threads wait until their warp is complete. Raises BarrierError for a warp that never can be."""

    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        index = machine.fetch(site.block, index)
        if index is None and frame.threads % WARP == 0 and frame.alive.all():
            return None
        threads, warp = frame.indices(index), frame.warp
        own = warp[threads]
        alive = np.bincount(warp[frame.alive])[own]
        if (alive < WARP).any():
            at = int(np.argmax(alive < WARP))
            raise _incomplete(site, frame, int(threads[at]), int(alive[at]))
        complete = np.bincount(own)[own] == WARP
        machine.hold(site.block, threads[~complete])
        return None if np.count_nonzero(complete) == frame.count else threads[complete]

    return gate


def warpgroup_gate(site: Site) -> Gate:
    """Threads wait until the four warps of their warp group are complete. Raises BarrierError if they never can be."""

    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        index = machine.fetch(site.block, index)
        if index is None and frame.threads % GROUP == 0 and frame.alive.all():
            return None
        threads = frame.indices(index)
        each = -(-frame.threads // GROUP)
        numbers = frame.number // frame.threads * each + frame.number % frame.threads // GROUP
        own = numbers[threads]
        alive = np.bincount(numbers[frame.alive], minlength=int(numbers[-1]) + 1)[own]
        if (alive < GROUP).any():
            at = int(np.argmax(alive < GROUP))
            what = f"`{site.instruction.opcode}` needs all {GROUP} threads of a warp group, there are {int(alive[at])}"
            raise site.fault(BarrierError, what, frame, int(threads[at]))
        complete = np.bincount(own)[own] == GROUP
        machine.hold(site.block, threads[~complete])
        return None if np.count_nonzero(complete) == frame.count else threads[complete]

    return gate


def _incomplete(site: Site, frame: Frame, thread: int, alive: int) -> BarrierError:
    """The error for a warp of fewer threads than 32."""
    inside = thread % frame.threads
    whole = frame.threads - inside // WARP * WARP >= WARP
    why = "the others have exited" if whole else f"a block has {frame.threads}"
    what = f"`{site.instruction.opcode}` needs all {WARP} threads of a warp, there are {alive}: {why}"
    return site.fault(BarrierError, what, frame, thread)


def vector(site: Site, operand: Operand, count: int, bits: int, name: str) -> tuple[Operand, ...]:
    """The registers of an operand in braces, which has so many; their widths are checked where they are used."""
    found = len(operand.elements) if isinstance(operand, Vector) else "no vector"
    if not isinstance(operand, Vector) or found != count:
        wanted = f"a vector of {count} {bits}-bit register{'s' * (count > 1)}"
        site.fail(f"the {name} of `{site.instruction.opcode}` is {wanted}, found {found}")
    return operand.elements


def warps_of(arrays: list[Array], threads: int) -> Array:
    """Registers of whole warps as one array [warps, registers, lanes]; a register may hold one value for all."""
    out: Any = np.empty((threads // WARP, len(arrays), WARP), arrays[0].dtype)
    for number, array in enumerate(arrays):
        out[:, number] = array.reshape(-1, WARP) if len(array) == threads else array
    return out
