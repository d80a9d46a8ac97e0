"""Control flow: structured operations to blocks and phis. All threads of a program take the same way."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lang import Block, IntType, Operation, Value, byte_width, element_of

from .context import Lowering
from .memory import Words, pack, unpack, words_for
from .registry import lowers, source_element
from .text import llvm_type

#: The bytes of a register.
WORD = 4


def incoming(to: Lowering, values: Sequence[Value]) -> list[str]:
    """All registers of some values, in a row."""
    return [register for value in values for register in to.values[value]]


def types_of(to: Lowering, values: Sequence[Value], like: Sequence[Value]) -> list[str]:
    """The LLVM type of each register of `values`, which have as many as `like`."""
    return [
        llvm_type(element_of(value.type)) for value, other in zip(values, like, strict=True) for _ in to.values[other]
    ]


def bind(to: Lowering, values: Sequence[Value], like: Sequence[Value], registers: Sequence[str]) -> None:
    """Give registers in a row to values that have as many as `like`."""
    rest = list(registers)
    for value, other in zip(values, like, strict=True):
        count = len(to.values[other])
        to.values[value] = tuple(rest[:count])
        del rest[:count]


class Phis:
    """The phis at the head of a loop, written when what comes round is known."""

    def __init__(self, to: Lowering, types: Sequence[str]) -> None:
        self.to = to
        self.types = types
        self.names = [to.text.fresh("p") for _ in types]
        self.place = len(to.text.lines)
        self.tag = to.text.tag

    def close(self, *edges: tuple[str, Sequence[str]]) -> None:
        """Write the phis, from (block, values) for each edge."""
        lines: list[str] = []
        for index, (name, type_) in enumerate(zip(self.names, self.types, strict=True)):
            sources = ", ".join(f"[ {values[index]}, %{block} ]" for block, values in edges)
            lines.append(f"  {name} = phi {type_} {sources}{self.tag}")
        self.to.text.lines[self.place : self.place] = lines


@lowers("if")
def _if(to: Lowering, operation: Operation) -> None:
    text = to.text
    labels = text.label("then"), text.label("else")
    join = text.label("join")
    text.branch(to.scalar(operation.operands[0]), *labels)
    edges: list[tuple[str, list[str]]] = []
    ends: list[Sequence[Value]] = []
    for label, region in zip(labels, operation.regions, strict=True):
        text.begin(label)
        to.block(region)
        ends.append(region.terminator.operands)
        edges.append((text.current, incoming(to, ends[-1])))
        text.at(operation.location)
        text.jump(join)
    text.begin(join)
    phis = Phis(to, types_of(to, operation.results, ends[0]))
    phis.close(*edges)
    bind(to, operation.results, ends[0], phis.names)


def trip_count(to: Lowering, operation: Operation) -> tuple[str, str, str]:
    """(type, rounds, step) of a `for`, in at least 32 bits: max(0, ceil((stop - start) / step)), without overflow."""
    width = source_element(operation)
    assert isinstance(width, IntType)
    unsigned = bool(operation.attributes["unsigned"])
    start, stop, step = (to.scalar(operand) for operand in operation.operands[:3])
    type_ = f"i{width.width}"
    text = to.text
    if width.width < 32:
        extend = "zext" if unsigned else "sext"
        start, stop, step = (text.value(f"{extend} {type_} {value} to i32") for value in (start, stop, step))
        type_ = "i32"
    prefix = "u" if unsigned else "s"
    up = text.value(f"icmp {prefix}lt {type_} {start}, {stop}")
    ahead = text.value(f"sub {type_} {stop}, {start}")
    rounds = _rounds(to, type_, up, ahead, step)
    if not unsigned:
        down = text.value(f"icmp sgt {type_} {start}, {stop}")
        behind = text.value(f"sub {type_} {start}, {stop}")
        back = text.value(f"sub {type_} 0, {step}")
        other = _rounds(to, type_, down, behind, back)
        forward = text.value(f"icmp sgt {type_} {step}, 0")
        rounds = text.value(f"select i1 {forward}, {type_} {rounds}, {type_} {other}")
    return type_, rounds, step


def _rounds(to: Lowering, type_: str, any_: str, distance: str, step: str) -> str:
    """How often a positive step (read as unsigned) goes into a distance, rounded up; 0 if there is no way to go."""
    less = to.text.value(f"sub {type_} {distance}, 1")
    safe = to.text.call(type_, f"llvm.umax.{type_}", [(type_, step), (type_, "1")])
    full = to.text.value(f"udiv {type_} {less}, {safe}")
    more = to.text.value(f"add {type_} {full}, 1")
    return to.text.value(f"select i1 {any_}, {type_} {more}, {type_} 0")


def _is_fragment(use: tuple[Operation, int]) -> bool:
    """Whether a use is as an operand of matrix instructions."""
    user, index = use
    return user.name == "dot" and index < 2 and user.attributes["instruction"] == "mma"


class Carried:
    """The registers that hold what a `for` carries: one for each element; or for what is only ever an operand of matrix
    instructions the words that these take, which would be taken apart and put together in every round."""

    def __init__(self, to: Lowering, arguments: Sequence[Value], like: Sequence[Value]) -> None:
        self.to = to
        self.held: list[tuple[int, Words | None]] = []
        self.types: list[str] = []
        for argument, other in zip(arguments, like, strict=True):
            element, count = element_of(argument.type), len(to.values[other])
            operand = argument.uses and all(map(_is_fragment, argument.uses))
            words = words_for(element, count) if operand and byte_width(element) < WORD else None
            self.held.append((words.count if words else count, words))
            self.types += [words.type if words else llvm_type(element)] * self.held[-1][0]

    def registers(self, values: Sequence[Value]) -> list[str]:
        """What holds some values, in a row."""
        found: list[str] = []
        for value, (_, words) in zip(values, self.held, strict=True):
            registers = self.to.values[value]
            found += pack(self.to, words, registers) if words else registers
        return found

    def bind(self, values: Sequence[Value], registers: Sequence[str]) -> None:
        """Give registers in a row to values."""
        rest = list(registers)
        for value, (count, words) in zip(values, self.held, strict=True):
            mine, rest = rest[:count], rest[count:]
            self.to.values[value] = tuple(unpack(self.to, words, mine) if words else mine)


@lowers("for")
def _for(to: Lowering, operation: Operation) -> None:
    """Count the rounds down, so that no bound can overflow; the induction variable wraps as the language says."""
    text, (body,) = to.text, operation.regions
    type_, rounds, step = trip_count(to, operation)
    start = to.scalar(operation.operands[0])
    width = str(source_element(operation))
    narrow = width != type_
    first = (
        text.value(f"{'zext' if operation.attributes['unsigned'] else 'sext'} {width} {start} to {type_}")
        if narrow
        else start
    )
    carried = Carried(to, body.arguments[1:], operation.operands[3:])
    head, inside, done = text.label("for"), text.label("body"), text.label("done")
    before = [rounds, first, *carried.registers(operation.operands[3:])]
    entry = text.current
    text.jump(head)
    text.begin(head)
    phis = Phis(to, [type_, type_, *carried.types])
    left, induction, *registers = phis.names
    text.branch(text.value(f"icmp ne {type_} {left}, 0"), inside, done)
    text.begin(inside)
    carried.bind(body.arguments[1:], registers)
    to.values[body.arguments[0]] = (text.value(f"trunc {type_} {induction} to {width}") if narrow else induction,)
    to.block(body)
    text.at(operation.location)
    after = [text.value(f"sub {type_} {left}, 1"), text.value(f"add {type_} {induction}, {step}")]
    after += carried.registers(body.terminator.operands)
    last = text.current
    text.jump(head)
    phis.close((entry, before), (last, after))
    text.begin(done)
    carried.bind(operation.results, registers)


@lowers("while")
def _while(to: Lowering, operation: Operation) -> None:
    text, (before, after) = to.text, operation.regions
    head, inside, done = text.label("while"), text.label("after"), text.label("done")
    entry = text.current
    text.jump(head)
    text.begin(head)
    phis = Phis(to, types_of(to, operation.operands, operation.operands))
    bind(to, before.arguments, operation.operands, phis.names)
    to.block(before)
    flag, *passed = before.terminator.operands
    text.at(operation.location)
    text.branch(to.scalar(flag), inside, done)
    share(to, after, passed)
    text.begin(inside)
    to.block(after)
    text.at(operation.location)
    last, again = text.current, incoming(to, after.terminator.operands)
    text.jump(head)
    phis.close((entry, incoming(to, operation.operands)), (last, again))
    text.begin(done)
    for result, value in zip(operation.results, passed, strict=True):
        to.values[result] = to.values[value]


def share(to: Lowering, block: Block, values: Sequence[Value]) -> None:
    """Give a block's arguments the registers of values that are visible in it."""
    for argument, value in zip(block.arguments, values, strict=True):
        to.values[argument] = to.values[value]
