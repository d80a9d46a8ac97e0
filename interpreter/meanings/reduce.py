"""What reductions along an axis and the matrix product mean.

`tf32`: operands are truncated to tf32, as the matrix instructions of the hardware do, and the product of those is the
reference. The three- and six-pass forms (`tf32x3`, `bf16x3`, `bf16x6`) approximate the product of the operands as they
are, so that is their reference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.lang import F32, IntType, Operation, element_of

from .. import numerics
from ..batch import Batch
from ..values import Array, BatchValue, compact, dense
from .elementwise import signed, unsigned
from .tables import Prepare, Runner, format_of, int_attribute

#: (array, axis) -> the array without that axis.
Reduction = Callable[[Array, int], Array]


def along_axis(reduction: Callable[[Operation], Reduction]) -> Prepare:
    """The meaning of an op that reduces the axis in its attributes."""

    def prepare(operation: Operation) -> Runner:
        reduce, axis = reduction(operation), batch_axis(operation)
        return lambda batch, a: reduce(dense(a), axis)

    return prepare


def batch_axis(operation: Operation) -> int:
    """The axis to reduce, counted with the program axis in front."""
    return int_attribute(operation, "axis") + 1


def by_ufunc(ufunc: np.ufunc, view: Callable[[Array], Array] | None = None) -> Prepare:
    """A reduction of integers by an associative ufunc that keeps the type; i1 adds up modulo 2."""

    def reduction(operation: Operation) -> Reduction:
        element = element_of(operation.result.type)
        assert isinstance(element, IntType)
        fold = np.bitwise_xor if ufunc is np.add and element.width == 1 else ufunc

        def reduce(a: Array, axis: int) -> Array:
            values = a if view is None else view(a)
            total = fold.reduce(values, axis=axis, dtype=values.dtype)
            return total.astype(np.bool_) if a.dtype.kind == "b" else total.view(a.dtype)

        return reduce

    return along_axis(reduction)


def sum_of_floats(operation: Operation) -> Reduction:
    """The real sum, rounded once."""
    fmt = format_of(operation.result)
    return lambda a, axis: numerics.sum_along(a, axis, fmt)


def comparable(a: Array, fmt: str) -> Array:
    """Floats widened, their NaNs quiet: beside a signaling one `np.fmin` and `np.fmax` may not see the number."""
    wide = numerics.decode(a, fmt)
    nan = np.isnan(wide)
    return np.where(nan, wide.dtype.type(np.nan), wide) if nan.any() else wide


def extreme_number(ufunc: np.ufunc, sign: Callable[..., Array]) -> Callable[[Operation], Reduction]:
    """The smallest or largest number; NaN only if all are; -0 < +0.

    `sign` tells from the sign bits of the zeros along an axis whether a result of zero is negative.
    """

    def prepare(operation: Operation) -> Reduction:
        fmt = format_of(operation.result)

        @np.errstate(all="ignore")
        def reduce(a: Array, axis: int) -> Array:
            wide = comparable(a, fmt)
            best = ufunc.reduce(wide, axis=axis)
            if (best == 0).any():
                negative = sign(np.signbit(wide), axis=axis, where=wide == 0)
                best = np.where(best == 0, np.where(negative, best.dtype.type(-0.0), best.dtype.type(0.0)), best)
            return numerics.round_to(best, fmt)

        return reduce

    return prepare


def indexed(best: Callable[[Operation], Reduction], view: Callable[[Operation, Array], Array]) -> Prepare:
    """The extreme value and the index of the leftmost element that has it.

    `view` makes the array that is compared. Where nothing equals the extreme value (all are NaN) the index is 0.
    """

    def prepare(operation: Operation) -> Runner:
        reduce, axis = best(operation), batch_axis(operation)

        @np.errstate(invalid="ignore")
        def run(batch: Batch, a: BatchValue) -> tuple[Array, Array]:
            values = dense(a)
            compared = view(operation, values)
            hits = compared == np.expand_dims(reduce(compared, axis), axis)
            index = np.expand_dims(np.argmax(hits, axis=axis), axis)
            picked = np.take_along_axis(values, index, axis)
            return np.squeeze(picked, axis), np.squeeze(index, axis).astype(np.int32)

        return run

    return prepare


def indexed_integers(ufunc: np.ufunc, view: Callable[[Array], Array]) -> Prepare:
    """`indexed` for integers read by `view`."""
    return indexed(lambda operation: lambda a, axis: ufunc.reduce(a, axis=axis), lambda operation, a: view(a))


def indexed_floats(ufunc: np.ufunc) -> Prepare:
    """`indexed` for floats: NaN loses to every number, -0 equals +0."""
    return indexed(
        lambda operation: lambda a, axis: ufunc.reduce(a, axis=axis),
        lambda operation, a: comparable(a, format_of(operation.operands[0])),
    )


def dot(operation: Operation) -> Runner:
    """`acc + a @ b`, rounded once to the type of acc; i8 products add up in i32 and wrap."""
    left, right, total = operation.operands
    if isinstance(element_of(left.type), IntType):
        return lambda batch, a, b, acc: numerics.dot_int(dense(a), dense(b), dense(acc))
    fmt, b_fmt, acc_fmt = format_of(left), format_of(right), format_of(total)
    truncates = element_of(left.type) == F32 and operation.attributes["precision"] == "tf32"

    def run(batch: Batch, a: BatchValue, b: BatchValue, acc: BatchValue) -> Array:
        x, y = dense(a), dense(b)
        if truncates:
            x, y = numerics.round_tf32(x), numerics.round_tf32(y)
        start = dense(acc)
        nothing = start.nbytes > compact(start).nbytes and not compact(start).view(f"u{start.dtype.itemsize}").any()
        return numerics.dot(x, y, None if nothing else start, fmt, acc_fmt, b_fmt=b_fmt)

    return run


REDUCE: dict[str, Prepare] = {
    "reduce_add_i": by_ufunc(np.add),
    "reduce_add_f": along_axis(sum_of_floats),
    "reduce_xor": by_ufunc(np.bitwise_xor),
    "reduce_or": by_ufunc(np.bitwise_or),
    "reduce_min_s": by_ufunc(np.minimum, signed),
    "reduce_min_u": by_ufunc(np.minimum, unsigned),
    "reduce_max_s": by_ufunc(np.maximum, signed),
    "reduce_max_u": by_ufunc(np.maximum, unsigned),
    "reduce_minnum": along_axis(extreme_number(np.fmin, np.any)),
    "reduce_maxnum": along_axis(extreme_number(np.fmax, np.all)),
    "argmin_s": indexed_integers(np.minimum, signed),
    "argmin_u": indexed_integers(np.minimum, unsigned),
    "argmin_f": indexed_floats(np.fmin),
    "argmax_s": indexed_integers(np.maximum, signed),
    "argmax_u": indexed_integers(np.maximum, unsigned),
    "argmax_f": indexed_floats(np.fmax),
    "dot": dot,
}
