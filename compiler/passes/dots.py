"""Choose the instruction of each dot: the target's matrix instruction, or plain multiply-adds for what it lacks.

    %r = dot %a, %b, %c          ->      %r = dot %a, %b, %c {instruction = "mma"}

8-bit floats that the target's matrix instruction does not take enter it as f16, in which they are exact.
"""

from __future__ import annotations

from tilewright.lang import F16, FP8, OPS, Module, Operation, Value, element_of, shape_of, with_shape

from ..analysis.dot_layouts import instruction_of, operand_element
from ..targets import Target, target_named


def choose_dots(module: Module) -> bool:
    """Give every dot of the kernel its instruction for the module's `target`."""
    name = module.attributes["target"]
    assert isinstance(name, str)
    dots = [operation for operation in module.kernel.walk() if operation.name == "dot"]
    for operation in dots:
        _choose(operation, target_named(name))
    return bool(dots)


def _choose(operation: Operation, target: Target) -> None:
    found = instruction_of(operation, target)
    operation.attributes["instruction"] = "fma" if found is None else "mma"
    wanted = operand_element(operation, target)
    for index in (0, 1):
        element = element_of(operation.operands[index].type)
        if found is not None and wanted is not None and element in FP8 and wanted not in FP8:
            operation.set_operand(index, _widened(operation, operation.operands[index]))


def _widened(operation: Operation, value: Value) -> Value:
    """An 8-bit operand as f16, right before the dot."""
    row = OPS["cast_f"]
    cast = Operation(row, [value], row.fill({}), [with_shape(F16, shape_of(value.type))], (), operation.location)
    block = operation.block
    assert block is not None
    cast.block = block
    block.operations.insert(block.operations.index(operation), cast)
    return cast.result
