"""An entry as basic blocks of prebound steps: what a chunk of thread blocks executes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilewright.lang import UNKNOWN_LOCATION, Location

from .access import Access
from .counters import Executed, instructions_of
from .frame import Frame, Index
from .inline import flatten
from .liveness import maybe_unwritten, reads, writes
from .parser import PtxModule
from .site import Read, Site, compile_pure
from .spaces import WINDOWS
from .syntax import Function, Instruction, Label, Negated, Register, Variable
from .table import End, Form, Gate, Modifiers, Step, find
from .types import TYPES

STACK_BYTES = 1024
"""Of each thread, for what `alloca` asks for, in programs that have it."""
_ON_STACK = ("alloca.", "stacksave.", "stackrestore.")

if TYPE_CHECKING:
    from .machine import Machine


@dataclass(slots=True, eq=False)
class Block:
    """Instructions that run one after the other. `touched` are the registers of those that are no `wgmma`."""

    number: int
    instructions: list[tuple[Instruction, Form, Modifiers]] = field(
        default_factory=list[tuple[Instruction, Form, Modifiers]]
    )
    touched: frozenset[int] = frozenset()
    gate: Gate | None = None
    steps: tuple[Step, ...] = ()
    end: End | None = None


class Layout:
    """Variables placed one after the other in a space."""

    def __init__(self, variables: Iterable[Variable]) -> None:
        self.offsets: dict[Variable, int] = {}
        self.size = 0
        open_ended: list[Variable] = []
        for variable in variables:
            if variable.size == 0:
                open_ended.append(variable)
            else:
                self._place(variable)
        for variable in open_ended:  # these share one place behind all others
            self.size = -(-self.size // variable.align) * variable.align
        for variable in open_ended:
            self.offsets[variable] = self.size

    def _place(self, variable: Variable) -> None:
        start = -(-self.size // variable.align) * variable.align
        self.offsets[variable] = start
        self.size = start + variable.size


class Program:
    """An entry ready to run: its registers, those that need watching (`tracked`), its memory layout and its blocks.

    `stack` are the addresses of local memory behind all variables, in programs that ask for some while they run.
    `shared_bytes` are static; dynamic shared memory begins there. relaxed: whether it has relaxed arrivals or waits, at
    mbarriers or those of clusters. Raises PtxError for what the table does not know.
    """

    def __init__(self, module: PtxModule, entry: Function) -> None:
        self.module, self.entry = module, entry
        flat = flatten(module, entry)
        self.registers: list[Register] = flat.registers
        self.tables = flat.tables
        self._parameters = {entry.signature[p.name]: p.offset for p in entry.parameters}
        own = [v for v in (*module.variables.values(), *flat.variables) if v.space == "shared"]
        self._shared = Layout(own)
        self._local = Layout(v for v in flat.variables if v.space in ("local", "param"))
        self.stack = _stack(self._local.size, flat.items)
        self._data = {
            v: _allocated(v) for v in (*module.variables.values(), *flat.variables) if v.space in ("global", "const")
        }
        self._fill_pointers()
        self.accesses: list[Access] = []
        self.relaxed = False
        self.blocks: list[Block] = []
        self.block_of_label: dict[int, int] = {}
        self._split(flat.items)
        self.tracked = maybe_unwritten(self)
        self.asynchronous = any(form.asynchronous for block in self.blocks for _, form, _ in block.instructions)
        self._compile()

    @cached_property
    def executed(self) -> tuple[Executed, ...]:
        """What the counters need to know of each instruction."""
        return instructions_of(self)

    @cached_property
    def families(self) -> list[Counter[str]]:
        """How many instructions of each class each block has."""
        return [Counter(form.family for _, form, _ in block.instructions) for block in self.blocks]

    @property
    def entry_location(self) -> Location:
        """The line of the entry in the PTX."""
        return self.module.source.place(self.entry.offset)

    @property
    def shared_bytes(self) -> int:
        """Static shared memory of a block."""
        return self._shared.size

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread."""
        return max(self._local.size, self.stack.stop)

    @property
    def data(self) -> dict[Variable, NDArray[np.uint8]]:
        """The bytes of the module's global and constant variables."""
        return self._data

    def is_entry_parameter(self, variable: Variable) -> bool:
        """Whether a `.param` variable is a parameter of the entry."""
        return variable in self._parameters

    def location_of(self, instruction: Instruction) -> Location:
        """The line of the kernel's source that an instruction comes from, or its line in the PTX if no `.loc` says."""
        location = instruction.location
        return location if location.line else self.module.source.place(instruction.offset)

    def line_of(self, block: Block) -> Location:
        """The line of a block's first instruction."""
        return self.location_of(block.instructions[0][0]) if block.instructions else UNKNOWN_LOCATION

    def address_of(self, variable: Variable, generic: bool = False) -> int:
        """The address of a variable in its space, or as a generic address."""
        if variable in self._data:
            space, offset = variable.space, int(self._data[variable].ctypes.data)
        elif variable in self._parameters:
            space, offset = "param", self._parameters[variable]
        elif variable.space == "shared":
            space, offset = "shared", self._shared.offsets[variable]
        else:
            space, offset = "local", self._local.offsets[variable]
        return offset + (WINDOWS.get(space, 0) if generic else 0)

    def _fill_pointers(self) -> None:
        for variable, data in self._data.items():
            for at, target, addend, generic in variable.pointers:
                value = self.address_of(target, generic) + addend
                data[at : at + 8] = np.frombuffer((value & (1 << 64) - 1).to_bytes(8, "little"), np.uint8)

    def _split(self, items: list[Instruction | Label]) -> None:
        """Cut into blocks: at labels, after ends, and around gates."""
        self.blocks.append(Block(0))
        for item in items:
            if isinstance(item, Label):
                if self.blocks[-1].instructions:
                    self._begin()
                self.block_of_label[item.number] = len(self.blocks) - 1
                continue
            form, modifiers = find(item.opcode, _Reporter(self.module, item).fail)
            if form.gate is not None and self.blocks[-1].instructions:
                self._begin()
            self.blocks[-1].instructions.append((item, form, modifiers))
            if form.gate is not None or form.end is not None:
                self._begin()

    def _begin(self) -> None:
        self.blocks.append(Block(len(self.blocks)))

    def _compile(self) -> None:
        for block in self.blocks:
            steps: list[Step] = []
            for instruction, form, modifiers in block.instructions:
                site = Site(self, instruction, form, modifiers, block.number)
                guard, following = instruction.guard, block.number + 1
                if form.end is not None:
                    end = form.end(site)
                    block.end = end if guard is None else _guarded_end(site, end, following, len(self.blocks))
                    continue
                step = _step(site)
                if form.gate is not None:
                    gate = form.gate(site)
                    block.gate = gate if guard is None else _guarded_gate(site, gate, following, len(self.blocks))
                elif guard is not None:
                    step = _guarded(site, step)
                steps.append(step)
            block.steps = tuple(steps)
            block.touched = _touched(block) if self.asynchronous else frozenset()
            if block.end is None:
                block.end = _fall(block.number + 1, len(self.blocks))


def _touched(block: Block) -> frozenset[int]:
    plain = [i for i, _, _ in block.instructions if not i.opcode.startswith("wgmma.mma_async")]
    return frozenset[int]().union(*(reads(i) | writes(i) for i in plain))


def _stack(size: int, items: Iterable[Instruction | Label]) -> range:
    """The addresses of what threads ask for behind so many bytes of local memory; none where they do not."""
    start = -(-size // 16) * 16
    used = any(isinstance(item, Instruction) and item.opcode.startswith(_ON_STACK) for item in items)
    return range(start, start + STACK_BYTES) if used else range(0)


class _Reporter:
    def __init__(self, module: PtxModule, instruction: Instruction) -> None:
        self.module, self.instruction = module, instruction

    def fail(self, what: str) -> NoReturn:
        raise self.module.source.error(what, self.instruction.offset)


def _allocated(variable: Variable) -> NDArray[np.uint8]:
    """The bytes of a variable, aligned."""
    room = np.zeros(variable.size + max(variable.align, 16), np.uint8)
    skip = -room.ctypes.data % max(variable.align, 16)
    data = room[skip : skip + variable.size]
    data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
    return data


def _step(site: Site) -> Step:
    if site.form.kernel is not None:
        return compile_pure(site)
    assert site.form.step is not None
    return site.form.step(site)


def _fall(target: int, blocks: int) -> End:
    if target >= blocks:
        return lambda machine, frame, index: machine.finish(index)
    return lambda machine, frame, index: machine.go(target, index)


def _predicate(site: Site) -> Read:
    """How to read the guard of an instruction: where it holds."""
    guard = site.instruction.guard
    assert guard is not None
    return site.read(Negated(guard.register) if guard.negated else guard.register, TYPES["pred"])


def _guarded(site: Site, step: Step) -> Step:
    """A step for those threads only whose guard holds."""
    holds = _predicate(site)

    def run(frame: Frame, index: Index) -> None:
        chosen = frame.narrowed(index, holds(frame, index))
        if chosen is None or len(chosen):
            step(frame, chosen)

    return run


def _guarded_end(site: Site, end: End, following: int, blocks: int) -> End:
    """The end of a block for those threads whose guard holds; the others fall through."""
    holds, fall = _predicate(site), _fall(following, blocks)

    def run(machine: Machine, frame: Frame, index: Index) -> None:
        found = holds(frame, index)
        chosen = frame.narrowed(index, found)
        if chosen is None or len(chosen):
            end(machine, frame, chosen)
        if not found.all():
            fall(machine, frame, frame.narrowed(index, ~found))

    return run


def _guarded_gate(site: Site, gate: Gate, following: int, blocks: int) -> Gate:
    """A gate for those threads whose guard holds; the others go on behind it."""
    holds, fall = _predicate(site), _fall(following, blocks)

    def run(machine: Machine, frame: Frame, index: Index) -> Index:
        found = holds(frame, index)
        if not found.all():
            fall(machine, frame, frame.narrowed(index, ~found))
        chosen = frame.narrowed(index, found)
        return gate(machine, frame, chosen) if chosen is None or len(chosen) else chosen

    return run
