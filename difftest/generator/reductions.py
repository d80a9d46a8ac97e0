"""Reductions: along one axis and broadcast back, or along more of them to vectors and scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from .maker import NUMERIC, Maker
from .numbers import (
    BOOL,
    FLOAT,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT,
    INT32,
    INT64,
    INTEGERS,
    UINT,
    UINT32,
    Number,
)
from .operations import Row, arithmetic
from .source import Expr, Place

#: Over how many elements floats are combined by functions whose results depend on the bracketing: as the third power
#: of the extent, over six, for each line of elements. All bracketings are tried then.
MOST_PAIRS = 1 << 14
#: The longest axis for users' functions, which the reference folds from the left.
LONGEST = 128


def summed(type_: Number) -> Number:
    """The type in which elements add up."""
    if type_.is_float or type_.bits >= 32:
        return type_
    return INT32 if type_.kind == INT else UINT32


def compared(type_: Number) -> Number:
    """The type of the largest and smallest element."""
    if type_.bits >= 32:
        return type_
    return FLOAT32 if type_.is_float else INT32


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction that `tl` has: the kinds of elements that it takes, the type of its result, and whether that is the
    same in every order of exact elements."""

    name: str
    kinds: tuple[str, ...]
    result: Callable[[Number], Number]
    exact: bool = True


_FOLDS: tuple[tuple[Fold, int], ...] = (
    (Fold("sum", (FLOAT, INT, UINT, BOOL), summed, exact=False), 8),
    (Fold("max", NUMERIC, compared), 4),
    (Fold("min", NUMERIC, compared), 4),
    (Fold("argmax", NUMERIC, lambda type_: INT32), 3),
    (Fold("argmin", NUMERIC, lambda type_: INT32), 3),
    (Fold("xor_sum", (INT, UINT, BOOL), lambda type_: type_), 2),
    (Fold("reduce_or", (INT, UINT, BOOL), lambda type_: type_), 2),
)


def reduced(maker: Maker, place: Place) -> Expr:
    """A fold that `tl` has: of a tile without holes, along the axes that the place lacks."""
    fold = maker.choices.weighted(_FOLDS)
    indexed = fold.name.startswith("arg")
    found = maker.specified(maker.candidates(maker.tile, fold.kinds, exact=indexed))
    if not found:
        return arithmetic(maker, place)
    made = replace(maker.choices.sample(found), product=False)
    axes, kept = _axes(maker, place)
    if not indexed and place.shape == () and maker.choices.boolean(60):
        return _along(made, fold, None, False)
    for number, axis in enumerate(axes):
        step = fold if not number else _then(made.type, fold)
        made = _step(maker, made, step, axis, kept)
    return replace(made, axis=place.axis if not kept else None)


def _axes(maker: Maker, place: Place) -> tuple[list[int], bool]:
    """The axes to reduce, the last first, and whether they stay with extent 1."""
    rank = len(maker.shape)
    if place == maker.tile:
        return [maker.choices.integer(0, rank - 1)], True
    return [axis for axis in reversed(range(rank)) if axis != place.axis], False


def _then(type_: Number, fold: Fold) -> Fold:
    """The fold along a further axis: another one where this one does not go on."""
    return fold if type_.kind in fold.kinds and not fold.name.startswith("arg") else _FOLDS[0][0]


def _step(maker: Maker, a: Expr, fold: Fold, axis: int, keep: bool) -> Expr:
    """One axis; of an extreme perhaps the index too, which is another variable."""
    if fold.name not in ("max", "min") or not a.exact or not maker.choices.boolean(30):
        return _along(a, fold, axis, keep, _wider(maker, a, fold))
    best, where = maker.shared.fresh("best"), maker.shared.fresh("where")
    options = ", return_indices=True" + (", keep_dims=True" if keep else "")
    maker.text.line(f"{best}, {where} = tl.{fold.name}({a.text}, {axis}{options})")
    shape = _left(a.shape, axis, keep)
    return Expr(*maker.choices.sample(((best, a.type), (where, INT32))), shape)


def _wider(maker: Maker, a: Expr, fold: Fold) -> Number | None:
    """The type that a sum is asked to add up in, seldom."""
    if fold.name != "sum" or not maker.choices.boolean(15):
        return None
    return maker.choices.sample((FLOAT32, FLOAT64, FLOAT16)) if a.type.is_float else INT64


def _along(a: Expr, fold: Fold, axis: int | None, keep: bool, type_: Number | None = None) -> Expr:
    """A fold along one axis, or of everything."""
    options = ("" if axis is None else f", {axis}") + (", keep_dims=True" if keep else "")
    options += f", dtype={type_}" if type_ is not None else ""
    result = type_ or fold.result(a.type)
    shape = () if axis is None else _left(a.shape, axis, keep)
    exact = a.exact and (fold.exact or not a.type.is_float)
    return Expr(f"tl.{fold.name}({a.text}{options})", result, shape, None, exact)


def _left(shape: tuple[int, ...], axis: int, keep: bool) -> tuple[int, ...]:
    return (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])


# --- users' functions ---


@dataclass(frozen=True, slots=True)
class Combination:
    """An associative function of pairs of tuples: what it returns, for the accumulated a0, a1, ... and the next b0, b1.

    kinds: of each operand; operands of one kind have one type. ordered: whether floats depend on the bracketing.
    """

    returns: str
    kinds: tuple[tuple[str, ...], ...]
    rounds: bool = False


_ANY = (FLOAT, INT, UINT)
_COMBINATIONS: tuple[tuple[Combination, int], ...] = (
    (Combination("a0 + b0", (_ANY,), rounds=True), 2),
    (Combination("a0 * b0", (_ANY,), rounds=True), 2),
    (Combination("tl.maximum(a0, b0)", (_ANY,)), 2),
    (Combination("tl.where(a0 != 0, a0, b0)", (INTEGERS,)), 3),
    (Combination("b0", (_ANY,)), 1),
    (Combination("a0 * b0, a1 * b0 + b1", (_ANY, _ANY), rounds=True), 6),
    (Combination("tl.where(b0 > a0, b0, a0), tl.where(b0 > a0, b1, a1)", (INTEGERS, _ANY)), 4),
    (Combination("tl.where(b0 >= a0, b0, a0), tl.where(b0 >= a0, b1, a1)", (INTEGERS, _ANY)), 2),
    (Combination("tl.minimum(a0, b0), tl.maximum(a1, b1)", (_ANY, _ANY)), 2),
    (Combination("a0 * b0 - a1 * b1, a0 * b1 + a1 * b0", ((FLOAT,), (FLOAT,)), rounds=True), 2),
    (Combination("a0 + b0, tl.maximum(a1, b1), a2 ^ b2", (INTEGERS, INTEGERS, INTEGERS)), 3),
)


def combined(maker: Maker, place: Place) -> Expr:
    """`tl.reduce` of one to three tiles by a function of the user's."""
    axes, kept = _axes(maker, place)
    combination = maker.choices.weighted(_COMBINATIONS)
    operands = _operands(maker, combination, axes)
    if operands is None or any(maker.shape[axis] > LONGEST for axis in axes):
        return reduced(maker, place)
    name = _function(maker, combination, len(operands))
    exact = [a.exact and not (a.type.is_float and combination.rounds) for a in operands]
    for axis in axes:
        shape = _left(operands[0].shape, axis, kept)
        names = [maker.shared.fresh("r") for _ in operands]
        given = ", ".join(a.text for a in operands)
        options = ", keep_dims=True" if kept else ""
        tuples = f"({given})" if len(operands) > 1 else given
        maker.text.line(f"{', '.join(names)} = tl.reduce({tuples}, {axis}, {name}{options})")
        operands = [Expr(n, a.type, shape, None, e) for n, a, e in zip(names, operands, exact, strict=True)]
    return replace(maker.choices.sample(operands), axis=place.axis if not kept else None)


def _operands(maker: Maker, combination: Combination, axes: Sequence[int]) -> list[Expr] | None:
    """Tiles to combine; None where there are none that fit."""
    few = _is_short(maker, axes)
    chosen: list[Expr] = []
    for kinds in combination.kinds:
        if chosen and kinds == combination.kinds[0]:
            chosen.append(_like(maker, chosen[0]))
            continue
        kinds = tuple(kind for kind in kinds if kind != FLOAT or few)
        found = maker.specified(maker.candidates(maker.tile, kinds)) if kinds else []
        if not found:
            return None
        chosen.append(_plain(maker.choices.sample(found)))
    return chosen


def _is_short(maker: Maker, axes: Sequence[int]) -> bool:
    """Whether all bracketings of floats can be tried."""
    lines = prod(maker.shape) * maker.shared.programs
    return all(maker.shape[axis] ** 2 // 6 * lines <= MOST_PAIRS for axis in axes)


def _plain(a: Expr) -> Expr:
    """A tile of a type that arithmetic keeps."""
    a = replace(a, product=False)
    return a.cast(FLOAT16) if a.type.is_float and a.type.bits == 8 else a


def _like(maker: Maker, a: Expr) -> Expr:
    """Another tile of the same type."""
    found = maker.specified(maker.candidates(maker.tile, (a.type.kind,)))
    return replace(maker.choices.sample(found).cast(a.type), product=False) if found else a


def _function(maker: Maker, combination: Combination, count: int) -> str:
    """The name of a new function."""
    name = maker.shared.fresh("fold")
    parameters = ", ".join(f"{side}{number}" for side in "ab" for number in range(count))
    maker.shared.functions.append(f"@tilewright.jit\ndef {name}({parameters}):\n    return {combination.returns}")
    return name


ROWS: tuple[tuple[Row, int], ...] = ((reduced, 20), (combined, 9))
