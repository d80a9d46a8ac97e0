"""What sweeps did, in numbers: a tally for each test, and the table of all of them at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.compiler.sweep_cells import Cell
from tilewright.compiler import LoweringError
from tilewright.compiler.lower.registry import LOWERINGS

#: The name under which a test's report carries its tally.
PROPERTY = "sweep"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of one kernel: how many operations and elements it had, how many elements have other bits than the
    reference, the largest share of what the contract allows that one of these takes, and what is wrong."""

    operations: int
    elements: int
    differing: int
    share: float
    wrong: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """The sum of a row's judgements, and the kernels that were refused, by name."""

    row: str
    kernels: int = 0
    operations: int = 0
    elements: int = 0
    differing: int = 0
    share: float = 0.0
    refused: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])

    def run(self, cell: Cell, num_warps: int, judged: Callable[[], Judgement]) -> None:
        """Take one more kernel into account. One that is refused must be by the table of lowerings.

        Raises what `judged` raises beside refusals, with a note that names the kernel.
        """
        try:
            more = judged()
        except LoweringError as error:
            self.refused.append(str(cell))
            if cell.operands[0] not in LOWERINGS[cell.row].refused:
                self.wrong.append(str(error))
            return
        except Exception as error:
            error.add_note(f"in the sweep: {cell}, {num_warps} warps")
            raise
        self.kernels += 1
        self.operations += more.operations
        self.elements += more.elements
        self.differing += more.differing
        self.share = max(self.share, more.share)
        self.wrong += more.wrong


def together(tallies: Iterable[Tally], row: str) -> Tally:
    """Several tallies as one."""
    total = Tally(row)
    for each in tallies:
        for name in ("kernels", "operations", "elements", "differing", "refused"):
            setattr(total, name, getattr(total, name) + getattr(each, name))
        total.share = max(total.share, each.share)
        total.wrong += each.wrong
    return total


def table(properties: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """The lines of the table, one a row, for the properties of all tests' reports; none without a sweep."""
    tallies = [Tally(**value) for name, value in properties if name == PROPERTY]
    if not tallies:
        return
    rows = [together((t for t in tallies if t.row == row), row) for row in sorted({t.row for t in tallies})]
    yield line("row", "kernels", "operations", "elements", "other bits", "of allowed", "wrong")
    for each in (*rows, together(rows, "all")):
        share = f"{each.share:.0%}" if each.differing else "-"
        numbers = each.kernels, each.operations, each.elements, each.differing, share, len(each.wrong)
        yield line(each.row, *numbers)
    refused = Counter(name for each in rows for name in each.refused)
    names = ", ".join(f"{count} of {name}" for name, count in refused.items())
    yield f"refused: {names or 'none'}"


def line(first: str, *others: object) -> str:
    """One line of the table."""
    return f"{first:<13}" + "".join(f"{each!s:>11}" for each in others)


def as_property(tally: Tally) -> dict[str, Any]:
    """What a report can carry between processes."""
    return asdict(tally)
