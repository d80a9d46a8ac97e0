"""`constexpr`: a value known at compile time, as host code writes it (`N = tl.constexpr(4)`) and annotates with it.

Inside a kernel the frontend unwraps it as soon as it is read.

>>> (constexpr(constexpr(3)) + 4) * 2
constexpr[14]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class constexpr_type:
    """The type of a constexpr: its value."""

    value: Any

    def __str__(self) -> str:
        return f"constexpr_type[{self.value}]"


def unwrap(value: Any) -> Any:
    """The plain value of a constexpr; anything else as it is."""
    return value.value if isinstance(value, constexpr) else value


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], constexpr]:
    def method(self: constexpr, other: Any) -> constexpr:
        return constexpr(function(self.value, unwrap(other)))

    return method


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], constexpr]:
    def method(self: constexpr, other: Any) -> constexpr:
        return constexpr(function(unwrap(other), self.value))

    return method


def _unary(function: Callable[[Any], Any]) -> Callable[[constexpr], constexpr]:
    def method(self: constexpr) -> constexpr:
        return constexpr(function(self.value))

    return method


class constexpr:
    """A compile-time value. Nesting collapses; arithmetic follows Python's rules and gives constexprs.

    Comparisons give constexprs too, so that `if N > 4` and `tl.static_assert(N > 4)` work on either side. What the
    value can do as an index, iterable, callable or container it can still do.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = unwrap(value)

    @property
    def type(self) -> constexpr_type:
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __hash__(self) -> int:
        return hash((constexpr, self.value))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[unwrap(index)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow), _reflected(operator.pow)
    __and__, __rand__ = _binary(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _binary(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor), _reflected(operator.xor)
    __lshift__, __rlshift__ = _binary(operator.lshift), _reflected(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift), _reflected(operator.rshift)
    __lt__, __le__ = _binary(operator.lt), _binary(operator.le)
    __gt__, __ge__ = _binary(operator.gt), _binary(operator.ge)
    __eq__ = _binary(operator.eq)  # type: ignore[assignment]
    __ne__ = _binary(operator.ne)  # type: ignore[assignment]
    __neg__, __pos__ = _unary(operator.neg), _unary(operator.pos)
    __invert__, __abs__ = _unary(operator.invert), _unary(abs)

    def logical_and(self, other: Any) -> constexpr:
        """`self and other`."""
        return constexpr(self.value and unwrap(other))

    def logical_or(self, other: Any) -> constexpr:
        """`self or other`."""
        return constexpr(self.value or unwrap(other))

    def logical_not(self) -> constexpr:
        """`not self`."""
        return constexpr(not self.value)


class const:
    """An annotation: the pointer parameter may be loaded through only."""
