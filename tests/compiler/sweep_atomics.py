"""One atomic on one type, in every ordering and scope, compiled for some number of warps: does some order of what its
elements did explain what memory holds and what each of them found?

A kernel has one operation for each ordering and scope, on memory of its own, with a tile of its own shape, and with a
result that is stored or left alone. Half of all elements act on one address, of all programs (in the scope `cta` of
each program).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from math import prod

import numpy as np

from tests.compiler.building import Kernel
from tests.compiler.sweep_cells import WARPS, Cell, orders
from tests.compiler.sweep_data import Array, as_codes, codes_of, picked, pool, stored, words
from tests.compiler.sweep_device import run_on
from tests.compiler.sweep_elementwise import MOST_SHOWN
from tests.compiler.sweep_report import Judgement
from tilewright.difftest import SplitMix64
from tilewright.difftest.oracles.memory import combine
from tilewright.difftest.oracles.orders import some_order_explains
from tilewright.difftest.recipes import moderate
from tilewright.lang import F32, I1, I32, I64, OPS, FloatType, Module, Value, shape_of
from tilewright.runtime import Device

#: Addresses on which the elements of one operation act, and nanoseconds after which a poll may give up.
SLOTS, PATIENCE = 16, 2000
#: The last elements are masked off.
MASKED = 3


@dataclass(frozen=True, slots=True)
class Part:
    """One operation of a kernel: its number, ordering and scope, its tile, and whether its result is used."""

    number: int
    order: dict[str, str]
    shape: tuple[int, ...]
    used: bool

    @property
    def is_private(self) -> bool:
        """Whether each program has slots of its own, since others need not see what it does."""
        return self.order["scope"] == "cta"

    def base(self, plan: Plan) -> int:
        """Where the slots of the operation begin."""
        return self.number * plan.room


@dataclass(frozen=True, slots=True)
class Data:
    """Codes: what the slots of an operation hold at first, and the values and expected values of its elements."""

    first: Array
    value: Array
    expected: Array


@dataclass(frozen=True, slots=True)
class Plan:
    """A kernel and its data: for each element its slot and whether the mask lets it through, and the other data for
    operations whose results are unused and used."""

    cell: Cell
    parts: list[Part]
    programs: int
    slots: Array
    mask: Array
    data: tuple[Data, Data]

    @property
    def lanes(self) -> int:
        return len(self.slots)

    @property
    def room(self) -> int:
        """Slots of one operation: each program could have its own."""
        return SLOTS * self.programs


def plan(cell: Cell, num_warps: int, programs: int) -> Plan:
    """What runs for a cell. Over the numbers of warps each operation is used and unused, in tiles of four shapes."""
    threads, first = 32 * num_warps, cell.number + WARPS.index(num_warps)
    shapes = ((), (1,), (8,), (threads // 2,), (2, threads))
    parts = [
        Part(place, order, shapes[(first + place) % 5], (first + place) % 2 == 0)
        for place, order in enumerate(orders(cell.row))
    ]
    drawn = words(programs * max(prod(part.shape) for part in parts), 5)
    slots = np.where(drawn & np.uint64(1), 0, (drawn >> np.uint64(8)) % np.uint64(SLOTS)).astype(np.int64)
    mask = words(len(drawn), 6) % np.uint64(4) != 0
    mask[len(mask) - MASKED :] = False
    make = DATA.get(dict(cell.attributes).get("kind", cell.row), any_data)
    return Plan(cell, parts, programs, slots, mask, (make(cell, slots, False), make(cell, slots, True)))


# Data


def any_data(cell: Cell, slots: Array, used: bool) -> Data:
    """What comes."""
    values = picked(pool(cell.operands[0]), len(slots), 8)
    return Data(picked(pool(cell.operands[0]), SLOTS, 7), values, values)


def summands(cell: Cell, slots: Array, used: bool) -> Data:
    """Moderate numbers, and subnormals where nothing flushes them; or ones, so few that every sum is exact."""
    fmt = cell.operands[0]
    assert isinstance(fmt, FloatType)
    stream, sign = SplitMix64(9), 1 << fmt.width - 1
    one = (2 ** (fmt.exponent - 1) - 1) << fmt.mantissa
    rich = [moderate(stream, fmt) for _ in range(500)] + ([] if fmt == F32 else [1, 2, 3, sign | 5])
    values = picked(as_codes(rich if used else [one, one | sign], fmt), len(slots), 9)
    if not used:
        values[np.arange(len(values)) % -(-len(values) >> fmt.mantissa) != 0] = 0
    first = picked(as_codes(rich, fmt), SLOTS, 7) if used else as_codes([0] * SLOTS, fmt)
    return Data(first, values, values)


def swapped(cell: Cell, slots: Array, used: bool) -> Data:
    """Few different codes, so that what is expected is often there."""
    few = picked(pool(cell.operands[0]), 5, 11)
    return Data(*(picked(few, count, seed) for count, seed in ((SLOTS, 12), (len(slots), 13), (len(slots), 14))))


def any_byte(cell: Cell, slots: Array, used: bool) -> Data:
    """For a load: of an i1, bytes that no store leaves."""
    options = np.array([0, 1, 2, 255], np.uint8) if cell.operands[0] == I1 else pool(cell.operands[0])
    first = picked(options, SLOTS, 7)
    return Data(first, first, first)


def awaited(cell: Cell, slots: Array, used: bool) -> Data:
    """What is there; and also what never comes, for polls that give up."""
    first = picked(pool(cell.operands[0]), SLOTS, 7)
    there = first[slots]
    expected = there if used else np.where(words(len(slots), 15) % np.uint64(3) == 0, ~there, there)
    return Data(first, there, expected)


#: By the kind of a read-modify-write, or by the row: (cell, slot of each element, whether results are used) -> data.
DATA: dict[str, Callable[[Cell, Array, bool], Data]] = {
    "add_f": summands,
    "atomic_cas": swapped,
    "atomic_load": any_byte,
    "atomic_poll": awaited,
}


# The kernel


def kernel_of(plan: Plan) -> Module:
    """Parameters: target, index, mask, value, expected, old. `value` and `expected` hold two sets of data."""
    kernel, element = Kernel(), plan.cell.operands[0]
    result = I1 if plan.cell.row == "atomic_poll" else element
    names = {"target": element, "index": I32, "mask": I1, "value": element, "expected": element, "old": result}
    pointers = {name: kernel.pointer(type_, name) for name, type_ in names.items()}
    for part in plan.parts:
        act(kernel, plan, part, pointers)
    return kernel.module()


def act(kernel: Kernel, plan: Plan, part: Part, pointers: Mapping[str, Value]) -> None:
    """One operation on a tile of every program."""
    lanes, row = kernel.places(part.shape), OPS[plan.cell.row]

    def read(name: str, places: Value) -> Value:
        return kernel.make("load", [kernel.at(pointers[name], places)])

    place, data = shifted(kernel, read("index", lanes), part.base(plan)), shifted(kernel, lanes, plan.lanes * part.used)
    if part.is_private:
        own = kernel.make("mul_i", [kernel.make("program_id", attributes={"axis": 0}), kernel.constant(SLOTS)])
        place = kernel.make("add_i", [place, kernel.splat(own, part.shape)])
    operands = {
        "pointer": kernel.at(pointers["target"], place),
        "value": read("value", data),
        "expected": read("expected", data),
        "mask": read("mask", lanes),
        "timeout": kernel.constant(PATIENCE, I64),
    }
    names = [name.rstrip("?") for name in row.operands if name != "timeout?" or not part.used]
    attributes = {**dict(plan.cell.attributes), **part.order}
    made = kernel.builder.create(row, [operands[name] for name in names], attributes)
    if made.results and keeps_result(plan.cell, part):
        places = shifted(kernel, lanes, part.number * plan.lanes)
        kernel.do("store", [kernel.at(pointers["old"], places), made.result])


def shifted(kernel: Kernel, places: Value, by: int) -> Value:
    """All indices plus a number."""
    return kernel.make("add_i", [places, kernel.splat(kernel.constant(by), shape_of(places.type))])


def keeps_result(cell: Cell, part: Part) -> bool:
    """Whether the result of an operation is stored; there is nothing else to look at after a load or a poll."""
    return part.used or cell.row in ("atomic_load", "atomic_poll")


# The judge


@dataclass(frozen=True, slots=True)
class Seen:
    """What one operation did, by codes: of its elements, and of its slots before and after."""

    part: Part
    slots: list[int]
    active: list[bool]
    value: list[int]
    expected: list[int]
    found: list[int]
    before: list[int]
    after: list[int]

    def lanes_by_slot(self) -> list[list[int]]:
        """The active elements on each slot."""
        groups: list[list[int]] = [[] for _ in self.before]
        for lane, (slot, active) in enumerate(zip(self.slots, self.active, strict=True)):
            if active:
                groups[slot].append(lane)
        return groups


def run_atomic(device: Device, cell: Cell, num_warps: int, programs: int) -> Judgement:
    """Compile and run a cell, and judge what it left. Raises what compiling raises."""
    planned = plan(cell, num_warps, programs)
    element, result = cell.operands[0], I1 if cell.row == "atomic_poll" else cell.operands[0]
    before = np.concatenate([np.tile(planned.data[part.used].first, programs) for part in planned.parts])
    target, old = stored(before, element), stored(np.zeros(len(planned.parts) * planned.lanes, np.uint8), result)
    given = [np.concatenate([getattr(data, name) for data in planned.data]) for name in ("value", "expected")]
    arrays = [target, planned.slots.astype(np.int32), planned.mask, *(stored(each, element) for each in given), old]
    run_on(device, kernel_of(planned), num_warps, arrays, (programs, 1, 1))
    wrong: list[str] = []
    for part in planned.parts:
        seen = look(planned, part, before, codes_of(target, element), codes_of(old, result))
        order = ".".join(part.order.values())
        wrong += [
            f"{cell} {order}, {num_warps} warps, tile {part.shape}, result {'' if part.used else 'un'}used: {text}"
            for text in islice(JUDGES[cell.row](cell, seen), MOST_SHOWN)
        ]
    elements = sum(programs * prod(part.shape) for part in planned.parts)
    return Judgement(len(planned.parts), elements, 0, 0.0, tuple(wrong))


def look(planned: Plan, part: Part, before: Array, after: Array, old: Array) -> Seen:
    """Cut out what belongs to one operation."""
    count, data = planned.programs * prod(part.shape), planned.data[part.used]
    slots = planned.slots[:count]
    if part.is_private:
        slots = slots + np.arange(count) // prod(part.shape) * SLOTS
    masks = "mask?" in OPS[planned.cell.row].operands
    active = planned.mask[:count] if masks else np.ones(count, np.bool_)
    own = slice(part.base(planned), part.base(planned) + planned.room)
    found = old[part.number * planned.lanes :][:count]
    columns = (slots, active, data.value[:count], data.expected[:count], found, before[own], after[own])
    return Seen(part, *(column.tolist() for column in columns))


def judge_changes(cell: Cell, seen: Seen) -> Iterator[str]:
    """A read-modify-write or a swap: some order of the elements on each slot, by what they found if that is known."""
    step = changes(cell, seen)
    for slot, lanes in enumerate(seen.lanes_by_slot()):
        first, last = seen.before[slot], seen.after[slot]
        if seen.part.used:
            edges = [(seen.found[lane], step(lane, seen.found[lane])) for lane in lanes]
            right = some_order_explains(first, last, edges)
        else:
            right = last in possible_ends(cell, seen, first, lanes, step)
        if not right:
            yield f"no order of {len(lanes)} elements on slot {slot} leads from 0x{first:x} to 0x{last:x}"
    yield from judge_masked(seen)


def judge_masked(seen: Seen) -> Iterator[str]:
    """What an element that is masked off gets."""
    for lane, (active, found) in enumerate(zip(seen.active, seen.found, strict=True)):
        if not active and found:
            yield f"element {lane}, masked off, found 0x{found:x}"


def changes(cell: Cell, seen: Seen) -> Callable[[int, int], int]:
    """(element, code that it found) -> code that it left."""
    if cell.row == "atomic_cas":
        return lambda lane, old: seen.value[lane] if old == seen.expected[lane] else old
    combined = combine(dict(cell.attributes)["kind"], cell.operands[0])
    return lambda lane, old: combined(old, seen.value[lane])


def possible_ends(
    cell: Cell, seen: Seen, first: int, lanes: Sequence[int], step: Callable[[int, int], int]
) -> set[int]:
    """What a slot may hold at the end: one of the values where each replaces the others, else what any order gives."""
    values = {seen.value[lane] for lane in lanes}
    if cell.row == "atomic_cas":
        return values | {first}
    if dict(cell.attributes)["kind"] == "xchg":
        return values or {first}
    return {reduce(lambda old, lane: step(lane, old), lanes, first)}


def judge_loads(cell: Cell, seen: Seen) -> Iterator[str]:
    """Memory as it was, of an i1 as a truth value."""
    for lane, (slot, active, found) in enumerate(zip(seen.slots, seen.active, seen.found, strict=True)):
        held = seen.before[slot] if cell.operands[0] != I1 else int(seen.before[slot] != 0)
        if found != (held if active else 0):
            yield f"element {lane} found 0x{found:x}, in memory is 0x{held:x}, active {active}"


def judge_stores(cell: Cell, seen: Seen) -> Iterator[str]:
    """One of the values that were stored, or what was there."""
    for slot, lanes in enumerate(seen.lanes_by_slot()):
        if seen.after[slot] not in ({seen.value[lane] for lane in lanes} or {seen.before[slot]}):
            yield f"slot {slot} holds 0x{seen.after[slot]:x}, which none of {len(lanes)} elements stored"


def judge_polls(cell: Cell, seen: Seen) -> Iterator[str]:
    """True exactly where the expected value is there, which nobody changes."""
    for lane, (slot, expected, found) in enumerate(zip(seen.slots, seen.expected, seen.found, strict=True)):
        if found != (seen.before[slot] == expected):
            yield f"element {lane} gave {found} with 0x{seen.before[slot]:x} there, expected 0x{expected:x}"


JUDGES: dict[str, Callable[[Cell, Seen], Iterator[str]]] = {
    "atomic_rmw": judge_changes,
    "atomic_cas": judge_changes,
    "atomic_load": judge_loads,
    "atomic_store": judge_stores,
    "atomic_poll": judge_polls,
}
