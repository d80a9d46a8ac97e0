"""PTX text as tokens.

The kinds: `word` (names, registers, opcodes), `dot` (`.global`, `.rn`, `.L1::evict_last`), `int`, `float` (a decimal
literal, or `0f`/`0d` with the bits), `string`, and one kind for each mark of punctuation, named by itself.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple, NoReturn

from tilewright.lang import Location

from .errors import PtxError


class Token(NamedTuple):
    """One token: its kind, its text, and the offset in the source."""

    kind: str
    text: str
    offset: int


_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<float>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
      | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)\b
      | (?P<dot>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
      | (?P<word>[A-Za-z_$%][A-Za-z0-9_$]*)
      | (?P<string>"[^"\n]*")
      | (?P<mark>[][{}(),;:@!+\-*/|<>=&~^?])
    """,
    re.VERBOSE | re.DOTALL,
)


_LONGEST_NUMBER = 100
"""Digits of an integer."""
_NO_OCTAL = re.compile(r"0\d*[89]")
_SHOWN = 200
"""How much of a line, and of what is said, an error shows."""


class Source:
    """A PTX text that can point at a place in itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._breaks: list[int] | None = None

    def line_of(self, offset: int) -> int:
        """The 1-based line of an offset."""
        if self._breaks is None:
            self._breaks = [found.start() for found in re.finditer("\n", self.text)]
        return bisect_left(self._breaks, offset) + 1

    def place(self, offset: int) -> Location:
        """The line and column of an offset, as a place in a source called `PTX`."""
        return Location("PTX", self.line_of(offset), offset - self.text.rfind("\n", 0, offset))

    def error(self, what: str, offset: int) -> PtxError:
        """The error for a place."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        first = max(start, offset - _SHOWN // 2)
        line = self.text[first : min(len(self.text) if end < 0 else end, first + _SHOWN)]
        said = what if len(what) <= 10 * _SHOWN else f"{what[:_SHOWN]}..."
        return PtxError(said, self.line_of(offset), offset - first + 1, line)


def tokenize(source: Source) -> list[Token]:
    """All tokens of a text, and an `end` token. Raises PtxError for text that is no token."""
    tokens: list[Token] = []
    position = 0
    for found in _TOKEN.finditer(source.text):
        if found.start() != position:
            break
        position = found.end()
        kind, text = str(found.lastgroup), found.group()
        if kind == "int" and len(text) > _LONGEST_NUMBER:
            raise source.error(f"an integer of {len(text)} characters", found.start())
        if kind == "int" and _NO_OCTAL.match(text):
            raise source.error(f"`{text}` is no octal number", found.start())
        if kind != "skip":
            tokens.append(Token(text if kind == "mark" else kind, text, found.start()))
    if position != len(source.text):
        raise source.error(f"unexpected character {source.text[position]!r}", position)
    tokens.append(Token("end", "the end of the text", position))
    return tokens


class Cursor:
    """A place in a list of tokens, with the ways to step over the next one."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._tokens = tokenize(source)
        self._next = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._next]

    def following(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Step over the next token, whatever it is."""
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def accept(self, kind: str) -> Token | None:
        """Step over the next token if it is of a kind."""
        return self.take() if self._tokens[self._next].kind == kind else None

    def accept_dot(self, *texts: str) -> Token | None:
        """Step over the next token if it is one of some directives or modifiers."""
        return self.take() if self.token.kind == "dot" and self.token.text in texts else None

    def expect(self, kind: str, what: str = "") -> Token:
        """Step over the next token, which must be of a kind."""
        if self.token.kind != kind:
            self.fail(f"expected {what or repr(kind)}, found {self.token.text!r}")
        return self.take()

    def fail(self, what: str, token: Token | None = None) -> NoReturn:
        """Raise the error at a token, the next one unless given."""
        raise self.source.error(what, (token or self.token).offset)

    def integer(self, what: str = "an integer") -> int:
        """An integer constant, possibly with signs and `~` in front."""
        sign = self.accept("-") or self.accept("~") or self.accept("+")
        if sign is not None:
            value = self.integer(what)
            return {"-": -value, "~": ~value, "+": value}[sign.kind]
        return parse_integer(self.expect("int", what).text)


def parse_integer(text: str) -> int:
    """The value of an integer literal: decimal, 0x, 0b, or octal with a leading 0."""
    digits = text.removesuffix("U")
    if digits[:2].lower() in ("0x", "0b") or not digits.startswith("0"):
        return int(digits, 0)
    return int(digits, 8)
