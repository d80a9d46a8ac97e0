"""What a kernel may read from outside: the rule for globals and closures, and what a function depends on."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from .. import language
from ..constants import unwrap
from ..errors.base import CompilationError
from ..errors.syntax import (
    CompileTimeFailure,
    NotInThisVersion,
    UnavailableBuiltin,
    UnknownAttribute,
    UnknownName,
)
from ..values import MEMBERS, describe, tensor
from .absent import AT_COMPILE_TIME, BUILTIN_ADVICE, TRITON_ADVICE
from .admission import PYTHON_BUILTINS, admit, is_ours, suggestion
from .function import DeviceFunction, is_constexpr_annotation

_NOTHING = object()
#: What only a runtime value has.
_OF_TENSORS = frozenset(name for name in dir(tensor) if not name.startswith("_"))


def captured(function: DeviceFunction, name: str, local: Iterable[str]) -> Any:
    """The value of a name that is not local: from the closure, the globals or Python's builtins.

    Raises UnknownName, UnavailableBuiltin, NonConstexprGlobal or PlainPythonFunction.
    """
    value = _outside(function, name)
    if value is _NOTHING:
        if name in PYTHON_BUILTINS:
            return getattr(builtins, name)
        if hasattr(builtins, name):
            raise UnavailableBuiltin(name=name, advice=BUILTIN_ADVICE.get(name, AT_COMPILE_TIME))
        close = suggestion(name, {*local, *function.function.__globals__, *PYTHON_BUILTINS})
        raise UnknownName(name=name, suggestion=close or "define it before, import it, or pass it as a parameter")
    annotations = function.function.__globals__.get("__annotations__", {})
    if is_constexpr_annotation(annotations.get(name)) and name not in function.function.__code__.co_freevars:
        return unwrap(value)
    return admit(name, value)


def _outside(function: DeviceFunction, name: str) -> Any:
    code = function.function.__code__
    if name in code.co_freevars:
        cell = (function.function.__closure__ or ())[code.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # the enclosing function has not assigned it yet
            return _NOTHING
    return function.function.__globals__.get(name, _NOTHING)


def attribute(owner: Any, name: str) -> Any:
    """`owner.name`. What a module holds obeys the rule for globals.

    Raises UnknownAttribute, NotInThisVersion, CompileTimeFailure (of a property) and what `admit` does.
    """
    try:
        value = getattr(owner, name)
    except AttributeError:
        raise _no_attribute(owner, name) from None
    except CompilationError:
        raise
    except Exception as error:
        what = f"`{name}` of {_owner(owner)}"
        raise CompileTimeFailure(what=what, kind=type(error).__name__, detail=error) from error
    if isinstance(owner, ModuleType) and owner is not math:
        return admit(name, value, "in a module of yours")
    return unwrap(value)


def _no_attribute(owner: Any, name: str) -> CompilationError:
    if name in TRITON_ADVICE and (isinstance(owner, tensor) or owner in (language, language.math)):
        return NotInThisVersion(owner=_owner(owner), name=name, advice=TRITON_ADVICE[name])
    hint = suggestion(name, dir(owner))
    if name in _OF_TENSORS or name in MEMBERS:
        hint = _how_to_get_a_tensor(owner) or hint
    return UnknownAttribute(owner=_owner(owner), attribute=name, suggestion=hint)


def _how_to_get_a_tensor(value: Any) -> str:
    if value is None:
        return "the argument may be left out: test `x is None` first"
    if isinstance(value, bool | int | float):
        return (
            "make it a runtime value by `tl.to_tensor(...)`; an int argument of 1 is a constexpr unless its parameter "
            "is annotated, as in `n: tl.int32`, or named in `do_not_specialize`"
        )
    return ""


def _owner(value: Any) -> str:
    if not isinstance(value, ModuleType):
        return describe(value)
    return f"the module {value.__name__.replace(language.__name__, 'tilewright.language')}"


# --- what a function depends on ---


@dataclass(frozen=True, slots=True)
class Dependency:
    """A value from outside that a function names: `name` is as written there (`N`, `config.N`)."""

    function: DeviceFunction
    name: str
    value: Any

    def current(self) -> Any:
        """The value that the name has now; a private marker where it is gone."""
        return _resolve(self.function, self.name.split("."))

    @property
    def is_own(self) -> bool:
        """Whether the name means anything, and anything that does not change with the version only, as `tl.load`."""
        ours = "." in self.name and isinstance(self.value, FunctionType | type | DeviceFunction) and is_ours(self.value)
        return self.value is not _NOTHING and not isinstance(self.value, ModuleType) and not ours


def dependencies(function: DeviceFunction) -> tuple[Dependency, ...]:
    """Every device function and every other value from outside that `function` can reach, in a fixed order.

    Found from the source alone: what a pruned branch names counts too. Modules, and functions that are named through
    them and belong to the language (`tl.load`), are left out.
    """
    return tuple(dependency for dependency in reads(function) if dependency.is_own)


def reads(function: DeviceFunction) -> tuple[Dependency, ...]:
    """Every name from outside that `function` and the device functions that it can reach read, in a fixed order.

    While all of them mean what they meant (`current() is value`), so does `dependencies`. What means nothing now is
    listed, for it may mean something later.
    """
    found: list[Dependency] = []
    seen = {function}
    queue = [function]
    while queue:
        inner = queue.pop(0)
        for dependency in _direct(inner):
            found.append(dependency)
            value = dependency.value
            if isinstance(value, DeviceFunction) and dependency.is_own and value not in seen:
                seen.add(value)
                queue.append(value)
    return tuple(found)


def _direct(function: DeviceFunction) -> Iterator[Dependency]:
    tree = function.source.tree
    names = sorted({".".join(path) for path in _paths(tree.body) if path[0] not in function.local_names})
    for name in names:
        yield Dependency(function, name, _resolve(function, name.split(".")))


def _paths(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ...]]:
    """The names and dotted names that the code reads, each as long as it goes."""
    stack = list(nodes)  # not recursive: sources may nest deeper than Python's own stack
    while stack:
        node = stack.pop()
        path = _path(node)
        if path:
            yield path
        else:
            stack.extend(ast.iter_child_nodes(node))


def _path(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        inner = _path(node.value)
        return (*inner, node.attr) if inner else ()
    return ()


def _resolve(function: DeviceFunction, path: list[str]) -> Any:
    """The value at the longest part of the path that leads through modules."""
    value = _outside(function, path[0])
    for name in path[1:]:
        if not isinstance(value, ModuleType):
            break
        value = getattr(value, name, _NOTHING)
    return value


def used_globals(function: DeviceFunction) -> Mapping[str, Any]:
    """The values from outside that `function` and what it calls read, device functions aside, by `function:name`."""
    return {
        f"{d.function.qualified}:{d.name}": unwrap(d.value)
        for d in dependencies(function)
        if not isinstance(d.value, DeviceFunction)
    }
