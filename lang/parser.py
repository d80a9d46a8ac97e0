"""Read modules from their text form, which `printer.py` prints.

    module     := 'module' [attributes] '{' function* '}'
    function   := ('kernel' | 'func') FUNCTION '(' [parameter (',' parameter)*] ')' ['->' '(' types ')']
                  [attributes] [location] '{' operation* '}'
    parameter  := VALUE ':' type [attributes]
    operation  := [VALUE (',' VALUE)* '='] NAME [VALUE (',' VALUE)*] [attributes] [':' types] [location]
                  ['{' region* '}']
    region     := REGION ['(' VALUE ':' type (',' VALUE ':' type)* ')'] ':' operation*
    attributes := '{' key '=' value (',' key '=' value)* '}'
    key        := NAME | STRING
    value      := 'true' | 'false' | INT | FLOAT | STRING | type | '(' [value (',' value)* [',']] ')'
    types      := type (',' type)*
    type       := SCALAR | 'ptr' '<' SCALAR '>' | 'tile<' (INT 'x')+ element [',' layout] '>'
    location   := 'loc' '(' place ('at' place)* ')'
    place      := STRING ':' INT ':' INT

VALUE is `%` and a number, an identifier or a string, the latter two with `.` and a number or without; FUNCTION is `@`
and a NAME (letters, digits, `_`, `.`, `$`) or a string; REGION is `^` and the region's name in the op's row. Strings
are JSON's, layouts are read by `layout_text.py`, `//` begins a comment. The first function is the kernel. White space
is free, except that the operands of an operation begin on the line of its name.

Every operation is made by the `Builder`, so its row has approved of its types and attributes. What no row sees
(terminators, region arguments, calls) is the verifier's to check.
"""

from __future__ import annotations

import json
import math
import re
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, TypeVar

from .errors.base import TilewrightError
from .ir import UNKNOWN_LOCATION, AttributeValue, Block, Builder, Function, Location, Module, Value
from .layout import LayoutError, LinearLayout
from .layout_text import scan_layout
from .opdef import OPS, OpDef
from .types import SCALARS_BY_NAME, FloatType, IntType, PointerType, ScalarType, TileType, Type

_Item = TypeVar("_Item")
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_NAME = r"[A-Za-z_][A-Za-z0-9_.$]*"
_TOKEN = re.compile(
    rf"""
      (?P<blank>\s+|//[^\n]*)
    | (?P<tile>tile<(?:\d+x)+)
    | (?P<float>-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)|-inf)
    | (?P<int>-?\d+)
    | (?P<string>{_STRING})
    | (?P<value>%(?:\d+|(?:[A-Za-z_][A-Za-z0-9_]*|{_STRING})(?:\.\d+)?))
    | (?P<function>@(?:{_NAME}|{_STRING}))
    | (?P<region>\^{_NAME})
    | (?P<name>{_NAME})
    | (?P<layout>\#linear<)
    | (?P<mark>->|[(){{}}<>:,=])
    """,
    re.VERBOSE | re.ASCII,
)
_DIGITS = 100  # characters of an integer or a shape; int() refuses thousands
_WORDS: dict[str, bool | float] = {"true": True, "false": False, "inf": math.inf, "nan": math.nan}


class ParseError(TilewrightError, ValueError):
    """Text that is no module: where it goes wrong (1-based), and what was found there in place of what."""

    def __init__(self, message: str, text: str, file: str, start: int, length: int = 1) -> None:
        before = text[:start]
        self.file = file
        self.line = before.count("\n") + 1
        self.column = start - (before.rfind("\n") + 1) + 1
        source = text.split("\n")[self.line - 1]
        indent = re.sub(r"[^\t]", " ", source[: self.column - 1])  # tabs stay, so that the caret stands where it should
        super().__init__(f"{file}:{self.line}:{self.column}: {message}\n{source}\n{indent}{'^' * max(length, 1)}")


def parse_module(text: str, file: str = "<text>") -> Module:
    """Read a module. Raises ParseError, in which `file` names the text."""
    parser = _Parser(text, file)
    try:
        return parser.module()
    except RecursionError:
        raise parser.error("nested too deeply to be read", parser.token) from None


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    leads: bool  # the first on its line
    layout: LinearLayout | None = None


def _tokens(text: str, file: str) -> list[_Token]:
    found: list[_Token] = []
    position, leads = 0, True
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            what = "a string without end" if text[position] == '"' else repr(text[position])
            raise ParseError(f"expected a token, found {what}", text, file, position)
        kind, start, layout = match.lastgroup or "", position, None
        position = match.end()
        if kind == "blank":
            leads = leads or "\n" in match[0]
            continue
        if kind == "layout":
            layout, position = _layout(text, file, start)
        found.append(_Token(kind, text[start:position], start, leads, layout))
        leads = False
    return [*found, _Token("end", "", len(text.rstrip()), True)]


def _layout(text: str, file: str, start: int) -> tuple[LinearLayout, int]:
    """The layout that begins at `start`, and where it ends. It is read from its line, so that columns are true."""
    begin, end = text.rfind("\n", 0, start) + 1, text.find("\n", start)
    line = text[begin : end if end >= 0 else len(text)]
    try:
        layout, column = scan_layout(line, start - begin)
    except LayoutError as error:
        raise ParseError(str(error), text, file, start) from error
    return layout, begin + column


class _Parser:
    """A cursor over the tokens, with one method for each rule of the grammar."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.tokens = _tokens(text, file)
        self.index = 0
        self.scope: ChainMap[str, Value] = ChainMap()

    # The cursor

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def at(self, text: str) -> bool:
        return self.token.kind in ("mark", "name") and self.token.text == text

    def skip(self, text: str) -> bool:
        """Step over this mark or word if it is there."""
        present = self.at(text)
        self.index += present
        return present

    def need(self, text: str) -> _Token:
        if not self.at(text):
            self.unexpected(repr(text))
        return self.step()

    def take(self, kind: str, expected: str) -> _Token:
        if self.token.kind != kind:
            self.unexpected(expected)
        return self.step()

    def step(self) -> _Token:
        self.index += 1
        return self.tokens[self.index - 1]

    def error(self, message: str, token: _Token) -> ParseError:
        return ParseError(message, self.text, self.file, token.start, len(token.text))

    def unexpected(self, expected: str, token: _Token | None = None) -> NoReturn:
        token = self.token if token is None else token
        found = repr(token.text) if token.text else "the end of the text"
        raise self.error(f"expected {expected}, found {found}", token)

    def separated(self, rule: Callable[[], _Item]) -> list[_Item]:
        found = [rule()]
        while self.skip(","):
            found.append(rule())
        return found

    # Modules, functions and operations

    def module(self) -> Module:
        self.need("module")
        module = Module(attributes=self.attributes())
        self.need("{")
        while not self.skip("}"):
            self.function(module)
        self.take("end", "the end of the text")
        return module

    def function(self, module: Module) -> None:
        self.need("func" if module.functions else "kernel")
        token = self.take("function", "the name of a function, such as @add")
        name = self.unquote(token, token.text[1:])
        if name in module.functions:
            self.unexpected("a new name", token)
        self.scope = ChainMap()
        body = Block()
        self.need("(")
        argument_attributes = [] if self.at(")") else self.separated(lambda: self.parameter(body))
        self.need(")")
        results = self.results() if self.skip("->") else ()
        attributes, location = self.attributes(), self.location()
        module.add(Function(name, body, results, attributes, argument_attributes, location))
        self.need("{")
        self.operations(body)
        self.need("}")

    def parameter(self, block: Block) -> dict[str, AttributeValue]:
        self.argument(block)
        return self.attributes()

    def argument(self, block: Block) -> None:
        token = self.take("value", "the name of an argument, such as %x")
        self.need(":")
        self.define(token, block.add_argument(self.type()))

    def results(self) -> tuple[Type, ...]:
        self.need("(")
        types = tuple(self.separated(self.type))
        self.need(")")
        return types

    def operations(self, block: Block) -> None:
        builder = Builder(block)
        while not self.at("}") and self.token.kind != "region":
            self.operation(builder)

    def operation(self, builder: Builder) -> None:
        names: list[_Token] = []
        if self.token.kind == "value":
            names = self.separated(lambda: self.take("value", "the name of a result, such as %x"))
            self.need("=")
        token = self.take("name", "an operation or '}'")
        row = OPS.get(token.text) or self.unexpected("the name of an op", token)
        operands = self.separated(self.operand) if self.token.kind == "value" and not self.token.leads else []
        attributes = self.attributes()
        types = tuple(self.separated(self.type)) if self.skip(":") else ()
        if len(names) != len(types):
            raise self.error(f"expected a result type for each of {len(names)} results, found {len(types)}", token)
        builder.location = self.location()
        regions = self.regions(row) if row.regions else ()
        try:
            operation = builder.create(row, operands, attributes, types, regions)
        except TypeError as error:  # OpTypeError, or what a tuple of the wrong things makes of a rule
            raise self.error(str(error), token) from error
        for name, value in zip(names, operation.results, strict=True):
            self.define(name, value)

    def regions(self, row: OpDef) -> Sequence[Block]:
        self.need("{")
        blocks = [self.region(name) for name in row.regions]
        self.need("}")
        return blocks

    def region(self, name: str) -> Block:
        token = self.take("region", f"the region '^{name}'")
        if token.text != f"^{name}":
            self.unexpected(f"the region '^{name}'", token)
        block = Block()
        self.scope = self.scope.new_child()
        if self.skip("("):
            self.separated(lambda: self.argument(block))
            self.need(")")
        self.need(":")
        self.operations(block)
        self.scope = self.scope.parents
        return block

    # Values

    def operand(self) -> Value:
        token = self.take("value", "an operand")
        return self.scope.get(token.text) or self.unexpected("a value defined above", token)

    def define(self, token: _Token, value: Value) -> None:
        """Let the name that the token writes stand for the value."""
        if token.text in self.scope:
            self.unexpected("a new name", token)
        self.scope[token.text] = value
        shown = re.sub(r"\.\d+$", "", token.text[1:])
        value.name = "" if shown.isdigit() else self.unquote(token, shown)

    def unquote(self, token: _Token, text: str) -> str:
        if not text.startswith('"'):
            return text
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise self.error(f"bad string: {error.msg}", token) from error

    # Attributes, types and locations

    def attributes(self) -> dict[str, AttributeValue]:
        """The attributes, if any: a `{` with a key and `=` after it, which no body and no region begins with."""
        ahead = self.tokens[self.index : self.index + 3]
        if [token.text for token in ahead[::2]] != ["{", "="] or ahead[1].kind not in ("name", "string"):
            return {}
        self.step()
        found: dict[str, AttributeValue] = {}
        self.separated(lambda: self.attribute(found))
        self.need("}")
        return found

    def attribute(self, found: dict[str, AttributeValue]) -> None:
        if self.token.kind not in ("name", "string"):
            self.unexpected("the name of an attribute")
        token = self.step()
        name = self.unquote(token, token.text)
        if name in found:
            self.unexpected("a new name", token)
        self.need("=")
        found[name] = self.attribute_value()

    def attribute_value(self) -> AttributeValue:
        token = self.token
        if token.text in _WORDS:
            return _WORDS[self.step().text]
        if token.text == "(":
            return self.tuple()
        if token.kind == "int":
            return self.integer(self.step())
        if token.kind == "float":
            return self.real(self.step())
        if token.kind == "string":
            return self.unquote(token, self.step().text)
        if token.kind not in ("name", "tile"):
            self.unexpected("the value of an attribute")
        return self.type()

    def integer(self, token: _Token) -> int:
        """The number that a token of digits means; more digits than any type holds are refused."""
        if len(token.text) > _DIGITS:
            raise self.error(f"an integer of {len(token.text)} characters fits no type", token)
        return int(token.text)

    def real(self, token: _Token) -> float:
        value = float(token.text)
        if math.isinf(value) and not token.text.endswith("inf"):
            raise self.error("a number beyond f64; infinity is written inf", token)
        return value

    def tuple(self) -> tuple[AttributeValue, ...]:
        self.need("(")
        found: list[AttributeValue] = []
        while not self.at(")"):
            found.append(self.attribute_value())
            if not self.skip(","):
                break
        self.need(")")
        return tuple(found)

    def type(self) -> Type:
        if self.token.kind != "tile":
            return self.scalar()
        if len(self.token.text) > _DIGITS:
            raise self.error("a tile with more elements than can be", self.token)
        shape = tuple(map(int, re.findall(r"\d+", self.step().text)))
        element = self.scalar()
        layout = self.take("layout", "a layout").layout if self.skip(",") else None
        self.need(">")
        return TileType(shape, element, layout)

    def scalar(self) -> ScalarType:
        if not self.skip("ptr"):
            return self.number_type()
        self.need("<")
        pointee = self.number_type()
        self.need(">")
        return PointerType(pointee)

    def number_type(self) -> IntType | FloatType:
        if self.token.text not in SCALARS_BY_NAME:
            self.unexpected("a type")
        return SCALARS_BY_NAME[self.step().text]

    def location(self) -> Location:
        if not self.skip("loc"):
            return UNKNOWN_LOCATION
        self.need("(")
        location = self.place()
        self.need(")")
        return location

    def place(self) -> Location:
        token = self.take("string", "the source of a location, a string")
        source = self.unquote(token, token.text)
        self.need(":")
        line = self.integer(self.take("int", "a line"))
        self.need(":")
        column = self.integer(self.take("int", "a column"))
        return Location(source, line, column, self.place() if self.skip("at") else None)
