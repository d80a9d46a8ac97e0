"""The same PTX bytes on every machine: kernels for every target, against the digests that were written down."""

import os
import subprocess
import sys

import pytest

from tilewright.compiler import TARGETS
from tilewright.runtime.doctor import llvm_version
from tools import digests


def test_ptx_is_what_it_was_where_it_was_written_down() -> None:
    """In a process of its own, with another hash seed and from another folder."""
    toolchain, then = digests.stored()
    assert set(then) == set(digests.SIGNATURES) and all(set(row) == set(TARGETS) for row in then.values())
    if toolchain != llvm_version():
        pytest.skip(f"the digests were written with {toolchain}, and here is {llvm_version()}")
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(digests.TESTS.parent.parent)}
    command = [sys.executable, "-m", "tools.digests"]
    child = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=300)
    hint = "where the compiler was meant to change: python -m tools.digests --write"
    assert child.returncode == 0, f"{child.stdout}{child.stderr}\n{hint}"


def test_each_difference_is_named() -> None:
    then = {"add": {"sm_80": "a", "sm_90a": "b"}, "gone": {"sm_80": "c"}}
    now = {"add": {"sm_80": "a", "sm_90a": "x"}, "new": {"sm_80": "c"}}
    assert digests.differing(now, then) == ["add for sm_90a", "gone for sm_80", "new for sm_80"]
    assert digests.differing(then, then) == []
