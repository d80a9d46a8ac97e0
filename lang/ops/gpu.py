"""What only GPU IR has: tiles moved from one layout to another, and buffers in shared memory.

A buffer is a tile of stages (its leading dimension), whose layout maps the offset in memory to the tile. To the IR it is
a value: what writes to it gives a new one. The compiler keeps all that descend from one `local_alloc` in the same
memory, so once there is a newer one an older one is not used any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..opdef import Attribute, Attributes, Effect, OpDef, OpTypeError, Trait, register, traits
from ..types import I1, I32, TileType, Type
from .rules import SCRATCH, check_mask, need_one, no_results, placed, pointee_of

Requested = tuple[Type, ...] | None


def _convert_layout(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    (type_,) = types
    if not isinstance(type_, TileType):
        raise OpTypeError(f"convert_layout takes a tile, not {type_}")
    return placed(requested, TileType(type_.shape, type_.element))


def stage_slots(stages: int) -> int:
    """The leading extent of a buffer of so many stages: tile extents are powers of two."""
    return 1 << (stages - 1).bit_length()


def _local_alloc(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    type_, stages = need_one("local_alloc", requested), attributes["stages"]
    if not isinstance(type_, TileType) or len(type_.shape) < 2:
        raise OpTypeError(f"local_alloc makes a tile of at least two dimensions, not {type_}")
    if stages < 1 or type_.shape[0] != stage_slots(stages):
        raise OpTypeError(f"local_alloc: {stages} stages do not make {type_}")
    return (type_,)


def _stage(name: str, buffer: Type, index: Type) -> TileType:
    """One stage of a buffer, in no layout."""
    if not isinstance(buffer, TileType) or len(buffer.shape) < 2:
        raise OpTypeError(f"{name} takes a buffer of at least two dimensions, not {buffer}")
    if index != I32:
        raise OpTypeError(f"{name}: the index is a scalar i32, not {index}")
    return TileType(buffer.shape[1:], buffer.element)


def _same_tile(name: str, type_: Type, stage: TileType) -> None:
    if not isinstance(type_, TileType) or TileType(type_.shape, type_.element) != stage:
        raise OpTypeError(f"{name}: a stage is {stage}, not {type_}")


def _async_copy(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    pointer, buffer, index, enabled, *mask = types
    _same_tile("async_copy", pointee_of("async_copy", pointer), _stage("async_copy", buffer, index))
    if enabled != I1:
        raise OpTypeError(f"async_copy: `enabled` is a scalar i1, not {enabled}")
    if mask:
        check_mask("async_copy", pointer, mask[0])
    return (buffer,)


def _async_wait(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    return tuple(types)


def _local_store(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    buffer, index, tile = types
    _same_tile("local_store", tile, _stage("local_store", buffer, index))
    return (buffer,)


def _local_load(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    stage, first = _stage("local_load", *types), attributes["first"]
    if not first:
        return placed(requested, stage)
    part = need_one("local_load", requested)
    if not isinstance(part, TileType) or part.element != stage.element or len(part.shape) != len(stage.shape):
        raise OpTypeError(f"local_load: part of {stage} is not {part}")
    extents = list(zip(first, part.shape, stage.shape, strict=False))
    if len(first) != len(stage.shape) or any(at % some or not 0 <= at <= all_ - some for at, some, all_ in extents):
        raise OpTypeError(f"local_load: {part} at {first} is no aligned part of {stage}")
    return (part,)


CONVERT_LAYOUT = register(OpDef(
    "convert_layout", ("a",), _convert_layout, "a, held by other registers, lanes and warps.",
    (SCRATCH,), traits=traits(Trait.PURE),
))  # fmt: skip
LOCAL_ALLOC = register(OpDef(
    "local_alloc", (), _local_alloc, "A new buffer of so many stages in shared memory, its content poison.",
    (Attribute("stages", int), SCRATCH),
))  # fmt: skip
ASYNC_COPY = register(OpDef(
    "async_copy", ("pointer", "buffer", "index", "enabled", "mask?"), _async_copy,
    "The buffer with what stands at the addresses in stage `index`, 0 where masked off; the buffer as it is unless enabled.",
    effect=Effect.READ,
))  # fmt: skip
ASYNC_COMMIT = register(OpDef(
    "async_commit", (), no_results, "The copies since the last commit are a group to wait for.", effect=Effect.OTHER,
))  # fmt: skip
ASYNC_WAIT = register(OpDef(
    "async_wait", ("buffers*",), _async_wait, "The buffers, once no more than `pending` groups are on their way.",
    (Attribute("pending", int, 0),), effect=Effect.OTHER,
))  # fmt: skip
LOCAL_STORE = register(
    OpDef("local_store", ("buffer", "index", "tile"), _local_store, "The buffer with the tile in stage `index`.")
)
LOCAL_LOAD = register(OpDef(
    "local_load", ("buffer", "index"), _local_load,
    "Stage `index` of the buffer, or of that the part that begins at `first`, a multiple of its extents.",
    (Attribute("first", tuple, ()),),
))  # fmt: skip
