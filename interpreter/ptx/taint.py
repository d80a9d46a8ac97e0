"""Values that nobody wrote: followed through registers, reported where they matter.

They come from registers that no instruction has written and from shared or local memory that nobody has. Reading one is
harmless as long as it is dropped, so it only leaves a mark on what the instruction writes; from then on marks go
wherever values go, to local memory too. `selp` looks only at the operand that it takes, `shfl` at the lane that it
reads, and other instructions among the lanes of a warp mark all that take part (`marks` has the rest). A store to what
others see, an address, a branch or a barrier that depends on a marked value is the error. While no register is marked
nothing of this runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import place
from . import marks
from .access import Access
from .bytewise import bytewise
from .errors import UninitializedError
from .frame import WARP, Frame, Index, spread
from .liveness import accumulates, reads, registers_in, writes
from .marks import Marks
from .spaces import addresses_of, window_of
from .syntax import Address, Instruction, Negated, Operand, Pair, Register
from .table import Form, Modifiers, Step
from .types import Array

if TYPE_CHECKING:
    from .program import Block

_SINKS = frozenset(("load", "store", "atomic", "barrier", "control", "async", "prefetch"))
"""The families of instructions whose operands must not be marked: values stored, addresses, what they wait for."""
_MASKED = ("shfl", "vote", "match", "redux", "elect")
"""Instructions whose last operand says which lanes wait for each other."""

_Row = tuple[Instruction, Form, Modifiers]


class Holes(NamedTuple):
    """What a load from a space found unwritten: for each of some threads which of the bytes."""

    access: Access
    space: str
    threads: NDArray[np.intp]
    octets: NDArray[np.bool_]


class Taint:
    """The marked registers of a frame: at first the `unwritten` ones."""

    def __init__(self, frame: Frame, unwritten: Iterable[int] = ()) -> None:
        self._frame = frame
        self._marks: dict[int, Marks] = {}
        self._origins: list[str] = []
        self._effects: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
        for index in unwritten:
            register = frame.program.registers[index]
            number = self._origin(f"`{register.name}`, which was never written")
            self._marks[index] = np.full(frame.count, number | int(marks.full(register.bits)), np.uint32)

    def _origin(self, text: str) -> int:
        """The mark of an origin, without bytes."""
        if text not in self._origins:
            self._origins.append(text)
        return (self._origins.index(text) + 1) << marks.ORIGIN

    def begin(self, instruction: Instruction) -> None:
        """Mark what a load has just read."""
        found, self._frame.holes = self._frame.holes, []
        for holes in found:
            self._mark(instruction, holes)

    def _mark(self, instruction: Instruction, holes: Holes) -> None:
        access, unit, where = holes.access, holes.access.dtype.itemsize, place(holes.access.site.location)
        wrote = "nobody wrote" if holes.space == "shared" else "nobody wrote a value to"
        number = self._origin(
            f"{holes.space} memory that {wrote}, from the {access.verb} {access.size} bytes at {where}"
        )
        for position, register in enumerate(marks.parts_of(instruction.operands[0])):
            if isinstance(register, Register):
                found = np.zeros(self._frame.count, np.uint32)
                if access.collective:
                    matrix = holes.threads % self._frame.threads % WARP // 8
                    found[holes.threads[matrix == position]] = number | 1
                    found = self._through_warp(found)
                else:
                    octets = holes.octets[:, position * unit : (position + 1) * unit]
                    found[holes.threads] = marks.of_octets(octets, number)
                if access.collective or access.site.modifiers["type"].startswith("s"):
                    found = marks.spread_out(found, register.bits)
                old = self._marks.get(register.index)
                self._set(register.index, found if old is None else marks.joined([old, found]))

    def run(self, block: Block, first: int, index: Index) -> None:
        """Run the steps of a block from number `first` on, following marks."""
        frame = self._frame
        for row, step in list(zip(block.instructions, block.steps, strict=False))[first:]:
            effects = self._effects_of(row[0])
            if all(map(self._marks.keys().isdisjoint, effects)):
                step(frame, index)
            else:
                self._follow(row, step, index)
            if frame.holes:
                self.begin(row[0])
        if block.instructions and block.instructions[-1][1].end is not None:
            self._check(block.instructions[-1], index)
        if not self._marks:
            frame.taint = None

    def arrive(self, block: Block, index: Index) -> None:
        """Threads come to the gate of a block: whom they wait for must not depend on a marked value."""
        instruction, form, _ = block.instructions[0]
        if form.family in _SINKS:
            self._check(block.instructions[0], index)
        else:
            masked = instruction.opcode.partition(".")[0] in _MASKED
            self._check(block.instructions[0], index, instruction.operands[-1:] if masked else ())

    def _effects_of(self, instruction: Instruction) -> tuple[frozenset[int], frozenset[int]]:
        """The registers that an instruction reads, and those that it writes."""
        found = self._effects.get(id(instruction))
        if found is None:
            found = frozenset(reads(instruction)), frozenset(writes(instruction))
            self._effects[id(instruction)] = found
        return found

    def _follow(self, row: _Row, step: Step, index: Index) -> None:
        frame, (instruction, form, _) = self._frame, row
        active = self._active(instruction, index)
        touched = not self._marks.keys().isdisjoint(self._effects_of(instruction)[0])
        if touched and form.family in _SINKS:
            self._check(row, index)
        results = self._results(row, step, index) if touched and form.family not in _SINKS else {}
        came, doubt = self._doubt(instruction, index)
        for register in self._effects_of(instruction)[1]:
            new, old = results.get(register), self._marks.get(register)
            if new is not None or old is not None or doubt.any():
                kept = np.zeros(frame.count, np.uint32) if old is None else old.copy()
                kept[active] = 0 if new is None else np.broadcast_to(new, kept.shape)[active]
                whole = marks.spread_out(doubt, frame.program.registers[register].bits)
                kept = np.where(came, marks.joined([kept, whole]), kept)
                self._set(register, kept)
        step(frame, index)

    def _doubt(self, instruction: Instruction, index: Index) -> tuple[NDArray[np.bool_], Marks]:
        """The threads that come to an instruction, and the marks of its guard: whether it writes depends on them."""
        came = np.zeros(self._frame.count, np.bool_)
        came[self._frame.indices(index)] = True
        guard = instruction.guard
        return came, np.zeros(1, np.uint32) if guard is None else self._of(guard.register)

    def _results(self, row: _Row, step: Step, index: Index) -> dict[int, Marks]:
        """The marks of what an instruction computes."""
        instruction, form, modifiers = row
        opcode, operands = instruction.opcode, instruction.operands
        base, targets = opcode.partition(".")[0], list(registers_in(operands[0])) if operands else []
        if base == "mov" and "pred" not in opcode:
            return self._moved(instruction)
        if base == "shfl":
            return self._shuffled(instruction, step, index)
        if len(targets) == 1 and (found := bytewise(instruction, self._of, self._held)) is not None:
            return {targets[0].index: found}
        if len(targets) == 1 and marks.lane_by_lane(opcode):
            return {targets[0].index: marks.packed(targets[0], operands[1:], self._of)}
        if len(targets) == 1 and base == "cvt" and len(operands) == 3:
            return {targets[0].index: marks.paired(targets[0], self._of(operands[1]), self._of(operands[2]))}
        choose = {"selp": self._selected, "setp": self._compared}.get(base)
        together = marks.joined([self._of(o) for o in operands[1:]]) if choose is None else choose(instruction)
        together = marks.low_part(together, marks.bits_read(opcode, modifiers))
        if form.gate is not None:
            together = self._through_warp(together * self._active(instruction, index))
        adds = self._adds(instruction)
        return {
            register.index: marks.joined([marks.spread_out(together, register.bits), self._of(register) * adds])
            for register in targets
        }

    def _adds(self, instruction: Instruction) -> Array:
        """The threads for which it adds to what its targets hold."""
        if not accumulates(instruction):
            return np.zeros(1, np.bool_)
        chooser = instruction.operands[3]
        return self._frame.registers[chooser.index] if isinstance(chooser, Register) else np.ones(1, np.bool_)

    def _moved(self, instruction: Instruction) -> dict[int, Marks]:
        """A move packs, unpacks or copies a register."""
        target, source = instruction.operands
        whole = target if isinstance(target, Register) else source
        assert isinstance(whole, Register)
        parts = marks.parts_of(target)
        found = marks.moved(len(parts), marks.parts_of(source), whole.bits, self._of)
        return {part.index: new for part, new in zip(parts, found, strict=True) if isinstance(part, Register)}

    def _selected(self, instruction: Instruction) -> Marks:
        _, first, second, chooser = instruction.operands
        assert isinstance(chooser, Register)
        taken = spread(self._frame.registers[chooser.index], self._frame.count)
        return marks.joined([np.where(taken, self._of(first), self._of(second)), self._of(chooser)])

    def _compared(self, instruction: Instruction) -> Marks:
        """What a written predicate decides alone, with `and` or `or`, the comparison beside it does not."""
        _, first, second, *combined = instruction.operands
        found, how = marks.joined([self._of(first), self._of(second)]), instruction.opcode.split(".")[2]
        if not combined or how == "xor":
            return marks.joined([found, *map(self._of, combined)])
        negated, chooser = isinstance(combined[0], Negated), next(registers_in(combined[0]))
        decides = (self._held(chooser) ^ negated) == (how == "or")
        mark = self._of(chooser)
        return marks.joined([np.where(decides & (mark == 0), np.uint32(0), found), mark])

    def _shuffled(self, instruction: Instruction, step: Step, index: Index) -> dict[int, Marks]:
        """The marks of the lanes that are read: the marks themselves, sent through the instruction."""
        frame, (target, source, *choosers) = self._frame, instruction.operands
        chosen = marks.joined([self._of(each) for each in choosers])
        results = {each.index: marks.spread_out(chosen, each.bits) for each in registers_in(target)}
        target = target.first if isinstance(target, Pair) else target
        if not isinstance(source, Register) or not isinstance(target, Register):
            return results
        kept = list(frame.registers)
        frame.registers[source.index] = np.broadcast_to(self._of(source), frame.count)
        step(frame, index)
        found = spread(frame.registers[target.index], frame.count)
        frame.registers[:] = kept
        return results | {target.index: marks.joined([found, results[target.index]])}

    def _through_warp(self, found: Marks) -> Marks:
        """For each thread the largest mark of its warp."""
        frame = self._frame
        lanes = np.zeros((frame.blocks, -(-frame.threads // WARP) * WARP), np.uint32)
        lanes[:, : frame.threads] = found.reshape(frame.blocks, frame.threads)
        warps = lanes.reshape(-1, WARP)
        warps[:] = warps.max(1, keepdims=True)
        return lanes[:, : frame.threads].reshape(-1)

    def stored(self, access: Access, threads: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which bytes of a store are marked: a row for each of the threads."""
        unit, octets = access.dtype.itemsize, np.zeros((len(threads), access.size), np.bool_)
        for number, part in enumerate(marks.parts_of(access.site.instruction.operands[1])):
            found = np.broadcast_to(self._of(part), self._frame.count)[threads]
            octets[:, number * unit : (number + 1) * unit] = found[:, None] >> np.arange(unit) & 1
        return octets

    def _held(self, register: Register) -> Array:
        """What a register holds, of all threads or of each."""
        return self._frame.registers[register.index]

    def _of(self, operand: Operand) -> Marks:
        """The marks of an operand, a single zero where it has none."""
        found = [self._marks[r.index] for r in registers_in(operand) if r.index in self._marks]
        return marks.joined(found) if found else np.zeros(1, np.uint32)

    def _set(self, register: int, found: Marks) -> None:
        if found.any():
            self._marks[register] = found
        else:
            self._marks.pop(register, None)

    def _active(self, instruction: Instruction, index: Index) -> NDArray[np.bool_]:
        """Which threads of the frame execute an instruction that those of an index have come to."""
        frame, guard = self._frame, instruction.guard
        active = np.zeros(frame.count, np.bool_)
        active[frame.indices(index)] = True
        if guard is not None:
            active &= spread(frame.registers[guard.register.index], frame.count) != guard.negated
        return active

    def _check(self, row: _Row, index: Index, operands: Sequence[Operand] | None = None) -> None:
        """Raise an UninitializedError if an instruction that stores, branches or waits depends on a marked value.

        operands: those that count beside the guard, all that it reads unless given.
        """
        instruction, form, modifiers = row
        frame = self._frame
        came, doubt = self._doubt(instruction, index)
        active, bad = self._active(instruction, index), doubt * came
        width = marks.bits_read(instruction.opcode, modifiers)
        if operands is None:
            operands = instruction.operands[1 if self._effects_of(instruction)[1] else 0 :]
        for operand in operands:
            found = self._of(operand)
            if not isinstance(operand, Address):
                found = marks.low_part(found, width) * ~self._inward(row)
            bad = np.maximum(bad, found * active)
        if bad.any():
            thread = int(np.argmax(bad != 0))
            what = f"`{instruction.opcode}` depends on {self._origins[(int(bad[thread]) >> marks.ORIGIN) - 1]}"
            what += f"; thread {frame.thread_of(thread)}"
            raise UninitializedError(what, frame.program.location_of(instruction), frame.block_of(thread))

    def _inward(self, row: _Row) -> NDArray[np.bool_]:
        """The threads for which an instruction only keeps a value in local memory, which takes marks along."""
        instruction, form, modifiers = row
        address, space = instruction.operands[0], modifiers.get("space", "")
        if form.family != "store" or not isinstance(address, Address) or space not in ("", "local", "param"):
            return np.zeros(1, np.bool_)
        return np.ones(1, np.bool_) if space else window_of(addresses_of(self._frame, address, "generic")) == 1
