"""Comparisons and selections: setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import numerics
from ..rounding import flushed
from ..site import Site
from ..syntax import Operand, Pair, Sink
from ..table import Kernel, Modifiers, Step, pure, step
from ..types import TYPES, Array, PtxType

_INT = "u16|u32|u64|s16|s32|s64"
_BITS = "b16|b32|b64"
_FLOAT = "f16|bf16|f32|f64"
_ORDER = "eq|ne|lt|le|gt|ge"
_UNSIGNED = "lo|ls|hi|hs"
_UNORDERED = "equ|neu|ltu|leu|gtu|geu"
_COMBINE = "[.<combine:and|or|xor>]"

_ORDERED: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_ALIASES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINERS: dict[str, Callable[..., Any]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(operator: str, type_: PtxType, ftz: str) -> Kernel:
    """A comparison of numbers. With a NaN an ordered float comparison is false (`ne` too) and an unordered one true."""
    if type_.kind != "f":
        return _ORDERED[_ALIASES.get(operator, operator)]
    fmt = type_.format

    def kernel(a: Array, b: Array) -> Array:
        x, y = numerics.decode(a, fmt), numerics.decode(b, fmt)
        if ftz:
            x, y = (flushed(v) if fmt == "f32" else numerics.decode(flushed(w), fmt) for v, w in ((x, a), (y, b)))
        nan = np.isnan(x) | np.isnan(y)
        if operator in ("num", "nan"):
            return nan if operator == "nan" else ~nan
        if operator.endswith("u"):
            return _ORDERED[operator[:-1]](x, y) | nan
        return _ORDERED[operator](x, y) & ~nan

    return kernel


def _destinations(operand: Operand) -> tuple[Operand, Operand]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


@step(f"setp.<op:eq|ne>{_COMBINE}.<type:{_BITS}>", "compare")
@step(f"setp.<op:{_ORDER}>{_COMBINE}.<type:{_INT}>", "compare")
@step(f"setp.<op:{_UNSIGNED}>{_COMBINE}.<type:u16|u32|u64>", "compare")
@step(f"setp.<op:{_ORDER}|{_UNORDERED}|num|nan>{_COMBINE}[.ftz].<type:{_FLOAT}>", "compare")
def setp(site: Site) -> Step:
    """p = (a op b) combined with c; q = !(a op b) combined with c."""
    m, pred = site.modifiers, TYPES["pred"]
    site.arity(4 if m["combine"] else 3)
    kernel = comparison(m["op"], TYPES[m["type"]], m.get("ftz", ""))
    if isinstance(site.operands[0], Pair) and m["type"] in ("f16", "bf16"):
        site.fail(f"`{site.instruction.opcode}` has one result")
    first, second = (site.write(target, pred) for target in _destinations(site.operands[0]))
    a, b = (site.read(operand, TYPES[m["type"]]) for operand in site.operands[1:3])
    if not m["combine"] and not isinstance(site.operands[0], Pair):
        return lambda frame, index: first(frame, index, kernel(a(frame, index), b(frame, index)))
    c = site.read(site.operands[3], pred) if m["combine"] else None
    combine = _COMBINERS.get(m["combine"])

    def run(frame: Any, index: Any) -> None:
        found = kernel(a(frame, index), b(frame, index))
        other = ~found
        if combine is not None and c is not None:
            extra = c(frame, index)
            found, other = combine(found, extra), combine(other, extra)
        first(frame, index, found)
        second(frame, index, other)

    return run


@step(f"setp.<op:{_ORDER}|{_UNORDERED}|num|nan>{_COMBINE}[.ftz].<type:f16x2|bf16x2>", "compare")
def setp_packed(site: Site) -> Step:
    """p and q are the comparisons of the two halves."""
    m, pred = site.modifiers, TYPES["pred"]
    site.arity(4 if m["combine"] else 3)
    kernel = comparison(m["op"], TYPES[m["type"]], m["ftz"])
    first, second = (site.write(target, pred) for target in _destinations(site.operands[0]))
    a, b = (site.read(operand, TYPES[m["type"]]) for operand in site.operands[1:3])
    c = site.read(site.operands[3], pred) if m["combine"] else None
    combine = _COMBINERS.get(m["combine"])

    def run(frame: Any, index: Any) -> None:
        found = kernel(a(frame, index), b(frame, index))
        low, high = found[:, 0], found[:, 1]
        if combine is not None and c is not None:
            extra = c(frame, index)
            low, high = combine(low, extra), combine(high, extra)
        first(frame, index, low)
        second(frame, index, high)

    return run


def _set(m: Modifiers) -> Kernel:
    """All ones (1.0 for a float) where the comparison holds, else zero."""
    kernel = comparison(m["op"], TYPES[m["stype"]], m.get("ftz", ""))
    target = TYPES[m["dtype"]]
    carrier = target.carrier
    yes = np.ones(1, target.dtype).view(carrier) if target.kind == "f" else ~np.zeros(1, carrier)
    combine = _COMBINERS.get(m.get("combine", ""))

    def run(a: Array, b: Array, c: Array | None = None) -> Array:
        found = kernel(a, b)
        if combine is not None:
            found = combine(found, c)
        return np.where(found, yes, carrier.type(0))

    return run


def _set_packed(m: Modifiers) -> Kernel:
    """Each half all ones (1.0 for a float) where its comparison holds, else zero."""
    kernel, source, target = comparison(m["op"], TYPES[m["stype"]], m.get("ftz", "")), TYPES[m["stype"]], m["dtype"]
    yes = np.ones(1, source.dtype).view(np.uint16) if target == source.name else np.full(1, 0xFFFF, np.uint16)
    combine = _COMBINERS.get(m.get("combine", ""))

    def run(a: Array, b: Array, c: Array | None = None) -> Array:
        found = kernel(a, b)
        if combine is not None and c is not None:
            found = combine(found, c[:, None])
        return np.where(found, yes, np.uint16(0)).view(np.uint32).reshape(-1)

    return run


_SET_SYNTAXES = (
    f"set.<op:eq|ne>{{0}}.<dtype:u32|s32|f32>.<stype:{_BITS}>",
    f"set.<op:{_ORDER}>{{0}}.<dtype:u32|s32|f32>.<stype:{_INT}>",
    f"set.<op:{_UNSIGNED}>{{0}}.<dtype:u32|s32|f32>.<stype:u16|u32|u64>",
    f"set.<op:{_ORDER}|{_UNORDERED}|num|nan>{{0}}[.ftz].<dtype:u32|s32|f32>.<stype:f32|f64>",
    f"set.<op:{_ORDER}|{_UNORDERED}|num|nan>{{0}}[.ftz].<dtype:u16|s16|u32|s32|f16>.<stype:f16>",
    f"set.<op:{_ORDER}|{_UNORDERED}|num|nan>{{0}}.<dtype:u16|s16|u32|s32|bf16>.<stype:bf16>",
)

_PACKED_SYNTAXES = (
    f"set.<op:{_ORDER}|{_UNORDERED}|num|nan>{{0}}[.ftz].<dtype:f16x2|u32|s32>.<stype:f16x2>",
    f"set.<op:{_ORDER}|{_UNORDERED}|num|nan>{{0}}.<dtype:bf16x2|u32|s32>.<stype:bf16x2>",
)

for _syntaxes, _build in ((_SET_SYNTAXES, _set), (_PACKED_SYNTAXES, _set_packed)):
    for _syntax in _syntaxes:
        pure(_syntax.format(""), "dtype <- stype stype", "compare")(_build)
        pure(_syntax.format(".<combine:and|or|xor>"), "dtype <- stype stype pred", "compare")(_build)


@pure(f"selp.<type:{_BITS}|{_INT}|f32|f64>", "type <- type type pred", "compare")
def selp(m: Modifiers) -> Kernel:
    carrier = TYPES[m["type"]].carrier
    return lambda a, b, p: np.where(p, a.view(carrier), b.view(carrier))


@pure(f"slct.<type:{_BITS}|{_INT}|f32|f64>.<by:s32>", "type <- type type by", "compare")
@pure(f"slct[.ftz].<type:{_BITS}|{_INT}|f32|f64>.<by:f32>", "type <- type type by", "compare")
def slct(m: Modifiers) -> Kernel:
    """The first where the third is not negative (-0.0 and subnormals under .ftz count as 0; NaN picks the second)."""
    carrier, ftz = TYPES[m["type"]].carrier, m.get("ftz", "")
    return lambda a, b, c: np.where((flushed(c) if ftz else c) >= 0, a.view(carrier), b.view(carrier))
