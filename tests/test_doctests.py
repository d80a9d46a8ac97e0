"""Every example in a docstring or a page runs and prints what it says.

One test a module, found by its real file and imported by its public name, so that the links between `tilewright/` and
the rooms cannot make a second copy of anything.
"""

import doctest
import importlib
from pathlib import Path

import pytest

from tools import house

ROOT = Path(__file__).parent.parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = [source.module for source in house.sources(ROOT) if ">>> " in (ROOT / source.path).read_text()]
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if path.exists()]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize("page", [p for p in PAGES if ">>> " in p.read_text()], ids=lambda page: page.name)
def test_the_examples_of_a_page(page: Path) -> None:
    result = doctest.testfile(str(page), module_relative=False, optionflags=OPTIONS)
    assert result.attempted > 0 and result.failed == 0
