"""Copies in flight that an engine makes: bulk and tensor copies, their groups, and the mbarriers that they signal.

A copy reads its source and writes its targets at any moment between the instruction and what a thread may wait for: the
phase of an mbarrier, which it gives its bytes to when it is done, or the group that its thread has put it in. A wait
with `.read` covers the reading only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..access import Access
from ..errors import RaceError
from ..spaces import Rows
from ..types import Array
from .checks import Place, Work
from .mbarriers import Arrivals

if TYPE_CHECKING:
    from ..frame import Frame, Index
    from ..site import Site
    from .engines import Engines

Threads = NDArray[np.intp]
Combine = Callable[[Array, NDArray[np.intp], Array], None]
"""Elements of a view combined with values."""

Convert = Callable[[Array], Array]
"""Elements as bits, as a copy changes them on their way."""

_SOON = 0.25
"""How likely a copy is done before the next basic block runs."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a copy writes: the elements, which of its own those are (None for all), and the mbarrier it signals."""

    place: Place
    chosen: NDArray[np.intp] | None = None
    key: int | None = None


@dataclass(slots=True, eq=False)
class Transfer:
    """One copy of a thread.

    source: the elements it reads; `chosen` are their numbers among all (None for all), of which there are `count`, the
    others being `fill`. nbytes: what its mbarriers count. group: of its thread, None if it signals mbarriers. combine:
    how to write, None for a plain copy. convert: what becomes of elements on their way, None for nothing.
    """

    site: Site
    thread: int
    read: Access
    write: Access
    source: Place
    targets: tuple[Target, ...]
    count: int
    nbytes: int
    chosen: NDArray[np.intp] | None = None
    fill: int = 0
    group: int | None = None
    combine: Combine | None = None
    convert: Convert | None = None
    work: Work | None = None
    values: Array | None = field(default=None)

    @property
    def blocks(self) -> set[int]:
        """The blocks, in the frame, whose shared memory it needs."""
        found = set[int]()
        for place in (self.source, *(target.place for target in self.targets)):
            if isinstance(place.home, Rows) and len(place.position):
                found.add(int(place.position[0]) * place.view.dtype.itemsize // place.home.stride)
        return found

    def fetch(self) -> None:
        """Read the source, unless that has been done."""
        if self.values is None:
            found = self.source.view.take(self.source.position)
            if self.convert is not None:
                found = self.convert(found)
            if self.chosen is None:
                self.values = found
            else:
                self.values = np.full(self.count, self.fill, found.dtype)
                self.values[self.chosen] = found

    def deliver(self) -> None:
        """Write the targets."""
        assert self.values is not None
        for target in self.targets:
            values = self.values if target.chosen is None else self.values[target.chosen]
            view, position = target.place.view, target.place.position
            if self.combine is not None:
                self.combine(view, position, values)
            else:
                view[position] = values.view(view.dtype)


class Transfers:
    """The copies of a frame that have not been waited for."""

    def __init__(self, frame: Frame, engines: Engines) -> None:
        self._frame, self._engines = frame, engines
        self._groups = np.zeros(frame.count, np.int64)
        self._pending: list[Transfer] = []
        self._arrivals: list[tuple[Site, Threads, Threads]] = []

    def arrive_later(self, site: Site, threads: Threads, keys: Threads) -> None:
        """Threads arrive at mbarriers once their other copies, `cp.async`, are done."""
        self._arrivals.append((site, threads, keys))
        self._frame.changes += 1

    def _arrive(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        for site, threads, keys in arrivals:
            self._frame.copies.wait(threads, None)
            ones = np.ones(len(threads), np.int64)
            found = Arrivals(threads, keys, ones, 0 * ones, releases=True)
            self._engines.mbarriers.arrive(site, found)

    def issue(self, transfer: Transfer, grouped: bool) -> None:
        """A thread starts a copy."""
        frame, watch = self._frame, self._frame.watch
        if grouped:
            transfer.group = int(self._groups[transfer.thread])
        if watch is not None:
            row = watch.order.known(np.array([transfer.thread]))[0]
            transfer.work = Work(watch, transfer.thread, row)
            transfer.work.reads(transfer.read, transfer.source)
            for target in transfer.targets:
                transfer.work.writes(transfer.write, target.place)
        frame.changes += 1
        self._pending.append(transfer)

    def commit(self, index: Index) -> None:
        """What threads have started since their last commit becomes a group."""
        self._groups[slice(None) if index is None else index] += 1

    def wait(self, index: Index, leave: int, reading: bool) -> None:
        """Threads wait for all their groups but the last `leave`, or only for what those read."""
        if not self._pending:
            return
        waits = np.zeros(self._frame.count, np.bool_)
        waits[slice(None) if index is None else index] = True
        for transfer in list(self._pending):
            thread, group = transfer.thread, transfer.group
            if group is not None and waits[thread] and group < self._groups[thread] - leave:
                self._read(transfer)
                if not reading:
                    self._land(transfer)

    def settle(self) -> bool:
        """Do all copies that signal mbarriers; whether there are any."""
        found = [transfer for transfer in self._pending if transfer.group is None]
        if self._arrivals:
            self._arrive()
            return True
        random = self._engines.random
        if random is not None and found:
            found = random.sample(found, random.randint(1, len(found)))
        for transfer in found:
            self._land(transfer)
        return bool(found)

    def drift(self) -> None:
        """By the luck of the seed some copies are done, or have read."""
        random = self._engines.random
        assert random is not None
        if self._arrivals and random.random() < _SOON:
            self._arrive()
        for transfer in list(self._pending):
            if random.random() < _SOON:
                if transfer.group is None:
                    self._land(transfer)
                else:
                    transfer.fetch()

    def end(self) -> None:
        """The threads have ended. Raises RaceError for a copy that still needs the shared memory of a block."""
        for transfer in list(self._pending):
            if transfer.values is None or transfer.group is None:
                self._abandoned(transfer)
            transfer.fetch()
            self._land(transfer)

    def _abandoned(self, transfer: Transfer) -> None:
        watch = self._frame.watch
        if watch is None or not transfer.blocks:
            return
        watch.history.races.check()
        what = f"`{transfer.site.instruction.opcode}` is still in flight when its block ends: nobody has waited for it"
        who = f"{what}; thread {self._frame.thread_of(transfer.thread)}"
        raise RaceError(who, transfer.site.location, self._frame.block_of(transfer.thread), ())

    def _read(self, transfer: Transfer) -> None:
        transfer.fetch()
        if transfer.work is not None:
            watch = self._frame.watch
            assert watch is not None
            transfer.work.end_reads(int(watch.ids[transfer.thread]))

    def _land(self, transfer: Transfer) -> None:
        """Do all of a copy that has not been done, and tell the mbarriers."""
        frame, watch, mbarriers = self._frame, self._frame.watch, self._engines.mbarriers
        transfer.fetch()
        transfer.deliver()
        self._pending.remove(transfer)
        frame.changes += 1
        stamp: int | None = None
        if watch is not None and transfer.work is not None:
            keys = [target.key for target in transfer.targets if target.key is not None]
            records = [int(watch.ids[transfer.thread])] * len(transfer.targets)
            if keys:
                slots = [mbarriers.at(transfer.site, transfer.thread, key).slot for key in keys]
                records = [watch.order.engine(slot) for slot in slots]
            transfer.work.end_reads(records[0])
            for number, record in enumerate(records):
                transfer.work.end_writes(record, number)
            stamp = watch.history.clock.next
        for target in transfer.targets:
            if target.key is not None:
                mbarriers.signal(transfer.site, transfer.thread, target.key, transfer.nbytes, stamp)
