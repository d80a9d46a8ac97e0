"""Run litmus tests of mbarriers, clusters, copies and fences on a machine, and see what the emulator allows.

    python -m tools.probes.mbarrier --device cuda --freeze tests/runtime/data/litmus-sm_90a.json

A line says what a test (`litmus.TESTS`) left on the machine and how often, what it leaves on the emulator under some
schedules, and a verdict: `equal`; `within`, some of what the emulator leaves; `race`, where the emulator reports one
and anything may be; `weaker`, outcomes that PTX allows and the emulator, which runs one access after the other, never
shows; or `WRONG`. What is frozen the tests compare with the emulator again.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.interpreter import InterpreterError
from tilewright.interpreter.ptx import RaceError

from ..options import new_file
from .command import parsed, probe_parser
from .litmus import LOCATION, TESTS, Litmus, kernel_text
from .machines import Emulator, Machine, kept_machine
from .workers import Failure, answers

GROUPS, LAUNCHES = 1024, 8
"""Blocks or clusters of a launch, and launches of each test on a GPU."""
SMALL_GROUPS, SMALL_RUNS, SEEDS = 2, 4, 12
"""The same on the emulator, and under how many schedules."""
LATE = "timed out"
"""The outcome of those that gave up a wait."""
_SHOWN = 6
"""How many tests of a kind that went wrong are listed."""
RIGHT = ("equal", "within", "race", "weaker")
"""The verdicts that are no cause for alarm."""

Outcomes = dict[str, int]
"""How often each outcome was left, its words separated by commas."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A test on a machine beside the emulator: what each left, and what to say of it."""

    found: Outcomes
    emulator: Outcomes
    error: str
    verdict: str


def left(machine: Machine, test: Litmus, groups: int, runs: int) -> Outcomes:
    """The outcomes of one launch."""
    places = np.zeros(groups * runs * LOCATION // 4, np.uint32)
    out = np.zeros((groups * runs, test.words + 1), np.uint32)
    machine.run(kernel_text(test, machine.target, runs), groups * test.blocks, test.threads, [places, out])
    rows, counts = np.unique(out, axis=0, return_counts=True)
    found = Counter[str]()
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        found[LATE if row[-1] else _text(row[:-1])] += count
    return dict(found)


def _text(words: Sequence[int]) -> str:
    return ",".join(map(str, words))


def on_emulator(test: Litmus, seeds: int = SEEDS, target: str = "sm_90a") -> tuple[Outcomes, str]:
    """The outcomes under some schedules; or none, and the error that the emulator reports under one of them."""
    found = Counter[str]()
    for seed in range(seeds):
        try:
            found.update(left(Emulator(target, seed), test, SMALL_GROUPS, min(test.runs, SMALL_RUNS)))
        except RaceError:
            return {}, "race"
        except InterpreterError as error:
            return {}, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return dict(found), ""


def verdict_of(test: Litmus, found: Outcomes, emulator: Outcomes, error: str) -> str:
    """What to say of outcomes, given those of the emulator or its error."""
    allowed = {_text(words) for words in test.allowed}
    if LATE in found or (error and error != "race"):
        return "WRONG"
    if error == "race":
        return "race"
    if found.keys() <= emulator.keys():
        return "equal" if found.keys() == emulator.keys() else "within"
    return "weaker" if found.keys() <= allowed else "WRONG"


def found_on(machine: Machine, test: Litmus) -> Outcomes:
    """The outcomes on a machine: of some launches on a GPU, of a small one on the emulator, which checks nothing."""
    if isinstance(machine, Emulator):
        return left(Emulator(machine.target, checks=False), test, SMALL_GROUPS, min(test.runs, SMALL_RUNS))
    found = Counter[str]()
    for _ in range(LAUNCHES):
        found.update(left(machine, test, GROUPS, test.runs))
    return dict(found)


def judged(case: tuple[str, int]) -> Verdict:
    """One test on a device and on the emulator."""
    device, number = case
    found = found_on(kept_machine(device), TESTS[number])
    emulator, error = _expected(number)
    return Verdict(found, emulator, error, verdict_of(TESTS[number], found, emulator, error))


@cache
def _expected(number: int) -> tuple[Outcomes, str]:
    return on_emulator(TESTS[number])


# --- the command ---


def _listed(outcomes: Outcomes, numbers: bool) -> str:
    shown = [f"{name}:{count}" if numbers else name for name, count in sorted(outcomes.items())[:6]]
    return " ".join([*shown, *["..."] * (len(outcomes) > 6)])


def line(test: Litmus, answer: Verdict | Failure) -> str:
    """One test."""
    if isinstance(answer, Failure):
        return f"FAILED  {test.kind}: {test.name}: {answer.what}"
    emulator = answer.error or _listed(answer.emulator, numbers=False)
    found = _listed(answer.found, numbers=True)
    return f"{answer.verdict:<7} {test.kind}: {test.name}: {found} | emulator: {emulator}"


def report(chosen: Sequence[int], found: Sequence[Verdict | Failure]) -> list[str]:
    """The lines to print: tests are counted by kind and verdict; what is wrong is listed, and what is weaker named."""
    lines: list[str] = []
    for kind in dict.fromkeys(TESTS[number].kind for number in chosen):
        some = [(TESTS[n], answer) for n, answer in zip(chosen, found, strict=True) if TESTS[n].kind == kind]
        verdicts = Counter(answer.verdict if isinstance(answer, Verdict) else "FAILED" for _, answer in some)
        lines.append(f"{kind:<10} {len(some):>3} tests: {', '.join(f'{n} {name}' for name, n in verdicts.items())}")
        lines += [f"    {line(test, answer)}" for test, answer in some if not _right(answer)][:_SHOWN]
        lines += _wrapped(
            f"{test.name} ({_listed(_beyond(answer), numbers=True)})"
            for test, answer in some if isinstance(answer, Verdict) and answer.verdict == "weaker"
        )  # fmt: skip
    return lines


def _beyond(answer: Verdict) -> Outcomes:
    """What was left that the emulator never leaves."""
    return {name: count for name, count in answer.found.items() if name not in answer.emulator}


def _wrapped(names: Iterable[str]) -> list[str]:
    return textwrap.wrap("; ".join(names), 150, initial_indent="    weaker: ", subsequent_indent="    ")


def _right(answer: Verdict | Failure) -> bool:
    return isinstance(answer, Verdict) and answer.verdict in RIGHT


def label(test: Litmus) -> str:
    """What a test is called in data."""
    return f"{test.kind}: {test.name}"


def main(words: Sequence[str] | None = None) -> int:
    """The number of tests that went wrong or failed."""
    parser = probe_parser(__doc__, "the tests to run")
    parser.add_argument("--freeze", type=new_file, help="write the outcomes to a file")
    parser.add_argument("--details", type=new_file, help="write every test to a file")
    arguments = parsed(parser, words)
    started = time.perf_counter()
    chosen = [n for n, test in enumerate(TESTS) if re.search(arguments.rows, label(test))]
    found = list(answers(judged, [(arguments.device, n) for n in chosen], arguments.jobs))
    print(f"litmus tests on {arguments.device}: {len(chosen)}")
    print("\n".join(report(chosen, found)))
    if arguments.details:
        lines = [line(TESTS[n], answer) for n, answer in zip(chosen, found, strict=True)]
        arguments.details.write_text("\n".join(lines) + "\n")
    if arguments.freeze:
        whole = [(label(TESTS[n]), a) for n, a in zip(chosen, found, strict=True) if isinstance(a, Verdict)]
        kept = {name: dict(sorted(answer.found.items())) for name, answer in whole}
        arguments.freeze.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{time.perf_counter() - started:.0f} s", flush=True)
    return sum(not _right(answer) for answer in found)


if __name__ == "__main__":
    sys.exit(main())
