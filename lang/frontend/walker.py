"""The walk over one function's AST: where the walk stands, what names mean, and how mistakes get their place.

What each kind of node means is in the tables `EXPRESSIONS` and `STATEMENTS`, filled by the modules beside this one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from collections.abc import Generator as Iteration
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ..constants import unwrap
from ..context import Generator
from ..errors.base import CompilationError
from ..errors.syntax import ConstexprReassigned, NotDefined, UnsupportedConstruct
from ..ir import Block, Builder, Location
from ..semantic import to_tensor
from ..values import flatten, parts_of, tensor
from .admission import is_ours
from .function import DeviceFunction
from .names import captured
from .scopes import Binding, Exits, Missing, Scope

Handler: TypeAlias = Callable[["Walker", Any], Any]

EXPRESSIONS: dict[type[ast.AST], Handler] = {}
STATEMENTS: dict[type[ast.AST], Handler] = {}


def expression(*kinds: type[ast.expr]) -> Callable[[Handler], Handler]:
    """Register what expressions of these kinds evaluate to."""
    return _register(EXPRESSIONS, kinds)


def statement(*kinds: type[ast.stmt]) -> Callable[[Handler], Handler]:
    """Register what statements of these kinds do."""
    return _register(STATEMENTS, kinds)


def _register(table: dict[type[ast.AST], Handler], kinds: tuple[type[ast.AST], ...]) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        table.update(dict.fromkeys(kinds, handler))
        return handler

    return register


@dataclass(slots=True)
class Arm:
    """One way through a branch: the block it fills and the scope at its end."""

    block: Block
    scope: Scope

    @property
    def falls_through(self) -> bool:
        """Whether what follows may run after this arm."""
        return self.scope.exits.skip is not True


class Walker:
    """Walks one function with given arguments, emitting operations at the builder's place."""

    def __init__(
        self, generator: Generator, builder: Builder, function: DeviceFunction, caller: Location | None = None
    ) -> None:
        self.generator = generator
        self.builder = builder
        self.function = function
        self.source = function.source
        self.caller = caller  # where the function is inlined; None where it is called
        self.is_library = is_ours(function.function)
        self.scope = Scope()
        self.annotated: dict[str, ast.AST] = {}  # names with `: tl.constexpr`, and where
        # Names whose values still count after `break` and `continue`: carried by a loop around.
        self.lasting: frozenset[str] = frozenset()
        self.locals = function.local_names

    # --- walking ---

    def evaluate(self, node: ast.expr) -> Any:
        """What the expression evaluates to."""
        return self._visit(node, EXPRESSIONS)

    def execute(self, node: ast.stmt) -> None:
        """Do what the statement does."""
        self._visit(node, STATEMENTS)

    def _visit(self, node: ast.AST, table: Mapping[type[ast.AST], Handler]) -> Any:
        with self.at(node):
            handler = table.get(type(node))
            if handler is None:
                raise unsupported(node)
            return handler(self, node)

    @contextmanager
    def at(self, node: ast.AST) -> Iteration[None]:
        """Operations made inside come from `node`, and so do mistakes found inside that have no place yet."""
        outer = self.builder.location
        self.builder.location = self.source.location(node, self.caller)
        try:
            yield
        except CompilationError as error:
            if self.is_library:
                error.spans.clear()
                error.library = self.function.name
            elif error.closed or not error.spans:
                place = self.source.span(node)
                if place not in error.spans[-1:]:  # a recursion repeats itself
                    error.at(place)
                error.closed = False
            raise
        self.builder.location = outer

    def arm(self, scope: Scope, action: Callable[[], object]) -> Arm:
        """Do `action` in a new block, starting from `scope`."""
        return self.resume(Arm(Block(), scope), action)

    def resume(self, arm: Arm, action: Callable[[], object]) -> Arm:
        """Do `action` at the end of an arm's block, in its scope."""
        place, outer = self.builder.block, self.scope
        self.builder.at_end(arm.block)
        self.scope = arm.scope
        action()
        arm.scope = self.scope
        self.scope = outer
        if place is not None:
            self.builder.at_end(place)
        return arm

    # --- names ---

    def read(self, name: str) -> Any:
        """The value of a name. Raises NotDefined, UnknownName, NonConstexprGlobal or PlainPythonFunction."""
        found = self.scope.names.get(name)
        if isinstance(found, Binding):
            return found.value
        if isinstance(found, Missing):
            raise NotDefined(name=name, reason=found.reason)
        if name in self.locals:
            raise NotDefined(name=name, reason="it is assigned only later, or on a path not taken")
        return captured(self.function, name, self.locals)

    def assign(self, name: str, value: Any, node: ast.AST) -> None:
        """Give a name a value. Numbers become runtime values, unless the name is annotated as constexpr."""
        if name in self.annotated:
            self.assign_constexpr(name, value, node)
            return
        self.bind(name, decay(value), node)

    def assign_constexpr(self, name: str, value: Any, node: ast.AST) -> None:
        """Give a name annotated as constexpr its value, once. Raises ConstexprReassigned."""
        held = self.scope.names.get(name)
        # The same statement may come again, in an unrolled loop.
        if isinstance(held, Binding) and held.is_constexpr and held.node is not node:
            raise ConstexprReassigned(name=name, line=self.source.line(held.node))
        self.scope.names[name] = Binding(unwrap(value), node, is_constexpr=True)

    def bind(self, name: str, value: Any, node: ast.AST) -> None:
        """Give a name a value as it is, and its tensors the name as a hint for the printer."""
        for leaf in flatten(value)[0]:
            leaf.handle.name = leaf.handle.name or (name if name.isidentifier() else "")
        self.scope.names[name] = Binding(value, node)

    def read_and_drop(self, name: str) -> Any:
        """The value of a name, which is gone afterwards."""
        value = self.read(name)
        del self.scope.names[name]
        return value

    def leave(self, exits: Exits) -> None:
        """Take a way out: nothing after this runs on this path."""
        self.scope.exits = exits


def unsupported(node: ast.AST, construct: str = "", advice: str = "") -> UnsupportedConstruct:
    """The mistake that this construct is."""
    name, hint = REFUSED.get(type(node), (f"the construct {type(node).__name__}", "write it with functions of `tl`"))
    return UnsupportedConstruct(construct=construct or name, advice=advice or hint)


#: Constructs without a meaning in a kernel: what to call them, and what to do.
REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Delete: ("`del`", "leave the name alone; it costs nothing"),
    ast.Try: ("`try`", "errors do not exist at run time; test for them"),
    ast.Raise: ("`raise`", "use `tl.device_assert`, or `tl.static_assert` at compile time"),
    ast.With: ("`with`", "call the functions directly"),
    ast.Lambda: ("a lambda", "write a device function outside of the kernel"),
    ast.FunctionDef: ("a function inside the function", "move it outside, and decorate it with @tilewright.jit"),
    ast.ClassDef: ("a class", "use tuples or named tuples"),
    ast.Import: ("`import`", "import at the top of the file"),
    ast.ImportFrom: ("`import`", "import at the top of the file"),
    ast.Global: ("`global`", "pass the value as a parameter"),
    ast.Nonlocal: ("`nonlocal`", "pass the value as a parameter"),
    ast.Yield: ("`yield`", "store each value through a pointer"),
    ast.YieldFrom: ("`yield from`", "store each value through a pointer"),
    ast.AsyncFunctionDef: ("`async`", "kernels run to their end by themselves"),
    ast.AsyncFor: ("`async for`", "use `for`"),
    ast.AsyncWith: ("`async with`", "call the functions directly"),
    ast.Await: ("`await`", "kernels run to their end by themselves"),
    ast.Match: ("`match`", "use `if` and `elif`"),
    ast.Dict: ("a dict", "use a tuple or a named tuple"),
    ast.Set: ("a set", "use a tuple"),
    ast.DictComp: ("a dict comprehension", "use a tuple or a named tuple"),
    ast.GeneratorExp: ("a generator expression", "use a list comprehension, which gives a tuple"),
    ast.SetComp: ("a set comprehension", "use a tuple"),
    ast.Starred: ("a starred expression here", "index the tuple instead"),
    ast.TryStar: ("`try`", "errors do not exist at run time; test for them"),
}


def decay(value: Any) -> Any:
    """The value with each number in it as a runtime scalar, as an assignment makes it."""
    value = unwrap(value)
    if isinstance(value, bool | int | float):
        return to_tensor(value)
    parts = as_tuple(value)
    return value if parts is None else rebuild(parts, [decay(part) for part in parts])


def as_tuple(value: Any) -> tuple[Any, ...] | None:
    """The value if it is a tuple."""
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else None


def rebuild(like: tuple[Any, ...], parts: list[Any]) -> tuple[Any, ...]:
    """A tuple of the parts, of the class of `like` if that is a named tuple."""
    return tuple(parts) if type(like) is tuple else type(like)(*parts)


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are the same: IR value by IR value, and the compile-time parts by type and bits."""
    leaves_a, tree_a = flatten(a)
    leaves_b, tree_b = flatten(b)
    return tree_a == tree_b and all(x.handle is y.handle for x, y in zip(leaves_a, leaves_b, strict=True))


def is_runtime(value: Any) -> bool:
    """Whether there is a tensor in the value."""
    return isinstance(value, tensor) or any(is_runtime(part) for part in parts_of(value) or ())
