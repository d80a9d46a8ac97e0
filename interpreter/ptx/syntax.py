"""What a PTX module says, with every name resolved: the parser makes these, and the program is built from them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.lang import Location


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register of a function: its number there, its name and width (1 for a predicate)."""

    index: int
    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: `value` of an integer, the bits of a `0f` or `0d` literal, or the value of a decimal literal."""

    value: int | float
    kind: str  # "int", "f32", "f64" or "decimal"


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, such as `%tid.x`."""

    name: str


@dataclass(eq=False, slots=True)
class Variable:
    """A variable in memory: its state space, alignment and size in bytes, and the bytes it starts with.

    `pointers` are (offset, target, addend, generic) of initial values that are addresses. A size of 0 stands for `[]`.
    """

    name: str
    space: str
    align: int
    size: int
    initial: bytes = b""
    pointers: tuple[tuple[int, Variable, int, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class VariableRef:
    """The address of a variable, plus some bytes."""

    variable: Variable
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is neither register nor variable: a label or a function."""

    text: str


@dataclass(frozen=True, slots=True)
class LabelRef:
    """A label of the same function, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; without a base the offset is the address. `[base, {x, y}]` has coordinates in a tensor."""

    base: Register | Variable | None
    offset: int
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`, or the parenthesised operands of a call."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`: a predicate read the other way round."""

    register: Register


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a destination that drops its value."""


Operand = (
    Register | Immediate | Special | VariableRef | Name | LabelRef | Address | Vector | Pair | Negated | Sink
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p` in front of an instruction."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: opcode with its modifiers, operands, guard, where its text is, and the kernel's source line."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    offset: int
    location: Location


@dataclass(frozen=True, slots=True)
class Label:
    """A place that branches of the function may name, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry or function: its type name, size, alignment and offset in bytes.

    `pointer` says that `.ptr` declared it an address.
    """

    name: str
    type: str
    size: int
    align: int
    offset: int
    pointer: bool = False


@dataclass(eq=False, slots=True)
class Function:
    """An entry or a device function. `variables` are the ones its body or its signature declares.

    `attributes` holds the performance directives: `reqntid` and `maxntid` as triples, others as given.
    `body` is None for a function that is only declared.
    """

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    offset: int
    attributes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    registers: list[Register] = field(default_factory=list[Register])
    variables: list[Variable] = field(default_factory=list[Variable])
    signature: dict[str, Variable | Register] = field(default_factory=dict[str, "Variable | Register"])
    tables: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    body: list[Instruction | Label] | None = None

    @property
    def reqntid(self) -> tuple[int, int, int] | None:
        """The block size that the entry requires, if it does."""
        return _triple(self.attributes.get("reqntid"))

    @property
    def maxntid(self) -> tuple[int, int, int] | None:
        """The largest block size that the entry was compiled for, if stated."""
        return _triple(self.attributes.get("maxntid"))


def _triple(values: tuple[int, ...] | None) -> tuple[int, int, int] | None:
    if values is None:
        return None
    x, y, z = (*values, 1, 1, 1)[:3]
    return x, y, z
