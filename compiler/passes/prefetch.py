"""Prefetching: load what the first step of a dot needs before the round begins, while the last one works.

    for %i, %acc, %b, %now {               %w = async_wait %b {pending = 1}
      %w = async_wait %b {pending = 1}     %x = local_load %w, 0 {first = (0, 0)}
      %n = async_copy %p, %w, %old         for %i, %acc, %b, %now, %x {
      async_commit                           %n = async_copy %p, %b, %old
      %x = local_load %n, %now         ->    async_commit
      %c = dot %x, %y, %acc                  %z = local_load %n, %now {first = (0, 16)}
      %next = (%now + 1) mod 3               %d = dot %x, %y, %acc
      yield %c, %n, %next                    %w = async_wait %n {pending = 1}
    }                                        %x2 = local_load %w, %next {first = (0, 0)}
                                             %c = dot %z, %y2, %d
                                             yield %c, %w, %next, %x2
                                           }

The dot is made in the steps of its instruction along K. Each step's fragments are loaded one step ahead, those of the
first step before the wait for the last, so that no matrix instruction waits for shared memory or at a barrier with
nothing to do. The last round loads from a stage that may never have been filled, and nothing uses it.

What this takes is registers: a loop that needs too many is left alone. So are loops with another dot, whose operands
come from elsewhere or are bytes that shared memory does not hold in the dot's order, or which copy at the end of a
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from tilewright.lang import (
    OPS,
    Block,
    Builder,
    Effect,
    IntType,
    LinearLayout,
    Module,
    Operation,
    TileType,
    Type,
    Value,
    byte_width,
    element_of,
    shape_of,
    tile_layouts,
)

from ..analysis.buffers import stage_of
from ..analysis.coalesce import WARP_SIZE
from ..analysis.dot_layouts import instruction_of, is_chain
from ..analysis.placement import REGISTER, layout_of, slots
from ..analysis.shared_accesses import part_access
from ..targets import Target, target_named
from .carried import end_with

#: The 32-bit registers that the accumulator, the fragments of two steps and the addresses of copies may take together.
#: Of the 255 that a thread has, the rest is for what an H200's assembler needs beside. More may be taken where
#: `Match.lean` holds: nothing is spilled then, and the product of 4096 x 4096 matrices in tiles of 128x128x64 had 0.584
#: of Triton's speed on an H200, 0.558 to 0.569 without prefetching (each beside Triton in one run).
MOST_REGISTERS, MOST_LEAN = 216, 224
#: The widest copy, in bytes, and the registers of an address.
COPY_BYTES, ADDRESS = 16, 2


def prefetch(module: Module) -> bool:
    """Prefetch in every pipelined loop of the kernel that is fit for it."""
    name, num_warps = module.attributes["target"], module.attributes["num_warps"]
    assert isinstance(name, str) and isinstance(num_warps, int)
    loops = [operation for operation in module.kernel.walk() if operation.name == "for"]
    found = [match for loop in loops if (match := _matched(loop, target_named(name), num_warps)) is not None]
    for match in found:
        _rewrite(match)
    if any(match.lean for match in found):
        module.attributes["keep_addresses"] = True
    return bool(found)


# What is fit for it


@dataclass(frozen=True, slots=True)
class Steps:
    """How a dot falls into steps: the types of the parts of its operands that one takes, and where these begin."""

    parts: tuple[TileType, TileType]
    firsts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def steps_of(dot: Operation, target: Target, num_warps: int, most: int) -> Steps | None:
    """The steps of a dot whose operands are copied from global memory; None if it is not fit for prefetching, for one
    because it takes more registers than `most`."""
    mma = instruction_of(dot, target)
    if mma is None or dot.attributes["instruction"] != "mma" or not is_chain(dot, target):
        return None
    rank, types = len(shape_of(dot.result.type)), [operand.type for operand in dot.operands[:2]]
    axes = rank - 1, rank - 2
    a, b = (_part(type_, axis, mma.k) for type_, axis in zip(types, axes, strict=True))
    if a is None or b is None:
        return None
    copies = sum(prod(shape_of(each)) * byte_width(element_of(each)) / COPY_BYTES for each in types)
    addresses = ceil(ADDRESS * copies / (WARP_SIZE * num_warps))
    if _words(dot.result.type) + 2 * (_words(a) + _words(b)) + addresses > most:
        return None
    starts = range(0, shape_of(types[0])[-1], mma.k)
    return Steps((a, b), tuple((_along(rank, axes[0], k), _along(rank, axes[1], k)) for k in starts))


def _along(rank: int, axis: int, at: int) -> tuple[int, ...]:
    return tuple(at if axis == other else 0 for other in range(rank))


def _part(type_: Type, axis: int, depth: int) -> TileType | None:
    """The first `depth` of a tile along an axis, each element where it is; None unless the rest is in other registers
    of the same threads."""
    layout = layout_of(type_)
    if layout is None:
        return None
    bases: dict[str, list[tuple[int, ...]]] = {}
    for name, vectors in layout.bases.items():
        beyond = [vector for vector in vectors if vector[axis] >= depth]
        if any(name != REGISTER or vector != _along(len(vector), axis, vector[axis]) for vector in beyond):
            return None
        bases[name] = [vector for vector in vectors if vector not in beyond]
    shape = tuple(depth if axis == other else extent for other, extent in enumerate(shape_of(type_)))
    return TileType(shape, element_of(type_), LinearLayout.from_bases(bases, dict(tile_layouts.tile_dims(shape))))


def _single_bytes(load: Operation, part: TileType) -> bool:
    """Whether a part of integers is loaded byte by byte, as those of 8 bits are whose neighbours are not so along K.

    Such a dot waits for its many loads and for what packs them; prefetching only adds registers. On an H200 the nine
    tiles measured (int8, 4096 x 4096 matrices, b in rows) were 1 to 30 % slower with it. With b in columns, loaded in
    whole words, they were 1 to 19 % faster. Floats of 8 bits are no such case: the assembler makes 16 bits of them, and
    the two largest of the nine were 1.33 and 1.38 times as fast, the others between 4 % faster and 13 % slower.
    """
    memory, element = layout_of(load.operands[0].type), part.element
    if not isinstance(element, IntType) or byte_width(element) > 1:
        return False
    assert memory is not None and part.layout is not None
    access = part_access(stage_of(memory), part.layout, (), byte_width(element))
    return any(len(group) == 1 for group in access.groups)


def _words(type_: Type) -> int:
    """The 32-bit registers that a thread needs for a tile."""
    layout = layout_of(type_)
    assert layout is not None
    return ceil(len(slots(layout).registers) * byte_width(element_of(type_)) / 4)


@dataclass(frozen=True, slots=True)
class Match:
    """A pipelined loop that is fit: its only wait and dot, what loads the dot's operands, and the dot's steps.

    lean: whether the loop carries the addresses of its copies, of operands of 16 bits. Then the next round's addresses
    can have the registers of this round's, and no conversion stands between the fragments and the dot.
    """

    loop: Operation
    wait: Operation
    dot: Operation
    loads: tuple[Operation, Operation]
    steps: Steps
    lean: bool

    @property
    def now(self) -> Value:
        """The stage that a round reads."""
        return self.loads[0].operands[1]


def _matched(loop: Operation, target: Target, num_warps: int) -> Match | None:
    (body,) = loop.regions
    inside = list(body.walk())
    waits, dots, loads = ([o for o in inside if o.name == name] for name in ("async_wait", "dot", "local_load"))
    if len(waits) != 1 or len(dots) != 1 or len(loads) != 2 or dots[0].block is not body:
        return None
    (wait,), (dot,) = waits, dots
    loads = [load for operand in dot.operands[:2] for load in loads if load.result is operand]
    if len(loads) != 2 or any(len(load.result.uses) != 1 or load.attributes["first"] for load in loads):
        return None
    filled = [load.operands[0].producer for load in loads]
    if any(copy is None or copy.name != "async_copy" or copy.operands[1].producer is not wait for copy in filled):
        return None
    if len(wait.results) != 2 or any(len(result.uses) != 1 for result in wait.results):
        return None
    now = loads[0].operands[1]
    if loads[1].operands[1] is not now or any(value.owner is not body for value in (now, *wait.operands)):
        return None
    carried = all(copy is not None and copy.operands[0].owner is body for copy in filled)
    lean = carried and all(byte_width(element_of(operand.type)) == 2 for operand in dot.operands[:2])
    steps = steps_of(dot, target, num_warps, MOST_LEAN if lean else MOST_REGISTERS)
    if steps is None or any(map(_single_bytes, loads, steps.parts)):
        return None
    return Match(loop, wait, dot, (loads[0], loads[1]), steps, lean)


# The new loop


def _rewrite(match: Match) -> None:
    """Put the loop with a prefetched dot in the place of the other."""
    loop, wait = match.loop, match.wait
    (body,) = loop.regions
    entering = dict(zip(body.arguments, (loop.operands[0], *loop.operands[3:]), strict=True))
    builder = Builder()
    builder.at(loop)
    builder.location = wait.location
    ready = builder.create(OPS["async_wait"], [entering[buffer] for buffer in wait.operands], wait.attributes)
    first = _loaded(builder, match, _by_load(match, ready.results), entering[match.now], 0)
    held = [body.add_argument(value.type, value.name) for value in first]
    after = _steps(match, held)
    end_with(body, [*body.terminator.operands, *after])
    builder.at(loop)
    made = builder.create(loop.definition, [*loop.operands, *first], loop.attributes, None, [body])
    for mine, result in zip(loop.results, made.results, strict=False):
        result.name = mine.name
        mine.replace_uses(result)
    loop.regions = ()
    loop.erase()


def _by_load(match: Match, buffers: Sequence[Value]) -> list[Value]:
    """Of what stands for the buffers that are waited for, that which each load reads."""
    copies = [load.operands[0].producer for load in match.loads]
    return [buffers[copy.operands[1].index] for copy in copies if copy is not None]


def _loaded(builder: Builder, match: Match, buffers: Sequence[Value], stage: Value, number: int) -> list[Value]:
    """What the dot needs for a step, from a stage."""
    found: list[Value] = []
    parts = zip(match.loads, buffers, match.steps.parts, match.steps.firsts[number], strict=True)
    for load, buffer, part, first in parts:
        builder.location = load.location
        found.append(builder.value(OPS["local_load"], (buffer, stage), {"first": first}, part))
        found[-1].name = load.result.name
    return found


def _steps(match: Match, held: list[Value]) -> list[Value]:
    """Write the body anew, with a dot for each step, of which the first takes what is `held`; what the next round is
    to hold. The wait stands before the last."""
    (body,) = match.loop.regions
    wait, dot, end = match.wait, match.dot, body.terminator
    before, after = _shared_out(body, match)
    body.operations = [*before, end]
    builder = Builder()
    builder.at(end)
    coming, total = held, dot.operands[2]
    for number in range(len(match.steps.firsts)):
        a, b = coming
        if number + 1 < len(match.steps.firsts):
            coming = _loaded(builder, match, [load.operands[0] for load in match.loads], match.now, number + 1)
        else:
            coming = _next_round(builder, match, end)
        builder.location = dot.location
        total = builder.value(dot.definition, (a, b, total), dot.attributes, dot.result.type)
        total.name = dot.result.name
    dot.result.replace_uses(total)
    body.operations[-1:] = [*after, end]
    for gone in (dot, *match.loads, wait):
        gone.block = None
        gone.erase()
    return coming


def _next_round(builder: Builder, match: Match, end: Operation) -> list[Value]:
    """Wait for the copies of the next round, and load what its first step needs."""
    wait = match.wait
    places = [buffer.index - 1 for buffer in wait.operands]
    builder.location = wait.location
    ready = builder.create(OPS["async_wait"], [end.operands[place] for place in places], wait.attributes).results
    read = _by_load(match, ready)
    for place, buffer, old, new in zip(places, wait.operands, wait.results, ready, strict=True):
        end.set_operand(place, new)
        old.replace_uses(buffer)
    return _loaded(builder, match, read, end.operands[match.now.index - 1], 0)


def _shared_out(body: Block, match: Match) -> tuple[list[Operation], list[Operation]]:
    """The rest of a body's operations: what does not need the dot, and what comes behind it.

    That is what needs it, and the next round's addresses: behind the copies from this round's.
    """
    made = {match.dot.result}
    before: list[Operation] = []
    after: list[Operation] = []
    last: list[Operation] = []
    for operation in body.operations[:-1]:
        if operation in (match.wait, match.dot, *match.loads):
            continue
        needs = any(operand in made for inner in operation.walk() for operand in inner.operands)
        needs = needs or (bool(after) and any(inner.definition.effect is Effect.OTHER for inner in operation.walk()))
        (after if needs else last if match.lean and _advances(operation, body) else before).append(operation)
        made.update(operation.results if needs else ())
    return before, [*after, *last]


def _advances(operation: Operation, body: Block) -> bool:
    """Whether an operation makes a carried address the next one, by what does not change in the loop."""
    if operation.name != "add_ptr" or {user for user, _ in operation.result.uses} != {body.terminator}:
        return False
    pointer, step = operation.operands
    return pointer.owner is body and (step.producer is None or step.producer.block is not body)
