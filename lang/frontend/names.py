"""What a kernel may read from outside: the rule for globals and closures, and what a function depends on."""

from __future__ import annotations

import ast
import builtins
import enum
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, cast

from ..constants import constexpr, unwrap
from ..dtypes import dtype
from ..errors.syntax import NonConstexprGlobal, PlainPythonFunction, UnknownAttribute, UnknownName
from ..values import describe
from .function import ConstexprFunction, DeviceFunction, is_constexpr_annotation
from .scopes import assigned_names

_LANG = __name__.rsplit(".", 2)[0]
_NOTHING = object()
#: Python's own functions that kernels may use; `builtins.py` says what they mean there.
PYTHON_BUILTINS = frozenset(
    "abs bool float getattr hasattr int isinstance len list max min print range str tuple".split()
)


def captured(function: DeviceFunction, name: str, local: Iterable[str]) -> Any:
    """The value of a name that is not local: from the closure, the globals or Python's builtins.

    Raises UnknownName, NonConstexprGlobal or PlainPythonFunction.
    """
    value = _outside(function, name)
    if value is _NOTHING:
        if name in PYTHON_BUILTINS:
            return getattr(builtins, name)
        known = {*local, *function.function.__globals__, *PYTHON_BUILTINS}
        raise UnknownName(name=name, suggestion=suggestion(name, known) or _about_builtin(name))
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


def _about_builtin(name: str) -> str:
    if hasattr(builtins, name):
        return f"of Python's builtins, kernels have {', '.join(sorted(PYTHON_BUILTINS))}"
    return "define it before, import it, or pass it as a parameter"


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean ...?`, or nothing."""
    close = get_close_matches(name, sorted(k for k in known if not k.startswith("_")), n=1)
    return f"did you mean `{close[0]}`?" if close else ""


def admit(name: str, value: Any) -> Any:
    """A value from outside of the kernel, unwrapped, if it cannot change between launches.

    Raises NonConstexprGlobal or PlainPythonFunction.
    """
    if isinstance(value, constexpr):
        return value.value
    if _is_fixed(value):
        return value
    if isinstance(value, FunctionType):
        raise PlainPythonFunction(name=name)
    raise NonConstexprGlobal(name=name, found=_describe(value))


def _describe(value: Any) -> str:
    if isinstance(value, bool | int | float | str):
        return f"the Python value {value!r}"
    return describe(value)


def _is_fixed(value: Any) -> bool:
    kinds = (dtype, ModuleType, DeviceFunction, ConstexprFunction, enum.Enum, BuiltinFunctionType)
    if value is None or isinstance(value, kinds):
        return True
    if isinstance(value, type):
        kind = cast("type[Any]", value)
        named_tuple = issubclass(kind, tuple) and hasattr(cast("type[Any]", kind), "_fields")
        return named_tuple or issubclass(kind, enum.Enum) or is_ours(kind) or kind.__module__ == "builtins"
    return isinstance(value, FunctionType) and is_ours(value)


def is_ours(value: Any) -> bool:
    """Whether a function or class belongs to the language itself."""
    return str(getattr(value, "__module__", "")).startswith(f"{_LANG}.")


def attribute(owner: Any, name: str) -> Any:
    """`owner.name`. What a module holds obeys the rule for globals. Raises UnknownAttribute and what `admit` does."""
    try:
        value = getattr(owner, name)
    except AttributeError:
        raise UnknownAttribute(owner=_owner(owner), attribute=name, suggestion=suggestion(name, dir(owner))) from None
    if isinstance(owner, ModuleType) and owner is not math:
        return admit(name, value)
    return unwrap(value)


def _owner(value: Any) -> str:
    if not isinstance(value, ModuleType):
        return describe(value)
    return f"the module {value.__name__.replace(f'{_LANG}.language', 'tilewright.language')}"


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


def dependencies(function: DeviceFunction) -> tuple[Dependency, ...]:
    """Every device function and every other value from outside that `function` can reach, in a fixed order.

    Found from the source alone: what a pruned branch names counts too. Modules, and functions that are named through
    them and belong to the language (`tl.load`), are left out.
    """
    found: list[Dependency] = []
    seen = {function}
    queue = [function]
    while queue:
        inner = queue.pop(0)
        for dependency in _direct(inner):
            found.append(dependency)
            if isinstance(dependency.value, DeviceFunction) and dependency.value not in seen:
                seen.add(dependency.value)
                queue.append(dependency.value)
    return tuple(found)


def _direct(function: DeviceFunction) -> Iterator[Dependency]:
    tree = function.source.tree
    local = {*assigned_names(tree.body), *(p.name for p in function.parameters)}
    names = sorted({".".join(path) for path in _paths(tree.body) if path[0] not in local})
    for name in names:
        value = _resolve(function, name.split("."))
        if value is not _NOTHING and not isinstance(value, ModuleType) and not _is_ours_in(value, name):
            yield Dependency(function, name, value)


def _is_ours_in(value: Any, name: str) -> bool:
    """Whether this is `tl.something`, which changes with the version only."""
    return "." in name and isinstance(value, FunctionType | type | DeviceFunction) and is_ours(value)


def _paths(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ...]]:
    """The names and dotted names that the code reads, each as long as it goes."""
    for node in nodes:
        path = _path(node)
        if path:
            yield path
        else:
            yield from _paths(ast.iter_child_nodes(node))


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
