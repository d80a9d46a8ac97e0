"""Atomics: many lanes meet at few addresses, or each has one of its own."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..recipes import draw_codes, moderate
from .accesses import Kernel, given
from .arrays import Parameter, drawn_skip
from .numbers import FLOAT32, FLOAT64, INT1, INT32, INT64, INTEGERS, UINT32, UINT64, Number, literal
from .operations import condition
from .source import Expr, Place

SEMANTICS = ("", "", ', sem="relaxed"', ', sem="acq_rel", scope="cta"', ', sem="release", scope="sys"')
_KINDS: dict[str, tuple[Number, ...]] = {
    "add": (INT32, INT64, UINT32, UINT64, FLOAT32, FLOAT64),
    "max": (INT32, UINT32, INT64, FLOAT32),
    "min": (INT32, UINT64, INT64, FLOAT64),
    "and": (INT32, UINT64),
    "or": (INT32, INT64),
    "xor": (UINT32, INT64),
}


def atomic(kernel: Kernel) -> None:
    """Many lanes meet at few addresses; nobody sees in which order."""
    if kernel.shared.stores <= 0:
        return
    kernel.shared.stores -= 1
    kind = kernel.choices.sample(tuple(_KINDS))
    type_, size = kernel.choices.sample(_KINDS[kind]), kernel.choices.sample((4, 1, 16))
    place = kernel.place()
    index, value = spread(kernel.integer(place), place), kernel.pick(place, INTEGERS)
    text = f"({value.operand} & 7).to({type_})" if type_.is_float else value.cast(type_).text
    mask = condition(kernel, place) if place.shape and kernel.choices.boolean(40) else Expr("", INT1)
    holes = index.holes or value.holes or mask.holes
    if holes and place != kernel.tile:
        return
    parts = ["inside"] * holes + [f"({mask.text})"] * bool(mask.shape)
    array = counted(kernel, type_, size)
    where = f"{array.name} + ({index.operand} & {size - 1})"
    semantics = kernel.choices.sample(SEMANTICS)
    kernel.text.line(f"tl.atomic_{kind}({where}, {text}{given(mask=' & '.join(parts))}{semantics})")


def spread(value: Expr, place: Place) -> Expr:
    """The value in all elements of a place."""
    if value.shape == place.shape:
        return value
    return replace(value, text=f"tl.broadcast_to({value.text}, {place.shape})", shape=place.shape, axis=place.axis)


def counted(kernel: Kernel, type_: Number, size: int) -> Parameter:
    """An array for atomics: small whole numbers, of which sums are exact."""
    name = kernel.shared.fresh("total")
    codes = (0,) * size if type_.is_float else draw_codes(kernel.choices, type_.element, size, ((moderate, 1),))
    kernel.parameters.append(Parameter(name, type_, codes, skipped=drawn_skip(kernel.choices)))
    return kernel.parameters[-1]


def private_atomic(kernel: Kernel) -> None:
    """Each lane at an address of its own, so that what it finds there is known. (Additions of floats may flush.)"""
    if kernel.shared.arrays <= 0:
        return
    type_ = kernel.choices.sample((INT32, UINT32, INT64, FLOAT32))
    kind = kernel.choices.sample(("xchg", "max", "cas") if type_.is_float else ("add", "xchg", "max", "cas"))
    count, lane = prod(kernel.shape), kernel.lane
    array = kernel.input(kernel.frame.programs * count, type_)
    found = kernel.specified(kernel.candidates(kernel.tile, (type_.kind,), exact=True))
    value = kernel.choices.sample(found).cast(type_).text if found else literal(kernel.choices, type_)
    expected = f"tl.full({kernel.shape}, {literal(kernel.choices, type_)}, {type_}), " if kind == "cas" else ""
    semantics = kernel.choices.sample(SEMANTICS)
    text = f"tl.atomic_{kind}({array.name} + pid * {count} + {lane}, {expected}{value}{semantics})"
    kernel.let(Expr(text, type_, kernel.shape))
