"""Which probe executes which row of the emulator's table, and why some rows are executed by none.

A row counts as probed where one of its spellings is what a case of a probe is about. What surrounds it (loads of
operands, stores of results) does not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from tilewright.interpreter.ptx.table import FORMS, Form, find

from . import copy_cases, groups, instruction_rows, litmus, products, sweeps, tensor_copies
from .move_rows import moves
from .sweep_machine import missing

TARGET = "sm_90a"
_PREDICATE = re.compile(r"^@!?[%\w]+\s+")
_LABEL = re.compile(r"^[$%\w]+:\s*")

UNPROBED: dict[str, str] = {
    **dict.fromkeys(
        (r"^(add|sub|mul|fma).*f32x2", r"^(add|sub|fma).*<narrow:", r"^redux.*\.f32$", r"^(ld|st).*\.<vec:v[48]>"),
        "an instruction of sm_100, which the assembler refuses for an H200",
    ),
    r"im2col::w|gather4": "the emulator refuses these modes of tensor copies by name; they are of sm_100",
    r"^tcgen05": "the emulator refuses it by name; it is of sm_100",
    r"^multimem": "the emulator refuses it by name: it is one GPU, and has no multicast objects",
    r"^mma.*\.f16\.f16\.<c": "the emulator refuses the product of sm_70 by name",
    r"^trap$": "ends the kernel with an error, after which a process has lost its GPU",
    r"^brkpt$": "stops the GPU for a debugger",
}  # fmt: skip
"""Rows that no probe executes, by patterns of their syntax, and why."""


def opcodes_in(text: str) -> Iterator[str]:
    """The opcodes of PTX, statement by statement."""
    for statement in re.split(r"[;\n]|(?<=\s)[{}](?=\s)", re.sub(r"//.*", "", text)):
        words = _PREDICATE.sub("", _LABEL.sub("", statement.strip())).split()
        if words and not words[0].startswith((".", "{", "}")):
            yield words[0]


def _instructions() -> Iterator[str]:
    for case in instruction_rows.cases():
        yield case.name.split()[0]
        yield from (opcode for opcode in opcodes_in(case.line) if not opcode.startswith(("ld.", "st.")))


def _asynchronous(texts: Iterable[str]) -> Iterator[str]:
    """What is probed of Hopper's kernels: engines, fences, barriers of clusters, and addresses in them."""
    for opcode in {opcode for text in texts for opcode in opcodes_in(text)}:
        form = form_of(opcode)
        if form is not None and (form.asynchronous or opcode.startswith(("fence", "barrier.cluster", "mapa", "wgmma"))):
            yield opcode


def form_of(opcode: str) -> Form | None:
    """The row of an opcode."""
    try:
        return find(opcode, missing)[0]
    except LookupError:
        return None


def _copies() -> Iterator[str]:
    yield from _asynchronous({tensor_copies.kernel_text(copy, TARGET) for copy in copy_cases.COPIES})


def _litmus() -> Iterator[str]:
    yield from _asynchronous(litmus.kernel_text(test, TARGET, 1) for test in litmus.TESTS)


def _wgmma() -> Iterator[str]:
    yield from _asynchronous(groups.kernel_text(group, TARGET, 16) for group in groups.GROUPS)


PROBES: dict[str, Callable[[], Iterable[str]]] = {
    "instructions": _instructions,
    "sweeps": lambda: (opcode for sweep in sweeps.SWEEPS for opcode in sweep.opcodes),
    "mma": lambda: (mma.opcode for mma in products.PRODUCTS),
    "wgmma": _wgmma,
    "copies": _copies,
    "litmus": _litmus,
    "moves": lambda: (move.opcode for move in moves()),
}
"""The opcodes that each probe is about."""


@cache
def covered() -> dict[str, tuple[str, ...]]:
    """Every row's syntax, and the probes that execute it; rows of which none does have an entry too."""
    rows: dict[str, tuple[str, ...]] = {form.syntax: () for forms in FORMS.values() for form in forms}
    for name, opcodes in PROBES.items():
        for syntax in sorted({form.syntax for opcode in set(opcodes()) if (form := form_of(opcode)) is not None}):
            if not reason_for(syntax):
                rows[syntax] += (name,)
    return rows


def reason_for(syntax: str) -> str:
    """Why a row is executed by no probe, "" where nothing speaks against it."""
    return next((reason for pattern, reason in UNPROBED.items() if re.search(pattern, syntax)), "")


def lines() -> list[str]:
    """The table: how many rows each probe executes, alone and at all, and the named rest."""
    rows = covered()
    found = [f"{len(rows)} rows of the emulator's table; executed by {'all':>16} {'alone':>6}"]
    for name in PROBES:
        some = [probes for probes in rows.values() if name in probes]
        found.append(f"    {name:<58} {len(some):>4} {sum(len(probes) == 1 for probes in some):>6}")
    rest = [syntax for syntax, probes in rows.items() if not probes]
    found.append(f"    {'no probe':<58} {len(rest):>4}")
    return found + [f"    {reason_for(syntax) or 'NOT PROBED'}: {syntax}" for syntax in rest]
