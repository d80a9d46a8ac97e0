"""Compare `wgmma` on a machine with the emulator's model of it, bit by bit, and with other models where they differ.

    python -m tools.probes.wgmma --device cuda --tiles 1000000 --freeze tests/runtime/data/wgmma-sm_90a.json

A tile is 64 by 8 results. Of each type (`groups.TYPES`) many are multiplied at full width, drawn in classes (`inputs`),
and a few in every layout and with every flag (`groups.GROUPS`). Nothing is random but by the seed. What is frozen the
tests replay on the emulator.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.products import group_products_of, width
from tilewright.interpreter.ptx.tensor_cores import Unit, group_unit_of
from tilewright.interpreter.ptx.types import TYPES

from ..options import natural, new_file
from . import groups
from .candidates import Model, alternatives
from .command import parsed, probe_parser
from .groups import FOREMOST, GROUPS, MAIN, THREADS, Group
from .inputs import Operands, drawn
from .machines import Machine, kept_machine
from .outcomes import Outcome
from .workers import Failure, answers

Array = NDArray[Any]

CHUNK = 1 << 12
"""Tiles that are multiplied in one launch."""
SLICE = 1 << 5
"""Tiles that a model works on at a time, so that it stays in the cache."""
FEW = 320
"""Tiles of each layout and flag."""
FROZEN, FROZEN_SEED = 40, 1 << 20
"""How many tiles' results are frozen, at least one product of each class, and the seed that draws them."""
_SHOWN = 3
"""How many layouts that differ are shown of each type."""


@dataclass(frozen=True, slots=True)
class Task:
    """Some products of one group: which device, which of the groups, the seed, how many, and whether to try others."""

    device: str
    group: Group
    seed: int
    count: int
    fit: bool = False


def results(machine: Machine, group: Group, operands: Operands) -> Array:
    """What the machine computes: bits [products, 64, N]."""
    a, b, c = operands
    image = groups.images(group, a, b)
    left = groups.left_registers(group, a) if group.left is None else np.zeros(4, np.uint32)
    acc = groups.registers(group, c)
    out = np.zeros_like(acc)
    machine.run(groups.kernel_text(group, machine.target, image.shape[1]), len(a), THREADS, [image, left, acc, out])
    return groups.matrices(group, out)


def own_model(group: Group) -> Model:
    """The emulator's own, for `options.mma = "hardware"`."""
    satfinite = "satfinite" if group.satfinite else ""
    multiply = group_products_of({"a": group.a, "b": group.b, "d": group.c, "satfinite": satfinite}, group.depth)
    return multiply["hardware"]


def others(group: Group) -> dict[str, Model]:
    """Other models, by name."""
    if group.c == "s32":
        return {}
    own = group_unit_of(TYPES[group.a], group.c)
    found = alternatives(group, own)
    return found | alternatives(group, own, _narrow(own)) if own.kept < 23 else found


def _narrow(own: Unit) -> dict[str, Unit]:
    """Adders like one that keeps few bits, with others kept."""
    found = {f"F={f}": replace(own, fraction=f) for f in (12, 14)}
    found |= {f"kept={kept}": replace(own, kept=kept) for kept in (12, 14, 23)}
    return found | {f"F=kept={f}": replace(own, fraction=f, kept=f) for f in (12, 14)}


def run(task: Task) -> Outcome:
    """Multiply on the machine and by the models, and compare."""
    group, machine = task.group, kept_machine(task.device)
    named, operands = drawn(group, task.seed, task.count)
    found = results(machine, group, operands)
    outcome = Outcome(found.size, digest=hashlib.sha256(found.tobytes()).hexdigest())
    models = {"model": own_model(group)}
    if task.fit:
        models |= others(group)
        outcome.fitted = set(models)
    size = max(1, SLICE * 8 // group.columns)
    outcome.compare(group, models, size, named, _meant(group, operands), found)
    return outcome


def _meant(group: Group, operands: Operands) -> Operands:
    """The operands with the flags done: signs turned, and zeros where nothing is added."""
    sign = 1 << width(group.a) - 1
    a, b = (x ^ x.dtype.type(sign) if flip else x for x, flip in zip(operands[:2], group.negative, strict=True))
    return a, b, operands[2] if group.adds else np.zeros_like(operands[2])


# --- the command ---


def chosen(rows: str) -> list[Group]:
    """The groups whose label a pattern finds."""
    return [group for group in GROUPS if re.search(rows, group.label)]


def tasks(device: str, rows: str, tiles: int, fit: int) -> Iterator[Task]:
    """All work, group by group; the other candidates are tried on the first `fit` tiles of each of `MAIN`.

    Of the foremost types come `tiles`, of other floats a tenth of them and of integers a hundredth.
    """
    for group in chosen(rows):
        number = MAIN.index(group) if group in MAIN else -1
        share = 1 if 0 <= number < FOREMOST else 100 if group.c == "s32" else 10
        total = min(FEW, tiles) if number < 0 else tiles // share
        each, left = CHUNK * 8 // group.columns, -(-total * 8 // group.columns)
        for seed, first in enumerate(range(0, left, each)):
            trying = number >= 0 and first * group.columns < fit * 8
            yield Task(device, group, seed, min(each, left - first), trying)


def digests(device: str, some: Sequence[Group] = GROUPS, jobs: int = 1) -> dict[str, str]:
    """Digests of some results of each group, by label, those of `MAIN` narrower: to be compared later without a GPU."""
    frozen = [groups.narrow(group) if group in MAIN else group for group in some]
    todo = [Task(device, group, FROZEN_SEED, max(10, FROZEN * 8 // group.columns)) for group in frozen]
    found = zip(todo, answers(run, todo, jobs), strict=True)
    return {task.group.label: answer.digest for task, answer in found if isinstance(answer, Outcome)}


def collected(todo: Sequence[Task], jobs: int) -> tuple[dict[Group, Outcome], dict[Group, str]]:
    """The outcome of each group, and of each with a task that failed why."""
    found: dict[Group, Outcome] = {}
    failed: dict[Group, str] = {}
    for task, answer in zip(todo, answers(run, todo, jobs), strict=True):
        if isinstance(answer, Failure):
            failed.setdefault(task.group, answer.what)
        else:
            found.setdefault(task.group, Outcome()).add(answer)
    return found, failed


def report(found: dict[Group, Outcome], failed: dict[Group, str]) -> list[str]:
    """The lines to print: each type at full width, and of its layouts and flags those that differ."""
    lines: list[str] = []
    for group in (group for group in MAIN if group in found):
        lines.append(found[group].line(group.types))
        lines += [f"    {found[group].example}"] if found[group].example else []
    for types in dict.fromkeys(group.types for group in found if group not in MAIN):
        some = {g: outcome for g, outcome in found.items() if g.types == types and g not in MAIN}
        wrong = [g for g, outcome in some.items() if outcome.kinds]
        compared = sum(outcome.compared for outcome in some.values())
        verdict = f"{len(wrong)} differ" if wrong else "equal"
        lines.append(f"{types:<20} {len(some):>3} layouts and flags {compared:>11,} {verdict}")
        lines += [f"    {g.label}: {some[g].kinds}" for g in wrong[:_SHOWN]]
    return lines + [f"{group.label}: FAILED: {why}" for group, why in list(failed.items())[: 2 * _SHOWN]]


def details(found: dict[Group, Outcome], failed: dict[Group, str]) -> list[str]:
    """Every group, and an example of each that differs."""
    lines: list[str] = []
    for group, outcome in found.items():
        lines.append(outcome.line(group.label))
        lines += [f"    {outcome.example}"] if outcome.example else []
    return lines + [f"{group.label}: FAILED: {why}" for group, why in failed.items()]


def main(words: Sequence[str] | None = None) -> int:
    """The number of groups that differ from the model or failed."""
    parser = probe_parser(__doc__, "the groups to take")
    parser.add_argument("--tiles", type=natural, default=1_000_000, help="of each of the foremost types")
    parser.add_argument("--fit", type=natural, default=CHUNK, help="on so many of them the other candidates are tried")
    parser.add_argument("--freeze", type=new_file, help="write digests of some results to a file")
    parser.add_argument("--details", type=new_file, help="write every group to a file")
    arguments = parsed(parser, words)
    started = time.perf_counter()
    todo = list(tasks(arguments.device, arguments.rows, arguments.tiles, arguments.fit))
    found, failed = collected(todo, arguments.jobs)
    print(f"wgmma on {arguments.device}: {len(found)} products of tiles, {len(failed)} failed")
    print("\n".join(report(found, failed)))
    if arguments.details:
        arguments.details.write_text("\n".join(details(found, failed)) + "\n")
    if arguments.freeze:
        kept = digests(arguments.device, chosen(arguments.rows), arguments.jobs)
        arguments.freeze.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{time.perf_counter() - started:.0f} s", flush=True)
    return sum(1 for outcome in found.values() if outcome.kinds) + len(failed)


if __name__ == "__main__":
    sys.exit(main())
