"""How a mistake is reported: where it is, what was found, what was expected, and what to do.

TilewrightError
  CompilationError      a mistake in a kernel; one subclass a mistake, in the catalogue beside this file
  CompilerBug           a mistake of ours, with the path of a reproducer
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self, cast


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of source text: file, function as `module.qualname`, lines and columns from 1, without the end."""

    file: str
    source: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str  # the whole first line, without its newline

    def render(self) -> str:
        """The line with carets under the span (to the end of the line when it goes on below)."""
        stop = self.end_column if self.end_line == self.line else len(self.text) + 1
        gutter = f"{self.line:>5} | "
        blank = " " * (len(gutter) - 2) + "| "
        # Tabs are kept, so that the carets stand under the text in any terminal.
        pad = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"{gutter}{self.text}\n{blank}{pad}{'^' * max(1, stop - self.column)}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: in {self.source}"


#: Bits of the longest integer that a message spells out. (Beyond 4,300 digits, Python itself refuses to.)
LONG = 1024


class _Words:
    """Text that stands for itself in a message, quoted or not."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def shown(value: object) -> object:
    """A value as messages may print it: an integer longer than anybody would read, also in a tuple, by its length."""
    if isinstance(value, int) and value.bit_length() > LONG:
        return _Words(f"an integer of {value.bit_length()} bits")
    if type(value) in (tuple, list):
        parts = map(shown, cast("tuple[object, ...]", value))
        return tuple(parts) if isinstance(value, tuple) else list(parts)
    return value


class TilewrightError(Exception):
    """The root of every error that Tilewright raises on purpose.

    Errors cross processes (pools, campaigns): what is plain among their fields travels, and so does their text.
    """

    def __reduce__(self) -> tuple[object, ...]:
        fields = {name: value for name, value in self.__dict__.items() if _travels(value)}
        return (_restored, (type(self), self.args, fields))


def _restored(kind: type[TilewrightError], arguments: tuple[object, ...], fields: dict[str, object]) -> TilewrightError:
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(fields)
    return error


def _travels(value: object) -> bool:
    """Whether a field is plain data, which any process can read."""
    if isinstance(value, tuple | list):
        return all(map(_travels, cast("list[object]", value)))
    return value is None or isinstance(value, str | int | float | bool | Span)


class CompilationError(TilewrightError):
    """A mistake in a kernel.

    Each subclass is one mistake: `message` is its template, `expected` and `hint` (templates too) complete it, and are
    left out where their text is empty. The facts that they name are given as keywords; a missing one is a KeyError.
    `spans` runs from the place of the mistake outward through the calls that led to it, places inside of the language
    itself left out.
    """

    message: ClassVar[str] = "{detail}"
    expected: ClassVar[str] = ""
    hint: ClassVar[str] = ""

    facts: Mapping[str, object] = MappingProxyType({})  # what an error from another process has left of them

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        facts = {name: shown(fact) for name, fact in facts.items()}
        advice = {"expected": self.expected.format(**facts), "hint": self.hint.format(**facts)}
        self.advice = [f"{label}: {text}" for label, text in advice.items() if text]
        self.text = self.message.format(**facts)
        self.spans: list[Span] = []
        self.closed = False  # True once the innermost function has been left: further spans are callers
        self.library = ""  # the function of the language, written in kernel code, that the mistake came up in
        super().__init__(self.text)

    def at(self, span: Span) -> Self:
        """Add the place of the mistake, or the place of a call that led to it."""
        self.spans.append(span)
        return self

    def lines(self) -> Iterator[str]:
        """The report, line by line."""
        if self.spans:
            yield str(self.spans[0])
            yield self.spans[0].render()
        within = f"in `tl.{self.library}`: " if self.library else ""
        yield f"error: {within}{self.text}"
        yield from self.advice
        for span in self.spans[1:]:
            yield f"called from {span}"
            yield span.render()

    def __str__(self) -> str:
        return "\n".join(self.lines())


class CompilerBug(TilewrightError):
    """A mistake of ours. `reproducer` is the path of a file that shows it again, or "" where none could be written."""

    def __init__(self, what: str, reproducer: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.reproducer = reproducer

    def __str__(self) -> str:
        where = f"\nreproducer: {self.reproducer}" if self.reproducer else ""
        return f"this is a bug in Tilewright, not in your kernel: {self.what}{where}"
