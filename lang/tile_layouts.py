"""The linear layouts that tiles have: blocked over threads, sliced, broadcast, and swizzled in shared memory.

Tile dimensions are called dim0, dim1, ... from the slowest in row-major order; `order` lists dimension
numbers with the one that varies fastest first. A distributed layout has the inputs register, lane and warp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from . import f2
from .layout import Dims, LayoutError, LinearLayout
from .layout_dims import check_dims, low_bits, positions, show

__all__ = [
    "LANE",
    "OFFSET",
    "REGISTER",
    "WARP",
    "blocked",
    "broadcast",
    "expand_dims",
    "permute",
    "reshape",
    "sliced",
    "swizzled",
    "tile_dims",
]

REGISTER, LANE, WARP, OFFSET = "register", "lane", "warp", "offset"


def tile_dims(shape: Sequence[int]) -> Dims:
    """Name the dimensions of a tile.

    >>> tile_dims([32, 64])
    (('dim0', 32), ('dim1', 64))
    """
    return tuple((f"dim{axis}", size) for axis, size in enumerate(shape))


def _check_order(order: Sequence[int], shape: Sequence[int]) -> None:
    check_dims(tile_dims(shape), "tile")
    if sorted(order) != list(range(len(shape))):
        raise LayoutError(f"order {list(order)} is no permutation of the {len(shape)} dimensions of the tile")


def blocked(
    size_per_thread: Sequence[int],
    threads_per_warp: Sequence[int],
    warps_per_cta: Sequence[int],
    order: Sequence[int],
    shape: Sequence[int],
) -> LinearLayout:
    """Give each thread a block of neighbours, then spread lanes, then warps; more registers cover the rest.

    The counts are per dimension. Where they exceed the shape, a thread's own block is cut to it, and the
    lanes and warps that are left over hold replicas. Raises LayoutError when lengths differ or a size is no
    power of two.

    >>> print(blocked([1, 2], [2, 2], [2, 1], [1, 0], [4, 8]))
    #linear<register=[[0, 1], [0, 4]], lane=[[0, 2], [1, 0]], warp=[[2, 0]] -> [dim0:4, dim1:8]>
    >>> print(blocked([1], [4], [2], [0], [4]))
    #linear<register=[], lane=[[1], [2]], warp=[[0]] -> [dim0:4]>
    """
    _check_order(order, shape)
    placed = [1] * len(shape)
    bases: dict[str, list[list[int]]] = {REGISTER: [], LANE: [], WARP: []}
    levels = ((REGISTER, size_per_thread), (LANE, threads_per_warp), (WARP, warps_per_cta), (REGISTER, shape))
    for name, sizes in levels:
        if len(sizes) != len(shape):
            raise LayoutError(f"{name} counts {list(sizes)} for a tile of {len(shape)} dimensions")
        check_dims(tile_dims(sizes), name)
        for axis in order:
            end = placed[axis] * min(sizes[axis], shape[axis] // placed[axis])
            spare = 1 if name == REGISTER else sizes[axis] * placed[axis] // end
            while placed[axis] < end:
                bases[name].append([placed[axis] if axis == other else 0 for other in range(len(shape))])
                placed[axis] *= 2
            bases[name] += [[0] * len(shape)] * (spare.bit_length() - 1)
    return LinearLayout.from_bases(bases, dict(tile_dims(shape)))


def swizzled(vec: int, per_phase: int, max_phase: int, order: Sequence[int], shape: Sequence[int]) -> LinearLayout:
    """Lay a tile out in shared memory, groups of `vec` elements permuted in each row against bank conflicts.

    Row r is stored with the group index XORed by `(r // per_phase) % max_phase`, modulo the groups in a row;
    rows run along `order[0]` and are numbered along `order[1]`. The map from offset (in elements) to tile is
    bijective. Raises LayoutError when a size is no power of two.

    >>> layout = swizzled(2, 1, 4, [1, 0], [4, 8])
    >>> print(layout)
    #linear<offset=[[0, 1], [0, 2], [0, 4], [1, 2], [2, 4]] -> [dim0:4, dim1:8]>
    >>> layout.apply({"offset": 8})
    {'dim0': 1, 'dim1': 2}
    """
    _check_order(order, shape)
    check_dims((("vec", vec), ("per_phase", per_phase), ("max_phase", max_phase)), "swizzle")
    bases: list[list[int]] = []
    for rank, axis in enumerate(order):
        for bit in range(shape[axis].bit_length() - 1):
            basis = [0] * len(shape)
            basis[axis] = 1 << bit
            if rank == 1:
                basis[order[0]] = vec * ((1 << bit) // per_phase % max_phase) % shape[order[0]]
            bases.append(basis)
    return LinearLayout.from_bases({OFFSET: bases}, dict(tile_dims(shape)))


def permute(layout: LinearLayout, axes: Sequence[int]) -> LinearLayout:
    """Give the layout of the transposed tile, whose dimension i is dimension `axes[i]` of this one.

    >>> print(permute(blocked([1, 2], [2, 1], [1, 1], [1, 0], [2, 2]), [1, 0]))
    #linear<register=[[1, 0]], lane=[[0, 1]], warp=[] -> [dim0:2, dim1:2]>
    """
    _check_order(axes, layout.shape)
    moved = layout.transpose(outs=[f"dim{axis}" for axis in axes])
    return replace(moved, outs=tile_dims(moved.shape))


def reshape(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Give the layout of the tile reshaped in row-major order. Raises LayoutError when the sizes differ.

    >>> print(reshape(blocked([4], [2], [1], [0], [8]), [2, 4]))
    #linear<register=[[0, 1], [0, 2]], lane=[[1, 0]], warp=[] -> [dim0:2, dim1:4]>
    """
    return layout.reshape_outs(dict(tile_dims(shape)))


def expand_dims(layout: LinearLayout, axis: int) -> LinearLayout:
    """Give the layout of the tile with a new dimension of size 1 before dimension `axis`.

    >>> print(expand_dims(blocked([1], [2], [1], [0], [2]), 0))
    #linear<register=[], lane=[[0, 1]], warp=[] -> [dim0:1, dim1:2]>
    """
    if not 0 <= axis <= len(layout.outs):
        raise LayoutError(f"no place {axis} for a new dimension in a tile {show(layout.outs)}")
    return reshape(layout, (*layout.shape[:axis], 1, *layout.shape[axis:]))


@lru_cache(maxsize=1024)
def sliced(layout: LinearLayout, axis: int) -> LinearLayout:
    """Give the layout of the tile reduced along a dimension: what told its elements apart now holds replicas.

    Registers that would only repeat their thread's own values are removed; lanes and warps stay.

    >>> print(sliced(blocked([1, 2], [2, 2], [2, 1], [1, 0], [4, 8]), 1))
    #linear<register=[], lane=[[0], [1]], warp=[[2]] -> [dim0:4]>
    """
    if not 0 <= axis < len(layout.outs):
        raise LayoutError(f"no dimension {axis} in a tile {show(layout.outs)}")
    rest = layout.sublayout(layout.in_names, [name for i, name in enumerate(layout.out_names) if i != axis])
    kept = {name: [v for v in vectors if any(v) or name != REGISTER] for name, vectors in rest.bases.items()}
    offset = rest.apply({name: 0 for name in rest.in_names})
    return LinearLayout.from_bases(kept, dict(tile_dims(rest.shape)), list(offset.values()))


def broadcast(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Give a layout for the tile broadcast to a shape, such that no value moves to another thread.

    Dimensions of size 1 may grow. Input bits that held replicas tell the new elements apart, lowest first;
    new registers cover what is left. Slot x of the result gets the value of slot x of the source, new
    registers zero.

    >>> print(broadcast(LinearLayout.from_bases({"register": [], "lane": [(0, 1), (0, 0)]},
    ...                                         {"dim0": 1, "dim1": 2}), [4, 2]))
    #linear<register=[[2, 0]], lane=[[0, 1], [1, 0]] -> [dim0:4, dim1:2]>
    """
    dims = tile_dims(shape)
    check_dims(dims, "tile")
    same_rank = len(shape) == len(layout.outs)
    if not same_rank or any(old not in (1, new) for old, new in zip(layout.shape, shape, strict=True)):
        raise LayoutError(f"a tile {show(layout.outs)} does not broadcast to {show(dims)}")
    grown = tuple((name, new // old) for (name, new), old in zip(dims, layout.shape, strict=True))
    # A dimension that grows had no bits, so its bits in the result are exactly those of `grown`.
    missing = [1 << place for place in low_bits(dims, grown)]
    kept = low_bits(dims, tile_dims(layout.shape))
    columns = [f2.scatter(column, kept) for column in layout.columns]
    pivots = f2.eliminate(layout.columns).pivots
    for index in range(len(columns)):
        if missing and not pivots >> index & 1:
            columns[index] ^= missing.pop(0)
    spread = LinearLayout(layout.ins, dims, tuple(columns), f2.scatter(layout.offset, kept))
    return _add_registers(spread, missing)


def _add_registers(layout: LinearLayout, columns: Sequence[int]) -> LinearLayout:
    """Append register bits with the given flat images."""
    ins = layout.ins if REGISTER in layout.in_names else ((REGISTER, 1), *layout.ins)
    at = positions(ins)[REGISTER].stop
    new_ins = tuple((name, size << len(columns) if name == REGISTER else size) for name, size in ins)
    new_columns = (*layout.columns[:at], *columns, *layout.columns[at:])
    return LinearLayout(new_ins, layout.outs, new_columns, layout.offset)
