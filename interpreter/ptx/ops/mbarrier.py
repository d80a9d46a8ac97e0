"""mbarriers: init, inval, arrive (with its variants), expect_tx, complete_tx, test_wait, try_wait, pending_count.

`try_wait` holds threads until the phase is complete, or until nothing else can happen: then its time is up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..access import CLUSTER, Access, object_access, reach_of
from ..frame import Frame, Index, spread
from ..hopper.mbarriers import Arrivals, Threads, pending_count
from ..machine import Machine
from ..site import Read, Site
from ..spaces import in_shared, load, resolve, store, update
from ..syntax import Operand, Sink
from ..table import Gate, Step, gated, step
from ..targets import needs
from ..types import TYPES, Array
from .memory import address_operand, address_reader

_U32, _U64, _PRED = TYPES["u32"], TYPES["b64"], TYPES["pred"]
_OWN = "[.<space:shared::cta|shared>]"
_ANY = "[.<space:shared::cta|shared::cluster|shared>]"
_ARRIVE = "[.<sem:release|relaxed>][.<scope:cta|cluster>]"
_WAIT = "[.<sem:acquire|relaxed>][.<scope:cta|cluster>]"
_COUNT = "[.<sem:relaxed>][.<scope:cta|cluster>]"


class Place:
    """The operand of an instruction that says where an mbarrier is, and the access to it."""

    def __init__(self, site: Site, at: int, kind: str, what: str = "") -> None:
        needs(site, 90 if "try_wait" in site.instruction.opcode or "_tx" in site.instruction.opcode else 80)
        space = "shared" if "shared" in site.modifiers.get("space", "shared" if what else "") else "generic"
        self.site, self._generic = site, space == "generic"
        self._address = address_reader(site, address_operand(site, at), space)
        self.access: Access = object_access(site, what or f"`{site.instruction.opcode}`", kind)

    def addresses(self, frame: Frame, index: Index) -> Array:
        """Where it is in shared memory, for each thread."""
        found = spread(self._address(frame, index), frame.size(index))
        return in_shared(self.site, frame, index, found) if self._generic else found

    def keys(self, frame: Frame, index: Index) -> Threads:
        """The keys of the mbarriers, about whose access nothing else is checked."""
        (cells,) = resolve(self.access, "shared", frame, index, self.addresses(frame, index))
        return cells.position

    def touch(self, frame: Frame, index: Index) -> Threads:
        """The keys, after checking the access."""
        addresses = self.addresses(frame, index)
        if self.access.kind == "peek":
            load(self.access, frame, index, addresses)
        elif self.access.kind == "write":
            store(self.access, frame, index, addresses, [np.zeros(1, np.uint64)])
        else:
            update(self.access, frame, index, addresses)
        return self.keys(frame, index)


def _numbers(site: Site, operand: Operand | None) -> Callable[[Frame, Index], Array]:
    """How to read a count for each thread, 1 where there is none."""
    if operand is None:
        return lambda frame, index: np.ones(frame.size(index), np.int64)
    read = site.read(operand, _U32)
    return lambda frame, index: spread(read(frame, index), frame.size(index)).astype(np.int64)


@step(f"mbarrier.init{_OWN}.b64", "async")
def init(site: Site) -> Step:
    site.arity(2)
    place, counts = Place(site, 0, "write"), _numbers(site, site.operands[1])

    def run(frame: Frame, index: Index) -> None:
        keys = place.keys(frame, index)
        place.touch(frame, index)
        frame.engines.mbarriers.init(site, frame.indices(index), keys, counts(frame, index))

    return run


@step(f"mbarrier.inval{_OWN}.b64", "async")
def inval(site: Site) -> Step:
    site.arity(1)
    place = Place(site, 0, "write")

    def run(frame: Frame, index: Index) -> None:
        frame.engines.mbarriers.inval(site, frame.indices(index), place.touch(frame, index))

    return run


def _transactions(sign: int) -> Callable[[Site], Step]:
    """More bytes are expected (1), or fewer are outstanding (-1)."""

    def build(site: Site) -> Step:
        site.arity(2)
        place, numbers = Place(site, 0, "atomic"), _numbers(site, site.operands[1])

        def run(frame: Frame, index: Index) -> None:
            keys = _present(place, frame, index)
            nbytes = sign * numbers(frame, index)
            arrivals = Arrivals(frame.indices(index), keys, np.zeros_like(nbytes), nbytes, releases=False)
            frame.engines.mbarriers.arrive(site, arrivals)

        return run

    return build


def _present(place: Place, frame: Frame, index: Index) -> Threads:
    """The keys of mbarriers that must be there, the access checked."""
    keys, threads = place.keys(frame, index), frame.indices(index)
    for key in np.unique(keys).tolist():
        frame.engines.mbarriers.at(place.site, int(threads[np.argmax(keys == key)]), key)
    place.touch(frame, index)
    return keys


step(f"mbarrier.expect_tx{_COUNT}{_ANY}.b64", "async")(_transactions(1))
step(f"mbarrier.complete_tx{_COUNT}{_ANY}.b64", "async")(_transactions(-1))


@step(f"mbarrier.<op:arrive|arrive_drop>[.expect_tx]{_ARRIVE}{_ANY}.b64", "async")
@step(f"mbarrier.<op:arrive|arrive_drop>.noComplete[.<sem:release>][.<scope:cta>]{_OWN}.b64", "async")
def arrive(site: Site) -> Step:
    """The state before; a remote mbarrier has none that could be had."""
    site.arity(2, 3)
    m, last = site.modifiers, site.operands[2] if len(site.operands) == 3 else None
    expects, partial = bool(m.get("expect_tx")), "noComplete" in site.instruction.opcode
    if last is None and (expects or partial):
        site.fail(f"`{site.instruction.opcode}` takes 3 operands, found 2")
    write = site.write(site.operands[0], _U64)
    if m.get("space") == "shared::cluster" and not isinstance(site.operands[0], Sink):
        site.fail(f"`{site.instruction.opcode}` has no state: its destination is `_`")
    place, numbers = Place(site, 1, "atomic"), _numbers(site, last)
    drop, releases, reach = m["op"] == "arrive_drop", m["sem"] != "relaxed", min(reach_of(site), CLUSTER)
    site.program.relaxed |= not releases

    def run(frame: Frame, index: Index) -> None:
        keys, given = _present(place, frame, index), numbers(frame, index)
        ones, none = np.ones_like(given), np.zeros_like(given)
        counts, nbytes = (ones, given) if expects else (given, none)
        arrivals = Arrivals(frame.indices(index), keys, counts, nbytes, releases, reach, drop, not partial)
        write(frame, index, frame.engines.mbarriers.arrive(site, arrivals))

    return run


@step("cp.async.mbarrier.arrive[.noinc][.<space:shared::cta|shared>].b64", "async")
def arrive_copies(site: Site) -> Step:
    """The thread arrives once its `cp.async` so far are done; without `.noinc` one arrival more is pending for that."""
    site.arity(1)
    place, more = Place(site, 0, "atomic"), not site.modifiers["noinc"]

    def run(frame: Frame, index: Index) -> None:
        keys, threads = _present(place, frame, index), frame.indices(index)
        if more:
            frame.engines.mbarriers.expect(site, threads, keys)
        frame.engines.transfers.arrive_later(site, threads, keys)

    return run


@step("mbarrier.pending_count.b64", "async")
def count(site: Site) -> Step:
    site.arity(2)
    write, read = site.write(site.operands[0], _U32), site.read(site.operands[1], _U64)
    return lambda frame, index: write(frame, index, pending_count(read(frame, index)))


class _Wait:
    """A test of a phase: how to read which one, and what to do when it is complete."""

    def __init__(self, site: Site, peek: str = "peek") -> None:
        site.arity(3, 4 if "try_wait" in site.instruction.opcode else 3)
        self.site, self.parity = site, bool(site.modifiers["parity"])
        self.place = Place(site, 1, peek)
        self._wanted: Read = site.read(site.operands[2], _U32 if self.parity else _U64)
        self._write = site.write(site.operands[0], _PRED)
        self._acquires = acquires = site.modifiers["sem"] != "relaxed"
        self._reach = min(reach_of(site), CLUSTER)
        site.program.relaxed |= not acquires

    def done(self, frame: Frame, index: Index, keys: Threads) -> Array:
        """Whether the phase is complete, for each thread."""
        wanted = spread(self._wanted(frame, index), frame.size(index))
        return frame.engines.mbarriers.done(self.site, frame.indices(index), keys, wanted, self.parity)

    def step(self, frame: Frame, index: Index) -> None:
        """Test, and learn."""
        keys = _present(self.place, frame, index)
        done = self.done(frame, index, keys)
        if done.any():
            threads = frame.indices(index)[done]
            frame.engines.mbarriers.acquire(self.site, threads, keys[done], self._reach, self._acquires)
        self._write(frame, index, done)


def _try_gate(site: Site) -> Gate:
    wait = _Wait(site)

    def gate(machine: Machine, frame: Frame, index: Index) -> Index:
        keys = wait.place.keys(frame, index)
        passes = wait.done(frame, index, keys)
        if passes.all():
            return index
        threads, engines = frame.indices(index), frame.engines
        passes = passes | engines.hurried(threads)
        engines.park(site, threads[~passes], keys[~passes])
        return index if passes.all() else threads[passes]

    return gate


def _wait(site: Site) -> Step:
    return _Wait(site).step


step(f"mbarrier.test_wait[.parity]{_WAIT}{_OWN}.b64", "async")(_wait)
gated(f"mbarrier.try_wait[.parity]{_WAIT}{_OWN}.b64", "async", _try_gate)(_wait)
