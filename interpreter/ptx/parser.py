"""PTX modules: directives, variables and functions. `load_ptx` checks what `parse` reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .body import Body
from .declarations import declared_type, laid_out, parameter, variables
from .errors import PtxError
from .lexer import Cursor, Source, Token
from .syntax import Function, Parameter, Register, Variable
from .types import TYPES

if TYPE_CHECKING:
    from .program import Program

_FILE = re.compile(r'^[ \t]*\.file\s+(\d{1,9})\s+"([^"\n]*)"', re.MULTILINE)
_LINKING = (".visible", ".extern", ".weak", ".common")
_TRIPLES = (".reqntid", ".maxntid", ".reqnctapercluster")
_NUMBERS = (".minnctapersm", ".maxnctapersm", ".maxnreg", ".maxclusterrank")
_FLAGS = (".explicitcluster", ".noreturn", ".blocksareclusters")


@dataclass(slots=True, eq=False)
class PtxModule:
    """A parsed PTX module.

    version: of the PTX ISA, such as "8.8"; target: such as "sm_90a". `source` points at places in the text.
    `programs` keeps what the entries were compiled to.
    """

    source: Source
    version: str = ""
    target: str = ""
    address_size: int = 64
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    programs: dict[str, Program] = field(default_factory=dict[str, "Program"])

    def entry(self, name: str) -> Function:
        """The entry of a name. Raises PtxError, with the names there are, when there is none."""
        found = self.functions.get(name)
        if found is None or not found.is_entry or found.body is None:
            names = ", ".join(entry.name for entry in self.entries) or "none"
            raise PtxError(
                f"no entry `{name}`; the module's entries: {names}", 1, 1, self.source.text.partition("\n")[0]
            )
        return found

    @property
    def entries(self) -> tuple[Function, ...]:
        """All entries, in the order of the text."""
        return tuple(f for f in self.functions.values() if f.is_entry and f.body is not None)


def parse(text: str) -> PtxModule:
    """The module that a PTX text describes, its instructions not looked into yet. Raises PtxError."""
    parser = _Parser(text)
    try:
        return parser.module()
    except RecursionError:
        raise parser.source.error("nested too deeply", parser.cursor.token.offset) from None


class _Parser:
    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.cursor = Cursor(self.source)
        self.result = PtxModule(self.source)
        self.files = {int(number): name for number, name in _FILE.findall(text)}

    def module(self) -> PtxModule:
        """The whole text."""
        self._header()
        while self.cursor.token.kind != "end":
            self._item()
        return self.result

    def _header(self) -> None:
        """`.version` and `.target`, with which every module begins."""
        cursor = self.cursor
        if not cursor.accept_dot(".version"):
            cursor.fail(f"expected `.version`, found {cursor.token.text!r}")
        self.result.version = cursor.expect("float", "a version").text
        if not cursor.accept_dot(".target"):
            cursor.fail(f"expected `.target`, found {cursor.token.text!r}")
        self.result.target = cursor.expect("word", "a target").text
        while cursor.accept(","):
            cursor.expect("word", "a target option")

    def _item(self) -> None:
        token = self.cursor.expect("dot", "a directive")
        action = {
            ".address_size": self._address_size,
            ".file": self._file,
            ".section": self._section,
            ".pragma": self._pragma,
            ".alias": self._statement,
        }.get(token.text)
        if action is not None:
            action()
        else:
            self._declaration(token)

    def _address_size(self) -> None:
        token = self.cursor.token
        self.result.address_size = self.cursor.integer("an address size")
        if self.result.address_size != 64:
            self.cursor.fail("only 64-bit addresses are supported", token)

    def _file(self) -> None:
        self.cursor.integer("a file number")
        self.cursor.expect("string", "a file name")
        while self.cursor.accept(","):
            self.cursor.integer()

    def _section(self) -> None:
        """Debug data, which means nothing here."""
        while self.cursor.token.kind not in ("{", "end"):
            self.cursor.take()
        self.cursor.expect("{")
        while not self.cursor.accept("}"):
            if self.cursor.token.kind == "end":
                self.cursor.fail("expected '}', found the end of the text")
            self.cursor.take()

    def _pragma(self) -> None:
        self.cursor.expect("string", "a pragma")
        self.cursor.expect(";")

    def _statement(self) -> None:
        while not self.cursor.accept(";"):
            if self.cursor.take().kind == "end":
                self.cursor.fail("expected ';', found the end of the text")

    def _declaration(self, token: Token) -> None:
        external = False
        while token.text in _LINKING:
            external |= token.text == ".extern"
            token = self.cursor.expect("dot", "a declaration")
        if token.text in (".entry", ".func"):
            self._function(token.text == ".entry")
        elif token.text in (".global", ".shared", ".const"):
            for variable in variables(self.cursor, token.text[1:], self.result.variables.get):
                self._declare(variable, token)
        else:
            self.cursor.fail(f"unknown directive `{token.text}`", token)

    def _declare(self, variable: Variable, token: Token) -> None:
        if variable.name in self.result.variables:
            self.cursor.fail(f"`{variable.name}` is declared twice", token)
        self.result.variables[variable.name] = variable

    def _function(self, is_entry: bool) -> None:
        cursor = self.cursor
        signature: dict[str, Variable | Register] = {}
        registers: list[Register] = []
        while cursor.accept_dot(".noreturn"):
            pass
        results = () if cursor.token.kind != "(" else self._signature(signature, registers)
        token = cursor.expect("word", "a name")
        parameters = () if cursor.token.kind != "(" else self._signature(signature, registers)
        function = Function(token.text, is_entry, parameters, results, token.offset)
        function.signature, function.registers = signature, registers
        self._attributes(function)
        known = self.result.functions.get(function.name)
        if known is not None and known.body is not None:
            if cursor.token.kind != ";":
                cursor.fail(f"`{function.name}` is defined twice", token)
        else:
            self.result.functions[function.name] = function
        if cursor.accept(";"):
            return
        Body(cursor, function, self.result, self.files).parse()

    def _attributes(self, function: Function) -> None:
        """The performance directives between a signature and a body."""
        cursor = self.cursor
        while cursor.token.kind == "dot":
            token = cursor.take()
            if token.text == ".pragma":
                self._pragma()
                continue
            if token.text not in (*_TRIPLES, *_NUMBERS, *_FLAGS):
                cursor.fail(f"unknown directive `{token.text}`", token)
            values = [] if token.text in _FLAGS else [cursor.integer()]
            while token.text in _TRIPLES and cursor.accept(","):
                values.append(cursor.integer())
            function.attributes[token.text[1:]] = tuple(values)

    def _signature(self, names: dict[str, Variable | Register], registers: list[Register]) -> tuple[Parameter, ...]:
        """A parenthesised list of parameters or results; fills in what their names stand for."""
        cursor = self.cursor
        cursor.expect("(")
        found: list[Parameter] = []
        while not cursor.accept(")"):
            if cursor.accept_dot(".reg"):
                type_name = declared_type(cursor)
                name = cursor.expect("word", "a name").text
                registers.append(Register(len(registers), name, TYPES[type_name].bits))
                names[name] = registers[-1]
                found.append(Parameter(name, type_name, 0, 1, 0))
            elif cursor.accept_dot(".param"):
                found.append(parameter(cursor))
                names[found[-1].name] = Variable(found[-1].name, "param", found[-1].align, found[-1].size)
            else:
                cursor.fail(f"expected `.param`, found {cursor.token.text!r}")
            if cursor.token.kind != ")":
                cursor.expect(",", "`,` or `)`")
        return laid_out(found)
