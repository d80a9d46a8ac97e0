"""Atomic operations on global memory.

`sem` is one of relaxed, acquire, release and acq_rel (the default, but acquire for loads and release for stores);
`scope` one of cta, gpu (the default) and sys. Values are cast to the element type and stretched to the pointers'
shape, masks too; the result is the old value, 0 where masked off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..context import current
from ..dtypes import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    show,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ..errors.memory import AtomicType
from ..errors.operations import MismatchedTypes
from ..ops.memory import ATOMIC_CAS, ATOMIC_LOAD, ATOMIC_POLL, ATOMIC_RMW, ATOMIC_STORE
from ..semantic import cast
from ..semantic.core import convert
from ..values import describe, tensor
from .arguments import choice, number_or_tensor, operand
from .builtin import member
from .memory import address_of, at_pointers, mask_of, pointee, value_for, writable

SCOPES = ("cta", "gpu", "sys")
UPDATES = ("relaxed", "acquire", "release", "acq_rel")
READS = ("relaxed", "acquire")
WRITES = ("relaxed", "release")

SIGNED = (int32, int64)
UNSIGNED = (uint32, uint64)
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (float32, float64)
#: The kinds of the `atomic_rmw` row by function and element type.
KINDS: dict[str, Mapping[dtype, str]] = {
    "atomic_add": dict.fromkeys(INTEGERS, "add_i") | dict.fromkeys((float16, bfloat16, *FLOATS), "add_f"),
    "atomic_max": dict.fromkeys(SIGNED, "max_s") | dict.fromkeys(UNSIGNED, "max_u") | dict.fromkeys(FLOATS, "max_f"),
    "atomic_min": dict.fromkeys(SIGNED, "min_s") | dict.fromkeys(UNSIGNED, "min_u") | dict.fromkeys(FLOATS, "min_f"),
    "atomic_and": dict.fromkeys(INTEGERS, "and"),
    "atomic_or": dict.fromkeys(INTEGERS, "or"),
    "atomic_xor": dict.fromkeys(INTEGERS, "xor"),
    "atomic_xchg": dict.fromkeys((*INTEGERS, *FLOATS), "xchg"),
}  # fmt: skip
POLLED = (int16, uint16, *INTEGERS)
COMPARED = (*POLLED, float16, bfloat16, *FLOATS)
ACCESSED = (int1, int8, uint8, *COMPARED)


def _ordering(function: str, sem: Any, scope: Any, sems: Sequence[str]) -> dict[str, str]:
    return {
        "sem": sems[-1] if sem is None else choice(function, "sem", sem, sems),
        "scope": "gpu" if scope is None else choice(function, "scope", scope, SCOPES),
    }


def _checked(function: str, address: tensor, admitted: Sequence[dtype]) -> dtype:
    element = pointee(address)
    if element not in admitted:
        raise AtomicType(function=function, found=show(element), expected=", ".join(map(show, admitted)))
    return element


def _masked(function: str, operands: list[tensor], mask: Any) -> list[tensor]:
    if mask is None:
        return operands
    return [*operands, at_pointers(function, "mask", mask_of(function, mask), operands[0])]


def _update(function: str, pointer: Any, val: Any, mask: Any, sem: Any, scope: Any) -> tensor:
    address = writable(function, address_of(function, pointer))
    kinds = KINDS[function]
    element = _checked(function, address, tuple(kinds))
    operands = _masked(function, [address, value_for(function, "val", val, address)], mask)
    attributes = {"kind": kinds[element], **_ordering(function, sem, scope, UPDATES)}
    return tensor(current().value(ATOMIC_RMW, [x.handle for x in operands], attributes), element)


@member
def atomic_add(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Add to the value at each address; the old value. For integers of 32 and 64 bits and floats of 16 to 64.

    Raises AtomicType, NotAPointer, StoreThroughConst, MaskNotBoolean, PointerNotBroadcast, BadChoice.
    """
    return _update("atomic_add", pointer, val, mask, sem, scope)


@member
def atomic_max(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replace the value at each address by the larger; the old value. For integers and floats of 32 and 64 bits.

    Floats order as their bits do: -0.0 below 0.0, NaN beyond infinity on the side of its sign.
    Raises what atomic_add does.
    """
    return _update("atomic_max", pointer, val, mask, sem, scope)


@member
def atomic_min(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replace the value at each address by the smaller; the old value. Types, order and errors are atomic_max's."""
    return _update("atomic_min", pointer, val, mask, sem, scope)


@member
def atomic_and(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replace the value at each address by its bits and `val`'s; the old value. For integers of 32 and 64 bits.

    Raises what atomic_add does.
    """
    return _update("atomic_and", pointer, val, mask, sem, scope)


@member
def atomic_or(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replace the value at each address by its bits or `val`'s; the old value. For integers of 32 and 64 bits.

    Raises what atomic_add does.
    """
    return _update("atomic_or", pointer, val, mask, sem, scope)


@member
def atomic_xor(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replace the value at each address by its bits xor `val`'s; the old value. For integers of 32 and 64 bits.

    Raises what atomic_add does.
    """
    return _update("atomic_xor", pointer, val, mask, sem, scope)


@member
def atomic_xchg(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replace the value at each address; the old value. For integers and floats of 32 and 64 bits.

    Raises what atomic_add does.
    """
    return _update("atomic_xchg", pointer, val, mask, sem, scope)


@member
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> tensor:
    """Replace the value at each address by `val` where its bits are `cmp`'s; the old value, whether replaced or not.

    For types of 16, 32 and 64 bits. Tensors must have the element type and the pointers' shape already: neither is
    cast or stretched; numbers take the element type. Raises MismatchedTypes and what atomic_add does.
    """
    address = writable("atomic_cas", address_of("atomic_cas", pointer))
    element = _checked("atomic_cas", address, COMPARED)
    operands = [address, _exact("cmp", cmp, address), _exact("val", val, address)]
    attributes = _ordering("atomic_cas", sem, scope, UPDATES)
    return tensor(current().value(ATOMIC_CAS, [x.handle for x in operands], attributes), element)


def _exact(argument: str, value: Any, address: tensor) -> tensor:
    element = pointee(address)
    given = number_or_tensor("atomic_cas", argument, value)
    if not isinstance(given, tensor):
        return convert(given, element, address.shape)
    if given.dtype != element or given.shape != address.shape:
        raise MismatchedTypes(
            function="atomic_cas",
            a=describe(address),
            b=describe(given),
            expected=f"`{argument}` of the pointer's element type and shape",
        )
    return given


@member
def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The values at the addresses, each read indivisibly; 0 where masked off. For all types but 8-bit floats.

    `sem` is acquire (the default) or relaxed. Raises AtomicType, NotAPointer, MaskNotBoolean, BadChoice.
    """
    address = address_of("atomic_load", pointer)
    element = _checked("atomic_load", address, ACCESSED)
    operands = _masked("atomic_load", [address], mask)
    attributes = _ordering("atomic_load", sem, scope, READS)
    return tensor(current().value(ATOMIC_LOAD, [x.handle for x in operands], attributes), element)


@member
def atomic_store(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> None:
    """Write the values to the addresses, each indivisibly. For all types but 8-bit floats.

    `sem` is release (the default) or relaxed. Raises what atomic_add does.
    """
    address = writable("atomic_store", address_of("atomic_store", pointer))
    _checked("atomic_store", address, ACCESSED)
    operands = _masked("atomic_store", [address, value_for("atomic_store", "val", val, address)], mask)
    current().create(ATOMIC_STORE, [x.handle for x in operands], _ordering("atomic_store", sem, scope, WRITES))


@member
def atomic_poll(
    pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None
) -> tensor:
    """Read each address until its value is the expected one: int1, false where `timeout_ns` nanoseconds passed first.

    At least one read is made. For integers of 16, 32 and 64 bits. `sem` is acquire (the default) or relaxed.
    Raises AtomicType, NotAPointer, PointerNotBroadcast, BadChoice.
    """
    address = address_of("atomic_poll", pointer)
    _checked("atomic_poll", address, POLLED)
    operands = [address, value_for("atomic_poll", "expected_value", expected_value, address)]
    if timeout_ns is not None:
        operands.append(cast(operand("atomic_poll", "timeout_ns", timeout_ns), int64))
    attributes = _ordering("atomic_poll", sem, scope, READS)
    return tensor(current().value(ATOMIC_POLL, [x.handle for x in operands], attributes), int1)
