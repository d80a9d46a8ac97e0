"""Compare `mma.sync` on a machine with the emulator's model of it, bit by bit, and with other models where they differ.

    python -m tools.probes.mma --device cuda --fragments 1000000 --freeze tests/runtime/data/mma-sm_90a.json

Each type is multiplied on so many fragments, drawn in classes (`inputs`). A line a type says how many results differ
from `options.mma = "hardware"`, and of what kind; on the first `--fit` fragments the other candidates are tried too,
and the line says which of them agree on all. Nothing is random but by the seed. What is frozen the tests replay on the
emulator.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.targets import generation

from ..options import natural, new_file
from .candidates import candidates, model
from .command import parsed, probe_parser
from .inputs import Operands, drawn
from .machines import Machine, kept_machine
from .outcomes import Outcome
from .products import PRODUCTS, WARP, WARPS_PER_BLOCK, Mma, kernel_text, packed

Array = NDArray[Any]

CHUNK, CHUNK_F64 = 1 << 13, 1 << 10
"""Fragments that are multiplied in one launch."""
SLICE = 256
"""Fragments that a model works on at a time, so that it stays in the cache."""
DIRECTED = 1 << 6
"""Fragments of f64 in the directed roundings, whose model is slow."""
FROZEN, FROZEN_INTEGERS, FROZEN_DIRECTED, FROZEN_SEED = 640, 64, 20, 1 << 20
"""How many fragments' results are frozen, fewer of integers and of `DIRECTED`, and the seed that draws them."""


@dataclass(frozen=True, slots=True)
class Task:
    """Some fragments of one product: which device, which of the products, the seed, how many, and what is asked."""

    device: str
    number: int
    seed: int
    count: int
    fit: bool


def results(machine: Machine, mma: Mma, operands: Operands) -> Array:
    """What the machine computes: bits [fragments, rows, 8]."""
    fragments = mma.fragments
    registers = [packed(f, x) for f, x in zip(fragments, operands, strict=True)]
    out = np.zeros_like(registers[2])
    blocks = len(out) // WARPS_PER_BLOCK
    machine.run(kernel_text(mma, machine.target), blocks, WARP * WARPS_PER_BLOCK, [*registers, out])
    return fragments[2].matrices(out)


def run(task: Task) -> Outcome:
    """Multiply on the machine and by the models, and compare."""
    mma, machine = PRODUCTS[task.number], kept_machine(task.device)
    named, operands = drawn(mma, task.seed, task.count)
    found = results(machine, mma, operands)
    outcome = Outcome(found.size, digest=hashlib.sha256(found.tobytes()).hexdigest())
    target = generation(machine.target)
    models = {"model": model(mma, target)}
    if task.fit and (mma.a != "f64" or task.seed == 0):  # the others are slow for f64
        models |= candidates(mma, target)
        outcome.fitted = set(models)
    outcome.compare(mma, models, SLICE, named, operands, found)
    return outcome


# --- the command ---


def chosen(target: str, rows: str, fragments: int, integers: int, directed: int) -> list[tuple[int, int]]:
    """The products that a target has and whose label a pattern finds, by number, and how many fragments of each:
    fewer of integers, and of f64 in the directed roundings."""
    found: list[tuple[int, int]] = []
    for number, mma in enumerate(PRODUCTS):
        # `.rn` is what no modifier says as well.
        if mma.least <= generation(target) and mma.modifiers != ".rn" and re.search(rows, mma.label):
            most = directed if mma.modifiers in (".rz", ".rm", ".rp") else integers if mma.c == "s32" else fragments
            found.append((number, min(fragments, most)))
    return found


def tasks(device: str, products: list[tuple[int, int]], fit: int) -> list[Task]:
    """All work, product by product; all candidates are tried on the first `fit` fragments of each."""
    found: list[Task] = []
    for number, count in products:
        chunk = CHUNK_F64 if PRODUCTS[number].a == "f64" else CHUNK
        for seed, first in enumerate(range(0, count, chunk)):
            size = -(-min(chunk, count - first) // WARPS_PER_BLOCK) * WARPS_PER_BLOCK
            found.append(Task(device, number, seed, size, first < fit))
    return found


def digests(device: str, rows: str = "", jobs: int = 1) -> dict[str, str]:
    """Digests of some results of each product, by label: to be compared without a GPU later."""
    products = chosen(kept_machine(device).target, rows, FROZEN, FROZEN_INTEGERS, FROZEN_DIRECTED)
    found = collected([Task(device, number, FROZEN_SEED, count, False) for number, count in products], jobs)
    return {PRODUCTS[number].label: outcome.digest for number, outcome in found.items()}


def collected(todo: Sequence[Task], jobs: int) -> dict[int, Outcome]:
    """The outcome of each product, its tasks spread over processes."""
    found: dict[int, Outcome] = {}
    if jobs == 1:
        outcomes = map(run, todo)
        for task, outcome in zip(todo, outcomes, strict=True):
            found.setdefault(task.number, Outcome()).add(outcome)
        return found
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for task, outcome in zip(todo, pool.imap(run, todo), strict=True):
            found.setdefault(task.number, Outcome()).add(outcome)
    return found


def report(found: dict[int, Outcome]) -> list[str]:
    """The lines to print: products of integers together where all are equal."""
    lines: list[str] = []
    whole = [n for n, outcome in found.items() if PRODUCTS[n].c == "s32" and not outcome.differ]
    if whole:
        compared = sum(found[n].compared for n in whole)
        lines.append(f"{len(whole)} products of integers: {compared:,} results, equal")
    for number, outcome in found.items():
        if number not in whole:
            lines.append(outcome.line(PRODUCTS[number].label))
            lines += [f"    {outcome.example}"] if outcome.example else []
    return lines


def main(words: Sequence[str] | None = None) -> int:
    """The number of products that differ from the model."""
    parser = probe_parser(__doc__, "the products to take")
    parser.add_argument("--fragments", type=natural, default=1_000_000, help="of each product")
    parser.add_argument("--fit", type=natural, default=CHUNK, help="on so many of them the other candidates are tried")
    parser.add_argument("--freeze", type=new_file, help="write digests of some results to a file")
    arguments = parsed(parser, words)
    started, machine = time.perf_counter(), kept_machine(arguments.device)
    products = chosen(machine.target, arguments.rows, arguments.fragments, arguments.fragments, DIRECTED)
    todo = tasks(arguments.device, products, arguments.fit)
    found = collected(todo, arguments.jobs)
    print(f"{getattr(machine, 'description', arguments.device)}: {len(found)} products")
    print("\n".join(report(found)))
    if arguments.freeze:
        kept = digests(arguments.device, arguments.rows, arguments.jobs)
        arguments.freeze.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{time.perf_counter() - started:.0f} s")
    return sum(1 for outcome in found.values() if outcome.kinds)


if __name__ == "__main__":
    sys.exit(main())
