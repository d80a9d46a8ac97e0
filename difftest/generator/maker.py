"""The state of a function under construction: its text so far, the variables in reach, and what may still be made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ..choices import Choices
from .numbers import BOOL, FLOAT, FLOAT32, INT, INT1, INT32, UINT, UINT32, Number, literal, meet
from .source import SCALAR, Expr, Place, Shape, Text, blurred, derived

NUMERIC = (FLOAT, INT, UINT)
_FROM_NOTHING = {FLOAT: FLOAT32, INT: INT32, UINT: UINT32, BOOL: INT1}


@dataclass(slots=True)
class Shared:
    """What a kernel and its functions share: the names that are taken, the functions, and what may still be made."""

    counts: dict[str, int] = field(default_factory=dict[str, int])
    functions: list[str] = field(default_factory=list[str])
    arrays: int = 8
    stores: int = 4
    depth: int = 2
    programs: int = 1

    def fresh(self, prefix: str) -> str:
        """A new name."""
        number = self.counts[prefix] = self.counts.get(prefix, -1) + 1
        return f"{prefix}{number}"


class Maker:
    """A function under construction, over tiles of one shape. `changeable`: the variables that may get new values."""

    def __init__(self, choices: Choices, shape: Shape, shared: Shared) -> None:
        self.choices = choices
        self.shape = shape
        self.shared = shared
        self.text = Text()
        self.scope: list[Expr] = []
        self.changeable: set[str] = set()
        #: Where elements of the tile are specified; "" where that is everywhere, or not known.
        self.inside = ""

    @property
    def tile(self) -> Place:
        return Place(self.shape)

    def place(self) -> Place:
        """Mostly the whole tile."""
        several = len(self.shape) > 1
        vectors = [Place((extent,), axis) for axis, extent in enumerate(self.shape)] if several else []
        return self.choices.weighted([(self.tile, 16), (SCALAR, 2), *((vector, 1) for vector in vectors)])

    # Variables

    def let(self, value: Expr) -> Expr:
        """A new variable with this value."""
        name = self.shared.fresh("v")
        self.text.line(f"{name} = {value.text}")
        return self.declare(value.named(name))

    def declare(self, variable: Expr) -> Expr:
        """Put a variable in reach."""
        self.scope.append(variable)
        self.changeable.add(variable.text)
        return variable

    def forget(self, variable: Expr, known: Expr) -> Expr:
        """Let less be known about a variable: what holds of it and of `known`."""
        at = next(index for index, each in enumerate(self.scope) if each.text == variable.text)
        self.scope[at] = blurred(self.scope[at], known)
        return self.scope[at]

    def change(self, variable: Expr, value: Expr) -> None:
        """Give a variable, of which then holds what held before and after, a new value."""
        self.text.line(f"{variable.text} = {value.cast(variable.type).text}")
        self.forget(variable, value)

    def mix(self, variable: Expr, other: Expr) -> None:
        """Give a variable a new value of its type and shape, from the old one and another of its kind."""
        signs = ("+", "-", "*") if variable.type.is_float else ("+", "-", "*", "^", "&", "|")
        sign = self.choices.sample(signs)
        made = derived(f"{variable.text} {sign} {other.operand}", variable.type, variable, other, simple=False)
        fusible = variable.type.is_float and (variable.product or other.product)
        self.change(variable, replace(made, exact=made.exact and not fusible, product=variable.type.is_float))

    def changing(self) -> list[Expr]:
        """The variables that may get new values: numbers, of a shape that operations with others keep."""
        whole = [v for v in self.scope if v.axis is not None or v.shape in ((), self.shape)]
        return [v for v in whole if v.text in self.changeable and v.type.kind != BOOL]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """The lines of a compound statement. Variables made inside are out of reach afterwards."""
        names, count = [v.text for v in self.scope], len(self.text.lines)
        self.text.line(head)
        self.text.depth += 1
        self.shared.depth -= 1
        yield
        if len(self.text.lines) == count + 1:
            self.text.line("pass")
        self.text.depth -= 1
        self.shared.depth += 1
        self.scope = [v for v in self.scope if v.text in names]

    # Operands

    def fits(self, value: Expr, place: Place) -> bool:
        """Whether a value can be had at a place."""
        return not value.shape or place == self.tile or value.place == place

    def candidates(self, place: Place, kinds: Sequence[str], exact: bool = False) -> list[Expr]:
        """The variables that may be operands, the latest first."""
        fitting = [v for v in reversed(self.scope) if v.type.kind in kinds and self.fits(v, place)]
        return [v for v in fitting if v.exact or not exact]

    def pick(self, place: Place, kinds: Sequence[str] = NUMERIC, exact: bool = False) -> Expr:
        """An operand of one of these kinds: a variable, late ones likelier; where there is none, a number."""
        found = self.candidates(place, kinds, exact)
        if not found:
            type_ = _FROM_NOTHING[kinds[0]]
            value = literal(self.choices, type_) if type_ != INT1 else str(self.choices.boolean())
            return Expr(f"tl.full((), {value}, {type_})", type_)
        value = self.choices.weighted([(value, max(1, 12 - 2 * index)) for index, value in enumerate(found)])
        return value.along(len(self.shape)) if place == self.tile else value

    def pair(self, place: Place, kinds: Sequence[str] = NUMERIC) -> tuple[Expr, Expr, Number]:
        """Two operands that meet, and the type in which they do. The second may be a literal."""
        a = self.pick(place, kinds)
        if self.choices.boolean(25):
            return a, Expr(literal(self.choices, a.type), a.type), a.type
        b = self.pick(place, kinds)
        type_ = meet(a.type, b.type)
        if type_ is None:  # an integer and an 8-bit float
            type_ = a.type if a.type.is_float else b.type
            a, b = a.cast(type_), b.cast(type_)
        return a, b, type_

    def alike(self, place: Place, a: Expr, kinds: Sequence[str]) -> Expr:
        """An operand in the type of another one, which may be a literal."""
        if self.choices.boolean(30):
            return Expr(literal(self.choices, a.type), a.type)
        b = self.pick(place, kinds, exact=not a.type.is_float)
        return b.cast(a.type)

    def specified(self, values: Sequence[Expr]) -> list[Expr]:
        """The whole tiles among some values as they are specified everywhere, those that can be."""
        whole = [v for v in values if v.shape == self.shape and (self.inside or not v.holes)]
        return [self.filled(v) if v.holes else v for v in whole]

    def filled(self, value: Expr) -> Expr:
        """The value with a number where it is unspecified."""
        text = f"tl.where({self.inside}, {value.text}, {literal(self.choices, value.type)})"
        return replace(value, text=text, holes=False, simple=True)

    def integer(self, place: Place) -> Expr:
        """An integer of 32 bits, for an index."""
        return self.pick(place, (INT, UINT)).cast(INT32)
