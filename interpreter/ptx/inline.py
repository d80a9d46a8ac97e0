"""Calls replaced by the bodies of the functions they name, so that a program is one sequence of instructions.

Each call gets its own copy of the callee: registers, labels and variables renumbered, parameters standing for the
caller's variables, and `ret` a branch behind the copy, where what `alloca` gave is given back. What cannot be
copied (recursion, indirect calls) is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .lexer import Source
from .parser import PtxModule
from .syntax import (
    Address,
    Function,
    Guard,
    Instruction,
    Label,
    LabelRef,
    Name,
    Negated,
    Operand,
    Pair,
    Register,
    Variable,
    VariableRef,
    Vector,
)

BUILTINS = ("vprintf", "__assertfail")
"""Functions that the CUDA runtime has; a call of one is an instruction of its own."""


@dataclass(slots=True, eq=False)
class Flat:
    """A function with all calls inlined: instructions and labels in order, and everything they name."""

    items: list[Instruction | Label] = field(default_factory=list[Instruction | Label])
    registers: list[Register] = field(default_factory=list[Register])
    variables: list[Variable] = field(default_factory=list[Variable])
    tables: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    labels: int = 0

    def label(self) -> int:
        """A new label."""
        self.labels += 1
        return self.labels - 1


def flatten(module: PtxModule, entry: Function) -> Flat:
    """The entry with all its calls inlined."""
    flat = Flat()
    _Copy(module, flat, entry, None, ()).run({})
    return flat


class _Copy:
    """One copy of a function's body in the flat program."""

    def __init__(
        self, module: PtxModule, flat: Flat, function: Function, call: Instruction | None, path: tuple[str, ...]
    ) -> None:
        self.module, self.flat, self.function, self.call = module, flat, function, call
        self.path = (*path, function.name)
        self.first_register = len(flat.registers)
        self.labels: dict[int, int] = {}
        self.variables: dict[Variable, Variable] = {}
        self.end = flat.label() if call is not None else -1

    @property
    def source(self) -> Source:
        """The text."""
        return self.module.source

    def run(self, bound: dict[Variable, Variable]) -> None:
        """Copy the body; `bound` says which variables of the caller parameters stand for."""
        function, flat = self.function, self.flat
        prefix = "" if self.call is None else f"{function.name}."
        for register in function.registers:
            flat.registers.append(Register(len(flat.registers), f"{prefix}{register.name}", register.bits))
        self.variables.update(bound)
        for variable in function.variables:
            own = variable
            if self.call is not None and variable.space in ("local", "param"):
                own = Variable(variable.name, variable.space, variable.align, variable.size)
            self.variables[variable] = own
            flat.variables.append(own)
        for name, targets in function.tables.items():
            flat.tables[f"{prefix}{name}"] = tuple(self._label(target) for target in targets)
        kept = self._kept_stack()
        flat.items += [replace(kept, opcode="stacksave.u64")] if kept is not None else []
        for item in function.body or ():
            self._item(item)
        if self.call is not None:
            flat.items.append(Label(self.end))
        flat.items += [replace(kept, opcode="stackrestore.u64")] if kept is not None else []

    def _kept_stack(self) -> Instruction | None:
        """An instruction on a register of its own, for what the caller has on the stack; None if nobody touches it."""
        taken = (i for i in self.function.body or () if isinstance(i, Instruction) and i.opcode.startswith("alloca."))
        if self.call is None or next(taken, None) is None:
            return None
        self.flat.registers.append(Register(len(self.flat.registers), f"{self.function.name}.stack", 64))
        return replace(self.call, operands=(self.flat.registers[-1],), guard=None)

    def _label(self, number: int) -> int:
        if number not in self.labels:
            self.labels[number] = self.flat.label()
        return self.labels[number]

    def _item(self, item: Instruction | Label) -> None:
        if isinstance(item, Label):
            self.flat.items.append(Label(self._label(item.number)))
            return
        operands = tuple(self.operand(op) for op in item.operands)
        guard = None if item.guard is None else Guard(self.register(item.guard.register), item.guard.negated)
        location = item.location
        if self.call is not None:
            location = replace(location, caller=self.call.location)
        base = item.opcode.partition(".")[0]
        item = replace(item, operands=operands, guard=guard, location=location)
        if base == "call":
            self._call(item)
        elif base == "ret" and self.call is not None:
            self.flat.items.append(replace(item, opcode="bra", operands=(LabelRef(self.end),)))
        else:
            if base == "brx" and self.call is not None and isinstance(operands[-1], Name):
                table = Name(f"{self.function.name}.{operands[-1].text}")
                item = replace(item, operands=(*operands[:-1], table))
            self.flat.items.append(item)

    def register(self, register: Register) -> Register:
        """The copy of a register."""
        return self.flat.registers[self.first_register + register.index]

    def operand(self, operand: Operand) -> Operand:
        """An operand with everything it names replaced by its copy."""
        if isinstance(operand, Register):
            return self.register(operand)
        if isinstance(operand, VariableRef):
            return replace(operand, variable=self.variables.get(operand.variable, operand.variable))
        if isinstance(operand, Address):
            base = operand.base
            coordinates = tuple(self.operand(op) for op in operand.coordinates)
            if isinstance(base, Register):
                return Address(self.register(base), operand.offset, coordinates)
            own = None if base is None else self.variables.get(base, base)
            return Address(own, operand.offset, coordinates)
        if isinstance(operand, Vector):
            return Vector(tuple(self.operand(op) for op in operand.elements))
        if isinstance(operand, Pair):
            return Pair(self.operand(operand.first), self.operand(operand.second))
        if isinstance(operand, Negated):
            return Negated(self.register(operand.register))
        return LabelRef(self._label(operand.number)) if isinstance(operand, LabelRef) else operand

    def _call(self, item: Instruction) -> None:
        """Inline the callee, or keep the call of a builtin function."""
        operands = list(item.operands)
        results: tuple[Operand, ...] = ()
        if operands and isinstance(first := operands[0], Vector):
            results = first.elements
            del operands[0]
        name = operands.pop(0) if operands else None
        arguments = operands.pop(0) if operands else Vector(())
        if not isinstance(name, Name) or not isinstance(arguments, Vector) or operands:
            raise self.source.error(
                "only direct calls, `call (results), function, (arguments)`, are supported", item.offset
            )
        callee = self.module.functions.get(name.text)
        if callee is not None and callee.body is not None:
            self._inline(item, callee, results, arguments.elements)
        elif name.text in BUILTINS:
            self.flat.items.append(item)
        else:
            raise self.source.error(f"call of `{name.text}`, which is not defined", item.offset)

    def _inline(
        self, item: Instruction, callee: Function, results: tuple[Operand, ...], arguments: tuple[Operand, ...]
    ) -> None:
        if callee.name in self.path:
            raise self.source.error(f"recursion: `{callee.name}` calls itself", item.offset)
        wanted = (*callee.results, *callee.parameters)
        given = (*results, *arguments)
        if len(results) != len(callee.results) or len(arguments) != len(callee.parameters):
            what = f"`{callee.name}` has {len(callee.parameters)} parameters and {len(callee.results)} results"
            raise self.source.error(f"{what}, the call {len(arguments)} and {len(results)}", item.offset)
        skip = self.flat.label() if item.guard is not None else -1
        if item.guard is not None:
            guard = replace(item.guard, negated=not item.guard.negated)
            self.flat.items.append(replace(item, opcode="bra", operands=(LabelRef(skip),), guard=guard))
        copy = _Copy(self.module, self.flat, callee, item, self.path)
        bound: dict[Variable, Variable] = {}
        moves: list[Instruction] = []
        for number, (parameter, operand) in enumerate(zip(wanted, given, strict=True)):
            formal = callee.signature[parameter.name]
            if isinstance(formal, Variable) and isinstance(operand, VariableRef):
                bound[formal] = operand.variable
            elif isinstance(formal, Register):
                self._move(item, callee, copy, formal, operand, number < len(results), moves)
            else:
                raise self.source.error(f"`{parameter.name}` needs a `.param` variable", item.offset)
        copy.run(bound)
        self.flat.items.extend(moves)
        if item.guard is not None:
            self.flat.items.append(Label(skip))

    def _move(
        self, item: Instruction, callee: Function, copy: _Copy, formal: Register, operand: Operand, result: bool,
        after: list[Instruction],
    ) -> None:  # fmt: skip
        """Pass a `.reg` parameter, or fetch a `.reg` result once the callee is done."""
        own = Register(copy.first_register + formal.index, f"{callee.name}.{formal.name}", formal.bits)
        opcode = "mov.pred" if formal.bits == 1 else f"mov.b{formal.bits}"
        move = replace(item, opcode=opcode, operands=(operand, own) if result else (own, operand), guard=None)
        (after if result else self.flat.items).append(move)
