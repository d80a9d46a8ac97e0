"""Clusters: `barrier.cluster`, `mapa`, `getctarank`; and `setmaxnreg`, which moves registers between warp groups."""

from __future__ import annotations

import numpy as np

from ...errors import MemoryAccessError
from ..access import CLUSTER
from ..collective import warpgroup_gate
from ..frame import Frame, Index, spread
from ..hopper.clusters import mapped, rank_of
from ..hopper.pool import LEAST, MOST, STEP
from ..machine import Machine
from ..site import Site, bits_type
from ..spaces import WINDOWS, in_shared
from ..syntax import Immediate
from ..table import Gate, Step, gated, step
from ..targets import needs, needs_one_of
from ..types import TYPES, Array

_U32 = TYPES["u32"]


@step("barrier.cluster.arrive[.<sem:release|relaxed>][.aligned]", "barrier")
def arrive(site: Site) -> Step:
    needs(site, 90)
    site.arity(0)
    releases = site.modifiers["sem"] != "relaxed"
    site.program.relaxed |= not releases
    return lambda frame, index: frame.engines.meetings.arrive(site, frame.indices(index), releases)


def _wait_gate(site: Site) -> Gate:
    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        threads = frame.indices(index)
        passes = frame.engines.meetings.passes(site, threads)
        frame.engines.park(site, threads[~passes])
        return index if passes.all() else threads[passes]

    return gate


@gated("barrier.cluster.wait[.acquire][.aligned]", "barrier", _wait_gate)
def wait(site: Site) -> Step:
    needs(site, 90)
    site.arity(0)
    return lambda frame, index: frame.engines.meetings.leave(frame.indices(index), acquires=True)


def _own_rank(frame: Frame, index: Index) -> Array:
    return frame.indices(index) // frame.threads % frame.cluster


@step("mapa[.<space:shared::cluster>].<type:u32|u64>", "move")
def mapa(site: Site) -> Step:
    """The address of the same place in the shared memory of another block of the cluster."""
    needs(site, 90)
    site.arity(3)
    type_ = bits_type(int(site.modifiers["type"][1:]))
    write, read = site.write(site.operands[0], type_), site.read_bits(site.operands[1], type_)
    rank = site.read(site.operands[2], _U32)
    generic = not site.modifiers["space"]

    def run(frame: Frame, index: Index) -> None:
        addresses = spread(read(frame, index), frame.size(index))
        wanted = spread(rank(frame, index), frame.size(index)).astype(np.int64)
        if (wanted >= frame.cluster).any():
            at = int(np.argmax(wanted >= frame.cluster))
            what = f"`{site.instruction.opcode}` of block {int(wanted[at])} of a cluster of {frame.cluster}"
            raise site.fault(MemoryAccessError, what, frame, int(frame.indices(index)[at]))
        inner = in_shared(site, frame, index, addresses) if generic else addresses
        found = mapped(inner, wanted, _own_rank(frame, index))
        write(frame, index, found + np.uint64(WINDOWS["shared"]) if generic else found)

    return run


@step("getctarank[.<space:shared::cluster>].<type:u32|u64>", "move")
def getctarank(site: Site) -> Step:
    """The rank of the block in whose shared memory an address is."""
    needs(site, 90)
    site.arity(2)
    type_ = bits_type(int(site.modifiers["type"][1:]))
    write, read = site.write(site.operands[0], _U32), site.read_bits(site.operands[1], type_)
    generic = not site.modifiers["space"]

    def run(frame: Frame, index: Index) -> None:
        addresses = spread(read(frame, index), frame.size(index))
        inner = in_shared(site, frame, index, addresses) if generic else addresses
        write(frame, index, rank_of(inner, _own_rank(frame, index)).astype(np.uint32))

    return run


def _register_gate(site: Site) -> Gate:
    """More registers are waited for until they are free."""
    whole, count, grows = warpgroup_gate(site), _count(site), site.modifiers["op"] == "inc"

    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        index = whole(machine, frame, index)
        if not grows or (index is not None and not len(index)):
            return index
        products = frame.engines.products
        warpgroups = products.warpgroups(index)
        fits = frame.engines.pool.fits(warpgroups, count)
        if fits.all():
            return index
        frame.engines.park(site, products.threads(warpgroups[~fits]))
        return products.threads(warpgroups[fits])

    return gate


def _count(site: Site) -> int:
    site.arity(1)
    (operand,) = site.operands
    count = int(operand.value) if isinstance(operand, Immediate) and operand.kind == "int" else 0
    if not LEAST <= count <= MOST or count % STEP:
        site.fail(f"`{site.instruction.opcode}` needs a constant multiple of {STEP} from {LEAST} to {MOST}")
    if not {"maxnreg", "maxntid", "reqntid"} & site.program.entry.attributes.keys():
        site.fail(f"`{site.instruction.opcode}` needs `.maxnreg`, or the size of a block, on the entry")
    return count


@gated("setmaxnreg.<op:inc|dec>.sync.aligned.u32", "control", _register_gate)
def setmaxnreg(site: Site) -> Step:
    needs_one_of(site, "sm_90a")
    count, grows = _count(site), site.modifiers["op"] == "inc"

    def run(frame: Frame, index: Index) -> None:
        frame.engines.pool.set(site, frame.engines.products.warpgroups(index), count, grows)

    return run


@step("fence.mbarrier_init.release.cluster", "fence")
def fence_init(site: Site) -> Step:
    """A relaxed arrival at the cluster's barrier behind it tells of the mbarriers made before it."""
    site.arity(0)

    def run(frame: Frame, index: Index) -> None:
        if frame.watch is not None:
            frame.watch.order.prepare(frame.indices(index), CLUSTER)

    return run
