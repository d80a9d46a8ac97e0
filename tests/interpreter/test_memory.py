"""Memory: what loads, stores and atomics read and write, and what they say when they may not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interpreter.oracles import batch_of, bits, make, run
from tilewright.interpreter.batch import Batch
from tilewright.interpreter.errors import MemoryAccessError
from tilewright.interpreter.meanings import regions
from tilewright.interpreter.meanings.provenance import root_of
from tilewright.interpreter.memory import Buffer, Memory, Root
from tilewright.interpreter.values import Affine, BatchValue, Box, dense, storage
from tilewright.lang import (
    F8E4M3B15,
    F32,
    F64,
    I1,
    I8,
    I32,
    NUMBERS,
    OPS,
    Block,
    Builder,
    Function,
    Operation,
    PointerType,
    ScalarType,
    TileType,
    Type,
    Value,
)

PF32 = PointerType(F32)


def tile(shape: tuple[int, ...], element: ScalarType) -> Type:
    return TileType(shape, element) if shape else element


def affine(base: np.ndarray, strides: tuple[int, ...], shape: tuple[int, ...]) -> Affine:
    base = base.astype(np.int64)
    return Affine(base, strides, shape, np.dtype(np.int64), int(base.min()), int(base.max()))


# --- loads and stores of any form agree with a loop -----------------------------------------------------------------


@st.composite
def accesses(draw: st.DrawFn) -> tuple[Affine, BatchValue | None, int]:
    """Element offsets of an affine tile in a buffer of 512, a mask, and the number of programs."""
    count = draw(st.integers(1, 9))
    shape = draw(st.sampled_from(((), (4,), (2, 4), (4, 1, 2), (1, 8))))
    strides = tuple(draw(st.integers(-6, 6)) for _ in shape)
    kind = draw(st.sampled_from(("same", "steps", "nested", "any")))
    index = np.arange(count)
    step = draw(st.integers(-9, 9))
    base = {
        "same": index * 0,
        "steps": index * step,
        "nested": index % 3 * step + index // 3 * draw(st.integers(-9, 9)),
        "any": np.array([draw(st.integers(-60, 60)) for _ in range(count)]),
    }[kind] + 240
    base = base[: draw(st.sampled_from((1, count)))]
    mask: BatchValue | None = None
    form = draw(st.sampled_from(("none", "box", "dense")))
    if form == "box" and shape:
        ends = [
            [[draw(st.integers(0, e)) for _ in range(draw(st.sampled_from((1, count))))] for _ in "ab"] for e in shape
        ]
        mask = Box(tuple((np.array(lo), np.array(hi)) if draw(st.booleans()) else None for lo, hi in ends), shape)
    elif form == "dense":
        mask = np.random.default_rng(draw(st.integers(0, 99))).random((count, *shape)) < 0.6
    return affine(base, strides, shape), mask, count


def lanes_of(offsets: Affine, mask: BatchValue | None, count: int) -> list[tuple[int, ...]]:
    """(program, index within the tile, offset) of the active lanes, in order."""
    whole = np.broadcast_to(dense(offsets), (count, *offsets.shape))
    active = np.ones(whole.shape, np.bool_) if mask is None else np.broadcast_to(dense(mask), whole.shape)
    return [(*index, int(whole[index])) for index in np.ndindex(whole.shape) if active[index]]


def addressed(offsets: Affine, buffer: Buffer, size: int) -> BatchValue:
    base = offsets.base * size + buffer.start
    return affine(base, tuple(s * size for s in offsets.strides), offsets.shape) if offsets.shape else base


@pytest.mark.parametrize("kernel", ["k", ""], ids=["own buffer", "any buffer"])
@given(access=accesses(), element=st.sampled_from(NUMBERS), seed=st.integers(0, 99), as_array=st.booleans())
def test_loads_and_stores_equal_a_loop(
    kernel: str, access: tuple[Affine, BatchValue | None, int], element: ScalarType, seed: int, as_array: bool
) -> None:
    offsets, mask, count = access
    rng, dtype, shape = np.random.default_rng(seed), storage(element), offsets.shape
    raw = rng.integers(0, 256, 512 * dtype.itemsize, np.uint8)
    memory = raw.view(f"u{dtype.itemsize}")
    buffer = Buffer.of("x0", memory)
    pointer = addressed(offsets, buffer, dtype.itemsize)
    if as_array:
        pointer = np.ascontiguousarray(dense(pointer))
    lanes = lanes_of(offsets, mask, count)
    masked = () if mask is None else (mask,)
    mask_types = () if mask is None else (tile(shape, I1),)

    batch = batch_of(count, buffer, kernel=kernel)
    pointers = tile(shape, PointerType(element))  # type: ignore[arg-type]
    expected = np.zeros((count, *shape), memory.dtype)
    for *index, offset in lanes:
        expected[tuple(index)] = memory[offset] if dtype.kind != "b" else memory[offset] != 0
    loaded = dense(run(make("load", (pointers, *mask_types)), batch, pointer, *masked))
    assert loaded.dtype == dtype and not np.shares_memory(loaded, raw)
    assert (np.broadcast_to(bits(loaded), expected.shape) == expected).all()

    codes = rng.integers(0, 2 if dtype.kind == "b" else 256, (count, *shape, dtype.itemsize), np.uint8)
    values = codes.view(dtype)[..., 0] if dtype.itemsize > 1 else codes[..., 0].view(dtype)
    if mask is not None:
        filled = run(make("load", (pointers, *mask_types, tile(shape, element))), batch, pointer, mask, values)
        active = np.broadcast_to(dense(mask), expected.shape)
        assert (bits(dense(filled)) == np.where(active, expected, bits(values))).all()

    before, after = memory.copy(), memory.copy()
    for *index, offset in lanes:
        after[offset] = bits(values)[tuple(index)]
    version = batch.memory.version
    run(make("store", (pointers, tile(shape, element), *mask_types)), batch, pointer, values, *masked)
    assert (memory == after).all()
    if (before != memory).any():
        assert batch.memory.version > version
    elif not lanes:
        assert batch.memory.version == version


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=4), st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_levels_rebuild_the_addresses(steps: list[int], counts: list[int]) -> None:
    base = np.zeros(1, np.int64)
    for step, count in zip(steps, counts, strict=False):
        base = np.add.outer(base, step * np.arange(count)).reshape(-1)
    levels = regions.levels_of(base)
    if levels is not None:
        rebuilt = np.zeros(1, np.int64)
        for count, step in levels:
            rebuilt = np.add.outer(rebuilt, step * np.arange(count)).reshape(-1)
        assert (rebuilt == base - base[0]).all()


def test_a_grid_of_tiles_is_one_piece() -> None:
    base = np.add.outer(np.arange(4) * 4096, np.arange(8) * 64).reshape(-1)
    region = regions.region_of(affine(base, (512, 2), (8, 32)), None)
    assert region is not None
    found = regions.pieces(region)
    assert found is not None and [piece.levels for piece in found] == [((4, 4096), (8, 64))]


def test_programs_at_the_edge_get_pieces_of_their_own() -> None:
    box = Box(((np.zeros(1, np.int64), np.array([512] * 7 + [100])),), (512,))
    region = regions.region_of(affine(np.arange(8) * 2048, (4,), (512,)), box)
    assert region is not None
    found = regions.pieces(region)
    assert found is not None
    assert [(p.first, p.last, p.inside) for p in found] == [(0, 7, ((0, 512),)), (7, 8, ((0, 100),))]


def test_large_tiles_at_irregular_places_are_sliced() -> None:
    starts = np.random.default_rng(1).permutation(12) * 1000
    data = np.arange(12_000, dtype=np.float32)
    batch = batch_of(12, buffer := Buffer.of("x0", data))
    out = run(make("load", (TileType((512,), PF32),)), batch, affine(starts * 4 + buffer.start, (4,), (512,)))
    assert (out == starts[:, None] + np.arange(512)).all()


def test_a_load_the_same_for_all_programs_is_uniform() -> None:
    batch = batch_of(4, buffer := Buffer.of("x0", np.arange(8, dtype=np.float32)))
    pointer = affine(np.full(4, buffer.start), (4,), (8,))
    assert dense(run(make("load", (TileType((8,), PF32),)), batch, pointer)).shape == (1, 8)


def test_a_store_to_one_address_keeps_the_last_program() -> None:
    data = np.zeros(2, np.float32)
    batch = batch_of(3, buffer := Buffer.of("x0", data))
    run(make("store", (PF32, F32)), batch, np.array([buffer.start]), np.array([1, 2, 3], np.float32))
    assert data.tolist() == [3, 0]
    flags = np.array([True, True, False])
    run(make("store", (PF32, F32, I1)), batch, np.array([buffer.start]), np.array([4, 5, 6], np.float32), flags)
    assert data.tolist() == [5, 0]


def test_loaded_values_survive_a_store_to_their_place() -> None:
    data = np.arange(8, dtype=np.float32)
    batch = batch_of(2, buffer := Buffer.of("x0", data))
    pointer = affine(buffer.start + np.array([0, 16]), (4,), (4,))
    types = (TileType((4,), PF32), TileType((4,), F32))
    loaded = run(make("load", types[:1]), batch, pointer)
    run(make("store", types), batch, pointer, dense(loaded)[:, ::-1])
    assert loaded.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert data.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_one_op_may_touch_several_buffers() -> None:
    a, b = np.arange(4, dtype=np.float32), np.arange(10, 14, dtype=np.float32)
    left, right = Buffer.of("a", a), Buffer.of("b", b)
    batch = batch_of(1, left, right)
    pointer = np.array([[left.start, right.start + 4, left.start + 12, right.start]])
    types = (TileType((4,), PF32), TileType((4,), F32))
    assert run(make("load", types[:1]), batch, pointer).tolist() == [[0, 11, 3, 10]]
    run(make("store", types), batch, pointer, np.array([[5, 6, 7, 8]], np.float32))
    assert (a.tolist(), b.tolist()) == ([5, 1, 2, 7], [8, 6, 12, 13])


def test_views_of_one_array_overlap() -> None:
    data = np.arange(8, dtype=np.float32)
    whole, part = Buffer.of("x0", data), Buffer.of("x1", data[2:6])
    memory = Memory((part, whole), "k")
    assert len(memory.extents) == 1 and memory.extents[0].nbytes == 32
    every = Buffer.of("s", data[::-2])
    assert (every.start, every.nbytes, every.origin) == (whole.start + 4, 28, whole.start + 28)


@pytest.mark.parametrize("element", [I1, I8, F8E4M3B15])
def test_any_byte_but_zero_is_true(element: ScalarType) -> None:
    data = np.array([0, 1, 2, 255], np.uint8)
    batch = batch_of(1, buffer := Buffer.of("x0", data))
    types = (TileType((4,), PointerType(element)), TileType((4,), element))  # type: ignore[arg-type]
    pointer = affine(np.array([buffer.start]), (1,), (4,))
    loaded = dense(run(make("load", types[:1]), batch, pointer))
    assert bits(loaded).tolist() == [[0, 1, 1, 1] if element == I1 else [0, 1, 2, 255]]
    run(make("store", types), batch, pointer, loaded)
    assert data.tolist() == bits(loaded)[0].tolist()


# --- where pointers come from ---------------------------------------------------------------------------------------


def test_provenance_follows_pointers_through_loops_and_branches() -> None:
    block = Block((PF32, PF32, I32, I1), ("a", "b", "n", "flag"))
    Function("k", block)
    a, b, n, flag = block.arguments
    builder = Builder(block)
    moved = builder.value(OPS["add_ptr"], [a, n])
    body = Block((I32, PF32, PF32))
    inner = Builder(body)
    step = inner.value(OPS["add_ptr"], [body.arguments[1], n])
    inner.create(OPS["yield"], [step, b])
    loop = builder.create(OPS["for"], [n, n, n, moved, a], {}, None, [body])
    sides = [Block(), Block()]
    for side, value in zip(sides, (a, moved), strict=True):
        Builder(side).create(OPS["yield"], [value])
    branch = builder.create(OPS["if"], [flag], {}, (PF32,), sides)
    same = builder.value(OPS["select"], [flag, a, moved])
    mixed = builder.value(OPS["select"], [flag, a, b])
    tiled = builder.value(OPS["splat"], [same], {"shape": (4,)})
    number = builder.value(OPS["int_to_ptr"], [builder.value(OPS["ptr_to_int"], [a])], None, PF32)
    of_a = Root("k", "a")
    cases: list[tuple[Value, Root | None]] = [
        (a, of_a), (moved, of_a), (step, of_a), (loop.results[0], of_a), (loop.results[1], None),
        (body.arguments[1], of_a), (body.arguments[2], None),
        (branch.result, of_a), (same, of_a), (mixed, None), (tiled, of_a), (number, None),
    ]  # fmt: skip
    assert [root_of(value) for value, _ in cases] == [root for _, root in cases]


def test_provenance_follows_while() -> None:
    block = Block((PF32, I1), ("a", "flag"))
    Function("k", block)
    before, after = Block((PF32,)), Block((PF32,))
    Builder(before).create(OPS["condition"], [block.arguments[1], before.arguments[0]])
    Builder(after).create(OPS["yield"], [after.arguments[0]])
    loop = Builder(block).create(OPS["while"], [block.arguments[0]], {}, (PF32,), [before, after])
    assert root_of(loop.result) == root_of(after.arguments[0]) == Root("k", "a")


# --- errors ---------------------------------------------------------------------------------------------------------


def message(operation: Operation, batch: Batch, *values: BatchValue) -> str:
    with pytest.raises(MemoryAccessError) as caught:
        run(operation, batch, *values)
    return str(caught.value)


def arena(readonly: bool = False) -> tuple[np.ndarray, Buffer, Buffer]:
    """Ten floats, and eight of them in the middle as x0 with one on each side of it as other arguments would be."""
    data = np.arange(10, dtype=np.float32)
    return data, Buffer.of("x0", data[1:9], readonly=readonly), Buffer.of("y", data[9:])


def test_out_of_bounds_names_argument_index_program_and_line() -> None:
    _, x, y = arena()
    load = make("load", (TileType((4,), PF32),))
    pointer = affine(x.start + np.array([0, 20, 40]), (4,), (4,))
    assert message(load, batch_of(3, x, y), pointer) == (
        "kernels.f:3:9: load from element 8 of x0 (float32, shape (8,)), out of bounds: it has elements 0 to 7 "
        f"(byte address {x.end:#x}); at index (3,) of the tile (program (1, 0, 0))"
    )
    store = make("store", (PF32, F32))
    text = message(store, batch_of(1, x, y), np.array([x.start - 4]), np.zeros(1, np.float32))
    assert (
        text.startswith("kernels.f:3:9: store to element -1 of x0 (float32, shape (8,)), out of bounds")
        and "tile" not in text
    )


def test_the_first_bad_lane_is_reported_and_nothing_is_written() -> None:
    data, x, _ = arena()
    store = make("store", (TileType((2,), PF32), TileType((2,), F32), TileType((2,), I1)))
    pointer = np.array([[0, 4], [400, 8], [800, 12]]) + x.start
    mask = np.array([[True, True], [False, True], [True, True]])
    text = message(store, batch_of(3, x), pointer, np.full((3, 2), 9, np.float32), mask)
    assert "store to element 200 of x0" in text and "at index (0,) of the tile (program (2, 0, 0))" in text
    assert data.tolist() == list(range(10))


def test_masked_off_lanes_may_point_anywhere() -> None:
    _, x, _ = arena()
    batch = batch_of(1, x)
    types = (TileType((4,), PF32), TileType((4,), I1))
    beyond = affine(np.array([x.start + 24]), (4,), (4,))
    box = Box(((np.array([0]), np.array([2])),), (4,))
    assert dense(run(make("load", types), batch, beyond, box)).tolist() == [[7, 8, 0, 0]]
    assert dense(run(make("load", types), batch, dense(beyond), dense(box))).tolist() == [[7, 8, 0, 0]]
    nothing = Box(((np.array([1]), np.array([1])),), (4,))
    assert dense(run(make("load", types), batch_of(1), affine(np.zeros(1), (4,), (4,)), nothing)).tolist() == [[0] * 4]


def test_unknown_addresses_name_the_nearest_argument() -> None:
    _, x, _ = arena()
    load = make("load", (PF32,))
    batch = batch_of(1, x, kernel="")
    assert message(load, batch, np.array([x.end + 8])).startswith(
        f"kernels.f:3:9: load from byte address {x.end + 8:#x}, which is in no argument; "
        "8 bytes past the end of x0 (float32, shape (8,)) (program"
    )
    assert f"; {x.start - 64} bytes before x0" in message(load, batch, np.array([64]))
    assert "load from a null pointer (program (0, 0, 0))" in message(load, batch, np.array([0]))
    assert "which is in no argument (program" in message(load, batch_of(1), np.array([64]))
    wide = make("load", (PointerType(F64),))
    odd = Buffer("odd", 4096, 12, bytes=np.zeros(12, np.uint8))
    assert "it straddles the end of odd (12 bytes)" in message(wide, batch_of(1, odd, kernel=""), np.array([4104]))


def test_misaligned_and_read_only() -> None:
    _, x, _ = arena(readonly=True)
    text = message(make("load", (PF32,)), batch_of(1, x), np.array([x.start + 2]))
    assert (
        f"load from byte address {x.start + 2:#x} in x0 (float32, shape (8,)): misaligned, f32 needs a multiple of 4"
        in text
    )
    for name, types in (("store", (PF32, F32)), ("atomic_store", (PF32, F32))):
        text = message(make(name, types), batch_of(1, x), np.array([x.start + 4]), np.zeros(1, np.float32))
        assert " element 1 of x0 (float32, shape (8,)), which is read-only" in text
    rmw = make("atomic_rmw", (PF32, F32), kind="add_f")
    assert "atomic access to element 1 of x0" in message(
        rmw, batch_of(1, x), np.array([x.start + 4]), np.zeros(1, "f4")
    )


def test_the_element_type_of_the_access_counts() -> None:
    data = np.zeros(4, np.int64)
    x = Buffer.of("x0", data)
    text = message(make("load", (PF32,)), batch_of(1, x), np.array([x.end]))
    assert "load from element 8 of x0 (int64, shape (4,)), out of bounds: it has elements 0 to 7 of type f32" in text


def test_a_negative_stride_counts_from_the_pointer() -> None:
    x = Buffer.of("x0", np.zeros(4, np.float32)[::-1])
    assert x.origin is not None
    text = message(make("load", (PF32,)), batch_of(1, x), np.array([x.origin + 4]))
    assert "load from element 1 of x0 (float32, shape (4,)), out of bounds: it has elements -3 to 0" in text


def test_an_empty_buffer_refuses_every_access() -> None:
    x = Buffer.of("x0", np.zeros(0, np.float32))
    assert "out of bounds: it has none" in message(make("load", (PF32,)), batch_of(1, x), np.array([x.start]))
