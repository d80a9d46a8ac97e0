"""Two narrow elements in one register: two of 16 bits in 32, two of 8 bits in 16.

Elements come apart and are joined without an instruction where they stay neighbours: `Lowering.pairs` remembers the
register that two elements came from. What is remembered was there before its parts, so it is wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.lang import BF16, F16, FloatType

from .context import Lowering
from .text import llvm_type

LETTERS = {16: "h", 32: "r", 64: "l"}
FLOAT_LETTERS = {"f16": "h", "f32": "f", "f64": "d"}
WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def halves(to: Lowering, kind: str, vector: str) -> list[str]:
    """The two elements of an LLVM vector."""
    low, high = (to.text.value(f"extractelement <2 x {kind}> {vector}, i32 {lane}") for lane in range(2))
    to.pairs[low, high] = vector
    return [low, high]


def joined(to: Lowering, kind: str, low: str, high: str) -> str:
    """Two elements as an LLVM vector."""
    if known := to.pairs.get((low, high)):
        return known
    first = to.text.value(f"insertelement <2 x {kind}> poison, {kind} {low}, i32 0")
    return to.text.value(f"insertelement <2 x {kind}> {first}, {kind} {high}, i32 1")


def bytes_of(to: Lowering, pair: str) -> list[str]:
    """The two bytes of an i16, the lower one first."""
    low = to.text.value(f"trunc i16 {pair} to i8")
    upper = to.text.value(f"lshr i16 {pair}, 8")
    high = to.text.value(f"trunc i16 {upper} to i8")
    to.pairs[low, high] = pair
    return [low, high]


def byte_pair(to: Lowering, low: str, high: str) -> str:
    """Two bytes as an i16."""
    if known := to.pairs.get((low, high)):
        return known
    upper = to.text.value(f"shl i16 {to.text.value(f'zext i8 {high} to i16')}, 8")
    return to.text.value(f"or disjoint i16 {upper}, {to.text.value(f'zext i8 {low} to i16')}")


def word_of(to: Lowering, kind: str, values: Sequence[str]) -> str:
    """One, two or four neighbours of an LLVM type as one integer."""
    width = WIDTHS.get(kind) or int(kind[1:])
    if len(values) == 1:
        return values[0] if kind[0] == "i" else to.text.value(f"bitcast {kind} {values[0]} to i{width}")
    if width == 8:
        values = [byte_pair(to, *values[first : first + 2]) for first in range(0, len(values), 2)]
        return values[0] if len(values) == 1 else word_of(to, "i16", values)
    return to.text.value(f"bitcast <2 x {kind}> {joined(to, kind, *values)} to i{2 * width}")


def elements_of(to: Lowering, kind: str, count: int, word: str) -> list[str]:
    """The one, two or four neighbours in an integer."""
    width = WIDTHS.get(kind) or int(kind[1:])
    if count == 1:
        return [word if kind[0] == "i" else to.text.value(f"bitcast i{width} {word} to {kind}")]
    if width == 8:
        pairs = [word] if count == 2 else elements_of(to, "i16", 2, word)
        return [byte for pair in pairs for byte in bytes_of(to, pair)]
    return halves(to, kind, to.text.value(f"bitcast i{2 * width} {word} to <2 x {kind}>"))


@dataclass(frozen=True, slots=True)
class Lanes:
    """What a float instruction works on at a time: one element of a type, or two of 16 bits side by side."""

    element: FloatType
    count: int = 1

    @property
    def kind(self) -> str:
        """The LLVM type."""
        kind = llvm_type(self.element)
        return kind if self.count == 1 else f"<{self.count} x {kind}>"

    @property
    def suffix(self) -> str:
        """The type as LLVM's intrinsics have it."""
        return str(self.element) if self.count == 1 else f"v{self.count}{self.element}"

    @property
    def ptx(self) -> str:
        """The type as instructions have it."""
        return str(self.element) if self.count == 1 else f"{self.element}x{self.count}"

    @property
    def width(self) -> int:
        """The bits of a register."""
        return self.element.width * self.count

    def each(self, number: int) -> int:
        """The number in every lane."""
        return sum(number << lane * self.element.width for lane in range(self.count))

    def asm(self, to: Lowering, code: str, args: Sequence[str]) -> str:
        """Pure inline PTX from operands and to a result of this type; `code` stands before `$0, $1, ...;`.

        There are letters for registers of half, float and double; all else goes in as bits.
        """
        listed = ", ".join(f"${index}" for index in range(len(args) + 1))
        letter = FLOAT_LETTERS.get(str(self.element)) if self.count == 1 else None
        letters = ",".join([letter or LETTERS[self.width]] * len(args))
        constraints, text = f"={letters[0]},{letters}", f"{code} {listed};"
        if letter is not None:
            return to.text.asm(self.kind, text, constraints, [(self.kind, arg) for arg in args])
        bits = f"i{self.width}"
        given = [(bits, to.text.value(f"bitcast {self.kind} {arg} to {bits}")) for arg in args]
        return to.text.value(f"bitcast {bits} {to.text.asm(bits, text, constraints, given)} to {self.kind}")


#: Writes an operation on one register's worth of elements.
Write = Callable[[Lanes, list[str]], str]


def in_lanes(to: Lowering, element: FloatType, columns: Sequence[Sequence[str]], write: Write) -> list[str]:
    """An operation on columns of elements, two at a time where they have 16 bits."""
    kind, count, made = llvm_type(element), len(columns[0]), list[str]()
    paired = count - count % 2 if element in (F16, BF16) else 0
    for first in range(0, paired, 2):
        args = [joined(to, kind, column[first], column[first + 1]) for column in columns]
        made += halves(to, kind, write(Lanes(element, 2), args))
    return made + [write(Lanes(element), [column[index] for column in columns]) for index in range(paired, count)]
