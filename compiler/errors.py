"""Mistakes that show only when a kernel is compiled. One class a mistake, as in the catalogue of `lang/errors/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.lang import UNKNOWN_LOCATION, CompilationError, Location, Operation, Span

#: Finds the expression that an operation at a location was made for; None where its source is not at hand.
FindSpan: TypeAlias = Callable[[Location], Span | None]


class UnknownTarget(CompilationError):
    """A target that no row describes."""

    message = "there is no target {name!r}"
    expected = "one of {known}"


class BadOption(CompilationError):
    """A compile option has a value that it does not take."""

    message = "{option}={value!r} is not possible"
    expected = "{expected}"


class LoweringError(CompilationError):
    """A kernel is well formed, but compiled code for it cannot be made.

    `location` is the place in its source, which the report names; who has the source at hand shows it, by `locate`.
    """

    def __init__(self, operation: Operation, **facts: object) -> None:
        self.location: Location = operation.location
        self.operation = operation.name
        known = (each for each in inlined_at(operation.location) if each != UNKNOWN_LOCATION)
        self.places = [place(each) for each in known]
        super().__init__(op=operation.name, **facts)

    def locate(self, find: FindSpan) -> None:
        """Show the source of the operation, and of the calls that led to it, as far as it is at hand."""
        for each in inlined_at(self.location):
            if span := find(each):
                self.at(span)

    def lines(self) -> Iterator[str]:
        if self.places and not self.spans:
            yield "\ncalled from ".join(self.places)
        yield from super().lines()


def inlined_at(location: Location | None) -> Iterator[Location]:
    """A location and those of the calls that it was inlined at, innermost first."""
    while location is not None:
        yield location
        location = location.caller


def place(location: Location) -> str:
    """`module.qualname:line:column`."""
    return f"{location.source}:{location.line}:{location.column}"


class NotCompiledYet(LoweringError):
    """An operation, or a form of it, has no lowering."""

    message = "{op}{form} is not compiled yet"
    hint = "the interpreter runs it: launch with device 'interpreter'"


class NotOnTarget(LoweringError):
    """The target lacks an instruction that the operation is lowered to."""

    message = "{op}{form} needs sm_{sm} and PTX {ptx}; {target} has less"


class RegistersExceeded(LoweringError):
    """A tile asks for so many registers of each thread that keeping the rest in memory does not help."""

    message = (
        "a tile of shape {shape} with {bits} bits an element takes {words:,} registers in each of {threads} threads; "
        "a thread of {target} has {available}"
    )
    expected = "at most {most:,} for one tile: what a thread has no register for is kept in its local memory"
    hint = "take smaller tiles{advice}"


@dataclass(frozen=True, slots=True)
class SharedNeed:
    """A piece of shared memory that is in use: from which byte, how many, what for, and by which operation."""

    start: int
    size: int
    purpose: str
    location: Location


class SharedMemoryExceeded(LoweringError):
    """A kernel needs more shared memory than a block of the target has. `needs` is all that is in use at a time."""

    message = "shared memory for {what} ends at byte {bytes:,}, and a block of {target} has {limit:,}:\n{table}"
    hint = "take smaller tiles{advice}"

    def __init__(self, operation: Operation, needs: Sequence[SharedNeed], **facts: object) -> None:
        self.needs = tuple(needs)
        super().__init__(operation, table=table_of(needs, lambda location: None), **facts)

    def locate(self, find: FindSpan) -> None:
        """Show the source, in the table too."""
        super().locate(find)
        self.facts = {**self.facts, "table": table_of(self.needs, find)}
        self.text = self.message.format(**self.facts)


def table_of(needs: Sequence[SharedNeed], find: FindSpan) -> str:
    """Who uses which bytes, a line each, in their order."""
    rows = [f"{'from byte':>11} {'bytes':>9}  for"]
    for need in needs:
        span = find(next(iter(reversed([*inlined_at(need.location)]))))
        where = place(need.location) if span is None else f"line {span.line}: {span.text.strip()}"
        rows.append(f"{need.start:>11,} {need.size:>9,}  {need.purpose}, {where}")
    return "\n".join(rows)


class NoAssembler(CompilationError):
    """The assembler library is not installed, or too old to load."""

    message = "no assembler: {problem}"
    hint = "install nvidia-nvjitlink, or ask for PTX only"


class AssemblerError(CompilationError):
    """The assembler refused the PTX for a reason that is the kernel's: it needs too much of something."""

    message = "the assembler refused {name} for {target}: {log}"
