"""Loads and stores, through pointers, tiles of pointers and block pointers."""

from __future__ import annotations

from typing import Any

from ..constants import unwrap
from ..context import current
from ..dtypes import dtype, pointer_type
from ..errors.memory import (
    BlockForScalarPointer,
    FillWithoutMask,
    MaskNotBoolean,
    NotAPointer,
    NotForBlockPointer,
    OnlyForBlockPointer,
    PointerNotBroadcast,
    StoreThroughConst,
)
from ..ops.memory import LOAD, STORE
from ..semantic.core import broadcast_to, common_shape, convert, stretch
from ..values import describe, tensor
from .arguments import choice, flag, is_given, number_or_tensor, operand
from .block_pointers import block_pointer, expand, padding
from .builtin import builtin, member

CACHES = ("", "none", "ca", "cg", "wb", "cs", "wt", "cv")
EVICTIONS = ("", "evict_normal", "evict_first", "evict_last")


@builtin
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> tensor:
    """The values at the addresses of `pointer`: a scalar for a scalar pointer, a tile for a tile of pointers.

    Where `mask` (int1) is false nothing is read and the result is `other`, cast to the element type; without `other`
    nothing may depend on it. Pointers stretch to the mask's shape. Through a block pointer, `boundary_check` names the
    dimensions to check against the array's shape, and `padding_option` ("zero" or "nan") fills what lies outside.
    `cache_modifier` is one of ca, cg, wb, cs, wt, cv (a leading dot is fine), `eviction_policy` one of evict_normal,
    evict_first, evict_last; both are advice. `volatile` forbids to merge or drop the access.
    Raises NotAPointer, MaskNotBoolean, FillWithoutMask, BlockForScalarPointer, IncompatibleShapes, BadChoice and, for
    block pointers, NotForBlockPointer, OnlyForBlockPointer, NanForIntegers.
    """
    attributes = {**_advice("load", cache_modifier, eviction_policy), "volatile": flag("load", "volatile", volatile)}
    if isinstance(pointer, block_pointer):
        _only_pointers("load", mask=mask, other=other)
        fill = padding(pointer, padding_option)
        expansion = expand("load", pointer, boundary_check)
        return _load(expansion.pointers, expansion.mask, None if expansion.mask is None else fill, attributes)
    address = address_of("load", pointer)
    _only_blocks("load", pointer, boundary_check=boundary_check, padding_option=padding_option)
    if other is not None and mask is None:
        raise FillWithoutMask()
    flags = None if mask is None else mask_of("load", mask)
    for argument, value in (("mask", flags), ("other", other)):
        if not address.shape and isinstance(value, tensor) and value.shape:
            raise BlockForScalarPointer(function="load", argument=argument, found=describe(value))
    return _load(address, flags, other, attributes)


def _load(address: tensor, mask: tensor | None, other: Any, attributes: dict[str, Any]) -> tensor:
    shape = common_shape("load", *(x.shape for x in (address, mask, other) if isinstance(x, tensor)))
    operands = [stretch(x, shape) for x in (address, mask) if x is not None]
    element = pointee(address)
    if other is not None:
        operands.append(stretch(convert(number_or_tensor("load", "other", other), element, shape), shape))
    return tensor(current().value(LOAD, [x.handle for x in operands], attributes), element)


@member
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Write `value`, cast to the element type, to the addresses of `pointer` where `mask` (int1) holds.

    Value and mask stretch to the shape of the pointers; pointers never stretch. Through a block pointer,
    `boundary_check` names the dimensions to check against the array's shape; what lies outside is dropped. The
    modifiers are those of `load`. Raises NotAPointer, StoreThroughConst, MaskNotBoolean, PointerNotBroadcast,
    BlockForScalarPointer, IncompatibleShapes, BadChoice, NotForBlockPointer, OnlyForBlockPointer.
    """
    attributes = _advice("store", cache_modifier, eviction_policy)
    flags: tensor | None
    if isinstance(pointer, block_pointer):
        _only_pointers("store", mask=mask)
        writable("store", pointer.base)
        expansion = expand("store", pointer, boundary_check)
        address, flags = expansion.pointers, expansion.mask
    else:
        address = writable("store", address_of("store", pointer))
        _only_blocks("store", pointer, boundary_check=boundary_check)
        flags = None if mask is None else mask_of("store", mask)
    operands = [address, value_for("store", "value", value, address)]
    if flags is not None:
        operands.append(at_pointers("store", "mask", flags, address))
    current().create(STORE, [x.handle for x in operands], attributes)


# --- shared with the atomics ---


def address_of(function: str, pointer: Any) -> tensor:
    """A pointer or a tile of pointers. Raises NotAPointer."""
    if not isinstance(pointer, tensor) or not pointer.dtype.is_ptr():
        raise NotAPointer(function=function, found=describe(pointer))
    return pointer


def pointee(address: tensor) -> dtype:
    """The type of the elements that a pointer points to."""
    assert isinstance(address.dtype, pointer_type)
    return address.dtype.element_ty


def writable(function: str, address: tensor) -> tensor:
    """A pointer that may be written through. Raises StoreThroughConst."""
    if address.dtype.is_const():
        raise StoreThroughConst(function=function, found=describe(address))
    return address


def mask_of(function: str, mask: Any) -> tensor:
    """A mask as int1. Raises MaskNotBoolean."""
    flags = operand(function, "mask", mask)
    if not flags.dtype.is_bool():
        raise MaskNotBoolean(function=function, found=describe(flags))
    return flags


def value_for(function: str, argument: str, value: Any, address: tensor) -> tensor:
    """What goes to the addresses: cast to the element type, at their shape."""
    given = number_or_tensor(function, argument, value)
    shape = () if isinstance(given, tensor) else address.shape
    return at_pointers(function, argument, convert(given, pointee(address), shape), address)


def at_pointers(function: str, argument: str, x: tensor, address: tensor) -> tensor:
    """A value or mask at the shape of the pointers. Raises BlockForScalarPointer, PointerNotBroadcast."""
    if x.shape and not address.shape:
        raise BlockForScalarPointer(function=function, argument=argument, found=describe(x))
    if common_shape(function, x.shape, address.shape) != address.shape:
        raise PointerNotBroadcast(function=function, what=argument, shape=x.shape, pointers=address.shape)
    return broadcast_to(stretch(x, address.shape), address.shape)


def _advice(function: str, cache: Any, eviction: Any) -> dict[str, Any]:
    word = unwrap(cache)
    plain = word.removeprefix(".") if isinstance(word, str) else word
    chosen = choice(function, "cache_modifier", plain, CACHES)
    policy = choice(function, "eviction_policy", eviction, EVICTIONS)
    return {"cache": "" if chosen == "none" else chosen, "eviction": policy}


def _only_pointers(function: str, **arguments: Any) -> None:
    for argument, value in arguments.items():
        if value is not None:
            raise NotForBlockPointer(function=function, argument=argument)


def _only_blocks(function: str, pointer: Any, **arguments: Any) -> None:
    for argument, value in arguments.items():
        if is_given(value):
            raise OnlyForBlockPointer(function=function, argument=argument, found=describe(pointer))
