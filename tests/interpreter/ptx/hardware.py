"""What a GPU gave for single instructions, replayed on the emulator. `tools.probes.instructions` makes the data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.interpreter.numerics import FORMATS, decode
from tilewright.interpreter.ptx.bounds import Bound, errors
from tilewright.interpreter.ptx.table import find
from tilewright.interpreter.ptx.types import TYPES, Array
from tools.probes.differences import digests
from tools.probes.instruction_report import unpacked
from tools.probes.instruction_rows import cases
from tools.probes.machines import Emulator
from tools.probes.questions import execute
from tools.probes.sweep_machine import EmulatedSweeps, kernel_of, missing
from tools.probes.sweeps import BLOCK, BLOCKS, digest

DATA = Path(__file__).parent / "data"
TARGET = "sm_90a"
UNASKED: dict[str, str] = {}
"""Cases that no GPU has been asked about yet, by probe: the `--rows` that ask one. Their answers empty this."""
SPECIAL = {r"^div\.(full|approx)": "7f7ffffe 3f7fffff -> 7f800000, should be 7f7fffff"}
"""Approximate instructions, by pattern, and the one kind of special results that an H200 gives otherwise: an infinity
that is one code above the largest number, which is the quotient, and so within their two units."""


@cache
def frozen(name: str, folder: Path = DATA) -> dict[str, Any]:
    """`instructions`, `answers` or `sweeps` of an H200, which `python -m tools.probes.instructions` writes."""
    return json.loads((folder / f"{name}-{TARGET}.json").read_text())


def unasked(probe: str, names: Iterable[str]) -> list[str]:
    """The cases of a probe that no GPU has been asked about."""
    return [name for name in names if probe in UNASKED and re.search(UNASKED[probe], name)]


def today(count: int) -> int:
    """One of so many parts, another each day."""
    return date.today().toordinal() % count


def replayed(want: Mapping[str, str], chosen: Iterable[str]) -> list[str]:
    """The instructions among the chosen ones for which the emulator gives something else, and what differs."""
    known, machine = {case.name: case for case in cases()}, Emulator(TARGET)
    wrong: list[str] = []
    for name in chosen:
        case = known[name]
        own = digests(case, execute(machine, case, case.operands), case.count)
        if own != want[name]:
            same = own.split()[-1] == want[name].split()[-1]
            wrong.append(f"{name}: {'the bits of NaNs' if same else 'values'}")
    return wrong


def block_replayed(opcode: str, record: Mapping[str, Any], block: int) -> str:
    """What is wrong with the emulator's results for a block of a bit-equal sweep, "" for nothing."""
    if (want := record["blocks"].get(str(block))) is None:
        return f"{opcode}: block {block} was not frozen"
    own = digest(EmulatedSweeps().results([opcode], block * BLOCK, BLOCK)[0])
    return "" if own == want else f"{opcode}: block {block} of {BLOCKS} differs (again: pytest --block {block})"


# --- approximate instructions ---


def excesses(name: str, record: Mapping[str, Any]) -> list[str]:
    """How what was measured of an approximate instruction breaks the promises of its row."""
    form, modifiers = find(name, missing)
    fmt = TYPES[modifiers.get("type") or "f64"].format
    known = any(re.search(pattern, name) and record["example"] == example for pattern, example in SPECIAL.items())
    found = [f"{record['special']} special results: {record['example']}"] if record["special"] and not known else []
    for number, peak in record["peaks"].items():
        if int(number) >= 0 and peak["error"] > (limit := form.bounds[int(number)].limit):
            found.append(
                f"{form.bounds[int(number)].kind} error {peak['error']:.4g} of {limit:.4g} at {peak['operands']}"
            )
    return [f"{name}: {text}" for text in found + _worst(name, form.bounds, record["worst"], fmt)]


@np.errstate(all="ignore")
def _worst(name: str, bounds: tuple[Bound, ...], texts: list[str], fmt: str) -> list[str]:
    """The worst results again, against the emulator's values, which are up to half a unit from the real ones."""
    columns, results = unpacked(texts)
    if not columns:
        return []
    row = FORMATS[fmt]
    numbers = [x.astype(row.carrier).view(row.storage) for x in columns]
    results = results.astype(row.carrier)
    value = decode(np.asarray(kernel_of(name)(*numbers)).view(row.storage), fmt).astype(np.float64)
    half = np.spacing(np.abs(value)) * 2.0 ** (51 - row.mantissa_bits)
    left, found = np.ones(len(results), np.bool_), list[str]()
    for bound in bounds:
        here = left & bound.holds(decode(numbers[bound.operand], fmt))
        left &= ~here
        error = errors(bound.kind, results[here], value[here], fmt)
        bad = error > bound.limit + _slack(bound.kind, half[here], value[here], row.bias)
        found += [
            f"{int(x):x} is {bound.kind} {e:.4g} off" for x, e in zip(columns[0][here][bad], error[bad], strict=True)
        ]
    return found[:3] + (["and no bound speaks of some of the worst"] if left.any() else [])


def _slack(kind: str, half: Array, value: Array, bias: int) -> Array | float:
    """Half a unit in the last place, in the units of a kind of bound."""
    if kind == "ulp":
        return 0.0
    return half if kind == "absolute" else half / np.maximum(np.abs(value), 2.0 ** (1 - bias))
