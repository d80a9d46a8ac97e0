"""The source text of a function: its AST, and where each node stands in the file."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from types import FunctionType

from ..errors.base import Span
from ..errors.syntax import SourceUnavailable
from ..ir import Location


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The lines of one function, decorators included, and its AST.

    `first` is the number of the first line in the file; the line numbers of the AST exceed those of `lines` by `shift`.
    """

    file: str
    name: str  # module.qualname
    lines: tuple[str, ...]
    first: int
    shift: int
    tree: ast.FunctionDef

    @property
    def text(self) -> str:
        """The source as it stands in the file."""
        return "".join(self.lines)

    def line(self, node: ast.AST) -> int:
        """The 1-based line in the file where the node begins."""
        return getattr(node, "lineno", self.shift + 1) - self.shift + self.first - 1

    def location(self, node: ast.AST, caller: Location | None = None) -> Location:
        """Where the operations made for this node come from."""
        line = getattr(node, "lineno", self.shift + 1) - self.shift
        column = self._column(line, getattr(node, "col_offset", 0))
        return Location(self.name, line + self.first - 1, column, caller)

    def span(self, node: ast.AST) -> Span:
        """The piece of text that the node covers."""
        start = getattr(node, "lineno", self.shift + 1) - self.shift
        end = (getattr(node, "end_lineno", None) or start + self.shift) - self.shift
        column = self._column(start, getattr(node, "col_offset", 0))
        end_column = self._column(end, getattr(node, "end_col_offset", None) or 0)
        up = self.first - 1
        return Span(self.file, self.name, start + up, column, end + up, end_column, self._text(start))

    def _text(self, line: int) -> str:
        return self.lines[line - 1].rstrip("\r\n")

    def _column(self, line: int, offset: int) -> int:
        """The 1-based column in characters; the AST counts UTF-8 bytes from 0."""
        text = self.lines[line - 1]
        return (offset if text.isascii() else len(text.encode()[:offset].decode(errors="replace"))) + 1


def read_source(function: FunctionType, name: str) -> Source:
    """The source of a function. Raises SourceUnavailable."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    text = linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 :]
    if not text:
        raise SourceUnavailable(function=name, reason=f"there is no text of {code.co_filename}")
    # An indented function is parsed inside a block, which leaves its columns and the text of its strings alone.
    shift = int(text[0][:1].isspace())
    lines, module = _first_function(text, "if True:\n" * shift)
    body = module.body
    if shift and body and isinstance(body[0], ast.If):
        body = body[0].body
    tree = body[0] if body else None
    if not isinstance(tree, ast.FunctionDef) or tree.name != code.co_name:
        where = f"{code.co_filename}:{code.co_firstlineno}"
        raise SourceUnavailable(function=name, reason=f"{where} does not hold it; has the file changed?")
    return Source(code.co_filename, name, tuple(lines), code.co_firstlineno, shift, tree)


def _first_function(text: list[str], before: str) -> tuple[list[str], ast.Module]:
    """The lines of the function that begins the text, and the AST of `before` and them; none where nothing parses.

    It ends before the first line that is indented no more than itself, where what stands before such a line parses: in
    brackets and in strings, lines may begin anywhere. (`inspect.getsource` asks the tokenizer, and looks for the
    function's module among all that are loaded, which together take longer than all else before a kept kernel's first
    launch.)
    """
    margin = _indentation(text[0])
    outside = [i for i, line in enumerate(text) if _indentation(line) <= margin]
    for end in (*(i for i in outside if i and not _is_idle(text[i])), len(text)):
        while end - 1 in outside and _is_idle(text[end - 1]):
            end -= 1
        try:
            return text[:end], ast.parse(before + "".join(text[:end]))
        except SyntaxError:
            continue
    return [], ast.Module([], [])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else 0


def _is_idle(line: str) -> bool:
    """Whether there is no code on a line."""
    return not line.strip() or line.lstrip().startswith("#")
