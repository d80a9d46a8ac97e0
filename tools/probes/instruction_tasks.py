"""The work of the probe of single instructions in pieces, which processes share: some instructions, or one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tilewright.compiler import AssemblerError, assemble
from tilewright.interpreter.ptx import PtxError
from tilewright.runtime import CudaError

from . import approximate, instruction_rows
from .cases import Case, text
from .differences import Differences, compare, digests
from .machines import Emulator, Machine, machine_named
from .measures import Measured
from .questions import execute
from .sweep_machine import SweepMachine, sweeps_on
from .sweeps import SWEEPS, Swept, swept_block
from .workers import Failure, answers

TOGETHER = 24
"""Instructions of one piece of work."""


@dataclass(slots=True)
class Outcome:
    """What became of one instruction: `refused` by the assembler or the emulator, or `failed`, and why; else how it
    compares.

    `digest` is that of the machine's results. `measured` is for those whose rows have bounds.
    """

    name: str
    refused: str = ""
    failed: str = ""
    digest: str = ""
    differences: Differences = field(default_factory=Differences)
    measured: Measured | None = None

    @property
    def equal(self) -> bool:
        """Whether it ran, and gave what the emulator gives, or as near as it must."""
        wrong = self.differences.kinds or self.failed
        return not wrong and (self.measured is None or not self.measured.special)


@dataclass(frozen=True, slots=True)
class Rows:
    """Some instructions, by name, on a device."""

    device: str
    names: tuple[str, ...]

    def run(self) -> list[Outcome]:
        """Execute each, here and there."""
        machine, all_ = _machine(self.device), _cases()
        return [probed(machine, all_[name]) for name in self.names]


@dataclass(frozen=True, slots=True)
class Block:
    """Some operands of a sweep, from `base` on, on a device."""

    device: str
    number: int
    base: int
    count: int

    def run(self) -> dict[str, Swept]:
        """What each instruction of the sweep gave."""
        sweep = SWEEPS[self.number]
        found = swept_block(_sweep_machine(self.device), sweep, self.base, self.count)
        return dict(zip(sweep.opcodes, found, strict=True))


@cache
def _machine(device: str) -> Machine:
    return machine_named(device)


@cache
def _sweep_machine(device: str) -> SweepMachine:
    return sweeps_on(device)


@cache
def _cases() -> dict[str, Case]:
    return {case.name: case for case in instruction_rows.cases()}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def probed(machine: Machine, case: Case) -> Outcome:
    """Execute one instruction on a machine and on the emulator, and compare."""
    outcome = Outcome(case.name)
    try:
        if isinstance(machine, Emulator):  # which takes what the assembler might refuse
            assemble("k", text(case, machine.target, case.count), machine.target)
        operands = case.operands
        octets = execute(machine, case, operands)
        outcome.digest = digests(case, octets, case.count)
        if case.bounds:
            emulated = None if approximate.is_tabled(case) else execute(_emulator(machine), case, operands)
            outcome.measured = approximate.measured(case, operands, octets, emulated)
        else:
            outcome.differences = compare(case, operands, octets, execute(_emulator(machine), case, operands))
    except (AssemblerError, PtxError) as error:
        outcome.refused = _reason(error)
    except CudaError:  # which may have cost the process its GPU
        raise
    except Exception as error:  # of this instruction; the others go on, and the report says so
        outcome.failed = _reason(error)
    return outcome


def _emulator(machine: Machine) -> Emulator:
    return Emulator(machine.target)


def outcomes(device: str, names: Sequence[str], jobs: int) -> list[Outcome]:
    """What becomes of some instructions, in so many processes; those of a piece that failed are tried one by one."""
    pieces = [Rows(device, tuple(names[n : n + TOGETHER])) for n in range(0, len(names), TOGETHER)]
    found, again = list[Outcome](), list[Rows]()
    for piece, answer in zip(pieces, answers(_run, pieces, jobs), strict=True):
        if isinstance(answer, Failure):
            again += [Rows(device, (name,)) for name in piece.names]
        else:
            found += answer
    for piece, answer in zip(again, answers(_run, again, jobs), strict=True):
        found += [Outcome(piece.names[0], failed=answer.what)] if isinstance(answer, Failure) else answer
    return found


def _run(task: Rows | Block) -> Any:
    return task.run()


def swept(blocks: Sequence[Block], jobs: int) -> tuple[dict[str, Swept], list[str]]:
    """What each swept instruction gives, by opcode, and which blocks failed."""
    found, errors = dict[str, Swept](), list[str]()
    for block, answer in zip(blocks, answers(_run, blocks, jobs), strict=True):
        if isinstance(answer, Failure):
            errors.append(f"{SWEEPS[block.number].opcodes[0]}: block at {block.base:#010x}: {answer.what}")
            continue
        for opcode, own in answer.items():
            found.setdefault(opcode, Swept()).merge(own)
    for own in found.values():
        own.measured.worst.done()
    return found, errors
