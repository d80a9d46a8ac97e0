"""What a row of an op table says, and the registry of all rows.

Every op is declared once, in `lang/ops/`. Everything else about it hangs off its name: what it means
(`interpreter/`), how it is lowered (`compiler/lower/`), how it is fuzzed (`difftest/`), what the reference says
(`docs/semantics.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from types import UnionType
from typing import Any, TypeAlias, cast

from .contracts import Contracts
from .types import ScalarType, Type

Attributes: TypeAlias = Mapping[str, Any]
#: A signature of an elementwise op: the element types of its operands, and that of its result.
Signature: TypeAlias = tuple[tuple[ScalarType, ...], ScalarType]
#: (operand types, attributes, requested result types or None) -> result types. Raises OpTypeError.
TypeRule: TypeAlias = Callable[[Sequence[Type], Attributes, tuple[Type, ...] | None], tuple[Type, ...]]


class OpTypeError(TypeError):
    """An op was given operand types, attributes or result types that its row refuses."""


class Trait(Enum):
    """A fact about an op that passes, executors and generators use."""

    __hash__ = object.__hash__  # members are singletons; Enum's own is Python code, and rows are asked all the time

    PURE = auto()  # no effect; may be duplicated, hoisted and deleted
    ELEMENTWISE = auto()  # element i of the result depends on element i of the operands alone
    COMMUTATIVE = auto()
    TERMINATOR = auto()
    CONVERGENT = auto()  # synchronises: every thread of the program reaches it together
    YIELDS = auto()  # a scheduling point of the coroutine executor: atomics, volatile accesses


class Effect(Enum):
    """What an op does to memory."""

    NONE = auto()
    READ = auto()
    WRITE = auto()
    READ_WRITE = auto()
    OTHER = auto()  # prints, asserts, barriers: not memory, but not to be deleted or reordered


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an op: its Python type (`of` for the parts of a tuple), and the default (`...` for none)."""

    name: str
    kind: type | UnionType
    default: Any = ...
    choices: tuple[Any, ...] = ()
    of: type = int

    def admits(self, value: Any) -> bool:
        """Whether the value has the attribute's type. A bool is no int here."""
        if self.kind is tuple:
            return isinstance(value, tuple) and all(type(part) is self.of for part in cast("tuple[Any, ...]", value))
        return isinstance(value, self.kind) and (self.kind is bool or not isinstance(value, bool))


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row of an op table.

    `operands` names the operands in order: `a`, `mask?` (optional, trailing), `args*` (variadic, last).
    `regions` names the regions. `signatures` lists what an elementwise op admits.
    """

    name: str
    operands: tuple[str, ...]
    rule: TypeRule
    doc: str
    attributes: tuple[Attribute, ...] = ()
    regions: tuple[str, ...] = ()
    traits: frozenset[Trait] = frozenset()
    effect: Effect = Effect.NONE
    contracts: Contracts | None = None
    signatures: tuple[Signature, ...] = field(default=(), repr=False)

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def fixed(self) -> int:
        """How many operands are neither variadic nor, therefore, counted by it."""
        return _arity(self.operands)[0]

    @property
    def required(self) -> int:
        """How many operands must be given."""
        return _arity(self.operands)[1]

    @property
    def is_variadic(self) -> bool:
        return bool(self.operands) and self.operands[-1].endswith("*")

    @property
    def is_terminator(self) -> bool:
        return Trait.TERMINATOR in self.traits

    @property
    def is_pure(self) -> bool:
        return Trait.PURE in self.traits

    @property
    def is_elementwise(self) -> bool:
        return Trait.ELEMENTWISE in self.traits

    def operand_index(self, name: str) -> int:
        """The position of a fixed operand. Raises KeyError for a name that the row lacks."""
        for index, operand in enumerate(self.operands):
            if operand.rstrip("?") == name:
                return index
        raise KeyError(f"{self.name} has no operand {name}")

    def fill(self, given: Attributes) -> dict[str, Any]:
        """The attributes in the row's order, defaults filled in. Raises OpTypeError for unknown, missing, bad ones."""
        known = {attribute.name for attribute in self.attributes}
        for name in given:
            if name not in known:
                raise OpTypeError(f"{self.name} has no attribute {name}")
        filled: dict[str, Any] = {}
        for attribute in self.attributes:
            value = given.get(attribute.name, attribute.default)
            if value is ...:
                raise OpTypeError(f"{self.name} needs the attribute {attribute.name}")
            if not attribute.admits(value):
                kind = getattr(attribute.kind, "__name__", str(attribute.kind))
                kind += f" of {attribute.of.__name__}" if attribute.kind is tuple else ""
                raise OpTypeError(f"{self.name}: attribute {attribute.name} must be {kind}, not {value!r}")
            if attribute.choices and value not in attribute.choices:
                allowed = ", ".join(map(str, attribute.choices))
                raise OpTypeError(f"{self.name}: attribute {attribute.name} is {value!r}; one of {allowed} is allowed")
            filled[attribute.name] = value
        return filled

    def infer(
        self, types: Sequence[Type], attributes: Attributes, requested: tuple[Type, ...] | None
    ) -> tuple[Type, ...]:
        """The result types. Raises OpTypeError when the row refuses."""
        count = len(types)
        if count < self.required or (count > self.fixed and not self.is_variadic):
            raise OpTypeError(f"{self.name} takes operands ({', '.join(self.operands)}), not {count} of them")
        results = self.rule(types, attributes, requested)
        if requested is not None and requested != results:
            want, got = (", ".join(map(str, ts)) for ts in (results, requested))
            raise OpTypeError(f"{self.name} yields ({want}), not ({got})")
        return results


@cache
def _arity(operands: tuple[str, ...]) -> tuple[int, int]:
    """How many operands are fixed, and how many must be given."""
    return sum(not name.endswith("*") for name in operands), sum(name[-1] not in "?*" for name in operands)


#: Every row by name, filled by `lang/ops/`.
OPS: dict[str, OpDef] = {}


def register(row: OpDef) -> OpDef:
    """Add a row to the registry and return it. Raises ValueError when the name is taken or the doc is empty."""
    if row.name in OPS:
        raise ValueError(f"op {row.name} is declared twice")
    if not row.doc.strip():
        raise ValueError(f"op {row.name} has no doc")
    OPS[row.name] = row
    return row


def traits(*names: Trait) -> frozenset[Trait]:
    """A trait set."""
    return frozenset(names)


def rows(names: Iterable[str]) -> tuple[OpDef, ...]:
    """The rows of these names, in order."""
    return tuple(OPS[name] for name in names)
