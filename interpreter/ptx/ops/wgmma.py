"""Products of warp groups: `wgmma.mma_async` of all dense shapes and types, fence, commit_group and wait_group.

All four warps of a warp group wait for each other at each of them. The left operand is in registers or, like the right
one, in shared memory, where a descriptor says how.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...errors import MemoryAccessError
from ..access import engine_access
from ..collective import GROUP, warpgroup_gate
from ..frame import Frame, Index, spread
from ..hopper.checks import Place
from ..hopper.descriptors import Descriptor, addresses
from ..hopper.products import Kind, operand_place
from ..products import group_products_of
from ..site import Read, Site
from ..syntax import Immediate, Operand, Register, Vector
from ..table import Step, gated
from ..targets import needs_one_of
from ..types import TYPES, Array
from .copy import groups_left

_PRED, _B32, _B64 = TYPES["pred"], TYPES["b32"], TYPES["b64"]
_WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_DEEP = {16: 16, 32: 8, 8: 32}
_NUMBERS = frozenset(("s8", "u8"))


class _Parts(NamedTuple):
    """An instruction's operands: registers of the result, left operand, descriptor of the right one, the rest."""

    result: tuple[int, ...]
    left: Operand
    right: Operand
    scale: Operand
    flags: tuple[int, ...]


def _parts(site: Site, count: int) -> _Parts:
    """The operands, of the numbers and kinds that there must be."""
    m, operands = site.modifiers, site.operands
    in_registers = len(operands) > 1 and isinstance(operands[1], Vector)
    wide = _WIDTHS[m["a"]] == 16
    flags = 0 if m["a"] in _NUMBERS else 2 + (2 - in_registers if wide else 0)
    site.arity(4 + flags)
    given = [_flag(site, operand, signs=number < 2) for number, operand in enumerate(operands[4:])]
    result, left, right, scale = (operands[number] for number in range(4))
    return _Parts(_registers(site, result, count, "result"), left, right, scale, tuple(given))


def _flag(site: Site, operand: Operand, signs: bool) -> int:
    allowed = (-1, 1) if signs else (0, 1)
    if not isinstance(operand, Immediate) or operand.value not in allowed:
        what = "imm-scale" if signs else "imm-trans"
        site.fail(f"{what} of `{site.instruction.opcode}` is a constant, {allowed[0]} or {allowed[1]}")
    return int(operand.value)


def _registers(site: Site, operand: Operand, count: int, name: str) -> tuple[int, ...]:
    """The numbers of 32-bit registers in braces."""
    parts = operand.elements if isinstance(operand, Vector) else ()
    found = [part.index for part in parts if isinstance(part, Register) and part.bits == 32]
    if len(found) != count or len(parts) != count:
        site.fail(f"the {name} of `{site.instruction.opcode}` is a vector of {count} 32-bit registers")
    return tuple(found)


def _columns(site: Site) -> int:
    """N, which is a multiple of 8; of integers of 16 from 32 on."""
    columns = int(re.findall(r"\d+", site.modifiers["shape"])[1])
    fits = columns % 8 == 0 and 8 <= columns <= 256
    if site.modifiers["a"] in _NUMBERS:
        fits = fits and (columns % 16 == 0 or columns in (8, 24))
    if not fits:
        site.fail(f"`{site.instruction.opcode}`: there is no shape of {columns} columns")
    return columns


class _Shared:
    """An operand in shared memory: [rows, depth] elements where the descriptor of each warp group says."""

    def __init__(self, site: Site, operand: Operand, rows: int, depth: int, itemsize: int, transposed: bool) -> None:
        self._site, self._read = site, site.read(operand, _B64)
        self._shape, self._transposed = (rows, depth, itemsize), transposed

    def places(self, frame: Frame, index: Index) -> list[Place]:
        """The elements, for each warp group. Raises MemoryAccessError for what is not in shared memory."""
        bits = spread(self._read(frame, index), frame.size(index))
        groups, threads = bits.reshape(-1, GROUP), frame.indices(index)[::GROUP]
        return [self._place(frame, int(thread), group) for thread, group in zip(threads, groups, strict=True)]

    def _place(self, frame: Frame, thread: int, bits: Array) -> Place:
        rows, itemsize = frame.shared, self._shape[2]
        if (bits != bits[0]).any():
            raise self._fault(frame, thread, "the threads of a warp group have different descriptors")
        descriptor = Descriptor.of(int(bits[0]))
        if descriptor.reserved:
            raise self._fault(frame, thread, f"bits {descriptor.reserved:#x} of a descriptor must be zeros")
        found = addresses(descriptor, *self._shape, self._transposed)
        if int(found.max()) + itemsize > rows.size:
            what = f"an operand from shared address {descriptor.start:#x} on reaches {int(found.max()):#x}"
            raise self._fault(frame, thread, f"{what}, out of bounds: there are {rows.size} bytes")
        return operand_place(rows, thread // frame.threads, found, itemsize)

    def _fault(self, frame: Frame, thread: int, what: str) -> MemoryAccessError:
        return self._site.fault(MemoryAccessError, f"`{self._site.instruction.opcode}`: {what}", frame, thread)


def mma_async(site: Site) -> Step:
    """d = a @ b, plus d where the predicate holds."""
    needs_one_of(site, "sm_90a")
    m, columns = site.modifiers, _columns(site)
    width, result = _WIDTHS[m["a"]], 16 if m["d"] == "f16" else 32
    depth = _DEEP[width]
    parts = _parts(site, columns * result // 64)
    flags = [*parts.flags, *(1, 1)[len(parts.flags) :]]
    from_registers = isinstance(parts.left, Vector)
    trans = flags[2:] if not from_registers else [0, *flags[2:]]
    turned = [bool(flag) for flag in [*trans, 0, 0][:2]]
    registers = _registers(site, parts.left, 4, "left operand") if from_registers else ()
    left = None if from_registers else _Shared(site, parts.left, 64, depth, width // 8, turned[0])
    right = _Shared(site, parts.right, columns, depth, width // 8, turned[1])
    kind = Kind(
        site, columns, depth, width, result, group_products_of(m, depth), parts.result, registers,
        (flags[0] < 0, flags[1] < 0), engine_access(site, "shared", 16, "read of `wgmma.mma_async`", "read"),
    )  # fmt: skip
    adds = _adds(site, parts.scale)

    def run(frame: Frame, index: Index) -> None:
        a = None if left is None else left.places(frame, index)
        chosen = spread(adds(frame, index), frame.size(index)).reshape(-1, GROUP)[:, 0]
        frame.engines.products.issue(kind, index, a, right.places(frame, index), chosen)

    return run


def _adds(site: Site, operand: Operand) -> Read:
    """How to read whether the product is added to the accumulators."""
    if isinstance(operand, Immediate):
        fixed = np.array([operand.value != 0])
        return lambda frame, index: fixed
    return site.read(operand, _PRED)


for _syntax in (
    r"<shape:m64n\d+k16>.<d:f16|f32>.<a:f16>.<b:f16>",
    r"<shape:m64n\d+k16>.<d:f32>.<a:bf16>.<b:bf16>",
    r"<shape:m64n\d+k8>.<d:f32>.<a:tf32>.<b:tf32>",
    r"<shape:m64n\d+k32>.<d:f16|f32>.<a:e4m3|e5m2>.<b:e4m3|e5m2>",
    r"<shape:m64n\d+k32>[.satfinite].<d:s32>.<a:s8|u8>.<b:s8|u8>",
):
    gated(f"wgmma.mma_async.sync.aligned.{_syntax}", "mma", warpgroup_gate)(mma_async)


def _simple(action: Callable[[Frame, Index], None]) -> Callable[[Site], Step]:
    def build(site: Site) -> Step:
        needs_one_of(site, "sm_90a")
        site.arity(0)
        return action

    return build


gated("wgmma.fence.sync.aligned", "async", warpgroup_gate)(
    _simple(lambda frame, index: frame.engines.products.fence(index))
)
gated("wgmma.commit_group.sync.aligned", "async", warpgroup_gate)(
    _simple(lambda frame, index: frame.engines.products.commit(index))
)


@gated("wgmma.wait_group.sync.aligned", "async", warpgroup_gate)
def wait_group(site: Site) -> Step:
    """Wait for all groups of the warp group but the last so many."""
    needs_one_of(site, "sm_90a")
    site.arity(1)
    leave = groups_left(site, 7, least=0)
    return lambda frame, index: frame.engines.products.wait(index, leave)
