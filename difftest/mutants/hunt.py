"""Is the harness any good? Kernels through a compiler with a seeded fault, until one of them shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ..kernel_campaign import Row
from .catalogue import Mutant

WORKER = Path(__file__).with_name("worker.py")
CHILD = f"{__package__}.child"


def hunt(mutant: Mutant, first: int, last: int, seconds: float = 300.0) -> tuple[Row | None, int]:
    """Examine seeds from `first` up to, but not including, `last` until one shows the fault: its row, or None.

    Also how many kernels that took. Runs in a child process, since the fault is put in as the compiler is imported.
    Raises RuntimeError when the child ends in any other way.
    """
    fault = json.dumps({"file": f"compiler/{mutant.file}", "old": mutant.old, "new": mutant.new})
    command = [sys.executable, "-P", str(WORKER), CHILD, str(first), str(last)]
    done = subprocess.run(command, input=fault, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise RuntimeError(f"{mutant.name}: the child ended with {done.returncode}\n{done.stderr[-2000:]}")
    count, _, line = done.stdout.strip().splitlines()[-1].partition(" ")
    return (Row.parse(line) if line else None), int(count)
