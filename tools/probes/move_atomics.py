"""Cases of atomics with every modifier: each thread on a cell of its own, in every state space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.table import FORMS, Modifiers, find

from .move_cases import Move, Octets, Want, bits_of
from .move_memory import PAIR, POLICY, address, generic, goes_together, listed
from .spellings import spellings
from .sweep_machine import missing

Numbers = NDArray[Any]

_COUNT = {"": 1, "v2": 2, "v4": 4, "v8": 8}
_CELL = 32
"""Where a cell in global memory lies among a thread's bytes; its 16 bytes are first those that the thread reads."""


def _wrapped(old: Numbers, limit: Numbers) -> Numbers:
    after: Numbers = np.where(old >= limit, 0, old + old.dtype.type(1)).astype(old.dtype)
    return after


def _unwrapped(old: Numbers, limit: Numbers) -> Numbers:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


COMBINED: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda old, new: new, "inc": _wrapped, "dec": _unwrapped,
}  # fmt: skip
"""What becomes of a cell of integers."""


def _result(m: Modifiers, has_result: bool) -> Want | None:
    """The old elements first, and the cell afterwards; None for floats, whose arithmetic is another probe's."""
    op, type_, count = m["op"], m["type"], _COUNT[m.get("vec", "")]
    if "f" in type_:
        return None
    size = bits_of(type_) // 8
    kind = np.dtype(f"{'i' if type_[0] == 's' else 'u'}{size}")

    def want(read: Octets, out: Octets) -> None:
        def numbers(at: int) -> Numbers:
            return np.ascontiguousarray(read[:, at : at + size * count]).view(kind)

        old, given = numbers(0), numbers(16)
        if op == "cas":
            even = np.arange(len(read))[:, None] % 2 == 0
            new = np.where(even | (old == given), numbers(32), old)
        else:
            new = COMBINED[op](old, given)
        if has_result:
            out[:, : size * count] = old.view(np.uint8)
        out[:, _CELL : _CELL + 16] = read[:, :16]
        out[:, _CELL : _CELL + size * count] = np.ascontiguousarray(new).view(np.uint8)

    return want


def _atomic(opcode: str, m: Modifiers, has_result: bool, place: str = "") -> Move:
    space, op, bits, count = m.get("space", ""), m["op"], bits_of(m["type"]), _COUNT[m.get("vec", "")]
    place = place or space.partition("::")[0] or generic(opcode, m, ("shared",) if count == 1 else ())
    kind = {16: "h", 32: "x", 64: "d"}[bits]
    before, base = address(space, place, "%o")
    at = f"{base}+{_CELL}"
    near = f"st.{place} [%{'o' if place == 'global' else 's'}+{_CELL}]".replace(" [", ".v4.b32 [")
    body = f"ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%a]; {near}, {{%x0, %x1, %x2, %x3}};"
    old, given, new = ([f"%{kind}{n + first}" for n in range(count)] for first in (0, 8, 4))
    body += "".join(f" ld.global.b{bits} {name}, [%a+{16 + n * bits // 8}];" for n, name in enumerate(given))
    operands = [listed(given)]
    if op == "cas":  # every other thread finds what it compares with
        body += f" ld.global.b{bits} {new[0]}, [%a+32]; ld.global.b{bits} {old[0]}, [%a]; and.b32 %x20, %t, 1;"
        body += f" setp.eq.u32 %p0, %x20, 0; selp.b{bits} {given[0]}, {old[0]}, {given[0]}, %p0;"
        operands = [given[0], new[0]]
    if m.get("L2__cache_hint"):
        body, operands = f"{body} {POLICY}", [*operands, "%d20"]
    results = [listed(old)] if has_result else []
    body += f" {before} {opcode} {', '.join([*results, f'[{at}]', *operands])};"
    body += "".join(f" st.global.b{bits} [%o+{n * bits // 8}], {name};" for n, name in enumerate(old)) * has_result
    if place != "global":
        body += f" ld.shared.v4.b32 {{%x0, %x1, %x2, %x3}}, [%s+{_CELL}];"
        body += f" st.global.v4.b32 [%o+{_CELL}], {{%x0, %x1, %x2, %x3}};"
    return Move(opcode, body, _result(m, has_result), "" if space else f"({place})")


def atomic_cases() -> Iterator[Move]:
    """All of them, by the rows of the table; `move_wide` has those of 128 bits."""
    for base in ("atom", "red"):
        for form in FORMS[base]:
            if form.asynchronous or PAIR in form.syntax:
                continue
            for opcode in spellings(form, goes_together):
                yield _atomic(opcode, form.match(opcode) or {}, base == "atom")
        for opcode in (f"{base}.add.f32", f"{base}.add.f64", f"{base}.add.noftz.f16", f"{base}.add.noftz.bf16x2"):
            for place in ("global", "shared"):  # which add otherwise
                yield _atomic(opcode, find(opcode, missing)[1], base == "atom", place)
