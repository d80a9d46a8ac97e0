"""The canonical bytes of compile-time values: equal for equal type and bits, on every machine and in every process."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, singledispatch
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tilewright.lang import ConstexprFunction, constexpr, dtype, shown

from .errors import ArgumentError


class Unencodable(ArgumentError):
    """A compile-time value of a kind that has no canonical form, so that no key can hold it."""


def tagged(tag: str, *parts: bytes) -> bytes:
    """A frame that no other sequence of parts can produce: the tag, then each part behind its length."""
    return b"".join((tag.encode(), b"(", *(struct.pack("<Q", len(part)) + part for part in parts), b")"))


@singledispatch
def encode(value: Any) -> bytes:
    """The canonical bytes of a compile-time value: equal for equal type and bits, on every machine.

    Raises Unencodable for values without a canonical form.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = [encode((field.name, getattr(value, field.name))) for field in fields(value)]
        return tagged("data", _name(type(value)), *parts)
    raise Unencodable(
        f"a {type(value).__name__} can't be a compile-time value of a kernel: {shown(value)!r}",
        "use numbers, strings, None, tuples, dtypes, enum members, frozen dataclasses or device functions",
    )


def _name(thing: Any) -> bytes:
    return f"{thing.__module__}.{thing.__qualname__}".encode()


@encode.register(type(None))
def _(value: None) -> bytes:
    return b"None"


@encode.register(bool)
def _(value: bool) -> bytes:
    return tagged("bool", b"\x01" if value else b"\x00")


@encode.register(int)
def _(value: int) -> bytes:
    return tagged("int", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


@encode.register(float)
def _(value: float) -> bytes:
    return tagged("float", struct.pack("<d", value))


@encode.register(str)
def _(value: str) -> bytes:
    return tagged("str", value.encode("utf-8", "surrogatepass"))


@encode.register(bytes)
def _(value: bytes) -> bytes:
    return tagged("bytes", value)


@encode.register(tuple)
def _(value: tuple[Any, ...]) -> bytes:
    kind = b"" if type(value) is tuple else _name(type(value))
    names = b",".join(field.encode() for field in getattr(value, "_fields", ()))
    return tagged("tuple", kind, names, *(encode(part) for part in value))


@encode.register(list)
def _(value: list[Any]) -> bytes:
    return tagged("list", *(encode(part) for part in value))


@encode.register(dict)
def _(value: Mapping[Any, Any]) -> bytes:
    return tagged("dict", *sorted(tagged("item", encode(k), encode(v)) for k, v in value.items()))


@encode.register(frozenset)
@encode.register(set)
def _(value: frozenset[Any]) -> bytes:
    return tagged("set", *sorted(encode(part) for part in value))


@encode.register(np.generic)
def _(value: np.generic) -> bytes:
    return tagged("numpy", str(value.dtype).encode(), value.tobytes())


@encode.register(Enum)
def _(value: Enum) -> bytes:
    return tagged("enum", _name(type(value)), value.name.encode(), _or_opaque(value.value))


@encode.register(constexpr)
def _(value: constexpr) -> bytes:
    return encode(value.value)


@encode.register(dtype)
def _(value: dtype) -> bytes:
    return tagged("dtype", str(value).encode())


@encode.register(ConstexprFunction)
def _(value: ConstexprFunction[..., Any]) -> bytes:
    return encode(value.function)


@encode.register(ModuleType)
def _(value: ModuleType) -> bytes:
    return tagged("module", value.__name__.encode())


@encode.register(type)
def _(value: type[Any]) -> bytes:
    """A class by its name, with what kernels read of it: the members of an enum, the defaults of a named tuple."""
    facts: dict[str, Any] = getattr(value, "_field_defaults", {})
    if issubclass(value, Enum):
        facts = {name: member.value for name, member in value.__members__.items()}
    fields_of: tuple[str, ...] = getattr(value, "_fields", ())
    parts = [tagged(name, _or_opaque(fact)) for name, fact in sorted(facts.items())]
    return tagged("type", _name(value), ",".join(fields_of).encode(), *parts)


def _or_opaque(value: Any) -> bytes:
    """The canonical bytes; of a value that has none its type, which is all that can be said of it."""
    try:
        return encode(value)
    except Unencodable:
        return tagged("opaque", _name(type(value)))


@encode.register(BuiltinFunctionType)
def _(value: BuiltinFunctionType) -> bytes:
    return tagged("builtin", _name(value))


#: The Python functions that are being encoded, so that those which call each other come to an end.
inside: ContextVar[frozenset[FunctionType]] = ContextVar("tilewright_encoding", default=frozenset())


@encode.register(FunctionType)
def _(value: FunctionType) -> bytes:
    """A Python function that runs at compile time: its text, its defaults, and what it reads from outside.

    That is its closure and the globals it names, helper functions and what these read included.
    """
    active = inside.get()
    if value in active:
        return tagged("recursion", _name(value))
    token = inside.set(active | {value})
    try:
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        names = sorted(set(_names(value.__code__)) & value.__globals__.keys())
        outside = [tagged(name, _or_opaque(value.__globals__[name])) for name in names]
        defaults = [_or_opaque(value.__defaults__ or ()), _or_opaque(value.__kwdefaults__ or {})]
        return tagged("python", _name(value), _text(value.__code__), *defaults, *map(_or_opaque, cells), *outside)
    finally:
        inside.reset(token)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # the enclosing function has not assigned it yet
        return False
    return True


def _names(code: CodeType) -> Iterator[str]:
    """The global names that a code object and those inside of it read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@lru_cache(maxsize=512)
def _text(code: CodeType) -> bytes:
    """The source of a code object; its byte code where that cannot be read."""
    try:
        return inspect.getsource(code).encode()
    except (OSError, TypeError):
        return code.co_code
