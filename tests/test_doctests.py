"""Every example in a docstring or a page runs and prints what it says.

One test a file; a module is found by its real file and imported by its public name, so that the links between
`tilewright/` and the rooms cannot make a second copy of anything.
"""

import doctest
import importlib
from pathlib import Path

import pytest

from tools import house

ROOT = Path(__file__).parent.parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = {source.path: source.module for source in house.sources(ROOT)}
FILES = [*MODULES, "README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
WITH_EXAMPLES = [name for name in FILES if (ROOT / name).exists() and ">>> " in (ROOT / name).read_text()]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_file(name: str) -> None:
    if name in MODULES:
        result = doctest.testmod(importlib.import_module(MODULES[name]), optionflags=OPTIONS)
    else:
        result = doctest.testfile(str(ROOT / name), module_relative=False, optionflags=OPTIONS)
    assert result.attempted > 0 and result.failed == 0
