"""Which registers some path may read before anything was written to them: only those are watched while running."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .syntax import Address, Immediate, Instruction, LabelRef, Name, Negated, Operand, Pair, Register, Vector

if TYPE_CHECKING:
    from .program import Block, Program

_NO_DESTINATION = ("st", "bra", "brx", "ret", "exit", "bar", "barrier", "red", "trap", "brkpt", "membar", "fence")
_NO_DESTINATION += ("nanosleep", "prefetch", "prefetchu", "call", "discard", "applypriority", "pmevent", "stackrestore")


def registers_in(operand: Operand) -> Iterator[Register]:
    """Every register that an operand names."""
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Negated):
        yield operand.register
    elif isinstance(operand, Address):
        if isinstance(operand.base, Register):
            yield operand.base
        for part in operand.coordinates:
            yield from registers_in(part)
    elif isinstance(operand, Vector):
        for part in operand.elements:
            yield from registers_in(part)
    elif isinstance(operand, Pair):
        yield from registers_in(operand.first)
        yield from registers_in(operand.second)


def writes(instruction: Instruction) -> set[int]:
    """The registers that an instruction writes: those of its first operand, unless it has no result."""
    parts = instruction.opcode.split(".")
    has_result = parts[0] not in _NO_DESTINATION or (parts[0] in ("bar", "barrier") and "red" in parts)
    if not has_result or not instruction.operands or isinstance(instruction.operands[0], Address):
        return set()
    return {register.index for register in registers_in(instruction.operands[0])}


def reads(instruction: Instruction) -> set[int]:
    """The registers that an instruction reads, its guard among them."""
    skip = 1 if writes(instruction) and not accumulates(instruction) else 0
    found = {r.index for operand in instruction.operands[skip:] for r in registers_in(operand)}
    if instruction.guard is not None:
        found.add(instruction.guard.register.index)
    return found


def accumulates(instruction: Instruction) -> bool:
    """Whether it is a `wgmma` that may add to what its first operand holds."""
    if not instruction.opcode.startswith("wgmma.mma_async"):
        return False
    chooser = instruction.operands[3] if len(instruction.operands) > 3 else None
    return not isinstance(chooser, Immediate) or chooser.value != 0


def successors(program: Program, block: Block) -> set[int]:
    """The blocks that may follow a block."""
    following = {block.number + 1} if block.number + 1 < len(program.blocks) else set[int]()
    if not block.instructions or block.instructions[-1][1].end is None:
        return following
    last = block.instructions[-1][0]
    targets = {program.block_of_label[op.number] for op in last.operands if isinstance(op, LabelRef)}
    for operand in last.operands:
        if isinstance(operand, Name) and operand.text in program.tables:
            targets |= {program.block_of_label[label] for label in program.tables[operand.text]}
    return targets | (following if last.guard is not None else set())


def maybe_unwritten(program: Program) -> frozenset[int]:
    """The registers that may be read unwritten. A guarded write does not count."""
    every = set(range(len(program.registers)))
    written: list[set[int] | None] = [None] * len(program.blocks)
    written[0] = set()
    work = [0]
    while work:
        number = work.pop()
        block = program.blocks[number]
        after = set(written[number] or ())
        for instruction, _, _ in block.instructions:
            after |= _certain(instruction)
        for target in successors(program, block):
            old = written[target]
            new = after if old is None else old & after
            if new != old:
                written[target] = set(new)
                work.append(target)
    found: set[int] = set()
    for block, start in zip(program.blocks, written, strict=True):
        before = every if start is None else set(start)
        for instruction, _, _ in block.instructions:
            found |= reads(instruction) - before
            before |= _certain(instruction)
    return frozenset(found)


def _certain(instruction: Instruction) -> set[int]:
    """The registers that an instruction writes for certain."""
    return writes(instruction) if instruction.guard is None else set()
