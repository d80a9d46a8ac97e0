"""What is wrong with PTX text, and what goes wrong when it runs.

PtxError                  the text: its line, with a caret under the place
InterpreterError
    UninitializedError    an instruction reads a register that its thread never wrote
    BarrierError          a barrier or warp instruction that the threads do not execute together as they must
    TrapError             the kernel executed `trap` or `brkpt`
"""

from __future__ import annotations

from tilewright.lang import TilewrightError

from ..errors import InterpreterError


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
    """An instruction reads a register that its thread never wrote."""


class BarrierError(InterpreterError):
    """A barrier or a warp instruction that the threads do not execute together as they must."""


class TrapError(InterpreterError):
    """The kernel stopped itself by `trap` or `brkpt`."""
