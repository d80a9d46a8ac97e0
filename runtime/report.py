"""Faults of a running kernel, and of one that cannot be compiled, told with the lines of source they come from.

IR names its source as `module.qualname:line:column`; here, on the host, the functions are at hand, so that the report
can show the file and the line with a caret under the expression.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tilewright.compiler import LoweringError
from tilewright.interpreter import DeadlockError, InterpreterError
from tilewright.lang import CompilationError, DeviceFunction, Location, Span, TilewrightError

#: What the names of the language's own functions begin with: their lines say nothing to who calls them.
LIBRARY = "tilewright.lang."


def explain(error: TilewrightError, functions: Iterable[DeviceFunction]) -> None:
    """Give an error of the interpreter or of the compiler's later stages a report with source lines.

    As far as the functions' sources can be read; other errors stay as they are.
    """
    sources = {function.qualified: function for function in functions}
    if isinstance(error, LoweringError):
        users = {name: function for name, function in sources.items() if not name.startswith(LIBRARY)}
        error.locate(lambda location: span_of(location, users))
    elif isinstance(error, InterpreterError):
        error.report = "\n".join(_lines(error, sources))


def _lines(error: InterpreterError, sources: dict[str, DeviceFunction]) -> Iterator[str]:
    if isinstance(error, DeadlockError):
        yield f"error: {error.what}"
        for entry in error.waiting:
            yield from _place("", entry.location, sources)
            yield entry.what
        return
    yield from _place("", error.location, sources)
    who = "" if error.program is None else f" in program {error.program}"
    yield f"error{who}: {error.what}"
    for call in error.calls:
        yield from _place("called from ", call, sources)


def _place(prefix: str, location: Location, sources: dict[str, DeviceFunction]) -> Iterator[str]:
    span = span_of(location, sources)
    if span is None:
        yield f"{prefix}{location.source}:{location.line}:{location.column}"
        return
    yield f"{prefix}{span}"
    yield span.render()


def span_of(location: Location, sources: dict[str, DeviceFunction]) -> Span | None:
    """The expression that an operation was made for; None when its source is not at hand.

    A location says where it starts. Several expressions may start there (`tl.load(p)` and all of `tl.load(p) + 1`):
    what can fail is a call, so it is the shortest call, else the longest expression, else the statement.
    """
    function = sources.get(location.source)
    if function is None:
        return None
    try:
        source = function.source
    except CompilationError:
        return None
    here = [
        (node, span)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr | ast.stmt)
        for span in (source.span(node),)
        if (span.line, span.column) == (location.line, location.column)
    ]
    calls = [span for node, span in here if isinstance(node, ast.Call)]
    if calls:
        return min(calls, key=_length)
    expressions = [span for node, span in here if isinstance(node, ast.expr)]
    return max(expressions or [span for _, span in here], key=_length, default=None)


def _length(span: Span) -> tuple[int, int]:
    return (span.end_line, span.end_column)
