"""Loads and stores of global memory: neighbours in one thread's registers go in one access of up to 16 bytes.

A plain access is an LLVM load or store; one with a predicate or with advice for the caches is inline PTX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.lang import IntType, Operation, PointerType, ScalarType, Value, byte_width

from ..analysis.accesses import pointee, run_length
from ..analysis.constants import constant_of
from .context import Lowering
from .formats import code_of
from .pairs import elements_of, word_of
from .registry import lowers
from .text import PTR, llvm_type

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
    """Elements, as they stand in memory, as words."""
    kind, packed = memory_type(words.element), words.packed
    return [word_of(to, kind, values[first : first + packed]) for first in range(0, len(values), packed)]


def unpack(to: Lowering, words: Words, registers: Sequence[str]) -> list[str]:
    """The elements, as they stand in memory, that words hold."""
    kind = memory_type(words.element)
    return [value for word in registers for value in elements_of(to, kind, words.packed, word)]


def to_registers(to: Lowering, words: Words, values: Sequence[str]) -> list[str]:
    """Words as inline PTX takes them: a byte in 16 bits."""
    return [to.text.value(f"zext i8 {word} to i16") for word in values] if words.bits == 8 else list(values)


def from_registers(to: Lowering, words: Words, values: Sequence[str]) -> list[str]:
    """Words from what inline PTX gives."""
    return [to.text.value(f"trunc i16 {word} to i8") for word in values] if words.bits == 8 else list(values)


# Load


@lowers("load")
def _load(to: Lowering, operation: Operation) -> None:
    pointer, mask, other = operation.operands[0], operation.operand("mask"), operation.operand("other")
    element, pieces = pointee(pointer), list[str]()
    for group in groups(to, pointer, mask):
        words, address = words_for(element, len(group)), to.values[pointer][group[0]]
        if predicate := both(to, "", "" if mask is None else to.values[mask][group[0]]):
            code = load_code(operation)
            loaded = masked_load(to, code, words, address, predicate, fallback(to, words, other, group))
        elif load_modifiers(operation):
            loaded = asm_load(to, load_code(operation), words, address)
        else:
            loaded = plain_load(to, words, address)
        pieces += [from_memory(to, element, value) for value in unpack(to, words, loaded)]
    if operation.attributes["volatile"]:  # replicas must not see different things
        pieces = list(to.share(operation, to.slots(operation.result), llvm_type(element), pieces))
    to.values[operation.result] = tuple(pieces)


def fallback(to: Lowering, words: Words, other: Value | None, group: Sequence[int]) -> list[str]:
    """What the words of a load hold where its mask does not: numbers where they are known, else registers."""
    known = 0 if other is None else constant_of(other)
    if other is None or known is not None:
        code = code_of(words.element, known)
        each = 8 * byte_width(words.element)
        return [f"{sum(code << lane * each for lane in range(words.packed)):#x}"] * words.count
    defaults = [to_memory(to, words.element, to.values[other][register]) for register in group]
    return to_registers(to, words, pack(to, words, defaults))


def load_code(operation: Operation) -> str:
    """The instruction, its type left out."""
    modifiers = load_modifiers(operation)
    return f"ld{modifiers}.global" if modifiers == ".volatile" else f"ld.global{modifiers}"


def load_modifiers(operation: Operation) -> str:
    """What `cache`, `eviction` and `volatile` make of the instruction; PTX takes one of the three."""
    if operation.attributes["volatile"]:
        return ".volatile"
    eviction = EVICTION.get(str(operation.attributes["eviction"]), "")
    return eviction or LOAD_CACHE.get(str(operation.attributes["cache"]), "")


def plain_load(to: Lowering, words: Words, address: str) -> list[str]:
    """An LLVM load of words."""
    align = words.count * words.bits // 8
    if words.count == 1:
        return [to.text.value(f"load {words.type}, {PTR} {address}, align {align}")]
    loaded = to.text.value(f"load <{words.count} x {words.type}>, {PTR} {address}, align {align}")
    return [
        to.text.value(f"extractelement <{words.count} x {words.type}> {loaded}, i32 {i}") for i in range(words.count)
    ]


def outputs(to: Lowering, words: Words, result: str) -> list[str]:
    """The words that a load's inline PTX gave: a struct if there are several."""
    kind = result_type(words)
    registers = [result]
    if words.count > 1:
        registers = [to.text.value(f"extractvalue {kind} {result}, {i}") for i in range(words.count)]
    return from_registers(to, words, registers)


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
    """The defaults, registers or numbers, replaced by what the load gives where the mask holds."""
    n, bits = words.count, max(words.bits, 16)
    given = [(PTR, address), ("i1", mask)]
    moves = ""
    for index, default in enumerate(defaults):
        if default.startswith("%"):
            given.append((words.register, default))
            default = f"${n + len(given) - 1}"
        moves += f"mov.b{bits} ${index}, {default};\n"
    text = f"{moves}@${n + 1} {code}{words.suffix} {listed(0, n)}, [${n}];"
    constraints = ",".join([f"=&{words.letter}"] * n + ["l", "b"] + [words.letter] * (len(given) - 2) + [CLOBBER])
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
    """The conjunction of two predicates; "", as which a known `true` comes back too, is one that always holds."""
    a, b = ("" if each == "true" else each for each in (a, b))
    return to.text.value(f"and i1 {a}, {b}") if a and b else a or b


def store_group(
    to: Lowering, operation: Operation, element: ScalarType, address: str, values: Sequence[str], predicate: str
) -> None:
    """One access: elements, as they stand in memory, from `address` on."""
    eviction = EVICTION.get(str(operation.attributes["eviction"]), "")
    modifiers = eviction or STORE_CACHE.get(str(operation.attributes["cache"]), "")
    words = words_for(element, len(values))
    packed = pack(to, words, values)
    if not predicate and not modifiers:
        plain_store(to, words, address, packed)
        return
    store_words(to, f"st.global{modifiers}", words, (PTR, address), packed, predicate)


def store_words(
    to: Lowering, code: str, words: Words, address: tuple[str, str], packed: Sequence[str], predicate: str
) -> None:
    """A store in inline PTX, its type left out in `code`; `address` with its LLVM type, `predicate` "" for always."""
    guard = f"@${words.count + 1} " if predicate else ""
    text = f"{guard}{code}{words.suffix} [${words.count}], {listed(0, words.count)};"
    given = [*((words.register, word) for word in to_registers(to, words, packed)), address]
    constraints = [words.letter] * words.count + ["l"] + (["b"] if predicate else []) + [CLOBBER]
    to.text.asm("void", text, ",".join(constraints), given + ([("i1", predicate)] if predicate else []), effect=True)


def plain_store(to: Lowering, words: Words, address: str, values: Sequence[str]) -> None:
    """An LLVM store of words."""
    kind, stored, count = words.type, values[0], words.count
    if count > 1:
        kind, stored = f"<{count} x {kind}>", "poison"
        for lane, value in enumerate(values):
            stored = to.text.value(f"insertelement {kind} {stored}, {words.type} {value}, i32 {lane}")
    to.text.effect(f"store {kind} {stored}, {PTR} {address}, align {count * words.bits // 8}")
