"""What can go wrong when a kernel runs in the reference, one class a kind of fault.

Every error knows the place in the source (`location`), the program that hit it (`program`, or None when it is nobody's
alone) and, if the place lies in a device function, the calls that led there, innermost first (`calls`). The text is
put together when it is read, so that an executor can fill in what the raiser did not know, and a runtime that has the
source at hand can render `what`, `location` and `calls` its own way.

    InterpreterError
        MemoryAccessError   an address outside every buffer, misaligned, or in a read-only one
        DeviceAssertError   a device assertion failed
        ZeroStepError       a `for` with step 0
        DeadlockError       every program that still runs waits for a change that none can make
        OutOfFuelError      the budget of a launch is spent: of loop iterations, or of instructions on the PTX emulator
        LaunchError         the arguments or the grid do not fit the kernel; nothing ran
        DistributionError   GPU IR whose threads do not hold what an op needs of them, or use shared memory out of order
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lang import UNKNOWN_LOCATION, Location, TilewrightError

Program = tuple[int, int, int]


class InterpreterError(TilewrightError):
    """A fault of the program that was interpreted: what happened, where, in which program."""

    def __init__(self, what: str, location: Location = UNKNOWN_LOCATION, program: Program | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.location = location
        self.program = program
        self.calls: list[Location] = []
        #: The text as a runtime that has the source at hand tells it; empty where none has.
        self.report = ""

    def locate(self, location: Location) -> None:
        """Say where this happened, unless that is known already."""
        if self.location is UNKNOWN_LOCATION:
            self.location = location

    def __str__(self) -> str:
        return self.report or self.plain()

    def plain(self) -> str:
        """The text without source lines."""
        who = "" if self.program is None else f" (program {self.program})"
        calls = "".join(f"\n  called from {place(call)}" for call in self.calls)
        where = "" if self.location is UNKNOWN_LOCATION else f"{place(self.location)}: "
        return f"{where}{self.what}{who}{calls}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (type(self), self.__dict__.copy()))


def _restore(kind: type[InterpreterError], fields: dict[str, object]) -> InterpreterError:
    """Unpickle an error, whatever its constructor takes: errors cross processes in campaigns."""
    error = kind.__new__(kind, fields["what"])
    error.__dict__.update(fields)
    return error


def place(location: Location) -> str:
    """`module.qualname:line:column`, with the places it was inlined at."""
    here = f"{location.source}:{location.line}:{location.column}"
    return here if location.caller is None else f"{here} (inlined at {place(location.caller)})"


class MemoryAccessError(InterpreterError):
    """An access to an address that no buffer holds, or that it may not be used in that way."""


class DeviceAssertError(InterpreterError):
    """A device assertion that failed."""


class ZeroStepError(InterpreterError):
    """A `for` loop whose step is 0."""


class OutOfFuelError(InterpreterError):
    """The budget of a launch is spent (see `Options.fuel`); `location` is what wanted more than that."""


class LaunchError(InterpreterError):
    """The arguments or the grid do not fit the kernel. `hint`: what to do about it, empty if that is plain."""

    def __init__(
        self, what: str, location: Location = UNKNOWN_LOCATION, program: Program | None = None, hint: str = ""
    ) -> None:
        super().__init__(what, location, program)
        self.hint = hint

    def plain(self) -> str:
        return super().plain() + (f"\nhint: {self.hint}" if self.hint else "")


class DistributionError(InterpreterError):
    """GPU IR that threads cannot run: an element is not where an op needs it, replicas differ, or shared memory is read
    or written out of order."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A place where programs wait: how many of them, one as an example, the op there and what it looked at."""

    location: Location
    op: str
    detail: str
    count: int
    program: Program

    @property
    def what(self) -> str:
        """Who waits here, and for what, without the place."""
        programs = "1 program waits" if self.count == 1 else f"{self.count} programs wait"
        looked = f" on {self.detail}" if self.detail else ""
        return f"{programs} in {self.op}{looked}, for example program {self.program}"

    def __str__(self) -> str:
        return f"{place(self.location)}: {self.what}"


class DeadlockError(InterpreterError):
    """Every program that has not finished waits. `waiting` has one entry a place, the most crowded first."""

    def __init__(self, what: str, waiting: tuple[Waiting, ...]) -> None:
        super().__init__(what, waiting[0].location, waiting[0].program)
        self.waiting = waiting

    def plain(self) -> str:
        return "\n".join((f"{place(self.location)}: {self.what}", *(f"  {entry}" for entry in self.waiting)))
