"""Which instruction computes a dot, and where the tiles of that instruction live.

The fragments of `mma.sync` (PTX ISA 9.1, 9.7.14.5) share one plan. A 32-bit register holds neighbours along K (in an
operand) or two along N (in a result), the low two lane bits go on along it, the other three number the rows of 8;
then more registers double the tile. So a fragment is a list of tile bits in the order in which register and lane bits
take them, and a tile is the fragment, then warps, then registers for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log2

from tilewright.lang import (
    BF16,
    F16,
    F32,
    F64,
    I8,
    LinearLayout,
    Operation,
    ScalarType,
    byte_width,
    element_of,
    shape_of,
    tile_layouts,
)

from ..targets import Target

Vector = tuple[int, ...]
REGISTER, LANE, WARP = tile_layouts.REGISTER, tile_layouts.LANE, tile_layouts.WARP


@dataclass(frozen=True, slots=True)
class Mma:
    """One `mma.sync` instruction: its extents, and how many neighbours along K one 32-bit register packs.

    f64 has registers of its own, one element each.
    """

    m: int
    n: int
    k: int
    packed: int


#: The instruction for operands of each type; the 8-bit floats share that of i8.
INSTRUCTIONS: dict[ScalarType, Mma] = {
    F16: Mma(16, 8, 16, 2),
    BF16: Mma(16, 8, 16, 2),
    F32: Mma(16, 8, 8, 1),
    I8: Mma(16, 8, 32, 4),
    F64: Mma(8, 8, 4, 1),
}
#: The first generation whose `mma.sync` takes 8-bit floats, and the formats that it takes.
FP8_SM, FP8_NAMES = 89, ("f8e4m3fn", "f8e5m2")
#: The generation whose instruction adds products of 8-bit floats with fewer bits than f32 has. Those after it have no
#: such instruction; the assembler writes one of f16 for it.
SHORT_SUMS = 89
#: What f32 operands enter the instruction as. `ieee` is for multiply-adds.
F32_PARTS: dict[str, ScalarType] = {"tf32": F32, "tf32x3": F32, "bf16x3": BF16, "bf16x6": BF16}
#: The most elements of its operands that a thread holds at once for plain multiply-adds.
PLAIN_REGISTERS = 64


def operand_element(operation: Operation, target: Target) -> ScalarType | None:
    """The type in which the operands enter the instruction; None where no `mma.sync` takes them.

    8-bit floats that the target's instruction lacks enter as f16, in which they are exact.
    """
    a, b, _ = (element_of(operand.type) for operand in operation.operands)
    if a == F32:
        return F32_PARTS.get(str(operation.attributes["precision"]))
    if a in INSTRUCTIONS:
        return a
    native = target.sm >= FP8_SM and str(a) in FP8_NAMES and str(b) in FP8_NAMES
    return a if native else F16


def instruction_of(operation: Operation, target: Target) -> Mma | None:
    """The `mma.sync` for a dot; None where plain multiply-adds must do: no such instruction, or too small a tile."""
    element = operand_element(operation, target)
    if element is None:
        return None
    found = INSTRUCTIONS.get(element, INSTRUCTIONS[I8])
    *_, m, k = shape_of(operation.operands[0].type)
    n = shape_of(operation.operands[1].type)[-1]
    return found if m >= found.m and n >= found.n and k >= found.k else None


def adds_short(operation: Operation, target: Target) -> bool:
    """Whether the instruction of a dot adds with fewer bits than its result has: see `max_imprecise`."""
    left, _, result = (element_of(operand.type) for operand in operation.operands)
    return byte_width(left) == 1 and result == F32 and target.sm == SHORT_SUMS


def is_chain(operation: Operation, target: Target) -> bool:
    """Whether each product along K is added to what the one before it gave: no sums are made apart."""
    whole = element_of(operation.operands[0].type) != F32 or operation.attributes["precision"] == "tf32"
    return whole and not adds_short(operation, target)


@dataclass(frozen=True, slots=True)
class Share:
    """How the warps share the result of a dot: how many of them along M, along N, and over the batch; the rest, `spare`
    times as many, are replicas."""

    m: int = 1
    n: int = 1
    batch: int = 1
    spare: int = 1


def share_of(shape: Sequence[int], num_warps: int, instruction: Mma, chained: bool) -> Share:
    """All warps along M for a dot that feeds a dot, so that rows stay in a warp; else the shape of a warp's part is
    kept near a square. Warps that are left go over the batch."""
    *batch, m, n = shape
    most_m, most_n = max(1, m // instruction.m), max(1, n // instruction.n)
    along_m = along_n = 1
    while along_m * along_n < num_warps:
        if along_m < most_m and (chained or m // along_m >= n // along_n or along_n >= most_n):
            along_m *= 2
        elif along_n < most_n and not chained:
            along_n *= 2
        else:
            break
    left = num_warps // (along_m * along_n)
    over = min(left, batch[0]) if batch else 1
    return Share(along_m, along_n, over, left // over)


def _bits(extent: int) -> list[int]:
    return [1 << bit for bit in range(int(log2(extent)))]


def _fill(
    shape: Sequence[int], registers: list[Vector], lanes: list[Vector], warps: list[Vector], order: Sequence[int]
) -> LinearLayout:
    """Registers for every tile bit that is not taken, along the axes of `order`, over the fragment and its warps."""
    taken = {vector for vector in (*registers, *lanes, *warps) if any(vector)}
    rest = list(registers)
    for axis in order:
        for step in _bits(shape[axis]):
            vector = tuple(step if axis == other else 0 for other in range(len(shape)))
            if vector not in taken:
                rest.append(vector)
    return LinearLayout.from_bases({REGISTER: rest, LANE: lanes, WARP: warps}, dict(tile_layouts.tile_dims(shape)))


def _at(rank: int, row: int, column: int) -> Vector:
    return (*([0] * (rank - 2)), row, column)


def _warp_bits(rank: int, share: Share, instruction: tuple[int, int]) -> list[Vector]:
    """The places of the warps, along rows first, of an instruction of so many rows and columns: 0 for none at all."""
    m, n = instruction
    rows = [_at(rank, bit * m, 0) for bit in _bits(share.m)]
    columns = [_at(rank, 0, bit * n) for bit in _bits(share.n)]
    matrices = [(bit, *([0] * (rank - 1))) for bit in _bits(share.batch)]
    return [*rows, *columns, *matrices, *([(0,) * rank] * len(_bits(share.spare)))]


@cache
def result_layout(shape: tuple[int, ...], instruction: Mma, share: Share) -> LinearLayout:
    """Where the accumulator of a dot lives, [..., M, N].

    >>> print(result_layout((16, 8), Mma(16, 8, 16, 2), Share()))
    #linear<register=[[0, 1], [8, 0]], lane=[[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp=[] -> [dim0:16, dim1:8]>
    """
    rank = len(shape)
    registers = [_at(rank, 0, 1), *([_at(rank, 8, 0)] if instruction.m == 16 else [])]
    lanes = [_at(rank, 0, 2), _at(rank, 0, 4), *(_at(rank, 1 << bit, 0) for bit in range(3))]
    placed = _warp_bits(rank, share, (instruction.m, instruction.n))
    return _fill(shape, registers, lanes, placed, [rank - 1, rank - 2, *reversed(range(rank - 2))])


@cache
def operand_layout(shape: tuple[int, ...], index: int, instruction: Mma, share: Share) -> LinearLayout:
    """Where operand 0, [..., M, K], or operand 1, [..., K, N], of a dot lives.

    >>> operand_layout((16, 16), 0, Mma(16, 8, 16, 2), Share()).bases["register"]
    ((0, 1), (8, 0), (0, 8))
    """
    rank, packed = len(shape), instruction.packed

    def at(outer: int, along_k: int) -> Vector:
        return _at(rank, outer, along_k) if index == 0 else _at(rank, along_k, outer)

    registers = [at(0, bit) for bit in _bits(packed)]
    lanes = [at(0, packed), at(0, 2 * packed), *(at(1 << bit, 0) for bit in range(3))]
    if index == 0 and instruction.m == 16:
        registers.append(at(8, 0))
    if instruction.k == 8 * packed:
        registers.append(at(0, 4 * packed))
    placed = _warp_bits(rank, share, (instruction.m, 0) if index == 0 else (0, instruction.n))
    inner = rank - 1 if index == 0 else rank - 2
    outer = rank - 2 if index == 0 else rank - 1
    order = [inner, outer] if index == 0 else [outer, inner]
    return _fill(shape, registers, lanes, placed, [*order, *reversed(range(rank - 2))])


@cache
def plain_result_layout(shape: tuple[int, ...], num_warps: int) -> LinearLayout:
    """Where the accumulator lives for plain multiply-adds: a few neighbours along N a thread, eight lanes along N and
    four along M, so that a warp reads few rows of `a` and few columns of `b`, and warps that keep a thread's part near
    a square."""
    *batch, m, n = shape
    own = max(1, min(4, n // 8, m * n // (32 * num_warps)))
    lanes_n = min(8, n // own)
    lanes_m = min(m, 32 // lanes_n)
    lanes_n = min(n // own, 32 // lanes_m)
    part_m, part_n, warps_m, warps_n = m // lanes_m, n // lanes_n, 1, 1
    while warps_m * warps_n < num_warps and (part_m > 1 or part_n > own):
        if part_m >= part_n or part_n <= own:
            part_m, warps_m = part_m // 2, warps_m * 2
        else:
            part_n, warps_n = part_n // 2, warps_n * 2
    lead, order = [1] * len(batch), tuple(reversed(range(len(shape))))
    spare = 32 // (lanes_m * lanes_n), num_warps // (warps_m * warps_n)
    lanes, warps = [*lead, lanes_m, lanes_n], [*lead, warps_m, warps_n]
    for counts, left in zip((lanes, warps), spare, strict=True):
        counts[0] *= left  # over the batch, or replicas
    return tile_layouts.blocked([*lead, 1, own], lanes, warps, order, shape)


@cache
def plain_operand_layout(result: LinearLayout, index: int, depth: int) -> LinearLayout:
    """Where an operand lives for plain multiply-adds: with each result its whole row of `a` or column of `b`.

    Registers hold all of K, lanes and warps what their results need.
    """
    rank = len(result.outs)
    gone = rank - 1 if index == 0 else rank - 2
    shape = tuple(depth if axis == gone else extent for axis, extent in enumerate(result.shape))
    bases: dict[str, list[Vector]] = {}
    for name, vectors in result.bases.items():
        cut = [tuple(0 if axis == gone else step for axis, step in enumerate(vector)) for vector in vectors]
        bases[name] = [vector for vector in cut if any(vector) or name != REGISTER]
    depths = [tuple(bit if axis == gone else 0 for axis in range(rank)) for bit in _bits(depth)]
    bases[REGISTER] = [*depths, *bases[REGISTER]]
    return LinearLayout.from_bases(bases, dict(tile_layouts.tile_dims(shape)))
