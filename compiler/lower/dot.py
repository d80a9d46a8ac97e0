"""Matrix products: `mma.sync` on the fragments that a warp holds, or plain multiply-adds (see `dot_plain.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.lang import F16, F32, F64, I8, Operation, byte_width, element_of

from ..analysis.dot_layouts import Mma, instruction_of
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
#: The generation whose instruction adds products of 8-bit floats with fewer bits than f32 has: see `max_imprecise`.
#: Those after it have no such instruction; the assembler writes one of f16 for it.
SHORT_SUMS = 89


@lowers("dot")
def _dot(to: Lowering, operation: Operation) -> None:
    (_matrix if operation.attributes["instruction"] == "mma" else multiply_add)(to, operation)


def _matrix(to: Lowering, operation: Operation) -> None:
    a, b, acc = (held(to, operand) for operand in operation.operands)
    mma = instruction_of(operation, to.target)
    assert mma is not None
    code = _Instruction(to, operation, mma)
    words_a = _fragments(a, mma, 1, code.words)
    words_b = _fragments(b, mma, 0, code.words)
    corners = [(0, 0), (0, 1), *([(8, 0), (8, 1)] if mma.m == 16 else [])]
    steps = sorted({place[-1] // mma.k * mma.k for place in a})
    for *batch, m, n in [place for place in acc if place[-1] % 2 == 0 and place[-2] % mma.m == 0]:
        places = [(*batch, m + dm, n + dn) for dm, dn in corners]
        factors = [(words_a[*batch, m, k], words_b[*batch, k, n]) for k in steps]
        acc.update(zip(places, code.sum(factors, [acc[place] for place in places]), strict=True))
    to.values[operation.result] = tuple(acc.values())


def _fragments(
    own: dict[Place, str], mma: Mma, k_last: int, words: Callable[[list[str]], list[str]]
) -> dict[Place, list[list[str]]]:
    """The registers of an operand for each instruction, by the place of the instruction's first element.

    A list for each part that `words` makes of the elements of one register. `k_last` tells `a`, whose last dimension
    is K, from `b`.
    """
    outer = [0, 8] if k_last and mma.m == 16 else [0]
    halves = [0, 4 * mma.packed] if mma.k == 8 * mma.packed else [0]

    def at(place: Place, step: int, along_k: int) -> Place:
        *batch, row, column = place
        return (*batch, row + step, column + along_k) if k_last else (*batch, row + along_k, column + step)

    def is_first(place: Place) -> bool:
        k, other = (place[-1], place[-2]) if k_last else (place[-2], place[-1])
        return k % mma.k == 0 and (not k_last or other % mma.m == 0)

    result: dict[Place, list[list[str]]] = {}
    for place in filter(is_first, own):
        groups = [[own[at(place, step, half + low)] for low in range(mma.packed)] for half in halves for step in outer]
        result[place] = [list(part) for part in zip(*map(words, groups), strict=True)]
    return result


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
        if byte_width(left) == 1 and result == F32 and to.target.sm == SHORT_SUMS:
            most = operation.attributes["max_imprecise"]
            assert isinstance(most, int)
            self.apart = max(1, most // mma.k)

    def words(self, group: list[str]) -> list[str]:
        """What one register of a fragment holds: neighbours packed. For f32 one for each part."""
        if self.left == F64:
            return group
        return self.split.make(self.to, group) if self.split else pack(self.to, words_for(self.left, len(group)), group)

    def sum(self, factors: Sequence[tuple[list[list[str]], list[list[str]]]], total: list[str]) -> list[str]:
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
