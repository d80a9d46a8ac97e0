"""Prints, asserts, promises and the barrier."""

from __future__ import annotations

from collections.abc import Sequence

from ..opdef import Attribute, Attributes, Effect, OpDef, OpTypeError, Trait, register, traits
from ..types import I1, Type, element_of, shape_of
from .rules import check_mask, no_results

Requested = tuple[Type, ...] | None


def _assert(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    if element_of(types[0]) != I1:
        raise OpTypeError(f"assert takes an i1, not {types[0]}")
    if len(types) > 1:
        check_mask("assert", types[0], types[1])
    return ()


def _assume(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    if types[0] != I1 or shape_of(types[0]):
        raise OpTypeError(f"assume takes a scalar i1, not {types[0]}")
    return ()


PRINT = register(OpDef(
    "print", ("values*",), no_results, "Print the prefix and, for each element, its program, index and value.",
    (Attribute("prefix", str), Attribute("hex", bool, False), Attribute("signed", tuple, (), of=bool)), effect=Effect.OTHER,
))  # fmt: skip
ASSERT = register(OpDef(
    "assert", ("condition", "mask?"), _assert, "Stop the kernel with the message where the condition fails under the mask.",
    (Attribute("message", str),), effect=Effect.OTHER,
))  # fmt: skip
ASSUME = register(OpDef("assume", ("condition",), _assume, "A promise that the condition holds.", effect=Effect.OTHER))
BARRIER = register(OpDef(
    "barrier", (), no_results, "Every thread of the program waits for all; orders their memory accesses.",
    traits=traits(Trait.CONVERGENT), effect=Effect.OTHER,
))  # fmt: skip
