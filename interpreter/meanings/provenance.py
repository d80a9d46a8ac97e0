"""Which parameter of a function a pointer comes from, read off the IR."""

from __future__ import annotations

from tilewright.lang import Block, Function, Operation, Value

from ..memory import Root

#: Ops whose result points into whatever their first operand points into.
_KEEPS = frozenset(
    ("add_ptr", "splat", "broadcast", "expand_dims", "reshape", "permute", "join", "split", "hint", "bitcast")
    + ("convert_layout",)
)


def root_of(pointer: Value) -> Root | None:
    """The one parameter of its function that a pointer (or each pointer of a tile) comes from.

    None where there may be several, or where the pointer was made from an integer or returned by a call.
    """
    roots: set[Root | None] = set()
    seen: set[Value] = set()
    pending = [pointer]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        sources = _sources(value)
        if isinstance(sources, list):
            pending += sources
        else:
            roots.add(sources)
    return roots.pop() if len(roots) == 1 else None


def _sources(value: Value) -> list[Value] | Root | None:
    """The values that `value` may be one of, or the parameter it is, or None for unknown."""
    producer = value.producer
    if producer is None:
        assert isinstance(value.owner, Block)
        return _block_sources(value.owner, value)
    if producer.name in _KEEPS:
        return list(producer.operands) if producer.name == "join" else [producer.operands[0]]
    if producer.name == "select":
        return producer.operands[1:]
    handler = _RESULTS.get(producer.name)
    return None if handler is None else handler(producer, value.index)


def _block_sources(block: Block, value: Value) -> list[Value] | Root | None:
    """Where the argument of a block comes from: the caller, the loop's initial value, or the previous round."""
    parent = block.parent
    if isinstance(parent, Function):
        return Root(parent.name, value.name) if value.name else None
    if parent is None:
        return None
    if parent.name == "for" and value.index > 0:
        carried = value.index - 1
        return [parent.variadic()[carried], block.terminator.operands[carried]]
    if parent.name == "while":
        before, after = parent.regions
        if block is after:
            return [before.terminator.operands[value.index + 1]]
        return [parent.operands[value.index], after.terminator.operands[value.index]]
    return None


def _of_for(loop: Operation, index: int) -> list[Value]:
    return [loop.variadic()[index], loop.regions[0].terminator.operands[index]]


def _of_while(loop: Operation, index: int) -> list[Value]:
    return [loop.regions[0].terminator.operands[index + 1]]


def _of_if(branch: Operation, index: int) -> list[Value]:
    return [region.terminator.operands[index] for region in branch.regions]


_RESULTS = {"for": _of_for, "while": _of_while, "if": _of_if}
