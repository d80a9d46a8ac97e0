"""Fixed-seed campaigns: cases of every row, at every level, against the oracle; and reproducers of what is found."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from tilewright.lang import TilewrightError, verify

from .cases import Case, CaseText, Outcome
from .choices import RecordedChoices
from .levels import LEVELS
from .oracles import check
from .strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that went wrong: how, and all that it takes to run it again."""

    row: str
    seed: int
    choices: tuple[int, ...]
    level: str
    problems: tuple[str, ...]
    text: CaseText | None

    def __str__(self) -> str:
        return f"{self.row} (seed {self.seed}, {self.level}): {'; '.join(self.problems)}"


@dataclass(slots=True)
class Report:
    """What a campaign did: its findings, how many cases ran to their end or stopped as they should, and how long."""

    findings: list[Finding] = field(default_factory=list[Finding])
    cases: int = 0
    stopped: Counter[str] = field(default_factory=Counter[str])
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Cases a second, each at every level."""
        return self.cases / self.seconds if self.seconds else 0.0

    @property
    def validity(self) -> float:
        """The share of cases that ran to their end."""
        return 1 - sum(self.stopped.values()) / self.cases if self.cases else 1.0

    def __str__(self) -> str:
        ends = ", ".join(f"{count} stopped by {kind}" for kind, count in sorted(self.stopped.items()))
        lines = [
            f"{self.cases} cases in {self.seconds:.1f} s ({self.rate:.0f} a second), {len(self.findings)} findings",
            f"{100 * self.validity:.1f}% ran to their end{f' ({ends})' if ends else ''}",
        ]
        return "\n".join([*lines, *map(str, self.findings)])


def examine(case: Case) -> tuple[str, Outcome | None, list[str]]:
    """Run a case at every level and compare; the level that is wrong ("" for none), its outcome and the problems."""
    first: Outcome | None = None
    for name, level in LEVELS.items():
        try:
            outcome = level(case)
        except Exception as error:  # whatever an executor raises that is no outcome is a finding
            return name, None, [f"{type(error).__name__}: {error}", _where(error)]
        if first is None:
            first = outcome
            if mismatches := check(case, outcome):
                return name, outcome, [str(mismatch) for mismatch in mismatches]
        elif outcome.bits() != first.bits():
            return name, outcome, [f"other bits than at {next(iter(LEVELS))}"]
    return "", first, []


def _where(error: Exception) -> str:
    """The innermost line of a traceback."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"at {Path(last.filename).name}:{last.lineno} in {last.name}"


def seed_of(row: str, seed: int) -> int:
    """The seed of one case: rows that share a seed get different streams, on every machine the same."""
    return seed << 32 | crc32(row.encode())


def run_campaign(seeds: Iterable[int], rows: Sequence[str] | None = None) -> Report:
    """One case of each row (None: of all) for each seed, run at every level and checked."""
    report = Report()
    began = time.perf_counter()
    for seed in seeds:
        for row in STRATEGIES if rows is None else rows:
            _run_one(report, row, seed)
    report.seconds = time.perf_counter() - began
    return report


def _run_one(report: Report, row: str, seed: int) -> None:
    choices = RecordedChoices(seed_of(row, seed))
    report.cases += 1
    try:
        case = STRATEGIES[row](choices)
        verify(case.module)
    except (TilewrightError, TypeError, ValueError) as error:
        problems = (f"{type(error).__name__}: {error}", _where(error))
        report.findings.append(Finding(row, seed, tuple(choices.drawn), "generator", problems, None))
        return
    level, outcome, problems = examine(case)
    if level:
        text = CaseText.of(case)
        report.findings.append(Finding(row, seed, tuple(choices.drawn), level, tuple(problems), text))
    elif outcome is not None and outcome.stopped:
        report.stopped[outcome.stopped] += 1


_REPRODUCER = '''\
"""{title}

Found by seed {seed} of {row}. Run this file: it prints what is wrong, and exits with 0 when nothing is any more.
"""

import sys

from tilewright.difftest import CaseText, examine
from tilewright.difftest.cases import ArgumentText

#: The decisions that made the case, for `RecordedChoices.replay` (of the generator as it was then).
CHOICES = {choices}

IR = """\\
{ir}"""

CASE = CaseText(
    row={row!r},
    ir=IR,
    arguments=(
{arguments}    ),
    grid={grid},
    function={function!r},
    unordered={unordered},
)

level, _, problems = examine(CASE.case())
print("\\n".join([level, *problems]) if level else "no difference")
sys.exit(bool(level))
'''


def write_reproducer(finding: Finding, path: Path) -> Path:
    """Write a Python file that runs the case of a finding again, from its IR and bits. Returns the path.

    Raises ValueError for a finding without a case: one whose generator failed.
    """
    text = finding.text
    if text is None:
        raise ValueError("the generator failed, so there is no case to run again")
    arguments = "".join(f"        {argument!r},\n" for argument in text.arguments)
    source = _REPRODUCER.format(
        title=f"{finding.row} at {finding.level}: {finding.problems[0]}".replace('"""', "'''").replace("\\", "/"),
        seed=finding.seed,
        row=finding.row,
        choices=list(finding.choices),
        ir=text.ir.replace("\\", "\\\\"),
        arguments=arguments,
        grid=text.grid,
        function=text.function,
        unordered=text.unordered,
    )
    path.write_text(source, encoding="utf-8")
    return path
