"""Tilewright's reference beside Triton's interpreter: the same kernel sources, the same torch tensors, one process.

Needs an environment of its own with triton 3.6.0, torch 2.13.0 and NumPy below 2.4 (`make bench-interpreters`). Each
round runs both systems on fresh copies; the figures are the best of the rounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from time import perf_counter

import numpy as np

from . import cases
from ._lazy import System, systems, torch_module
from .cases import Case
from .records import store, surroundings
from .sources import load_kernels

CASES: tuple[Callable[[], Case], ...] = (
    lambda: cases.add(4_194_304),
    lambda: cases.softmax(1823, 781),
    lambda: cases.matmul(512, 512, 512, 64, 64, 32),
    lambda: cases.matmul(1024, 1024, 1024, 128, 256, 64),
    lambda: cases.layernorm(1151, 8192),
    lambda: cases.attention(2, 512, 64),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One case: seconds under each system (best of the rounds), the ratio, and whether both results were right."""

    case: str
    programs: int
    triton_seconds: float
    tilewright_seconds: float
    ratio: float
    triton_error: float
    tilewright_error: float
    samples: Mapping[str, list[float]]


def measure(case: Case, known: Mapping[str, System], rounds: Mapping[str, int]) -> Row:
    """Run one case under every system, interleaved, and check every result."""
    torch = torch_module()
    kernels = {name: getattr(load_kernels(case.family, *pair), case.kernel) for name, pair in known.items()}
    samples: dict[str, list[float]] = {name: [] for name in known}
    error = dict.fromkeys(known, 0.0)
    for turn in range(max(rounds.values())):
        for name, kernel in kernels.items():
            if turn >= rounds[name]:
                continue
            tensors = [torch.from_numpy(part) if isinstance(part, np.ndarray) else part for part in case.fresh()]
            start = perf_counter()
            kernel[case.grid](*tensors, **case.constants)
            samples[name].append(perf_counter() - start)
            if turn == 0:
                error[name] = case.check(tensors)
    ours, theirs = min(samples["tilewright"]), min(samples["triton"])
    return Row(case.name, case.programs, theirs, ours, theirs / ours, error["triton"], error["tilewright"], samples)


def main(arguments: list[str]) -> int:
    """Measure all cases, print a table, and store the rows as JSON if a path is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of Tilewright; Triton gets two")
    parser.add_argument("--store", type=Path, help="append the rows to this file as JSON lines")
    options = parser.parse_args(arguments)
    known = systems(interpret=True)
    rounds = {"triton": min(2, options.rounds), "tilewright": options.rounds}
    print(f"{'case':<34} {'programs':>8} {'Triton s':>10} {'ours s':>10} {'ratio':>8}  error/allowed (Triton, ours)")
    rows: list[Row] = []
    for make in CASES:
        row = measure(make(), known, rounds)
        rows.append(row)
        print(
            f"{row.case:<34} {row.programs:>8} {row.triton_seconds:>10.4f} {row.tilewright_seconds:>10.4f} "
            f"{row.ratio:>7.1f}x  {row.triton_error:.3f}, {row.tilewright_error:.3f}",
            flush=True,
        )
    mean = exp(sum(log(row.ratio) for row in rows) / len(rows))
    print(f"geometric mean {mean:.1f}x, least {min(row.ratio for row in rows):.1f}x")
    if options.store:
        facts = surroundings()
        store(options.store, (asdict(row) | facts for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
