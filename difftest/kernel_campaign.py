"""Campaigns of kernels: seeds in child processes, results in a file that a later run goes on with, and reproducers."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .choices import RecordedChoices
from .generator import generate_kernel
from .kernels import TARGETS, Examination, examine_launch, where
from .launches import launched
from .reduce import Decisions, reduce_decisions
from .reproducing import reproducer
from .workers import Lost, Workers


class Task(NamedTuple):
    """A kernel to examine, of a seed or, if given, of decisions; on a device of the runtime too, if named."""

    seed: int
    decisions: Decisions | None = None
    device: str = ""

    @property
    def target(self) -> str:
        """The target, by rotation."""
        return TARGETS[self.seed % len(TARGETS)]

    def choices(self) -> RecordedChoices:
        return RecordedChoices(self.seed) if self.decisions is None else RecordedChoices.replay(self.decisions)


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one seed, as it is stored. `state`: agrees, refused, undecided or finding."""

    seed: int
    state: str
    level: str = ""
    problems: tuple[str, ...] = ()
    signature: tuple[str, ...] = ()
    operations: dict[str, int] = field(default_factory=dict[str, int])
    decisions: Decisions = ()
    widest: float = 0.0
    seconds: float = 0.0

    def explains(self, other: Row) -> bool:
        """Whether this reduced finding and another are probably one fault: the same level, and its operations there."""
        return self.level == other.level and set(self.signature) <= set(other.signature)

    @classmethod
    def parse(cls, line: str) -> Row:
        """A row from its line. Raises ValueError and TypeError for anything else."""
        fields: Any = {name: tuple(v) if isinstance(v, list) else v for name, v in dict(json.loads(line)).items()}
        return cls(**fields)


def examine_task(task: Task) -> Row:
    """Generate the kernel of a task, and run it at every level."""
    began, choices = time.perf_counter(), task.choices()
    try:
        kernel = generate_kernel(choices)
    except Exception as error:
        problems = (f"{type(error).__name__}: {error}", where(error))
        return Row(task.seed, "finding", "generator", problems, decisions=tuple(choices.drawn))
    with launched(kernel) as launch:
        found = examine_launch(launch, task.target, task.device)
    state = "finding" if found.level else "refused" if found.refused else "undecided" if found.undecided else "agrees"
    return Row(
        task.seed, state, found.level, _reasons(found), found.signature, dict(found.operations),
        tuple(choices.drawn) if found.level else (), found.widest, time.perf_counter() - began,
    )  # fmt: skip


def _reasons(found: Examination) -> tuple[str, ...]:
    return found.problems or tuple(filter(None, (found.refused, found.undecided)))


def row_of(result: Row | Lost[Task]) -> Row:
    """A process that died is a finding too."""
    if isinstance(result, Row):
        return result
    return Row(result.task.seed, "finding", "crash", (result.how,), decisions=result.task.decisions or ())


@dataclass(slots=True)
class Summary:
    """What a campaign did: its rows, of which `new` were run in these seconds, and the faults behind its findings.

    A fault is a finding that has been reduced; those of earlier runs are among them.
    """

    rows: list[Row] = field(default_factory=list[Row])
    new: int = 0
    seconds: float = 0.0
    faults: list[Row] = field(default_factory=list[Row])

    @property
    def findings(self) -> list[Row]:
        return [row for row in self.rows if row.state == "finding"]

    def operations(self) -> Counter[str]:
        """In how many kernels each operation occurred."""
        return Counter(name for row in self.rows for name in row.operations)

    def __str__(self) -> str:
        states = Counter(row.state for row in self.rows)
        rate = f", {self.new} of them now in {self.seconds:.0f} s ({60 * self.new / (self.seconds or 1):.0f} a minute)"
        counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
        lines = [f"{len(self.rows)} kernels{rate}: {counts}"]
        for fault in self.faults:
            seeds = [row.seed for row in self.findings if fault.explains(row)]
            lines += [f"{fault.level} [{' '.join(fault.signature)}]: {file_of(fault)}, seeds {seeds}"]
            lines += [f"    {problem}" for problem in fault.problems]
        return "\n".join(lines)


def file_of(fault: Row) -> str:
    """The name of the file that shows a fault."""
    return f"{re.sub(r'[^a-z0-9]+', '_', fault.level).strip('_')}_{fault.seed}.py"


def stored_rows(path: Path) -> list[Row]:
    """The rows of a results file; a line that a kill cut short is none."""
    rows: list[Row] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            rows.append(Row.parse(line))
        except (ValueError, TypeError):
            continue
    return rows


def fuzz(
    seeds: Iterable[int],
    folder: Path,
    jobs: int = 1,
    device: str = "",
    attempts: int = 150,
    patience: float = 120.0,
    examine: Callable[[Task], Row] = examine_task,
) -> Summary:
    """Examine the kernels of some seeds, each in a child process that is killed after `patience` seconds.

    Results go to `folder/results.jsonl` one by one; seeds that are there already are not run again. A finding that no
    known fault explains is reduced, by `attempts` runs at most, kept as a fault in `folder/faults.jsonl`, and written
    to a Python file there. `examine` is what the children do, a function of a module.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted, path = list(seeds), folder / "results.jsonl"
    known = {row.seed: row for row in stored_rows(path)}
    summary, began = Summary([known[seed] for seed in wanted if seed in known]), time.perf_counter()
    summary.faults = stored_rows(folder / "faults.jsonl")
    with Workers(examine, jobs, patience) as workers:
        for result in workers.run([Task(seed, None, device) for seed in wanted if seed not in known]):
            summary.rows.append(row_of(result))
            summary.new += 1
            keep(summary.rows[-1], path)
        summary.seconds = time.perf_counter() - began
        for row in summary.findings:
            if not any(fault.explains(row) for fault in summary.faults):
                fault = reduced(row, device, attempts, workers)
                summary.faults.append(fault)
                if fault.level != "generator":
                    (folder / file_of(fault)).write_text(shown(fault, device), encoding="utf-8")
                keep(fault, folder / "faults.jsonl")
    return summary


def keep(row: Row, path: Path) -> None:
    """Add a row to a file, on a line of its own also where a kill cut the last one short."""
    whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("" if whole else "\n") + json.dumps(asdict(row)) + "\n")


def spans_of(decisions: Decisions) -> list[tuple[int, int]]:
    """Which of the decisions for a kernel belong together: those of each statement."""
    choices = RecordedChoices.replay(decisions)
    generate_kernel(choices)
    return [span for span in choices.spans if span[1] <= len(decisions)]


def reduced(row: Row, device: str, attempts: int, workers: Workers[Task, Row]) -> Row:
    """A finding that a simpler kernel shows too. What the generator itself stumbles over stays as it is."""
    if row.level == "generator":
        return row

    def again(decisions: Decisions) -> Row:
        return row_of(workers.one(Task(row.seed, decisions, device)))

    def shows(decisions: Decisions) -> Decisions | None:
        found = again(decisions)
        return (found.decisions or decisions) if found.level == row.level else None

    choices = Task(row.seed, row.decisions or None).choices()
    generate_kernel(choices)
    smallest = reduce_decisions(choices.drawn, shows, attempts, spans_of)
    final = again(smallest)
    return replace(final if final.level == row.level else row, decisions=smallest)


def shown(fault: Row, device: str = "") -> str:
    """The text of a Python file that shows a fault."""
    kernel = generate_kernel(RecordedChoices.replay(fault.decisions))
    title = f"{fault.level}: {fault.problems[0].splitlines()[0]}"
    return reproducer(kernel, fault.seed, fault.decisions, Task(fault.seed).target, title, device)


def first_finding(seeds: Sequence[int], examine: Callable[[Task], Row] = examine_task) -> Iterator[Row]:
    """The rows of seeds, examined in this process, up to the first finding."""
    for seed in seeds:
        row = examine(Task(seed))
        yield row
        if row.state == "finding":
            return
