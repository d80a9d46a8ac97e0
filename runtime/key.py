"""The key of a compiled kernel: a digest of every assumption that its code rests on, and of nothing else.

What goes in: the source and line numbers of the kernel and of each device function it can reach, the values of the
globals that they capture, their default arguments; the type of each runtime parameter and its promises; each constant
by type and bits; the target and the options; the versions of the toolchain; the knobs that change code; a digest of
the sources of the rooms that make code. What stays out: paths, hash seeds, the order of dictionaries, addresses.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, singledispatch
from hashlib import sha256
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from tilewright import lang
from tilewright.lang import ConstexprFunction, DeviceFunction, constexpr, dtype, knobs, type_text

from ._lazy import package_version
from .errors import ArgumentError
from .options import CompileOptions
from .specialization import Specialization

#: The rooms whose sources decide what code a kernel becomes.
CODE_ROOMS = ("lang", "compiler")
#: The packages that make PTX and cubins.
TOOLCHAIN = ("llvmlite", "nvidia-nvjitlink")


class Unencodable(ArgumentError):
    """A compile-time value of a kind that has no canonical form, so that no key can hold it."""


def _tagged(tag: str, *parts: bytes) -> bytes:
    """A frame that no other sequence of parts can produce: the tag, then each part behind its length."""
    return b"".join((tag.encode(), b"(", *(struct.pack("<Q", len(part)) + part for part in parts), b")"))


@singledispatch
def encode(value: Any) -> bytes:
    """The canonical bytes of a compile-time value: equal for equal type and bits, on every machine.

    Raises Unencodable for values without a canonical form.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = [encode((field.name, getattr(value, field.name))) for field in fields(value)]
        return _tagged("data", _name(type(value)), *parts)
    raise Unencodable(
        f"a {type(value).__name__} can't be a compile-time value of a kernel: {value!r}",
        "use numbers, strings, None, tuples, dtypes, enum members, frozen dataclasses or device functions",
    )


def _name(thing: Any) -> bytes:
    return f"{thing.__module__}.{thing.__qualname__}".encode()


@encode.register
def _(value: None) -> bytes:
    return b"None"


@encode.register
def _(value: bool) -> bytes:
    return _tagged("bool", b"\x01" if value else b"\x00")


@encode.register
def _(value: int) -> bytes:
    return _tagged("int", str(value).encode())


@encode.register
def _(value: float) -> bytes:
    return _tagged("float", struct.pack("<d", value))


@encode.register
def _(value: str) -> bytes:
    return _tagged("str", value.encode("utf-8", "surrogatepass"))


@encode.register
def _(value: bytes) -> bytes:
    return _tagged("bytes", value)


@encode.register(tuple)
def _(value: tuple[Any, ...]) -> bytes:
    kind = b"" if type(value) is tuple else _name(type(value))
    names = b",".join(field.encode() for field in getattr(value, "_fields", ()))
    return _tagged("tuple", kind, names, *(encode(part) for part in value))


@encode.register(list)
def _(value: list[Any]) -> bytes:
    return _tagged("list", *(encode(part) for part in value))


@encode.register(dict)
def _(value: Mapping[Any, Any]) -> bytes:
    return _tagged("dict", *sorted(_tagged("item", encode(k), encode(v)) for k, v in value.items()))


@encode.register(frozenset)
@encode.register(set)
def _(value: frozenset[Any]) -> bytes:
    return _tagged("set", *sorted(encode(part) for part in value))


@encode.register
def _(value: np.generic) -> bytes:
    return _tagged("numpy", str(value.dtype).encode(), value.tobytes())


@encode.register
def _(value: Enum) -> bytes:
    return _tagged("enum", _name(type(value)), value.name.encode(), _or_opaque(value.value))


@encode.register
def _(value: constexpr) -> bytes:
    return encode(value.value)


@encode.register
def _(value: dtype) -> bytes:
    return _tagged("dtype", str(value).encode())


@encode.register
def _(value: DeviceFunction) -> bytes:
    return _tagged("device function", function_digest(value))


@encode.register
def _(value: ConstexprFunction) -> bytes:  # type: ignore[type-arg]
    return encode(value.function)


@encode.register
def _(value: ModuleType) -> bytes:
    return _tagged("module", value.__name__.encode())


@encode.register(type)
def _(value: type[Any]) -> bytes:
    """A class by its name, with what kernels read of it: the members of an enum, the defaults of a named tuple."""
    facts: dict[str, Any] = getattr(value, "_field_defaults", {})
    if issubclass(value, Enum):
        facts = {name: member.value for name, member in value.__members__.items()}
    fields_of: tuple[str, ...] = getattr(value, "_fields", ())
    parts = [_tagged(name, _or_opaque(fact)) for name, fact in sorted(facts.items())]
    return _tagged("type", _name(value), ",".join(fields_of).encode(), *parts)


def _or_opaque(value: Any) -> bytes:
    """The canonical bytes; of a value that has none its type, which is all that can be said of it."""
    try:
        return encode(value)
    except Unencodable:
        return _tagged("opaque", _name(type(value)))


@encode.register
def _(value: BuiltinFunctionType) -> bytes:
    return _tagged("builtin", _name(value))


#: The Python functions that are being encoded, so that those which call each other come to an end.
_inside: ContextVar[frozenset[FunctionType]] = ContextVar("tilewright_encoding", default=frozenset())


@encode.register
def _(value: FunctionType) -> bytes:
    """A Python function that runs at compile time: its text, its defaults, and what it reads from outside.

    That is its closure and the globals it names, helper functions and what these read included.
    """
    active = _inside.get()
    if value in active:
        return _tagged("recursion", _name(value))
    token = _inside.set(active | {value})
    try:
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        names = sorted(set(_names(value.__code__)) & value.__globals__.keys())
        outside = [_tagged(name, _or_opaque(value.__globals__[name])) for name in names]
        defaults = [_or_opaque(value.__defaults__ or ()), _or_opaque(value.__kwdefaults__ or {})]
        return _tagged("python", _name(value), _text(value.__code__), *defaults, *map(_or_opaque, cells), *outside)
    finally:
        _inside.reset(token)


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


@cache
def _text(code: CodeType) -> bytes:
    """The source of a code object; its byte code where that cannot be read."""
    try:
        return inspect.getsource(code).encode()
    except (OSError, TypeError):
        return code.co_code


#: For each function, what it was found to depend on. What these are worth is asked anew at every launch.
_reaches: WeakKeyDictionary[DeviceFunction, tuple[lang.Dependency, ...]] = WeakKeyDictionary()


def function_digest(function: DeviceFunction) -> bytes:
    """A digest of the function's source, its lines, its defaults, and all that it can reach."""
    reached = _reaches.get(function)
    if reached is None or any(dependency.current() is not dependency.value for dependency in reached):
        reached = _reaches[function] = lang.dependencies(function)
    parts = [_own(function), *(_reached(dependency) for dependency in reached)]
    return sha256(_tagged("reach", *parts)).digest()


def _own(function: DeviceFunction) -> bytes:
    source = function.source
    defaults = {p.name: p.default for p in function.parameters if p.has_default}
    return _tagged("source", function.qualified.encode(), source.text.encode(), encode(source.first), encode(defaults))


def _reached(dependency: lang.Dependency) -> bytes:
    value = dependency.value
    what = _own(value) if isinstance(value, DeviceFunction) else encode(value)
    return _tagged("reads", dependency.function.qualified.encode(), dependency.name.encode(), what)


@cache
def room_digest(rooms: tuple[str, ...] = CODE_ROOMS) -> bytes:
    """A digest of the Python sources of the rooms, by path inside the room."""
    root = Path(__file__).resolve().parent.parent
    digest = sha256()
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            digest.update(_tagged("file", path.relative_to(root).as_posix().encode(), path.read_bytes()))
    return digest.digest()


@cache
def toolchain_versions(packages: tuple[str, ...] = TOOLCHAIN) -> tuple[tuple[str, str], ...]:
    """The installed version of each package, "" where it is missing."""
    return tuple((package, package_version(package)) for package in packages)


def key_ingredients(
    function: DeviceFunction, specialization: Specialization, options: CompileOptions, target: str
) -> dict[str, Callable[[], Any]]:
    """Each ingredient of the key by name, computed when called."""
    return {
        "function": lambda: function,
        "signature": lambda: {n: _types(t) for n, t in specialization.signature.items()},
        "constants": lambda: dict(specialization.constants),
        "attributes": lambda: specialization.attributes,
        "options": lambda: options,
        "target": lambda: target,
        "knobs": lambda: knobs.code_changing(),
        "toolchain": lambda: toolchain_versions(),
        "rooms": lambda: room_digest(),
    }


def _types(type_: Any) -> Any:
    if isinstance(type_, tuple):
        return tuple(map(_types, cast("tuple[Any, ...]", type_)))
    return ("constant", type_.value) if isinstance(type_, constexpr) else type_text(type_)


def kernel_key(function: DeviceFunction, specialization: Specialization, options: CompileOptions, target: str) -> str:
    """The key, in hexadecimal. Raises Unencodable when a compile-time value has no canonical form."""
    ingredients = key_ingredients(function, specialization, options, target)
    return sha256(encode({name: get() for name, get in ingredients.items()})).hexdigest()
