"""The one typed knobs file: nothing else in the rooms reads the environment."""

import ast
from pathlib import Path

import pytest

from tools import house

ROOT = Path(__file__).parent.parent
READS = [
    "import os\nx = os.environ['HOME']",
    "import os\nx = os.environ.get('HOME')",
    "import os\nx = os.getenv('HOME')",
    "import os as system\nx = system.getenv('HOME')",
    "import os\nread = os.environb",
    "import os\nos.putenv('A', 'b')",
    "x = 1\nfrom os import environ",
    "x = 1\nfrom os import getenv as read",
    "x = 1\nfrom os import *",
    "x = 1\nfrom posix import environ",
    "import os\nx = getattr(os, 'environ')",
    "import os\nx = os.path.os.environ",
    "from os import path\nx = path.expandvars('$HOME')",
]


def test_only_the_knobs_file_reads_the_environment() -> None:
    assert house.environment_violations(ROOT) == []


def test_the_rule_sees_the_knobs_file_itself() -> None:
    (knobs,) = (source for source in house.sources(ROOT) if source.path == house.KNOBS)
    assert house.environment_lines(knobs.tree)


@pytest.mark.parametrize("text", READS)
def test_each_way_to_read_it_is_caught(text: str, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "bad.py").write_text(text + "\n")
    assert house.environment_violations(tmp_path) == [
        "runtime/bad.py:2: touches the environment; declare a knob in lang/knobs.py"
    ]


def test_other_uses_of_os_are_fine() -> None:
    tree = ast.parse("import os\nfrom os import path\nx = os.path.join('a', os.sep)\nenviron = x.a.environ\n")
    assert house.environment_lines(tree) == []
