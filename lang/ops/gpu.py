"""What only GPU IR has: a tile moved from one layout to another."""

from __future__ import annotations

from collections.abc import Sequence

from ..opdef import Attributes, OpDef, OpTypeError, Trait, register, traits
from ..types import TileType, Type
from .rules import SCRATCH, placed

Requested = tuple[Type, ...] | None


def _convert_layout(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    (type_,) = types
    if not isinstance(type_, TileType):
        raise OpTypeError(f"convert_layout takes a tile, not {type_}")
    return placed(requested, TileType(type_.shape, type_.element))


CONVERT_LAYOUT = register(OpDef(
    "convert_layout", ("a",), _convert_layout, "a, held by other registers, lanes and warps.",
    (SCRATCH,), traits=traits(Trait.PURE),
))  # fmt: skip
