"""What is wrong with PTX text, and what goes wrong when it runs.

PtxError                  the text: its line, with a caret under the place
InterpreterError
    UninitializedError    a value from a register or from shared memory that nobody wrote is stored, or decides an
                          address, a branch or a barrier
    BarrierError          a barrier or warp instruction that the threads do not execute together as they must
    RaceError             accesses to the same bytes that nothing orders, or a copy's result used before its wait
    TrapError             the kernel executed `trap` or `brkpt`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lang import Location, TilewrightError

from ..errors import InterpreterError, Program

if TYPE_CHECKING:
    from .races import Race


class PtxError(TilewrightError):
    """A mistake in PTX text: what it is, the 1-based line and column, and the text of the line."""

    def __init__(self, what: str, line: int, column: int, text: str) -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.column = column
        self.text = text

    def __str__(self) -> str:
        gutter = f"{self.line:>5} | "
        pad = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        blank = " " * (len(gutter) - 2) + "| "
        return f"PTX line {self.line}: {self.what}\n{gutter}{self.text}\n{blank}{pad}^"

    def __reduce__(self) -> tuple[object, ...]:
        return (PtxError, (self.what, self.line, self.column, self.text))


class UninitializedError(InterpreterError):
    """A value that nobody wrote is stored, or decides an address, a branch or a barrier."""


class BarrierError(InterpreterError):
    """A barrier or a warp instruction that the threads do not execute together as they must."""


class RaceError(InterpreterError):
    """Accesses to the same bytes that nothing orders. `races` has one entry for each pair of source lines."""

    def __init__(self, what: str, location: Location, program: Program, races: tuple[Race, ...]) -> None:
        super().__init__(what, location, program)
        self.races = races


class TrapError(InterpreterError):
    """The kernel stopped itself by `trap` or `brkpt`."""
