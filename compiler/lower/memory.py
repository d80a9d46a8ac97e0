"""Loads and stores of global memory: neighbours in one thread's registers go in one access of up to 16 bytes.

A plain access is an LLVM load or store; one with a predicate or with advice for the caches is inline PTX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.lang import IntType, Operation, PointerType, ScalarType, Value, byte_width

from ..analysis.accesses import pointee, run_length
from .context import Lowering
from .registry import lowers
from .text import PTR, llvm_type, zero

LOAD_CACHE = {"ca": ".ca", "cg": ".cg", "cs": ".cs", "cv": ".cv"}  # what else there is advises stores
STORE_CACHE = {"wb": ".wb", "cg": ".cg", "cs": ".cs", "wt": ".wt"}
EVICTION = {"evict_first": ".L1::evict_first", "evict_last": ".L1::evict_last"}
CLOBBER = "~{memory}"


@dataclass(frozen=True, slots=True)
class Words:
    """How one access of some elements looks to PTX: so many words of so many bits, each of `packed` elements."""

    count: int
    bits: int
    packed: int
    element: ScalarType

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    @property
    def letter(self) -> str:
        return {8: "h", 16: "h", 32: "r", 64: "l"}[self.bits]

    @property
    def suffix(self) -> str:
        return f"{f'.v{self.count}' if self.count > 1 else ''}.b{self.bits}"

    @property
    def register(self) -> str:
        """The type of the register that holds a word; a byte has one of 16 bits."""
        return f"i{max(self.bits, 16)}"


def words_for(element: ScalarType, count: int) -> Words:
    """The widest words that `count` neighbours fill."""
    size = byte_width(element)
    total = size * count
    word = max(size, min(4, total))
    return Words(total // word, 8 * word, word // size, element)


def memory_type(element: ScalarType) -> str:
    """The type of an element in memory: as in registers, but an i1 and a pointer are integers."""
    if element == IntType(1):
        return "i8"
    return "i64" if isinstance(element, PointerType) else llvm_type(element)


def groups(to: Lowering, pointer: Value, mask: Value | None) -> list[list[int]]:
    """The registers of each access."""
    length = run_length(to.facts, pointer, mask)
    count = len(to.values[pointer])
    return [list(range(first, first + length)) for first in range(0, count, length)]


# Words and elements


def to_memory(to: Lowering, element: ScalarType, value: str) -> str:
    """An element as it stands in memory."""
    if element == IntType(1):
        return to.text.value(f"zext i1 {value} to i8")
    return to.text.value(f"ptrtoint {PTR} {value} to i64") if isinstance(element, PointerType) else value


def from_memory(to: Lowering, element: ScalarType, value: str) -> str:
    """An element from what stands in memory; of an i1 any byte but 0 is true."""
    if element == IntType(1):
        return to.text.value(f"icmp ne i8 {value}, 0")
    return to.text.value(f"inttoptr i64 {value} to {PTR}") if isinstance(element, PointerType) else value


def pack(to: Lowering, words: Words, values: Sequence[str]) -> list[str]:
    """Elements, as they stand in memory, as words for PTX registers."""
    kind, packed = memory_type(words.element), words.packed
    result: list[str] = []
    for first in range(0, len(values), packed):
        if packed == 1:
            word = (
                values[first]
                if kind == words.type
                else to.text.value(f"bitcast {kind} {values[first]} to {words.type}")
            )
        else:
            vector = "poison"
            for lane, value in enumerate(values[first : first + packed]):
                vector = to.text.value(f"insertelement <{packed} x {kind}> {vector}, {kind} {value}, i32 {lane}")
            word = to.text.value(f"bitcast <{packed} x {kind}> {vector} to {words.type}")
        result.append(to.text.value(f"zext i8 {word} to i16") if words.bits == 8 else word)
    return result


def unpack(to: Lowering, words: Words, registers: Sequence[str]) -> list[str]:
    """The elements, as they stand in memory, that words hold."""
    kind, packed = memory_type(words.element), words.packed
    result: list[str] = []
    for register in registers:
        word = to.text.value(f"trunc i16 {register} to i8") if words.bits == 8 else register
        if packed == 1:
            result.append(word if kind == words.type else to.text.value(f"bitcast {words.type} {word} to {kind}"))
            continue
        vector = to.text.value(f"bitcast {words.type} {word} to <{packed} x {kind}>")
        result += [to.text.value(f"extractelement <{packed} x {kind}> {vector}, i32 {i}") for i in range(packed)]
    return result


# Load


@lowers("load")
def _load(to: Lowering, operation: Operation) -> None:
    pointer, mask, other = operation.operands[0], operation.operand("mask"), operation.operand("other")
    pieces: list[str] = []
    for group in groups(to, pointer, mask):
        address = to.values[pointer][group[0]]
        chosen = None if mask is None else to.values[mask][group[0]]
        element = pointee(pointer)
        fallback = [to.values[other][r] if other is not None else zero(element) for r in group]
        pieces += load_group(to, operation, element, address, chosen, fallback)
    if operation.attributes["volatile"]:  # replicas must not see different things
        pieces = list(to.share(operation, to.slots(operation.result), llvm_type(pointee(pointer)), pieces))
    to.values[operation.result] = tuple(pieces)


def load_group(
    to: Lowering, operation: Operation, element: ScalarType, address: str, mask: str | None, fallback: Sequence[str]
) -> list[str]:
    """One access: the elements from `address` on."""
    modifiers = load_modifiers(operation)
    words = words_for(element, len(fallback))
    if mask is None and not modifiers:
        return plain_load(to, element, address, len(fallback))
    code = f"ld{modifiers if modifiers == '.volatile' else ''}.global{'' if modifiers == '.volatile' else modifiers}"
    if mask is None:
        registers = asm_load(to, code, words, address)
    else:
        defaults = pack(to, words, [to_memory(to, element, value) for value in fallback])
        registers = masked_load(to, code, words, address, mask, defaults)
    return [from_memory(to, element, value) for value in unpack(to, words, registers)]


def load_modifiers(operation: Operation) -> str:
    """What `cache`, `eviction` and `volatile` make of the instruction; PTX takes one of the three."""
    if operation.attributes["volatile"]:
        return ".volatile"
    eviction = EVICTION.get(str(operation.attributes["eviction"]), "")
    return eviction or LOAD_CACHE.get(str(operation.attributes["cache"]), "")


def plain_load(to: Lowering, element: ScalarType, address: str, count: int) -> list[str]:
    """An LLVM load of neighbours."""
    kind, size = memory_type(element), byte_width(element)
    if count == 1:
        return [from_memory(to, element, to.text.value(f"load {kind}, {PTR} {address}, align {size}"))]
    loaded = to.text.value(f"load <{count} x {kind}>, {PTR} {address}, align {size * count}")
    values = [to.text.value(f"extractelement <{count} x {kind}> {loaded}, i32 {i}") for i in range(count)]
    return [from_memory(to, element, value) for value in values]


def outputs(to: Lowering, words: Words, result: str) -> list[str]:
    """The words that a load's inline PTX gave: a struct if there are several."""
    if words.count == 1:
        return [result]
    kind = f"{{{', '.join([words.register] * words.count)}}}"
    return [to.text.value(f"extractvalue {kind} {result}, {i}") for i in range(words.count)]


def result_type(words: Words) -> str:
    return words.register if words.count == 1 else f"{{{', '.join([words.register] * words.count)}}}"


def listed(first: int, count: int) -> str:
    """`{$1, $2}`, or `$1` for one."""
    names = [f"${first + i}" for i in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


def asm_load(to: Lowering, code: str, words: Words, address: str) -> list[str]:
    text = f"{code}{words.suffix} {listed(0, words.count)}, [${words.count}];"
    constraints = ",".join([f"={words.letter}"] * words.count + ["l", CLOBBER])
    return outputs(to, words, to.text.asm(result_type(words), text, constraints, [(PTR, address)], effect=True))


def masked_load(to: Lowering, code: str, words: Words, address: str, mask: str, defaults: Sequence[str]) -> list[str]:
    """The defaults, replaced by what the load gives where the mask holds."""
    n = words.count
    bits = max(words.bits, 16)
    moves = "".join(f"mov.b{bits} ${i}, ${n + 2 + i};\n" for i in range(n))
    text = f"{moves}@${n + 1} {code}{words.suffix} {listed(0, n)}, [${n}];"
    constraints = ",".join([f"=&{words.letter}"] * n + ["l", "b"] + [words.letter] * n + [CLOBBER])
    given = [(PTR, address), ("i1", mask), *((words.register, default) for default in defaults)]
    return outputs(to, words, to.text.asm(result_type(words), text, constraints, given, effect=True))


# Store


@lowers("store")
def _store(to: Lowering, operation: Operation) -> None:
    pointer, value, mask = operation.operands[0], operation.operands[1], operation.operand("mask")
    element, once = pointee(pointer), to.chosen(to.slots(pointer))
    for group in groups(to, pointer, mask):
        predicate = both(to, once, "" if mask is None else to.values[mask][group[0]])
        values = [to_memory(to, element, to.values[value][r]) for r in group]
        store_group(to, operation, element, to.values[pointer][group[0]], values, predicate)


def both(to: Lowering, a: str, b: str) -> str:
    """The conjunction of two predicates, "" standing for one that always holds."""
    return to.text.value(f"and i1 {a}, {b}") if a and b else a or b


def store_group(
    to: Lowering, operation: Operation, element: ScalarType, address: str, values: Sequence[str], predicate: str
) -> None:
    """One access: elements, as they stand in memory, from `address` on."""
    eviction = EVICTION.get(str(operation.attributes["eviction"]), "")
    modifiers = eviction or STORE_CACHE.get(str(operation.attributes["cache"]), "")
    kind, size, count = memory_type(element), byte_width(element), len(values)
    if predicate or modifiers:
        words = words_for(element, count)
        guard = f"@${words.count + 1} " if predicate else ""
        text = f"{guard}st.global{modifiers}{words.suffix} [${words.count}], {listed(0, words.count)};"
        given = [*((words.register, word) for word in pack(to, words, values)), (PTR, address)]
        constraints = [words.letter] * words.count + ["l"] + (["b"] if predicate else []) + [CLOBBER]
        to.text.asm(
            "void", text, ",".join(constraints), [*given, ("i1", predicate)][: len(constraints) - 1], effect=True
        )
        return
    vector = values[0]
    if count > 1:
        kind, single = f"<{count} x {kind}>", kind
        vector = "poison"
        for lane, value in enumerate(values):
            vector = to.text.value(f"insertelement {kind} {vector}, {single} {value}, i32 {lane}")
    to.text.effect(f"store {kind} {vector}, {PTR} {address}, align {size * count}")
