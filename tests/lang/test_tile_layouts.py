"""Layouts of tiles: known values, coverage of every element, and shape operations against NumPy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.lang import tile_layouts as tiles
from tilewright.lang.layout import LayoutError, LinearLayout


@st.composite
def blocked_arguments(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))
    sizes = st.lists(st.sampled_from([1, 2, 4]), min_size=rank, max_size=rank)
    names = ("size_per_thread", "threads_per_warp", "warps_per_cta", "shape")
    return {name: draw(sizes) for name in names} | {"order": draw(st.permutations(range(rank)))}


def slots(layout: LinearLayout) -> dict[str, np.ndarray]:
    """Every register, lane and warp, as axes that broadcast."""
    return dict(zip(layout.in_names, np.ogrid[tuple(slice(size) for _, size in layout.ins)], strict=True))


def placed(layout: LinearLayout) -> np.ndarray:
    """Row-major element number at [register, lane, warp]."""
    out = layout.apply(slots(layout))
    grid = tuple(size for _, size in layout.ins)
    if not layout.outs:
        return np.zeros(grid, int)
    index = [np.broadcast_to(out[name], grid) for name in layout.out_names]
    return np.ravel_multi_index(index, layout.shape)


def test_a_coalesced_layout_by_hand() -> None:
    """32 x 64, four elements a thread, 2 x 16 lanes, 4 warps down: lane 0 continues 8 rows further down."""
    layout = tiles.blocked([1, 4], [2, 16], [4, 1], [1, 0], [32, 64])
    assert str(layout) == (
        "#linear<register=[[0, 1], [0, 2], [8, 0], [16, 0]], "
        "lane=[[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp=[[2, 0], [4, 0]] -> [dim0:32, dim1:64]>"
    )
    assert layout.apply({"register": 5, "lane": 17, "warp": 3}) == {"dim0": 15, "dim1": 5}


def test_a_tile_smaller_than_its_threads_has_replicas() -> None:
    layout = tiles.blocked([8], [32], [4], [0], [16])
    assert str(layout) == (
        "#linear<register=[[1], [2], [4]], lane=[[8], [0], [0], [0], [0]], warp=[[0], [0]] -> [dim0:16]>"
    )
    assert layout.free_variables() == {"register": 0, "lane": 0b11110, "warp": 0b11}


def reference_blocked(arguments: dict[str, Any], register: Any, lane: Any, warp: Any) -> list[Any]:
    """The element of each slot, by mixed-radix arithmetic on indices instead of bits."""
    shape, order = arguments["shape"], arguments["order"]
    levels = [np.minimum(arguments["size_per_thread"], shape)]
    levels += [np.asarray(arguments[name]) for name in ("threads_per_warp", "warps_per_cta")]
    used = np.ones(len(shape), int)
    for sizes in levels:
        used = np.minimum(used * sizes, shape)
    element: list[Any] = [0] * len(shape)
    stride = np.ones(len(shape), int)
    block = int(np.prod(levels[0]))
    counts = [register % block, lane, warp, register // block]
    for sizes, count in zip([*levels, np.asarray(shape) // used], counts, strict=True):
        for axis in order:
            element[axis] = (element[axis] + count % sizes[axis] * stride[axis]) % shape[axis]
            count = count // sizes[axis]
        stride = np.minimum(stride * sizes, shape)
    return element


@given(blocked_arguments())
def test_blocked_is_mixed_radix_arithmetic(arguments: dict[str, Any]) -> None:
    layout = tiles.blocked(**arguments)
    expected = reference_blocked(arguments, **slots(layout))
    for got, wanted in zip(layout.apply(slots(layout)).values(), expected, strict=True):
        assert got.shape == wanted.shape == tuple(size for _, size in layout.ins)
        assert np.array_equal(got, wanted)


@given(blocked_arguments())
def test_blocked_covers_every_element_equally_often(arguments: dict[str, Any]) -> None:
    layout = tiles.blocked(**arguments)
    assert layout.shape == tuple(arguments["shape"]) and layout.is_surjective
    sizes = dict(layout.ins)
    assert sizes["lane"] == np.prod(arguments["threads_per_warp"])
    assert sizes["warp"] == np.prod(arguments["warps_per_cta"])
    assert layout.free_variables()["register"] == 0
    where = placed(layout)
    counts = Counter(where.ravel().tolist())
    assert set(counts) == set(range(int(np.prod(arguments["shape"])))) and len(set(counts.values())) == 1
    assert all(len(set(where[:, lane, warp])) == where.shape[0] for _, lane, warp in np.ndindex(where.shape))


@given(blocked_arguments(), st.data())
def test_slices_hold_replicas_of_the_reduced_tile(arguments: dict[str, Any], data: st.DataObject) -> None:
    layout = tiles.blocked(**arguments)
    axis = data.draw(st.integers(0, len(layout.outs) - 1))
    rest = tiles.sliced(layout, axis)
    assert rest.is_surjective and rest.shape == layout.shape[:axis] + layout.shape[axis + 1 :]
    assert rest.out_names == tuple(f"dim{i}" for i in range(len(rest.outs)))
    whole, part = placed(layout), placed(rest)
    reduced = np.arange(int(np.prod(rest.shape, dtype=int))).reshape(rest.shape)
    names = np.broadcast_to(np.expand_dims(reduced, axis), layout.shape).ravel()
    for lane, warp in np.ndindex(whole.shape[1:]):
        own = part[:, lane, warp].tolist()
        assert set(own) == set(names[whole[:, lane, warp]]) and len(own) == len(set(own))


def test_a_slice_keeps_the_offset_of_a_view() -> None:
    layout = LinearLayout.from_bases({"register": [(1, 0), (0, 1)]}, {"dim0": 2, "dim1": 2}, (0, 1))
    assert str(tiles.sliced(layout, 0)) == "#linear<register=[[1]] -> [dim0:2] ^ [1]>"


@given(
    vec=st.sampled_from([1, 2, 4, 8]),
    per_phase=st.sampled_from([1, 2, 4]),
    max_phase=st.sampled_from([1, 2, 4, 8]),
    shape=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3),
    data=st.data(),
)
def test_swizzled_is_the_formula(
    vec: int, per_phase: int, max_phase: int, shape: list[int], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    layout = tiles.swizzled(vec, per_phase, max_phase, order, shape)
    assert layout.is_bijective and layout.shape == tuple(shape)
    stored = layout.invert()
    for element in np.ndindex(*shape):
        fast, *slow = (element[axis] for axis in order)
        columns = shape[order[0]]
        row = slow[0] if slow else 0
        group = fast // vec ^ row // per_phase % max_phase
        offset = (group * vec + fast % vec) % columns
        stride = columns
        for axis, coordinate in zip(order[1:], slow, strict=True):
            offset += coordinate * stride
            stride *= shape[axis]
        point = {f"dim{axis}": coordinate for axis, coordinate in enumerate(element)}
        assert stored.apply(point) == {"offset": offset}


def test_the_swizzle_spreads_a_column_over_the_banks() -> None:
    """Eight rows of 64 two-byte elements, 16-byte groups: one column of groups touches all 32 banks once."""
    stored = tiles.swizzled(8, 1, 8, [1, 0], [8, 64]).invert()
    plain = tiles.swizzled(8, 1, 1, [1, 0], [8, 64]).invert()
    row, column = np.arange(8)[:, None], np.arange(8, 16, 2)
    banks = [layout.apply({"dim0": row, "dim1": column})["offset"] // 2 % 32 for layout in (stored, plain)]
    assert [len(np.unique(b)) for b in banks] == [32, 4]


def test_a_window_of_a_swizzled_buffer_has_an_xor_offset() -> None:
    stored = tiles.swizzled(2, 1, 4, [1, 0], [8, 8]).invert()
    view = stored.window({"dim0": 2, "dim1": 4}, {"dim0": 2, "dim1": 4})
    assert view.offset != 0
    row, column = np.ogrid[:2, :4]
    got = view.apply({"dim0": row, "dim1": column})["offset"]
    assert np.array_equal(got, stored.apply({"dim0": row + 2, "dim1": column + 4})["offset"])


@given(blocked_arguments(), st.data())
def test_shape_operations_move_no_value(arguments: dict[str, Any], data: st.DataObject) -> None:
    """Whatever NumPy's operation does to a tile of element numbers, each slot still holds the same number."""
    layout = tiles.blocked(**arguments)
    rank = len(layout.outs)
    numbers = np.arange(int(np.prod(layout.shape))).reshape(layout.shape)
    axes = data.draw(st.permutations(range(rank)))
    axis = data.draw(st.integers(0, rank))
    bits = numbers.size.bit_length() - 1
    cut = data.draw(st.integers(0, bits))
    for new, tile in (
        (tiles.permute(layout, axes), numbers.transpose(axes)),
        (tiles.expand_dims(layout, axis), np.expand_dims(numbers, axis)),
        (tiles.reshape(layout, [1 << cut, 1 << (bits - cut)]), numbers.reshape(1 << cut, -1)),
    ):
        assert new.shape == tile.shape
        assert np.array_equal(tile.ravel()[placed(new)], numbers.ravel()[placed(layout)])


@given(blocked_arguments(), st.data())
def test_broadcast_needs_no_movement(arguments: dict[str, Any], data: st.DataObject) -> None:
    base = tiles.blocked(**arguments)
    layout = tiles.expand_dims(tiles.sliced(base, 0), data.draw(st.integers(0, len(base.outs) - 1)))
    shape = [data.draw(st.sampled_from([1, 2, 8])) if size == 1 else size for size in layout.shape]
    wide = tiles.broadcast(layout, shape)
    assert wide.shape == tuple(shape) and wide.is_surjective
    before, after = placed(layout), placed(wide)
    numbers = np.arange(int(np.prod(layout.shape))).reshape(layout.shape)
    values = np.broadcast_to(numbers, shape).ravel()[after]
    registers = np.arange(after.shape[0]) % before.shape[0]
    assert np.array_equal(values, before[registers])


def test_broadcast_prefers_replicas_to_registers() -> None:
    row = tiles.expand_dims(tiles.blocked([1], [4], [2], [0], [2]), 0)
    assert str(tiles.broadcast(row, [8, 2])) == (
        "#linear<register=[[4, 0]], lane=[[0, 1], [1, 0]], warp=[[2, 0]] -> [dim0:8, dim1:2]>"
    )
    bare = LinearLayout.from_bases({"lane": []}, {"dim0": 1})
    assert str(tiles.broadcast(bare, [2])) == "#linear<register=[[1]], lane=[] -> [dim0:2]>"


def test_broadcast_keeps_the_offset_of_a_view() -> None:
    view = LinearLayout.from_bases({"register": [(0, 1)], "lane": [(0, 0)]}, {"dim0": 1, "dim1": 2}, (0, 1))
    assert str(tiles.broadcast(view, [2, 2])) == (
        "#linear<register=[[0, 1]], lane=[[1, 0]] -> [dim0:2, dim1:2] ^ [0, 1]>"
    )


BLOCKED = tiles.blocked([1, 1], [2, 2], [1, 1], [1, 0], [2, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tiles.blocked([1], [3], [1], [0], [4]), "size 3 of lane dimension 'dim0' is not a power"),
        (lambda: tiles.blocked([1], [2], [1], [0], [6]), "size 6 of tile dimension 'dim0'"),
        (lambda: tiles.blocked([1], [2, 2], [1], [0], [4]), "lane counts [2, 2] for a tile of 1 dimensions"),
        (lambda: tiles.blocked([1], [2], [1], [1], [4]), "order [1] is no permutation of the 1 dimensions"),
        (lambda: tiles.swizzled(3, 1, 1, [0], [4]), "size 3 of swizzle dimension 'vec'"),
        (lambda: tiles.swizzled(1, 1, 1, [0], [5]), "size 5 of tile dimension 'dim0'"),
        (lambda: tiles.swizzled(1, 1, 1, [0, 0], [4, 4]), "order [0, 0] is no permutation"),
        (lambda: tiles.permute(BLOCKED, [0]), "order [0] is no permutation of the 2 dimensions"),
        (lambda: tiles.reshape(BLOCKED, [8]), "[dim0:2, dim1:2] cannot be reshaped to [dim0:8]"),
        (lambda: tiles.expand_dims(BLOCKED, 3), "no place 3 for a new dimension"),
        (lambda: tiles.sliced(BLOCKED, 2), "no dimension 2 in a tile [dim0:2, dim1:2]"),
        (lambda: tiles.broadcast(BLOCKED, [4, 2]), "does not broadcast to [dim0:4, dim1:2]"),
        (lambda: tiles.broadcast(BLOCKED, [2]), "does not broadcast to [dim0:2]"),
    ],
)
def test_errors_say_what_is_wrong(make: Any, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        make()
    assert message in str(caught.value)
