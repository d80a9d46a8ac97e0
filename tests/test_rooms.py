"""Who may import whom: the ladder of rooms holds here, and each way to break it is caught on a tree that does."""

from pathlib import Path
from textwrap import dedent

import pytest

from tools import house

ROOT = Path(__file__).parent.parent
RULES = (house.import_violations, house.late_import_violations, house.heavy_import_violations)


def make_tree(root: Path, **files: str) -> Path:
    """A house of rooms whose faces hold `shared`, with some files (`lang__bad` is lang/bad.py) put in."""
    front = root / house.PACKAGE
    front.mkdir()
    for room in house.ROOMS:
        (root / room).mkdir()
        (root / room / "__init__.py").write_text('from .part import shared\n\n__all__ = ["shared"]\n')
        (root / room / "part.py").write_text("shared = 1\n")
        (front / room).symlink_to(f"../{room}")
    (front / "__init__.py").write_text("")
    for name, text in files.items():
        (root / (name.replace("__", "/") + ".py")).write_text(dedent(text))
    return root


def found(root: Path) -> list[str]:
    return [violation for rule in RULES for violation in rule(root)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_this_house_keeps_the_rule(rule: object) -> None:
    assert callable(rule)
    assert rule(ROOT) == []


def test_a_tree_that_keeps_every_rule_passes(tmp_path: Path) -> None:
    make_tree(
        tmp_path,
        lang__types="import os.path\nfrom . import part\nfrom .part import shared\n",
        interpreter__run="from tilewright.lang import shared\nimport tilewright.lang as lang\n",
        runtime___lazy="def load():\n    import llvmlite\n    return llvmlite\n",
        runtime__jit="""
            from typing import TYPE_CHECKING
            from tilewright.compiler import shared as compile
            if TYPE_CHECKING:
                import torch
        """,
        reports__page="from tilewright.bench import shared\nfrom tilewright import lang\n",
        tilewright__cli="from tilewright.runtime import shared\nfrom . import __doc__\n",
    )
    assert found(tmp_path) == []
    assert house.link_violations(tmp_path) == []


BROKEN = {
    "bare": ("lang__bad", "import lang.part", "bare import of lang/"),
    "bare from": ("runtime__bad", "from interpreter.part import shared", "bare import of interpreter/"),
    "tests": ("runtime__bad", "from tests.conftest import room_of", "bare import of tests/"),
    "up": ("lang__bad", "from tilewright.interpreter import shared", "lang may not import interpreter"),
    "up, plain": ("lang__bad", "import tilewright.runtime", "lang may not import runtime"),
    "up, by name": ("lang__bad", "from tilewright import runtime", "lang may not import runtime"),
    "up, relative": ("lang__bad", "from ..runtime import shared", "lang may not import runtime"),
    "up, by relative name": ("lang__bad", "from .. import runtime", "lang may not import runtime"),
    "front door": ("lang__bad", "from tilewright import __doc__", "lang may not import tilewright"),
    "sideways": ("compiler__bad", "from tilewright.interpreter import shared", "compiler may not import"),
    "sideways, top": (
        "bench__bad",
        "from tilewright.difftest import shared",
        "bench may not import difftest",
    ),
    "typing only": (
        "lang__bad",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tilewright.runtime import shared",
        "lang/bad.py:3: lang may not import runtime",
    ),
    "relative, down": ("runtime__bad", "from ..lang import shared", "relative import out of runtime"),
    "past the face": (
        "runtime__bad",
        "from tilewright.lang.part import shared",
        "inside lang; import from its face",
    ),
    "past the face, plain": (
        "runtime__bad",
        "import tilewright.lang.part",
        "inside lang; import from its face",
    ),
    "a module as a name": (
        "runtime__bad",
        "from tilewright.lang import part",
        "part is not in the __all__ of lang",
    ),
    "a star": ("runtime__bad", "from tilewright.lang import *", "* is not in the __all__ of lang"),
    "itself": ("lang__bad", "from tilewright.lang import shared", "lang imports itself absolutely"),
    "late": (
        "lang__bad",
        "def f():\n    import json\n    return json",
        "lang/bad.py:2: import inside a function",
    ),
    "late, in a method": (
        "lang__bad",
        "class C:\n    def f(self):\n        from .part import shared",
        "inside a fun",
    ),
    "computed": (
        "lang__bad",
        "import importlib\nx = importlib.import_module('json')",
        "lang/bad.py:2: computed",
    ),
    "computed, builtin": ("lang__bad", "x = __import__('json')", "lang/bad.py:1: computed import"),
    "heavy": (
        "runtime__bad",
        "import numpy\nfrom llvmlite import binding",
        "runtime/bad.py:2: llvmlite is heavy",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_violation_is_caught(case: str, tmp_path: Path) -> None:
    name, text, message = BROKEN[case]
    make_tree(tmp_path, **{name: text + "\n"})
    violations = found(tmp_path)
    assert len(violations) == 1 and message in violations[0]
    assert violations[0].startswith(name.replace("__", "/") + ".py:")


def test_the_ladder_is_the_one_that_the_design_draws() -> None:
    assert set(house.RANK) == {*house.ROOMS, house.PACKAGE}
    allowed = {room: {low for low in house.RANK if house.RANK[low] < house.RANK[room]} for room in house.RANK}
    assert allowed["lang"] == set()
    assert allowed["interpreter"] == allowed["compiler"] == {"lang"}
    assert allowed["runtime"] == {"lang", "interpreter", "compiler"}
    assert allowed["difftest"] == allowed["bench"] == {*allowed["runtime"], "runtime"}
    assert allowed["reports"] == {*allowed["bench"], "difftest", "bench"}
    assert allowed[house.PACKAGE] == set(house.ROOMS)
