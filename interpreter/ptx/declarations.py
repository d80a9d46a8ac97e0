"""Declarations: variables with their initial values, parameters, and registers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

import numpy as np

from .lexer import Cursor, Token
from .syntax import Parameter, Variable
from .types import TYPES

SPACES = ("global", "shared", "local", "const", "param")
"""The state spaces a variable may be declared in."""

Lookup = Callable[[str], Variable | None]

_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
_ELEMENTS = {f".{name}": row for name, row in TYPES.items()}


def declared_type(cursor: Cursor) -> str:
    """The type of a declaration, without its dot."""
    token = cursor.expect("dot", "a type")
    if token.text not in _ELEMENTS:
        cursor.fail(f"unknown type `{token.text}`", token)
    return token.text[1:]


def element_bytes(type_name: str) -> int:
    """The size in memory of one element of a type."""
    return max(1, TYPES[type_name].bits // 8)


_MOST_BYTES = 1 << 32
"""Of a variable or parameter."""


class _Shape:
    """What stands between a space and a name: alignment, vector width and type, in any order before the type."""

    def __init__(self, cursor: Cursor) -> None:
        self.align, self.count = 0, 1
        while cursor.token.text in (".align", *_VECTORS, ".attribute"):
            word = cursor.take().text
            if word == ".align":
                self.align = cursor.integer("an alignment")
            elif word == ".attribute":
                cursor.expect("(")
                while not cursor.accept(")"):
                    cursor.take()
            else:
                self.count = _VECTORS[word]
        self.type = declared_type(cursor)
        self.unit = element_bytes(self.type)
        self.align = self.align or self.unit * self.count


def variables(cursor: Cursor, space: str, lookup: Lookup) -> Iterator[Variable]:
    """The variables of one declaration, from after its space to its semicolon."""
    shape = _Shape(cursor)
    while True:
        yield _variable(cursor, space, shape, lookup)
        if not cursor.accept(","):
            break
    cursor.expect(";")


def _variable(cursor: Cursor, space: str, shape: _Shape, lookup: Lookup) -> Variable:
    name = cursor.expect("word", "a name").text
    extents = list(_extents(cursor))
    size = _size(cursor, name, shape.unit * shape.count * prod(extents))
    variable = Variable(name, space, shape.align, size)
    equals = cursor.accept("=")
    if equals is not None:
        if space not in ("global", "const"):
            cursor.fail(f"a .{space} variable cannot have an initial value", equals)
        _initialize(cursor, variable, shape, lookup, open_ended=0 in extents)
    return variable


def _size(cursor: Cursor, name: str, size: int) -> int:
    if not 0 <= size <= _MOST_BYTES:
        cursor.fail(f"`{name}` has 0 to {_MOST_BYTES} bytes, found {size}")
    return size


def _extents(cursor: Cursor) -> Iterator[int]:
    """The sizes in brackets after a name; 0 for empty ones."""
    while cursor.accept("["):
        yield 0 if cursor.token.kind == "]" else cursor.integer("an array size")
        cursor.expect("]")


def _initialize(cursor: Cursor, variable: Variable, shape: _Shape, lookup: Lookup, open_ended: bool) -> None:
    data = bytearray()
    pointers: list[tuple[int, Variable, int, bool]] = []
    for token in _initial_tokens(cursor):
        data += _initial_bytes(cursor, token, len(data), shape, pointers, lookup)
    if open_ended:
        variable.size = len(data)
    if len(data) > variable.size:
        cursor.fail(f"{len(data)} bytes of initial values for the {variable.size} of {variable.name}")
    variable.initial, variable.pointers = bytes(data), tuple(pointers)


def _initial_tokens(cursor: Cursor) -> Iterator[Token]:
    """The places where initial values begin; nested braces only group them."""
    if not cursor.accept("{"):
        yield cursor.token
        return
    while not cursor.accept("}"):
        yield from _initial_tokens(cursor)
        if cursor.token.kind != "}":
            cursor.expect(",", "`,` or `}`")


def _initial_bytes(
    cursor: Cursor,
    token: Token,
    at: int,
    shape: _Shape,
    pointers: list[tuple[int, Variable, int, bool]],
    lookup: Lookup,
) -> bytes:
    """Take one initial value."""
    if token.kind == "word":
        pointers.append((at, *_address(cursor, lookup)))
        return bytes(shape.unit)
    if token.kind == "float" or cursor.following().kind == "float":
        if shape.unit > 8:
            cursor.fail(f"an integer of {8 * shape.unit} bits cannot begin as a float")
        negative = cursor.accept("-") is not None
        value = float_bits(cursor.take().text, TYPES[shape.type].bits)
        sign = 1 << (8 * shape.unit - 1)
        return (value ^ sign if negative else value).to_bytes(shape.unit, "little")
    value = cursor.integer("an initial value")
    if TYPES[shape.type].kind == "f":
        return float_bits(repr(float(value)), TYPES[shape.type].bits).to_bytes(shape.unit, "little")
    return (value & ((1 << (8 * shape.unit)) - 1)).to_bytes(shape.unit, "little")


def _address(cursor: Cursor, lookup: Lookup) -> tuple[Variable, int, bool]:
    """An initial value that is an address: `name`, `name+4` or `generic(name)+4`."""
    token = cursor.take()
    generic = token.text == "generic" and cursor.accept("(") is not None
    name = cursor.expect("word", "a variable") if generic else token
    if generic:
        cursor.expect(")")
    target = lookup(name.text)
    if target is None:
        cursor.fail(f"unknown variable `{name.text}`", name)
    return target, cursor.integer() if cursor.token.kind in "+-" else 0, generic


def float_bits(text: str, width: int) -> int:
    """The bits of a float literal in a float of 16, 32 or 64 bits. `0f` and `0d` literals convert where needed."""
    prefix = text[:2].lower()
    if prefix == "0f":
        value = struct.unpack("<f", int(text[2:], 16).to_bytes(4, "little"))[0]
        own = 32
    elif prefix == "0d":
        value = struct.unpack("<d", int(text[2:], 16).to_bytes(8, "little"))[0]
        own = 64
    else:
        value, own = float(text), 0
    if own == width:
        return int(text[2:], 16)
    with np.errstate(over="ignore"):
        return int(np.array([value]).astype(f"f{width // 8}").view(f"u{width // 8}")[0])


def parameter(cursor: Cursor) -> Parameter:
    """One `.param` of a signature, from after the word `.param`. Its offset is not known yet."""
    shape = _Shape(cursor)
    align = shape.align
    pointer = cursor.accept_dot(".ptr") is not None
    if pointer:
        cursor.accept_dot(*(f".{space}" for space in SPACES))
        if cursor.accept_dot(".align"):
            cursor.integer("an alignment")
    name = cursor.expect("word", "a parameter name").text
    extents = list(_extents(cursor))
    size = _size(cursor, name, shape.unit * shape.count * prod(extents))
    type_name = shape.type if not extents and shape.count == 1 else f"{shape.type}[{prod(extents) * shape.count}]"
    return Parameter(name, type_name, size, align, 0, pointer)


def laid_out(parameters: list[Parameter]) -> tuple[Parameter, ...]:
    """The parameters with their offsets, each at the next multiple of its alignment."""
    placed: list[Parameter] = []
    end = 0
    for entry in parameters:
        start = -(-end // entry.align) * entry.align
        placed.append(replace(entry, offset=start))
        end = start + entry.size
    return tuple(placed)
