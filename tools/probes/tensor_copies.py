"""Compare bulk and tensor copies on a machine with the emulator's, byte by byte, and tensor maps with the driver's.

    python -m tools.probes.tensor_copies --device cuda --freeze tests/runtime/data/copies-sm_90a.json

Each of `copy_cases.COPIES` copies boxes between an array and shared memory, which is then compared whole, as the array
is after a store. A GPU's driver makes the tensor maps; of `map_cases.MAPS` it should refuse those that the emulator
refuses. What is frozen the tests replay on the emulator. Of a numbered array it tells where what differs came from.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter import MemoryAccessError
from tilewright.runtime import ArgumentError, Im2colMap

from ..options import new_file
from .command import parsed, probe_parser
from .copies import At, Copy
from .copy_cases import COPIES
from .copy_kernels import SIZE, STATUS, THREADS, action_of, kernel_text
from .machines import Argument, Columns, Machine, Map, aligned, kept_machine
from .map_cases import GOOD, GOOD_IM2COL, IM2COL_MAPS, MAPS
from .traces import trace
from .workers import Failure, answers

Array = NDArray[Any]

_SEED = 7
_SHOWN, _ELEMENTS, _BOXES = 4, 4, 3
"""How many cases of a kind that differ are printed, and how many elements or boxes of each."""


@dataclass(frozen=True, slots=True)
class Found:
    """The bytes that one case left, and how many times 16 bytes each load was short of."""

    octets: Array
    shortages: Array

    @property
    def short(self) -> int:
        """How many loads had other numbers of bytes than expected."""
        return int(np.count_nonzero(self.shortages))

    @property
    def digest(self) -> str:
        """Of the bytes."""
        return hashlib.sha256(self.octets.tobytes()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Compared:
    """A case on a machine beside the emulator: bytes, how many differ, which first, and what `Found` says."""

    nbytes: int
    differ: int
    example: str
    short: int
    digest: str


def _map(copy: Copy, array: Array) -> Map | Columns:
    if copy.corners:
        half, (channels, pixels) = len(copy.corners) // 2, copy.box
        tensor = Im2colMap(
            copy.dtype, 0, copy.shape, copy.strides[:-1], copy.corners[:half], copy.corners[half:], channels, pixels,
            copy.steps, copy.interleave, copy.swizzle, copy.promotion, copy.fill,
        )  # fmt: skip
        return Columns(array, tensor)
    return Map(
        array, copy.dtype, copy.shape, copy.strides[:-1], copy.box, copy.steps or (1,) * len(copy.box),
        interleave=copy.interleave, swizzle=copy.swizzle, l2_promotion=copy.promotion, fill=copy.fill,
    )  # fmt: skip


def _numbers(copy: Copy, ats: Sequence[At], expected: int) -> Array:
    out = np.zeros((len(ats), 16), np.int32)
    for row, at in zip(out, ats, strict=True):
        row[: len(copy.shape)] = at[: len(copy.shape)]
        row[5:7] = expected or copy.copied, copy.start
        row[8 : 8 + len(at) - len(copy.shape)] = at[len(copy.shape) :]
    return out


def performed(machine: Machine, copy: Copy, expected: int = 0) -> Found:
    """The bytes that a case leaves on a machine: shared memory after loads, the array after each store.

    expected: how many bytes a load waits for, if not as many as it should have.
    """
    bulk = copy.action.startswith("bulk")
    text, image = kernel_text(copy, machine.target), aligned(copy.octets(SIZE, _SEED))
    before = copy.octets(copy.nbytes, _SEED + 1)
    if action_of(copy)[1]:
        array, out = aligned(before), np.zeros((len(copy.ats), SIZE + STATUS), np.uint8)
        first: Argument = array if bulk else _map(copy, array)
        machine.run(text, len(copy.ats), THREADS, [first, _numbers(copy, copy.ats, expected), image, out])
        status = out[:, SIZE : SIZE + 4].copy().view(np.uint32)
        return Found(out[:, :SIZE], status.reshape(-1))
    after: list[Array] = []
    for at in copy.ats:
        array = aligned(before)
        first = array if bulk else _map(copy, array)
        machine.run(text, 1, THREADS, [first, _numbers(copy, [at], expected), image, array])
        after.append(array)
    return Found(np.stack(after), np.zeros(0, np.uint32))


def compared(case: tuple[str, int]) -> Compared:
    """One case on a device and on the emulator."""
    device, number = case
    copy = COPIES[number]
    if copy.refused:
        return _taken(kept_machine(device), copy)
    found = performed(kept_machine(device), copy)
    came = _came(kept_machine(device), copy) if found.short else ""
    try:
        want = performed(_emulator(), copy)
    except (ArgumentError, MemoryAccessError) as error:
        told = "".join(
            f"\n        {at}: {trace(copy, *pair)}" for at, pair in zip(copy.ats, _beside(copy, found), strict=True)
        )
        return Compared(
            found.octets.size, found.octets.size, f"{came}emulator: {error}{told}", found.short, found.digest
        )
    wrong = np.argwhere(found.octets != want.octets)
    return Compared(found.octets.size, len(wrong), came + _example(copy, wrong, found, want), found.short, found.digest)


_MORE = 65520
"""Bytes that no load has."""


def _came(machine: Machine, copy: Copy) -> str:
    """How many bytes the loads of a case have, where they are not what they should be."""
    nbytes = sorted({_MORE - 16 * int(missing) for missing in performed(machine, copy, _MORE).shortages})
    return f"{', '.join(map(str, nbytes))} bytes come, not {copy.copied}; "


def _beside(copy: Copy, found: Found) -> list[tuple[Array, Array]]:
    """What each box of a case has left, beside what was there before."""
    before = copy.octets(SIZE, _SEED) if "load" in copy.action else copy.octets(copy.nbytes, _SEED + 1)
    return [(row, before) for row in found.octets]


def _taken(machine: Machine, copy: Copy) -> Compared:
    """A case that was to be refused and is not, by the emulator or the machine; if it is, the error is the answer."""
    try:
        performed(_emulator(), copy)
    except MemoryAccessError:
        performed(machine, copy)
        return Compared(0, 1, "the machine takes it", 0, "")
    return Compared(0, 1, "the emulator takes it", 0, "")


@cache
def _emulator() -> Machine:
    return kept_machine("emulator:sm_90a")


def _example(copy: Copy, wrong: Array, found: Found, want: Found) -> str:
    """The first elements that differ: where, and what they are on both."""
    if copy.numbered:
        return _traces(copy, np.unique(wrong[:, 0]).tolist()[:_BOXES], found, want)
    size, told = copy.itemsize, list[str]()
    for row, element in np.unique(wrong // [1, size], axis=0)[:_ELEMENTS].tolist():
        place = slice(element * size, element * size + size)
        got, expected = (x.octets[row, place][::-1].tobytes().hex() for x in (found, want))
        told.append(f"at {copy.ats[row]} byte {element * size}: {got}, emulator {expected}")
    return "; ".join(told)


def _traces(copy: Copy, rows: Sequence[int], found: Found, want: Found) -> str:
    """Where what some boxes of a case left came from, on the machine and the emulator."""
    pairs, ours = _beside(copy, found), _beside(copy, want)
    return "".join(
        f"\n        at {copy.ats[row]}: {trace(copy, *pairs[row])}\n            emulator: {trace(copy, *ours[row])}"
        for row in rows
    )


# --- tensor maps ---


def refusals(machine: Any) -> list[str]:
    """The maps of `MAPS` and `IM2COL_MAPS` that the machine's driver and the emulator do not both take or refuse."""
    lines: list[str] = []
    for name, offset, tensor in _maps():
        theirs, ours = machine.refusal(tensor, offset), _emulator_refusal(tensor, offset)
        if bool(theirs) != bool(ours):
            lines.append(f"{name}: {theirs or 'taken'}; emulator: {ours or 'taken'}")
    return lines


def _maps() -> Iterator[tuple[str, int, Map | Columns]]:
    """The tensor maps by name, with how far the array is from where it should be."""
    nowhere = np.zeros(1, np.uint8)
    for name, changed in MAPS.items():
        fields: dict[str, Any] = {**GOOD, **changed}
        yield name, fields.pop("offset", 0), Map(nowhere, **fields)
    for name, changed in IM2COL_MAPS.items():
        fields: dict[str, Any] = {"address": 0, **GOOD_IM2COL, **changed}
        yield f"im2col, {name}", fields.pop("offset", 0), Columns(nowhere, Im2colMap(**fields))


def _emulator_refusal(tensor: Map | Columns, offset: int) -> str:
    emulator: Any = _emulator()
    return emulator.refusal(tensor, offset)


def maps_compared(device: str) -> list[str]:
    """`refusals` of a device by name."""
    return refusals(kept_machine(device))


# --- the command ---


def report(chosen: Sequence[int], found: Sequence[Any], shown: int = _SHOWN) -> list[str]:
    """The lines to print: a kind each, with some of its cases that differ or failed."""
    lines: list[str] = []
    for kind in dict.fromkeys(COPIES[number].kind for number in chosen):
        some = [(COPIES[n], answer) for n, answer in zip(chosen, found, strict=True) if COPIES[n].kind == kind]
        whole = [answer for _, answer in some if isinstance(answer, Compared)]
        nbytes, boxes = sum(answer.nbytes for answer in whole), sum(len(copy.ats) for copy, _ in some)
        bad = [(copy, answer) for copy, answer in some if not _right(copy, answer)]
        verdict = f"{len(bad)} cases differ" if bad else "equal"
        lines.append(f"{kind:<24} {len(some):>3} cases {boxes:>5} boxes {nbytes:>11,} bytes {verdict}")
        lines += [f"    {copy.label}: {_what(answer)}" for copy, answer in bad[:shown]]
    return lines


_REFUSALS = ("MemoryAccessError", "CUDA_ERROR_ILLEGAL_INSTRUCTION")


def _right(copy: Copy, answer: Any) -> bool:
    if copy.refused:
        return isinstance(answer, Failure) and any(name in answer.what for name in _REFUSALS)
    return isinstance(answer, Compared) and not answer.differ and not answer.short


def _what(answer: Any) -> str:
    if isinstance(answer, Failure):
        return f"FAILED: {answer.what}"
    short = f"; {answer.short} loads of other lengths" if answer.short else ""
    return f"{answer.differ:,} bytes, {answer.example}{short}"


def digests(device: str, copies: Sequence[Copy] = COPIES) -> dict[str, str]:
    """What cases leave on a device, by label: to be compared later without a GPU."""
    return {copy.label: performed(kept_machine(device), copy).digest for copy in copies if not copy.refused}


def main(words: Sequence[str] | None = None) -> int:
    """The number of cases that differ or failed, and of maps that differ."""
    parser = probe_parser(__doc__, "the kinds to take")
    parser.add_argument("--freeze", type=new_file, help="write digests of the results to a file")
    parser.add_argument("--details", type=new_file, help="write all cases that differ to a file")
    arguments = parsed(parser, words)
    started = time.perf_counter()
    chosen = [n for n, copy in enumerate(COPIES) if re.search(arguments.rows, copy.kind)]
    found = list(answers(compared, [(arguments.device, n) for n in chosen], arguments.jobs))
    print(f"copies on {arguments.device}: {len(chosen)} cases")
    print("\n".join(report(chosen, found)))
    (maps,) = answers(maps_compared, [arguments.device], 1 if arguments.jobs == 1 else 2)
    different = [maps.what] if isinstance(maps, Failure) else maps
    print(
        f"{len(MAPS) + len(IM2COL_MAPS)} tensor maps, {len(different)} of which the driver takes or refuses otherwise"
    )
    print("".join(f"    {line}\n" for line in different), end="")
    if arguments.details:
        arguments.details.write_text("\n".join([*report(chosen, found, len(COPIES)), *different]) + "\n")
    if arguments.freeze:
        whole = [(COPIES[n].label, a) for n, a in zip(chosen, found, strict=True) if isinstance(a, Compared)]
        kept = {label: answer.digest for label, answer in whole}
        arguments.freeze.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{time.perf_counter() - started:.0f} s", flush=True)
    return sum(not _right(COPIES[n], answer) for n, answer in zip(chosen, found, strict=True)) + len(different)


if __name__ == "__main__":
    sys.exit(main())
