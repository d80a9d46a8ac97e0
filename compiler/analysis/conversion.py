"""How a tile moves from one layout to another: by renaming registers, by shuffles in each warp, or by shared memory.

Layouts may be any maps over F2 that reach the whole tile, of the same number of warps. Registers that repeat what
other registers of their thread hold are left out of the move, and come back as other names for these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import TypeAlias

from tilewright.lang import LinearLayout, f2

from .pieces import Pieces, pieces
from .placement import LANE, REGISTER, WARP, columns, slots
from .shared_accesses import exchange_wavefronts
from .shuffles import Shuffles, reading, shuffles
from .swizzle import exchange_cost, memory_layout, vector_of

#: What a conversion takes of shared memory at a time, if its pieces can be so small.
MOST_BYTES = 64 * 1024
#: What a barrier costs beside a select, with the way to shared memory and back that it makes a warp wait for.
BARRIER_COST = 24


@dataclass(frozen=True, slots=True)
class Renaming:
    """No thread needs another's: `registers[r]` is the source register of register r of the result."""

    registers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """The tile goes through shared memory piece by piece, of each of them element `memory(offset)` at each offset."""

    pieces: Pieces
    memory: LinearLayout
    bytes: int


Move: TypeAlias = Renaming | Shuffles | Exchange


@dataclass(frozen=True, slots=True)
class Conversion:
    """`used` are the source registers that the move takes, one of each that hold the same; `result[r]` says which of
    those that it makes register r of the result is."""

    used: tuple[int, ...]
    move: Move
    result: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The shared memory that it takes."""
        return self.move.bytes if isinstance(self.move, Exchange) else 0

    def wavefronts(self, size: int, stmatrix: bool) -> tuple[int, int]:
        """The wavefronts of shared memory that a block takes to write elements of `size` bytes, and to read them."""
        if not isinstance(self.move, Exchange):
            return 0, 0
        parts = self.move.pieces
        written, read = exchange_wavefronts(self.move.memory, parts.src, parts.dst, size, stmatrix)
        return written * len(parts.registers), read * len(parts.registers)


@cache
def conversion(src: LinearLayout, dst: LinearLayout, size: int) -> Conversion:
    """The plan for elements of `size` bytes: a renaming if it can be one; else what costs less, by the number of
    instructions, in which a shuffle counts twice, and a wavefront of shared memory once more."""
    have, want = distinct(src), distinct(dst)
    return Conversion(have.kept, _move(have.layout, want.layout, size), want.number)


def _move(src: LinearLayout, dst: LinearLayout, size: int) -> Move:
    where = reading(src, dst)
    if where is not None and where.stays:
        return Renaming(where.registers())
    exchange = _exchange(src, dst, size)
    plan = None if where is None else shuffles(where, size)
    if plan is None:
        return exchange
    parts, rounds = exchange.pieces, len(exchange.pieces.registers)
    through_memory = exchange_cost(exchange.memory, parts.src, parts.dst, size) + BARRIER_COST
    return plan if plan.cost(size) < rounds * through_memory else exchange


def _exchange(src: LinearLayout, dst: LinearLayout, size: int) -> Exchange:
    src = spoken(src)
    count = max(1, prod(src.shape) * size // MOST_BYTES)
    first_bits = [*columns(src, REGISTER)[:2], *columns(dst, REGISTER)[:2]]
    kept = [*vector_of(src, dst, size), *first_bits] if count > 1 else []
    parts = pieces(src, dst, kept, count)
    return Exchange(parts, memory_layout(parts.src, parts.dst, size), prod(parts.src.shape) * size)


def spoken(layout: LinearLayout) -> LinearLayout:
    """A layout as far as the threads go that count among their replicas: what else threads differ in is zero."""
    silent = slots(layout).replica_mask
    silent_bits = {LANE: silent, WARP: silent >> len(columns(layout, LANE))}
    left = [
        0 if silent_bits.get(name, 0) >> at & 1 else bit
        for name in layout.in_names
        for at, bit in enumerate(columns(layout, name))
    ]
    return replace(layout, columns=tuple(left)) if silent else layout


@dataclass(frozen=True, slots=True)
class Distinct:
    """A layout without replicas in registers. `kept` are the registers that are left, `number[r]` which of them holds
    what register r does."""

    layout: LinearLayout
    kept: tuple[int, ...]
    number: tuple[int, ...]


@cache
def distinct(layout: LinearLayout) -> Distinct:
    """A layout without the register bits that are sums of others."""
    registers = columns(layout, REGISTER)
    pivots = f2.eliminate(registers).pivots
    left = [bit for bit in range(len(registers)) if pivots >> bit & 1]
    basis = f2.eliminate([registers[bit] for bit in left])
    sums = [basis.solve(column) or 0 for column in registers]
    kept = tuple(f2.scatter(number, left) for number in range(1 << len(left)))
    number = tuple(f2.multiply(sums, register) for register in range(1 << len(registers)))
    if len(left) == len(registers):
        return Distinct(layout, kept, number)
    return Distinct(_with_registers(layout, left), kept, number)


def _with_registers(layout: LinearLayout, left: list[int]) -> LinearLayout:
    """A layout with some of its register bits."""
    ins: list[tuple[str, int]] = []
    flat: list[int] = []
    for name, size in layout.ins:
        own = columns(layout, name)
        ins.append((name, 1 << len(left) if name == REGISTER else size))
        flat += [own[bit] for bit in left] if name == REGISTER else own
    return replace(layout, ins=tuple(ins), columns=tuple(flat))
