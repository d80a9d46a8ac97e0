"""Barriers of a thread block: bar and barrier, `.sync`, `.arrive` and `.red`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..frame import Frame, Index, spread
from ..machine import Machine
from ..site import Read, Site
from ..syntax import Immediate
from ..table import Gate, Step, gated
from ..types import TYPES

_U32 = TYPES["u32"]


def _operands(site: Site) -> tuple[Read, Read | None, int | None]:
    """How to read the barrier's number and its count of threads; the count if it is a constant (0 for none)."""
    site.arity(1, 2)
    number = site.read(site.operands[0], _U32)
    if len(site.operands) == 1:
        return number, None, 0
    count = site.operands[1]
    fixed = int(count.value) if isinstance(count, Immediate) else None
    return number, site.read(count, _U32), fixed


def _sync_gate(site: Site) -> Gate:
    number, count, fixed = _operands(site)
    constant = isinstance(site.operands[0], Immediate)

    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        if constant and fixed is not None and machine.barriers.passes(index, fixed):
            return index
        _arrive(site, machine, frame, index, number, count, stays=True)
        return np.empty(0, np.intp)

    return gate


def _arrive(
    site: Site, machine: Machine, frame: Frame, index: Index, number: Read, count: Read | None, stays: bool
) -> None:
    size = frame.size(index)
    wanted = np.zeros(size, np.int64) if count is None else spread(count(frame, index), size).astype(np.int64)
    machine.barriers.arrive(site, site.block, index, spread(number(frame, index), size), wanted, stays)


def _arrive_gate(site: Site) -> Gate:
    number, count, _ = _operands(site)
    if count is None:
        site.fail(f"`{site.instruction.opcode}` needs a number of threads")

    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        _arrive(site, machine, frame, index, number, count, stays=False)
        return index

    return gate


def _nothing(site: Site) -> Step:
    def run(frame: Any, index: Any) -> None:
        return None

    return run


for _syntax in ("bar[.cta].sync", "barrier[.cta].sync[.aligned]"):
    gated(_syntax, "barrier", _sync_gate)(_nothing)

for _syntax in ("bar[.cta].arrive", "barrier[.cta].arrive[.aligned]"):
    gated(_syntax, "barrier", _arrive_gate)(_nothing)
