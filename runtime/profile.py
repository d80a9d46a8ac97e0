"""What a kernel did on the emulator, line by line: the values that `kernel.profile` returns, as text and for pandas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from ._lazy import pandas_module
from .errors import OptionError, did_you_mean

#: The columns of instructions, and the classes that the counters tell apart in each.
GROUPS: dict[str, tuple[str, ...]] = {
    "memory": ("load", "store", "atomic", "async", "prefetch"),
    "arithmetic": ("integer", "float", "bits", "compare", "convert", "move"),
    "tensor": ("mma",),
    "exchange": ("warp",),
    "barrier": ("barrier", "fence"),
    "control": ("control",),
}


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """What a line of the source cost, or all lines together; every number counts warps, or what warps asked for.

    file, line, text: the place; the file is "" in the total, and for what was compiled without a line. A line of a
    function that another calls counts as itself, not as the line of the call.
    classes: instructions by class; guarded ones count whether or not their guard held.
    loads, load_sectors; stores, store_sectors: requests (one instruction of one warp each) to global memory, and the
    32-byte sectors that they touch; atomics are stores, `cp.async` is a load.
    shared, wavefronts, conflicts: requests to shared memory, how often its banks answered, and how many of these
    answers were beyond those that requests of this width need.
    waits: barriers that a warp waited at.
    """

    file: str
    line: int
    text: str
    classes: Mapping[str, int] = field(default_factory=dict[str, int])
    loads: int = 0
    load_sectors: int = 0
    stores: int = 0
    store_sectors: int = 0
    shared: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    waits: int = 0

    def __add__(self, other: ProfileRow) -> ProfileRow:
        """The counts of both, at the place of the first."""
        classes = dict(Counter(self.classes) + Counter(other.classes))
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return replace(self, classes=classes, **sums)

    @property
    def instructions(self) -> int:
        """All instructions."""
        return sum(self.classes.values())

    @property
    def memory(self) -> int:
        """Instructions that access memory of any kind, parameters too."""
        return self.group("memory")

    @property
    def arithmetic(self) -> int:
        """Instructions that compute or move values within a thread."""
        return self.group("arithmetic")

    @property
    def tensor(self) -> int:
        """Matrix instructions."""
        return self.group("tensor")

    @property
    def exchange(self) -> int:
        """Shuffles, votes and the like: what the threads of a warp do together."""
        return self.group("exchange")

    @property
    def barrier(self) -> int:
        """Barriers and fences, those that only arrive too."""
        return self.group("barrier")

    @property
    def control(self) -> int:
        """Branches and exits."""
        return self.group("control")

    @property
    def sectors_per_load(self) -> float:
        """Sectors that a load from global memory touches; nan without one."""
        return _ratio(self.load_sectors, self.loads)

    @property
    def sectors_per_store(self) -> float:
        """Sectors that a store to global memory touches; nan without one."""
        return _ratio(self.store_sectors, self.stores)

    def group(self, name: str) -> int:
        """The instructions of a column of GROUPS."""
        return sum(self.classes.get(family, 0) for family in GROUPS[name])


_COUNTS = tuple(each.name for each in fields(ProfileRow) if each.default == 0)


def _ratio(upper: int, lower: int) -> float:
    return upper / lower if lower else float("nan")


#: The columns of tables and frames, each an attribute of a row.
PROFILE_COLUMNS = (
    "instructions", *GROUPS, "loads", "load_sectors", "sectors_per_load", "stores", "store_sectors",
    "sectors_per_store", "shared", "wavefronts", "conflicts", "waits",
)  # fmt: skip


class Resources(NamedTuple):
    """What a compiled kernel takes: registers and spilled bytes of a thread, bytes of shared memory of a block.

    Registers and spills are None where the assembler is missing, or refuses the kernel.
    """

    num_warps: int
    registers: int | None
    spills: int | None
    shared: int

    def __str__(self) -> str:
        if self.registers is None:
            used = "registers unknown"
        else:
            used = f"{self.registers} registers, {self.spills} bytes spilled"
        return f"{self.num_warps} warps, {used}, {self.shared} bytes of shared memory"


@dataclass(frozen=True, slots=True)
class Profile:
    """Launches of one kernel, compiled in one way, on one device: what they took, by line of the source.

    `key` is that of the compiled kernel, `device` such as "emulator:sm_90a", `programs` those of all launches
    together, `rows` are in the order of files and lines. `str()` is the table.
    """

    kernel: str
    key: str
    device: str
    assumptions: Mapping[str, str]
    resources: Resources
    launches: int
    programs: int
    rows: tuple[ProfileRow, ...]

    @property
    def target(self) -> str:
        """What the kernel was compiled for, such as "sm_90a"."""
        return self.device.partition(":")[2]

    @property
    def total(self) -> ProfileRow:
        """All rows together."""
        return sum(self.rows, ProfileRow("", 0, "all lines"))

    def __add__(self, other: Profile) -> Profile:
        """The launches of both. Raises ValueError for profiles of two kernels, specializations or devices."""
        if (self.key, self.device) != (other.key, other.device):
            raise ValueError(f"profiles of {self.kernel} and {other.kernel} that were compiled apart have no sum")
        return replace(
            self,
            launches=self.launches + other.launches,
            programs=self.programs + other.programs,
            rows=merged((*self.rows, *other.rows)),
        )

    def __str__(self) -> str:
        return self.table()

    def table(self, sort: str = "line", top: int | None = None) -> str:
        """A heading, the rows and their sum as text; columns without a number are left out.

        `sort` is "line" or one of PROFILE_COLUMNS, whose largest number comes first; `top` keeps that many rows, but
        the sum is always that of all. Raises OptionError.
        """
        rows = self.sorted(sort)
        body = [*(rows if top is None else rows[:top]), self.total]
        shown = [name for name in PROFILE_COLUMNS if any(_cell(row, name) for row in body)]
        heads = [("", "line"), *(_head(name) for name in shown), ("", "source")]
        cells = [[_place(row), *(_cell(row, name) for name in shown), row.text if row.file else ""] for row in body]
        lines = [*([head[k] for head in heads] for k in (0, 1)), *cells]
        aligned = [str.ljust, *([str.rjust] * len(shown)), str.ljust]
        widths = [max(len(line[k]) for line in lines) for k in range(len(heads))]
        text = ["  ".join(a(c, w) for a, c, w in zip(aligned, line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join([*self._heading(), *text])

    def sorted(self, sort: str) -> list[ProfileRow]:
        """The rows by line, or by a column, the largest first. Raises OptionError."""
        if sort != "line" and sort not in PROFILE_COLUMNS:
            raise OptionError(f"profiles have no column {sort!r}", did_you_mean(sort, ("line", *PROFILE_COLUMNS)))
        if sort == "line":
            return list(self.rows)
        return sorted(self.rows, key=lambda row: _number(row, sort), reverse=True)

    def _heading(self) -> tuple[str, str]:
        assumed = ", ".join(f"{name}: {text}" for name, text in self.assumptions.items())
        ran = f"{_counted(self.launches, 'launch', 'launches')}, {_counted(self.programs, 'program', 'programs')}"
        return f"{self.kernel}({assumed})", f"on {self.device}: {ran}; {self.resources}"

    def to_pandas(self) -> Any:
        """The rows as a DataFrame: `file`, `line`, `text` and PROFILE_COLUMNS. Raises MissingPackage without pandas."""
        names = ("file", "line", "text", *PROFILE_COLUMNS)
        data = {name: [getattr(row, name) for row in self.rows] for name in names}
        return pandas_module("Profile.to_pandas").DataFrame(data)


def merged(rows: tuple[ProfileRow, ...]) -> tuple[ProfileRow, ...]:
    """Rows in the order of files and lines, those of one line as one."""
    found: dict[tuple[str, int], ProfileRow] = {}
    for row in rows:
        place = row.file, row.line
        found[place] = found[place] + row if place in found else row
    return tuple(found[place] for place in sorted(found))


def _number(row: ProfileRow, name: str) -> float:
    """A column's number, 0 where it has none: nan would have no place in an order."""
    value: float = getattr(row, name)
    return value if value == value else 0


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _head(name: str) -> tuple[str, str]:
    """The two lines over a column."""
    *above, last = name.split("_")
    return " ".join(above), last


def _place(row: ProfileRow) -> str:
    return f"{Path(row.file).name}:{row.line}" if row.file else row.text


def _cell(row: ProfileRow, name: str) -> str:
    """A number of a table, "" for none."""
    value = _number(row, name)
    if not value:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
