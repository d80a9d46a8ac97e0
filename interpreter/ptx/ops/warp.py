"""Instructions among the threads of a warp: shfl, vote, match, redux, activemask, elect, bar.warp.

All but `activemask` wait at a gate until every thread that the mask names has arrived. A lane that the mask names must
exist or lie beyond the end of the block, and must not have exited.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import numerics
from ..errors import BarrierError
from ..frame import WARP, Frame, Index, spread
from ..machine import Machine
from ..site import Read, Site
from ..syntax import Operand, Pair, Sink
from ..table import Gate, Step, gated, step
from ..targets import needs_one_of
from ..types import TYPES, Array

_U32, _PRED = TYPES["u32"], TYPES["pred"]
_LANES = np.arange(WARP)
_ALL = 0xFFFF_FFFF


def warp_gate(mask_at: int) -> Callable[[Site], Gate]:
    """The gate of an instruction whose operand number `mask_at` (from the end, if negative) is the member mask."""

    def build(site: Site) -> Gate:
        try:
            operand = site.operands[mask_at]
        except IndexError:
            site.fail(f"`{site.instruction.opcode}` needs a member mask")
        return _WarpGate(site, site.read(operand, _U32))

    return build


class _WarpGate:
    def __init__(self, site: Site, mask: Read) -> None:
        self.site, self.mask = site, mask

    def __call__(self, machine: Machine, frame: Frame, index: Index) -> Index:
        index = machine.fetch(self.site.block, index)
        mask = spread(self.mask(frame, index), frame.size(index))
        if index is None and frame.alive.all() and (mask == _ALL).all():
            return None
        threads = frame.indices(index)
        warps, lane = frame.warp, threads % frame.threads % WARP
        outside = (mask >> lane.astype(np.uint32)) & 1 == 0
        if outside.any():
            at = int(np.argmax(outside))
            self._fail(f"the mask {int(mask[at]):#010x} does not name the thread itself", frame, threads[at])
        here = _lanes_of(warps, frame, threads)
        alive = _lanes_of(warps, frame, np.flatnonzero(frame.alive))
        every = _lanes_of(warps, frame, frame.number)
        own = warps[threads]
        gone = mask & every[own] & ~alive[own]
        if gone.any():
            self._fail("the mask names threads that have exited", frame, threads[np.argmax(gone != 0)])
        complete = (mask & alive[own] & ~here[own]) == 0
        machine.hold(self.site.block, threads[~complete])
        return threads[complete] if len(threads) < frame.count or not complete.all() else None

    def _fail(self, what: str, frame: Frame, thread: Any) -> None:
        raise self.site.fault(BarrierError, f"`{self.site.instruction.opcode}`: {what}", frame, int(thread))


def _lanes_of(warps: NDArray[np.intp], frame: Frame, threads: NDArray[np.intp]) -> NDArray[np.uint32]:
    """For each warp the lanes, as bits, of some threads."""
    lane = (threads % frame.threads % WARP).astype(np.uint32)
    found = np.zeros(int(warps[-1]) + 1, np.uint32)
    np.bitwise_or.at(found, warps[threads], np.uint32(1) << lane)
    return found


class Warps:
    """The warps of some threads as rows of 32 lanes."""

    def __init__(self, frame: Frame, index: Index) -> None:
        threads = frame.indices(index)
        inside = threads % frame.threads
        self.lane = inside % WARP
        warp = threads // frame.threads * -(-frame.threads // WARP) + inside // WARP
        first = np.flatnonzero(np.diff(warp, prepend=-1))
        self.row = np.cumsum(np.diff(warp, prepend=-1) != 0) - 1
        self.count = len(first)

    def table(self, values: Array, missing: Any = 0) -> Array:
        """Values by warp and lane; `missing` for lanes that are not there."""
        out = np.full((self.count, WARP), missing, values.dtype)
        out[self.row, self.lane] = values
        return out

    def present(self, members: Array) -> NDArray[np.bool_]:
        """Which lanes take part, by warp, given each thread's mask (the same within a warp)."""
        mask = self.table(members)
        return (mask.max(1, keepdims=True) >> _LANES.astype(np.uint32)) & 1 != 0

    def each(self, by_warp: Array) -> Array:
        """A value of each warp, for each thread."""
        return by_warp[self.row]


def packed(table: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Rows of 32 lanes as bits."""
    return np.packbits(table, axis=1, bitorder="little").view(np.uint32)[:, 0]


@gated("shfl.sync.<mode:up|down|bfly|idx>.b32", "warp", warp_gate(-1))
def shfl(site: Site) -> Step:
    """d = a of the source lane, and p whether that lane is in range; out of range d = own a."""
    site.arity(5)
    target = site.operands[0]
    values, valid = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    write, write_valid = site.write(values, _U32), site.write(valid, _PRED)
    a, b, c, members = (site.read(op, _U32) for op in site.operands[1:])
    mode, opcode = site.modifiers["mode"], site.instruction.opcode

    def run(frame: Frame, index: Index) -> None:
        count, warps = frame.size(index), Warps(frame, index)
        own = spread(a(frame, index), count)
        source, good = source_lane(mode, warps.lane, b(frame, index), c(frame, index))
        mask = spread(members(frame, index), count)
        bad = good & ((mask >> source.astype(np.uint32)) & 1 == 0)
        present = warps.table(np.ones(count, np.bool_), False)[warps.row, source]
        bad |= good & ~present
        if bad.any():
            at = int(np.argmax(bad))
            what = f"`{opcode}` reads lane {source[at]}, which does not take part"
            raise site.fault(BarrierError, what, frame, int(frame.indices(index)[at]))
        write(frame, index, warps.table(own)[warps.row, source])
        write_valid(frame, index, good)

    return run


def source_lane(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """The lane that each lane reads, itself where that is out of range, and whether it is in range."""
    step_, clamp, segment = (x.astype(np.int64) & 31 for x in (b, c, c >> np.uint32(8)))
    high = (lane & segment) | (clamp & ~segment)
    low = lane & segment
    if mode == "up":
        source = lane - step_
        good = source >= high
    elif mode == "down":
        source = lane + step_
        good = source <= high
    elif mode == "bfly":
        source = lane ^ step_
        good = source <= high
    else:
        source = low | (step_ & ~segment)
        good = source <= high
    return np.where(good, source, lane), good


_VOTES: dict[str, Callable[[Array, Array], Any]] = {
    "all": lambda p, present: (p | ~present).all(1),
    "any": lambda p, present: (p & present).any(1),
    "uni": lambda p, present: (p | ~present).all(1) | ~(p & present).any(1),
    "ballot": lambda p, present: packed(p & present),
}


@gated("vote.sync.<mode:all|any|uni>.pred", "warp", warp_gate(-1))
@gated("vote.sync.<mode:ballot>.b32", "warp", warp_gate(-1))
def vote(site: Site) -> Step:
    site.arity(3)
    mode = site.modifiers["mode"]
    write = site.write(site.operands[0], _U32 if mode == "ballot" else _PRED)
    read, members = site.read(site.operands[1], _PRED), site.read(site.operands[2], _U32)

    def run(frame: Frame, index: Index) -> None:
        count, warps = frame.size(index), Warps(frame, index)
        present = warps.present(spread(members(frame, index), count))
        found = _VOTES[mode](warps.table(spread(read(frame, index), count)), present)
        write(frame, index, warps.each(found))

    return run


@step("activemask.b32", "warp")
def activemask(site: Site) -> Step:
    """The lanes of the warp that execute this together."""
    site.arity(1)
    write = site.write(site.operands[0], _U32)

    def run(frame: Frame, index: Index) -> None:
        warps = Warps(frame, index)
        here = warps.table(np.ones(frame.size(index), np.bool_), False)
        write(frame, index, warps.each(packed(here)))

    return run


@gated("match.any.sync.<type:b32|b64>", "warp", warp_gate(-1))
@gated("match.<all:all>.sync.<type:b32|b64>", "warp", warp_gate(-1))
def match(site: Site) -> Step:
    """any: the lanes with the same value. all: the mask if all values are equal, else 0; and whether they are."""
    site.arity(3)
    every = bool(site.modifiers.get("all", ""))
    target: Operand = site.operands[0]
    mask_to, equal_to = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    write, write_equal = site.write(mask_to, _U32), site.write(equal_to, _PRED)
    read = site.read(site.operands[1], TYPES[f"u{site.modifiers['type'][1:]}"])
    members = site.read(site.operands[2], _U32)

    def run(frame: Frame, index: Index) -> None:
        count, warps = frame.size(index), Warps(frame, index)
        own, mask = spread(read(frame, index), count), spread(members(frame, index), count)
        same = (warps.table(own)[warps.row] == own[:, None]) & warps.present(mask)[warps.row]
        found = packed(same)
        equal = found == mask
        write(frame, index, np.where(equal, found, np.uint32(0)) if every else found)
        write_equal(frame, index, equal)

    return run


_EXTREMES: dict[tuple[str, str], Callable[..., Array]] = {
    ("min", ""): numerics.minnum,
    ("max", ""): numerics.maxnum,
    ("min", "NaN"): numerics.minimum,
    ("max", "NaN"): numerics.maximum,
}

_REDUX: dict[str, tuple[np.ufunc, int]] = {
    "add": (np.add, 0),
    "and": (np.bitwise_and, -1),
    "or": (np.bitwise_or, 0),
    "xor": (np.bitwise_xor, 0),
}


@gated("redux.sync.<op:add|min|max>.<type:u32|s32>", "warp", warp_gate(-1))
@gated("redux.sync.<op:and|or|xor>.<type:b32>", "warp", warp_gate(-1))
def redux(site: Site) -> Step:
    """The reduction of the values of all members, the same for each."""
    site.arity(3)
    op, type_ = site.modifiers["op"], TYPES[site.modifiers["type"]]
    write, read = site.write(site.operands[0], type_), site.read(site.operands[1], type_)
    bounds = np.iinfo(type_.dtype)
    extremes = {"min": (np.minimum, bounds.max), "max": (np.maximum, bounds.min)}
    combine, unit = {**_REDUX, **extremes}[op]

    def run(frame: Frame, index: Index) -> None:
        warps = Warps(frame, index)
        values = spread(read(frame, index), frame.size(index))
        table = warps.table(values, np.array(unit).astype(type_.dtype))
        write(frame, index, warps.each(combine.reduce(table, axis=1, dtype=type_.dtype)))

    return run


@gated("redux.sync.<op:min|max>[.abs][.NaN].f32", "warp", warp_gate(-1))
def redux_float(site: Site) -> Step:
    """The least or greatest value of all members, or of their magnitudes; NaN counts only with .NaN."""
    site.arity(3)
    needs_one_of(site, "sm_100a", "sm_103a")
    m, f32 = site.modifiers, TYPES["f32"]
    write, read = site.write(site.operands[0], f32), site.read(site.operands[1], f32)
    combine = _EXTREMES[m["op"], m["NaN"]]

    def run(frame: Frame, index: Index) -> None:
        warps = Warps(frame, index)
        values = spread(read(frame, index), frame.size(index))
        values = np.abs(values) if m["abs"] else values
        table = warps.table(values, np.float32(np.nan))
        missing = ~warps.table(np.ones(len(values), np.bool_), False)
        table = np.where(missing, table[np.arange(warps.count), np.argmin(missing, axis=1)][:, None], table)
        write(frame, index, warps.each(reduce(lambda a, b: combine(a, b, "f32"), table.T)))

    return run


@gated("elect.sync", "warp", warp_gate(-1))
def elect(site: Site) -> Step:
    """The lowest lane of the mask, and whether the thread is it."""
    site.arity(2)
    target: Operand = site.operands[0]
    lane_to, chosen_to = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    write, write_chosen = site.write(lane_to, _U32), site.write(chosen_to, _PRED)
    members = site.read(site.operands[1], _U32)

    def run(frame: Frame, index: Index) -> None:
        warps = Warps(frame, index)
        mask = spread(members(frame, index), frame.size(index)).astype(np.int64)
        lowest = np.bitwise_count((mask & -mask) - 1)
        write(frame, index, lowest.astype(np.uint32))
        write_chosen(frame, index, warps.lane == lowest)

    return run


@gated("bar.warp.sync", "barrier", warp_gate(0))
def bar_warp(site: Site) -> Step:
    """What the lanes of the mask did before it comes before what they do next."""
    site.arity(1)
    members = site.read(site.operands[0], _U32)

    def run(frame: Frame, index: Index) -> None:
        if frame.watch is not None:
            frame.watch.order.warps(index, spread(members(frame, index), frame.size(index)))

    return run
