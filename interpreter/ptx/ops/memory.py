"""Loads, stores and fences.

Cache operators, eviction hints and prefetch sizes change nothing here. Neither do `.volatile`, `.relaxed`, `.acquire`
and `.release`: threads run one instruction at a time and see memory in that order.
"""

from __future__ import annotations

import numpy as np

from ..access import access_of, reach_of
from ..frame import Frame, Index, spread
from ..hopper.maps import SIZE as TENSOR_MAP
from ..site import Read, Site, bits_type
from ..spaces import load, store
from ..syntax import Address, Immediate, Operand, Register, Sink, Variable, Vector
from ..table import Step, step
from ..types import TYPES

_TYPES = "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
_READABLE = "[.<space:global|shared::cta|shared::cluster|shared|local|param::entry|param::func|param|const>]"
_WRITABLE = "[.<space:global|shared::cta|shared::cluster|shared|local|param::func|param>]"
_COMMON = "[.<space:global|shared::cta|shared::cluster|shared>]"
_L1 = "[.<l1:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate>]"
_L2 = "[.<l2:L2::evict_normal|L2::evict_first|L2::evict_last>]"
_POLICY = "[.L2::cache_hint]"
_PREFETCH = "[.<prefetch:L2::64B|L2::128B|L2::256B>]"
_VECTOR = f"[.<vec:v2|v4>].<type:{_TYPES}>"
_PAIR = ".<type:b128>"
_WIDE = (".<vec:v8>.<type:b32|u32|s32|f32>", ".<vec:v4>.<type:b64|u64|s64|f64>")
_SCOPED = ".<scope:cta|cluster|gpu|sys>"
_COUNT = {"": 1, "v2": 2, "v4": 4, "v8": 8}


def space_of(site: Site, address: Address) -> str:
    """The state space of an access: `param` of a function's own variables is local memory."""
    name = site.modifiers.get("space", "").partition("::")[0] or "generic"
    if name == "param" and isinstance(address.base, Variable) and not site.program.is_entry_parameter(address.base):
        return "local"
    return name


def address_reader(site: Site, operand: Address, space: str) -> Read:
    """How to compute an address, 64 bits wide."""
    if isinstance(operand.base, Register):
        base = operand.base
        if base.bits not in (32, 64):
            site.fail(f"`{base.name}` has {base.bits} bits and cannot hold an address")
        read = site.read(base, TYPES[f"u{base.bits}"])
        offset = np.uint64(operand.offset & (1 << 64) - 1)
        if base.bits == 64:
            return (lambda f, i: read(f, i) + offset) if operand.offset else read
        narrow = np.uint32(operand.offset & 0xFFFF_FFFF)
        return lambda frame, index: (read(frame, index) + narrow).astype(np.uint64)
    value = operand.offset
    if operand.base is not None:
        value += site.program.address_of(operand.base, generic=space == "generic")
    fixed = np.array([value & (1 << 64) - 1], np.uint64)
    return lambda frame, index: fixed


def elements(site: Site, operand: Operand, count: int) -> tuple[Operand, ...]:
    """The registers of an access: one, or as many as the vector has."""
    parts = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(parts) != count:
        site.fail(f"`{site.instruction.opcode}` needs {count} registers, found {len(parts)}")
    return parts


def ld(site: Site) -> Step:
    m = site.modifiers
    site.arity(2, 3 if m.get("L2__cache_hint") else 2)
    type_, count = TYPES[m["type"]], _COUNT[m.get("vec", "")]
    operand = address_operand(site, 1)
    space = space_of(site, operand)
    address = address_reader(site, operand, space)
    targets = elements(site, site.operands[0], count)
    plain = type_ if type_.kind == "s" else bits_type(type_.bits)
    writes = [None if isinstance(op, Sink) else site.write(op, plain, wider=True) for op in targets]
    access = access_of(site, space, np.dtype(plain.carrier), count, "load of", writes=False)

    def run(frame: Frame, index: Index) -> None:
        found = address(frame, index)
        if len(found) == 1 and space in ("shared", "local", "generic"):  # which are others for others
            found = spread(found, frame.size(index))
        for write, values in zip(writes, load(access, frame, index, found), strict=True):
            if write is not None:
                write(frame, index, values.view(plain.dtype))

    return run


def address_operand(site: Site, number: int) -> Address:
    """The operand of that number, which must be an address."""
    operand = site.operands[number]
    if not isinstance(operand, Address) or operand.coordinates:
        site.fail(f"`{site.instruction.opcode}` needs an address in brackets")
    return operand


def st(site: Site) -> Step:
    m = site.modifiers
    site.arity(2, 3 if m.get("L2__cache_hint") else 2)
    type_, count = TYPES[m["type"]], _COUNT[m.get("vec", "")]
    operand = address_operand(site, 0)
    space = space_of(site, operand)
    address = address_reader(site, operand, space)
    values = [site.read_bits(op, type_, wider=True) for op in elements(site, site.operands[1], count)]
    access = access_of(site, space, np.dtype(type_.carrier), count, "store of", writes=True)

    def run(frame: Frame, index: Index) -> None:
        addresses = spread(address(frame, index), frame.size(index))
        store(access, frame, index, addresses, [value(frame, index) for value in values])

    return run


def _loads(vector: str, single: str) -> tuple[str, ...]:
    """The syntax of loads of some types: of vectors as well, where there may be any, and of single elements."""
    return (
        f"ld[.<sem:weak|volatile>]{_READABLE}[.<cop:ca|cg|cs|lu|cv>]{_L1}{_POLICY}{_PREFETCH}{vector}",
        f"ld.<space:global>[.<cop:ca|cg|cs>].nc{_L1}{_POLICY}{_PREFETCH}{vector}",
        f"ld.<sem:relaxed|acquire>{_SCOPED}{_COMMON}{_L1}{_POLICY}{_PREFETCH}{vector}",
        f"ld.<sem:mmio.relaxed>.sys[.<space:global>]{single}",
        f"ldu[.<space:global>]{vector}",
    )


def _stores(vector: str, single: str) -> tuple[str, ...]:
    """The syntax of stores, likewise."""
    return (
        f"st[.<sem:weak|volatile>]{_WRITABLE}[.<cop:wb|cg|cs|wt>]{_L1}{_POLICY}{vector}",
        f"st.<sem:relaxed|release>{_SCOPED}{_COMMON}{_L1}{_POLICY}{vector}",
        f"st.<sem:mmio.relaxed>.sys[.<space:global>]{single}",
    )


_LOADS = (
    *_loads(_VECTOR, f".<type:{_TYPES}>"),
    *(f"ld[.<sem:weak>].<space:global>[.nc]{_L1}{_L2}{_POLICY}{_PREFETCH}{wide}" for wide in _WIDE),
    *_loads(_PAIR, _PAIR),
)
_STORES = (
    *_stores(_VECTOR, f".<type:{_TYPES}>"),
    *(f"st[.<sem:weak>].<space:global>{_L1}{_L2}{_POLICY}{wide}" for wide in _WIDE),
    *_stores(_PAIR, _PAIR),
)
for _syntax in _LOADS:
    step(_syntax, "load")(ld)
for _syntax in _STORES:
    step(_syntax, "store")(st)


def nothing(site: Site) -> Step:
    """An instruction that changes nothing here."""
    return lambda frame, index: None


def _without_operands(site: Site) -> None:
    if site.operands:
        site.fail(f"`{site.instruction.opcode}` takes no operands")


def fence(site: Site) -> Step:
    """What the thread does next and what it did before are ordered for those that it tells of it."""
    _without_operands(site)
    reach = reach_of(site)

    def run(frame: Frame, index: Index) -> None:
        if frame.watch is not None:
            frame.watch.order.fence(index, reach)

    return run


for _syntax in (
    "membar.<scope:cta|gl|sys>",
    "fence[.<sem:sc|acq_rel|acquire|release>].<scope:cta|cluster|gpu|sys>",
    "fence.acquire.sync_restrict::shared::cluster.<scope:cluster>",
    "fence.release.sync_restrict::shared::cta.<scope:cluster>",
):
    step(_syntax, "fence")(fence)


def proxy_fence(site: Site) -> Step:
    """What the thread knows of memory, engines may see from now on."""
    _without_operands(site)

    def run(frame: Frame, index: Index) -> None:
        if frame.watch is not None:
            frame.watch.order.fence_proxy(index)

    return run


for _syntax in (
    "fence.proxy.async[.<space:global|shared::cta|shared::cluster>]",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
    "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
):
    step(_syntax, "fence")(proxy_fence)


@step("fence.proxy.alias", "fence")
@step("membar.proxy.alias", "fence")
@step("fence.proxy.tensormap::generic.<sem:release>.<scope:cta|cluster|gpu|sys>", "fence")
def other_fence(site: Site) -> Step:
    """Nothing: memory is one, and copies see tensor maps as they are."""
    _without_operands(site)
    return nothing(site)


@step("fence.proxy.tensormap::generic.<sem:acquire>.<scope:cta|cluster|gpu|sys>", "fence")
def tensor_map_fence(site: Site) -> Step:
    """Nothing: copies see tensor maps as they are; this one names a map and its 128 bytes."""
    operands = site.operands
    size = operands[1] if len(operands) == 2 and isinstance(operands[0], Address) else None
    if not isinstance(size, Immediate) or size.kind != "int" or size.value != TENSOR_MAP:
        site.fail(f"`{site.instruction.opcode}` takes the address of a tensor map in brackets, and {TENSOR_MAP}")
    return nothing(site)
