"""What the elementwise ops mean: tables from the name of an op to the function on arrays that it is.

Operands reach the function without repetition (extent 1 where a tile is constant), and its result is stretched back,
so work on splats and broadcasts costs what their distinct elements cost. Where a rule of `lazy` applies, affine tiles
and boxes stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.lang import IntType, Operation, bit_width, element_of

from .. import numerics
from ..batch import Batch
from ..values import Affine, Array, BatchValue, Box, compact, dense, storage, stretched
from . import lazy
from .tables import Prepare, Runner, format_of

ArrayFunction = Callable[..., Any]
Rule = Callable[[Any, Any], Any]


def applied(function: ArrayFunction, *operands: BatchValue) -> Array:
    """The function on the operands' distinct elements."""
    arrays = [dense(operand) for operand in operands]
    return stretched(function(*map(compact, arrays)), arrays[0].shape[1:])


def on_arrays(function: ArrayFunction) -> Runner:
    """The meaning of an op that is a function on arrays."""

    def run(batch: Batch, *operands: BatchValue) -> Array:
        return applied(function, *operands)

    return run


def on_integers(function: ArrayFunction, rule: Rule) -> Runner:
    """A binary integer op with a rule for affine tiles."""

    def run(batch: Batch, a: BatchValue, b: BatchValue) -> BatchValue:
        if isinstance(a, Affine) or isinstance(b, Affine):
            left, right = lazy.as_affine(a), lazy.as_affine(b)
            found = None if left is None or right is None else rule(left, right)
            if found is not None:
                return found
        return applied(function, a, b)

    return run


def plain(function: ArrayFunction) -> Prepare:
    """An op that is the same function for every type."""
    return lambda operation: on_arrays(function)


def integers(function: ArrayFunction, rule: Rule) -> Prepare:
    """A binary integer op with a rule for affine tiles."""
    return lambda operation: on_integers(function, rule)


def by_format(function: ArrayFunction) -> Prepare:
    """An op on floats: the function takes the name of the format last."""
    return lambda operation: on_arrays(partial(function, fmt=format_of(operation.operands[0])))


def compared(predicate: str) -> Prepare:
    """A comparison of floats."""

    def prepare(operation: Operation) -> Runner:
        fmt = format_of(operation.operands[0])
        return on_arrays(lambda a, b: numerics.compare(a, b, fmt, predicate))  # type: ignore[arg-type]

    return prepare


def one_bit(on_bits: ArrayFunction, otherwise: ArrayFunction, rule: Rule | None = None) -> Prepare:
    """An integer op that i1, which NumPy would treat as a truth value, needs a function of its own for."""

    def prepare(operation: Operation) -> Runner:
        function = on_bits if bit_width(element_of(operation.result.type)) == 1 else otherwise
        return on_arrays(function) if rule is None else on_integers(function, rule)

    return prepare


def signed(x: Array) -> Array:
    """Storage read as signed; a true i1 is -1."""
    return -x.view(np.int8) if x.dtype.kind == "b" else x


def unsigned(x: Array) -> Array:
    """Storage read as unsigned."""
    return x.view(f"u{x.dtype.itemsize}")


def ordered(ufunc: ArrayFunction, view: Callable[[Array], Array], rule: Rule) -> Prepare:
    """A comparison of integers that are read by `view`."""
    return integers(lambda a, b: ufunc(view(a), view(b)), rule)


def conjunction(operation: Operation) -> Runner:
    """`and`: boxes intersect."""

    def run(batch: Batch, a: BatchValue, b: BatchValue) -> BatchValue:
        if isinstance(a, Box) or isinstance(b, Box):
            left, right = lazy.as_box(a), lazy.as_box(b)
            if left is not None and right is not None:
                return lazy.both(left, right)
        return applied(np.bitwise_and, a, b)

    return run


def select(operation: Operation) -> Runner:
    """`a` where the condition holds, else `b`: bits, moved as integers, so that no NaN changes."""
    dtype = storage(element_of(operation.result.type))
    bits = np.dtype(f"u{dtype.itemsize}")

    def choose(condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition, a.view(bits), b.view(bits)).view(dtype)

    def run(batch: Batch, condition: BatchValue, a: BatchValue, b: BatchValue) -> BatchValue:
        if isinstance(condition, Box) and condition.is_full():
            return a
        return applied(choose, condition, a, b)

    return run


def _keeps_value(operation: Operation, change: Callable[[np.dtype[Any]], ArrayFunction], lowest: int | None) -> Runner:
    """A change of width that leaves affine tiles alone while they fit the new type and are not below `lowest`."""
    target = operation.result.type
    dtype = storage(element_of(target))
    function = change(dtype)

    def run(batch: Batch, a: BatchValue) -> BatchValue:
        if isinstance(a, Affine) and dtype.kind == "i" and (lowest is None or a.minimum >= lowest):
            typed = Affine(a.base, a.strides, a.shape, dtype, a.low, a.high)
            found = lazy.fitted(a.base, a.low, a.high, a.strides, typed)
            if found is not None:
                return found
        return applied(function, a)

    return run


def ext_s(operation: Operation) -> Runner:
    """Widened by copies of the sign bit."""
    return _keeps_value(operation, lambda dtype: lambda a: signed(a).astype(dtype), None)


def ext_u(operation: Operation) -> Runner:
    """Widened by zeros."""
    return _keeps_value(operation, lambda dtype: lambda a: unsigned(a).astype(dtype), 0)


def trunc_i(operation: Operation) -> Runner:
    """The low bits."""
    if bit_width(element_of(operation.result.type)) == 1:
        return on_arrays(lambda a: (a & a.dtype.type(1)).astype(np.bool_))
    return _keeps_value(operation, lambda dtype: lambda a: a.astype(dtype), None)


def int_to_float(sign: bool) -> Prepare:
    """An integer, signed or not, rounded once."""
    return lambda operation: on_arrays(partial(numerics.int_to_float, signed=sign, fmt=format_of(operation.result)))


def float_to_int(sign: bool) -> Prepare:
    """A float truncated and clamped to the range, signed or not."""

    def prepare(operation: Operation) -> Runner:
        target = element_of(operation.result.type)
        assert isinstance(target, IntType)
        source = format_of(operation.operands[0])
        return on_arrays(partial(numerics.float_to_int, src_fmt=source, width=target.width, signed=sign))

    return prepare


def cast_f(operation: Operation) -> Runner:
    """A float rounded once to another format."""
    source, target = format_of(operation.operands[0]), format_of(operation.result)
    mode = "rtz" if operation.attributes["rounding"] == "rtz" else "rtne"
    return on_arrays(partial(numerics.cast, src_fmt=source, dst_fmt=target, mode=mode))


def bitcast(operation: Operation) -> Runner:
    """The same bits under another type; addresses stay as they are."""
    old, new = (storage(element_of(value.type)) for value in (operation.operands[0], operation.result))
    if old == new:
        return lambda batch, a: a
    return on_arrays(lambda a: a.view(new))


def same_address(operation: Operation) -> Runner:
    """A pointer as an integer, and back: both are int64."""
    return lambda batch, a: a


def equal(a: Affine, b: Affine) -> Box | None:
    """`a == b` as a box: at one index, if anywhere."""
    below, above = lazy.less_equal(a, b), lazy.greater_equal(a, b)
    return None if below is None or above is None else lazy.both(below, above)


def never(a: Affine, b: Affine) -> None:
    """The rule of ops that no box can express."""


_xor, _and = np.bitwise_xor, np.bitwise_and

INTEGER: dict[str, Prepare] = {
    "add_i": one_bit(_xor, np.add, lazy.add),
    "sub_i": one_bit(_xor, np.subtract, lazy.sub),
    "mul_i": one_bit(_and, np.multiply, lazy.mul),
    "div_s": integers(numerics.div_s, lazy.div),
    "div_u": integers(numerics.div_u, lazy.nonnegative(lazy.div)),
    "rem_s": integers(numerics.rem_s, lazy.rem),
    "rem_u": integers(numerics.rem_u, lazy.nonnegative(lazy.rem)),
    "mulhi_u": plain(numerics.mulhi_u),
    "mulhi_s": plain(numerics.mulhi_s),
    "and": conjunction,
    "or": plain(np.bitwise_or),
    "xor": plain(np.bitwise_xor),
    "shl": integers(numerics.shl, lazy.shl),
    "shr_s": plain(numerics.shr_s),
    "shr_u": plain(numerics.shr_u),
    "min_s": plain(numerics.min_s),
    "min_u": plain(numerics.min_u),
    "max_s": plain(numerics.max_s),
    "max_u": plain(numerics.max_u),
    "abs_i": one_bit(np.array, np.abs),  # |-1| is 1, and in one bit both are the set bit
}

COMPARE: dict[str, Prepare] = {
    "cmp_eq_i": ordered(np.equal, unsigned, equal),
    "cmp_ne_i": ordered(np.not_equal, unsigned, never),
    "cmp_lt_s": ordered(np.less, signed, lazy.less),
    "cmp_le_s": ordered(np.less_equal, signed, lazy.less_equal),
    "cmp_gt_s": ordered(np.greater, signed, lazy.greater),
    "cmp_ge_s": ordered(np.greater_equal, signed, lazy.greater_equal),
    "cmp_lt_u": ordered(np.less, unsigned, lazy.nonnegative(lazy.less)),
    "cmp_le_u": ordered(np.less_equal, unsigned, lazy.nonnegative(lazy.less_equal)),
    "cmp_gt_u": ordered(np.greater, unsigned, lazy.nonnegative(lazy.greater)),
    "cmp_ge_u": ordered(np.greater_equal, unsigned, lazy.nonnegative(lazy.greater_equal)),
    **{f"cmp_{predicate}_f": compared(predicate) for predicate in ("eq", "ne", "lt", "le", "gt", "ge")},
    "select": select,
}

FLOAT: dict[str, Prepare] = {
    "add_f": by_format(numerics.add),
    "sub_f": by_format(numerics.sub),
    "mul_f": by_format(numerics.mul),
    "div_f": by_format(numerics.div),
    "div_rn": by_format(numerics.div),
    "rem_f": by_format(numerics.rem),
    "fma": by_format(numerics.fma),
    "neg_f": by_format(numerics.neg),
    "abs_f": by_format(numerics.abs_),
    "minnum": by_format(numerics.minnum),
    "maxnum": by_format(numerics.maxnum),
    "minimum": by_format(numerics.minimum),
    "maximum": by_format(numerics.maximum),
    "exp": by_format(numerics.exp),
    "exp2": by_format(numerics.exp2),
    "log": by_format(numerics.log),
    "log2": by_format(numerics.log2),
    "sqrt": by_format(numerics.sqrt),
    "sqrt_rn": by_format(numerics.sqrt),
    "rsqrt": by_format(numerics.rsqrt),
    "sin": by_format(numerics.sin),
    "cos": by_format(numerics.cos),
    "tanh": by_format(numerics.tanh),
    "erf": by_format(numerics.erf),
    "floor": by_format(numerics.floor),
    "ceil": by_format(numerics.ceil),
}

CAST: dict[str, Prepare] = {
    "trunc_i": trunc_i,
    "ext_s": ext_s,
    "ext_u": ext_u,
    "s_to_f": int_to_float(True),
    "u_to_f": int_to_float(False),
    "f_to_s": float_to_int(True),
    "f_to_u": float_to_int(False),
    "cast_f": cast_f,
    "bitcast": bitcast,
    "ptr_to_int": same_address,
    "int_to_ptr": same_address,
}

ELEMENTWISE: dict[str, Prepare] = INTEGER | COMPARE | FLOAT | CAST
