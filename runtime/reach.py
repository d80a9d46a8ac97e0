"""What a function's code rests on beside its own text: the names that it reads from outside, and what they mean now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import sha256
from types import BuiltinFunctionType, CellType, ModuleType, NoneType
from typing import Any, cast

import numpy as np

from tilewright import lang
from tilewright.lang import Dependency, DeviceFunction, constexpr, dtype

from .encoding import encode, inside, tagged

#: What a name stands for that means nothing.
GONE = object()
#: Values that cannot change: as long as a name is bound to the same one, it means the same.
_SETTLED = (NoneType, bool, int, float, str, bytes, dtype, ModuleType, BuiltinFunctionType, np.bool_, np.number)


class Reach:
    """What a function was found to reach, and the quickest way to see whether that still holds.

    `names` are (namespace, name, value) and `cells` (closure cell, contents): the same object must be there. `boxes`
    are constexprs, whose value can be assigned. `loose` are values that can change inside, such as lists and functions
    that run at compile time: their canonical bytes are made anew and compared.
    """

    __slots__ = ("boxes", "cells", "digest", "loose", "names")

    def __init__(self, function: DeviceFunction) -> None:
        names: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
        self.cells: list[tuple[CellType, Any]] = []
        self.boxes: list[tuple[constexpr, Any]] = []
        self.loose: list[tuple[Callable[[], object], object]] = []
        parts = [_own(function)]
        if not self._is_settled(function):
            self.loose.append((lambda: _own(function), parts[0]))
        for read in lang.reads(function):
            self._watch(read, names)
            if read.is_own:
                parts.append(_read(read))
                if not self._is_settled(read.value):
                    self.loose.append((lambda read=read: _read(read), parts[-1]))
        self.names = list(names.values())
        self.digest = sha256(tagged("reach", *parts)).digest()

    def holds(self) -> bool:
        """Whether everything means what it meant."""
        for namespace, name, value in self.names:
            if namespace.get(name, GONE) is not value:
                return False
        for cell, value in self.cells:
            if contents(cell) is not value:
                return False
        for box, value in self.boxes:
            if box.value is not value:
                return False
        return all(now() == then for now, then in self.loose)

    def _watch(self, read: Dependency, names: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]]) -> None:
        """Note where each step of a (dotted) name leads; what no namespace holds is asked again each time."""
        function = read.function.function
        first, *rest = read.name.split(".")
        if first in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(first)]
            value = contents(cell)
            self.cells.append((cell, value))
        else:
            space = function.__globals__
            value = space.get(first, GONE)
            names[id(space), first] = space, first, value
        for name in rest:
            if not isinstance(value, ModuleType):
                return
            if name not in vars(value):
                self.loose.append((lambda: read.current() is read.value, True))
                return
            space = vars(value)
            value = space[name]
            names[id(space), name] = space, name, value

    def _is_settled(self, value: Any) -> bool:
        if isinstance(value, constexpr):
            self.boxes.append((value, value.value))
            return self._is_settled(value.value)
        if isinstance(value, DeviceFunction):
            return all(self._is_settled(p.default) for p in value.parameters if p.has_default)
        if isinstance(value, tuple):
            return all(map(self._is_settled, cast("tuple[Any, ...]", value)))
        if isinstance(value, Enum):
            return self._is_settled(value.value)
        return isinstance(value, _SETTLED)


def contents(cell: CellType) -> Any:
    """What a closure cell holds; GONE where the enclosing function has not assigned it yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return GONE


def reach_of(function: DeviceFunction) -> Reach:
    """The function's reach as it is now, kept with the function while it holds."""
    kept: Reach | None = vars(function).get("_reach")
    if kept is None or not kept.holds():
        kept = vars(function)["_reach"] = Reach(function)
    return kept


def function_digest(function: DeviceFunction) -> bytes:
    """A digest of the function's source, its lines, its defaults, and all that it can reach."""
    if inside.get():  # reached from a function that may be part of this: what is cut short must not be kept
        return Reach(function).digest
    return reach_of(function).digest


def _own(function: DeviceFunction) -> bytes:
    source = function.source
    defaults = {p.name: p.default for p in function.parameters if p.has_default}
    return tagged("source", function.qualified.encode(), source.text.encode(), encode(source.first), encode(defaults))


def _read(read: Dependency) -> bytes:
    value = read.value
    what = _own(value) if isinstance(value, DeviceFunction) else encode(value)
    return tagged("reads", read.function.qualified.encode(), read.name.encode(), what)


@encode.register(DeviceFunction)
def _(value: DeviceFunction) -> bytes:
    return tagged("device function", function_digest(value))
