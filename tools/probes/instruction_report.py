"""What the probe of single instructions found, as lines to read and as data to freeze."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.interpreter.ptx.bounds import Bound

from .cases import Case
from .instruction_tasks import Outcome
from .measures import Measured, Peak, Worst
from .sweeps import SWEEPS, Swept

SHOWN = 20
"""Lines of rows or answers that differ."""


# --- to read ---


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many instructions there are of each outcome."""
    refused, failed = (sum(1 for o in outcomes if getattr(o, kind)) for kind in ("refused", "failed"))
    equal = [o for o in outcomes if o.equal and not o.refused and o.measured is None]
    bounded = sum(o.measured is not None for o in outcomes)
    compared = sum(o.differences.compared for o in equal)
    return (
        f"{len(outcomes)} instructions: {refused} refused by the assembler or the emulator, {failed} failed, "
        f"{bounded} approximate, {len(equal)} equal in {compared:,} results"
    )


def row_lines(outcomes: Sequence[Outcome], cases: Mapping[str, Case]) -> list[str]:
    """A line for each row of the table that differs: kinds, how many, of how many instructions; then an example."""
    by_row: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if not outcome.refused:
            by_row.setdefault(cases[outcome.name].row, []).append(outcome)
    lines: list[tuple[tuple[bool, bool], str]] = []
    for row, some in by_row.items():
        different = [o for o in some if o.differences.kinds or o.failed]
        if not different:
            continue
        kinds = Counter[str]()
        for outcome in different:
            kinds += outcome.differences.kinds
            kinds += Counter({"failed": bool(outcome.failed)})
        worst = min(different, key=lambda o: (not o.differences.kinds["value"], not o.failed, o.name))
        kind = next((k for k in ("value", "zero sign", "NaN bits") if k in worst.differences.examples), "failed")
        example = worst.failed or worst.differences.examples[kind]
        counted = ", ".join(f"{name} {n}" for name, n in sorted(kinds.items()))
        text = f"{len(different)}/{len(some)} of {row[:70]}: {counted}; {worst.name}: {example}"
        lines.append(((not kinds["value"], not kinds["failed"]), text))
    return [text for _, text in sorted(lines)]


def bounded_line(name: str, bounds: Sequence[Bound], measured: Measured) -> str:
    """What was measured of an approximate instruction, against each of its bounds."""
    parts = [f"{measured.furthest.error:.4g} ulp{_where(measured.furthest)}"]
    for number, peak in sorted(measured.peaks.items()):
        if number < 0:
            parts.append(f"without a bound {peak.error:.4g}{_where(peak)}")
        else:
            limit = bounds[number].limit
            verdict = "" if peak.error <= limit else " EXCEEDED"
            parts.append(f"{bounds[number].kind} {peak.error:.4g} of {limit:.4g}{verdict}{_where(peak)}")
    bins = measured.histogram()
    shares = " ".join(f"{step}:{100 * n / measured.compared:.3g}%" for step, n in [*bins.items()][:5])
    special = f"special {measured.special} ({measured.example})" if measured.special else "special equal"
    nans = f"NaN {' '.join(f'{x:x}' for x in sorted(measured.nans)[:3])}" if measured.nans else ""
    return f"{name}: {'; '.join(parts)} | {shares} | {special} {nans}".rstrip()


def _where(peak: Peak) -> str:
    """The operands and the result of a peak."""
    return f" at {'/'.join(f'{x:x}' for x in peak.operands)} = {peak.found:x}" if peak.operands else ""


def sweep_lines(found: Mapping[str, Swept], errors: Iterable[str]) -> list[str]:
    """A line for each swept instruction, and the first few errors."""
    lines: list[str] = []
    for sweep in SWEEPS:
        for opcode in sweep.opcodes:
            if opcode in found:
                swept = found[opcode]
                equal = f" [{len(swept.digests)} blocks bit-equal]" if swept.digests else ""
                lines.append(bounded_line(opcode, sweep.bounds, swept.measured) + equal)
    return lines + [f"failed: {error}" for error in [*errors][:5]]


def answer_lines(found: Mapping[str, Mapping[str, str]], want: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The answers that are not the emulator's."""
    return [
        f"{title}: {name} = {answer}, emulator {want[title][name]}"
        for title, own in found.items()
        for name, answer in own.items()
        if answer != want[title][name]
    ]


# --- to freeze ---


def frozen_rows(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Digests of the exact instructions, what was measured of the others, and which the assembler refused, by name."""
    ran = [o for o in outcomes if not o.refused and not o.failed]
    return {
        "digests": {o.name: o.digest for o in sorted(ran, key=lambda o: o.name) if o.measured is None},
        "approximate": {o.name: frozen(o.measured) for o in ran if o.measured is not None},
        "refused": sorted(o.name for o in outcomes if o.refused),
    }


def frozen_sweeps(found: Mapping[str, Swept]) -> dict[str, Any]:
    """Digests of blocks that are bit-equal, and what was measured where some are not."""
    kept: dict[str, Any] = {}
    for opcode, swept in sorted(found.items()):
        own = kept[opcode] = frozen(swept.measured)
        if swept.equal:
            own["blocks"] = {str(number): digest for number, digest in sorted(swept.digests.items())}
    return kept


def frozen(measured: Measured) -> dict[str, Any]:
    """What was measured of one instruction."""
    peaks = {str(number): _frozen(peak) for number, peak in sorted(measured.peaks.items())}
    return {
        "peaks": peaks, "ulps": _frozen(measured.furthest), "histogram": measured.histogram(),
        "special": measured.special, "example": measured.example, "nans": [f"{x:x}" for x in sorted(measured.nans)],
        "worst": packed(measured.worst),
    }  # fmt: skip


def _frozen(peak: Peak) -> dict[str, Any]:
    operands = [f"{x:x}" for x in peak.operands]
    return {"error": peak.error, "operands": operands, "found": f"{peak.found:x}", "compared": peak.compared}


def packed(worst: Worst) -> list[str]:
    """The worst operands and their results, each column as one hexadecimal text of equal parts, and the width of those
    before it."""
    columns = [*worst.operands.T, worst.found] if len(worst.found) else []
    width = max((len(f"{int(x.max()):x}") for x in columns), default=0)
    return [str(width), *("".join(f"{int(x):0{width}x}" for x in column) for column in columns)]


def unpacked(texts: Sequence[str]) -> tuple[list[np.ndarray[Any, np.dtype[np.uint64]]], Any]:
    """The worst operands, a column each, and the results, from what `packed` made."""
    width, columns = int(texts[0]), texts[1:]
    numbers = [
        np.array([int(text[n : n + width], 16) for n in range(0, len(text), width)], np.uint64) for text in columns
    ]
    return (numbers[:-1], numbers[-1]) if numbers else ([], np.empty(0, np.uint64))
