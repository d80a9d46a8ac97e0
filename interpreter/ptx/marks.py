"""Which bytes of registers are marked, and how an instruction passes marks on.

A mark is 0, or 2**16 times the number of an origin plus a bit for each marked byte of the register. Most instructions
mark all of their result where any byte of an operand is marked. Those that only carry bytes keep them apart: moves,
packed (`x2`) arithmetic lane by lane, conversions that read the low part of a register, and what is in `bytewise`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .syntax import Operand, Register, Vector
from .table import Modifiers
from .types import TYPES

Marks = NDArray[np.uint32]
"""For each thread of a frame its mark."""

ORIGIN = 16
"""The bits of a mark below the number of its origin: one for each byte of the widest register."""
BYTES = np.uint32((1 << ORIGIN) - 1)
_BY_PREDICATES = re.compile(r"setp\.|set\.\w+\.(?:and|or|xor)\.")
_PACKED = re.compile(r"\.(?:u16|s16|f16|bf16|f32|e4m3|e5m2)x2\b")


def full(bits: int) -> np.uint32:
    """All bytes of a register of a width."""
    return np.uint32((1 << -(-bits // 8)) - 1)


def of_octets(octets: NDArray[np.bool_], origin: int) -> Marks:
    """Marks of the bytes that are set in each row."""
    found = np.zeros(len(octets), np.uint32)
    for number, column in enumerate(octets.T):
        found |= np.where(column, np.uint32(1 << number), np.uint32(0))
    return np.where(found != 0, found | np.uint32(origin), np.uint32(0))


def spread_out(marks: Marks, bits: int) -> Marks:
    """All bytes marked where one is."""
    return np.where(marks & BYTES != 0, (marks & ~BYTES) | full(bits), np.uint32(0))


def joined(parts: Sequence[Marks]) -> Marks:
    """Marks of one register that comes from several: all of their bytes, with the latest origin."""
    parts = np.broadcast_arrays(*parts)
    octets = np.bitwise_or.reduce(parts) & BYTES
    return np.where(octets != 0, (np.maximum.reduce(parts) & ~BYTES) | octets, np.uint32(0))


def shifted(marks: Marks, octets: int, bits: int) -> Marks:
    """Marks moved up (or down, if negative) by some bytes, in a register of a width."""
    low = marks & BYTES
    moved = (low << np.uint32(octets) if octets >= 0 else low >> np.uint32(-octets)) & full(bits)
    return np.where(moved != 0, (marks & ~BYTES) | moved, np.uint32(0))


def low_part(marks: Marks, bits: int) -> Marks:
    """What is marked of the low bits of a register."""
    return shifted(marks, 0, bits)


MarksOf = Callable[[Operand], Marks]


def moved(targets: int, sources: Sequence[Operand], width: int, of: MarksOf) -> list[Marks]:
    """The marks of so many parts that a move of `width` bits fills, given the parts that it comes from."""
    each = width // len(sources)
    whole = joined([shifted(of(part), k * each // 8, width) for k, part in enumerate(sources)])
    each = width // targets
    return [shifted(whole, -k * each // 8, each) for k in range(targets)]


def lane_by_lane(opcode: str) -> bool:
    """Whether each half of an instruction's result comes from the same halves of its operands: not from predicates."""
    if _BY_PREDICATES.match(opcode):
        return False
    types = _PACKED.findall(opcode)
    return len(types) == 2 or (len(types) == 1 and not opcode.startswith("cvt"))


def packed(target: Register, sources: Sequence[Operand], of: MarksOf) -> Marks:
    """The marks of a packed result whose operands are packed too."""
    halves = [np.zeros(1, np.uint32)] * 2
    for source in sources:
        marks = of(source)
        bits = source.bits // 2 if isinstance(source, Register) else 8
        low, high = low_part(marks, bits), shifted(marks, -bits // 8, bits)
        halves = [np.maximum(halves[0], low), np.maximum(halves[1], high)]
    return _halves(target, halves[0], halves[1])


def paired(target: Register, high: Marks, low: Marks) -> Marks:
    """The marks of a packed result that is made of two numbers."""
    return _halves(target, low, high)


def _halves(target: Register, low: Marks, high: Marks) -> Marks:
    bits = target.bits // 2
    return joined([spread_out(low, bits), shifted(spread_out(high, bits), bits // 8, target.bits)])


def bits_read(opcode: str, modifiers: Modifiers) -> int:
    """How many low bits of its operands an instruction looks at, 128 for all: the type of a store or conversion."""
    name = {"st": "type", "cvt": "atype"}.get(opcode.partition(".")[0], "")
    found = TYPES.get(modifiers.get(name, ""))
    return 8 * ORIGIN if found is None else found.bits


def parts_of(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector, or the operand itself."""
    return operand.elements if isinstance(operand, Vector) else (operand,)
