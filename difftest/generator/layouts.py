"""Layouts of every kind that tiles have or could have, the same ones every time, and conversions between them.

Layouts come in families of one tile shape and number of warps, within which any converts to any other. Fragments of
matrix instructions are written down from the PTX ISA (9.1, 9.7.14.5), so that they are also a check of the compiler's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

from tilewright.lang import LinearLayout, tile_layouts

from ..choices import Choices, RecordedChoices

LANE, REGISTER, WARP = tile_layouts.LANE, tile_layouts.REGISTER, tile_layouts.WARP
Shape: TypeAlias = tuple[int, ...]
Vector: TypeAlias = tuple[int, ...]
Maker: TypeAlias = Callable[[Choices, Shape, int], LinearLayout | None]
LANES = 32
WIDTHS = (8, 16, 32, 64)
MOST_REGISTERS = 64

#: Tile shapes and numbers of warps: from tiles of two elements to tiles of many registers.
FAMILIES: tuple[tuple[Shape, int], ...] = (
    ((4,), 2), ((2,), 4), ((32,), 1), ((64,), 4), ((256,), 2), ((1024,), 8), ((2048,), 4), ((512,), 16),
    ((1, 16), 2), ((8, 8), 1), ((16, 8), 1), ((16, 16), 4), ((8, 64), 2), ((16, 32), 1), ((32, 32), 4),
    ((64, 32), 4), ((128, 16), 8), ((32, 128), 16), ((64, 64), 2),
    ((2, 4, 8), 1), ((4, 16, 16), 2), ((2, 32, 32), 8), ((16, 2, 16), 4), ((2, 2, 2, 2), 2), ((4, 2, 16, 8), 4),
)  # fmt: skip


class PlacedTile(NamedTuple):
    """A tile shape, a layout of it over (register, lane, warp), and how many warps there are."""

    shape: Shape
    layout: LinearLayout
    num_warps: int


class Triple(NamedTuple):
    """A conversion of elements of `bits` bits between two layouts of one tile and one number of warps."""

    source: PlacedTile
    target: PlacedTile
    bits: int


def layouts(count: int) -> list[PlacedTile]:
    """So many different layouts, surjective, without XOR offset; a longer list begins as a shorter one.

    Families and kinds take turns. Among the random matrices are columns of several bits, and replicas in registers,
    lanes and warps, also such as are sums of other columns.
    """
    found: list[PlacedTile] = []
    known: set[LinearLayout] = set()
    for number in range(count):
        shape, num_warps = FAMILIES[number % len(FAMILIES)]
        choices = RecordedChoices(number)
        layout = None
        while layout is None or layout in known or dict(layout.ins)[REGISTER] > MOST_REGISTERS:
            layout = choices.sample(MAKERS)(choices, shape, num_warps)  # None where the kind needs a larger tile
        known.add(layout)
        found.append(PlacedTile(shape, layout, num_warps))
    return found


def triples(count: int, seed: int = 0, among: int = 500) -> list[Triple]:
    """So many conversions between the first `among` layouts; each width has its turn."""
    families: dict[tuple[Shape, int], list[PlacedTile]] = {}
    for tile in layouts(among):
        families.setdefault((tile.shape, tile.num_warps), []).append(tile)
    choices = RecordedChoices(seed)
    everything = list(families.values())
    found: list[Triple] = []
    for number in range(count):
        family = choices.sample(everything)
        found.append(Triple(choices.sample(family), choices.sample(family), WIDTHS[number % len(WIDTHS)]))
    return found


# Kinds


def blocked(choices: Choices, shape: Shape, num_warps: int) -> LinearLayout:
    """Blocks of neighbours, in any order of the dimensions, perhaps larger than the tile."""
    sizes = [1 << choices.integer(0, min(3, extent.bit_length())) for extent in shape]
    lanes, warps = (_factors(choices, total, len(shape)) for total in (LANES, num_warps))
    return tile_layouts.blocked(sizes, lanes, warps, choices.permutation(len(shape)), shape)


def sliced(choices: Choices, shape: Shape, num_warps: int) -> LinearLayout:
    """What is left of a blocked tile with one dimension more."""
    axis = choices.integer(0, len(shape))
    whole = (*shape[:axis], 1 << choices.integer(1, 4), *shape[axis:])
    return tile_layouts.sliced(blocked(choices, whole, num_warps), axis)


def permuted(choices: Choices, shape: Shape, num_warps: int) -> LinearLayout:
    """Each tile bit in any place, and replicas of lanes and warps in what is left."""
    units = _units(shape)
    order = choices.permutation(len(units))
    threads = (LANES * num_warps).bit_length() - 1
    in_registers = choices.integer(max(0, len(units) - threads), min(len(units), 6))
    held = [units[at] for at in order[:in_registers]]
    rest = [units[at] for at in order[in_registers:]] + [_zero(shape)] * (threads - len(units) + in_registers)
    return _layout(shape, held, [rest[at] for at in choices.permutation(threads)])


def swizzled(choices: Choices, shape: Shape, num_warps: int) -> LinearLayout:
    """A swizzled memory layout read by the thread: registers, lanes, warps, and registers for the rest."""
    if len(shape) < 2:
        return random_matrix(choices, shape, num_warps)
    vec, phase, most = (1 << choices.integer(0, 3) for _ in range(3))
    memory = tile_layouts.swizzled(vec, phase, most, choices.permutation(len(shape)), shape)
    bits = list(memory.bases[tile_layouts.OFFSET])
    own = choices.integer(0, min(3, len(bits)))
    threads = (LANES * num_warps).bit_length() - 1
    spread = bits[own : own + threads]
    padded = [*spread, *([_zero(shape)] * (threads - len(spread)))]
    return _layout(shape, [*bits[:own], *bits[own + threads :]], padded)


def random_matrix(choices: Choices, shape: Shape, num_warps: int) -> LinearLayout:
    """Any surjective matrix: independent columns in any places; the other columns are zero or any sum of others."""
    bits = sum(extent.bit_length() - 1 for extent in shape)
    threads = (LANES * num_warps).bit_length() - 1
    registers = choices.integer(max(0, bits - threads), max(0, min(6, bits)))
    registers += choices.integer(0, 1) if registers < 6 else 0
    columns = _independent(choices, bits)
    replicas = choices.integer(0, 2)  # none of them zero, any of them, all of them
    while len(columns) < registers + threads:
        zero = replicas == 2 or (replicas == 1 and choices.boolean())
        columns.append(0 if zero or not bits else choices.integer(0, (1 << bits) - 1))
    placed = [_vector(shape, columns[at]) for at in choices.permutation(len(columns))]
    return _layout(shape, placed[:registers], placed[registers:])


class Fragment(NamedTuple):
    """The tile of one matrix instruction: bits of registers and lanes along its two dimensions.

    `warps_on` are the dimensions that warps share out; along the other one they hold replicas.
    """

    registers: tuple[tuple[int, int], ...]
    lanes: tuple[tuple[int, int], ...]
    warps_on: tuple[int, ...]


def _rows(first: int) -> tuple[tuple[int, int], ...]:
    return (0, first), (0, 2 * first), (1, 0), (2, 0), (4, 0)


def _turned(fragment: Fragment) -> Fragment:
    """The same with rows for columns."""
    registers, lanes = (tuple((b, a) for a, b in bits) for bits in fragment[:2])
    return Fragment(registers, lanes, tuple(1 - axis for axis in fragment.warps_on))


#: Results with 16 and 8 rows, then the first and the second operand for elements of 8, 16, 32 and 64 bits.
FRAGMENTS: tuple[Fragment, ...] = (
    Fragment(((0, 1), (8, 0)), _rows(2), (0, 1)),
    Fragment(((0, 1),), _rows(2), (0, 1)),
    Fragment(((0, 1), (0, 2), (8, 0), (0, 16)), _rows(4), (0,)),
    Fragment(((0, 1), (8, 0), (0, 8)), _rows(2), (0,)),
    Fragment(((8, 0), (0, 4)), _rows(1), (0,)),
    Fragment((), _rows(1), (0,)),
    _turned(Fragment(((0, 1), (0, 2), (0, 16)), _rows(4), (0,))),
    _turned(Fragment(((0, 1), (0, 8)), _rows(2), (0,))),
    _turned(Fragment(((0, 4),), _rows(1), (0,))),
    _turned(Fragment((), _rows(1), (0,))),
)  # fmt: skip


def fragment(choices: Choices, shape: Shape, num_warps: int) -> LinearLayout | None:
    """A result or an operand of a matrix instruction, repeated over warps and registers; None for too small a tile."""
    lead = (0,) * (len(shape) - 2)
    fitting = [each for each in FRAGMENTS if len(shape) > 1 and _fits(each, shape[-2:])]
    if not fitting:
        return None
    chosen = choices.sample(fitting)
    registers, lanes = ([(*lead, *bit) for bit in bits] for bits in chosen[:2])
    taken = {*registers, *lanes}
    left = [bit for bit in _units(shape) if bit not in taken]
    shared = [bit for bit in left if any(bit[:-2]) or any(bit[len(lead) + axis] for axis in chosen.warps_on)]
    wanted = num_warps.bit_length() - 1
    order = choices.permutation(len(shared)) if choices.boolean() else range(len(shared))
    warps = [shared[at] for at in order][: choices.integer(0, wanted)]
    registers += [bit for bit in left if bit not in warps]
    return _layout(shape, registers, [*lanes, *warps, *([_zero(shape)] * (wanted - len(warps)))])


def _fits(each: Fragment, extents: Shape) -> bool:
    return all(bit[axis] < extents[axis] for bit in (*each.registers, *each.lanes) for axis in (0, 1))


#: The kinds; those with most variety come more often.
MAKERS: tuple[Maker, ...] = (blocked, blocked, sliced, permuted, swizzled, random_matrix, random_matrix, fragment)


# Parts


def _layout(shape: Shape, registers: Sequence[Vector], threads: Sequence[Vector]) -> LinearLayout:
    lanes = LANES.bit_length() - 1
    bases = {REGISTER: registers, LANE: threads[:lanes], WARP: threads[lanes:]}
    return LinearLayout.from_bases(bases, dict(tile_layouts.tile_dims(shape)))


def _zero(shape: Shape) -> Vector:
    return (0,) * len(shape)


def _units(shape: Shape) -> list[Vector]:
    """The tile bits, last dimension first."""
    bits = sum(extent.bit_length() - 1 for extent in shape)
    return [_vector(shape, 1 << bit) for bit in range(bits)]


def _vector(shape: Shape, flat: int) -> Vector:
    """A row-major index as one of each dimension."""
    return tuple(flat // prod(shape[axis + 1 :]) % extent for axis, extent in enumerate(shape))


def _factors(choices: Choices, total: int, count: int) -> list[int]:
    """Powers of two with this product."""
    factors = [1] * count
    for _ in range(total.bit_length() - 1):
        factors[choices.integer(0, count - 1)] *= 2
    return factors


def _independent(choices: Choices, bits: int) -> list[int]:
    """The columns of an invertible matrix: unit vectors, to which others are added, lower ones and then higher."""
    columns = [1 << bit for bit in range(bits)]
    lower = [choices.integer(0, (1 << at) - 1) for at in range(bits)]
    columns = [column ^ extra for column, extra in zip(columns, lower, strict=True)]
    for at in reversed(range(bits)):
        for other in range(at + 1, bits):
            columns[at] ^= columns[other] if choices.boolean() else 0
    return columns
