"""Reports of addresses: offsets that wrap, hints, masks, arrays that are views of each other, repeated launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import COMPILED, DEEP, INTERPRETER, Level, deep
from tilewright.lang import CompilationError, knobs

Array = np.ndarray[Any, Any]

# --- offsets ---


@tilewright.jit
def offsets_of_rows(rows, narrow, wide, at, x, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    row = tl.load(rows + i)
    tl.store(narrow + i, row * stride)
    tl.store(wide + i, row.to(tl.int64) * stride)
    tl.store(at + i, (x + row.to(tl.int64) * stride).to(tl.int64) - x.to(tl.int64))
    tl.store(at + N + i, (x + row * stride).to(tl.int64) - x.to(tl.int64))


@pytest.mark.parametrize("stride", [7_864_320, 2**31 - 1, 65_536])
def test_an_offset_wraps_in_its_own_type_before_it_is_widened(level: Level, stride: int) -> None:
    """319 rows of 7,864,320 are more than 2**31: right in int64, and negative, the same everywhere, in int32."""
    rows = np.resize(np.array([0, 1, 273, 274, 319, 32_767, 65_535, -1], np.int32), 32)
    narrow, wide, at = np.zeros(32, np.int32), np.zeros(32, np.int64), np.zeros((2, 32), np.int64)
    level.run(offsets_of_rows, (1,), rows, narrow, wide, at, np.zeros(4, np.float16), stride, N=32)
    full = rows.astype(np.int64) * stride
    assert (wide == full).all() and (narrow == full.astype(np.int32)).all()
    assert (at[0] == 2 * full).all() and (at[1] == 2 * full.astype(np.int32).astype(np.int64)).all()


@tilewright.jit
def row_of_program(x, out, stride):
    tl.store(out + tl.program_id(0), tl.program_id(0) * stride)


def test_debug_builds_tell_of_an_offset_that_wraps() -> None:
    """Where asserts end the program: on a GPU they would end the process's use of it."""
    for level in (INTERPRETER, *COMPILED):
        out = np.zeros(320, np.int64)
        with pytest.raises(tilewright.TilewrightError, match="overflow") as caught, knobs.scope(cache_max_bytes=0):
            level.run(row_of_program, (320,), out, out, 7_864_320, debug=True)
        assert "tl.program_id(0) * stride" in str(caught.value)


@tilewright.jit
def adds_in_two_ways(x, first, second, offset, scale, rows, N: tl.constexpr):
    i, program = tl.arange(0, N), tl.program_id(0)
    base = tl.multiple_of(offset, 16)
    for row in range(rows):
        at = scale * row + program
        one = x + base + at + i
        two = x + (base + (at + i))
        three = (x + at) + (i + base)
        to = (program * rows + row) * N + i
        tl.store(first + to, tl.load(one))
        tl.store(second + to, tl.load(two) + 0 * tl.load(three))


@pytest.mark.parametrize("dtype", [np.int8, np.float32, *deep(np.float16, np.float64)])
@pytest.mark.parametrize("scale", [1024, 1185, *deep(1000, 17, 1)])
def test_the_order_in_which_offsets_are_added_does_not_matter(level: Level, dtype: Any, scale: int) -> None:
    """1185, or a program's number, is a multiple of nothing: to load several elements at once there is an error."""
    x = (np.arange(8192) % 113).astype(dtype)
    first, second = np.zeros((3, 4, 64), dtype), np.zeros((3, 4, 64), dtype)
    level.run(adds_in_two_ways, (3,), x, first, second, 48, scale, 4, N=64)
    want = [[x[48 + scale * row + program :][:64] for row in range(4)] for program in range(3)]
    assert (first == want).all() and (second == want).all()


@tilewright.jit
def gathers(x, out, period, start, N: tl.constexpr, PERIOD: tl.constexpr):
    i = start + tl.arange(0, N)
    tl.store(out + tl.arange(0, N), tl.load(x + i % PERIOD))
    tl.store(out + N + tl.arange(0, N), tl.load(x + i % period))
    tl.store(out + 2 * N + tl.arange(0, N), tl.load(x + i // PERIOD))
    tl.store(out + 3 * N + tl.arange(0, N), tl.load(x + i.to(tl.uint32) % PERIOD))
    tl.store(out + 4 * N + tl.arange(0, N), tl.load(x + i.to(tl.uint32) // PERIOD))
    tl.store(out + 5 * N + tl.arange(0, N), tl.load(x + i * 2))
    tl.store(out + 6 * N + tl.arange(0, N), tl.load(x + (2048 - i)))


@pytest.mark.parametrize("period", [8, 12, *deep(2, 7, 16, 48, 64)])
@pytest.mark.parametrize("start", [16, *deep(0, 3)])
def test_offsets_that_only_look_like_a_run_are_loaded_one_by_one(level: Level, period: int, start: int) -> None:
    """Of bytes, of which a thread would like to load 16 at once."""
    x, out = (np.arange(2049) % 113).astype(np.int8), np.zeros((7, 512), np.int8)
    level.run(gathers, (1,), x, out, period, start, N=512, PERIOD=period)
    i = start + np.arange(512)
    assert (out == x[[i % period, i % period, i // period, i % period, i // period, 2 * i, 2048 - i]]).all()


# --- masks ---


@tilewright.jit
def shifted_windows(x, out, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    left = tl.load(x + i * n + j - 2, mask=(j >= 2) & (j < n + 2))
    middle = tl.load(x + i * n + j - 1, mask=(j >= 1) & (j < n + 1))
    right = tl.load(x + i * n + j, mask=j < n)
    value = tl.where(j >= 2, left, tl.where(j >= 1, middle, right))
    tl.store(out + i * n + j, value, mask=j < n)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, *deep(np.int8, np.int64)])
@pytest.mark.parametrize("n", [3, 30, *deep(64)])
def test_what_a_mask_leaves_out_does_not_reach_what_is_chosen(level: Level, dtype: Any, n: int) -> None:
    """No fill value; the chosen elements are all loaded, from three windows that overlap."""
    x = (np.arange(4 * n) % 97 + 1).astype(dtype).reshape(4, n)
    out = np.zeros((4, n), dtype)
    level.run(shifted_windows, (1,), x, out, n, M=4, N=64)
    want = np.concatenate([x[:, :1], x[:, :1], x[:, : n - 2]], axis=1)
    assert (out == want).all()


@tilewright.jit
def scalars_under_masks(x, out, flag):
    tl.store(out, 7, mask=tl.load(flag) != 0)
    tl.store(out + 1, 7, mask=False)
    tl.store(out + 2, tl.load(x + 1_000_000, mask=tl.load(flag) > 5, other=-3))
    tl.store(out + 3, tl.load(x + 1_000_000, mask=False, other=-4))
    tl.atomic_add(out + 4, 7, mask=tl.load(flag) != 0)
    tl.atomic_xchg(out + 1_000_000, 7, mask=tl.load(flag) > 5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize("flag", [0, 1])
def test_a_scalar_access_under_a_false_mask_does_nothing(level: Level, dtype: Any, flag: int) -> None:
    out = np.full(5, 50, dtype)
    level.run(scalars_under_masks, (1,), np.zeros(1, dtype), out, np.array([flag], np.int32))
    assert out.tolist() == [7 if flag else 50, 50, -3, -4, 57 if flag else 50]


# --- views ---


@tilewright.jit
def copies_and_changes(x, y, rows, columns, x_row, x_column, y_row, y_column, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    mask = (i < rows) & (j < columns)
    value = tl.load(x + i * x_row + j * x_column, mask=mask)
    tl.store(y + i * y_row + j * y_column, value + 1, mask=mask)


def steps(array: Array) -> tuple[int, int]:
    return array.strides[0] // array.itemsize, array.strides[1] // array.itemsize


def views() -> dict[str, tuple[Array, Array]]:
    """Two arrays of one shape, views of the same memory or of none that they share."""
    base = np.arange(400, dtype=np.float32).reshape(20, 20)
    spread = np.broadcast_to(np.arange(8, dtype=np.float32), (8, 8))
    return {
        "the same twice": (base[:8, :8], base[:8, :8]),
        "apart": (base[:8, :8], base[8:16, 8:16]),
        "overlapping": (base[:8, :8], base[4:12, 4:12]),
        "overlapping the other way": (base[4:12, 4:12], base[:8, :8]),
        "transposed": (base[:8, :6].T, base[10:16, 10:18]),
        "onto its transpose": (base[:8, :8].T, base[:8, :8]),
        "every second": (base[::2, ::2][:8, :8], base[1::2, 1::2][:8, :8]),
        "backwards": (base[7::-1, 7::-1], base[10:18, 10:18]),
        "stretched": (spread, base[3:11, 3:11]),
        "split in halves": tuple(np.split(np.arange(128, dtype=np.float32).reshape(8, 16), 2, axis=1)),  # type: ignore[dict-item]
    }


@pytest.mark.parametrize("name", views())
def test_arrays_may_be_views_of_each_other(level: Level, name: str) -> None:
    """A program loads all of its elements before it stores any, so that even what overlaps is copied whole."""
    given, taken = views()[name]
    want = given + 1
    owner = taken.base if taken.base is not None else taken
    before = owner.copy()
    rows, columns = given.shape
    level.run(copies_and_changes, (1,), given, taken, rows, columns, *steps(given), *steps(taken), M=8, N=8)
    assert (taken == want).all()
    assert (owner != before).sum() <= taken.size  # and nothing else


# --- shapes ---


@tilewright.jit
def indexes_a_scalar(out, n):
    tl.store(out + tl.arange(0, 4), n[:, None])


@tilewright.jit
def indexes_a_scalar_by_nothing(out, n):
    tl.store(out + tl.arange(0, 4), n[:])


@tilewright.jit
def stretches_a_scalar(out, n):
    tl.store(out + tl.arange(0, 1), n[None])


@pytest.mark.parametrize("kernel", [indexes_a_scalar, indexes_a_scalar_by_nothing], ids=lambda kernel: kernel.name)
def test_a_scalar_has_no_dimension_to_index(level: Level, kernel: Any) -> None:
    with pytest.raises(CompilationError, match="scalar"):
        level.run(kernel, (1,), np.zeros(4, np.int32), 3)


def test_a_scalar_gets_a_dimension_where_one_is_asked_for(level: Level) -> None:
    out = np.zeros(4, np.int32)
    level.run(stretches_a_scalar, (1,), out, 3)
    assert out.tolist() == [3, 0, 0, 0]


# --- launches ---


@tilewright.jit
def doubles(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def test_a_kernel_is_launched_with_arrays_of_one_type_after_another(level: Level) -> None:
    """And with views that are less aligned than what the kernel was first compiled for."""
    for dtype in (np.float32, np.int32, np.float64, np.int8, np.float32, np.float16, np.int32):
        for first in (0, 1, 4):
            x, out = np.arange(40).astype(dtype)[first:], np.full(40, 5).astype(dtype)[first:]
            level.run(doubles, (1,), x, out, 30, N=64)
            assert (out[:30] == 2 * x[:30]).all() and (out[30:] == 5).all(), (dtype, first)


@pytest.mark.parametrize("level", (*COMPILED, *DEEP), ids=lambda level: level.name)
def test_an_offset_of_64_bits_is_multiplied_in_64(level: Level) -> None:
    x = np.zeros(4, np.float16)
    with knobs.scope(cache_max_bytes=0):
        kernel = offsets_of_rows.on(level.device).warmup(np.int32, np.int32, np.int64, np.int64, x, 7, N=32)
    ptx = str(kernel.asm["ptx"])
    assert "mul.lo.s64" in ptx or "mul.wide.s32" in ptx or "mad.wide.s32" in ptx
