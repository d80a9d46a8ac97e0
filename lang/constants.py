"""`constexpr`: a value known at compile time, as host code writes it (`N = tl.constexpr(4)`) and annotates with it.

Inside a kernel the frontend unwraps it as soon as it is read.

>>> (constexpr(constexpr(3)) + 4) * 2
constexpr[14]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Rational, Real
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class constexpr_type:
    """The type of a constexpr: its value."""

    value: Any

    def __str__(self) -> str:
        return f"constexpr_type[{self.value}]"


def plain(value: Any) -> Any:
    """A number of another library, such as NumPy's, as Python's own; in a tuple too. Anything else as it is."""
    if isinstance(value, tuple):
        parts = cast("tuple[Any, ...]", value)
        return tuple(map(plain, parts)) if type(parts) is tuple else parts
    from_numpy = type(value).__module__ == "numpy"
    if isinstance(value, bool | int | float):
        return float(value) if from_numpy else value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Rational):
        return float(value)
    return bool(value) if from_numpy and type(value).__name__ in ("bool", "bool_") else value


def unwrap(value: Any) -> Any:
    """The plain value of a constexpr; anything else as it is."""
    return value.value if isinstance(value, constexpr) else value


def _binary(name: str) -> Callable[[constexpr, Any], constexpr]:
    function: Callable[[Any, Any], Any] = getattr(operator, f"__{name}__")

    def method(self: constexpr, other: Any) -> constexpr:
        return constexpr(function(self.value, unwrap(other)))

    return method


def _reflected(name: str) -> Callable[[constexpr, Any], constexpr]:
    function: Callable[[Any, Any], Any] = getattr(operator, f"__{name}__")

    def method(self: constexpr, other: Any) -> constexpr:
        return constexpr(function(unwrap(other), self.value))

    return method


def _unary(name: str) -> Callable[[constexpr], constexpr]:
    function: Callable[[Any], Any] = getattr(operator, f"__{name}__")

    def method(self: constexpr) -> constexpr:
        return constexpr(function(self.value))

    return method


class constexpr:
    """A compile-time value. Nesting collapses, NumPy's numbers become Python's; arithmetic follows Python's rules and
    gives constexprs.

    Comparisons give constexprs too, so that `if N > 4` and `tl.static_assert(N > 4)` work on either side. What the
    value can do as an index, iterable, callable or container it can still do.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = plain(unwrap(value))

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

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _binary("mod"), _reflected("mod")
    __pow__, __rpow__ = _binary("pow"), _reflected("pow")
    __and__, __rand__ = _binary("and"), _reflected("and")
    __or__, __ror__ = _binary("or"), _reflected("or")
    __xor__, __rxor__ = _binary("xor"), _reflected("xor")
    __lshift__, __rlshift__ = _binary("lshift"), _reflected("lshift")
    __rshift__, __rrshift__ = _binary("rshift"), _reflected("rshift")
    __lt__, __le__ = _binary("lt"), _binary("le")
    __gt__, __ge__ = _binary("gt"), _binary("ge")
    __eq__ = _binary("eq")  # type: ignore[assignment]
    __ne__ = _binary("ne")  # type: ignore[assignment]
    __neg__, __pos__ = _unary("neg"), _unary("pos")
    __invert__, __abs__ = _unary("invert"), _unary("abs")

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
