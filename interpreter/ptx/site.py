"""The place of one instruction in a program: how its operands are read and written, and how its mistakes are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from tilewright.lang import Location

from ..errors import InterpreterError
from .declarations import float_bits
from .frame import Frame, Index
from .specials import SPECIALS, reader_of
from .syntax import Immediate, Instruction, Negated, Operand, Register, Sink, Special, VariableRef
from .table import Form, Modifiers, Step, type_of
from .types import CARRIERS, TYPES, UNSIGNED, Array, PtxType, resized

if TYPE_CHECKING:
    from .program import Program

Read = Callable[[Frame, Index], Array]
Write = Callable[[Frame, Index, Array], None]
Fault = TypeVar("Fault", bound=InterpreterError)


class Site:
    """An instruction of a program, its row of the table, its modifiers, and the basic block it stands in."""

    def __init__(
        self, program: Program, instruction: Instruction, form: Form, modifiers: Modifiers, block: int
    ) -> None:
        self.program, self.instruction, self.form, self.modifiers = program, instruction, form, modifiers
        self.block = block
        self.operands = instruction.operands

    @property
    def location(self) -> Location:
        """The line of the kernel's source, or of the PTX where that does not say."""
        return self.program.location_of(self.instruction)

    def fail(self, what: str) -> NoReturn:
        """Report a mistake in the text."""
        raise self.program.module.source.error(what, self.instruction.offset)

    def fault(self, kind: type[Fault], what: str, frame: Frame, thread: int) -> Fault:
        """What a thread did wrong, with who and where it is."""
        who = f"{what}; thread {frame.thread_of(thread)}"
        return kind(who, self.location, frame.block_of(thread))

    def arity(self, low: int, high: int | None = None) -> None:
        """Check the number of operands."""
        high = low if high is None else high
        if not low <= len(self.operands) <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            self.fail(f"`{self.instruction.opcode}` takes {wanted} operands, found {len(self.operands)}")

    def read(self, operand: Operand, type_: PtxType, wider: bool = False) -> Read:
        """How to read an operand as numbers of a type; `wider` admits registers wider than the type, cut off."""
        bits = self.read_bits(operand, type_, wider)
        if type_.dtype == type_.carrier and type_.lanes == 1:
            return bits
        view = type_.read
        return lambda frame, index: view(bits(frame, index))

    def read_bits(self, operand: Operand, type_: PtxType, wider: bool = False) -> Read:
        """How to read an operand as the bits of a type."""
        if isinstance(operand, Register):
            return self._register(operand, type_, wider)
        if isinstance(operand, Negated):
            if type_.kind != "p":
                self.fail(f"`!{operand.register.name}` is a predicate, `{self.instruction.opcode}` needs {type_.name}")
            inner = self._register(operand.register, TYPES["pred"], False)
            return lambda frame, index: ~inner(frame, index)
        if isinstance(operand, Special):
            return self._special(operand, type_)
        if isinstance(operand, Immediate):
            return _constant(self._immediate(operand, type_), type_)
        if isinstance(operand, VariableRef):
            return _constant(self.program.address_of(operand.variable) + operand.offset, type_)
        self.fail(f"`{self.instruction.opcode}` cannot read this operand")

    def _special(self, operand: Special, type_: PtxType) -> Read:
        if operand.name not in SPECIALS:
            self.fail(f"unknown register `{operand.name}`")
        if type_.bits > 64:
            self.fail(f"`{operand.name}` has no {type_.bits} bits")
        found = reader_of(operand.name)
        return lambda frame, index: resized(found(frame, index), type_.bits)

    def _register(self, register: Register, type_: PtxType, wider: bool) -> Read:
        if register.bits != type_.bits and not (wider and register.bits > type_.bits):
            self.fail(f"`{register.name}` has {_bits(register.bits)}, `{self.instruction.opcode}` needs {type_.bits}")
        number = register.index
        read = _plain(number)
        if register.bits == type_.bits:
            return read
        return lambda frame, index: resized(read(frame, index), type_.bits)

    def _immediate(self, operand: Immediate, type_: PtxType) -> int:
        if operand.kind == "int":
            if type_.kind == "f" and type_.lanes == 1 and type_.bits >= 32:
                self.fail(f"`{self.instruction.opcode}` needs a float, found {operand.value}")
            if type_.kind == "p":
                return int(operand.value != 0)
            return int(operand.value) & ((1 << type_.bits) - 1)
        if not 16 <= type_.bits <= 64 or type_.kind in "us" or type_.lanes > 1:
            self.fail(f"`{self.instruction.opcode}` needs an integer, found a float")
        if operand.kind == "decimal":
            return float_bits(repr(operand.value), type_.bits)
        own = 32 if operand.kind == "f32" else 64
        if own == type_.bits:
            return int(operand.value)
        return float_bits(f"{'0f' if own == 32 else '0d'}{operand.value:0{own // 4}x}", type_.bits)

    def write(self, operand: Operand, type_: PtxType, wider: bool = False) -> Write:
        """How to store numbers of a type in a destination; `wider` admits wider registers, which are extended."""
        if isinstance(operand, Sink):
            return lambda frame, index, values: None
        if not isinstance(operand, Register):
            self.fail(f"a destination of `{self.instruction.opcode}` must be a register")
        if operand.bits != type_.bits and not (wider and operand.bits > type_.bits):
            self.fail(f"`{operand.name}` has {_bits(operand.bits)}, `{self.instruction.opcode}` needs {type_.bits}")
        number, bits, to_bits, signed = operand.index, operand.bits, type_.write, type_.signed

        def write(frame: Frame, index: Index, values: Array) -> None:
            frame.write(number, index, resized(to_bits(values), bits, signed), bits)

        return write


def _plain(number: int) -> Read:
    """How to read a register."""

    def read(frame: Frame, index: Index) -> Array:
        bits = frame.registers[number]
        return bits if index is None or len(bits) == 1 else bits[index]

    return read


def _bits(width: int) -> str:
    return "1 bit (a predicate)" if width == 1 else f"{width} bits"


def _constant(value: int, type_: PtxType) -> Read:
    """A number, which has 64 bits at most: the others are zeros."""
    octets = (value & ((1 << min(type_.bits, 64)) - 1)).to_bytes(CARRIERS[type_.bits].itemsize, "little")
    bits = np.frombuffer(octets, CARRIERS[type_.bits])
    return lambda frame, index: bits


def compile_pure(site: Site) -> Step:
    """The step of a `pure` row."""
    form, modifiers = site.form, site.modifiers
    assert form.kernel is not None
    width = len(form.outputs) + len(form.inputs)
    site.arity(width - form.optional, width)
    types = [type_of(word, modifiers) for word in (*form.outputs, *form.inputs)]
    split = len(form.outputs)
    writes = [site.write(op, t) for op, t in zip(site.operands[:split], types[:split], strict=True)]
    pairs = zip(site.operands[split:], types[split:], strict=False)
    reads = [site.read(op, t) for op, t in pairs]
    return joined(form.kernel(modifiers), reads, writes)


def joined(kernel: Callable[..., Array], reads: list[Read], writes: list[Write]) -> Step:
    """The step that reads, computes and writes."""
    (write,) = writes
    if len(reads) == 1:
        (one,) = reads
        return lambda frame, index: write(frame, index, kernel(one(frame, index)))
    if len(reads) == 2:
        first, second = reads
        return lambda frame, index: write(frame, index, kernel(first(frame, index), second(frame, index)))
    return lambda frame, index: write(frame, index, kernel(*(read(frame, index) for read in reads)))


def bits_type(width: int) -> PtxType:
    """Plain bits of a width."""
    return UNSIGNED[width]
