"""Compare instructions that move or order data on a machine with the emulator, byte by byte, and both with NumPy.

    python -m tools.probes.moves --device cuda --out DIR --jobs 16

Each of `move_rows.moves` is a kernel around one instruction: loads and stores of every state space, width and modifier,
atomics, barriers, fences, addresses, matrices, asynchronous copies and their mbarriers. Printed are the cases that
differ, by instruction, and which probe executes which row of the emulator's table. The folder gets all of it as
`moves.txt`, and as data `moves-TARGET.json`, which belongs into `tests/interpreter/ptx/data`, where tests replay it.
Where the folder has that file, what it says of cases that `--rows` leaves out stays.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tilewright.compiler import AssemblerError, assemble
from tilewright.interpreter.ptx import PtxError
from tilewright.runtime import CudaError

from ..options import folder
from . import coverage
from .command import added, parsed, probe_parser
from .machines import Argument, Emulator, Machine, Map, aligned, kept_machine
from .move_cases import BLOCKS, Arrays, Move, Octets
from .move_rows import moves
from .workers import Failure, answers

TOGETHER = 24
"""Cases of one piece of work; of a piece that fails they are tried one by one."""
SHOWN, WIDTH = 3, 200
"""Cases of an instruction that are printed, and the width of a line; the file has all."""
PATIENCE = 40.0
_TENSOR = aligned(np.arange(64, dtype=np.uint32))


@dataclass(frozen=True, slots=True)
class Piece:
    """Some cases, by number, on a device."""

    device: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: `refused` by the assembler or the emulator, or `failed`, and why; else its bytes' digest.

    `different` and `unexpected` say which bytes are not the emulator's, and which not NumPy's.
    """

    number: int
    digest: str = ""
    different: str = ""
    unexpected: str = ""
    refused: str = ""
    failed: str = ""

    @property
    def wrong(self) -> str:
        """What is wrong, "" for nothing."""
        return self.failed and f"FAILED: {self.failed}" or self.different or self.unexpected or self.refused


def left_by(machine: Machine, move: Move) -> Octets:
    """The bytes that a case leaves where it writes: [threads, SPAN]."""
    arrays = Arrays(move.count)
    read, out = aligned(arrays.read), aligned(arrays.written)
    arguments: list[Argument] = [read.reshape(-1), out.reshape(-1)]
    if "tensor" in move.needs:
        arguments.insert(0, Map(_TENSOR, "uint32", _TENSOR.shape, (), (16,), (1,)))
    machine.run(move.text(machine.target), BLOCKS, move.threads, arguments)
    return out


def expected(move: Move) -> Octets | None:
    """What NumPy says that a case leaves; None for cases that only hardware decides."""
    if move.want is None:
        return None
    arrays = Arrays(move.count)
    out = arrays.written
    move.want(arrays.read, out)
    return out


def digest(octets: Octets) -> str:
    """Of the bytes that a case has left."""
    return hashlib.sha256(octets.tobytes()).hexdigest()[:16]


def _difference(found: Octets, want: Octets | None, whose: str) -> str:
    if want is None or np.array_equal(found, want):
        return ""
    wrong = np.argwhere(found != want)
    thread, byte = wrong[0].tolist()
    word = slice(byte // 8 * 8, byte // 8 * 8 + 8)
    got, other = (x[thread, word][::-1].tobytes().hex() for x in (found, want))
    return f"{len(wrong)} bytes, thread {thread} at {word.start}: {got}, {whose} {other}"


def probed(machine: Machine, number: int) -> Outcome:
    """One case on a machine, on the emulator, and in NumPy."""
    move = moves()[number]
    try:
        if isinstance(machine, Emulator):  # which takes what the assembler might refuse
            assemble("k", move.text(machine.target), machine.target)
        found = left_by(machine, move)
        emulated = left_by(_emulator(machine.target), move)
    except (AssemblerError, PtxError) as error:
        return Outcome(number, refused=_said(error))
    except CudaError:  # which may have cost the process its GPU
        raise
    except Exception as error:  # of this case; the others go on, and the report says so
        return Outcome(number, failed=_said(error))
    different, unexpected = _difference(found, emulated, "emulator"), _difference(found, expected(move), "NumPy")
    return Outcome(number, digest(found), different, unexpected)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


@cache
def _emulator(target: str) -> Emulator:
    return Emulator(target)


def _run(piece: Piece) -> list[Outcome]:
    machine = kept_machine(piece.device)
    return [probed(machine, number) for number in piece.numbers]


def outcomes(device: str, numbers: Sequence[int], jobs: int) -> list[Outcome]:
    """What becomes of some cases, in so many processes."""
    pieces = [Piece(device, tuple(numbers[n : n + TOGETHER])) for n in range(0, len(numbers), TOGETHER)]
    found, again = list[Outcome](), list[Piece]()
    for piece, answer in zip(pieces, answers(_run, pieces, jobs, PATIENCE), strict=True):
        if isinstance(answer, Failure):
            again += [Piece(device, (number,)) for number in piece.numbers]
        else:
            found += answer
    for piece, answer in zip(again, answers(_run, again, jobs, PATIENCE), strict=True):
        found += [Outcome(piece.numbers[0], failed=answer.what)] if isinstance(answer, Failure) else answer
    return sorted(found, key=lambda outcome: outcome.number)


# --- what is said ---


def report(found: Sequence[Outcome], shown: int = SHOWN) -> list[str]:
    """A line for each instruction: cases, and how many are equal, differ, are not as NumPy has it, refused, failed."""
    by_base: dict[str, list[Outcome]] = {}
    for outcome in found:
        by_base.setdefault(moves()[outcome.number].opcode.partition(".")[0], []).append(outcome)
    heads = ("cases", "equal", "differ", "not NumPy's", "refused", "failed")
    lines = [f"{'instruction':<16}" + "".join(f"{head:>12}" for head in heads)]
    for base, some in by_base.items():
        fields = ("different", "unexpected", "refused", "failed")
        counts = [len(some), sum(not o.wrong for o in some), *(sum(bool(getattr(o, f)) for o in some) for f in fields)]
        lines.append(f"{base:<16}" + "".join(f"{count:>12}" for count in counts))
        lines += [f"    {moves()[o.number].name}: {o.wrong}" for o in some if o.wrong][:shown]
    return lines


def frozen(found: Sequence[Outcome]) -> dict[str, Any]:
    """Digests by name, and the names of what was refused."""
    return {
        "digests": {moves()[o.number].name: o.digest for o in found if o.digest},
        "refused": [moves()[o.number].name for o in found if o.refused],
    }


def main(words: Sequence[str] | None = None) -> int:
    """The number of cases that differ, are refused or fail."""
    parser = probe_parser(__doc__, "the cases to take, by their names")
    parser.add_argument("--out", type=folder, help="a folder for what is found")
    arguments = parsed(parser, words)
    started, machine = time.perf_counter(), kept_machine(arguments.device)
    chosen = [number for number, move in enumerate(moves()) if re.search(arguments.rows, move.name)]
    if not chosen:
        parser.error(f"no case has a name like {arguments.rows!r}")
    found = outcomes(arguments.device, chosen, arguments.jobs)
    lines = [f"moves on {getattr(machine, 'description', arguments.device)}: {len(found)} cases", *report(found)]
    lines += ["", *coverage.lines()]
    print("\n".join(line[:WIDTH] for line in lines))
    if arguments.out is not None:
        whole = [*report(found, len(found)), "", *coverage.lines()]
        (arguments.out / "moves.txt").write_text("\n".join(whole) + "\n")
        data = arguments.out / f"moves-{machine.target}.json"
        kept = added(data, (moves()[number].name for number in chosen), frozen(found))
        data.write_text(json.dumps(kept, indent=0) + "\n")
    print(f"{time.perf_counter() - started:.0f} s", flush=True)
    return sum(bool(outcome.wrong) for outcome in found)


if __name__ == "__main__":
    sys.exit(min(main(), 99))
