"""Values that nobody wrote: followed through registers, reported where they matter.

They come from registers that no instruction has written and from shared memory that nobody has. Reading one is harmless
as long as it is dropped, so it only leaves a mark on what the instruction writes; from then on marks go wherever values
go. `selp` looks only at the operand that it takes, `shfl` at the lane that it reads, and other instructions among the
lanes of a warp mark all of them (`marks` has the rest). A store, an address, a branch or a barrier that depends on a
marked value is the error. While no register is marked nothing of this runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import place
from . import marks
from .access import Access
from .bytewise import bytewise
from .errors import UninitializedError
from .frame import WARP, Frame, Index, spread
from .liveness import reads, registers_in, writes
from .marks import Marks
from .syntax import Address, Instruction, Operand, Pair, Register
from .table import Form, Modifiers, Step

if TYPE_CHECKING:
    from .program import Block

_SINKS = frozenset(("load", "store", "atomic", "barrier", "control", "async", "prefetch"))
"""The families of instructions whose operands must not be marked: values stored, addresses, what they wait for."""

_Row = tuple[Instruction, Form, Modifiers]


class Holes(NamedTuple):
    """What a load found unwritten: for each of some threads which of the bytes."""

    access: Access
    threads: NDArray[np.intp]
    octets: NDArray[np.bool_]


class Taint:
    """The marked registers of a frame: at first those that some path may read before anything is written to them."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._marks: dict[int, Marks] = {}
        self._origins: list[str] = []
        self._effects: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
        for index in frame.program.tracked:
            register = frame.program.registers[index]
            number = self._origin(f"`{register.name}`, which was never written")
            self._marks[index] = np.full(frame.count, number | int(marks.full(register.bits)), np.uint32)

    def _origin(self, text: str) -> int:
        """The mark of an origin, without bytes."""
        if text not in self._origins:
            self._origins.append(text)
        return (self._origins.index(text) + 1) << 8

    def begin(self, instruction: Instruction, holes: Holes) -> None:
        """Mark what a load has just read."""
        self._frame.holes = None
        access, unit, where = holes.access, holes.access.dtype.itemsize, place(holes.access.site.location)
        number = self._origin(f"shared memory that nobody wrote, from the {access.verb} {access.size} bytes at {where}")
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
            if frame.holes is not None:
                self.begin(row[0], frame.holes)
        if block.instructions and block.instructions[-1][1].end is not None:
            self._check(block.instructions[-1], index)
        if not self._marks:
            frame.taint = None

    def arrive(self, block: Block, index: Index) -> None:
        """Threads come to the gate of a block: a barrier must not depend on a marked value."""
        if block.instructions[0][1].family in _SINKS:
            self._check(block.instructions[0], index)

    def _effects_of(self, instruction: Instruction) -> tuple[frozenset[int], frozenset[int]]:
        """The registers that an instruction reads, and those that it writes."""
        found = self._effects.get(id(instruction))
        if found is None:
            found = frozenset(reads(instruction)), frozenset(writes(instruction))
            self._effects[id(instruction)] = found
        return found

    def _follow(self, row: _Row, step: Step, index: Index) -> None:
        instruction, form, _ = row
        active = self._active(instruction, index)
        touched = not self._marks.keys().isdisjoint(self._effects_of(instruction)[0])
        if touched and form.family in _SINKS:
            self._check(row, index)
        results = self._results(row, step, index) if touched and form.family not in _SINKS else {}
        for register in self._effects_of(instruction)[1]:
            new, old = results.get(register), self._marks.get(register)
            if new is not None or old is not None:
                kept = np.zeros(self._frame.count, np.uint32) if old is None else old.copy()
                kept[active] = 0 if new is None else np.broadcast_to(new, kept.shape)[active]
                self._set(register, kept)
        step(self._frame, index)

    def _results(self, row: _Row, step: Step, index: Index) -> dict[int, Marks]:
        """The marks of what an instruction computes."""
        instruction, form, modifiers = row
        opcode, operands = instruction.opcode, instruction.operands
        base, targets = opcode.partition(".")[0], list(registers_in(operands[0])) if operands else []
        if base == "mov" and "pred" not in opcode:
            return self._moved(instruction)
        if base == "shfl":
            return {register.index: self._shuffled(instruction, step, index) for register in targets}
        if len(targets) == 1 and (found := bytewise(instruction, self._of)) is not None:
            return {targets[0].index: found}
        if len(targets) == 1 and marks.lane_by_lane(opcode):
            return {targets[0].index: marks.packed(targets[0], operands[1:], self._of)}
        if len(targets) == 1 and base == "cvt" and len(operands) == 3:
            return {targets[0].index: marks.paired(targets[0], self._of(operands[1]), self._of(operands[2]))}
        together = self._selected(instruction) if base == "selp" else marks.joined([self._of(o) for o in operands[1:]])
        together = marks.low_part(together, marks.bits_read(opcode, modifiers))
        together = together if form.gate is None else self._through_warp(np.broadcast_to(together, self._frame.count))
        return {register.index: marks.spread_out(together, register.bits) for register in targets}

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

    def _shuffled(self, instruction: Instruction, step: Step, index: Index) -> Marks:
        """The marks of the lanes that are read: the marks themselves, sent through the instruction."""
        frame, (target, source) = self._frame, instruction.operands[:2]
        target = target.first if isinstance(target, Pair) else target
        if not isinstance(source, Register) or not isinstance(target, Register):
            return np.zeros(1, np.uint32)
        kept = list(frame.registers)
        frame.registers[source.index] = np.broadcast_to(self._of(source), frame.count)
        step(frame, index)
        found = spread(frame.registers[target.index], frame.count)
        frame.registers[:] = kept
        return found

    def _through_warp(self, found: Marks) -> Marks:
        """For each thread the largest mark of its warp."""
        frame = self._frame
        lanes = np.zeros((frame.blocks, -(-frame.threads // WARP) * WARP), np.uint32)
        lanes[:, : frame.threads] = found.reshape(frame.blocks, frame.threads)
        warps = lanes.reshape(-1, WARP)
        warps[:] = warps.max(1, keepdims=True)
        return lanes[:, : frame.threads].reshape(-1)

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

    def _check(self, row: _Row, index: Index) -> None:
        """Raise an UninitializedError if an instruction that stores, branches or waits depends on a marked value."""
        instruction, form, modifiers = row
        frame = self._frame
        came = np.zeros(frame.count, np.bool_)
        came[frame.indices(index)] = True
        guard = instruction.guard
        bad = np.zeros(frame.count, np.uint32)
        if guard is not None:
            bad = np.maximum(bad, self._of(guard.register) * came)
        width = marks.bits_read(instruction.opcode, modifiers)
        first = 1 if self._effects_of(instruction)[1] else 0
        for operand in instruction.operands[first:]:
            found = self._of(operand)
            found = found if isinstance(operand, Address) else marks.low_part(found, width)
            bad = np.maximum(bad, found * self._active(instruction, index))
        if bad.any():
            thread = int(np.argmax(bad != 0))
            what = f"`{instruction.opcode}` depends on {self._origins[(int(bad[thread]) >> 8) - 1]}"
            what += f"; thread {frame.thread_of(thread)}"
            raise UninitializedError(what, frame.program.location_of(instruction), frame.block_of(thread))
