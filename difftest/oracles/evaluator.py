"""Run a case exactly: one program after the other, one op after the other, one element after the other.

A plain walk over the IR, by tables of rules in Python integers and fractions. It is slow and says what the rows say;
the harness compares everything else with it. Where programs share memory it is one of the orders that a kernel must
allow: whatever depends on the order, a case must leave out or mark as `unordered`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tilewright.lang import (
    Block,
    Function,
    IntType,
    Module,
    Operation,
    PointerType,
    Value,
    bit_width,
    element_of,
    shape_of,
)

from ..cases import Case, Outcome
from ..storage import Codes, to_array, to_codes
from .buffers import BUFFER_RULES
from .memory import MEMORY_RULES, Buffers, Stopped
from .scalars import scalar_rule, signed
from .text import printed
from .tiles import TILE_RULES, flat, indices

Values: TypeAlias = dict[Value, Codes]


@dataclass(frozen=True, slots=True)
class Watch:
    """An operation that ran: in which program, on which operands, with which values in scope."""

    program: Program
    operation: Operation
    operands: Sequence[Codes]
    values: Values


@dataclass(slots=True)
class Program:
    """One program while it runs."""

    module: Module
    buffers: Buffers
    index: tuple[int, int, int] = (0, 0, 0)
    grid: tuple[int, int, int] = (1, 1, 1)
    output: list[str] = field(default_factory=list[str])
    #: The row whose operations are noted in `watched`, "" for none.
    watch: str = ""
    watched: list[Watch] = field(default_factory=list[Watch])

    def call(self, function: Function, arguments: Sequence[Codes]) -> Sequence[Codes]:
        """The results of a function."""
        return self.block(function.body, arguments, {})

    def block(self, block: Block, arguments: Sequence[Codes], outer: Values) -> Sequence[Codes]:
        """Run a block; the values that its terminator names."""
        values: Values = outer | dict(zip(block.arguments, arguments, strict=True))
        for operation in block.operations:
            operands = [values[operand] for operand in operation.operands]
            if operation.definition.is_terminator:
                return operands
            values.update(zip(operation.results, self.operation(operation, operands, values), strict=True))
        raise AssertionError("a block without a terminator")

    def operation(self, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
        """The results of one operation. Raises Stopped where the program does what is forbidden."""
        name = operation.name
        if name == self.watch:
            self.watched.append(Watch(self, operation, operands, values))
        if operation.definition.is_elementwise:
            rule = scalar_rule(operation)
            return (tuple(rule(*codes) for codes in zip(*operands, strict=True)),)
        if name in TILE_RULES:
            return TILE_RULES[name](operation, operands)
        if name in _ON_MEMORY:
            return _ON_MEMORY[name](self.buffers, operation, operands)
        return _CONTROL[name](self, operation, operands, values)


_ON_MEMORY = MEMORY_RULES | BUFFER_RULES


def _program_id(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    return ((program.index[axis],),)


def _num_programs(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    return ((program.grid[axis],),)


def _if(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    (flag,) = operands[0]
    return program.block(operation.regions[0 if flag else 1], (), values)


def _for(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    element = element_of(operation.operands[0].type)
    assert isinstance(element, IntType)
    read = (lambda code, _: code) if operation.attributes["unsigned"] else signed
    index, stop, step = (read(codes[0], element.width) for codes in operands[:3])
    if step == 0:
        raise Stopped("step")
    carried: Sequence[Codes] = operands[3:]
    while index < stop if step > 0 else index > stop:
        code = index & ((1 << element.width) - 1)
        carried = program.block(operation.regions[0], ((code,), *carried), values)
        index += step
    return carried


def _while(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    before, after = operation.regions
    carried: Sequence[Codes] = operands
    while True:
        (flag,), *passed = program.block(before, carried, values)
        if not flag:
            return passed
        carried = program.block(after, passed, values)


def _call(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    return program.call(program.module.functions[str(operation.attributes["callee"])], operands)


def _reduce(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    shape, axis = shape_of(operation.operands[0].type), operation.attributes["axis"]
    assert isinstance(axis, int)
    results: list[list[int]] = [[] for _ in operands]
    for index in indices(shape[:axis] + shape[axis + 1 :]):
        places = [flat((*index[:axis], k, *index[axis:]), shape) for k in range(shape[axis])]
        folded: Sequence[Codes] = [(codes[places[0]],) for codes in operands]
        for place in places[1:]:
            folded = program.block(operation.regions[0], (*folded, *((codes[place],) for codes in operands)), values)
        for result, codes in zip(results, folded, strict=True):
            result += codes
    return [tuple(result) for result in results]


def _print(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    program.output += printed(operation, operands, program.index)
    return ()


def _assert(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    masks = operands[1] if len(operands) > 1 else (1,) * len(operands[0])
    if not all(map(operator.ge, operands[0], masks)):
        raise Stopped("assert")
    return ()


def _nothing(program: Program, operation: Operation, operands: Sequence[Codes], values: Values) -> Sequence[Codes]:
    return ()


_CONTROL: dict[str, Callable[[Program, Operation, Sequence[Codes], Values], Sequence[Codes]]] = {
    "program_id": _program_id,
    "num_programs": _num_programs,
    "if": _if,
    "for": _for,
    "while": _while,
    "call": _call,
    "reduce": _reduce,
    "print": _print,
    "assert": _assert,
    "assume": _nothing,
    "barrier": _nothing,
}


def expected(case: Case) -> Outcome:
    """What the rows say that running the case gives."""
    return expected_and_watched(case, "")[0]


def expected_and_watched(case: Case, row: str) -> tuple[Outcome, list[Watch]]:
    """The same, with the operations of one row as they ran, program by program, and their operands."""
    watched: list[Watch] = []
    run = _expected_of_function if case.function else _expected_of_kernel
    return run(case, row, watched), watched


def _expected_of_function(case: Case, row: str, watched: list[Watch]) -> Outcome:
    entry, count = case.entry, case.programs
    columns: list[list[int]] = [[] for _ in entry.result_types]
    output: list[str] = []
    try:
        for number in range(count):
            program = Program(case.module, Buffers([]), (number, 0, 0), (count, 1, 1), output, row, watched)
            arguments = [
                to_codes(array[number % len(array)], element)
                for array, element in zip(case.arguments, case.elements, strict=True)
            ]
            for column, codes in zip(columns, program.call(entry, arguments), strict=True):
                column += codes
    except Stopped as stopped:
        return Outcome(stopped=str(stopped))
    results = tuple(
        to_array(column, element_of(type_), (count, *shape_of(type_)))
        for column, type_ in zip(columns, entry.result_types, strict=True)
    )
    return Outcome(results, output="".join(output))


def _expected_of_kernel(case: Case, row: str, watched: list[Watch]) -> Outcome:
    buffers = Buffers([])
    arguments: list[Codes] = []
    kept: list[int] = []
    for number, (array, parameter) in enumerate(zip(case.arguments, case.entry.arguments, strict=True)):
        if isinstance(parameter.type, PointerType):
            kept.append(number)
            arguments.append((buffers.address(len(buffers.contents)),))
            buffers.contents.append(bytearray(array.tobytes()))
        else:
            arguments.append(to_codes(array, case.elements[number]))
    x, y, z = case.grid
    output: list[str] = []
    try:
        for k, j, i in indices((z, y, x)):
            Program(case.module, buffers, (i, j, k), case.grid, output, row, watched).call(case.entry, arguments)
    except Stopped as stopped:
        return Outcome(stopped=str(stopped))
    results = tuple(
        to_array(_codes_in(content, case.elements[number]), case.elements[number], case.arguments[number].shape)
        for content, number in zip(buffers.contents, kept, strict=True)
    )
    return Outcome(results, output="".join(output))


def _codes_in(content: bytearray, element: object) -> list[int]:
    size = max(1, bit_width(element) // 8)  # type: ignore[arg-type]
    return [int.from_bytes(content[at : at + size], "little") for at in range(0, len(content), size)]
