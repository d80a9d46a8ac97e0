"""What an op's meaning gets to know about the run: which programs it stands for, their memory, and the options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

import numpy as np
import numpy.typing as npt

from tilewright.lang import Location

from .errors import OutOfFuelError, Program

if TYPE_CHECKING:
    from .memory import Memory

Grid = tuple[int, int, int]
Index = npt.NDArray[np.intp]
Programs = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run, never what the result is (`seed` and `mma` pick one of those that a kernel must allow).

    debug: device assertions are checked, as in a kernel compiled with debug.
    seed: 0 runs coroutines round-robin; any other seed draws a fair pseudo-random order, the same on every machine.
    fuel: how many loop iterations one launch may take, each counted once a batch; on the PTX emulator how many
    instructions, each counted once for all threads that run it together; None for no limit.
    patience: full rounds without a change of memory after which programs that spin with changing locals count as stuck.
    chunk_bytes: about how large the largest tile of a batch may be; it decides how many programs run at once. On the
    PTX emulator a thread counts as 64 bytes.
    stdout: where device prints go; None for `sys.stdout`.
    mma: how the PTX emulator adds the products of matrix instructions: `exact` rounds their real sum once, `hardware`
    cuts off as the tensor cores of the module's target do.
    """

    debug: bool = True
    seed: int = 0
    fuel: int | None = 10_000_000
    patience: int = 1_000
    chunk_bytes: int = 1 << 21
    stdout: TextIO | None = None
    mma: Literal["exact", "hardware"] = "exact"

    def __post_init__(self) -> None:
        """Raises ValueError for an arithmetic that there is not."""
        if self.mma not in ("exact", "hardware"):
            raise ValueError(f"mma is 'exact' or 'hardware', found {self.mma!r}")


class Fuel:
    """What is left of a launch's budget of loop iterations."""

    __slots__ = ("left", "budget")

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self.left = float("inf") if budget is None else budget


@dataclass(slots=True, eq=False)
class Batch:
    """`count` programs that run an op together; row i of a value belongs to the program `program(i)`.

    programs: the index along each grid axis, int32 of shape (count,). constant: which of the three axes have one index
    for the whole batch, as far as known.
    """

    count: int
    programs: Programs
    grid: Grid
    memory: Memory
    options: Options
    stdout: TextIO
    fuel: Fuel
    constant: tuple[bool, bool, bool] = (False, False, False)

    def program(self, row: int) -> Program:
        """The program of a row, as (x, y, z)."""
        x, y, z = (int(axis[row]) for axis in self.programs)
        return (x, y, z)

    def program_id(self, axis: int) -> npt.NDArray[np.int32]:
        """The index along a grid axis: shape (count,), or (1,) where it is the same for all."""
        index = self.programs[axis]
        return index[:1] if self.constant[axis] else index

    def burn(self, location: Location) -> None:
        """Count one iteration of a loop. Raises OutOfFuelError, with the loop's place, when none is left."""
        self.fuel.left -= 1
        if self.fuel.left < 0:
            what = f"still running after {self.fuel.budget} iterations, the budget of a launch (TILEWRIGHT_FUEL)"
            raise OutOfFuelError(what, location, self.program(0))

    def take(self, rows: Index) -> Batch:
        """The batch of some of the rows, in the order given; a row may come more than once."""
        x, y, z = self.programs
        programs = (x[rows], y[rows], z[rows])
        return Batch(len(rows), programs, self.grid, self.memory, self.options, self.stdout, self.fuel, self.constant)
