"""Campaigns of kernels: seeds in child processes, results in a file that a later run goes on with, and reproducers."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
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
    """A kernel to examine, of a seed, or of decisions where there are any; on a device of the runtime too, if named."""

    seed: int
    decisions: Decisions = ()
    device: str = ""

    @property
    def target(self) -> str:
        """The target, by rotation."""
        return TARGETS[self.seed % len(TARGETS)]

    def choices(self) -> RecordedChoices:
        return RecordedChoices.replay(self.decisions) if self.decisions else RecordedChoices(self.seed)


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

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """What findings that are probably one fault share: the level, and the operations."""
        return self.level, self.signature

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
    return Row(result.task.seed, "finding", "crash", (result.how,), decisions=result.task.decisions)


@dataclass(slots=True)
class Summary:
    """What a campaign did: its rows, of which `new` were run in these seconds."""

    rows: list[Row] = field(default_factory=list[Row])
    new: int = 0
    seconds: float = 0.0
    reproducers: list[Path] = field(default_factory=list[Path])

    @property
    def findings(self) -> dict[tuple[str, tuple[str, ...]], list[Row]]:
        """The findings by their keys."""
        found: dict[tuple[str, tuple[str, ...]], list[Row]] = {}
        for row in self.rows:
            if row.state == "finding":
                found.setdefault(row.key, []).append(row)
        return found

    def operations(self) -> Counter[str]:
        """In how many kernels each operation occurred."""
        return Counter(name for row in self.rows for name in row.operations)

    def __str__(self) -> str:
        states = Counter(row.state for row in self.rows)
        rate = f", {self.new} of them now in {self.seconds:.0f} s ({60 * self.new / (self.seconds or 1):.0f} a minute)"
        counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
        lines = [f"{len(self.rows)} kernels{rate}: {counts}"]
        for (level, signature), rows in self.findings.items():
            lines += [f"{level} [{' '.join(signature)}]: seeds {', '.join(str(row.seed) for row in rows[:8])}"]
            lines += [f"    {problem}" for problem in rows[0].problems]
        return "\n".join([*lines, *map(str, self.reproducers)])


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

    Results go to `folder/results.jsonl` one by one; seeds that are there already are not run again. Of each kind of
    finding the first is reduced, by `attempts` runs at most, and written to a Python file in the folder. `examine` is
    what the children do, a function of a module.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.jsonl"
    wanted = list(seeds)
    known = {row.seed: row for row in stored_rows(path)}
    summary, began = Summary([known[seed] for seed in wanted if seed in known]), time.perf_counter()
    old = {row.key for row in known.values() if row.state == "finding"}
    with Workers(examine, jobs, patience) as workers:
        tasks = [Task(seed, (), device) for seed in wanted if seed not in known]
        with path.open("a", encoding="utf-8") as file:
            if known:
                file.write("\n")  # the last line may have been cut short
            for row in map(row_of, workers.run(tasks)):
                file.write(json.dumps(asdict(row)) + "\n")
                file.flush()
                summary.rows.append(row)
                summary.new += 1
        summary.seconds = time.perf_counter() - began
        for key, rows in summary.findings.items():
            if key not in old and key[0] != "generator":
                summary.reproducers.append(_reproduce(rows[0], folder, device, attempts, workers))
    return summary


def _reproduce(row: Row, folder: Path, device: str, attempts: int, workers: Workers[Task, Row]) -> Path:
    """Reduce a finding and write it to a file."""

    def shows(decisions: Decisions) -> Decisions | None:
        again = row_of(workers.one(Task(row.seed, decisions, device)))
        return (again.decisions or decisions) if again.level == row.level else None

    task = Task(row.seed, row.decisions, device)
    choices = task.choices()
    generate_kernel(choices)
    smallest = reduce_decisions(choices.drawn, shows, attempts)
    kernel = generate_kernel(RecordedChoices.replay(smallest))
    final = row_of(workers.one(Task(row.seed, smallest, device)))
    name = re.sub(r"\W+", "_", row.level).strip("_")
    path = folder / f"{name}_{row.seed}.py"
    title = f"{row.level}: {(final.problems or row.problems)[0].splitlines()[0]}"
    path.write_text(reproducer(kernel, row.seed, smallest, task.target, title, device), encoding="utf-8")
    return path


def first_finding(seeds: Sequence[int], examine: Callable[[Task], Row] = examine_task) -> Iterator[Row]:
    """The rows of seeds, examined in this process, up to the first finding."""
    for seed in seeds:
        row = examine(Task(seed))
        yield row
        if row.state == "finding":
            return
