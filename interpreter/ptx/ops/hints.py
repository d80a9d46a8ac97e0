"""What caches and profilers are told: prefetches, priorities, policies, events. Kernels compute the same without it.

`discard` says that nobody needs 128 bytes any more: they may be anything afterwards, and here are what they were. Which
bytes those are, an address rounded down says only where arrays lie as they do on a GPU, so that nothing is checked.
"""

from __future__ import annotations

import numpy as np

from ..site import Site
from ..syntax import Immediate
from ..table import Step, step
from ..types import TYPES
from .memory import address_operand, address_reader, nothing

_LINE = 128
"""Bytes of what is discarded, or has a priority."""
_EVENTS = {"pmevent": 15, "pmevent.mask": 0xFFFF}
"""The largest operand of each."""
_PRIMARY = "<primary:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged>"
_SECONDARY = "[.<secondary:L2::evict_first|L2::evict_unchanged>]"

for _syntax in (
    "prefetch[.<space:global|local>].<level:L1|L2>",
    "prefetch.global.<level:L2::evict_last|L2::evict_normal>",
    "prefetchu.L1",
):
    step(_syntax, "prefetch")(nothing)


def _number(site: Site, number: int) -> int:
    """An operand that must be a constant."""
    operand = site.operands[number]
    if not isinstance(operand, Immediate) or operand.kind != "int":
        site.fail(f"operand {number} of `{site.instruction.opcode}` is a constant")
    return int(operand.value)


@step("applypriority[.<space:global>].L2::evict_normal", "prefetch")
@step("discard[.<space:global>].L2", "prefetch")
def line(site: Site) -> Step:
    """About a line of global memory."""
    site.arity(2)
    address_operand(site, 0)
    if (found := _number(site, 1)) != _LINE:
        site.fail(f"`{site.instruction.opcode}` is about {_LINE} bytes, found {found}")
    return nothing(site)


def _policy(site: Site) -> Step:
    """A cache policy; any value will do."""
    write = site.write(site.operands[0], TYPES["b64"])
    return lambda frame, index: write(frame, index, np.zeros(1, np.uint64))


@step(f"createpolicy.fractional.{_PRIMARY}{_SECONDARY}.b64", "move")
def fractional(site: Site) -> Step:
    site.arity(1, 2)
    return _policy(site)


@step(f"createpolicy.range[.<space:global>].{_PRIMARY}{_SECONDARY}.b64", "move")
def ranged(site: Site) -> Step:
    """Of some bytes from an address on, and of those on both sides of them."""
    site.arity(4)
    address_reader(site, address_operand(site, 1), site.modifiers["space"] or "generic")
    for size in site.operands[2:]:
        site.read(size, TYPES["u32"])
    return _policy(site)


@step("createpolicy.cvt.L2.b64", "move")
def converted(site: Site) -> Step:
    """Of what the host says about a stream."""
    site.arity(2)
    site.read(site.operands[1], TYPES["b64"])
    return _policy(site)


@step("pmevent[.mask]", "control")
def pmevent(site: Site) -> Step:
    """Events for a profiler."""
    site.arity(1)
    most = _EVENTS[site.instruction.opcode]
    if not 0 <= (found := _number(site, 0)) <= most:
        site.fail(f"`{site.instruction.opcode}` takes 0 to {most}, found {found}")
    return nothing(site)
