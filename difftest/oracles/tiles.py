"""What ops that are not elementwise do to whole tiles: making values, moving elements, reductions and `dot`.

A rule takes the operation and the operands' codes (row-major tuples) and gives the codes of each result. Elements are
moved by explicit index arithmetic, sums and products are exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeAlias

from tilewright.lang import F32, FloatType, Operation, Type, bit_width, byte_width, element_of, shape_of

from ..storage import Codes
from .formats import Real, as_real, decode, encode, is_nan, round_result
from .reals import real_product, real_sum
from .scalars import named_rule, signed

TileRule: TypeAlias = Callable[[Operation, Sequence[Codes]], Sequence[Codes]]
Index: TypeAlias = tuple[int, ...]
#: What matrix instructions keep of an f32 operand of precision tf32, but for a NaN, which stays one.
TF32_MASK = 0xFFFF_E000


def count_of(type_: Type) -> int:
    """How many elements a value has."""
    return math.prod(shape_of(type_))


def indices(shape: Sequence[int]) -> Iterator[Index]:
    """All indices of a shape, row-major."""
    return product(*(range(extent) for extent in shape))


def flat(index: Sequence[int], shape: Sequence[int]) -> int:
    """The row-major number of an index."""
    at = 0
    for i, extent in zip(index, shape, strict=True):
        at = at * extent + i
    return at


def _moved(place: Callable[[Operation, Index], Sequence[int]]) -> TileRule:
    """The result's element at an index is the operand's element at `place`."""

    def rule(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
        source = shape_of(operation.operands[0].type)
        target = shape_of(operation.result.type)
        return (tuple(operands[0][flat(place(operation, index), source)] for index in indices(target)),)

    return rule


def _broadcast(operation: Operation, index: Index) -> Sequence[int]:
    source = shape_of(operation.operands[0].type)
    return [0 if extent == 1 else i for i, extent in zip(index, source, strict=True)]


def _without(operation: Operation, index: Index) -> Sequence[int]:
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    return index[:axis] + index[axis + 1 :]


def _permute(operation: Operation, index: Index) -> Sequence[int]:
    order = operation.attributes["order"]
    assert isinstance(order, tuple)
    return [index[order.index(axis)] for axis in range(len(order))]


def _constant(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    type_, value = operation.result.type, operation.attributes["value"]
    element = element_of(type_)
    if isinstance(element, FloatType):
        assert isinstance(value, float)
        code = encode(as_real(value), element)
    else:
        assert isinstance(value, int)
        code = value & ((1 << bit_width(element)) - 1)
    return ((code,) * count_of(type_),)


def _arange(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    start, end = operation.attributes["start"], operation.attributes["end"]
    assert isinstance(start, int) and isinstance(end, int)
    return (tuple(i & 0xFFFF_FFFF for i in range(start, end)),)


def _join(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    return (tuple(code for pair in zip(*operands, strict=True) for code in pair),)


def _split(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    return operands[0][::2], operands[0][1::2]


def _add_ptr(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    pointer = element_of(operation.operands[0].type)
    step = byte_width(pointer.pointee)  # type: ignore[union-attr]
    width = bit_width(element_of(operation.operands[1].type))
    pairs = zip(*operands, strict=True)
    return (tuple((address + step * signed(offset, width)) % 2**64 for address, offset in pairs),)


def lines(operation: Operation, codes: Codes) -> Iterator[Codes]:
    """The elements along the axis, for each element of the result."""
    shape, axis = shape_of(operation.operands[0].type), operation.attributes["axis"]
    assert isinstance(axis, int)
    for index in indices(shape[:axis] + shape[axis + 1 :]):
        yield tuple(codes[flat((*index[:axis], k, *index[axis:]), shape)] for k in range(shape[axis]))


def _sum(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    fmt = element_of(operation.operands[0].type)
    assert isinstance(fmt, FloatType)
    return (tuple(round_result(real_line_sum(line, fmt), fmt) for line in lines(operation, operands[0])),)


def real_line_sum(line: Codes, fmt: FloatType) -> Real:
    """The real sum of some codes."""
    return real_sum(as_real(decode(code, fmt)) for code in line)


def _folded(scalar: str) -> TileRule:
    """A reduction by an op that is associative and commutative on codes."""

    def rule(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
        combine = named_rule(scalar, element_of(operation.operands[0].type))
        results: list[int] = []
        for line in lines(operation, operands[0]):
            # one element goes through the op too, so that a NaN is canonical whatever the length
            total = combine(line[0], line[0]) if isinstance(element_of(operation.result.type), FloatType) else line[0]
            for code in line[1:]:
                total = combine(total, code)
            results.append(total)
        return (tuple(results),)

    return rule


def _indexed(sign: int, kind: str) -> TileRule:
    """argmin (sign 1) and argmax (sign -1): the first of the best elements, and where it is."""

    def rule(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
        element = element_of(operation.operands[0].type)

        def key(code: int) -> tuple[int, float]:
            """Numbers before NaN, then by value."""
            if isinstance(element, FloatType):
                return (1, 0.0) if is_nan(code, element) else (0, sign * decode(code, element))
            return 0, sign * (signed(code, bit_width(element)) if kind == "s" else code)

        chosen = [min(range(len(line)), key=lambda k: key(line[k])) for line in lines(operation, operands[0])]
        values = [line[k] for line, k in zip(lines(operation, operands[0]), chosen, strict=True)]
        return tuple(values), tuple(chosen)

    return rule


def dot_terms(operation: Operation, operands: Sequence[Codes]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """For each element of the result: the code of acc, and the pairs of codes whose products are summed."""
    left, right, acc = (shape_of(operand.type) for operand in operation.operands)
    for index in indices(acc):
        *batch, i, j = index
        pairs = [
            (operands[0][flat((*batch, i, k), left)], operands[1][flat((*batch, k, j), right)]) for k in range(left[-1])
        ]
        yield operands[2][flat(index, acc)], pairs


def real_dot(acc: int, pairs: Sequence[tuple[int, int]], operation: Operation) -> Real:
    """acc + the sum of the products, as a real number."""
    left, right, out = float_formats(operation)
    cuts = operation.attributes["precision"] == "tf32" and left == F32
    kept = [(_cut(a), _cut(b)) for a, b in pairs] if cuts else pairs
    products = (real_product(decode(a, left), decode(b, right)) for a, b in kept)
    return real_sum((*products, as_real(decode(acc, out))))


def _cut(code: int) -> int:
    """An f32 as tf32."""
    return code if is_nan(code, F32) else code & TF32_MASK


def float_formats(operation: Operation) -> tuple[FloatType, ...]:
    """The formats of the operands, all of them floats."""
    elements = [element_of(operand.type) for operand in operation.operands]
    return tuple(element for element in elements if isinstance(element, FloatType))


def _dot(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    terms = dot_terms(operation, operands)
    out = element_of(operation.result.type)
    if isinstance(out, FloatType):
        return (tuple(encode(real_dot(acc, pairs, operation), out) for acc, pairs in terms),)
    totals = (signed(acc, 32) + sum(signed(a, 8) * signed(b, 8) for a, b in pairs) for acc, pairs in terms)
    return (tuple(total % 2**32 for total in totals),)


def _poison(operation: Operation, operands: Sequence[Codes]) -> Sequence[Codes]:
    return ((0,) * count_of(operation.result.type),)


#: The rules by op.
TILE_RULES: dict[str, TileRule] = {
    "constant": _constant,
    "poison": _poison,
    "arange": _arange,
    "splat": lambda operation, operands: (operands[0] * count_of(operation.result.type),),
    "broadcast": _moved(_broadcast),
    "expand_dims": _moved(_without),
    "reshape": lambda operation, operands: (operands[0],),
    "permute": _moved(_permute),
    "join": _join,
    "split": _split,
    "add_ptr": _add_ptr,
    "hint": lambda operation, operands: (operands[0],),
    "convert_layout": lambda operation, operands: (operands[0],),
    "reduce_add_i": _folded("add_i"),
    "reduce_add_f": _sum,
    "reduce_xor": _folded("xor"),
    "reduce_or": _folded("or"),
    "reduce_min_s": _folded("min_s"),
    "reduce_min_u": _folded("min_u"),
    "reduce_max_s": _folded("max_s"),
    "reduce_max_u": _folded("max_u"),
    "reduce_minnum": _folded("minnum"),
    "reduce_maxnum": _folded("maxnum"),
    "argmin_s": _indexed(1, "s"),
    "argmin_u": _indexed(1, "u"),
    "argmin_f": _indexed(1, "f"),
    "argmax_s": _indexed(-1, "s"),
    "argmax_u": _indexed(-1, "u"),
    "argmax_f": _indexed(-1, "f"),
    "dot": _dot,
}
