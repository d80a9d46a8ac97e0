"""f32 operands of matrix instructions as one or more parts of few bits, whose products add up to nearly the whole.

Each part is what the ones before it leave, rounded. The products of first parts go last into the accumulator; all
others, which are smaller by a factor of 2^-8 at least, are added up apart from it. There an infinite operand, whose
second part is NaN, leaves an infinity or a NaN, which is dropped: the product of the first parts has it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from .context import Lowering

#: Some neighbours along K -> the word of the part that they have in common, and what it stands for as f32.
Round: TypeAlias = Callable[[Lowering, list[str]], tuple[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Split:
    """A way to split: the type's name in the instruction, how a part is made, how many there are, and the numbers of
    the parts of `a` and of `b` in the small products that are taken, the smallest first."""

    name: str
    rounded: Round
    count: int = 1
    small: tuple[tuple[int, int], ...] = ()

    def make(self, to: Lowering, group: list[str]) -> list[str]:
        """A word for each part of the elements of one register of a fragment."""
        words: list[str] = []
        for number in range(self.count):
            word, values = self.rounded(to, group)
            words.append(word)
            if number + 1 < self.count:
                pairs = zip(group, values, strict=True)
                group = [to.text.value(f"fsub float {whole}, {part}") for whole, part in pairs]
        return words


def cut(to: Lowering, group: list[str]) -> tuple[str, list[str]]:
    """tf32 as the language has it: the low 13 bits cleared; a NaN stays one."""
    (value,) = group
    bits = to.text.value(f"bitcast float {value} to i32")
    kept = to.text.value(f"and i32 {bits}, {-1 << 13}")
    nan = to.text.value(f"fcmp uno float {value}, {value}")
    word = to.text.value(f"select i1 {nan}, i32 {0x7FFFFFFF}, i32 {kept}")
    return word, [to.text.value(f"bitcast i32 {word} to float")]


def _nearest_tf32(to: Lowering, group: list[str]) -> tuple[str, list[str]]:
    """tf32 to nearest; a NaN stays one, which the instruction keeps only of those whose upper bits say so."""
    (value,) = group
    nearest = to.text.call("i32", "llvm.nvvm.f2tf32.rna", [("float", value)])
    nan = to.text.value(f"fcmp uno float {value}, {value}")
    word = to.text.value(f"select i1 {nan}, i32 {0x7FFFFFFF}, i32 {nearest}")
    return word, [to.text.value(f"bitcast i32 {word} to float")]


def _nearest_bf16(to: Lowering, group: list[str]) -> tuple[str, list[str]]:
    """Two neighbours in one word, the first in its low half."""
    pair = "poison"
    for lane, value in enumerate(group):
        pair = to.text.value(f"insertelement <2 x float> {pair}, float {value}, i32 {lane}")
    short = to.text.value(f"fptrunc <2 x float> {pair} to <2 x bfloat>")
    word = to.text.value(f"bitcast <2 x bfloat> {short} to i32")
    placed = to.text.value(f"shl i32 {word}, 16"), to.text.value(f"and i32 {word}, {-1 << 16}")
    return word, [to.text.value(f"bitcast i32 {half} to float") for half in placed]


#: By precision.
PARTS = {
    "tf32": Split("tf32", cut),
    "tf32x3": Split("tf32", _nearest_tf32, 2, ((1, 0), (0, 1))),
    "bf16x3": Split("bf16", _nearest_bf16, 2, ((1, 0), (0, 1))),
    "bf16x6": Split("bf16", _nearest_bf16, 3, ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1))),
}


def finite_or_zero(to: Lowering, value: str) -> str:
    """A number as it is, and zero for an infinity or a NaN."""
    size = to.text.call("float", "llvm.fabs.f32", [("float", value)])
    finite = to.text.value(f"fcmp olt float {size}, 0x7FF0000000000000")
    return to.text.value(f"select i1 {finite}, float {value}, float 0.0")
