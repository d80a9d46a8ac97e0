"""Asynchronous copies from global to shared memory: cp.async, its groups and its waits."""

from __future__ import annotations

import numpy as np

from ...errors import MemoryAccessError
from ..access import access_of
from ..frame import Frame, Index, spread
from ..site import Read, Site
from ..syntax import Immediate, Register
from ..table import Step, step
from ..targets import needs
from ..types import TYPES, Array
from .memory import address_operand, address_reader

_U32, _PRED = TYPES["u32"], TYPES["pred"]
_HINTS = "[.L2::cache_hint][.<prefetch:L2::64B|L2::128B|L2::256B>]"
MOST_LEFT = 63
"""Groups that a wait for copies can leave."""
_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


def _size(site: Site, number: int, allowed: tuple[int, ...]) -> int:
    operand = site.operands[number]
    if not isinstance(operand, Immediate) or operand.kind != "int" or operand.value < 0:
        site.fail(f"`{site.instruction.opcode}` needs a constant as operand {number + 1}")
    value = int(operand.value)
    if value not in allowed:
        site.fail(f"`{site.instruction.opcode}` copies {' or '.join(map(str, allowed))} bytes, found {value}")
    return value


def groups_left(site: Site, most: int, least: int = -1 << 31) -> int:
    """How many groups a wait leaves, a constant of 32 bits.

    The instruction has room for `most`, which all larger ones mean, and so do negative ones where the assembler takes
    them (`least` below 0): it gives -1, -2, 100 and 2**32 - 1 the code of 63.
    """
    operand = site.operands[0]
    if not isinstance(operand, Immediate) or operand.kind != "int":
        site.fail(f"`{site.instruction.opcode}` needs a constant as operand 1")
    value = int(operand.value)
    if not least <= value < 1 << 32:
        site.fail(f"`{site.instruction.opcode}` leaves {least} to 2**32 - 1 groups, found {value}")
    return min(value & 0xFFFF_FFFF, most)


def _bytes_read(site: Site, size: int) -> Read:
    """How many bytes each thread reads: `src-size`, or none where the predicate `ignore-src` holds, or all."""
    rest = site.operands[3:]
    if site.modifiers["L2__cache_hint"]:
        rest = rest[:-1]
    if not rest:
        return lambda frame, index: np.array([size])
    (operand,) = rest
    if isinstance(operand, Register) and operand.bits == 1:
        ignored = site.read(operand, _PRED)
        return lambda frame, index: np.where(ignored(frame, index), 0, size)
    given = site.read(operand, _U32)
    return lambda frame, index: given(frame, index).astype(np.intp)


def _too_many(site: Site, frame: Frame, index: Index, nbytes: Array, size: int) -> MemoryAccessError:
    at = int(np.argmax(nbytes > size))
    what = f"`{site.instruction.opcode}` of {size} bytes reads {int(nbytes[at])}"
    return site.fault(MemoryAccessError, what, frame, int(frame.indices(index)[at]))


@step(f"cp.async.<cop:ca|cg>.<space:shared::cta|shared>.global{_HINTS}", "async")
def cp_async(site: Site) -> Step:
    """Start a copy of 4, 8 or 16 bytes, which is done when a wait covers it."""
    needs(site, 80)
    hint = int(bool(site.modifiers["L2__cache_hint"]))
    site.arity(3 + hint, 4 + hint)
    size = _size(site, 2, _SIZES[site.modifiers["cop"]])
    to = address_reader(site, address_operand(site, 0), "shared")
    source = address_reader(site, address_operand(site, 1), "global")
    nbytes = _bytes_read(site, size)
    unit = np.dtype(np.uint32 if size == 4 else np.uint64)
    write = access_of(site, "shared", unit, size // unit.itemsize, "copy of", writes=True)
    read = access_of(site, "global", unit, size // unit.itemsize, "copy of", writes=False)

    def run(frame: Frame, index: Index) -> None:
        count = frame.size(index)
        places = [spread(part(frame, index), count) for part in (to, source, nbytes)]
        if (places[2] > size).any():
            raise _too_many(site, frame, index, places[2], size)
        frame.copies.issue(read, write, index, *places)

    return run


@step("cp.async.commit_group", "async")
def commit(site: Site) -> Step:
    """The thread's copies since the last one become a group."""
    needs(site, 80)
    site.arity(0)
    return lambda frame, index: frame.copies.commit(index)


@step("cp.async.wait_group", "async")
def wait_group(site: Site) -> Step:
    """Wait for all groups of the thread but the last so many."""
    needs(site, 80)
    site.arity(1)
    leave = groups_left(site, MOST_LEFT)
    return lambda frame, index: frame.copies.wait(index, leave)


@step("cp.async.wait_all", "async")
def wait_all(site: Site) -> Step:
    """Wait for all copies of the thread."""
    needs(site, 80)
    site.arity(0)
    return lambda frame, index: frame.copies.wait(index, None)
