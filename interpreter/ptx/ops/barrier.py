"""Barriers of a thread block: bar and barrier, `.sync`, `.arrive` and `.red`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..frame import Frame, Index, spread
from ..machine import Machine
from ..site import Read, Site
from ..syntax import Immediate, Operand
from ..table import Gate, Step, gated
from ..types import TYPES, Array

_U32, _PRED = TYPES["u32"], TYPES["pred"]


def _operands(site: Site) -> tuple[Read, Read | None, int | None]:
    """How to read the barrier's number and its count of threads; the count if it is a constant (0 for none)."""
    site.arity(1, 2)
    return _numbers(site, site.operands)


def _numbers(site: Site, operands: Sequence[Operand]) -> tuple[Read, Read | None, int | None]:
    number = site.read(operands[0], _U32)
    if len(operands) == 1:
        return number, None, 0
    count = operands[1]
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
    site: Site,
    machine: Machine,
    frame: Frame,
    index: Index,
    number: Read,
    count: Read | None,
    stays: bool,
    brought: Read | None = None,
) -> None:
    size = frame.size(index)
    wanted = np.zeros(size, np.int64) if count is None else spread(count(frame, index), size).astype(np.int64)
    predicates = None if brought is None else spread(brought(frame, index), size)
    machine.barriers.arrive(site, index, spread(number(frame, index), size), wanted, stays, predicates)


def _arrive_gate(site: Site) -> Gate:
    number, count, _ = _operands(site)
    if count is None:
        site.fail(f"`{site.instruction.opcode}` needs a number of threads")

    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        _arrive(site, machine, frame, index, number, count, stays=False)
        return index

    return gate


def _red_gate(site: Site) -> Gate:
    """Threads come twice: to arrive, and when all have."""
    site.arity(3, 4)
    number, count, _ = _numbers(site, site.operands[1:-1])
    brought = site.read(site.operands[-1], _PRED)

    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        threads, back = machine.barriers.come_back(index)
        if not back.all():
            _arrive(site, machine, frame, threads[~back], number, count, True, brought)
        return threads[back]

    return gate


_COUNTED: dict[str, Callable[[Array, Array], Array]] = {
    "popc": lambda holds, all_: holds.astype(np.uint32),
    "and": np.equal,
    "or": lambda holds, all_: holds > 0,
}


def _red(site: Site) -> Step:
    """Of the predicates of all threads that arrived: how many hold, whether all do, or one does."""
    popc = "popc" in site.instruction.opcode
    mode = _COUNTED["popc" if popc else site.modifiers["mode"]]
    write = site.write(site.operands[0], _U32 if popc else _PRED)

    def run(frame: Frame, index: Index) -> None:
        machine: Machine = frame.engines.machine
        write(frame, index, mode(*machine.barriers.counted(frame.indices(index))))

    return run


def _nothing(site: Site) -> Step:
    def run(frame: Any, index: Any) -> None:
        return None

    return run


for _syntax in ("bar[.cta].sync", "barrier[.cta].sync[.aligned]"):
    gated(_syntax, "barrier", _sync_gate)(_nothing)

for _syntax in ("bar[.cta].arrive", "barrier[.cta].arrive[.aligned]"):
    gated(_syntax, "barrier", _arrive_gate)(_nothing)

for _syntax in ("bar[.cta].red", "barrier[.cta].red[.aligned]"):
    gated(f"{_syntax}.popc.u32", "barrier", _red_gate)(_red)
    gated(f"{_syntax}.<mode:and|or>.pred", "barrier", _red_gate)(_red)
