"""Batch values: lazy forms stand for the arrays that they say, and every op treats them as it treats those arrays."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.interpreter.batch import Batch, Fuel, Options
from tilewright.interpreter.meanings import MEANINGS
from tilewright.interpreter.meanings.shape import reshaped_strides
from tilewright.interpreter.memory import Memory
from tilewright.interpreter.values import (
    Affine,
    BatchValue,
    Box,
    compact,
    dense,
    is_uniform,
    lead,
    nbytes,
    put,
    storage,
    take,
)
from tilewright.lang import F8E4M3B15, F16, I1, I8, I16, I32, I64, OPS, Block, Builder, PointerType, TileType, Type

COUNT = 3


def batch_of(count: int) -> Batch:
    x, y, z = np.indices((1, 1, count), np.int32).reshape(3, -1)[::-1]
    return Batch(count, (x, y, z), (count, 1, 1), Memory(), Options(), StringIO(), Fuel(None))


def run_op(name: str, types: list[Type], values: list[BatchValue], *results: Type, **attributes: Any) -> BatchValue:
    """The meaning of one op on batch values."""
    block = Block(types)
    operation = Builder(block).create(OPS[name], block.arguments, attributes, results or None)
    return MEANINGS[name](operation)(batch_of(COUNT), *values)


def affine(base: list[int], strides: tuple[int, ...], shape: tuple[int, ...], dtype: Any) -> Affine:
    return Affine(np.array(base, np.int64), strides, shape, np.dtype(dtype), min(base), max(base))


def whole(value: BatchValue, count: int = COUNT) -> np.ndarray:
    array = dense(value)
    return np.broadcast_to(array, (count, *array.shape[1:]))


def same(a: BatchValue, b: BatchValue) -> bool:
    x, y = whole(a), whole(b)
    return x.dtype == y.dtype and x.shape == y.shape and bool((x == y).all())


# Values near the ends of the type, so that wrapping is common.
def near(limit: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(-9, 9), st.integers(limit - 40, limit), st.integers(-limit - 1, -limit + 40))


@st.composite
def affine_tiles(draw: st.DrawFn, shape: tuple[int, ...], width: int) -> Affine:
    limit = (1 << width - 1) - 1
    strides = tuple(draw(st.one_of(st.integers(-3, 3), st.integers(-limit // 8, limit // 8))) for _ in shape)
    count = draw(st.sampled_from((1, COUNT)))
    base = [draw(near(limit)) for _ in range(count)]
    least = sum(s * (e - 1) for s, e in zip(strides, shape, strict=True) if s < 0)
    most = sum(s * (e - 1) for s, e in zip(strides, shape, strict=True) if s > 0)
    if least < -limit // 2 or most > limit // 2:
        strides, least, most = (0,) * len(shape), 0, 0
    base = [min(max(b, -limit - 1 - least), limit - most) for b in base]
    return affine(base, strides, shape, f"i{width // 8}")


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> Box:
    bounds = []
    for extent in shape:
        if draw(st.booleans()):
            bounds.append(None)
            continue
        ends = [
            np.array([draw(st.integers(0, extent)) for _ in range(draw(st.sampled_from((1, COUNT))))]) for _ in range(2)
        ]
        bounds.append((ends[0], ends[1]))
    return Box(tuple(bounds), shape)


def test_storage_dtypes() -> None:
    assert [storage(t) for t in (I1, I8, I32, I64, PointerType(F16), F16, F8E4M3B15)] == [
        np.dtype(d) for d in ("?", "i1", "i4", "i8", "i8", "f2", "u1")
    ]


def test_affine_stands_for_a_linear_function_of_the_index() -> None:
    tile = affine([5, -7], (10, -1), (2, 4), "i4")
    expected = np.array([[[b + 10 * i - j for j in range(4)] for i in range(2)] for b in (5, -7)], np.int32)
    assert (dense(tile) == expected).all() and dense(tile).dtype == np.int32
    assert (tile.minimum, tile.maximum) == (-10, 15)


def test_affine_repeats_constant_dimensions_without_storing_them() -> None:
    tile = dense(affine([1], (0, 3), (64, 4), "i8"))
    assert compact(tile).shape == (1, 1, 4)
    assert nbytes(tile) == 32


def test_box_is_true_inside_its_bounds() -> None:
    box = Box(((np.array([0, 1]), np.array([2, 1])), None), (4, 2))
    expected = np.zeros((2, 4, 2), np.bool_)
    expected[0, :2] = True
    assert (dense(box) == expected).all() and lead(box) == 2 and not is_uniform(box)
    assert Box((None, None), (4, 2)).is_full() and not box.is_full()


@given(st.data())
def test_take_and_put_agree_with_arrays(data: st.DataObject) -> None:
    shape = (4, 2)
    make: Callable[[], BatchValue] = lambda: data.draw(  # noqa: E731
        st.one_of(affine_tiles(shape, 16), boxes(shape), affine_tiles(shape, 16).map(dense), boxes(shape).map(dense))
    )
    into, value = make(), make()
    if (dense(into).dtype == np.bool_) != (dense(value).dtype == np.bool_):
        value = into
    rows = np.array(data.draw(st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=COUNT, unique=True)))
    picked = take(into, rows)
    assert (whole(picked, len(rows)) == whole(into)[rows]).all()
    assert (whole(take(into, np.array([1, 1, 0, 2])), 4) == whole(into)[[1, 1, 0, 2]]).all()
    part = take(value, rows)
    before = whole(into).copy()
    merged = put(into, rows, part, COUNT)
    expected = before.copy()
    expected[rows] = whole(part, len(rows))
    assert same(merged, expected) and (whole(into) == before).all()


def test_put_into_nothing_gives_zeros_elsewhere() -> None:
    merged = put(None, np.array([2]), np.array([[7, 8]], np.int8), COUNT)
    assert (dense(merged) == [[0, 0], [0, 0], [7, 8]]).all()
    whole_value = np.array([[1], [2], [3]], np.int8)
    assert put(None, np.arange(COUNT), whole_value, COUNT) is whole_value


def test_put_keeps_affine_tiles_affine() -> None:
    merged = put(affine([0, 0, 0], (1,), (8,), "i4"), np.array([1]), affine([9], (1,), (8,), "i4"), COUNT)
    assert isinstance(merged, Affine) and merged.base.tolist() == [0, 9, 0] and (merged.low, merged.high) == (0, 9)


BINARY = ("add_i", "sub_i", "mul_i", "div_s", "div_u", "rem_s", "rem_u", "shl", "min_s", "max_u", "and", "xor")
COMPARE = tuple(f"cmp_{p}_{s}" for p in ("lt", "le", "gt", "ge") for s in "su") + ("cmp_eq_i", "cmp_ne_i")


def check(name: str, types: list[Type], values: list[BatchValue], *results: Type, **attributes: Any) -> BatchValue:
    """Run an op on lazy values and on the arrays they stand for; both must agree bit for bit."""
    lazily = run_op(name, types, values, *results, **attributes)
    assert same(lazily, run_op(name, types, [np.ascontiguousarray(dense(v)) for v in values], *results, **attributes))
    if isinstance(lazily, Affine):
        assert lazily.low <= lazily.base.min() and lazily.base.max() <= lazily.high
    return lazily


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@given(data=st.data())
def test_chains_of_integer_ops_on_lazy_tiles_equal_the_dense_ones(width: int, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(((8,), (4, 2), (1, 4), (2, 1, 2))))
    type_ = TileType(shape, {8: I8, 16: I16, 32: I32, 64: I64}[width])
    tiles = affine_tiles(shape, width)
    constants = tiles.map(lambda t: affine(t.base.tolist(), (0,) * len(shape), shape, t.dtype))
    small = st.integers(-3, 9).map(lambda c: affine([c], (0,) * len(shape), shape, f"i{width // 8}"))
    value: BatchValue = data.draw(tiles)
    for _ in range(data.draw(st.integers(1, 4))):
        other = data.draw(st.one_of(tiles, constants, small))
        pair: list[BatchValue] = [value, other] if data.draw(st.booleans()) else [other, value]
        name = data.draw(st.sampled_from(BINARY))
        compared = check(data.draw(st.sampled_from(COMPARE)), [type_, type_], pair)
        assert dense(compared).dtype == np.bool_
        value = check(name, [type_, type_], pair)


@given(data=st.data())
def test_boxes_stay_what_they_are_under_shape_ops_and_conjunction(data: st.DataObject) -> None:
    shape = (4, 1, 2)
    i1 = TileType(shape, I1)
    a, b = data.draw(boxes(shape)), data.draw(boxes(shape))
    assert isinstance(check("and", [i1, i1], [a, b]), Box)
    assert isinstance(check("broadcast", [i1], [a], shape=(4, 8, 2)), Box)
    assert isinstance(check("expand_dims", [i1], [a], axis=data.draw(st.integers(0, 3))), Box)
    assert isinstance(check("permute", [i1], [a], order=(2, 0, 1)), Box)
    assert isinstance(check("splat", [I1], [np.array([True, False, True])], shape=(4, 2)), Box)
    for name in ("or", "xor", "cmp_eq_i"):
        check(name, [i1, i1], [a, b])
    check("reshape", [i1], [a], shape=(8,))
    ints = TileType(shape, I8)
    check("select", [i1, ints, ints], [a, data.draw(affine_tiles(shape, 8)), data.draw(affine_tiles(shape, 8))])


@given(data=st.data())
def test_affine_tiles_under_shape_ops_and_casts(data: st.DataObject) -> None:
    shape = (4, 1, 2)
    i8, i32 = TileType(shape, I8), TileType(shape, I32)
    tile = data.draw(affine_tiles(shape, 32))
    assert isinstance(check("broadcast", [i32], [tile], shape=(4, 8, 2)), Affine)
    assert isinstance(check("expand_dims", [i32], [tile], axis=data.draw(st.integers(0, 3))), Affine)
    assert isinstance(check("permute", [i32], [tile], order=(2, 0, 1)), Affine)
    assert isinstance(check("ext_s", [i32], [tile], TileType(shape, I64)), Affine)
    assert isinstance(check("splat", [I32], [np.array([5, -6, 7], np.int32)], shape=(4, 2)), Affine)
    for new in ((8,), (2, 4), (2, 2, 2), (1, 8), (4, 2)):
        check("reshape", [i32], [tile], shape=new)
    check("ext_u", [i8], [data.draw(affine_tiles(shape, 8))], i32)
    check("trunc_i", [i32], [tile], i8)
    check("trunc_i", [i32], [tile], TileType(shape, I1))
    pointer = TileType(shape, PointerType(F16))
    address = data.draw(affine_tiles(shape, 64))
    for offsets, width in (
        (tile, 32),
        (data.draw(affine_tiles(shape, 64)), 64),
        (data.draw(affine_tiles(shape, 8)), 8),
    ):
        check("add_ptr", [pointer, TileType(shape, {8: I8, 32: I32, 64: I64}[width])], [address, offsets])


@pytest.mark.parametrize(("first", "divisor"), [(-4, 4), (-1, 4), (4, 4), (3, 4), (0, -4), (0, 0)])
@pytest.mark.parametrize("name", ["div_s", "rem_s", "div_u", "rem_u"])
def test_quotients_of_ramps(name: str, first: int, divisor: int) -> None:
    i32 = TileType((4,), I32)
    check(name, [i32, i32], [affine([first], (1,), (4,), "i4"), affine([divisor], (0,), (4,), "i4")])


def test_what_kernels_do_with_indices_stays_lazy() -> None:
    """(pid * 4 + arange(4)) % 32 < n, and the pointers made from it."""
    i32, shape = TileType((4,), I32), (4,)
    start = run_op("splat", [I32], [np.array([0, 4, 8], np.int32)], shape=shape)
    offsets = check("add_i", [i32, i32], [start, run_op("arange", [], [], start=0, end=4)])
    wrapped = check("rem_s", [i32, i32], [offsets, run_op("constant", [], [], i32, value=32)])
    assert isinstance(wrapped, Affine) and wrapped.base.tolist() == [0, 4, 8] and wrapped.strides == (1,)
    quotient = check("div_u", [i32, i32], [offsets, run_op("constant", [], [], i32, value=4)])
    assert isinstance(quotient, Affine) and quotient.base.tolist() == [0, 1, 2] and quotient.strides == (0,)
    mask = check("cmp_lt_s", [i32, i32], [wrapped, run_op("constant", [], [], i32, value=6)])
    assert isinstance(mask, Box) and mask.bounds[0] is not None and mask.bounds[0][1].tolist() == [4, 2, 0]
    crossing = check("rem_s", [i32, i32], [offsets, run_op("constant", [], [], i32, value=6)])
    assert isinstance(crossing, np.ndarray)


@pytest.mark.parametrize(
    ("strides", "old", "new", "expected"),
    [
        ((1,), (8,), (2, 4), (4, 1)),
        ((4, 1), (2, 4), (8,), (1,)),
        ((4, 1), (2, 4), (4, 2), (2, 1)),
        ((5, 1), (2, 4), (8,), None),
        ((5, 1), (2, 4), (2, 2, 2), (5, 2, 1)),
        ((0, 0), (2, 4), (8,), (0,)),
        ((7, 3), (1, 4), (4, 1), (3, 0)),
        ((0, 1), (2, 4), (8,), None),
    ],
)
def test_reshaped_strides(
    strides: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...], expected: tuple[int, ...] | None
) -> None:
    assert reshaped_strides(strides, old, new) == expected


def test_uniform_values_stay_uniform() -> None:
    i32 = TileType((4,), I32)
    ramp = run_op("arange", [], [], start=0, end=4)
    assert is_uniform(run_op("mul_i", [i32, i32], [ramp, ramp]))
    assert is_uniform(take(ramp, np.array([2])))
