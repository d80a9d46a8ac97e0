"""What children of a campaign do in tests: examine kernels with a faulty compiler, or die, or take too long."""

import os
import time

from tilewright.compiler.passes import fold
from tilewright.difftest import Row, Task, examine_task


def spoil() -> None:
    """Make the compiler fold `x ^ 1` to `x`."""
    fold.UNITS = frozenset((*fold.UNITS, "xor"))


def with_a_fault(task: Task) -> Row:
    """Examine a kernel with the spoilt compiler, which is put right again afterwards."""
    right = fold.UNITS
    spoil()
    try:
        return examine_task(task)
    finally:
        fold.UNITS = right


def or_die(task: Task) -> Row:
    """Every third seed ends the process, as LLVM does on what it cannot select."""
    if task.seed % 3 == 2:
        os.abort()
    return Row(task.seed, "agrees")


def or_hang(task: Task) -> Row:
    """Seed 1 never ends."""
    time.sleep(60 * (task.seed == 1))
    return Row(task.seed, "agrees")
