"""Moves between registers, and the conversion of addresses between state spaces."""

from __future__ import annotations

import numpy as np

from ..frame import Frame, Index
from ..hopper.clusters import OFFSET, REMOTE
from ..site import Site, bits_type
from ..spaces import WINDOWS, window_of
from ..syntax import VariableRef, Vector
from ..table import Kernel, Modifiers, Step, element, pure, step
from ..types import CARRIERS, TYPES

_MOVES = "pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"


@step("mov.<type:b128>", "move")
@step(f"mov.<type:{_MOVES}>", "move")
def mov(site: Site) -> Step:
    """A register, constant, special register or address; or the parts of a register, packed or unpacked."""
    site.arity(2)
    type_ = bits_type(TYPES[site.modifiers["type"]].bits)
    target, source = site.operands
    if isinstance(target, Vector):
        return _unpack(site, target, type_.bits)
    if isinstance(source, Vector):
        return _pack(site, source, type_.bits)
    if isinstance(source, VariableRef) and type_.bits < 32:
        site.fail(f"an address does not fit the {type_.bits} bits of `{site.instruction.opcode}`")
    read, write = site.read(source, type_), site.write(target, type_)
    return lambda frame, index: write(frame, index, read(frame, index))


def _part_width(site: Site, vector: Vector, width: int) -> int:
    part, rest = divmod(width, len(vector.elements))
    if rest or part not in (8, 16, 32, 64) or len(vector.elements) not in (2, 4):
        site.fail(f"`{site.instruction.opcode}` cannot have {len(vector.elements)} parts")
    return part


def _unpack(site: Site, target: Vector, width: int) -> Step:
    part = _part_width(site, target, width)
    read = site.read(site.operands[1], bits_type(width))
    writes = [site.write(op, bits_type(part)) for op in target.elements]
    carrier = CARRIERS[part]

    def run(frame: Frame, index: Index) -> None:
        parts = np.ascontiguousarray(read(frame, index)).view(carrier).reshape(-1, len(writes))
        for number, write in enumerate(writes):
            write(frame, index, np.ascontiguousarray(parts[:, number]))

    return run


def _pack(site: Site, source: Vector, width: int) -> Step:
    part = _part_width(site, source, width)
    reads = [site.read(op, bits_type(part)) for op in source.elements]
    write, carrier = site.write(site.operands[0], bits_type(width)), CARRIERS[width]

    def run(frame: Frame, index: Index) -> None:
        parts = np.broadcast_arrays(*(read(frame, index) for read in reads))
        write(frame, index, np.stack(parts, axis=1).view(carrier).reshape(-1))

    return run


_SPACES = "shared::cta|shared::cluster|shared|global|local|const|param::entry|param"


@pure(f"cvta.<space:{_SPACES}>.<type:u64>", "type <- type", "move")
def cvta(m: Modifiers) -> Kernel:
    """From an address in a space to the generic address."""
    start = np.uint64(WINDOWS.get(m["space"].partition("::")[0], 0))
    return (lambda x: x + start) if start else element


@pure(f"cvta.to.<space:{_SPACES}>.<type:u64>", "type <- type", "move")
def cvta_to(m: Modifiers) -> Kernel:
    """From a generic address to the one in a space."""
    start = np.uint64(WINDOWS.get(m["space"].partition("::")[0], 0))
    return (lambda x: x - start) if start else element


@pure(f"isspacep.<space:{_SPACES}>", "pred <- u64", "move")
def isspacep(m: Modifiers) -> Kernel:
    """Whether a generic address lies in a space; `shared::cluster` has the memory of the cluster's other blocks too.

    Constants are in a window of their own, parameters in global memory, as an H200 has it.
    """
    space = m["space"].partition("::")[0]
    names = [*WINDOWS, "global"]
    inside = [name == space or (space, name) == ("global", "param") for name in names]
    if space != "shared" or m["space"] == "shared::cluster":
        return lambda x: np.array(inside)[window_of(x)]
    return lambda x: (window_of(x) == names.index("shared")) & (x >> np.uint64(REMOTE) & np.uint64(OFFSET) == 0)
