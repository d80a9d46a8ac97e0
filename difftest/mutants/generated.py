"""The deletion test of random kernels, and tables of reports: `python -m tilewright.difftest.mutants.generated`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.interpreter import Buffer, InterpreterError, load_ptx

from ..__main__ import seed_range
from ..choices import RecordedChoices
from ..generator import generate_kernel
from ..kernels import REFUSALS, TARGETS, compiler_options
from ..launches import Launch, launched
from .deletion import APART, READS, WRITES, Arguments, Report, Specimen, Verdict, examine, touched
from .sites import KINDS, ORDERING

#: How many rounds loops have in further launches of generated kernels.
ROUNDS = (1, 2, 3, 5)


def specimen_of(launch_: Launch, name: str, target: str) -> Specimen:
    """A launch of a kernel in source, as the harness makes them."""
    values = launch_.values()
    packed = zip(launch_.module.kernel.arguments, launch_.packed(values), strict=True)
    arguments = [values[argument.name] if isinstance(given, Buffer) else given for argument, given in packed]
    random = np.random.default_rng(0)
    names = [argument.name for argument in launch_.module.kernel.arguments]
    scratch = {at for at, name in enumerate(names) if name.startswith("scratch")}
    for at in scratch | touched(launch_.module, WRITES) - touched(launch_.module, READS):
        filled = arguments[at].view(np.uint8)
        filled[...] = random.integers(0, 256, filled.shape)  # that a store changes something
    made = Specimen(
        name, launch_.module, [arguments], launch_.grid, target, compiler_options(launch_.options), thorough=False
    )
    made.launches = [arguments, *(each for each in _other_rounds(launch_, arguments) if _runs(made, each))]
    return made


def _other_rounds(launch_: Launch, arguments: Arguments) -> Iterator[list[Any]]:
    """The arguments with other numbers of rounds, where these are arguments."""
    names = [argument.name for argument in launch_.module.kernel.arguments]
    at = [place for place, name in enumerate(names) if name.startswith("rounds")]
    for rounds in ROUNDS if at else ():
        packed = np.array([rounds], np.int32).tobytes()
        yield [packed if place in at else each for place, each in enumerate(arguments)]


def _runs(specimen: Specimen, arguments: Arguments) -> bool:
    """Whether a kernel is right as it is on some arguments: more rounds may need larger arrays."""
    other = replace(specimen, launches=[arguments])
    try:
        other.launch(load_ptx(other.ptx), APART)
    except InterpreterError:
        return False
    return True


def generated(seeds: Iterable[int], kinds: Sequence[str]) -> Iterator[Report]:
    """The reports on the kernels of the seeds, in a rotation of targets; those that are not compiled yet left out."""
    for seed in seeds:
        with launched(generate_kernel(RecordedChoices(seed))) as each:
            specimen = specimen_of(each, f"seed {seed}", TARGETS[seed % len(TARGETS)])
            try:
                yield examine(specimen, kinds)
            except REFUSALS:
                continue


def table(reports: Iterable[Report]) -> Iterator[str]:
    """The lines of the reports as they come, with what was not caught, and their sum."""
    every = Report("all")
    for report in reports:
        every.verdicts += report.verdicts
        yield str(report)
    yield every.row()


def score(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """How many sites of each kind there are, what showed that they were missing, and why nothing showed the rest."""
    ways = ("emulator", "results", "counters", "explained", "unexplained")
    yield f"{'':<12}{'sites':>8}" + "".join(f"{way:>13}" for way in ways)
    for kind in KINDS:
        found = Counter(way_of(each) for each in verdicts if each.site.kind == kind)
        if found:
            yield f"{kind:<12}{found.total():>8}" + "".join(f"{found[way]:>13}" for way in ways)
    reasons = Counter((each.told, each.site.kind) for each in verdicts if not each.by)
    for (why, kind), count in reasons.most_common():
        yield f"{count:>6} {kind}: {why or 'not explained'}"


def way_of(verdict: Verdict) -> str:
    """What showed that a site was missing: an error of the emulator, results, counters; or nothing."""
    if not verdict.by:
        return "explained" if verdict.told else "unexplained"
    return "emulator" if verdict.by.endswith("Error") else "results" if verdict.by == "results" else "counters"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table for generated kernels. Status 1 where a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.difftest.mutants.generated", description=__doc__)
    parser.add_argument("--seeds", type=seed_range, required=True, help="a:b, or one seed")
    parser.add_argument(
        "--kinds", nargs="+", default=ORDERING, choices=KINDS, help="what to leave out; all that orders if not given"
    )
    given = parser.parse_args(arguments)
    survived = 0
    for line in table(generated(given.seeds, given.kinds)):
        survived += "SURVIVED" in line
        print(line, flush=True)
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
