"""Loads, stores and atomics on global memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..contracts import Contracts, Unordered
from ..opdef import Attribute, Attributes, Effect, OpDef, OpTypeError, Trait, register, traits
from ..types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, ScalarType, Type, element_of, shape_of, with_element
from .rules import SCRATCH, check_mask, pointee_of

Requested = tuple[Type, ...] | None

CACHE = Attribute("cache", str, "", ("", "ca", "cg", "wb", "cs", "wt", "cv"))
EVICTION = Attribute("eviction", str, "", ("", "evict_normal", "evict_first", "evict_last"))
SCOPE = Attribute("scope", str, "gpu", ("cta", "gpu", "sys"))
RMW_SEM = Attribute("sem", str, "acq_rel", ("relaxed", "acquire", "release", "acq_rel"))
LOAD_SEM = Attribute("sem", str, "acquire", ("relaxed", "acquire"))
STORE_SEM = Attribute("sem", str, "release", ("relaxed", "release"))

#: What an atomic of each kind admits.
RMW_TYPES: dict[str, tuple[ScalarType, ...]] = {
    "add_i": (I32, I64),
    "add_f": (F16, BF16, F32, F64),
    "min_s": (I32, I64),
    "min_u": (I32, I64),
    "max_s": (I32, I64),
    "max_u": (I32, I64),
    "min_f": (F32, F64),
    "max_f": (F32, F64),
    "and": (I32, I64),
    "or": (I32, I64),
    "xor": (I32, I64),
    "xchg": (I32, I64, F32, F64),
}
CAS_TYPES: tuple[ScalarType, ...] = (I16, I32, I64, F16, BF16, F32, F64)
POLL_TYPES: tuple[ScalarType, ...] = (I16, I32, I64)
ACCESS_TYPES: tuple[ScalarType, ...] = (I1, I8, I16, I32, I64, F16, BF16, F32, F64)


def _load(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    result = pointee_of("load", types[0])
    if len(types) > 1:
        check_mask("load", types[0], types[1])
    if len(types) > 2 and types[2] != result:
        raise OpTypeError(f"load: `other` must be {result}, not {types[2]}")
    return (result,)


def _store(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    _takes("store", types, types[1])
    if len(types) > 2:
        check_mask("store", types[0], types[2])
    return ()


def _takes(name: str, types: Sequence[Type], value: Type, admitted: Sequence[ScalarType] = ()) -> Type:
    """The pointee, which `value` must have, and which must be admitted."""
    pointee = pointee_of(name, types[0])
    if value != pointee:
        raise OpTypeError(f"{name}: a value of {pointee} goes there, not {value}")
    if admitted and element_of(pointee) not in admitted:
        raise OpTypeError(f"{name} does not exist for {element_of(pointee)}")
    return pointee


def _rmw(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    result = _takes(f"atomic_rmw {attributes['kind']}", types, types[1], RMW_TYPES[attributes["kind"]])
    if len(types) > 2:
        check_mask("atomic_rmw", types[0], types[2])
    return (result,)


def _cas(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    _takes("atomic_cas", types, types[1], CAS_TYPES)
    return (_takes("atomic_cas", types, types[2]),)


def _atomic_load(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    result = pointee_of("atomic_load", types[0])
    if len(types) > 1:
        check_mask("atomic_load", types[0], types[1])
    return (_takes("atomic_load", types, result, ACCESS_TYPES),)


def _atomic_store(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    _takes("atomic_store", types, types[1], ACCESS_TYPES)
    if len(types) > 2:
        check_mask("atomic_store", types[0], types[2])
    return ()


def _poll(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    _takes("atomic_poll", types, types[1], POLL_TYPES)
    if len(types) > 2 and (element_of(types[2]) != I64 or shape_of(types[2])):
        raise OpTypeError(f"atomic_poll: the timeout must be a scalar i64, not {types[2]}")
    return (with_element(types[0], I1),)


LOAD = register(OpDef(
    "load", ("pointer", "mask?", "other?"), _load,
    "The values at the addresses where the mask holds; elsewhere `other`, or 0 when there is none.",
    (CACHE, EVICTION, Attribute("volatile", bool, False), SCRATCH), effect=Effect.READ,
))  # fmt: skip
STORE = register(OpDef(
    "store", ("pointer", "value", "mask?"), _store, "Write the values to the addresses where the mask holds.",
    (CACHE, EVICTION), effect=Effect.WRITE,
))  # fmt: skip
ATOMIC = traits(Trait.YIELDS)
ATOMIC_RMW = register(OpDef(
    "atomic_rmw", ("pointer", "value", "mask?"), _rmw,
    "Replace each value at its address by its combination with `value`, indivisibly; the old value (0 where masked off).",
    (Attribute("kind", str, choices=tuple(RMW_TYPES)), RMW_SEM, SCOPE, SCRATCH), traits=ATOMIC, effect=Effect.READ_WRITE,
    contracts=Contracts(Unordered(), ftz=True),  # atom.add.f32 flushes subnormals in global memory
))  # fmt: skip
ATOMIC_CAS = register(OpDef(
    "atomic_cas", ("pointer", "expected", "value"), _cas,
    "Replace the value at each address by `value` if its bits are `expected`'s, indivisibly; the old value.",
    (RMW_SEM, SCOPE, SCRATCH), traits=ATOMIC, effect=Effect.READ_WRITE, contracts=Contracts(Unordered()),
))  # fmt: skip
ATOMIC_LOAD = register(OpDef(
    "atomic_load", ("pointer", "mask?"), _atomic_load, "The values, each read indivisibly; 0 where masked off.",
    (LOAD_SEM, SCOPE, SCRATCH), traits=ATOMIC, effect=Effect.READ, contracts=Contracts(Unordered()),
))  # fmt: skip
ATOMIC_STORE = register(OpDef(
    "atomic_store", ("pointer", "value", "mask?"), _atomic_store, "Write the values, each indivisibly.",
    (STORE_SEM, SCOPE), traits=ATOMIC, effect=Effect.WRITE, contracts=Contracts(Unordered()),
))  # fmt: skip
ATOMIC_POLL = register(OpDef(
    "atomic_poll", ("pointer", "expected", "timeout?"), _poll,
    "Read each address until its value is the expected one; false where `timeout` nanoseconds passed first.",
    (LOAD_SEM, SCOPE, SCRATCH), traits=ATOMIC, effect=Effect.READ, contracts=Contracts(Unordered()),
))  # fmt: skip
