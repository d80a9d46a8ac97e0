"""Matrix products: `mma.sync` on the fragments that a warp holds, or plain multiply-adds (see `dot_plain.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright.lang import F16, F32, F64, I8, Operation, Value, element_of

from ..analysis.dot_layouts import Mma, adds_short, instruction_of, is_chain
from ..analysis.placement import layout_of, slots
from .context import Lowering
from .dot_parts import PARTS, Split, finite_or_zero
from .dot_plain import Place, held, multiply_add
from .memory import pack, words_for
from .registry import lowers

#: The name of an element type in the instruction.
PTX_NAMES = {
    "f16": "f16",
    "bf16": "bf16",
    "f32": "tf32",
    "f64": "f64",
    "i8": "s8",
    "f8e4m3fn": "e4m3",
    "f8e5m2": "e5m2",
}

#: For each instruction along K the fragments of `a` and of `b`, each with its parts.
Factors: TypeAlias = list[tuple[list[list[str]], list[list[str]]]]


@lowers("dot")
def _dot(to: Lowering, operation: Operation) -> None:
    (_matrix if operation.attributes["instruction"] == "mma" else multiply_add)(to, operation)


def _matrix(to: Lowering, operation: Operation) -> None:
    mma = instruction_of(operation, to.target)
    assert mma is not None
    code = _Instruction(to, operation, mma)
    a, b = (_Operand(to, operation.operands[index], mma, index == 0, code.words) for index in (0, 1))
    acc = held(to, operation.operands[2])
    corners = [(0, 0), (0, 1), *([(8, 0), (8, 1)] if mma.m == 16 else [])]
    steps = sorted({place[-1] // mma.k * mma.k for place in a.registers})
    firsts = [place for place in acc if place[-1] % 2 == 0 and place[-2] % mma.m == 0]
    # Step by step along K; sums that are made apart need all steps of a result together. The fragments of a step are
    # asked for one step ahead. What was left for the dot comes after those of the first two, which need no wait for it,
    # and not later, where registers would hold its addresses for long.
    rounds = [[step] for step in steps] if is_chain(operation, to.target) else [steps]
    factors: list[list[Factors]] = []
    for number in range(len(rounds)):
        for some in rounds[len(factors) : number + 2]:
            pairs = [[(a.fragment((*at, m, k)), b.fragment((*at, k, n))) for k in some] for *at, m, n in firsts]
            factors.append(pairs)
        to.carry_on()
        for (*batch, m, n), each in zip(firsts, factors[number], strict=True):
            places = [(*batch, m + dm, n + dn) for dm, dn in corners]
            acc.update(zip(places, code.sum(each, [acc[place] for place in places]), strict=True))
    to.values[operation.result] = tuple(acc.values())


class _Operand:
    """An operand of an instruction, fragment by fragment, each made when it is first asked for.

    `k_last` tells `a`, whose last dimension is K, from `b`. `words` makes what one register holds of its elements, for
    each part.
    """

    def __init__(
        self, to: Lowering, value: Value, mma: Mma, k_last: bool, words: Callable[[list[str]], list[str]]
    ) -> None:
        layout = layout_of(value.type)
        assert layout is not None
        self.registers = {place: register for register, place in enumerate(slots(layout).registers)}
        self.values = to.values[value]
        self.mma, self.k_last, self.words = mma, k_last, words
        self.known: dict[Place, list[list[str]]] = {}

    def fragment(self, first: Place) -> list[list[str]]:
        """The registers for the instruction with this first element: a list for each part."""
        if first not in self.known:
            mma = self.mma
            outer = [0, 8] if self.k_last and mma.m == 16 else [0]
            halves = [0, 4 * mma.packed] if mma.k == 8 * mma.packed else [0]
            groups = [self._neighbours(first, step, half) for half in halves for step in outer]
            self.known[first] = [list(part) for part in zip(*map(self.words, groups), strict=True)]
        return self.known[first]

    def _neighbours(self, first: Place, across: int, along_k: int) -> list[str]:
        """The elements of one register."""
        *batch, row, column = first
        steps = [along_k + low for low in range(self.mma.packed)]
        places = [(row + across, column + k) if self.k_last else (row + k, column + across) for k in steps]
        return [self.values[self.registers[*batch, *place]] for place in places]


class _Instruction:
    """The `mma.sync` of a dot, ready to be written for registers."""

    def __init__(self, to: Lowering, operation: Operation, mma: Mma) -> None:
        left, right, result = (element_of(operand.type) for operand in operation.operands)
        self.to = to
        self.left, self.element = left, result
        self.split: Split | None = PARTS[str(operation.attributes["precision"])] if left == F32 else None
        names = [self.split.name] * 2 if self.split else [PTX_NAMES[str(element)] for element in (left, right)]
        kind = "s32" if left == I8 else str(result)
        self.name = f"mma.sync.aligned.m{mma.m}n{mma.n}k{mma.k}.row.col.{kind}.{names[0]}.{names[1]}.{kind}"
        self.operand = ("double", "d") if left == F64 else ("i32", "r")
        self.packed = result == F16
        self.apart = 0
        if adds_short(operation, to.target):
            most = operation.attributes["max_imprecise"]
            assert isinstance(most, int)
            self.apart = max(1, most // mma.k)

    def words(self, group: list[str]) -> list[str]:
        """What one register of a fragment holds: neighbours packed. For f32 one for each part."""
        if self.left == F64:
            return group
        return self.split.make(self.to, group) if self.split else pack(self.to, words_for(self.left, len(group)), group)

    def sum(self, factors: Factors, total: list[str]) -> list[str]:
        """The accumulator after the instructions along K, whose operands are `factors`: for each its parts."""
        if self.split and self.split.small:
            nothing = ["0.0"] * len(total)
            pairs = [(a[i], b[j]) for i, j in self.split.small for a, b in factors]
            rest = [finite_or_zero(self.to, each) for each in self.chain(pairs, nothing)]
            total = self.added(total, rest)
        main = [(a[0], b[0]) for a, b in factors]
        if not self.apart:
            return self.chain(main, total)
        for first in range(0, len(main), self.apart):
            total = self.added(total, self.chain(main[first : first + self.apart], ["0.0"] * len(total)))
        return total

    def chain(self, pairs: Sequence[tuple[list[str], list[str]]], total: list[str]) -> list[str]:
        for a, b in pairs:
            total = self.emit(a, b, total)
        return total

    def added(self, left: Sequence[str], right: Sequence[str]) -> list[str]:
        return [self.to.text.value(f"fadd float {a}, {b}") for a, b in zip(left, right, strict=True)]

    def emit(self, a: Sequence[str], b: Sequence[str], total: list[str]) -> list[str]:
        """The accumulator after one instruction."""
        kind, letter = {"f64": ("double", "d"), "f32": ("float", "f")}.get(str(self.element), ("i32", "r"))
        given = pack(self.to, words_for(F16, 2), total) if self.packed else total
        out = len(given)
        text = f"{self.name} {_braced(0, out)}, {_braced(out, len(a))}, {_braced(out + len(a), len(b))}, "
        text += f"{_braced(out + len(a) + len(b), out)};"
        letters = [f"={letter}"] * out + [self.operand[1]] * (len(a) + len(b)) + [letter] * out
        arguments = [(self.operand[0], word) for word in (*a, *b)] + [(kind, word) for word in given]
        made = self.to.text.asm(f"{{ {', '.join([kind] * out)} }}", text, ",".join(letters), arguments, convergent=True)
        words = [self.to.text.value(f"extractvalue {{ {', '.join([kind] * out)} }} {made}, {i}") for i in range(out)]
        return [half for word in words for half in self._halves(word)] if self.packed else words

    def _halves(self, word: str) -> list[str]:
        pair = self.to.text.value(f"bitcast i32 {word} to <2 x half>")
        return [self.to.text.value(f"extractelement <2 x half> {pair}, i32 {i}") for i in (0, 1)]


def _braced(first: int, count: int) -> str:
    """Operands in PTX's vector form; braces are doubled nowhere, since LLVM's inline text takes them as they are."""
    return "{" + ", ".join(f"${first + i}" for i in range(count)) + "}"
