"""Conversions between layouts as compiled code, on the emulator: `python -m tools.conversions --triples 2000`.

Each triple (source, target, width) becomes a kernel that says, for every thread's copy of every element, whether the
conversion brought it where it belongs. What the emulator counts of wavefronts of shared memory must be what the
compiler's formula predicts. Printed are the kinds of plans, the wrong copies, and wavefronts, predicted and counted.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from tilewright.compiler import TARGETS
from tilewright.compiler.analysis.conversion import conversion
from tilewright.compiler.lower.shared import STMATRIX
from tilewright.difftest.conversions import ELEMENTS, run_conversion
from tilewright.difftest.generator.layouts import Triple, triples
from tilewright.interpreter import Counters
from tilewright.lang import byte_width

from .options import natural, positive

MACHINES = ("sm_80", "sm_90a", "sm_120a")


class Examined(NamedTuple):
    """One conversion: what kind of plan it has, how many copies of elements are wrong, and the wavefronts of writing
    and of reading, predicted and counted. `conflicts`: those beyond the least. `matrices`: instructions that move some.
    """

    kind: str
    wrong: int
    predicted: tuple[int, int]
    counted: tuple[int, int]
    conflicts: int
    matrices: int

    @property
    def right(self) -> bool:
        return not self.wrong and self.predicted == self.counted


def examine(number: int, triple: Triple) -> Examined:
    """Run a triple; its number chooses the type of that width, and the target."""
    elements = ELEMENTS[triple.bits]
    element, machine = elements[number // 4 % len(elements)], MACHINES[number // 4 % len(MACHINES)]
    size = byte_width(element)
    plan = conversion(triple.source.layout, triple.target.layout, size)
    run = run_conversion(triple.source, triple.target, element, machine)
    predicted = plan.wavefronts(size, TARGETS[machine].meets(STMATRIX))
    return Examined(type(plan.move).__name__.lower(), run.wrong, predicted, *traffic(run.counters))


def traffic(counters: Counters) -> tuple[tuple[int, int], int, int]:
    """The wavefronts of writing and of reading, the conflicts, and how many instructions move matrices."""
    rows = [(each.opcode, each.row) for each in counters.instructions if each.row.shared_requests]
    written, read = (sum(r.wavefronts for opcode, r in rows if opcode.startswith(kind)) for kind in ("st", "ld"))
    return (written, read), counters.total.conflicts, sum("matrix" in opcode for opcode, _ in rows)


def table(found: Iterable[Examined]) -> str:
    """The sums by kind of plan."""
    rows: dict[str, Counter[str]] = {}
    for each in found:
        row = rows.setdefault(each.kind, Counter())
        row.update(
            triples=1, wrong=bool(each.wrong), unpredicted=each.predicted != each.counted, matrices=bool(each.matrices),
            conflicts=bool(each.conflicts), predicted=sum(each.predicted), counted=sum(each.counted),
        )  # fmt: skip
    heads = ("triples", "wrong", "matrices", "conflicts", "predicted", "counted", "unpredicted")
    lines = [f"{'plan':10}" + "".join(f"{head:>13}" for head in heads)]
    lines += [f"{kind:10}" + "".join(f"{row[head]:13}" for head in heads) for kind, row in sorted(rows.items())]
    return "\n".join(lines)


def main(*arguments: str) -> int:
    """Run the triples. The exit status."""
    parser = argparse.ArgumentParser(prog="tools.conversions", description="conversions on the emulator")
    parser.add_argument("--triples", type=positive, default=2000)
    parser.add_argument("--seed", type=natural, default=0)
    parser.add_argument("--workers", type=positive, default=2)
    chosen = parser.parse_args(arguments)
    start, drawn = time.perf_counter(), triples(chosen.triples, chosen.seed)
    with ProcessPoolExecutor(chosen.workers, get_context("spawn")) as pool:
        found = list(pool.map(examine, range(len(drawn)), drawn, chunksize=20))
    print(table(found))
    print(f"{len(found)} triples in {time.perf_counter() - start:.0f} s")
    for number, (triple, each) in enumerate(zip(drawn, found, strict=True)):
        if not each.right:
            print(f"triple {number}: {each}\n  {triple.source.layout}\n  {triple.target.layout}, {triple.bits} bits")
    return int(not all(each.right for each in found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
