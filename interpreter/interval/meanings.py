"""What each op means on enclosures: of integers and whatever only moves elements the plain meaning, of floats a rule.

A comparison of floats that may come out either way is `OPEN`; it may meet others of its kind (`and`, `or`, `xor`) and
choose between floats, which gives what either side may be. Everything else wants to know, and raises Undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from tilewright.lang import FloatType, IntType, Operation, Value, element_of

from .. import numerics
from ..batch import Batch
from ..meanings import MEANINGS, Runner
from ..meanings.elementwise import applied
from ..meanings.tables import format_of
from ..values import BatchValue, compact, dense, stretched
from .arrays import NEVER, OPEN, Array, exact, hull, pack, unpack
from .comparisons import compare
from .memory import MEMORY, Undecided, certain
from .reductions import extreme, indexed
from .rules import ARITHMETIC, cast, stored
from .sums import dot, sum_along

Prepare = Callable[[Operation], Runner]

#: Ops that only move elements: shape and choice of place say nothing about what the elements are.
MOVES = ("splat", "broadcast", "expand_dims", "reshape", "permute", "join", "split", "hint", "convert_layout")
#: How open conditions meet: (value of a, value of b, where a is open, where b is) -> where the result is.
_OPEN: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "and": lambda a, b, x, y: (x & (b | y)) | (y & (a | x)),
    "or": lambda a, b, x, y: (x & (~b | y)) | (y & (~a | x)),
    "xor": lambda a, b, x, y: x | y,
}


def is_open(value: BatchValue) -> bool:
    """Whether a condition may be undecided in places."""
    return isinstance(value, np.ndarray) and value.dtype == OPEN


def may_stay_open(condition: Value) -> bool:
    """Whether all that happens to a condition is that it meets others and chooses between values."""
    for operation, index in condition.uses:
        if operation.name == "select" and index == 0:
            continue
        if operation.name not in (*_OPEN, *MOVES) or not all(map(may_stay_open, operation.results)):
            return False
    return True


def settled(condition: Array) -> Array:
    """A condition that is open nowhere, as a plain one. Raises Undecided."""
    if condition["open"].any():
        raise Undecided("a comparison that may come out either way")
    return condition["value"]


def by_rule(operation: Operation) -> Runner:
    """Arithmetic and functions."""
    fmt, rule = format_of(operation.result), ARITHMETIC[operation.name]

    def run(batch: Batch, *operands: BatchValue) -> Array:
        def on(*arrays: Array) -> Array:
            return pack(rule(*(unpack(array, fmt) for array in arrays), fmt), fmt)

        return applied(on, *operands)

    return run


def comparison(operation: Operation) -> Runner:
    """`cmp_<predicate>_f`."""
    fmt, predicate = format_of(operation.operands[0]), operation.name.split("_")[1]
    itself = operation.operands[0] is operation.operands[1]
    stays = may_stay_open(operation.result)

    def run(batch: Batch, a: BatchValue, b: BatchValue) -> Array:
        made = applied(lambda x, y: compare(predicate, unpack(x, fmt), unpack(y, fmt), fmt, itself), a, b)
        return made if stays and made["open"].any() else settled(made)

    return run


def conjunction(operation: Operation) -> Runner:
    """`and`, `or` and `xor`, of conditions that may be open too."""
    plain = MEANINGS[operation.name](operation)
    element, rule = element_of(operation.result.type), _OPEN[operation.name]
    function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[operation.name]
    if element != IntType(1):
        return plain

    def on(a: Array, b: Array) -> Array:
        values = [x["value"] if x.dtype == OPEN else x for x in (a, b)]
        flags = [x["open"] if x.dtype == OPEN else np.zeros_like(x) for x in (a, b)]
        out = np.empty(np.broadcast_shapes(a.shape, b.shape), OPEN)
        out["value"], out["open"] = function(*values), rule(*values, *flags)
        return out

    def run(batch: Batch, a: BatchValue, b: BatchValue) -> BatchValue:
        return applied(on, a, b) if is_open(a) or is_open(b) else plain(batch, a, b)

    return run


def select(operation: Operation) -> Runner:
    """`a` where the condition holds, else `b`; of floats what either may be where it is open."""
    is_float = isinstance(element_of(operation.result.type), FloatType)
    plain = MEANINGS["select"](operation)

    def choose(condition: Array, a: Array, b: Array) -> Array:
        if condition.dtype != OPEN:
            return np.where(condition, a, b)
        chosen = np.where(condition["value"], a, b)
        either = np.where(condition["value"], hull(*np.broadcast_arrays(a, b)), hull(*np.broadcast_arrays(b, a)))
        return np.where(condition["open"], either, chosen)

    def run(batch: Batch, condition: BatchValue, a: BatchValue, b: BatchValue) -> BatchValue:
        if is_float:
            return applied(choose, condition, a, b)
        if not is_open(condition):
            return plain(batch, condition, a, b)
        flags = dense(condition)
        if (flags["open"] & (dense(a) != dense(b))).any():
            raise Undecided("a choice between integers by a comparison that may come out either way")
        return plain(batch, flags["value"], a, b)

    return run


def literal(operation: Operation) -> Runner:
    """Constants and `poison`, which depend on nothing."""
    plain = MEANINGS[operation.name](operation)
    element = element_of(operation.result.type)
    if not isinstance(element, FloatType):
        return plain
    return lambda batch: lifted(plain(batch), element.name)


def lifted(value: BatchValue, fmt: str) -> Array:
    """Storage as exact enclosures, with its repetition kept."""
    array = dense(value)
    return stretched(exact(compact(array), fmt), array.shape[1:])


def to_float(operation: Operation) -> Runner:
    """Integers rounded once."""
    plain, fmt = MEANINGS[operation.name](operation), format_of(operation.result)
    return lambda batch, a: lifted(plain(batch, a), fmt)


def to_integer(operation: Operation) -> Runner:
    """Truncated, clamped, NaN to 0; Undecided where the ends of a range do not agree."""
    target, fmt, sign = element_of(operation.result.type), format_of(operation.operands[0]), operation.name == "f_to_s"
    assert isinstance(target, IntType)
    convert = partial(numerics.float_to_int, src_fmt=fmt, width=target.width, signed=sign)

    def on(array: Array) -> Array:
        span = unpack(array, fmt)
        low, high = (convert(stored(key, fmt)) for key in (span.low, span.high))
        if (~span.empty & ((low != high) | ((span.nan != NEVER) & (low != 0)))).any():
            raise Undecided("a cast to an integer that may come out either way")
        return convert(span.value)

    return lambda batch, a: applied(on, a)


def cast_f(operation: Operation) -> Runner:
    """A cast from float to float."""
    source, target = format_of(operation.operands[0]), format_of(operation.result)
    rule = cast(source, target, operation.attributes["rounding"])
    return lambda batch, a: applied(lambda array: pack(rule(unpack(array, source)), target), a)


def bitcast(operation: Operation) -> Runner:
    """The bits of floats must be certain to be read as anything else."""
    plain = MEANINGS["bitcast"](operation)
    source, target = element_of(operation.operands[0].type), element_of(operation.result.type)

    def run(batch: Batch, a: BatchValue) -> BatchValue:
        moved = plain(batch, certain(a, source.name) if isinstance(source, FloatType) else a)
        return lifted(moved, target.name) if isinstance(target, FloatType) else moved

    return run


def unsupported(name: str) -> Prepare:
    """An op that has no rule here, as long as floats take part."""

    def prepare(operation: Operation) -> Runner:
        values: Iterable[Any] = (*operation.operands, *operation.results)
        if any(isinstance(element_of(value.type), FloatType) for value in values):
            raise Undecided(f"{name} of floats has no rule for enclosures")
        return MEANINGS[name](operation)

    return prepare


ENCLOSED: dict[str, Prepare] = {
    **{name: unsupported(name) for name in MEANINGS},
    **{name: MEANINGS[name] for name in (*MOVES, "assert", "assume", "barrier") if name in MEANINGS},
    **dict.fromkeys(ARITHMETIC, by_rule),
    **{f"cmp_{predicate}_f": comparison for predicate in ("eq", "ne", "lt", "le", "gt", "ge")},
    **dict.fromkeys(_OPEN, conjunction),
    **dict.fromkeys(("constant", "poison"), literal),
    **dict.fromkeys(("s_to_f", "u_to_f"), to_float),
    **dict.fromkeys(("f_to_s", "f_to_u"), to_integer),
    "select": select,
    "cast_f": cast_f,
    "bitcast": bitcast,
    "reduce_add_f": sum_along,
    **dict.fromkeys(("reduce_minnum", "reduce_maxnum"), extreme),
    **dict.fromkeys(("argmin_f", "argmax_f"), indexed),
    "dot": dot,
    **MEMORY,
}
