"""Elements of a tile that change places: reshaping, transposing, joining and splitting, there and back again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TypeAlias

from .maker import NUMERIC, Maker
from .operations import Row, arithmetic
from .source import Expr, Place, Shape, derived

#: From a maker and a tile without holes to the text of a tile of the same shape.
Form: TypeAlias = Callable[[Maker, Expr], str]


def rearranged(maker: Maker, place: Place) -> Expr:
    """Elements that go elsewhere and come back, or change places: of tiles without holes."""
    found = maker.specified(maker.candidates(maker.tile, NUMERIC))
    if not found or place != maker.tile:
        return arithmetic(maker, place)
    a = maker.choices.sample(found)
    made = derived(maker.choices.sample(_forms(a.shape))(maker, a), a.type, a, exact=not a.product)
    return replace(made, product=a.product)


def _forms(shape: Shape) -> list[Form]:
    """The ways to rearrange a tile, all of which give its own shape back."""
    forms: list[Form] = [_flattened]
    if shape[-1] > 1:
        forms += [_halved, _folded]
    if prod(shape) >= 8:
        forms += [_reshaped, _reshaped]
    if len(shape) > 1:
        forms += [_turned, _turned]
    if len(shape) > 1 and shape[-1] == shape[-2]:
        forms.append(lambda maker, a: f"tl.trans({a.text})")
    return forms


def _changed(maker: Maker, text: str) -> str:
    """Something done to each element on the way, which keeps operations from being undone at once."""
    return maker.choices.sample(("{} + 1", "{} * 2", "-({} - 1)")).format(text)


def _flattened(maker: Maker, a: Expr) -> str:
    return f"tl.reshape({_changed(maker, f'tl.reshape({a.text}, ({prod(a.shape)},))')}, {a.shape})"


def _reshaped(maker: Maker, a: Expr) -> str:
    """Through a shape of two or three other extents, perhaps transposed in there: elements change places then."""
    bits = prod(a.shape).bit_length() - 1
    cuts = sorted(maker.choices.integer(0, bits) for _ in range(maker.choices.integer(1, 2)))
    middle = tuple(1 << high - low for low, high in zip((0, *cuts), (*cuts, bits), strict=True))
    text = f"tl.reshape({a.text}, {middle})"
    if maker.choices.boolean(60):
        text = f"tl.permute({text}, {maker.choices.permutation(len(middle))})"
    return f"tl.reshape({_changed(maker, text)}, {a.shape})"


def _turned(maker: Maker, a: Expr) -> str:
    """Axes in another order, and back."""
    order = maker.choices.permutation(len(a.shape))
    back = tuple(order.index(axis) for axis in range(len(order)))
    return f"tl.permute({_changed(maker, f'tl.permute({a.text}, {order})')}, {back})"


def _halved(maker: Maker, a: Expr) -> str:
    """Even and odd elements change places."""
    name, halves = maker.shared.fresh("half"), (*a.shape[:-1], a.shape[-1] // 2, 2)
    maker.text.line(f"{name}_a, {name}_b = tl.split(tl.reshape({a.text}, {halves}))")
    return f"tl.reshape(tl.join({name}_b, {_changed(maker, f'{name}_a')}), {a.shape})"


def _folded(maker: Maker, a: Expr) -> str:
    """Both halves along the last axis change places, as neighbours that are joined."""
    name, halves = maker.shared.fresh("half"), (*a.shape[:-1], 2, a.shape[-1] // 2)
    rank = len(halves)
    order = (*range(rank - 2), rank - 1, rank - 2)
    maker.text.line(f"{name}_a, {name}_b = tl.split(tl.permute(tl.reshape({a.text}, {halves}), {order}))")
    both = maker.choices.sample((f"tl.interleave({name}_b, {name}_a)", f"tl.cat({name}_b, {name}_a, dim={rank - 2})"))
    return both


ROWS: tuple[tuple[Row, int], ...] = ((rearranged, 9),)
