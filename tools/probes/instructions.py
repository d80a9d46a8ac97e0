"""Compare single instructions on a machine with the emulator, bit by bit, and approximate ones with their bounds.

    python -m tools.probes.instructions --device cuda --out DIR --jobs 16

Three parts. `rows`: every spelling of every row that computes from registers, if the assembler takes it, on all 2**16
operands or on as many drawn ones. `answers`: what the ISA leaves open. `sweeps`: the f32 functions on all 2**32
operands. What is printed is what differs; the folder gets all of it as text, and as data `instructions-TARGET.json`,
`answers-TARGET.json` and `sweeps-TARGET.json`, which belong into `tests/interpreter/ptx/data`, where the tests replay
them on the emulator. Where the folder has the first, what it says of rows that `--rows` leaves out stays.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..options import folder, positive
from . import instruction_tasks, questions
from .command import added, parsed, probe_parser
from .instruction_report import (
    SHOWN,
    answer_lines,
    bounded_line,
    frozen_rows,
    frozen_sweeps,
    row_lines,
    summary,
    sweep_lines,
)
from .instruction_rows import cases
from .instruction_tasks import Block
from .machines import Emulator, machine_named
from .sweeps import BLOCK, BLOCKS, SWEEPS

PARTS = ("rows", "answers", "sweeps")
WIDTH = 300
"""Of a printed line; the files have all of it."""


@dataclass(slots=True)
class Report:
    """What is said: `lines` to print, and files for the folder, of which those with data name the target."""

    out: Path | None
    target: str
    lines: list[str] = field(default_factory=list[str])
    wrong: int = 0

    def keep(self, name: str, text: str) -> None:
        """Write a file into the folder."""
        if self.out is not None:
            (self.out / name).write_text(text + "\n")

    def data(self, name: str) -> str:
        """The file of some data."""
        return f"{name}-{self.target}.json"

    def keep_data(self, name: str, data: Any) -> None:
        """Write data, a line for each of its entries."""
        self.keep(
            self.data(name),
            json.dumps(data, separators=(",", ":")).replace('","', '",\n"').replace('},"', '},\n"'),
        )


def rows(arguments: argparse.Namespace, report: Report) -> None:
    """Every instruction on its operands."""
    known = {case.name: case for case in cases() if re.search(arguments.rows, case.name)}
    outcomes = instruction_tasks.outcomes(arguments.device, [*known], arguments.jobs)
    order = {name: n for n, name in enumerate(known)}
    outcomes.sort(key=lambda outcome: order[outcome.name])
    different = row_lines(outcomes, known)
    bounded = [bounded_line(o.name, known[o.name].bounds, o.measured) for o in outcomes if o.measured is not None]
    report.lines += [summary(outcomes), *different[:SHOWN]]
    report.lines += [f"... and {len(different) - SHOWN} rows more, in rows.txt"] if len(different) > SHOWN else []
    report.lines += bounded
    report.wrong += len(different)
    each = [f"{o.name}: {kind}: {text}" for o in outcomes for kind, text in o.differences.examples.items()]
    refused = [f"refused: {o.name}: {o.refused}" for o in outcomes if o.refused]
    failed = [f"failed: {o.name}: {o.failed}" for o in outcomes if o.failed]
    report.keep("rows.txt", "\n".join([*different, *bounded, *failed, *each, *refused]))
    found = frozen_rows(outcomes)
    if report.out is not None:
        found = added(report.out / report.data("instructions"), known, found)
    report.keep_data("instructions", found)


def answers(arguments: argparse.Namespace, report: Report) -> None:
    """What the ISA leaves open."""
    machine = machine_named(arguments.device)
    found, want = questions.answers(machine), questions.answers(Emulator(machine.target))
    different = answer_lines(found, want)
    report.lines += [f"{sum(map(len, found.values()))} answers, {len(different)} differ", *different[:SHOWN]]
    report.wrong += len(different)
    report.keep("answers.txt", "\n".join(questions.lines(found)))
    report.keep_data("answers", found)


def sweeps(arguments: argparse.Namespace, report: Report) -> None:
    """All operands of the f32 functions, or one block of each."""
    chosen = range(BLOCKS) if arguments.block is None else [arguments.block]
    wanted = [n for n, sweep in enumerate(SWEEPS) if any(re.search(arguments.rows, opcode) for opcode in sweep.opcodes)]
    todo = [Block(arguments.device, n, block * BLOCK, arguments.count) for n in wanted for block in chosen]
    found, errors = instruction_tasks.swept(todo, arguments.jobs)
    lines = sweep_lines(found, errors)
    report.lines += lines
    report.wrong += sum("EXCEEDED" in line or "special equal" not in line for line in lines)
    report.keep("sweeps.txt", "\n".join([*lines, *errors]))
    report.keep_data("sweeps", frozen_sweeps(found))


_RUN: dict[str, Callable[[argparse.Namespace, Report], None]] = {"rows": rows, "answers": answers, "sweeps": sweeps}


def _parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = probe_parser(__doc__, "the instructions to take")
    parser.add_argument("--out", type=folder, help="a folder for what was found")
    parser.add_argument("--part", choices=PARTS, action="append", help="may be repeated; without it all")
    parser.add_argument("--block", type=int, choices=range(BLOCKS), metavar="K", help="one block of each sweep")
    parser.add_argument("--count", type=positive, default=BLOCK, help="operands of a block, for trying it out")
    arguments = parsed(parser, words)
    arguments.part = arguments.part or list(PARTS)
    if "sweeps" in arguments.part and arguments.block is None and arguments.device.startswith("emulator"):
        parser.error("the emulator sweeps one block: --block K")
    return arguments


def main(words: Sequence[str] | None = None) -> int:
    """The number of rows, answers and swept instructions that differ."""
    arguments = _parsed(words)
    machine = machine_named(arguments.device)
    print(f"{getattr(machine, 'description', arguments.device)}; {arguments.jobs} processes", flush=True)
    report = Report(arguments.out, machine.target)
    for part in arguments.part:
        started = time.perf_counter()
        try:
            _RUN[part](arguments, report)
        except Exception as error:  # the other parts are run all the same
            report.lines.append(f"{part} failed: {type(error).__name__}: {error}")
            report.wrong += 1
        report.lines.append(f"{part}: {time.perf_counter() - started:.0f} s")
        print("\n".join(line[:WIDTH] for line in report.lines), flush=True)
        report.lines.clear()
    return report.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 99))
