"""Marks of what keeps bytes or bits in their places: logic, `prmt`, shifts by a constant, cuts, sums, low products.

Compilers take registers apart and put them together with these, some of whose bytes nobody needs. So a byte of the
result is marked only where a marked byte of an operand can change it: `and` drops what is beside zeros, as masks do,
and `prmt` by a constant takes the bytes that it names. Carries go upwards only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .marks import BYTES, Marks, MarksOf, joined, shifted, spread_out
from .syntax import Immediate, Instruction, Operand, Register
from .types import Array

#: The truth tables of two operands as `lop3` has those of three: 0xf0, 0xcc and 0xaa are the operands themselves.
_TABLES = {"xor": 0x3C, "not": 0x0F}
#: Which bits of one operand fix those of the result, whatever the other one has.
_FIXED = {"and": 0, "or": 1}
_LONGEST = 64
_EVERY = (1 << _LONGEST) - 1
Held = Callable[[Register], Array]
"""What a register holds, of all threads or of each."""
_INTEGERS = {f"{sign}{bits}": bits for sign in "us" for bits in (8, 16, 32, 64)}


def bytewise(instruction: Instruction, of: MarksOf, held: Held) -> Marks | None:
    """The marks of the result; None where an instruction is none of these, or its constants are in registers."""
    base = instruction.opcode.partition(".")[0]
    if base in _BY_VALUE:
        return _BY_VALUE[base](instruction, of, held)
    rule = _RULES.get(base)
    return None if rule is None else rule(instruction, of)


def _chosen(instruction: Instruction, of: MarksOf, held: Held) -> Marks | None:
    """`and` and `or`: a byte of an operand counts, unless that of the other one fixes the result."""
    target, *sources = instruction.operands
    if not isinstance(target, Register):
        return None
    every = np.uint64((1 << target.bits) - 1)
    fixed = every * np.uint64(_FIXED[instruction.opcode.partition(".")[0]])
    loose = [_octets_of(_bits(each, ~fixed, held) & every ^ fixed) | of(each) & BYTES for each in sources]
    return joined([_only(of(each), loose[1 - at]) for at, each in enumerate(sources)])


def _product(instruction: Instruction, of: MarksOf, held: Held) -> Marks | None:
    """`mul` and `mad`: a factor beside a zero counts for nothing."""
    _, *factors = instruction.operands[:3]
    nothing = [(_bits(each, np.uint64(1), held) == 0) & (of(each) == 0) for each in factors]
    found = [np.where(nothing[1 - at], np.uint32(0), of(each)) for at, each in enumerate(factors)]
    return _carried(instruction, [*found, *(of(each) for each in instruction.operands[3:])])


def _bits(operand: Operand, unknown: np.uint64, held: Held) -> NDArray[np.uint64]:
    """What an operand is, of all threads or of each."""
    if isinstance(operand, Register):
        return held(operand).astype(np.uint64)
    value = _constant(operand)
    return np.array([unknown if value is None else value & _EVERY], np.uint64)


def _octets_of(bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The bytes that are not zero, a bit each."""
    octets = np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), 8) != 0
    return np.packbits(octets, axis=1, bitorder="little")[:, 0].astype(np.uint32)


def _logic(instruction: Instruction, of: MarksOf) -> Marks | None:
    base = instruction.opcode.partition(".")[0]
    sources, table = instruction.operands[1:], _TABLES.get(base)
    if not isinstance(instruction.operands[0], Register):
        return None
    if table is None:
        *sources, last = sources
        table = _constant(last)
    if table is None:
        return None
    return joined([_only(of(each), _reach(sources, at, table)) for at, each in enumerate(sources)])


def _reach(sources: Sequence[Operand], at: int, table: int) -> int:
    """The bytes of a result, a bit each, that an operand can change; constants are known, registers are not."""
    known = [_constant(each) for each in sources]
    others = [(0, _EVERY) if value is None else (value & _EVERY,) for value in known]
    changed = 0
    for values in product(*(choices for n, choices in enumerate(others) if n != at)):
        a, b = (_looked_up(table, [*values[:at], x, *values[at:]]) for x in (0, _EVERY))
        changed |= a ^ b
    return sum(1 << n for n in range(8) if changed >> 8 * n & 0xFF)


def _looked_up(table: int, values: Sequence[int]) -> int:
    """The result of a truth table for words of operands."""
    result = 0
    words = [*values, 0, 0][:3]
    for row in range(8):
        if table >> row & 1:
            a, b, c = (word if row >> 2 - n & 1 else ~word & _EVERY for n, word in enumerate(words))
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
    """`shl` and `shr`; the sign of an `shr` fills what it leaves."""
    target, source, amount = instruction.operands
    distance, (base, _, type_) = _constant(amount), instruction.opcode.partition(".")
    if distance is None or not isinstance(target, Register):
        return None
    found, distance = of(source), min(distance % (1 << 32), _LONGEST)
    if base == "shl":
        return _moved(found, distance, target.bits)
    moved = _moved(found, -distance, target.bits)
    if type_[0] != "s":
        return moved
    top = _only(found, 1 << target.bits // 8 - 1)
    return joined([moved, *(shifted(top, -octets, target.bits) for octets in range(1 + -(-distance // 8)))])


def _moved(found: Marks, distance: int, bits: int) -> Marks:
    """Marks of what moves up (down, if negative) by some bits: a byte that comes apart marks two."""
    octets, rest = divmod(distance, 8)
    return joined([shifted(found, octets + more, bits) for more in range(1 + (rest > 0))])


def _funnel(instruction: Instruction, of: MarksOf) -> Marks | None:
    """`shf` by a constant: 32 bits out of two registers."""
    target, low, high, amount = instruction.operands
    _, way, mode, _ = instruction.opcode.split(".")
    distance = _constant(amount)
    if distance is None or not isinstance(target, Register):
        return None
    distance = distance % 32 if mode == "wrap" else min(distance % (1 << 32), 32)
    both = joined([of(low), shifted(of(high), 4, 64)])
    return shifted(_moved(both, -(distance if way == "r" else 32 - distance), 64), 0, 32)


def _field(instruction: Instruction, of: MarksOf) -> Marks | None:
    """`bfe` of a constant field; where it has a sign that goes everywhere."""
    target, source, *ends = instruction.operands
    first, count = (_constant(each) for each in ends)
    if first is None or count is None or not isinstance(target, Register) or not 0 <= first <= first + count <= 64:
        return None
    if instruction.opcode.partition(".")[2][0] == "s":  # a field past the end is all sign
        found = _only(of(source), _octets(min(first, target.bits - 1), first + count))
        return spread_out(found, target.bits) if count else shifted(found, 8, 64)
    found = _only(of(source), _octets(first, first + count))
    return shifted(_moved(found, -first, target.bits), 0, count)


def _inserted(instruction: Instruction, of: MarksOf) -> Marks | None:
    """`bfi` of a constant field: bytes that it fills are no longer those of the register it goes into."""
    target, source, into, *ends = instruction.operands
    first, count = (_constant(each) for each in ends)
    if first is None or count is None or not isinstance(target, Register) or not 0 <= first <= first + count <= 64:
        return None
    field = _only(_moved(shifted(of(source), 0, count), first, target.bits), _octets(first, first + count))
    filled = sum(1 << n for n in range(8) if first <= 8 * n and 8 * n + 8 <= first + count)
    return joined([field, _only(of(into), ~filled & 0xFF)])


def _octets(first: int, end: int) -> int:
    """The bytes, a bit each, in which some bits from the first one on lie."""
    return sum(1 << n for n in range(8) if first < 8 * n + 8 and 8 * n < end)


def _cut(instruction: Instruction, of: MarksOf) -> Marks | None:
    """A conversion of an integer to another: what is cut off counts no more; a sign goes on to the register's end."""
    target, (_, *types) = instruction.operands[0], instruction.opcode.split(".")
    if len(types) != 2 or any(kind not in _INTEGERS for kind in types) or not isinstance(target, Register):
        return None
    to, source = (_INTEGERS[kind] for kind in types)
    least = min(to, source)
    found = shifted(of(instruction.operands[1]), 0, least)
    if types[to > source].startswith("u"):
        return found
    top, above = _only(found, 1 << least // 8 - 1), range(1 + (target.bits - least) // 8)
    return joined([shifted(top, octets, target.bits) for octets in above] + [found])


def _sum(instruction: Instruction, of: MarksOf) -> Marks | None:
    """`add` and `sub`."""
    return _carried(instruction, [of(each) for each in instruction.operands[1:]])


def _carried(instruction: Instruction, sources: Sequence[Marks]) -> Marks | None:
    """Integer sums, low and whole products: a byte of an operand reaches its own place and those above."""
    target, parts = instruction.operands[0], instruction.opcode.split(".")[1:]
    if not isinstance(target, Register) or parts[-1] not in _INTEGERS or parts[:-1] not in ([], ["lo"], ["wide"]):
        return None
    found = joined(sources)
    return joined([shifted(found, octets, target.bits) for octets in range(target.bits // 8)])


def _only(found: Marks, octets: int | NDArray[np.uint32]) -> Marks:
    """What is marked in some of the bytes."""
    kept = found & (~BYTES | np.asarray(octets, np.uint32))
    return np.where(kept & BYTES != 0, kept, np.uint32(0))


def _constant(operand: Operand) -> int | None:
    return int(operand.value) if isinstance(operand, Immediate) and operand.kind == "int" else None


_RULES: dict[str, Callable[[Instruction, MarksOf], Marks | None]] = {
    **dict.fromkeys((*_TABLES, "lop3"), _logic), "prmt": _permuted, "shl": _moved_along, "shr": _moved_along,
    "shf": _funnel, "bfe": _field, "bfi": _inserted, "cvt": _cut,
    **dict.fromkeys(("add", "sub"), _sum),
}  # fmt: skip
_BY_VALUE: dict[str, Callable[[Instruction, MarksOf, Held], Marks | None]] = {
    **dict.fromkeys(_FIXED, _chosen), **dict.fromkeys(("mul", "mad"), _product),
}  # fmt: skip
"""What looks at the values of registers as well."""
