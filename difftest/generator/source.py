"""Pieces of kernel source, and what is known about their values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .numbers import Number

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value is wanted: in all elements of the tile, along one of its axes (a vector), or once a program."""

    shape: Shape
    axis: int | None = None


SCALAR = Place(())


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression: its text, and the type and shape of its value.

    axis: of a vector beside a tile of more dimensions, the one that it runs along. exact: every correct implementation
    gives the same bits, so that they may decide something. product: it may be a product, with which an addition may
    be fused. holes: its elements are unspecified where the kernel's mask is false, so that they must stay where they
    are. simple: the text needs no parentheses.
    """

    text: str
    type: Number
    shape: Shape = ()
    axis: int | None = None
    exact: bool = True
    product: bool = False
    holes: bool = False
    simple: bool = True

    @property
    def operand(self) -> str:
        """The text as an operand."""
        return self.text if self.simple else f"({self.text})"

    @property
    def place(self) -> Place:
        return Place(self.shape, self.axis)

    def named(self, name: str) -> Expr:
        """The same value under a name."""
        return replace(self, text=name, simple=True)

    def along(self, rank: int) -> Expr:
        """A vector with the dimensions that it lacks in a tile of this rank; anything else as it is."""
        if self.axis is None:
            return self
        shape = tuple(self.shape[0] if axis == self.axis else 1 for axis in range(rank))
        index = ", ".join(":" if axis == self.axis else "None" for axis in range(rank))
        return replace(self, text=f"{self.operand}[{index}]", shape=shape, axis=None, simple=True)

    def cast(self, type_: Number) -> Expr:
        """The value in another type. Raises ValueError for one that is not exact and is to be an integer."""
        if self.type == type_:
            return self
        if self.type.is_float and not type_.is_float and not self.exact:
            raise ValueError(f"{self.text} is not exact and cannot decide what a {type_.name} is")
        return replace(self, text=f"{self.operand}.to({type_})", type=type_, product=False, simple=True)


def derived(text: str, type_: Number, *parents: Expr, exact: bool = True, simple: bool = True) -> Expr:
    """An expression of others, element by element: exact if they are, unspecified where one of them is."""
    return Expr(
        text,
        type_,
        np.broadcast_shapes(*(parent.shape for parent in parents)),
        next((parent.axis for parent in parents if parent.axis is not None), None),
        exact and all(parent.exact for parent in parents),
        any(parent.product for parent in parents),
        any(parent.holes for parent in parents),
        simple,
    )


def blurred(a: Expr, b: Expr) -> Expr:
    """The first, of which only what holds of both is known."""
    return replace(a, exact=a.exact and b.exact, product=a.product or b.product, holes=a.holes or b.holes)


class Text:
    """Lines of source under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
