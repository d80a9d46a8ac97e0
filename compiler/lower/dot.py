"""Matrix products: `mma.sync` on the fragments that a warp holds, or multiply-adds on what a thread holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tilewright.lang import F16, F32, F64, I8, FloatType, Operation, ScalarType, Value, element_of

from ..analysis.dot_layouts import INSTRUCTIONS, Mma
from ..analysis.placement import layout_of, slots
from .context import Lowering
from .fp8 import decode
from .memory import pack, words_for
from .registry import lowers
from .text import llvm_type

Place: TypeAlias = tuple[int, ...]
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


@lowers("dot")
def _dot(to: Lowering, operation: Operation) -> None:
    (_matrix if operation.attributes["instruction"] == "mma" else _plain)(to, operation)


def _held(to: Lowering, value: Value) -> dict[Place, str]:
    """What this thread holds, by place."""
    layout = layout_of(value.type)
    assert layout is not None
    return dict(zip(slots(layout).registers, to.values[value], strict=True))


# Multiply-adds


def _plain(to: Lowering, operation: Operation) -> None:
    """Every result is a chain of multiply-adds over K, in f32 for narrower floats, which are rounded at the end."""
    a, b, acc = (_held(to, operand) for operand in operation.operands)
    left, right, element = (element_of(operand.type) for operand in operation.operands)
    a = {place: _wide(to, left, register) for place, register in a.items()}
    b = {place: _wide(to, right, register) for place, register in b.items()}
    depth = {place[-1] for place in a}
    results: list[str] = []
    for (*batch, m, n), start in acc.items():
        total = _wide(to, element, start)
        for k in sorted(depth):
            total = _multiply_add(to, element, a[*batch, m, k], b[*batch, k, n], total)
        results.append(to.text.value(f"fptrunc float {total} to half") if element == F16 else total)
    to.values[operation.result] = tuple(results)


def _wide(to: Lowering, element: ScalarType, register: str) -> str:
    """An operand as the multiply-add takes it."""
    if element == I8:
        return to.text.value(f"sext i8 {register} to i32")
    if isinstance(element, FloatType) and element.is_fp8:
        return decode(to, element, register)
    if isinstance(element, FloatType) and element.width == 16:
        return to.text.value(f"fpext {llvm_type(element)} {register} to float")
    return register


def _multiply_add(to: Lowering, element: ScalarType, a: str, b: str, total: str) -> str:
    if isinstance(element, FloatType):
        kind = "double" if element == F64 else "float"
        name = "llvm.fma.f64" if element == F64 else "llvm.fma.f32"
        return to.text.call(kind, name, [(kind, a), (kind, b), (kind, total)])
    product = to.text.value(f"mul i32 {a}, {b}")
    return to.text.value(f"add i32 {total}, {product}")


# Matrix instructions

#: For each precision of f32 operands the products of their parts, the smallest first; parts go from large to small.
PARTS = {"tf32": ((0, 0),), "tf32x3": ((1, 0), (0, 1), (0, 0))}


def _matrix(to: Lowering, operation: Operation) -> None:
    a, b, acc = (_held(to, operand) for operand in operation.operands)
    left, right, element = (element_of(operand.type) for operand in operation.operands)
    mma = INSTRUCTIONS.get(left, INSTRUCTIONS[I8])
    products = PARTS.get(str(operation.attributes["precision"]), PARTS["tf32"]) if left == F32 else ((0, 0),)
    count = 1 + max(part for product in products for part in product)
    words_a = _fragments(to, left, a, [(0, 0), *([(8, 0)] if mma.m == 16 else [])], mma, 1, count)
    words_b = _fragments(to, right, b, [(0, 0)], mma, 0, count)
    code = _Instruction(to, mma, left, right, element)
    corners = [(0, 0), (0, 1), *([(8, 0), (8, 1)] if mma.m == 16 else [])]
    steps = sorted({place[-1] // mma.k * mma.k for place in a})
    for *batch, m, n in [place for place in acc if place[-1] % 2 == 0 and place[-2] % mma.m == 0]:
        places = [(*batch, m + dm, n + dn) for dm, dn in corners]
        total = [acc[place] for place in places]
        for k in steps:
            for part_a, part_b in products:
                total = code.emit(words_a[*batch, m, k][part_a], words_b[*batch, k, n][part_b], total)
        acc.update(zip(places, total, strict=True))
    to.values[operation.result] = tuple(acc.values())


def _fragments(
    to: Lowering,
    element: ScalarType,
    held: dict[Place, str],
    outer: Sequence[tuple[int, int]],
    mma: Mma,
    k_last: int,
    count: int,
) -> dict[Place, list[list[str]]]:
    """The registers of an operand for each instruction, by the place of the instruction's first element.

    `outer` are the steps along the other axis, inner to those along K; `count` parts of each element are made.
    """
    halves = [0, 4 * mma.packed] if mma.k == 8 * mma.packed else [0]

    def at(place: Place, step: int, along_k: int) -> Place:
        *batch, row, column = place
        return (*batch, row + step, column + along_k) if k_last else (*batch, row + along_k, column + step)

    def is_first(place: Place) -> bool:
        k, other = (place[-1], place[-2]) if k_last else (place[-2], place[-1])
        return k % mma.k == 0 and (not k_last or other % mma.m == 0)

    result: dict[Place, list[list[str]]] = {}
    for place in filter(is_first, held):
        groups = [
            [held[at(place, step, half + low)] for low in range(mma.packed)] for half in halves for step, _ in outer
        ]
        result[place] = [
            list(part) for part in zip(*(_words(to, element, group, count) for group in groups), strict=True)
        ]
    return result


def _words(to: Lowering, element: ScalarType, group: list[str], count: int) -> list[str]:
    """What one register of a fragment holds: neighbours packed; f32 as `count` parts in tf32."""
    if element == F64:
        return group
    if element != F32:
        return pack(to, words_for(element, len(group)), group)
    (rest,) = group
    parts: list[str] = []
    for number in range(count):
        parts.append(_cut(to, rest))
        if number + 1 < count:
            taken = to.text.value(f"bitcast i32 {parts[-1]} to float")
            rest = to.text.value(f"fsub float {rest}, {taken}")
    return parts


def _cut(to: Lowering, value: str) -> str:
    """An f32 cut to tf32, as its bits; a NaN stays one."""
    bits = to.text.value(f"bitcast float {value} to i32")
    kept = to.text.value(f"and i32 {bits}, {-1 << 13}")
    nan = to.text.value(f"fcmp uno float {value}, {value}")
    return to.text.value(f"select i1 {nan}, i32 {0x7FFFFFFF}, i32 {kept}")


class _Instruction:
    """One `mma.sync`, ready to be written for registers."""

    def __init__(self, to: Lowering, mma: Mma, left: ScalarType, right: ScalarType, result: ScalarType) -> None:
        self.to = to
        self.element = result
        kind = "s32" if left == I8 else str(result)
        names = f"{kind}.{PTX_NAMES[str(left)]}.{PTX_NAMES[str(right)]}.{kind}"
        self.name = f"mma.sync.aligned.m{mma.m}n{mma.n}k{mma.k}.row.col.{names}"
        self.operand = ("double", "d") if left == F64 else ("i32", "r")
        self.packed = result == F16

    def emit(self, a: Sequence[str], b: Sequence[str], total: list[str]) -> list[str]:
        """The accumulator after the instruction."""
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
