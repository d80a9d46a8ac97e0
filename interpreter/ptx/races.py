"""Races: what is told about two accesses to the same bytes that nothing orders."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lang import Location

from ..errors import InterpreterError, place
from .access import Access
from .errors import RaceError
from .frame import Frame, Triple

_MOST = 20


@dataclass(frozen=True, slots=True)
class Party:
    """One of the two accesses of a race: what it does, on which line of the source, by which thread of which block."""

    what: str
    location: Location
    thread: Triple
    block: Triple

    @property
    def who(self) -> str:
        """The thread and its block."""
        return f"thread {self.thread} of block {self.block}"


@dataclass(frozen=True, slots=True)
class Race:
    """An access (`second`, the one that was found) that may not stand beside the `first`, where, and why not."""

    address: str
    second: Party
    first: Party
    why: str

    def __str__(self) -> str:
        first, second = self.first, self.second
        here = f"{second.what} at {self.address} by {second.who}"
        return f"{here}, {self.why} the {first.what} at {place(first.location)} by {first.who}"


class Races:
    """The races of a launch, one for each pair of source lines."""

    def __init__(self) -> None:
        self.found: dict[tuple[Location, Location], Race] = {}

    def add(self, race: Race) -> None:
        """Keep a race between lines that have none yet."""
        pair = sorted((race.first.location, race.second.location), key=place)
        self.found.setdefault((pair[0], pair[1]), race)
        if len(self.found) >= _MOST:
            self.check()

    def check(self, cause: InterpreterError | None = None) -> None:
        """Raise a RaceError if there are any; `cause` is what went wrong afterwards."""
        if not self.found:
            return
        races = tuple(self.found.values())
        first = races[0]
        more = "".join(f"\n  {place(race.second.location)}: {race}" for race in races[1:])
        raise RaceError(f"race: {first}{more}", first.second.location, first.second.block, races) from cause


def party(access: Access, frame: Frame, thread: int) -> Party:
    """An access of a thread, whose number counts from the first of the frame: negative for earlier blocks."""
    return Party(access.what, access.site.location, frame.thread_of(thread), frame.block_of(thread))
