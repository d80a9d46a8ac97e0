"""The lines of a function are those that `inspect` finds, which is slow because it searches and tokenizes."""

import argparse
import dataclasses
import inspect
import typing
import unittest.mock
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from tilewright.lang.errors.syntax import SourceUnavailable
from tilewright.lang.frontend.source import read_source


def functions(module: ModuleType) -> list[FunctionType]:
    """Every plain function of a module and of its classes."""
    spaces = [vars(module), *(vars(value) for value in vars(module).values() if isinstance(value, type))]
    found = [value for space in spaces for value in space.values() if isinstance(value, FunctionType)]
    return [f for f in found if f.__name__ != "<lambda>" and not inspect.iscoroutinefunction(f)]


@pytest.mark.parametrize("module", [argparse, dataclasses, inspect, typing, unittest.mock], ids=lambda m: m.__name__)
def test_the_lines_are_those_of_inspect(module: ModuleType) -> None:
    checked = 0
    for function in functions(module):
        try:
            lines, first = inspect.getsourcelines(function.__code__)
        except OSError:  # made by exec
            continue
        source = read_source(function, function.__name__)
        assert (list(source.lines), source.first) == (lines, first), function
        checked += 1
    assert checked > 20


ODD = """\
class Odd:
    def brackets(self, a=(
1, 2), b='''
no end here
'''):
# nor here
        return a \\
or b

# after it
    other = 1
"""


def test_lines_may_begin_anywhere_inside_of_brackets_strings_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(ODD)
    space: dict[str, typing.Any] = {}
    exec(compile(ODD, str(path), "exec"), space)
    source = read_source(space["Odd"].brackets, "brackets")
    assert "".join(source.lines) == "".join(ODD.splitlines(keepends=True)[1:8])
    assert source.lines[-1] == "or b\n" and source.tree.name == "brackets"


def test_text_that_no_longer_holds_the_function() -> None:
    space: dict[str, typing.Any] = {}
    exec(compile("def gone(): pass", __file__, "exec"), space)
    with pytest.raises(SourceUnavailable, match="does not hold it; has the file changed?"):
        read_source(space["gone"], "gone")
    exec(compile("\n" * 9999 + "def gone(): pass", __file__, "exec"), space)
    with pytest.raises(SourceUnavailable, match="there is no text of"):
        read_source(space["gone"], "gone")
