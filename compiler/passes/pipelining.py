"""Software pipelining: load what a dot needs rounds ahead, straight into shared memory, while the dot works.

    for %i, %p {                         %b0 = local_alloc {stages = 3}
      %a = load %p                       (copy and commit for rounds 0 and 1, as far as these exist)
      %x = convert_layout %a             for %i, %b, %p2 (%p two rounds ahead), %old, %now {
      %c = dot %x, ...            ->       %w = async_wait %b {pending = 1}
      yield add_ptr %p, 64                 %n = async_copy %p2, %w, %old, (round %i + 2 exists)
    }                                      async_commit
                                           %x = local_load %n, %now
                                           %c = dot %x, ...
                                           yield %n, add_ptr %p2, 64, %now, (%now + 1) mod 3
                                         }

With S stages a round's copies start S - 1 rounds ahead. What they need (addresses and masks, and the loads among what
these are made of) is computed that much earlier too, by a copy of its operations, the *slice*, on carried values of its
own. The copies of a round that does not exist are disabled, and so are the loads of its slice. All that exist are
waited for inside the loop, so that nothing is on its way when it is left.

A copy goes where the round before this one has read, so that one barrier a round does: that of the wait. Where so many
buffers do not fit, there is one less, and a copy starts at the end of the round, after a barrier of its own, where this
round has read.

Left alone are loops that write memory (it may be what they load) or ask for something in order, steps that are not
positive constants, loads whose addresses need more than pure operations and loads, and copies of less than 4 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilewright.lang import Effect, IntType, Module, Operation, Trait, Value, byte_width, element_of, shape_of

from ..analysis.accesses import pointee, run_length
from ..analysis.axis import AxisInfo, axis_analysis
from ..analysis.constants import constant_of
from ..analysis.placement import layout_of
from ..targets import target_named
from .rounds import Plan, rewrite

#: What a loaded value may pass through on its way to a dot, beside elementwise operations.
MOVES = frozenset(("convert_layout", "broadcast", "expand_dims", "reshape", "permute", "join", "split"))
#: The fewest bytes that an asynchronous copy takes.
FEWEST_BYTES = 4


def pipeline(module: Module) -> bool:
    """Pipeline every innermost loop with loads that feed a dot, in as many stages as the loop or the module asks for.

    The module's attribute `num_stages` counts where the loop has none; 1 is no pipelining.
    """
    default, target = module.attributes.get("num_stages", 1), module.attributes["target"]
    assert isinstance(default, int) and isinstance(target, str)
    limit = target_named(target).shared_bytes
    loops = [operation for operation in module.kernel.walk() if operation.name == "for"]
    if not loops:
        return False
    facts = axis_analysis(module.kernel)
    plans = [(loop, plan) for loop in loops if (plan := _planned(loop, default, facts, limit)) is not None]
    for loop, plan in plans:
        rewrite(loop, plan)
    return bool(plans)


def _planned(loop: Operation, default: int, facts: Mapping[Value, AxisInfo], limit: int) -> Plan | None:
    stages = loop.attributes["num_stages"] or default
    assert isinstance(stages, int)
    inside = list(loop.regions[0].walk())
    if stages < 2 or not has_plain_steps(loop) or not all(map(_is_harmless, inside)):
        return None
    runs: dict[Operation, int] = {}
    operations: set[Operation] = set()
    carried: set[int] = set()
    for load in loop.regions[0].operations:
        if load.name != "load" or not _feeds_dot(load) or (run := _run(load, facts)) == 0:
            continue
        if (found := _slice(loop, load)) is not None:
            runs[load] = run
            operations |= found[0]
            carried |= found[1]
    ahead = tuple(operation for operation in loop.regions[0].operations if operation in operations)
    size = sum(prod(shape_of(load.result.type)) * byte_width(element_of(load.result.type)) for load in runs)
    late = stages * size > limit
    return Plan(stages - 1, late, tuple(runs), tuple(runs.values()), ahead, tuple(sorted(carried))) if runs else None


def has_plain_steps(loop: Operation) -> bool:
    """Whether a loop goes up by a constant."""
    element, step = element_of(loop.operands[2].type), constant_of(loop.operands[2])
    assert isinstance(element, IntType)
    return isinstance(step, int) and (step > 0 or (step != 0 and bool(loop.attributes["unsigned"])))


def _is_harmless(operation: Operation) -> bool:
    """Whether loads may be moved over an operation, and an operation is no loop itself."""
    definition = operation.definition
    if operation.name in ("for", "while", "barrier") or Trait.YIELDS in definition.traits:
        return False
    if operation.name == "load":
        return not operation.attributes["volatile"] and operation.attributes["cache"] != "cv"
    return definition.effect in (Effect.NONE, Effect.OTHER)


def _run(load: Operation, facts: Mapping[Value, AxisInfo]) -> int:
    """How many neighbours a thread copies at once; 0 for less than what there is a copy of."""
    pointer = load.operands[0]
    if layout_of(pointer.type) is None or pointer not in facts:
        return 0
    run = run_length(facts, pointer, load.operand("mask"))
    return run if run * byte_width(pointee(pointer)) >= FEWEST_BYTES else 0


def _feeds_dot(load: Operation) -> bool:
    """Whether a loaded value is an operand of a dot, as it is, moved, or changed element by element."""
    seen: set[Value] = set()
    queue = list(load.results)
    while queue:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        for user, index in value.uses:
            if user.name == "dot" and index < 2:
                return True
            if user.definition.is_elementwise or user.name in MOVES:
                queue += user.results
    return False


def _slice(loop: Operation, load: Operation) -> tuple[set[Operation], set[int]] | None:
    """What a load's address and mask are made of in each round: operations of the body, and carried values with what
    makes them anew. None where it is more than pure operations and loads."""
    (body,) = loop.regions
    operations: set[Operation] = set()
    carried: set[int] = set()
    queue: list[Value] = load.operands[:2]
    while queue:
        value = queue.pop()
        producer = value.producer
        if producer is None:
            index = value.index - 1
            if value.owner is body and index >= 0 and index not in carried:
                carried.add(index)
                queue.append(body.terminator.operands[index])
        elif producer.block is body and producer not in operations:
            if producer.regions or not (producer.definition.is_pure or producer.name == "load"):
                return None
            operations.add(producer)
            queue += producer.operands
    return operations, carried
