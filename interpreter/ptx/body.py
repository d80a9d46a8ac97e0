"""Function bodies: scopes, register and variable declarations, labels, and instructions with resolved operands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.lang import UNKNOWN_LOCATION, Location

from .declarations import SPACES, declared_type, variables
from .lexer import Cursor, Token
from .syntax import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    LabelRef,
    Name,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Variable,
    VariableRef,
    Vector,
)
from .types import TYPES

if TYPE_CHECKING:
    from .parser import PtxModule

_MARKS = {"branchtargets", "calltargets", "callprototype"}
#: What reads the carry, and the register that it is in here.
_TAKE_CARRY, _CARRY = frozenset(("addc", "subc", "madc")), "CC.CF"
_MOST_REGISTERS = 1 << 20
_COMPONENTS = (".x", ".y", ".z", ".w")


class _Scope:
    """The names that one pair of braces declares, and the scope around it."""

    def __init__(self, parent: _Scope | None) -> None:
        self.parent = parent
        self.names: dict[str, Register | Variable] = {}
        self.families: dict[str, tuple[int, int, int]] = {}  # prefix -> first index, count, bits
        self.labels: dict[str, int] = {}


class Body:
    """The parser of one function's body."""

    def __init__(self, cursor: Cursor, function: Function, module: PtxModule, files: dict[int, str]) -> None:
        self.cursor, self.function, self.module, self.files = cursor, function, module, files
        self.scope = _Scope(None)
        self.scope.names.update(function.signature)
        self.location = UNKNOWN_LOCATION
        self.items: list[Instruction | Label] = []
        self.jumps: list[tuple[int, _Scope]] = []
        self.tables: list[tuple[str, list[Token], _Scope]] = []
        self.label_count = 0
        self.carry: Register | None = None

    def parse(self) -> None:
        """Parse from `{` to the matching `}` and complete the function."""
        self.cursor.expect("{")
        self._statements()
        for index, scope in self.jumps:
            item = self.items[index]
            assert isinstance(item, Instruction)
            operands = tuple(self._label(op, scope, item) if isinstance(op, Name) else op for op in item.operands)
            self.items[index] = replace(item, operands=operands)
        for name, targets, scope in self.tables:
            self.function.tables[name] = tuple(self._target(token.text, scope, token.offset) for token in targets)
        self.function.body = self.items

    def _label(self, operand: Name, scope: _Scope, item: Instruction) -> Operand:
        if item.opcode.startswith("brx") and operand is item.operands[-1]:
            return operand
        return LabelRef(self._target(operand.text, scope, item.offset))

    def _target(self, name: str, scope: _Scope, offset: int) -> int:
        level: _Scope | None = scope
        while level is not None:
            if name in level.labels:
                return level.labels[name]
            level = level.parent
        raise self.cursor.source.error(f"no label `{name}` in this function", offset)

    def _statements(self) -> None:
        """Everything up to the closing brace of the scope, which is taken."""
        cursor = self.cursor
        while not cursor.accept("}"):
            token = cursor.token
            if token.kind == "{":
                cursor.take()
                self.scope = _Scope(self.scope)
                self._statements()
                assert self.scope.parent is not None
                self.scope = self.scope.parent
            elif token.kind == "dot":
                self._directive(cursor.take())
            elif token.kind == "word" and cursor.following().kind == ":":
                self._place(token)
            elif token.kind in ("word", "@"):
                self._instruction()
            elif not cursor.accept(";"):
                cursor.fail(f"expected an instruction, found {token.text!r}")

    def _directive(self, token: Token) -> None:
        space = token.text[1:]
        if token.text == ".reg":
            self._registers()
        elif token.text == ".loc":
            self._source_line()
        elif token.text == ".pragma":
            self.cursor.expect("string", "a pragma")
            self.cursor.expect(";")
        elif space in SPACES:
            for variable in variables(self.cursor, space, self._variable):
                self._declare(variable.name, variable, token)
                self.function.variables.append(variable)
        else:
            self.cursor.fail(f"unknown directive `{token.text}`", token)

    def _declare(self, name: str, what: Register | Variable, token: Token) -> None:
        if name in self.scope.names:
            self.cursor.fail(f"`{name}` is declared twice", token)
        self.scope.names[name] = what

    def _registers(self) -> None:
        """`.reg .b32 %r<20>, %x;`."""
        cursor = self.cursor
        bits = TYPES[declared_type(cursor)].bits
        while True:
            token = cursor.expect("word", "a register name")
            if cursor.accept("<"):
                count = cursor.integer("a count")
                if not 0 <= count <= _MOST_REGISTERS:
                    cursor.fail(f"a function has at most {_MOST_REGISTERS} registers, found {count}", token)
                cursor.expect(">")
                self.scope.families[token.text] = (len(self.function.registers), count, bits)
                for number in range(count):
                    self._register(f"{token.text}{number}", bits)
            else:
                self._declare(token.text, self._register(token.text, bits), token)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def _register(self, name: str, bits: int) -> Register:
        register = Register(len(self.function.registers), name, bits)
        self.function.registers.append(register)
        return register

    def _source_line(self) -> None:
        """`.loc file line column`, with what may follow; line 0 says nothing."""
        cursor = self.cursor
        number, line, column = cursor.integer(), cursor.integer(), cursor.integer()
        caller = None
        while cursor.accept(","):
            word = cursor.expect("word", "`function_name` or `inlined_at`").text
            if word == "inlined_at":
                where = cursor.integer(), cursor.integer(), cursor.integer()
                caller = Location(self.files.get(where[0], "?"), where[1], where[2])
            else:
                cursor.expect("word", "a label")
                if cursor.accept("+"):
                    cursor.integer()
        if line:
            self.location = Location(self.files.get(number, "?"), line, column, caller)

    def _place(self, token: Token) -> None:
        cursor = self.cursor
        cursor.take()
        cursor.take()
        if token.text in self.scope.labels:
            cursor.fail(f"label `{token.text}` stands twice", token)
        if cursor.token.kind == "dot" and cursor.token.text[1:] in _MARKS:
            self._table(token)
            return
        self.scope.labels[token.text] = self.label_count
        self.items.append(Label(self.label_count))
        self.label_count += 1

    def _table(self, label: Token) -> None:
        """`name: .branchtargets a, b, c;`."""
        kind = self.cursor.take()
        if kind.text != ".branchtargets":
            self.cursor.fail(f"`{kind.text}` is not supported", kind)
        targets = [self.cursor.expect("word", "a label")]
        while self.cursor.accept(","):
            targets.append(self.cursor.expect("word", "a label"))
        self.cursor.expect(";")
        self.tables.append((label.text, targets, self.scope))

    def _instruction(self) -> None:
        cursor = self.cursor
        guard = self._guard() if cursor.token.kind == "@" else None
        token = cursor.expect("word", "an opcode")
        opcode = token.text
        while cursor.token.kind == "dot":
            opcode += cursor.take().text
        operands: list[Operand] = []
        while cursor.token.kind != ";":
            operands.append(self._operand())
            if cursor.token.kind != ";":
                cursor.expect(",", "`,` or `;`")
        cursor.take()
        if token.text in ("bra", "brx"):
            self.jumps.append((len(self.items), self.scope))
        self.items.append(Instruction(opcode, self.carried(opcode, operands), guard, token.offset, self.location))

    def carried(self, opcode: str, operands: list[Operand]) -> tuple[Operand, ...]:
        """The operands, among them the carry: beside a result with `.cc`, and behind those of `addc` and its like."""
        base, *modifiers = opcode.split(".")
        gives, takes = "cc" in modifiers, base in _TAKE_CARRY
        if not operands or not (gives or takes):
            return tuple(operands)
        carry = self.carry = self.carry or self._register(_CARRY, 1)
        result = Pair(operands[0], carry) if gives else operands[0]
        return (result, *operands[1:], *[carry] * takes)

    def _guard(self) -> Guard:
        self.cursor.take()
        negated = self.cursor.accept("!") is not None
        token = self.cursor.token
        register = self._operand()
        if not isinstance(register, Register) or register.bits != 1:
            self.cursor.fail(f"the guard {token.text!r} is not a predicate", token)
        return Guard(register, negated)

    def _operand(self) -> Operand:
        first = self._simple()
        return Pair(first, self._simple()) if self.cursor.accept("|") else first

    def _simple(self) -> Operand:
        cursor = self.cursor
        token = cursor.token
        if token.kind == "[":
            return self._address()
        if token.kind in ("{", "("):
            return self._vector(cursor.take())
        if token.kind == "!":
            cursor.take()
            register = self._simple()
            if not isinstance(register, Register):
                cursor.fail("expected a predicate after `!`", token)
            return Negated(register)
        if token.kind == "word":
            return self._named(cursor.take())
        return self._immediate()

    def _immediate(self) -> Immediate:
        cursor = self.cursor
        if cursor.token.kind == "-" and cursor.following().kind == "float":
            cursor.take()
            value = self._immediate()
            if value.kind == "decimal":
                return Immediate(-value.value, "decimal")
            return Immediate(int(value.value) ^ (1 << (31 if value.kind == "f32" else 63)), value.kind)
        token = cursor.accept("float")
        if token is None:
            return Immediate(cursor.integer("an operand"), "int")
        prefix = token.text[:2].lower()
        if prefix in ("0f", "0d"):
            return Immediate(int(token.text[2:], 16), "f32" if prefix == "0f" else "f64")
        return Immediate(float(token.text), "decimal")

    def _vector(self, opening: Token) -> Vector:
        closing = "}" if opening.kind == "{" else ")"
        elements: list[Operand] = []
        while not self.cursor.accept(closing):
            elements.append(self._simple())
            if self.cursor.token.kind != closing:
                self.cursor.expect(",", f"`,` or `{closing}`")
        return Vector(tuple(elements))

    def _address(self) -> Address:
        cursor = self.cursor
        cursor.take()
        base: Register | Variable | None = None
        offset = 0
        if cursor.token.kind == "word":
            token = cursor.take()
            named = self._named(token)
            if isinstance(named, VariableRef):
                base, offset = named.variable, named.offset
            elif isinstance(named, Register):
                base = named
            else:
                cursor.fail(f"`{token.text}` is neither a register nor a variable", token)
        if cursor.token.kind in ("+", "-", "int"):
            offset += cursor.integer("an offset")
        coordinates = self._vector(cursor.expect("{")).elements if cursor.accept(",") else ()
        cursor.expect("]")
        return Address(base, offset, coordinates)

    def _named(self, token: Token) -> Operand:
        text = token.text
        if text == "_":
            return Sink()
        found = self._lookup(text)
        if isinstance(found, Register):
            return found
        if found is not None:
            offset = self.cursor.integer() if self.cursor.token.kind in ("+", "-") else 0
            return VariableRef(found, offset)
        if text.startswith("%"):
            component = self.cursor.accept_dot(*_COMPONENTS)
            return Special(text + (component.text if component else ""))
        return Special(text) if text == "WARP_SZ" else Name(text)

    def _lookup(self, name: str) -> Register | Variable | None:
        prefix = name.rstrip("0123456789")
        digits = name[len(prefix) :]
        level: _Scope | None = self.scope
        while level is not None:
            if name in level.names:
                return level.names[name]
            family = level.families.get(prefix)
            if family is not None and digits and digits == str(int(digits)) and int(digits) < family[1]:
                return self.function.registers[family[0] + int(digits)]
            level = level.parent
        return self.module.variables.get(name)

    def _variable(self, name: str) -> Variable | None:
        found = self._lookup(name)
        return found if isinstance(found, Variable) else None
