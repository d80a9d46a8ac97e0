"""The table of instructions: one row (a `Form`) for each way that the ISA writes an instruction.

A row is registered under its syntax, written much as the ISA's own pages write it:

    add[.sat].<type:s32>            `add.s32` and `add.sat.s32`
    ld[.<space:global|shared>].b32  `[...]` may be missing; `<name:a|b>` is one of a and b, called `name`

`pure` rows compute results from operands, thread by thread: their function takes the modifiers and returns a kernel on
arrays of numbers. `step` rows touch more than registers (memory, other threads): their function takes a `Site` and
returns a step. An instruction that no row matches is an error that names what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NoReturn

from .bounds import Bound
from .types import TYPES, Array, PtxType

if TYPE_CHECKING:
    from .frame import Frame, Index
    from .machine import Machine
    from .site import Site

Modifiers = dict[str, str]
"""The modifiers of an instruction by the names its row gives them; "" for one that is missing."""

Kernel = Callable[..., Any]
"""Numbers in, numbers out: arrays of one shape, or of one element for a value that all threads share."""

Step = Callable[["Frame", "Index"], None]
"""One instruction on some threads: the frame, and the threads (None for all)."""

End = Callable[["Machine", "Frame", "Index"], None]
"""What ends a basic block: it tells the machine where the threads go on."""

Gate = Callable[["Machine", "Frame", "Index"], "Index"]
"""What holds threads back before an instruction: it returns those that may pass (an empty array for none)."""

_ASYNCHRONOUS = (
    "mbarrier.",
    "cp.async.bulk",
    "cp.reduce.async",
    "cp.async.mbarrier",
    "wgmma.",
    "fence.proxy",
    "st.async",
    "red.async",
)

_ANY_ORDER = frozenset(("ld", "ldu", "st", "atom", "red", "fence"))
"""Instructions whose modifiers the assembler takes in any order."""

ROUND = "[.<rnd:rn|rz|rm|rp>]"


@dataclass(frozen=True, slots=True)
class Form:
    """A row: the syntax, what it compiles to, what class of instruction counters call it, and its operands' types.

    One of `kernel` (with `outputs` and `inputs`), `step` and `end` is given. `gate` rows hold threads back first.
    `bounds` are those of an approximate instruction: how far hardware may be from the value given here.
    """

    syntax: str
    family: str
    pattern: re.Pattern[str]
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    kernel: Callable[[Modifiers], Kernel] | None = None
    step: Callable[[Site], Step] | None = None
    end: Callable[[Site], End] | None = None
    gate: Callable[[Site], Gate] | None = None
    optional: int = 0
    vocabulary: frozenset[str] = field(default_factory=frozenset[str])
    bounds: tuple[Bound, ...] = ()

    @property
    def asynchronous(self) -> bool:
        """Whether it is one of those that have to do with Hopper's engines."""
        return self.syntax.startswith(_ASYNCHRONOUS)

    def match(self, opcode: str) -> Modifiers | None:
        """The modifiers of an opcode of this form, None for any other."""
        found = self.pattern.fullmatch(opcode)
        return None if found is None else {name: text or "" for name, text in found.groupdict().items()}

    def usual(self, modifiers: Sequence[str]) -> str:
        """The opcode that has these modifiers in the order of the syntax, as far as they are of it."""
        base, left = self.base, list(modifiers)
        for choice in self.choices:
            for spelling in filter(None, choice):
                words = spelling[1:].split(".")
                if all(word in left for word in words):
                    base += spelling
                    for word in words:
                        left.remove(word)
                    break
        return ".".join([base, *left])

    @property
    def opcodes(self) -> list[str]:
        """Every opcode that the syntax writes."""
        return [self.base + "".join(parts) for parts in product(*self.choices)]

    @property
    def base(self) -> str:
        """The first part of the opcodes."""
        return _pieces(self.syntax)[0]

    @property
    def choices(self) -> list[list[str]]:
        """What may stand in each place behind it, with the dots; "" where nothing need."""
        return [_spellings(piece) for piece in _pieces(self.syntax)[1]]


StepBuilder = Callable[["Site"], Step]

FORMS: dict[str, list[Form]] = {}
"""All rows by the first part of their opcodes."""

_PIECE = re.compile(
    r"\[\.<(?P<oname>\w+):(?P<oalts>[^>]*)>\]|\.<(?P<name>\w+):(?P<alts>[^>]*)>|\[\.(?P<flag>[\w:]+)\]|\.(?P<lit>[\w:]+)"
)


def _pieces(syntax: str) -> tuple[str, list[re.Match[str]]]:
    """The first part of a syntax's opcodes, and what may follow it."""
    base = re.split(r"[.\[]", syntax, maxsplit=1)[0]
    pieces, at = list[re.Match[str]](), len(base)
    while at < len(syntax):
        found = _PIECE.match(syntax, at)
        assert found, f"bad syntax of a form: {syntax!r} at {syntax[at:]!r}"
        pieces.append(found)
        at = found.end()
    return base, pieces


def _spellings(piece: re.Match[str]) -> list[str]:
    """Everything that a piece may be written as."""
    if piece["lit"]:
        return [f".{piece['lit']}"]
    alternatives = piece["flag"] or piece["oalts"] or piece["alts"]
    missing = [] if piece["name"] else [""]
    return missing + [f".{word}" for word in alternatives.split("|")]


def _pattern(syntax: str) -> tuple[re.Pattern[str], frozenset[str]]:
    """The regular expression of a syntax, and every modifier it knows."""
    base, pieces = _pieces(syntax)
    out, words = base, set[str]()
    for found in pieces:
        if found["flag"]:
            out += rf"(?:\.(?P<{found['flag'].replace(':', '_')}>{found['flag']}))?"
            words.add(found["flag"])
        elif found["lit"]:
            out += rf"\.{found['lit']}"
            words.update(found["lit"].split("."))
        else:
            name, alternatives = found["oname"] or found["name"], found["oalts"] or found["alts"]
            out += rf"(?:\.(?P<{name}>{alternatives.replace('.', '[.]')})){'?' if found['oname'] else ''}"
            words.update(w for a in alternatives.split("|") for w in a.split("."))
    return re.compile(out), frozenset(words)


def _register(form: Form) -> None:
    FORMS.setdefault(re.split(r"[.\[]", form.syntax, maxsplit=1)[0], []).append(form)


def pure(
    syntax: str, operands: str, family: str = "integer", bounds: tuple[Bound, ...] = ()
) -> Callable[[Callable[[Modifiers], Kernel]], Callable[[Modifiers], Kernel]]:
    """Register a row that computes. `operands` is `outputs <- inputs`: types, or names of modifiers that are types.

    `name*2` is the type of twice the width; `?` ends an operand that may be missing. `bounds` as of a `Form`.
    """
    left, right = operands.split("<-")
    inputs = tuple(word.rstrip("?") for word in right.split())
    optional = right.count("?")

    def register(build: Callable[[Modifiers], Kernel]) -> Callable[[Modifiers], Kernel]:
        pattern, words = _pattern(syntax)
        _register(
            Form(
                syntax, family, pattern, tuple(left.split()), inputs,
                kernel=build, optional=optional, vocabulary=words, bounds=bounds,
            )
        )  # fmt: skip
        return build

    return register


def step(syntax: str, family: str) -> Callable[[StepBuilder], StepBuilder]:
    """Register a row that does more than compute."""

    def register(build: StepBuilder) -> StepBuilder:
        pattern, words = _pattern(syntax)
        _register(Form(syntax, family, pattern, step=build, vocabulary=words))
        return build

    return register


def end(syntax: str) -> Callable[[Callable[[Site], End]], Callable[[Site], End]]:
    """Register a row that ends a basic block."""

    def register(build: Callable[[Site], End]) -> Callable[[Site], End]:
        pattern, words = _pattern(syntax)
        _register(Form(syntax, "control", pattern, end=build, vocabulary=words))
        return build

    return register


def gated(syntax: str, family: str, gate: Callable[[Site], Gate]) -> Callable[[StepBuilder], StepBuilder]:
    """Register a row whose threads wait for each other at a gate before its step."""

    def register(build: StepBuilder) -> StepBuilder:
        pattern, words = _pattern(syntax)
        _register(Form(syntax, family, pattern, step=build, gate=gate, vocabulary=words))
        return build

    return register


def find(opcode: str, fail: Callable[[str], NoReturn]) -> tuple[Form, Modifiers]:
    """The row of an opcode and its modifiers. Calls `fail` with what is wrong when there is none."""
    base, *modifiers = opcode.split(".")
    rows = FORMS.get(base)
    if rows is None:
        fail(f"unknown instruction `{base}`")
    for row in rows:
        found = row.match(opcode)
        if found is not None:
            return row, found
    if base in _ANY_ORDER:
        for row in rows:
            found = row.match(row.usual(modifiers))
            if found is not None:
                return row, found
    known = frozenset[str]().union(*(row.vocabulary for row in rows))
    for modifier in modifiers:
        if modifier not in known and not any(re.fullmatch(word, modifier) for word in known if "\\" in word):
            fail(f"unknown modifier `.{modifier}` of `{base}`")
    fail(f"`{opcode}` is not a form of `{base}`; the forms: {', '.join(row.syntax for row in rows)}")


def type_of(word: str, modifiers: Modifiers) -> PtxType:
    """The type that a row's operand word stands for."""
    name, double, _ = word.partition("*2")
    found = TYPES[modifiers.get(name) or name]
    return TYPES[f"{found.kind}{2 * found.bits}"] if double else found


def element(array: Array) -> Array:
    """An array as it is: for kernels that only move bits."""
    return array
