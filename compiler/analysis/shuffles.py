"""How a tile moves between the lanes of each warp, by shuffles.

Element y of the new layout, a register of a thread, is read from a register and a lane of the old one, each the XOR of
an image of the new register and one of the thread. What a thread can fetch at once is one word of one lane, and what a
lane can give at once is one of its words. So it goes in three steps:

1. Each lane puts its words in another order: word `i ^ give(thread)` becomes word i.
2. In round k each lane fetches one word, which is that of its new register `k ^ take(thread)`. With the right `take`
   lanes that read from the same lane want the same word of it.
3. Each lane puts its words in another order again: word `k ^ take(thread)` becomes word k.

The first and the third step select between two words for each bit in which the orders differ; where they are the same
in all threads, a register is another one's name. Elements of less than 32 bits travel together where both layouts have
them side by side in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.lang import LinearLayout, f2

from .placement import LANE, REGISTER, columns, thread_columns

#: A part of a place: of a register's number, and of a lane's.
Part: TypeAlias = tuple[int, int]
LANE_BITS, WORD_BYTES = 5, 4
#: What an instruction costs beside a select: a shuffle has half the rate.
SHUFFLE_COST = 2


@dataclass(frozen=True, slots=True)
class Reading:
    """Where elements come from: for each bit of the new register, and of the thread's index, the XOR that it makes in
    the number of the old register, which has `width` bits, and in the lane. `same` are XORs that lead to the same
    element."""

    width: int
    register: tuple[Part, ...]
    thread: tuple[Part, ...]
    same: tuple[Part, ...]

    @property
    def stays(self) -> bool:
        """Whether each thread finds all that it needs in its own registers, the same ones in every thread."""
        lanes = [(0, 1 << at if at < LANE_BITS else 0) for at in range(len(self.thread))]
        return [*self.thread] == lanes and not any(lane for _, lane in self.register)

    def registers(self) -> tuple[int, ...]:
        """The old register of each new one of the first thread."""
        found = [0]
        for register, _ in self.register:
            found += [each ^ register for each in found]
        return tuple(found)


def reading(src: LinearLayout, dst: LinearLayout) -> Reading | None:
    """Where a thread finds the elements that `dst` gives it; None where that is another warp.

    A lane reads its own registers where it can. Registers must hold no replicas.
    """
    registers, threads = columns(src, REGISTER), thread_columns(src)
    own, warp = f2.eliminate(registers), f2.eliminate([*registers, *columns(src, LANE)])
    found: list[Part] = []
    for at, wanted in enumerate(thread_columns(dst)):
        lane = at < LANE_BITS
        mine = own.solve(wanted ^ threads[at])
        if mine is not None:
            found.append((mine, 1 << at if lane else 0))
        elif (place := warp.solve(wanted if lane else wanted ^ threads[at])) is not None:
            found.append(_split(place, len(registers)))
        else:
            return None
    places = [warp.solve(wanted) for wanted in columns(dst, REGISTER)]
    split = tuple(_split(place, len(registers)) for place in places if place is not None)
    same = tuple(_split(place, len(registers)) for place in warp.kernel)
    return Reading(len(registers), split, tuple(found), same) if len(split) == len(places) else None


def _split(place: int, bits: int) -> Part:
    return place & (1 << bits) - 1, place >> bits


@dataclass(frozen=True, slots=True)
class Order:
    """Another order of words: word `i ^ words` becomes word i, in threads whose index has an odd number of the bits of
    `parity`."""

    words: int
    parity: int


@dataclass(frozen=True, slots=True)
class Shuffles:
    """Words of elements, exchanged in a warp; see the module.

    `given[w]`, `taken[w]`: the registers that an old and a new word packs. `lanes`: the XOR of each bit of the thread's
    index in the lane that it reads from. `rounds[k]`: the word that is fetched, and the XOR in the lane.
    """

    given: tuple[tuple[int, ...], ...]
    taken: tuple[tuple[int, ...], ...]
    give: tuple[Order, ...]
    take: tuple[Order, ...]
    lanes: tuple[int, ...]
    rounds: tuple[tuple[int, int], ...]

    @property
    def keeps_lanes(self) -> bool:
        """Whether each lane reads from the one whose index differs by that of the round only."""
        return all(image == (1 << at if at < LANE_BITS else 0) for at, image in enumerate(self.lanes))

    def cost(self, size: int) -> int:
        """The instructions of a thread, weighed, for elements of `size` bytes."""
        fetched = sum(not self.keeps_lanes or bool(lane) for _, lane in self.rounds)
        selects = len(self.give) * len(self.given) + len(self.take) * len(self.taken)
        return (selects + SHUFFLE_COST * fetched) * max(1, size // WORD_BYTES)


def shuffles(where: Reading, size: int) -> Shuffles | None:
    """The plan; None where lanes would have to fetch different words of the same lane at once."""
    packed = _packed(where, size)
    old = [bit for bit in range(where.width) if bit not in packed.values()]
    new = [bit for bit in range(len(where.register)) if bit not in packed]
    register = [(f2.gather(where.register[bit][0], old), where.register[bit][1]) for bit in new]
    thread, same = ([(f2.gather(word, old), lane) for word, lane in parts] for parts in (where.thread, where.same))
    take = _take(register, thread, same)
    if take is None:
        return None
    lanes = [lane ^ f2.multiply([lane for _, lane in register], k) for k, (_, lane) in zip(take, thread, strict=True)]
    words = [word ^ f2.multiply([word for word, _ in register], k) for k, (word, _) in zip(take, thread, strict=True)]
    give = _give(lanes, words)
    rounds = [(0, 0)]
    for word, lane in register:
        rounds += [(w ^ word ^ f2.multiply(give[:LANE_BITS], lane), at ^ lane) for w, at in rounds]
    given, taken = _words(old, [*packed.values()]), _words(new, [*packed])
    return Shuffles(given, taken, _orders(give), _orders(take), tuple(lanes), tuple(rounds))


def _packed(where: Reading, size: int) -> dict[int, int]:
    """The bits of a new register that number elements of a word, and the bits of the old one that do."""
    parts = [word for word, _ in (*where.register, *where.thread, *where.same)]
    found: dict[int, int] = {}
    for bit, (word, lane) in enumerate(where.register):
        alone = word and not lane and not word & word - 1 and sum(bool(part & word) for part in parts) == 1
        if alone and size << len(found) < WORD_BYTES:
            found[bit] = word.bit_length() - 1
    return found


def _take(register: Sequence[Part], thread: list[Part], same: Sequence[Part]) -> list[int] | None:
    """The XOR of each bit of the thread's index in the number of the word that it takes in a round.

    Lanes that read from the same lane but want other words of it must read from others. Each such direction is given a
    replica in another lane, in `thread`, or else a bit of the new register that makes another lane: then these lanes
    take that word first.
    """
    lanes, wanted = [lane for _, lane in thread[:LANE_BITS]], [word for word, _ in thread[:LANE_BITS]]
    together = f2.eliminate(lanes).kernel
    differ = f2.eliminate([f2.multiply(wanted, direction) for direction in together])
    bits = [direction.bit_length() - 1 for direction in together]  # none has another's
    take, moved, reached = [0] * len(thread), [(0, 0)] * len(thread), lanes
    for at in (at for at in range(len(together)) if differ.pivots >> at & 1):
        replicas = [part for part in same if f2.solve(reached, part[1]) is None]
        fresh = [b for b, (_, lane) in enumerate(register) if f2.solve(reached, lane) is None]
        if not replicas and not fresh:
            return None
        if replicas:
            moved[bits[at]] = replicas[0]
        else:
            take[bits[at]] = 1 << fresh[0]
        reached = [*reached, replicas[0][1] if replicas else register[fresh[0]][1]]
    for relation in differ.kernel:
        (*others, last) = [bit for at, bit in enumerate(bits) if relation >> at & 1]
        for other in others:
            take[last] ^= take[other]
            moved[last] = _sum(moved[last], moved[other])
    thread[:] = map(_sum, thread, moved)
    return take


def _sum(part: Part, other: Part) -> Part:
    return part[0] ^ other[0], part[1] ^ other[1]


def _give(lanes: Sequence[int], words: Sequence[int]) -> list[int]:
    """The XOR of each bit of the thread's index in the number of the word that it gives.

    `lanes` and `words` are the lane and the word that the bits of a thread's index ask for. What a lane gives is what
    the lanes that read from it ask for; the warp's part comes on top.
    """
    echelon = f2.eliminate([*lanes[:LANE_BITS], *(1 << bit for bit in range(LANE_BITS))])
    asking = [(echelon.solve(1 << bit) or 0) & (1 << LANE_BITS) - 1 for bit in range(LANE_BITS)]
    give = [f2.multiply(words[:LANE_BITS], lane) for lane in asking]
    by_warp = zip(lanes[LANE_BITS:], words[LANE_BITS:], strict=True)
    return [*give, *(word ^ f2.multiply(give, lane) for lane, word in by_warp)]


def _words(numbers: Sequence[int], packed: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The registers of each word: some bits of a register number words, others the elements of a word."""
    elements = [f2.scatter(element, packed) for element in range(1 << len(packed))]
    firsts = [f2.scatter(word, numbers) for word in range(1 << len(numbers))]
    return tuple(tuple(first | element for element in elements) for first in firsts)


def _orders(images: Sequence[int]) -> tuple[Order, ...]:
    """A linear map of the thread's index to word numbers as a sequence of orders."""
    basis = f2.rref(images)
    return tuple(
        Order(words, sum(1 << at for at, image in enumerate(images) if image >> words.bit_length() - 1 & 1))
        for words in basis
    )
