"""Measures how a kept kernel starts in a new process, stage by stage: `python -m tools.first_launch [rounds]`.

One process compiles a few kernels for the emulator and keeps them; each round then is a fresh process that finds them
on the disk. Printed are medians, in milliseconds of processor time, which a busy machine moves less than the clock's:
what the first call of a process imports; then, for its first kernel and for the later ones, the stages up to code that
can be loaded; and the loading, which is the device's own affair. No round may call LLVM or the assembler, by the
counters of the cache.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .options import positive

ROOT = Path(__file__).parent.parent
KERNEL = """
@tilewright.jit
def add_{number}(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y + {number}, mask=inside)

"""
SOURCE = "import tilewright\nimport tilewright.language as tl\n" + "".join(KERNEL.format(number=n) for n in range(6))
CHILD = """
import json, sys, time
import numpy as np
times = []
def lap(stage, last=[time.process_time()]):
    now = time.process_time()
    times.append((stage, 1e3 * (now - last[0])))
    last[0] = time.process_time()
lap("start")
import tilewright
lap("import tilewright")
import kept_kernels
x = np.zeros(1024, np.float32)
lap("declare")
kept_kernels.add_0.calls
from tilewright.runtime import CompileOptions, find_device, kernel_cache
device, options = find_device("emulator:sm_90a"), CompileOptions()
lap("import at the first call")
for number in range(6):
    kernel = getattr(kept_kernels, f"add_{number}")
    specialization = kernel.specialize(kernel.bind_launch((x, x, x, 1000), {"BLOCK": 256}))
    lap(f"{number} bind and specialize")
    kernel.calls._key(specialization, options, device.target)
    lap(f"{number} key")
    compiled = kernel.compile(specialization, options, device)
    lap(f"{number} find and read")
    compiled.handle
    lap(f"{number} load")
count = kernel_cache.counters
print(json.dumps([times, count.llvm_calls + count.assembler_calls, "llvmlite" in sys.modules]))
"""


def child(folder: str) -> tuple[dict[str, float], int, bool]:
    """One new process: milliseconds by stage, calls of the heavy tools, and whether LLVM was imported."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "TILEWRIGHT_CACHE_DIR": str(Path(folder) / "cache")}
    command = [sys.executable, "-c", CHILD]
    ran = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    times, calls, imported = json.loads(ran.stdout)
    return dict(times), calls, imported


def main(rounds: int) -> None:
    """Prints the table; raises AssertionError where a round compiled."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kept_kernels.py").write_text(SOURCE)
        for _ in range(2):  # the first fills the cache, the second notes the digest of the sources
            child(folder)
        runs = [child(folder) for _ in range(rounds)]
    assert all(calls == 0 and not imported for _, calls, imported in runs)
    middle = {stage: statistics.median(times[stage] for times, _, _ in runs) for stage in runs[0][0]}
    for stage in ("import tilewright", "import at the first call"):
        print(f"{stage:<26} {middle[stage]:8.2f} ms")
    print(f"{'':<26} {'first':>8} {'later':>8}")
    stages = ("bind and specialize", "key", "find and read", "load")
    for stage in stages:
        later = statistics.mean(middle[f"{number} {stage}"] for number in range(1, 6))
        print(f"{stage:<26} {middle[f'0 {stage}']:8.2f} {later:8.2f}")
    first = sum(middle[f"0 {stage}"] for stage in stages[:3])
    later = statistics.mean(sum(middle[f"{n} {stage}"] for stage in stages[:3]) for n in range(1, 6))
    print(f"{'until it can be loaded':<26} {first:8.2f} {later:8.2f}   ({rounds} processes, no LLVM, no assembler)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=positive, default=15, help="processes")
    main(parser.parse_args().rounds)
