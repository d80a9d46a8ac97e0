"""Reports of atomics: what they return, how floats order, and which shapes and masks they take."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import Level, deep
from tilewright.lang import CompilationError

Array = np.ndarray[Any, Any]


# --- old values ---


@tilewright.jit
def takes_numbers(counter, old, N: tl.constexpr, EVERY: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    inside = i % EVERY == 0
    got = tl.atomic_add(counter + 0 * i, 1, mask=inside)
    tl.store(old + i, got, mask=inside)


@pytest.mark.parametrize("dtype", [np.int32, np.float64, *deep(np.uint32, np.int64, np.float32)])
@pytest.mark.parametrize(("programs", "lanes"), [(1, 512), (4, 32), (1, 1)])
@pytest.mark.parametrize("every", [1, 2])
def test_each_addition_to_a_counter_gets_another_old_value(
    level: Level, dtype: Any, programs: int, lanes: int, every: int
) -> None:
    counter, old = np.zeros(1, dtype), np.full(programs * lanes, -5).astype(dtype)
    level.run(takes_numbers, (programs,), counter, old, N=lanes, EVERY=every)
    taken = np.arange(programs * lanes) % every == 0
    assert counter[0] == taken.sum()
    assert sorted(old[taken]) == list(range(taken.sum()))
    assert (old[~taken] == np.array(-5).astype(dtype)).all()


@tilewright.jit
def scalars_in_turn(memory, old, a, b):
    tl.store(old + 0, tl.atomic_add(memory + 0, a))
    tl.store(old + 1, tl.atomic_max(memory + 1, a))
    tl.store(old + 2, tl.atomic_min(memory + 2, a))
    tl.store(old + 3, tl.atomic_and(memory + 3, a))
    tl.store(old + 4, tl.atomic_or(memory + 4, a))
    tl.store(old + 5, tl.atomic_xor(memory + 5, a))
    tl.store(old + 6, tl.atomic_xchg(memory + 6, a))
    tl.store(old + 7, tl.atomic_cas(memory + 7, tl.load(memory + 7), tl.load(b)))
    tl.store(old + 8, tl.atomic_cas(memory + 8, tl.load(b), tl.load(b)))
    tl.store(old + 9, tl.atomic_load(memory + 9))
    tl.atomic_store(memory + 10, a)


@tilewright.jit
def tiles_in_turn(memory, old, a, b, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + 0 * N + i, tl.atomic_add(memory + 0 * N + i, a))
    tl.store(old + 1 * N + i, tl.atomic_max(memory + 1 * N + i, a))
    tl.store(old + 2 * N + i, tl.atomic_min(memory + 2 * N + i, a))
    tl.store(old + 3 * N + i, tl.atomic_and(memory + 3 * N + i, a))
    tl.store(old + 4 * N + i, tl.atomic_or(memory + 4 * N + i, a))
    tl.store(old + 5 * N + i, tl.atomic_xor(memory + 5 * N + i, a))
    tl.store(old + 6 * N + i, tl.atomic_xchg(memory + 6 * N + i, a))
    expected, value = tl.load(memory + 7 * N + i), tl.load(b + 0 * i)
    tl.store(old + 7 * N + i, tl.atomic_cas(memory + 7 * N + i, expected, value))
    tl.store(old + 8 * N + i, tl.atomic_cas(memory + 8 * N + i, value, value))
    tl.store(old + 9 * N + i, tl.atomic_load(memory + 9 * N + i))
    tl.atomic_store(memory + 10 * N + i, a)


def after(before: Array, a: int, b: int) -> Array:
    """What the memory of `scalars_in_turn` holds at its end: a row for each operation."""
    new = before.copy()
    wide = before.astype(object)
    bits = 8 * before.dtype.itemsize
    updates = [wide[0] + a, np.maximum(wide[1], a), np.minimum(wide[2], a), wide[3] & a, wide[4] | a, wide[5] ^ a]
    for row, values in enumerate(updates):
        new[row] = (values % 2**bits).astype(f"u{bits // 8}").view(before.dtype)
    new[6], new[7], new[10] = a, b, a
    return new


@pytest.mark.parametrize("name", ["int32", "uint64", *deep("uint32", "int64")])
@pytest.mark.parametrize("lanes", [1, 64, *deep(4, 256)])
def test_every_atomic_gives_the_value_from_before(level: Level, name: str, lanes: int) -> None:
    """Compare-and-exchange of one element and of tiles, of 32 and of 64 bits, among them."""
    info = np.iinfo(name)
    before = np.random.default_rng(lanes).integers(info.min, info.max, (11, lanes), name, endpoint=True)
    before[8] = 3  # unlike b: nothing is exchanged
    a, b = 0x5A5A5A5, np.array([info.max - 7], name)
    memory, old = before.copy(), np.zeros((10, lanes), name)
    kernel, constants = (scalars_in_turn, {}) if lanes == 1 else (tiles_in_turn, {"N": lanes})
    level.run(kernel, (1,), memory, old, a, b, **constants)
    assert (old == before[:10]).all()
    assert (memory == after(before, a, int(b[0]))).all()


@tilewright.jit
def exchanges_halves(memory, old, expected, value, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_cas(memory + i, tl.load(expected + i), tl.load(value + i)))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_an_exchange_compares_bits(level: Level, dtype: Any) -> None:
    """-0.0 is not 0.0, and a NaN is itself; neighbours of 16 bits in one word do not disturb each other."""
    bits = f"u{np.dtype(dtype).itemsize}"
    top = 1 << (8 * np.dtype(dtype).itemsize - 1)
    codes = np.resize(np.array([0, top, top - 1, top >> 1, 1, 5, 7], bits), 64)
    expected = np.where(np.arange(64) % 3 == 0, codes, codes ^ np.array(top, bits))
    value = np.arange(100, 164).astype(bits)
    memory, old = codes.copy(), np.zeros(64, bits)
    level.run(exchanges_halves, (1,), *(each.view(dtype) for each in (memory, old, expected, value)), N=64)
    assert (old == codes).all()
    assert (memory == np.where(expected == codes, value, codes)).all()


@tilewright.jit
def masked_exchange(memory, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_cas(memory + i, 0, 1, mask=i < 2)


def test_an_exchange_takes_no_mask_and_says_so(level: Level) -> None:
    with pytest.raises(CompilationError, match="mask"):
        level.run(masked_exchange, (1,), np.zeros(4, np.int32), N=4)


# --- floats ---


@tilewright.jit
def float_extremes(high, low, old, values, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(values + i)
    tl.store(old + i, tl.atomic_max(high + i, value))
    tl.atomic_min(low + i, value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_atomic_extremes_of_floats_order_every_pair(level: Level, dtype: Any) -> None:
    """In the order of the bits: -0.0 below 0.0, a NaN beyond infinity on the side of its sign."""
    limits = np.finfo(dtype)
    numbers = [limits.min, -1.5, -limits.smallest_subnormal, -0.0, 0.0, limits.smallest_subnormal, 2.5, limits.max]
    in_order = np.array([np.copysign(np.nan, -1), -np.inf, *numbers, np.inf, np.nan], dtype)
    rank = np.arange(len(in_order))
    memory, value = (np.resize(each.ravel(), 256) for each in np.meshgrid(rank, rank, indexing="ij"))
    high, low, old = in_order[memory], in_order[memory], np.zeros(256, dtype)
    level.run(float_extremes, (1,), high, low, old, in_order[value], N=256)
    assert high.tobytes() == in_order[np.maximum(memory, value)].tobytes()
    assert low.tobytes() == in_order[np.minimum(memory, value)].tobytes()
    assert old.tobytes() == in_order[memory].tobytes()


@tilewright.jit
def adds_wide_to_narrow(memory, values, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(memory + i, tl.load(values + i))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_wide_value_is_rounded_before_it_is_added_to_a_narrow_one(level: Level, dtype: Any) -> None:
    values = np.random.default_rng(2).standard_normal(64).astype(np.float32) * 100
    before = np.random.default_rng(3).standard_normal(64).astype(dtype)
    memory = before.copy()
    level.run(adds_wide_to_narrow, (1,), memory, values, N=64)
    want = (before.astype(np.float64) + values.astype(dtype).astype(np.float64)).astype(dtype)
    assert (memory == want).all()


# --- shapes ---


@tilewright.jit
def stretches_mask_and_value(memory, rows, M: tl.constexpr, N: tl.constexpr, HOW: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    pointers = memory + i * N + j
    value, mask = tl.load(rows + i), i % 2 == 0
    if HOW == "store":
        tl.store(pointers, value, mask=mask)
    elif HOW == "add":
        tl.atomic_add(pointers, value, mask=mask)
    elif HOW == "xchg":
        tl.atomic_xchg(pointers, value, mask=mask)
    else:
        tl.atomic_store(pointers, value, mask=mask)


@tilewright.jit
def stretches_pointers(memory, out, M: tl.constexpr, N: tl.constexpr, HOW: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    if HOW == "load":
        tl.store(out + i * N + j, tl.load(memory + j, mask=i % 2 == 0, other=-1))
    elif HOW == "store":
        tl.store(memory + j, i, mask=i % 2 == 0)
    elif HOW == "add":
        tl.atomic_add(memory + j, i, mask=i % 2 == 0)
    elif HOW == "atomic store":
        tl.atomic_store(memory + j, i, mask=i % 2 == 0)
    else:
        tl.atomic_load(memory + j, mask=i % 2 == 0)


@pytest.mark.parametrize("how", ["store", "add", "xchg", "atomic store"])
def test_values_and_masks_stretch_to_the_pointers(level: Level, how: str) -> None:
    memory, rows = np.zeros((8, 16), np.int32), np.arange(1, 9, dtype=np.int32)
    level.run(stretches_mask_and_value, (1,), memory, rows, M=8, N=16, HOW=how)
    assert (memory == np.where(np.arange(8) % 2 == 0, rows, 0)[:, None]).all()


@pytest.mark.parametrize("how", ["store", "add", "atomic store", "atomic load"])
def test_pointers_stretch_in_a_plain_load_only(level: Level, how: str) -> None:
    """One rule for all that writes, the same everywhere: what would write one address twice is refused."""
    memory, out = np.arange(16, dtype=np.int32), np.zeros((8, 16), np.int32)
    with pytest.raises(CompilationError, match="pointers"):
        level.run(stretches_pointers, (1,), memory, out, M=8, N=16, HOW=how)
    level.run(stretches_pointers, (1,), memory, out, M=8, N=16, HOW="load")
    assert (out == np.where(np.arange(8)[:, None] % 2 == 0, np.arange(16), -1)).all()
