"""Reductions along one axis, and the matrix product."""

from __future__ import annotations

from collections.abc import Sequence

from ..contracts import EXACT, Contracts, Mma, Sum, Tree
from ..opdef import Attribute, Attributes, OpDef, OpTypeError, Trait, TypeRule, register, traits
from ..types import (
    BF16,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    I8,
    I32,
    INTS,
    ScalarType,
    Type,
    element_of,
    shape_of,
    with_element,
    with_shape,
)
from .rules import SCRATCH, placed

Requested = tuple[Type, ...] | None
AXIS = Attribute("axis", int)
PURE = traits(Trait.PURE)


def without_axis(name: str, type_: Type, axis: int) -> Type:
    """The type with dimension `axis` gone; a scalar when it was the last one."""
    shape = shape_of(type_)
    if not 0 <= axis < len(shape):
        raise OpTypeError(f"{name}: {type_} has no axis {axis}")
    return with_shape(element_of(type_), shape[:axis] + shape[axis + 1 :])


def _reduction(name: str, admitted: Sequence[ScalarType], indexed: bool) -> TypeRule:
    def rule(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
        if element_of(types[0]) not in admitted:
            raise OpTypeError(f"{name} does not take {types[0]}")
        reduced = without_axis(name, types[0], attributes["axis"])
        return placed(requested, reduced, with_element(reduced, I32)) if indexed else placed(requested, reduced)

    return rule


def _simple(name: str, admitted: Sequence[ScalarType], doc: str, contracts: Contracts | None = None) -> OpDef:
    return register(
        OpDef(name, ("a",), _reduction(name, admitted, False), doc, (AXIS, SCRATCH), traits=PURE, contracts=contracts)
    )


def _indexed(name: str, admitted: Sequence[ScalarType], doc: str) -> OpDef:
    ties = Attribute("tie_break_left", bool, True)
    return register(OpDef(name, ("a",), _reduction(name, admitted, True), doc, (AXIS, ties, SCRATCH), traits=PURE))


def _reduce(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    if any(shape_of(t) != shape_of(types[0]) for t in types):
        raise OpTypeError("reduce: the operands differ in shape")
    return placed(requested, *(without_axis("reduce", t, attributes["axis"]) for t in types))


def _dot_element(a: ScalarType, b: ScalarType, acc: ScalarType) -> bool:
    if a in FP8 and b in FP8:
        return acc in (F32, F16)
    return a == b and acc in {F16: (F16, F32), BF16: (F32,), F32: (F32,), F64: (F64,), I8: (I32,)}.get(a, ())  # type: ignore[call-overload]


def _dot(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    a, b, acc = (shape_of(t) for t in types)
    if not (len(a) == len(b) == len(acc) in (2, 3)):
        raise OpTypeError(f"dot takes three tiles of rank 2 or 3, not {', '.join(map(str, types))}")
    if a[:-2] != b[:-2] or a[-1] != b[-2] or acc != (*a[:-1], b[-1]):
        raise OpTypeError(f"dot: shapes {a}, {b} and {acc} do not fit together")
    if not _dot_element(*(element_of(t) for t in types)):
        raise OpTypeError(f"dot does not exist for {', '.join(map(str, types))}")
    return (types[2],)


REDUCE_ADD_I = _simple("reduce_add_i", INTS, "The sum modulo 2^width.")
REDUCE_ADD_F = _simple(
    "reduce_add_f", FLOATS, "The real sum, rounded once (in 8-bit formats to f32, then cast).", Contracts(Sum())
)
REDUCE_XOR = _simple("reduce_xor", INTS, "The bitwise xor of all.")
REDUCE_OR = _simple("reduce_or", INTS, "The bitwise or of all.")
REDUCE_MIN_S = _simple("reduce_min_s", INTS, "The smallest, signed.")
REDUCE_MIN_U = _simple("reduce_min_u", INTS, "The smallest, unsigned.")
REDUCE_MAX_S = _simple("reduce_max_s", INTS, "The largest, signed.")
REDUCE_MAX_U = _simple("reduce_max_u", INTS, "The largest, unsigned.")
REDUCE_MINNUM = _simple("reduce_minnum", FLOATS, "The smallest number; NaN only if all are; -0 < +0.", EXACT)
REDUCE_MAXNUM = _simple("reduce_maxnum", FLOATS, "The largest number; NaN only if all are; -0 < +0.", EXACT)
ARGMIN_S = _indexed("argmin_s", INTS, "The smallest, signed, and its index.")
ARGMIN_U = _indexed("argmin_u", INTS, "The smallest, unsigned, and its index.")
ARGMIN_F = _indexed("argmin_f", FLOATS, "The smallest number and its index; NaN loses to every number; -0 equals +0.")
ARGMAX_S = _indexed("argmax_s", INTS, "The largest, signed, and its index.")
ARGMAX_U = _indexed("argmax_u", INTS, "The largest, unsigned, and its index.")
ARGMAX_F = _indexed("argmax_f", FLOATS, "The largest number and its index; NaN loses to every number; -0 equals +0.")
REDUCE = register(OpDef(
    "reduce", ("operands*",), _reduce,
    "The left fold of the operands along the axis by the region, which takes N accumulated and N next scalars and yields N.",
    (AXIS, Attribute("ordered", bool, True), Attribute("tree", tuple, ()), SCRATCH), ("combine",), PURE, contracts=Contracts(Tree(), {t.name: Tree() for t in FLOATS}),
))  # fmt: skip

#: What the split precisions leave out of each product. Parts are rounded to nearest: the second is at most 2^-11 (tf32)
#: or 2^-8 (bf16) of the whole, the third 2^-16. Left out are the product of two second parts and what two parts do not
#: hold; with three parts, the products of a second and a third.
SPLIT = {"tf32x3": Mma(dropped=2.0**-20), "bf16x3": Mma(dropped=2.0**-14), "bf16x6": Mma(dropped=2.0**-22)}
DOT = register(OpDef(
    "dot", ("a", "b", "acc"), _dot,
    "acc + a @ b: the real-number result rounded once to acc's type; i8 products add up in i32 and wrap.",
    (
        Attribute("precision", str, "ieee", ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")),
        Attribute("max_imprecise", int, 0),
        Attribute("instruction", str, "", ("", "fma", "mma")),
        SCRATCH,
    ),
    traits=PURE, contracts=Contracts(Mma(), {"f64": Sum()}, {t.name: Mma(13, 32) for t in FP8}, SPLIT),
))  # fmt: skip
