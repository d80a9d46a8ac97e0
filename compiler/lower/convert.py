"""A tile moved from one layout to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright.lang import Operation, ScalarType, byte_width, element_of

from ..analysis.conversion import Exchange, Renaming, conversion
from ..analysis.placement import layout_of, slots
from ..analysis.shuffles import LANE_BITS, WORD_BYTES, Order, Shuffles
from .context import Lowering
from .memory import Words, from_memory, pack, to_memory, unpack
from .registry import lowers
from .shared import load_tile, store_tile

#: Writes a move of distinct registers, and gives those that come out.
Mover: TypeAlias = Callable[[Lowering, Operation, Any, Sequence[str]], Sequence[str]]


@lowers("convert_layout")
def _convert_layout(to: Lowering, operation: Operation) -> None:
    source, result = operation.operands[0], operation.result
    src, dst = layout_of(source.type), layout_of(result.type)
    assert src is not None and dst is not None
    plan = conversion(src, dst, byte_width(element_of(result.type)))
    registers = [to.values[source][register] for register in plan.used]
    moved = MOVERS[type(plan.move)](to, operation, plan.move, registers)
    to.values[result] = tuple(moved[register] for register in plan.result)


def _renamed(to: Lowering, operation: Operation, move: Renaming, registers: Sequence[str]) -> Sequence[str]:
    return [registers[register] for register in move.registers]


def _exchanged(to: Lowering, operation: Operation, move: Exchange, registers: Sequence[str]) -> Sequence[str]:
    """Write, wait and read; the next piece waits until this one is read."""
    base, element, pieces = to.scratch(operation), element_of(operation.result.type), move.pieces
    moved = [""] * sum(len(results) for _, results in pieces.registers)
    for number, (sources, results) in enumerate(pieces.registers):
        if number:
            to.barrier()
        with to.only(slots(pieces.src)):
            store_tile(to, base, move.memory, pieces.src, element, [registers[r] for r in sources])
        to.barrier()
        for register, value in zip(results, load_tile(to, base, move.memory, pieces.dst, element), strict=True):
            moved[register] = value
    return moved


# Shuffles


def _shuffled(to: Lowering, operation: Operation, move: Shuffles, registers: Sequence[str]) -> Sequence[str]:
    """Put words in order, fetch one in each round, and put what came in order."""
    element = element_of(operation.result.type)
    words = _words(element, len(move.given[0]))
    held = [to_memory(to, element, registers[register]) for group in move.given for register in group]
    given = [_filled(to, words, word) for word in pack(to, words, held)]
    for order in move.give:
        given = _ordered(to, words, given, order)
    taken = [_fetched(to, words, move, given[word], lane) for word, lane in move.rounds]
    for order in move.take:
        taken = _ordered(to, words, taken, order)
    elements = unpack(to, words, [_cut(to, words, word) for word in taken])
    moved = dict(zip((register for group in move.taken for register in group), elements, strict=True))
    return [from_memory(to, element, moved[register]) for register in range(len(moved))]


def _words(element: ScalarType, packed: int) -> Words:
    return Words(1, 8 * byte_width(element) * packed, packed, element)


def _filled(to: Lowering, words: Words, word: str) -> str:
    """A word of at least 32 bits."""
    return to.text.value(f"zext {words.type} {word} to i32") if words.bits < 8 * WORD_BYTES else word


def _cut(to: Lowering, words: Words, word: str) -> str:
    return to.text.value(f"trunc i32 {word} to {words.type}") if words.bits < 8 * WORD_BYTES else word


def _ordered(to: Lowering, words: Words, held: Sequence[str], order: Order) -> list[str]:
    """The words of a thread in another order, where its index has an odd number of some bits."""
    kind, odd = "i64" if words.bits == 64 else "i32", to.odd(order.parity)
    pairs = [(word, held[number ^ order.words]) for number, word in enumerate(held)]
    return [to.text.value(f"select i1 {odd}, {kind} {other}, {kind} {word}") for word, other in pairs]


def _fetched(to: Lowering, words: Words, move: Shuffles, word: str, lane: int) -> str:
    """A word of another lane."""
    if move.keeps_lanes and not lane:
        return word
    if words.bits <= 8 * WORD_BYTES:
        return _fetched_half(to, move, word, lane)
    upper = to.text.value(f"lshr i64 {word}, 32")
    halves = [_fetched_half(to, move, to.text.value(f"trunc i64 {half} to i32"), lane) for half in (word, upper)]
    low, high = (to.text.value(f"zext i32 {half} to i64") for half in halves)
    return to.text.value(f"or disjoint i64 {low}, {to.text.value(f'shl i64 {high}, 32')}")


def _fetched_half(to: Lowering, move: Shuffles, word: str, lane: int) -> str:
    mode, source = "bfly", str(lane)
    if not move.keeps_lanes:
        mode, source = "idx", to.sum_of_bits(move.lanes)
        source = to.text.value(f"xor i32 {source}, {lane}") if lane else source
    arguments = [("i32", "-1"), ("i32", word), ("i32", source), ("i32", str((1 << LANE_BITS) - 1))]
    return to.text.call("i32", f"llvm.nvvm.shfl.sync.{mode}.i32", arguments)


MOVERS: dict[type, Mover] = {Renaming: _renamed, Exchange: _exchanged, Shuffles: _shuffled}
