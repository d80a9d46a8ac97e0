"""Which bits of registers are marked: they depend on a value that nobody wrote.

Most instructions mark all of their result where any bit of an operand is marked. Those that keep bits apart are moves,
packed (`x2`) arithmetic lane by lane, conversions that read the low part of a register, and what is in `definedness`.
Of registers of 128 bits, with which nothing is computed, each bit of a mark stands for a byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .syntax import Operand, Register, Vector
from .table import Modifiers
from .types import TYPES

Bits = NDArray[np.uint64]
"""For each thread of a frame, or once for all, some bits of a register."""

WIDE = 128
_BY_PREDICATES = re.compile(r"setp\.|set\.\w+\.(?:and|or|xor)\.")
_PACKED = re.compile(r"\.(?:u16|s16|f16|bf16|f32|e4m3|e5m2)x2\b")


class Marks(NamedTuple):
    """The marked bits of a register, and for each thread the number of an origin, where there are any."""

    bits: Bits
    origin: NDArray[np.int32]

    def only(self, bits: Bits | np.uint64) -> Marks:
        """What is marked among some bits."""
        return Marks(self.bits & bits, self.origin)

    def where(self, chosen: NDArray[np.bool_]) -> Marks:
        """The marks of some threads."""
        return Marks(np.where(chosen, self.bits, np.uint64(0)), self.origin)

    def spread(self, bits: int) -> Marks:
        """All bits of a register marked where one of these is."""
        return Marks(np.where(self.bits != 0, full(bits), np.uint64(0)), self.origin)

    def moved(self, steps: int) -> Marks:
        """Moved up, or down if negative."""
        return Marks(self.bits << np.uint64(steps) if steps >= 0 else self.bits >> np.uint64(-steps), self.origin)


NONE = Marks(np.zeros(1, np.uint64), np.zeros(1, np.int32))
"""No marks."""


def full(bits: int) -> np.uint64:
    """All bits of a register of a width."""
    return low_bits(bits, bits)


def low_bits(bits: int, count: int) -> np.uint64:
    """So many low bits of a register of a width."""
    return np.uint64((1 << (-(-count // 8) if bits == WIDE else min(bits, count))) - 1)


def of_octets(octets: NDArray[np.uint8]) -> Bits:
    """The bits of a register whose bytes have these: of eight bytes at most, or of the sixteen of a wide register."""
    wide = octets.shape[1] * 8 == WIDE
    found = np.zeros(len(octets), np.uint64)
    for number, column in enumerate(octets.T):
        found |= (column != 0 if wide else column).astype(np.uint64) << np.uint64(number if wide else 8 * number)
    return found


def octets_of(bits: Bits, width: int) -> NDArray[np.uint8]:
    """The marked bits of each byte of a register of a width, a row for each thread."""
    step, every = (1, 1) if width == WIDE else (8, 0xFF)
    found = bits[:, None] >> np.arange(width // 8, dtype=np.uint64) * np.uint64(step) & np.uint64(every)
    return (found * np.uint64(0xFF if width == WIDE else 1)).astype(np.uint8)


def joined(parts: Sequence[Marks]) -> Marks:
    """Marks of one register that comes from several: all of their bits, with the latest origin."""
    bits = np.broadcast_arrays(*(part.bits for part in parts))
    origins = (np.where(part.bits != 0, part.origin, 0) for part in parts)
    return Marks(np.bitwise_or.reduce(bits), np.maximum.reduce(np.broadcast_arrays(*origins)))


MarksOf = Callable[[Operand], Marks]


def lane_by_lane(opcode: str) -> bool:
    """Whether each half of an instruction's result comes from the same halves of its operands: not from predicates."""
    if _BY_PREDICATES.match(opcode):
        return False
    types = _PACKED.findall(opcode)
    return len(types) == 2 or (len(types) == 1 and not opcode.startswith("cvt"))


def packed(target: Register, sources: Sequence[Operand], of: MarksOf) -> Marks:
    """The marks of a packed result whose operands are packed too."""
    halves: list[list[Marks]] = [[NONE], [NONE]]
    for source in sources:
        bits = source.bits // 2 if isinstance(source, Register) else 8
        halves[0].append(of(source).only(full(bits)))
        halves[1].append(of(source).moved(-bits))
    return paired(target, joined(halves[1]), joined(halves[0]))


def paired(target: Register, high: Marks, low: Marks) -> Marks:
    """The marks of a packed result that is made of two numbers."""
    bits = target.bits // 2
    return joined([low.spread(bits), high.spread(bits).moved(bits)])


def bits_read(opcode: str, modifiers: Modifiers) -> int:
    """How many low bits of its operands an instruction looks at, 128 for all: the type of a store or conversion."""
    name = {"st": "type", "cvt": "atype"}.get(opcode.partition(".")[0], "")
    found = TYPES.get(modifiers.get(name, ""))
    return WIDE if found is None else found.bits


def parts_of(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector, or the operand itself."""
    return operand.elements if isinstance(operand, Vector) else (operand,)
