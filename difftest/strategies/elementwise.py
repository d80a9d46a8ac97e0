"""Strategies for the elementwise rows: one signature, one shape, operands of any origin."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.lang import FloatType, IntType, OpDef, ScalarType, bit_width, with_shape

from ..cases import Case
from ..choices import Choices, SplitMix64
from ..oracles.formats import as_real, decode, encode
from ..recipes import raw, special_codes
from .sketch import Sketch


def elementwise(row: OpDef) -> Callable[[Choices], Case]:
    """The strategy for an elementwise row."""

    def strategy(choices: Choices) -> Case:
        sketch = Sketch(row.name, choices)
        operands, result = choices.sample(row.signatures)
        shape = sketch.shape()
        if len(operands) == 1 and _rounds(operands[0], result) and choices.boolean(40):
            codes = near_ties(choices.stream(), operands[0], result, sketch.programs * math.prod(shape))
            values = [sketch.argument(with_shape(operands[0], shape), codes)]
        else:
            values = [sketch.operand(with_shape(element, shape)) for element in operands]
        return sketch.finish([sketch.value(row.name, values, with_shape(result, shape))])

    return strategy


def _rounds(source: ScalarType, target: ScalarType) -> bool:
    """Whether a conversion rounds."""
    return isinstance(target, FloatType) and isinstance(source, FloatType | IntType) and source != target


def near_ties(stream: SplitMix64, source: ScalarType, target: ScalarType, count: int) -> list[int]:
    """Source codes at and just beside the midpoints of neighbouring numbers of the target."""
    assert isinstance(target, FloatType)
    return [_near_tie(stream, source, target) for _ in range(count)]


def _near_tie(stream: SplitMix64, source: ScalarType, target: FloatType) -> int:
    mask = (1 << bit_width(source)) - 1
    code = stream.pick(special_codes(target)) if stream.chance(30) else raw(stream, target)
    low, high = decode(code, target), decode((code + 1) % (1 << target.width), target)
    middle = low / 2 + high / 2
    if not math.isfinite(middle):
        return raw(stream, source)
    step = stream.pick((0, 0, 1, -1))
    if isinstance(source, FloatType):
        return (encode(as_real(middle), source) + step) & mask
    return (math.floor(middle) + step) & mask
