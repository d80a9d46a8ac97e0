"""Prints the sizes of the rooms: `python -m tools.lines`.

Lines are those of the files; of them "code" leaves out blank lines, comments and docstrings. The medians and the
maximum of files are over all lines, those of functions over lines without the docstring, as the budgets count.
"""

import argparse
import ast
import io
import statistics
import tokenize
from collections.abc import Sequence
from pathlib import Path

from tools import house

ROOT = Path(__file__).parent.parent
HEAD = (
    "room",
    "files",
    "lines",
    "code",
    "comments",
    "docstrings",
    "file med",
    "file max",
    "fn",
    "fn med",
    "fn p90",
)
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, house.FunctionNode | ast.ClassDef | ast.Module):
            first = node.body[0] if node.body else None
            if first is not None and ast.get_docstring(node, clean=False) is not None:
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def count(text: str) -> tuple[int, int, int]:
    """(lines with code, lines with nothing but a comment, docstring lines) of a source text."""
    docstrings = docstring_lines(ast.parse(text))
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in NOT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    return len(code), len(comments - code - docstrings), len(docstrings)


def row(name: str, paths: Sequence[Path]) -> tuple[object, ...]:
    """One row of the table over some files."""
    texts = [path.read_text(encoding="utf-8") for path in paths]
    sizes = [text.count("\n") for text in texts]
    parts = [count(text) for text in texts]
    lengths = sorted(house.function_length(fn) for text in texts for _, fn in house.functions(ast.parse(text)))
    code, comments, docstrings = (sum(part[i] for part in parts) for i in range(3))
    median = int(statistics.median(lengths)) if lengths else 0
    p90 = lengths[int(len(lengths) * 0.9)] if lengths else 0
    files = (int(statistics.median(sizes)), max(sizes)) if sizes else (0, 0)
    return (name, len(sizes), sum(sizes), code, comments, docstrings, *files, len(lengths), median, p90)


def main() -> None:
    """Prints one row a room, the rooms together, and the folders beside them."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    folders = {name: list(house.python_files(ROOT / name)) for name in (*house.ROOMS, house.PACKAGE)}
    rows = [row(name, paths) for name, paths in folders.items()]
    rows.append(row("all of it", [path for paths in folders.values() for path in paths]))
    rows += [row(name, list(house.python_files(ROOT / name))) for name in ("tests", "examples", "tools")]
    for cells in (HEAD, *rows):
        print(f"{cells[0]:<12}" + "".join(f"{cell:>11}" for cell in cells[1:]))


if __name__ == "__main__":
    main()
