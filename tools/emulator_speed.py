"""How long the emulator takes, with all checks: `python -m tools.emulator_speed [--target sm_90a] [--rounds 3]`.

Processor seconds of a launch, compiled before, the best of some rounds; arithmetic is `exact`. Then how the time grows
where the same work is done by 64 blocks instead of 4: the same elements, rows or product, in smaller tiles where each
block makes one. Every result is checked against its bound, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from time import process_time
from typing import Any

import tilewright
from tilewright.bench import Case, cases, load_kernels

from .options import positive, target

#: The cases whose time is wanted.
CASES = (
    lambda: cases.layernorm(64, 4096), lambda: cases.matmul(256, 256, 256), lambda: cases.attention(1, 512, 64),
    lambda: cases.attention(1, 512, 64, causal=False), lambda: cases.add(4096 * 1024, 1024),
    lambda: cases.add(4096 * 32, 32),
)  # fmt: skip
#: By name the same work in 4 and in 64 blocks.
GROWTH = {
    "vector add, 65,536": (lambda: cases.add(1 << 16, 1 << 14), lambda: cases.add(1 << 16, 1 << 10)),
    "softmax 256x781": (lambda: cases.softmax(256, 781, 4), lambda: cases.softmax(256, 781, 64)),
    "matmul 256x256x256": (
        lambda: cases.matmul(256, 256, 256, 128, 128, 32), lambda: cases.matmul(256, 256, 256, 32, 32, 32)),
}  # fmt: skip


def seconds(case: Case, target: str, rounds: int, options: Mapping[str, Any] | None = None) -> float:
    """The processor seconds of a launch. Raises ArithmeticError for a wrong result."""
    kernel = getattr(load_kernels(case.family, tilewright, tilewright.language), case.kernel)
    launch, taken = kernel.on(f"emulator:{target}")[case.grid], list[float]()
    for _ in range(rounds + 1):
        arguments = case.fresh()
        began = process_time()
        launch(*arguments, **case.constants, **(options or {}))
        taken.append(process_time() - began)
        if not case.check(arguments) <= 1:
            raise ArithmeticError(f"{case.name} is wrong on the emulator")
    return min(taken[1:])


def main(words: Sequence[str] | None = None) -> int:
    """Print the two tables."""
    parser = argparse.ArgumentParser(prog="tools.emulator_speed", description="processor seconds of the emulator")
    parser.add_argument("--target", type=target, default="sm_90a")
    parser.add_argument("--rounds", type=positive, default=3)
    given = parser.parse_args(words)
    print(f"{'case':<36}{'blocks':>8}{'seconds':>9}")
    for make in CASES:
        case = make()
        print(f"{case.name:<36}{case.programs:>8}{seconds(case, given.target, given.rounds):>9.2f}", flush=True)
    print(f"\n{'the same work':<24}{'blocks':>8}{'seconds':>9}{'blocks':>8}{'seconds':>9}{'growth':>8}")
    for name, pair in GROWTH.items():
        few, many = (make() for make in pair)
        a, b = (seconds(each, given.target, given.rounds) for each in (few, many))
        print(f"{name:<24}{few.programs:>8}{a:>9.2f}{many.programs:>8}{b:>9.2f}{b / a:>8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
