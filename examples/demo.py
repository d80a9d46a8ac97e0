"""The main job on one page: real kernels on real arrays in the reference, each held to its ops' accuracy contracts.

Run by `make demo`. Exits with 1 if any result lies outside its bound.
"""

from __future__ import annotations

import sys
from time import perf_counter

import tilewright
from tilewright import bench, language

CASES = [
    bench.cases.add(98_432),
    bench.cases.softmax(1823, 781),
    bench.cases.layernorm(256, 8192),
    bench.cases.matmul(512, 512, 512),
    bench.cases.matmul(500, 300, 200, blocks=True),
    bench.cases.dropout(100_000),
    bench.cases.attention(2, 512, 64, causal=True),
]
ROW = "{:<32} {:>9} {:>10} {:>16}  {}"


def main() -> int:
    """Run every case, print one row for each, and say whether all are right."""
    print(f"Tilewright {tilewright.__version__}: kernels in the NumPy reference, against float64 NumPy\n")
    print(ROW.format("kernel", "programs", "time", "error / allowed", "verdict"))
    right = 0
    for case in CASES:
        kernel = getattr(bench.load_kernels(case.family, tilewright, language), case.kernel)
        start = perf_counter()
        kernel[case.grid](*case.arguments, **case.constants)
        elapsed = perf_counter() - start
        worst = case.check()
        right += worst <= 1
        programs = 1
        for extent in case.grid:
            programs *= extent
        verdict = "right" if worst <= 1 else "WRONG"
        print(ROW.format(case.name, programs, f"{elapsed * 1e3:.1f} ms", f"{worst:.3f}", verdict))
    print("\nThe bound of each row follows from the accuracy contracts of the kernel's ops (docs/semantics.md).")
    print(f"{right} of {len(CASES)} kernels right")
    return 0 if right == len(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
