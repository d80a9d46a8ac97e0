"""Which numbers of stages of a buffer differ.

A pipelined loop counts the stage that it reads up from round to round, back to 0 behind the last, and carries along the
one that it read before, which it fills.
"""

from __future__ import annotations

from tilewright.lang import Block, Operation, Value

from .constants import constant_of


def carried_stages(loop: Operation) -> list[int]:
    """Which of the values that a loop carries are numbers of stages: those that operations take for one, and those that
    become one of these in the next round."""
    (body,) = loop.regions
    carried, ends = body.arguments[1:], body.terminator.operands
    used = [at for at, value in enumerate(carried) if any(map(_is_index, value.uses))]
    return [at for at, value in enumerate(carried) if at in used or any(ends[other] is value for other in used)]


def _is_index(use: tuple[Operation, int]) -> bool:
    user, position = use
    return user.definition.operands[position : position + 1] == ("index",)


def differ(one: Value, other: Value) -> bool:
    """Whether two numbers of stages differ whenever both are at hand."""
    known = constant_of(one), constant_of(other)
    if None not in known:
        return known[0] != known[1]
    return _is_before(one, other) or _is_before(other, one)


def _is_before(old: Value, now: Value) -> bool:
    """Whether a loop carries in `old` what `now` was in the round before, or at first another number, while `now`
    counts 0, 1, ... up to some number of at least 2 and again from 0. Then `old` is never `now`."""
    body = old.owner
    if not isinstance(body, Block) or now.owner is not body or not (old.index and now.index):
        return False
    loop = body.parent
    if not isinstance(loop, Operation) or loop.name != "for":
        return False
    first, before = (constant_of(loop.operands[2 + value.index]) for value in (now, old))
    stages = _wraps_at(body.terminator.operands[now.index - 1], now)
    if not isinstance(first, int) or not isinstance(before, int) or body.terminator.operands[old.index - 1] is not now:
        return False
    return 2 <= stages and 0 <= first < stages and first != before


def _wraps_at(after: Value, now: Value) -> int:
    """The number at which `after`, which is `now` and 1, goes back to 0 instead; 0 if that is not what it is."""
    choice = after.producer
    if choice is None or choice.name != "select":
        return 0
    wraps, zero, more = choice.operands
    at_end, plus = wraps.producer, more.producer
    if at_end is None or plus is None or at_end.name != "cmp_eq_i" or plus.name != "add_i" or constant_of(zero) != 0:
        return 0
    counted, end = at_end.operands
    stop = constant_of(end)
    is_next = plus.operands[0] is now and constant_of(plus.operands[1]) == 1
    return stop if counted is more and is_next and isinstance(stop, int) else 0
