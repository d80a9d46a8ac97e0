"""Structured control flow, calls and terminators.

Only `for`, `while` and `if` branch; their regions are single blocks ended by `yield` (or `condition`). What the source
writes as break, continue or an early return is flags and nested ifs by the time it is IR.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..opdef import Attribute, Attributes, Effect, OpDef, OpTypeError, Trait, register, traits
from ..types import I1, INTS, Type
from .rules import as_requested, no_results

Requested = tuple[Type, ...] | None
END = traits(Trait.TERMINATOR)


def _for(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    if not (types[0] == types[1] == types[2] and types[0] in INTS):
        raise OpTypeError(f"for: bounds and step must be one integer type, not {', '.join(map(str, types[:3]))}")
    return tuple(types[3:])


def _while(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    return tuple(types) if requested is None else requested


def _if(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    _boolean("if", types)
    return requested or ()


def _condition(types: Sequence[Type], attributes: Attributes, requested: Requested) -> tuple[Type, ...]:
    _boolean("condition", types)
    return ()


def _boolean(name: str, types: Sequence[Type]) -> None:
    if types[0] != I1:
        raise OpTypeError(f"{name} takes a scalar i1, not {types[0]}")


FOR = register(OpDef(
    "for", ("start", "stop", "step", "init*"), _for,
    "Run `body` (induction variable, carried values) for start, start + step, ... while below stop (above it for a negative step), carrying what it yields.",
    (
        Attribute("num_stages", int, 0),
        Attribute("unroll", int, 0),
        Attribute("flatten", bool, False),
        Attribute("warp_specialize", bool, False),
        Attribute("disallow_acc_multi_buffer", bool, False),
        Attribute("disable_licm", bool, False),
        Attribute("unsigned", bool, False),
    ),
    ("body",),
))  # fmt: skip
WHILE = register(OpDef(
    "while", ("init*",), _while,
    "Run `before` (carried values), which ends in `condition`; while it holds, run `after` with the values passed on, and go round with what it yields.",
    (Attribute("disable_licm", bool, False),), ("before", "after"),
))  # fmt: skip
IF = register(
    OpDef("if", ("condition",), _if, "Run `then` or `else`; the results are what it yields.", (), ("then", "else"))
)
CALL = register(OpDef(
    "call", ("arguments*",), as_requested, "The results of the device function on the arguments.",
    (Attribute("callee", str),), effect=Effect.READ_WRITE,
))  # fmt: skip
YIELD = register(OpDef("yield", ("values*",), no_results, "End a region with its results.", traits=END))
CONDITION = register(OpDef(
    "condition", ("flag", "values*"), _condition, "End the `before` region of a while: go on if the flag holds.", traits=END,
))  # fmt: skip
RETURN = register(OpDef("return", ("values*",), no_results, "End a function with its results.", traits=END))
