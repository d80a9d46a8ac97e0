"""Memory: a process that compiles all day stays as large as it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.runtime import calls
from tilewright.runtime.cache import REMEMBERED

ROOT = Path(__file__).parent.parent.parent
CHILD = Path(__file__).with_name("compile_many.py")
#: What the allocator may keep of what was freed, and what LLVM keeps of 800 modules: 1 kB each, measured.
SLACK = 4 << 20


def growth(what: str, folder: Path, count: int, warm: int) -> int:
    """Bytes by which a process grew from its `warm`th compilation to the last."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(CHILD), what, str(folder), str(count), str(warm)]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout)
    assert found["compiled"] == count
    return found["end"] - found["warm"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell a process's size")
@pytest.mark.parametrize("what", ["kernels", "specializations"])
def test_a_thousand_compilations_take_no_more_than_the_cache_may_keep(what: str, tmp_path: Path) -> None:
    """The 200 before the first look fill all else that is bounded: a kernel holds fewer specializations.

    What is made for one kernel takes some 90 kB with its PTX parsed, so 800 would show if a ninth of them stayed.
    """
    assert calls.HELD < 200
    assert growth(what, tmp_path, 1000, 200) < REMEMBERED + SLACK
