"""Measures `import tilewright` beside `import numpy`: `python -m tools.import_time [rounds]`.

Each import runs in a fresh process, the two take turns, and the medians are printed, so that a noisy machine moves both
alike. One uncounted round first writes the byte code and warms the file cache.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from .options import positive

ROOT = Path(__file__).parent.parent
MODULES = ("numpy", "tilewright")
TIMED = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def seconds(module: str) -> float:
    """Seconds that one import takes in a new process, the interpreter's own start not counted."""
    command = [sys.executable, "-c", TIMED.format(module)]
    # As an installed package has its byte code at hand, so must the checkout.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return float(child.stdout)


def main(rounds: int) -> None:
    """Prints the medians in milliseconds, with the quartiles, and how far apart they are."""
    samples = [[seconds(module) * 1e3 for module in MODULES] for _ in range(rounds + 1)][1:]
    medians: list[float] = []
    for module, values in zip(MODULES, zip(*samples, strict=True), strict=True):
        low, middle, high = statistics.quantiles(values, n=4)
        medians.append(middle)
        print(f"import {module:<12} {middle:7.1f} ms   (quartiles {low:.1f} to {high:.1f})")
    extra = statistics.median(ours - numpy for numpy, ours in samples)
    print(f"tilewright over numpy {extra:+.1f} ms, {medians[1] / medians[0]:.2f}x, {rounds} rounds")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=positive, default=21, help="processes of each kind")
    chosen = parser.parse_args().rounds
    if chosen == 1:
        parser.error("quartiles need two rounds")
    main(chosen)
