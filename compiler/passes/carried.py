"""Drop what a loop carries for nobody.

    %x, %y = for %i, %a, %b {            %x = for %i, %a {
      yield %u, %v                  ->     yield %u
    }                                    }

where nothing uses %y, and in the loop what is carried as it serves only to make %v.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import Block, Builder, Module, Operation, Value

from .dce import is_removable


def drop_carried(module: Module) -> bool:
    """Drop them from every `for`, and what made them; innermost loops first."""
    loops = [operation for operation in module.kernel.walk() if operation.name == "for"]
    return any([_shrink(loop) for loop in reversed(loops)])


def _shrink(loop: Operation) -> bool:
    (body,) = loop.regions
    needed, live = _needed(loop, body)
    if len(live) == len(loop.results):
        return False
    kept = sorted(live)
    end_with(body, [body.terminator.operands[index] for index in kept])
    for operation in reversed(body.operations[:-1]):
        if operation not in needed:
            operation.erase()
    arguments = [body.arguments[0], *(body.arguments[1 + index] for index in kept)]
    block = Block([argument.type for argument in arguments])
    move(body, arguments, block)
    builder = Builder()
    builder.at(loop)
    operands = [*loop.operands[:3], *(loop.operands[3 + index] for index in kept)]
    made = builder.create(loop.definition, operands, loop.attributes, None, [block])
    for index, result in zip(kept, made.results, strict=True):
        result.name = loop.results[index].name
        loop.results[index].replace_uses(result)
    loop.erase()
    return True


def _needed(loop: Operation, body: Block) -> tuple[set[Operation], set[int]]:
    """The operations of a loop's body that count, and which carried values do."""
    needed = {operation for operation in body.operations[:-1] if not is_removable(operation)}
    live = {index for index, result in enumerate(loop.results) if result.uses}
    queue: list[Value] = [body.terminator.operands[index] for index in live]
    queue += [operand for operation in needed for inner in operation.walk() for operand in inner.operands]
    while queue:
        value = queue.pop()
        producer = value.producer
        if value.owner is body and value.index and value.index - 1 not in live:
            live.add(value.index - 1)
            queue.append(body.terminator.operands[value.index - 1])
        elif producer is not None and producer.block is body and producer not in needed:
            needed.add(producer)
            queue += [operand for inner in producer.walk() for operand in inner.operands]
    return needed, live


def end_with(block: Block, values: Sequence[Value]) -> None:
    """Make a block end with other values."""
    old, builder = block.terminator, Builder()
    builder.at(old)
    builder.create(old.definition, values)
    old.erase()


def move(old: Block, arguments: Sequence[Value], new: Block) -> None:
    """Move the operations of a block to one whose first arguments stand for those of the old one."""
    for mine, other in zip(arguments, new.arguments, strict=False):
        other.name = mine.name
        mine.replace_uses(other)
    new.operations, old.operations = old.operations, []
    for operation in new.operations:
        operation.block = new
