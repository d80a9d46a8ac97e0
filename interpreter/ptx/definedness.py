"""How marked bits go through instructions whose results can be told from the values beside them.

Of most of these (logic, shifts, fields, moves, selections) each bit of the result comes from one bit of each operand.
So it depends on marked bits exactly where results differ among the corners: the instruction run with all marked bits of
each register at 0, and at 1 (`corners`). Carries of sums are largest and smallest at corners too; a marked bit counts
in its own place besides. What says where bits go, as the amount of a shift does, must not be marked itself: if it is,
so is the whole result. Products and comparisons are worked out from what their operands can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .liveness import registers_in
from .marks import WIDE, Bits, full
from .syntax import Immediate, Instruction, Operand, Register
from .types import Array

_EVERY = (1 << 64) - 1
_WORD = (1 << 32) - 1
_BYTE = 0xFF
_INTEGERS = {f"{sign}{bits}": bits for sign in "bus" for bits in (8, 16, 32, 64)}

#: Instructions that are tried at corners, with the operands that say where bits go, and which of their bits do.
_TRIED: dict[str, Mapping[int, int]] = {
    **dict.fromkeys(("mov", "and", "or", "xor", "not", "brev", "cvt", "selp", "add", "sub", "neg", "movmatrix"), {}),
    "lop3": {4: _BYTE}, "shl": {2: _WORD}, "shr": {2: _WORD}, "shf": {3: _WORD}, "prmt": {3: 0xFFFF},
    "bfe": {2: _WORD, 3: _WORD}, "bfi": {3: _WORD, 4: _WORD}, "slct": {3: _WORD}, "szext": {2: _WORD},
    "shfl": {2: _WORD, 3: _WORD, 4: _WORD},
}  # fmt: skip
_SUMS = ("add", "sub", "neg")
_LESS, _LESS_OR_EQUAL = ("lt", "lo", "ge", "hs"), ("le", "ls", "gt", "hi")

Held = Callable[[Register], Array]
"""What a register holds, of all threads or of each."""
Pairs = Sequence[tuple[NDArray[np.uint64], Bits]]
"""Operands: what each is, and which of its bits are marked."""


def choosers(instruction: Instruction) -> Mapping[int, int] | None:
    """The operands that say where bits go, by number, and which of their bits count; None for what is not tried."""
    base, *parts = instruction.opcode.split(".")
    found = _TRIED.get(base)
    whole = all(part in _INTEGERS for part in parts)
    if base == "cvt" and any(r.bits == WIDE for operand in instruction.operands for r in registers_in(operand)):
        return None
    if (base == "cvt" and not (whole and len(parts) == 2)) or (base in _SUMS and not (whole and len(parts) == 1)):
        return None
    if base == "lop3" and parts[0] != "b32":
        return None
    if base in ("bfe", "bfi") and parts[0].endswith("32"):
        return dict.fromkeys(found or (), _BYTE)
    return {3: 31} if base == "shf" and "wrap" in parts else found


def own_bits(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands whose marked bits are marked in the result whatever corners say: those of a sum of two."""
    base, sources = instruction.opcode.partition(".")[0], instruction.operands[1:]
    same = len(sources) == 2 and isinstance(sources[0], Register) and sources[0] == sources[1]
    return sources if base in _SUMS and not same else ()


def corners(values: Mapping[int, Array], marked: Mapping[int, Bits]) -> Iterator[dict[int, Array]]:
    """Registers with all of their marked bits at 0 or at 1, in every combination."""
    ends = {number: _ends(values[number], bits) for number, bits in marked.items()}
    for chosen in product(*ends.values()):
        yield dict(zip(ends, chosen, strict=True))


def _ends(value: Array, bits: Bits) -> tuple[Array, Array]:
    marked = bits != 0 if value.dtype == np.bool_ else bits.astype(value.dtype)
    return value & ~marked, value | marked


def valued(operand: Operand, held: Held) -> NDArray[np.uint64] | None:
    """What a register or an integer is; None for other operands."""
    if isinstance(operand, Register):
        return held(operand).astype(np.uint64)
    if isinstance(operand, Immediate) and operand.kind == "int":
        return np.array([int(operand.value) & _EVERY], np.uint64)
    return None


def of_product(instruction: Instruction, factors: Pairs, addends: Sequence[Bits]) -> Bits | None:
    """The marked bits of a `mul` or `mad`: what is beside a zero counts for nothing, and nothing goes downwards.

    The lowest bit that can change is that of one factor times the lowest that the other one may have.
    """
    target, (half, *types) = instruction.operands[0], instruction.opcode.split(".")[1:]
    if not isinstance(target, Register) or types not in [[kind] for kind in _INTEGERS]:
        return None
    least = np.zeros(1, np.uint64)
    for (_, marked), (value, also) in (factors, factors[::-1]):
        some = _lowest(value | also)
        least = least | np.where(marked != 0, some if half == "hi" else _lowest(marked) * some, np.uint64(0))
    every, extra = np.uint64(full(target.bits)), np.uint64(0)
    for addend in addends:
        extra = extra | addend
    if half == "hi":
        least = np.where(least != 0, np.uint64(1), np.uint64(0))
    return _upwards(least | extra) & every


def _lowest(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The lowest bit that is set."""
    return bits & (~bits + np.uint64(1))


def _upwards(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """All bits from the lowest that is set on."""
    return bits | (~bits + np.uint64(1))


def undecided(opcode: str, operands: Sequence[Operand], pairs: Pairs) -> NDArray[np.bool_] | None:
    """Where a comparison of integers may come out either way; None for one of other types."""
    op, kind = opcode.split(".")[1], opcode.rpartition(".")[2]
    width = _INTEGERS.get(kind)
    if width is None:
        return None
    every, sign = np.uint64(full(width)), np.uint64(1 << width - 1 if kind[0] == "s" else 0)
    if isinstance(operands[0], Register) and operands[0] == operands[1]:
        return np.zeros(1, np.bool_)
    (a, loose_a), (b, loose_b) = [((value & every) ^ sign, marked & every) for value, marked in pairs]
    if op in ("eq", "ne"):
        return (loose_a | loose_b != 0) & ((a ^ b) & ~(loose_a | loose_b) == 0)
    if op in _LESS_OR_EQUAL:
        return (a & ~loose_a <= b | loose_b) & (a | loose_a > b & ~loose_b)
    assert op in _LESS
    return (a & ~loose_a < b | loose_b) & (a | loose_a >= b & ~loose_b)
