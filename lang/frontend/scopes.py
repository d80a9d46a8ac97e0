"""What local names mean at one point of a function, and which ways out have been taken on the way there."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from ..values import tensor


@dataclass(frozen=True, slots=True)
class Binding:
    """A name has a value, given by `node`."""

    value: Any
    node: ast.AST
    is_constexpr: bool = False  # annotated as one: never turned into a runtime value


@dataclass(frozen=True, slots=True)
class Missing:
    """A name has no value here, and why."""

    reason: str


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


#: No `return` has given a value yet.
ABSENT: Final = _Absent()

#: True or False where it is known at compile time, else a scalar int1.
Flag: TypeAlias = "bool | tensor"


@dataclass(frozen=True, slots=True)
class Exits:
    """The ways out taken so far.

    `skip`: the rest of the iteration or function is not to run; `stop`: nor is the rest of the loop; `returned`: nor is
    the rest of the function, and `value` is what it returns, by the statement `node`. `return` sets all three, `break`
    the first two, `continue` the first. While statements are walked, all three are False: where a flag is known only
    at run time, what follows is walked inside an `if`.
    """

    skip: Flag = False
    stop: Flag = False
    returned: Flag = False
    value: Any = ABSENT
    node: ast.AST | None = None

    def known(self, flag: tensor) -> Exits:
        """The same where `flag` holds: each that is this very tensor is True."""
        skip, stop, returned = (True if f is flag else f for f in (self.skip, self.stop, self.returned))
        return replace(self, skip=skip, stop=stop, returned=returned)


@dataclass(slots=True)
class Scope:
    """The local names and the exits. Copies share bindings, so that an unchanged one is known by identity."""

    names: dict[str, Binding | Missing] = field(default_factory=dict[str, "Binding | Missing"])
    exits: Exits = Exits()

    def copy(self, exits: Exits | None = None) -> Scope:
        return Scope(dict(self.names), self.exits if exits is None else exits)
