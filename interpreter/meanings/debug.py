"""What prints, asserts, promises and the barrier mean."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tilewright.lang import FloatType, IntType, Operation, Value, bit_width, element_of, shape_of

from .. import numerics
from ..batch import Batch
from ..errors import DeviceAssertError
from ..values import Array, BatchValue, dense, widened
from .tables import Prepare, Runner, tuple_attribute


def print_values(operation: Operation) -> Runner:
    """One line an element: `pid (0, 0, 0) idx (3) prefix: value`, program by program, row-major.

    Several values are told apart as `prefix (operand 1): value`. Without values the line is `pid (0, 0, 0) prefix`.
    """
    prefix = str(operation.attributes["prefix"]).strip().removesuffix(":")
    signs = tuple_attribute(operation, "signed")
    values = operation.operands
    writers = [
        _writer(value, bool(operation.attributes["hex"]), bool(signs[number]) if number < len(signs) else True)
        for number, value in enumerate(values)
    ]
    labels = [prefix if len(values) == 1 else f"{prefix} (operand {number})" for number in range(len(values))]
    shapes = [shape_of(value.type) for value in values]

    def run(batch: Batch, *operands: BatchValue) -> None:
        arrays = [widened(dense(operand), batch.count) for operand in operands]
        for row in range(batch.count):
            head = f"pid {batch.program(row)}"
            if not arrays:
                batch.stdout.write(f"{head} {prefix}\n")
            for array, write, label, shape in zip(arrays, writers, labels, shapes, strict=True):
                for index, text in zip(np.ndindex(shape), write(array[row].reshape(-1)), strict=True):
                    place = f"({', '.join(map(str, index))})"
                    batch.stdout.write(f"{head} idx {place} {label}: {text}\n")

    return run


def _writer(value: Value, in_hex: bool, as_signed: bool) -> Callable[[Array], list[str]]:
    """How to write the elements of a value: hex shows the bits, floats are written as short as tells them apart."""
    element = element_of(value.type)
    digits = max(1, bit_width(element) // 4)
    if in_hex or not isinstance(element, IntType | FloatType):
        return lambda a: [f"0x{bits:0{digits}x}" for bits in a.view(f"u{a.dtype.itemsize}").tolist()]
    if isinstance(element, FloatType):
        if element.name == "f8e4m3b15":
            return lambda a: [str(x) for x in numerics.decode(a, "f8e4m3b15")]
        return lambda a: [str(x) for x in a]
    if element.width == 1 or not as_signed:
        return lambda a: [str(x) for x in a.view(f"u{a.dtype.itemsize}").tolist()]
    return lambda a: [str(x) for x in a.tolist()]


def check(operation: Operation) -> Runner:
    """Stop with the message where the condition fails under the mask, if the run checks assertions."""
    message = str(operation.attributes["message"])
    shape = shape_of(operation.operands[0].type)

    def run(batch: Batch, condition: BatchValue, mask: BatchValue | None = None) -> None:
        if not batch.options.debug:
            return
        failed = ~dense(condition)
        if mask is not None:
            failed = failed & dense(mask)
        if not failed.any():
            return
        row, element = divmod(int(np.argmax(failed)), prod(shape))
        what = f"device assertion failed{f': {message}' if message else ''}"
        if shape:
            what += f"; at index {tuple(map(int, np.unravel_index(element, shape)))} of the tile"
        raise DeviceAssertError(what, operation.location, batch.program(row))

    return run


def nothing(operation: Operation) -> Runner:
    """No effect: a promise changes nothing, and programs run one op at a time, so each barrier is passed together."""
    return lambda batch, *operands: None


DEBUG: dict[str, Prepare] = {
    "print": print_values,
    "assert": check,
    "assume": nothing,
    "barrier": nothing,
}
