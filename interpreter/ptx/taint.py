"""Values that nobody wrote: followed through registers, reported where they matter.

They come from registers that no instruction has written and from shared or local memory that nobody has. Reading one is
harmless as long as it is dropped, so it only leaves a mark on what the instruction writes; from then on marks go
wherever values go, bit by bit (`definedness`, `marks`), to local memory too, where bytes have them. `shfl` looks at the
lane that it reads; other instructions among the lanes of a warp mark all that take part. A store to what others see, an
address, a branch or a barrier that depends on a marked value is the error. While no register is marked nothing of this
runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import place
from . import definedness, marks
from .access import Access
from .errors import UninitializedError
from .frame import WARP, Frame, Index, spread
from .liveness import accumulates, reads, registers_in, writes
from .marks import Bits, Marks
from .spaces import addresses_of, window_of
from .syntax import Address, Instruction, Negated, Operand, Register
from .table import Form, Modifiers, Step
from .types import UNSIGNED, Array, resized

if TYPE_CHECKING:
    from .program import Block

_SINKS = frozenset(("load", "store", "atomic", "barrier", "control", "async", "prefetch", "fence"))
"""The families of instructions whose operands must not be marked: values stored, addresses, what they wait for."""
_MASKED = ("shfl", "vote", "match", "redux", "elect")
"""Instructions whose last operand says which lanes wait for each other."""

_Row = tuple[Instruction, Form, Modifiers]


class Holes(NamedTuple):
    """What a load from a space found unwritten: for each of some threads which of the bytes."""

    access: Access
    space: str
    threads: NDArray[np.intp]
    octets: NDArray[np.uint8]


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
            self._marks[index] = self._all(np.full(frame.count, marks.full(register.bits)), number)

    def _origin(self, text: str) -> int:
        """The number of an origin, from 1 on."""
        if text not in self._origins:
            self._origins.append(text)
        return self._origins.index(text) + 1

    def _all(self, bits: Bits, origin: int) -> Marks:
        """Marks that have one origin."""
        return Marks(bits, np.full(1, origin, np.int32))

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
                bits = np.zeros(self._frame.count, np.uint64)
                if access.collective:
                    matrix = holes.threads % self._frame.threads % WARP // 8
                    bits[holes.threads[matrix == position]] = 1
                    found = self._through_warp(self._all(bits, number)).spread(register.bits)
                else:
                    bits[holes.threads] = marks.of_octets(holes.octets[:, position * unit : (position + 1) * unit])
                    signed = access.site.modifiers["type"].startswith("s")
                    found = self._all(_extended(bits, 8 * unit, register.bits, signed), number)
                self._set(register.index, marks.joined([self._marks.get(register.index, marks.NONE), found]))

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
            if new is not None or old is not None or doubt.bits.any():
                whole = doubt.spread(frame.program.registers[register].bits).where(came)
                parts = (new or marks.NONE).where(active), (old or marks.NONE).where(~active), whole
                self._set(register, marks.joined(parts))
        step(frame, index)

    def _doubt(self, instruction: Instruction, index: Index) -> tuple[NDArray[np.bool_], Marks]:
        """The threads that come to an instruction, and the marks of its guard: whether it writes depends on them."""
        came = np.zeros(self._frame.count, np.bool_)
        came[self._frame.indices(index)] = True
        guard = instruction.guard
        return came, marks.NONE if guard is None else self._of(guard.register)

    def _results(self, row: _Row, step: Step, index: Index) -> dict[int, Marks]:
        """The marks of what an instruction computes."""
        instruction, form, modifiers = row
        opcode, operands = instruction.opcode, instruction.operands
        base, targets = opcode.partition(".")[0], list(registers_in(operands[0])) if operands else []
        if base == "mov" and opcode.endswith("b128"):
            return self._moved_wide(instruction)
        if (choosers := definedness.choosers(instruction)) is not None:
            return self._tried(row, step, index, choosers)
        if len(targets) == 1 and base in ("mul", "mad") and (found := self._product(instruction)) is not None:
            return {targets[0].index: found}
        if len(targets) == 1 and marks.lane_by_lane(opcode):
            return {targets[0].index: marks.packed(targets[0], operands[1:], self._of)}
        if len(targets) == 1 and base == "cvt" and len(operands) == 3:
            return {targets[0].index: marks.paired(targets[0], self._of(operands[1]), self._of(operands[2]))}
        together = self._compared(instruction) if base == "setp" else marks.joined([self._of(o) for o in operands[1:]])
        width = max((r.bits for operand in operands[1:] for r in registers_in(operand)), default=64)
        together = together.only(marks.low_bits(width, marks.bits_read(opcode, modifiers)))
        if form.gate is not None:
            together = self._through_warp(together.where(self._active(instruction, index)))
        adds = self._adds(instruction)
        return {
            register.index: marks.joined([together.spread(register.bits), self._of(register).where(adds)])
            for register in targets
        }

    def _moved_wide(self, instruction: Instruction) -> dict[int, Marks]:
        """The marks of what 128 bits are moved to: whole, or in two or four parts."""
        targets, sources = (marks.parts_of(operand) for operand in instruction.operands)
        found = [self._of(source) for source in sources]
        octets = [marks.octets_of(spread(mark.bits, self._frame.count), marks.WIDE // len(found)) for mark in found]
        origin, parts = marks.joined(found).origin, np.split(np.concatenate(octets, axis=1), len(targets), axis=1)
        return {
            register.index: Marks(marks.of_octets(part), origin)
            for target, part in zip(targets, parts, strict=True) for register in registers_in(target)
        }  # fmt: skip

    def _tried(self, row: _Row, step: Step, index: Index, choosers: Mapping[int, int]) -> dict[int, Marks]:
        """The marks of what differs among the corners (see `definedness`)."""
        instruction, form, _ = row
        target, *sources = instruction.operands
        origin = marks.joined([self._of(each) for each in sources])
        origin = (origin if form.gate is None else self._through_warp(origin)).origin
        chosen = [self._of(instruction.operands[n]).only(np.uint64(bits)) for n, bits in choosers.items()]
        own = [self._of(each).bits for each in definedness.own_bits(instruction)]
        data = [each for n, each in enumerate(sources, 1) if n not in choosers]
        found = self._differences(instruction, step, index, data)
        results = dict[int, Marks]()
        for each in registers_in(target):
            every = marks.full(each.bits)
            bits = reduce(np.bitwise_or, [found[each.index], *own]) & every
            results[each.index] = marks.joined([Marks(bits, origin), *(mark.spread(each.bits) for mark in chosen)])
        return results

    def _differences(self, instruction: Instruction, step: Step, index: Index, data: list[Operand]) -> dict[int, Bits]:
        """For each register that a step writes the bits that differ among the corners of some operands."""
        frame, kept = self._frame, list(self._frame.registers)
        targets = [each.index for each in registers_in(instruction.operands[0])]
        numbers = {r.index for each in data for r in registers_in(each) if r.index in self._marks}
        some, every = dict[int, Bits](), dict[int, Bits]()
        values = {number: spread(kept[number], frame.count) for number in numbers}
        for corner in definedness.corners(values, {number: self._marks[number].bits for number in numbers}):
            for number, value in corner.items():
                frame.registers[number] = value
            step(frame, index)
            for target in targets:
                now = frame.registers[target]
                now = np.asarray(0 if now is None else now, np.uint64)
                some[target] = some.get(target, now) | now
                every[target] = every.get(target, now) & now
            frame.registers[:] = kept
        return {target: some[target] ^ every[target] for target in targets}

    def _product(self, instruction: Instruction) -> Marks | None:
        """The marks of a `mul` or `mad` of integers; None for others."""
        _, *operands = instruction.operands
        found, factors = [self._of(each) for each in operands], self._pairs(operands[:2])
        addends = [each.bits for each in found[2:]]
        bits = None if factors is None else definedness.of_product(instruction, factors, addends)
        return None if bits is None else Marks(bits, marks.joined(found).origin)

    def _pairs(self, operands: Sequence[Operand]) -> definedness.Pairs | None:
        """What operands are, with their marked bits; None if one is neither a register nor an integer."""
        values = [definedness.valued(each, self._held) for each in operands]
        bits = [self._of(each).bits for each in operands]
        pairs = [(value, loose) for value, loose in zip(values, bits, strict=True) if value is not None]
        return pairs if len(pairs) == len(operands) else None

    def _adds(self, instruction: Instruction) -> Array:
        """The threads for which it adds to what its targets hold."""
        if not accumulates(instruction):
            return np.zeros(1, np.bool_)
        chooser = instruction.operands[3]
        return self._frame.registers[chooser.index] if isinstance(chooser, Register) else np.ones(1, np.bool_)

    def _compared(self, instruction: Instruction) -> Marks:
        """What a written predicate decides alone, with `and` or `or`, the comparison beside it does not."""
        _, first, second, *combined = instruction.operands
        found, how = marks.joined([self._of(first), self._of(second)]), instruction.opcode.split(".")[2]
        pairs = self._pairs((first, second))
        either = None if pairs is None else definedness.undecided(instruction.opcode, (first, second), pairs)
        found = found if either is None else found.where(either)
        if not combined or how == "xor":
            return marks.joined([found, *map(self._of, combined)])
        negated, chooser = isinstance(combined[0], Negated), next(registers_in(combined[0]))
        decides = (self._held(chooser) ^ negated) == (how == "or")
        mark = self._of(chooser)
        return marks.joined([found.where(~(decides & (mark.bits == 0))), mark])

    def _through_warp(self, found: Marks) -> Marks:
        """For each thread all marks of its warp."""
        found = marks.joined([found])
        return Marks(self._warp_most(found.bits, np.bitwise_or), self._warp_most(found.origin, np.maximum))

    def _warp_most(self, values: Array, most: np.ufunc) -> Array:
        frame = self._frame
        lanes = np.zeros((frame.blocks, -(-frame.threads // WARP) * WARP), values.dtype)
        lanes[:, : frame.threads] = spread(values, frame.count).reshape(frame.blocks, frame.threads)
        warps = lanes.reshape(-1, WARP)
        warps[:] = most.reduce(warps, axis=1, keepdims=True)
        return lanes[:, : frame.threads].reshape(-1)

    def stored(self, access: Access, threads: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Which bits of the bytes of a store are marked: a row for each of the threads."""
        unit, octets = access.dtype.itemsize, np.zeros((len(threads), access.size), np.uint8)
        for number, part in enumerate(marks.parts_of(access.site.instruction.operands[1])):
            found = spread(self._of(part).bits, self._frame.count)[threads]
            width = max((register.bits for register in registers_in(part)), default=64)
            octets[:, number * unit : (number + 1) * unit] = marks.octets_of(found, max(width, 8 * unit))[:, :unit]
        return octets

    def _held(self, register: Register) -> Array:
        """What a register holds, of all threads or of each."""
        return self._frame.registers[register.index]

    def _of(self, operand: Operand) -> Marks:
        """The marks of an operand."""
        found = [self._marks[r.index] for r in registers_in(operand) if r.index in self._marks]
        return marks.joined(found) if found else marks.NONE

    def _set(self, register: int, found: Marks) -> None:
        if found.bits.any():
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
        active, bad = self._active(instruction, index), [doubt.where(came)]
        width = marks.bits_read(instruction.opcode, modifiers)
        if operands is None:
            operands = instruction.operands[1 if self._effects_of(instruction)[1] else 0 :]
        for operand in operands:
            found = self._of(operand).where(active)
            if not isinstance(operand, Address):
                bits = max((register.bits for register in registers_in(operand)), default=64)
                found = found.only(marks.low_bits(bits, width)).where(~self._inward(row))
            bad.append(found)
        origin = spread(marks.joined(bad).origin, frame.count)
        if origin.any():
            thread = int(np.argmax(origin != 0))
            what = f"`{instruction.opcode}` depends on {self._origins[int(origin[thread]) - 1]}"
            what += f"; thread {frame.thread_of(thread)}"
            raise UninitializedError(what, frame.program.location_of(instruction), frame.block_of(thread))

    def _inward(self, row: _Row) -> NDArray[np.bool_]:
        """The threads for which an instruction only keeps a value in local memory, which takes marks along."""
        instruction, form, modifiers = row
        address, space = instruction.operands[0], modifiers.get("space", "")
        if form.family != "store" or not isinstance(address, Address) or space not in ("", "local", "param"):
            return np.zeros(1, np.bool_)
        return np.ones(1, np.bool_) if space else window_of(addresses_of(self._frame, address, "generic")) == 1


def _extended(bits: Bits, width: int, to: int, signed: bool) -> Bits:
    """Marked bits of a number of so many bits in a register: where the sign is marked, so is all that it goes to."""
    if width == marks.WIDE:
        return bits
    found = resized(bits.astype(UNSIGNED[width].carrier), min(to, 64), signed).astype(np.uint64)
    return marks.of_octets(np.pad(marks.octets_of(found, 64), ((0, 0), (0, 8)))) if to == marks.WIDE else found
