"""What an expression of a kernel evaluates to: a runtime `tensor`, or any plain Python value known at compile time.

`flatten` takes a value apart into the tensors in it and a `Tree` that says how they fit together; `unflatten` puts
other IR values into the same tree. Control flow and calls carry values that way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Protocol, TypeAlias, cast

from .constants import constexpr
from .dtypes import block_type, dtype, ir_scalar, show
from .errors.base import shown
from .ir import Value
from .types import Type, element_of, shape_of, with_shape

#: Infix and prefix operators of tensors by their symbol ("+", "<", "[]", "u-"), filled by `semantic`.
OPERATORS: dict[str, Callable[..., tensor]] = {}
#: Functions that are also methods of tensors (`x.sum(0)`), by name, filled by `language`.
MEMBERS: dict[str, Callable[..., Any]] = {}


class tensor:
    """A runtime value: a scalar (shape `()`) or a tile. `handle` is its IR value, `dtype` its element type, with sign.

    All operators of Python's arithmetic except `**` and `@` work elementwise, with broadcasting; `x[:, None]` adds
    dimensions. The functions of `tilewright.language` that take a tensor first are methods too.
    """

    __slots__ = ("handle", "dtype")

    def __init__(self, handle: Value, dtype: dtype) -> None:
        self.handle = handle
        self.dtype = dtype
        assert element_of(handle.type) == ir_scalar(dtype), f"{handle.type} is no {dtype}"

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.handle.type)

    @property
    def numel(self) -> int:
        """How many elements there are; 1 for a scalar."""
        return prod(self.shape)

    @property
    def type(self) -> dtype:
        """The block_type of a tile, the dtype of a scalar."""
        return block_type(self.dtype, self.shape) if self.shape else self.dtype

    @property
    def T(self) -> tensor:
        """The transpose of a tile of rank 2."""
        return MEMBERS["permute"](self, (1, 0))

    def __getattr__(self, name: str) -> Any:
        member = MEMBERS.get(name)
        if member is None:
            raise AttributeError(f"a tensor has no attribute {name}")
        return partial(member, self)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *MEMBERS})

    def __repr__(self) -> str:
        return f"<{_show_tensor(self.dtype, self.shape)}>"

    def __bool__(self) -> bool:
        raise TypeError("the value of a tensor is not known at compile time")

    def __add__(self, other: object) -> tensor:
        return OPERATORS["+"](self, other)

    def __radd__(self, other: object) -> tensor:
        return OPERATORS["+"](other, self)

    def __sub__(self, other: object) -> tensor:
        return OPERATORS["-"](self, other)

    def __rsub__(self, other: object) -> tensor:
        return OPERATORS["-"](other, self)

    def __mul__(self, other: object) -> tensor:
        return OPERATORS["*"](self, other)

    def __rmul__(self, other: object) -> tensor:
        return OPERATORS["*"](other, self)

    def __truediv__(self, other: object) -> tensor:
        return OPERATORS["/"](self, other)

    def __rtruediv__(self, other: object) -> tensor:
        return OPERATORS["/"](other, self)

    def __floordiv__(self, other: object) -> tensor:
        return OPERATORS["//"](self, other)

    def __rfloordiv__(self, other: object) -> tensor:
        return OPERATORS["//"](other, self)

    def __mod__(self, other: object) -> tensor:
        return OPERATORS["%"](self, other)

    def __rmod__(self, other: object) -> tensor:
        return OPERATORS["%"](other, self)

    def __and__(self, other: object) -> tensor:
        return OPERATORS["&"](self, other)

    def __rand__(self, other: object) -> tensor:
        return OPERATORS["&"](other, self)

    def __or__(self, other: object) -> tensor:
        return OPERATORS["|"](self, other)

    def __ror__(self, other: object) -> tensor:
        return OPERATORS["|"](other, self)

    def __xor__(self, other: object) -> tensor:
        return OPERATORS["^"](self, other)

    def __rxor__(self, other: object) -> tensor:
        return OPERATORS["^"](other, self)

    def __lshift__(self, other: object) -> tensor:
        return OPERATORS["<<"](self, other)

    def __rlshift__(self, other: object) -> tensor:
        return OPERATORS["<<"](other, self)

    def __rshift__(self, other: object) -> tensor:
        return OPERATORS[">>"](self, other)

    def __rrshift__(self, other: object) -> tensor:
        return OPERATORS[">>"](other, self)

    def __lt__(self, other: object) -> tensor:
        return OPERATORS["<"](self, other)

    def __le__(self, other: object) -> tensor:
        return OPERATORS["<="](self, other)

    def __gt__(self, other: object) -> tensor:
        return OPERATORS[">"](self, other)

    def __ge__(self, other: object) -> tensor:
        return OPERATORS[">="](self, other)

    def __eq__(self, other: object) -> tensor:  # type: ignore[override]
        return OPERATORS["=="](self, other)

    def __ne__(self, other: object) -> tensor:  # type: ignore[override]
        return OPERATORS["!="](self, other)

    __hash__ = object.__hash__

    def __neg__(self) -> tensor:
        return OPERATORS["u-"](self)

    def __invert__(self) -> tensor:
        return OPERATORS["~"](self)

    def __getitem__(self, index: object) -> tensor:
        return OPERATORS["[]"](self, index)


# --- taking values apart and putting them together ---


class Aggregate(Protocol):
    """A frontend value made of others: `type(value)(*value.parts())` is the value again.

    Messages call it `str(value)`.
    """

    def parts(self) -> tuple[Any, ...]: ...


@dataclass(frozen=True, slots=True)
class TensorLeaf:
    """The place of a tensor of this type and shape."""

    dtype: dtype
    shape: tuple[int, ...]

    @property
    def ir_type(self) -> Type:
        return with_shape(ir_scalar(self.dtype), self.shape)

    def __str__(self) -> str:
        return with_article(_show_tensor(self.dtype, self.shape))


@dataclass(frozen=True, slots=True, eq=False)
class ConstantLeaf:
    """A compile-time value. Equal to another only if type and bits are: 1 is not True, 0.0 is not -0.0, NaN is NaN."""

    value: Any

    def _key(self) -> tuple[type[Any], Any]:
        bits: Any = struct.pack("<d", self.value) if isinstance(self.value, float) else self.value
        return cast("type[Any]", type(self.value)), bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantLeaf) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(cast("type[Any]", type(self.value)))

    def __str__(self) -> str:
        return describe(self.value)


@dataclass(frozen=True, slots=True)
class Branch:
    """A value made of others: `kind` is tuple, a named tuple class or an aggregate class."""

    kind: type[Any]
    children: tuple[Tree, ...]

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.children))
        return with_article(f"{'tuple' if issubclass(self.kind, tuple) else self.kind.__name__} of ({inner})")


Tree: TypeAlias = TensorLeaf | ConstantLeaf | Branch


def flatten(value: Any) -> tuple[list[tensor], Tree]:
    """The tensors in a value, in order, and the tree that says where they stand. Trees compare structurally."""
    leaves: list[tensor] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Any, leaves: list[tensor]) -> Tree:
    if isinstance(value, tensor):
        leaves.append(value)
        return TensorLeaf(value.dtype, value.shape)
    parts = parts_of(value)
    if parts is None:
        return ConstantLeaf(value.value if isinstance(value, constexpr) else value)
    return Branch(cast("type[Any]", type(value)), tuple(_flatten(part, leaves) for part in parts))


def parts_of(value: Any) -> tuple[Any, ...] | None:
    """The values that a tuple or an aggregate is made of; None for any other value."""
    if isinstance(value, tuple):
        return cast("tuple[Any, ...]", value)
    if hasattr(cast("type[Any]", type(value)), "parts"):  # to ask whether it is an Aggregate takes many times as long
        return cast(Aggregate, value).parts()
    return None


def unflatten(tree: Tree, values: Sequence[Value]) -> Any:
    """The value of this tree with these IR values for tensors, in order. Raises ValueError unless the count fits."""
    supply = list(reversed(values))
    result = _unflatten(tree, supply)
    if supply:
        raise ValueError(f"{len(supply)} IR values too many")
    return result


def _unflatten(tree: Tree, supply: list[Value]) -> Any:
    if isinstance(tree, TensorLeaf):
        if not supply:
            raise ValueError("too few IR values")
        return tensor(supply.pop(), tree.dtype)
    if isinstance(tree, ConstantLeaf):
        return tree.value
    children = [_unflatten(child, supply) for child in tree.children]
    return tuple(children) if tree.kind is tuple else tree.kind(*children)


def tensor_leaves(tree: Tree) -> list[TensorLeaf]:
    """The tensor places of a tree, in the order of `flatten`."""
    if isinstance(tree, TensorLeaf):
        return [tree]
    if isinstance(tree, ConstantLeaf):
        return []
    return [leaf for child in tree.children for leaf in tensor_leaves(child)]


# --- words for messages ---


def _show_tensor(type_: dtype, shape: tuple[int, ...]) -> str:
    return f"{show(type_)} tile of shape {shape}" if shape else f"{show(type_)} scalar"


def with_article(words: str) -> str:
    """The words behind "a" or "an": "an int32 scalar", "a uint8 scalar"."""
    return f"{'an' if words[0] in 'aeio' else 'a'} {words}"


def describe(value: Any) -> str:
    """What a value is, for messages: "an int32 tile of shape (4, 8)", "a float32 scalar", "the constexpr 3", "None"."""
    if isinstance(value, tensor):
        return with_article(_show_tensor(value.dtype, value.shape))
    if isinstance(value, constexpr):
        value = value.value
    if value is None:
        return "None"
    if isinstance(value, dtype):
        return f"the type {show(value)}"
    if isinstance(value, bool | int | float | str):
        return f"the constexpr {shown(value)!r}"
    if isinstance(value, tuple):
        parts = ", ".join(map(describe, cast("tuple[Any, ...]", value)))
        return f"a tuple of ({parts})" if parts else "an empty tuple"
    if parts_of(value) is not None:
        return str(value)
    name = getattr(value, "__name__", None)
    return f"the {_noun(value)} {name}" if isinstance(name, str) else f"a value of type {type(value).__name__}"


def _noun(value: Any) -> str:
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) else type(value).__name__
