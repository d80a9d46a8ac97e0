"""Marks of what keeps bytes or bits in their places: logic, `prmt`, shifts by a constant, cuts, sums, low products.

Compilers take registers apart and put them together with these, some of whose bytes nobody needs. So a byte of the
result is marked only where a marked byte of an operand can change it: `and` with a constant drops the rest, and `prmt`
by a constant takes the bytes that it names. Carries go upwards only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from .marks import BYTES, Marks, MarksOf, joined, shifted
from .syntax import Immediate, Instruction, Operand, Register

#: The truth tables of two operands as `lop3` has those of three: 0xf0, 0xcc and 0xaa are the operands themselves.
_TABLES = {"and": 0xC0, "or": 0xFC, "xor": 0x3C, "not": 0x0F}
_LONGEST = 64
_INTEGERS = {f"{sign}{bits}": bits for sign in "us" for bits in (8, 16, 32, 64)}


def bytewise(instruction: Instruction, of: MarksOf) -> Marks | None:
    """The marks of the result; None where an instruction is none of these, or its constants are in registers."""
    rule = _RULES.get(instruction.opcode.partition(".")[0])
    return None if rule is None else rule(instruction, of)


def _logic(instruction: Instruction, of: MarksOf) -> Marks | None:
    base, _, type_ = instruction.opcode.partition(".")
    sources, table = instruction.operands[1:], _TABLES.get(base)
    if "pred" in type_ or not isinstance(instruction.operands[0], Register):
        return None
    if table is None:
        *sources, last = sources
        table = _constant(last)
    if table is None:
        return None
    return joined([_only(of(each), _reach(sources, at, table)) for at, each in enumerate(sources)])


def _reach(sources: Sequence[Operand], at: int, table: int) -> int:
    """The bytes of a result, a bit each, that an operand can change; constants are known, registers are not."""
    every = (1 << _LONGEST) - 1
    known = [_constant(each) for each in sources]
    others = [(0, every) if value is None else (value & every,) for value in known]
    changed = 0
    for values in product(*(choices for n, choices in enumerate(others) if n != at)):
        a, b = (_looked_up(table, [*values[:at], x, *values[at:]]) for x in (0, every))
        changed |= a ^ b
    return sum(1 << n for n in range(8) if changed >> 8 * n & 0xFF)


def _looked_up(table: int, values: Sequence[int]) -> int:
    """The result of a truth table for words of operands."""
    every, result = (1 << _LONGEST) - 1, 0
    words = [*values, 0, 0][:3]
    for row in range(8):
        if table >> row & 1:
            a, b, c = (word if row >> 2 - n & 1 else ~word & every for n, word in enumerate(words))
            result |= a & b & c
    return result


def _permuted(instruction: Instruction, of: MarksOf) -> Marks | None:
    target, a, b, chooser = instruction.operands
    selector = _constant(chooser)
    if selector is None or instruction.opcode != "prmt.b32" or not isinstance(target, Register):
        return None
    sources, parts = (of(a), of(b)), list[Marks]()
    for place in range(4):
        which, byte = divmod(selector >> 4 * place & 7, 4)
        parts.append(shifted(_only(sources[which], 1 << byte), place - byte, 32))
    return joined(parts)


def _moved_along(instruction: Instruction, of: MarksOf) -> Marks | None:
    """`shl`, or `shr` of what has no sign."""
    target, source, amount = instruction.operands
    distance, base = _constant(amount), instruction.opcode.partition(".")[0]
    if distance is None or not isinstance(target, Register) or instruction.opcode.partition(".")[2][0] == "s":
        return None
    octets, rest = divmod(distance, 8)
    way, bits = (1 if base == "shl" else -1), target.bits
    found = of(source)
    return joined([shifted(found, way * min(octets + more, 8), bits) for more in range(1 + (rest > 0))])


def _cut(instruction: Instruction, of: MarksOf) -> Marks | None:
    """A conversion of an integer to one that is not wider, or wider by zeros."""
    _, *types = instruction.opcode.split(".")
    if len(types) != 2 or any(kind not in _INTEGERS for kind in types):
        return None
    to, source = (_INTEGERS[kind] for kind in types)
    if to > source and types[1].startswith("s"):
        return None
    return shifted(of(instruction.operands[1]), 0, min(to, source))


def _upwards(instruction: Instruction, of: MarksOf) -> Marks | None:
    """Integer sums and low products: a byte reaches its own place and those above."""
    target, parts = instruction.operands[0], instruction.opcode.split(".")[1:]
    if not isinstance(target, Register) or parts[-1] not in _INTEGERS or parts[:-1] not in ([], ["lo"]):
        return None
    found = joined([of(each) for each in instruction.operands[1:]])
    return joined([shifted(found, octets, target.bits) for octets in range(target.bits // 8)])


def _only(found: Marks, octets: int) -> Marks:
    """What is marked in some of the bytes."""
    kept = found & (~BYTES | np.uint32(octets))
    return np.where(kept & BYTES != 0, kept, np.uint32(0))


def _constant(operand: Operand) -> int | None:
    return int(operand.value) if isinstance(operand, Immediate) and operand.kind == "int" else None


_RULES: dict[str, Callable[[Instruction, MarksOf], Marks | None]] = {
    **dict.fromkeys((*_TABLES, "lop3"), _logic), "prmt": _permuted, "shl": _moved_along, "shr": _moved_along,
    "cvt": _cut, **dict.fromkeys(("add", "sub", "mul", "mad"), _upwards),
}  # fmt: skip
