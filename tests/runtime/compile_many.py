"""A child process of test_memory.py: compiles a lot and prints how its memory grows.

`compile_many.py (kernels|specializations) FOLDER COUNT WARM`: that many different kernels, or specializations of one;
prints one JSON object with the resident bytes after WARM of them and after COUNT.
"""

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.lang import knobs
from tilewright.runtime import JITFunction, kernel_cache

SOURCE = """
import tilewright
import tilewright.language as tl


@tilewright.jit
def helper(x):
    return x * {number} + 1


@tilewright.jit
def kernel_{number}(x_ptr, out_ptr, n, BLOCK: tl.constexpr, SHIFT: tl.constexpr = 0):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, tl.exp(x) + helper(x) + SHIFT, mask=inside)
"""


def declared(folder: Path, number: int) -> JITFunction:
    """The kernel of a new module; every 50 modules take a file in turn, as when somebody edits it."""
    path = folder / f"kernels_{number % 50}.py"
    text = SOURCE.format(number=number)
    path.write_text(text)
    space: dict[str, Any] = {"__name__": f"kernels_{number}", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), space)
    return space[f"kernel_{number}"]


def resident() -> int:
    """Bytes of this process that are in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(what: str, folder: str, count: int, warm: int) -> None:
    found: dict[str, int] = {}
    kernel = declared(Path(folder), 0)
    for number in range(count):
        if what == "kernels":
            kernel = declared(Path(folder), number)
        kernel.warmup(np.float32, np.float32, 1000, 128, number, device="emulator:sm_80")
        if number + 1 in (warm, count):
            found["warm" if number + 1 == warm else "end"] = resident()
    found["compiled"] = kernel_cache.counters.llvm_calls
    print(json.dumps(found))


if __name__ == "__main__":
    with knobs.scope(cache_max_bytes=0):
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
