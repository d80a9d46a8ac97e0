"""Read the text form of linear layouts, as it stands in tile types; `str` of a layout prints it.

    layout := '#linear<' [input (',' input)*] '->' '[' [output (',' output)*] ']' ['^' vector] '>'
    input  := NAME '=' '[' [vector (',' vector)*] ']'      one vector for each bit: its image
    output := NAME ':' SIZE
    vector := '[' [INT (',' INT)*] ']'                     one component for each output dimension

The vector after `^` is the XOR offset. White space between tokens is free when read, and one form is printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from .layout import LayoutError, LinearLayout

__all__ = ["parse_layout", "scan_layout"]

_Item = TypeVar("_Item")
_TOKEN = re.compile(r"\s*(#linear<|->|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|\S|$)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT = re.compile(r"[0-9]+")


def parse_layout(text: str) -> LinearLayout:
    """Read a layout. Raises LayoutError, with the column, for text that is none.

    >>> parse_layout("#linear<lane=[[1],[2]] -> [dim0:4]>").apply({"lane": 3})
    {'dim0': 3}
    """
    layout, end = scan_layout(text)
    if rest := text[end:].strip():
        raise LayoutError(f"layout text, column {end + 1}: unexpected {rest!r} after the layout")
    return layout


def scan_layout(text: str, start: int = 0) -> tuple[LinearLayout, int]:
    """Read the layout that begins at `start`, for use inside a larger text; give it and where it ends.

    >>> scan_layout("tile<4xf32, #linear<lane=[[1],[2]] -> [dim0:4]>>", 12)
    (parse_layout('#linear<lane=[[1], [2]] -> [dim0:4]>'), 47)
    """
    reader = _Reader(text, start)
    reader.take("#linear<")
    bases = [] if reader.peek() == "->" else reader.items(reader.input)
    reader.take("->")
    outs = reader.bracketed(reader.output)
    offset = None
    if reader.peek() == "^":
        reader.take("^")
        offset = reader.vector()
    reader.take(">")
    for names in ([name for name, _ in bases], [name for name, _ in outs]):
        if len(set(names)) < len(names):
            raise LayoutError(f"layout text, column {start + 1}: one of {', '.join(names)} appears twice")
    return LinearLayout.from_bases(dict(bases), dict(outs), offset), reader.position


class _Reader:
    """A cursor over the text, with one method for each rule of the grammar."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def peek(self) -> str:
        found = _TOKEN.match(self.text, self.position)
        return found[1] if found else ""

    def fail(self, expected: str) -> NoReturn:
        column = len(self.text) - len(self.text[self.position :].lstrip()) + 1
        found = repr(self.peek()) if self.peek() else "the end"
        raise LayoutError(f"layout text, column {column}: expected {expected}, found {found}")

    def take(self, token: str) -> None:
        self.match(re.compile(re.escape(token)), repr(token))

    def match(self, pattern: re.Pattern[str], expected: str) -> str:
        token = self.peek()
        if not pattern.fullmatch(token):
            self.fail(expected)
        self.position = self.text.index(token, self.position) + len(token)
        return token

    def items(self, rule: Callable[[], _Item]) -> list[_Item]:
        found = [rule()]
        while self.peek() == ",":
            self.take(",")
            found.append(rule())
        return found

    def bracketed(self, rule: Callable[[], _Item]) -> list[_Item]:
        self.take("[")
        found = [] if self.peek() == "]" else self.items(rule)
        self.take("]")
        return found

    def integer(self) -> int:
        return int(self.match(_INT, "a number"))

    def vector(self) -> list[int]:
        return self.bracketed(self.integer)

    def input(self) -> tuple[str, list[list[int]]]:
        name = self.match(_NAME, "the name of an input dimension")
        self.take("=")
        return name, self.bracketed(self.vector)

    def output(self) -> tuple[str, int]:
        name = self.match(_NAME, "the name of an output dimension")
        self.take(":")
        return name, self.integer()
