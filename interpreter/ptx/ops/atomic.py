"""Atomic operations: atom (with the old value) and red (without).

Where several threads meet at one address they take turns in the order of their numbers. Scope and semantics change
nothing here: each instruction is done by all its threads before the next. f32 additions flush subnormals in global
memory and keep them in shared memory, as hardware does, wherever a generic address leads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ... import numerics
from ...memory import Buffer
from ..access import access_of
from ..frame import Frame, Index, spread
from ..nans import propagating
from ..rounding import flushed
from ..site import Read, Site, bits_type
from ..spaces import Cells, gathered, update
from ..syntax import Sink
from ..table import Step, step
from ..types import TYPES, Array, PtxType
from .memory import address_operand, address_reader, elements

_SEM = "[.<sem:relaxed|acquire|release|acq_rel>][.<scope:cta|cluster|gpu|sys>]"
_RED_SEM = "[.<sem:relaxed|release>][.<scope:cta|cluster|gpu|sys>]"
_SPACE = "[.<space:global|shared::cta|shared::cluster|shared>]"

Combine = Callable[[Array, Array], Array]


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, np.uint32(0), old + np.uint32(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - np.uint32(1))


_INTEGER: dict[str, Any] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "inc": _increment,
    "dec": _decrement,
}
_UNORDERED = ("add", "and", "or", "xor", "min", "max")
_ONE_WAY = ("and", "or", "min", "max")
_FLOAT = {"add": numerics.add, "min": numerics.minnum, "max": numerics.maxnum}


def combiner(op: str, type_: PtxType, flush: bool) -> Combine:
    """old, operand -> new."""
    if op == "exch":
        return lambda old, b: b
    if type_.kind != "f":
        return _INTEGER[op]
    operation, fmt = _FLOAT[op], type_.format
    if fmt == "f64":  # in shared memory it is done by `add.f64`; elsewhere the memory adds, and leaves NaNs signaling
        return propagating(partial(operation, fmt=fmt), (1, 0) if flush else (0, 1), quiet=not flush)
    if flush and fmt == "f32" and op == "add":
        return lambda old, b: flushed(operation(flushed(old), flushed(b), fmt))
    return lambda old, b: operation(old, b, fmt)


def _turns(position: Array) -> list[Array]:
    """The accesses in turns: in each no element is touched twice, and each element's accesses keep their order."""
    if not len(position):
        return []
    order = np.argsort(position, kind="stable")
    ranked = position[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=ranked[0] - 1))
    rank = np.arange(len(ranked)) - np.repeat(starts, np.diff(np.append(starts, len(ranked))))
    turns = int(rank.max()) + 1
    if turns == 1:
        return [order]
    by_rank = np.argsort(rank, kind="stable")
    return [order[part] for part in np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])]


def apply(
    view: Array, position: Array, values: tuple[Array, ...], combine: Callable[..., Array], type_: PtxType
) -> Array:
    """Combine elements with values, turn by turn; the old elements, as bits."""
    old = np.empty(len(position), view.dtype)
    for turn in _turns(position):
        at = position[turn]
        before = view[at]
        old[turn] = before
        new = combine(type_.read(before), *(type_.read(v[turn]) for v in values))
        view[at] = type_.write(np.ascontiguousarray(new))
    return old


def _operation(type_: PtxType, op: str, values: list[Read], has_result: bool) -> Callable[..., Array | None]:
    """What to do with the elements of one register of the vector: (cells, number, frame, index) -> old bits."""
    near, far = (_compare_and_swap if op == "cas" else combiner(op, type_, flush) for flush in (False, True))
    fast = not has_result and type_.kind != "f" and op in _UNORDERED

    def run(cells: list[Cells], number: int, frame: Frame, index: Index, count: int) -> Array | None:
        operands = [spread(value(frame, index), count) for value in values]
        result = np.empty(count, type_.carrier) if has_result else None
        for view, position, chosen, home, _ in cells:
            parts = tuple(v if chosen is None else v[chosen] for v in operands)
            at = position + number
            if fast:
                _INTEGER[op].at(type_.read(view), at, type_.read(parts[0]))
                continue
            old = apply(view, at, parts, far if isinstance(home, Buffer) else near, type_)
            if result is not None:
                result[slice(None) if chosen is None else chosen] = old
        return result

    return run


def _may_undo(op: str, cells: list[Cells]) -> bool:
    """Whether some threads may undo in one place what others have done there: unless all go one way."""
    return op not in _ONE_WAY and (len(cells) > 1 or len(np.unique(cells[0].position)) < len(cells[0].position))


def _compare_and_swap(old: Array, compare: Array, new: Array) -> Array:
    return np.where(old == compare, new, old)


def space_of_atomic(site: Site) -> str:
    """The state space, or `generic`."""
    return site.modifiers.get("space", "").partition("::")[0] or "generic"


_COUNT = {"": 1, "v2": 2, "v4": 4, "v8": 8}


def _atomic(site: Site, has_result: bool) -> Step:
    m, offset = site.modifiers, int(has_result)
    op, type_ = m["op"], TYPES[m["type"]]
    wanted = offset + (3 if op == "cas" else 2)
    site.arity(wanted, wanted + (1 if m.get("L2__cache_hint") else 0))
    count = _COUNT[m.get("vec", "")]
    operand = address_operand(site, offset)
    space = space_of_atomic(site)
    address = address_reader(site, operand, space)
    sources = [elements(site, op, count) for op in site.operands[offset + 1 : wanted]]
    values = [[site.read_bits(source[n], type_) for source in sources] for n in range(count)]
    targets = elements(site, site.operands[0], count) if has_result else (Sink(),) * count
    used = [not isinstance(target, Sink) for target in targets]
    writes = [site.write(target, bits_type(type_.bits)) for target in targets]
    actions = [_operation(type_, op, values[n], used[n]) for n in range(count)]
    access = access_of(site, space, np.dtype(type_.carrier), count, "atomic access to", writes=True)

    def run(frame: Frame, index: Index) -> None:
        threads = frame.size(index)
        cells = update(access, frame, index, spread(address(frame, index), threads))
        before = gathered(cells, 0, threads)
        for number, (action, write) in enumerate(zip(actions, writes, strict=True)):
            old = action(cells, number, frame, index, threads)
            if old is not None:
                write(frame, index, old)
            changed = count > 1 or bool((gathered(cells, 0, threads) != before).any())
            frame.changes += changed or (_may_undo(op, cells) if old is None else bool((old != before).any()))

    return run


_OPERATIONS = (
    "<op:and|or|xor>[.L2::cache_hint].<type:b32|b64>",
    "<op:add>[.L2::cache_hint].<type:u32|s32|u64>",
    "<op:min|max>[.L2::cache_hint].<type:u32|s32|u64|s64>",
    "<op:inc|dec>[.L2::cache_hint].<type:u32>",
    "<op:add>[.L2::cache_hint].<type:f32|f64>",
    "<op:add>.noftz[.L2::cache_hint].<type:f16|f16x2|bf16|bf16x2>",
)
_EXCHANGES = ("<op:exch>[.L2::cache_hint].<type:b32|b64>", "<op:cas>.<type:b16|b32|b64>")
_PAIRS = ("<op:exch>[.L2::cache_hint].<type:b128>", "<op:cas>.<type:b128>")
_VECTORS = (
    "<op:add>[.L2::cache_hint].<vec:v2|v4>.<type:f32>",
    "<op:add|min|max>.noftz[.L2::cache_hint].<vec:v2|v4|v8>.<type:f16|bf16>",
    "<op:add|min|max>.noftz[.L2::cache_hint].<vec:v2|v4>.<type:f16x2|bf16x2>",
)


def atom(site: Site) -> Step:
    return _atomic(site, has_result=True)


def red(site: Site) -> Step:
    return _atomic(site, has_result=False)


for _operation_syntax in (*_OPERATIONS, *_EXCHANGES, *_PAIRS):
    step(f"atom{_SEM}{_SPACE}.{_operation_syntax}", "atomic")(atom)
for _operation_syntax in _OPERATIONS:
    step(f"red{_RED_SEM}{_SPACE}.{_operation_syntax}", "atomic")(red)
for _operation_syntax in _VECTORS:
    step(f"atom{_SEM}[.<space:global>].{_operation_syntax}", "atomic")(atom)
    step(f"red{_RED_SEM}[.<space:global>].{_operation_syntax}", "atomic")(red)
