"""Atomics: indivisible, in order, also where many lanes meet at one address."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.oracles import batch_of, bits, make, run
from tilewright.interpreter.memory import Buffer
from tilewright.interpreter.numerics import add, cast
from tilewright.interpreter.values import dense, storage
from tilewright.lang import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I16,
    I32,
    I64,
    FloatType,
    IntType,
    PointerType,
    ScalarType,
    TileType,
)


def one_by_one(kind: str, element: ScalarType, old: np.generic, value: np.generic) -> np.generic:
    """What one lane does, on NumPy scalars of the element's storage."""
    a, b = (np.array([v], storage(element)) for v in (old, value))
    unsigned = [x.view(f"u{x.dtype.itemsize}") for x in (a, b)]
    if kind == "add_f":
        assert isinstance(element, FloatType)
        return add(a, b, element.name)[0]
    if kind in ("min_f", "max_f"):
        ints = [int(x.view(f"i{x.dtype.itemsize}")[0]) for x in (a, b)]
        negative = ints[1] < 0
        if negative:
            picked = (max if kind == "min_f" else min)(range(2), key=lambda i: int(unsigned[i][0]))
        else:
            picked = (min if kind == "min_f" else max)(range(2), key=lambda i: ints[i])
        return (a, b)[picked][0]
    with np.errstate(all="ignore"):
        return {
            "add_i": lambda: a + b, "min_s": lambda: np.minimum(a, b), "max_s": lambda: np.maximum(a, b),
            "min_u": lambda: np.minimum(*unsigned).view(a.dtype), "max_u": lambda: np.maximum(*unsigned).view(a.dtype),
            "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b, "xchg": lambda: b,
        }[kind]()[0]  # fmt: skip


RMW = [(kind, element) for kind, admitted in {
    "add_i": (I32, I64), "add_f": (F16, BF16, F32, F64), "min_s": (I32, I64), "min_u": (I32, I64), "max_s": (I32, I64),
    "max_u": (I32, I64), "min_f": (F32, F64), "max_f": (F32, F64), "and": (I32, I64), "or": (I32, I64),
    "xor": (I32, I64), "xchg": (I32, I64, F32, F64),
}.items() for element in admitted]  # fmt: skip


def random_values(rng: np.random.Generator, element: ScalarType, count: int) -> np.ndarray:
    dtype = storage(element)
    if isinstance(element, IntType):
        return rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    values = rng.standard_normal(count) * 2.0 ** rng.integers(-12, 12, count)
    values[rng.random(count) < 0.05] = [np.inf, -np.inf, np.nan, -0.0][int(rng.integers(4))]
    assert isinstance(element, FloatType)
    return cast(values, "f64", element.name)


@pytest.mark.parametrize("spread", [1, 3, 40, 4000])
@pytest.mark.parametrize(("kind", "element"), RMW)
def test_atomics_equal_a_sequential_loop(kind: str, element: ScalarType, spread: int) -> None:
    rng, dtype, shape, count = np.random.default_rng(spread), storage(element), (4, 8), 5
    memory = random_values(rng, element, spread)
    buffer = Buffer.of("x0", memory.view(f"u{dtype.itemsize}"))
    values = random_values(rng, element, count * 32).reshape(count, *shape)
    places = rng.integers(0, spread, values.shape)
    mask = rng.random(values.shape) < 0.8
    expected, old = memory.copy(), np.zeros(values.shape, dtype)
    for index in np.ndindex(values.shape):
        if mask[index]:
            old[index] = expected[places[index]]
            expected[places[index]] = one_by_one(kind, element, old[index], values[index])
    types = (TileType(shape, PointerType(element)), TileType(shape, element), TileType(shape, I1))
    operation = make("atomic_rmw", types, kind=kind)
    got = run(operation, batch_of(count, buffer), places * dtype.itemsize + buffer.start, values, mask)
    assert got.dtype == dtype
    for a, b in ((got, old), (memory, expected)):
        same = bits(a) == bits(b)
        if isinstance(element, FloatType):
            same |= np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
        assert same.all()


@pytest.mark.parametrize("element", [I16, I32, I64, F16, BF16, F32, F64])
def test_compare_and_swap_compares_bits_in_order(element: ScalarType) -> None:
    rng, dtype = np.random.default_rng(7), storage(element)
    codes = np.array([0, 1, 2, 1 << 8 * dtype.itemsize - 1], np.uint64).astype(
        f"u{dtype.itemsize}"
    )  # +0, -0 and two more
    memory = rng.choice(codes, 3)
    expected, values = rng.choice(codes, (2, 40, 2))
    places = rng.integers(0, 3, (40, 2))
    after, old = memory.copy(), np.zeros((40, 2), codes.dtype)
    for index in np.ndindex(old.shape):
        old[index] = after[places[index]]
        if old[index] == expected[index]:
            after[places[index]] = values[index]
    buffer = Buffer.of("x0", memory)
    types = (TileType((2,), PointerType(element)), TileType((2,), element), TileType((2,), element))
    batch = batch_of(40, buffer)
    pointer = places * dtype.itemsize + buffer.start
    got = run(make("atomic_cas", types), batch, pointer, expected.view(dtype), values.view(dtype))
    assert got.dtype == dtype and (bits(got) == old).all() and (memory == after).all()


def test_an_atomic_at_one_address_runs_once_a_program() -> None:
    counter = np.zeros(1, np.int32)
    batch = batch_of(100, buffer := Buffer.of("x0", counter))
    rmw = make("atomic_rmw", (PointerType(I32), I32), kind="add_i")
    ticket = run(rmw, batch, np.array([buffer.start]), np.array([2], np.int32))
    assert ticket.tolist() == list(range(0, 200, 2)) and counter.tolist() == [200]


def test_the_version_grows_only_if_an_atomic_changes_something() -> None:
    lock = np.zeros(1, np.int32)
    batch = batch_of(1, buffer := Buffer.of("x0", lock))
    cas = make("atomic_cas", (PointerType(I32), I32, I32))
    zero, one, at = np.zeros(1, np.int32), np.ones(1, np.int32), np.array([buffer.start])
    assert run(cas, batch, at, zero, one).tolist() == [0]
    version = batch.memory.version
    assert version > 0 and run(cas, batch, at, zero, one).tolist() == [1]
    assert batch.memory.version == version
    run(make("store", (PointerType(I32), I32)), batch, at, one)
    assert batch.memory.version == version
    run(make("store", (PointerType(I32), I32)), batch, at, zero)
    assert batch.memory.version > version


def test_atomic_loads_stores_and_looks() -> None:
    data = np.array([3, 4], np.int32)
    batch = batch_of(2, buffer := Buffer.of("x0", data))
    at, pointer = buffer.start + np.array([0, 4]), PointerType(I32)
    assert dense(run(make("atomic_load", (pointer, I1)), batch, at, np.array([False, True]))).tolist() == [0, 4]
    run(make("atomic_store", (pointer, I32)), batch, at, np.array([7, 8], np.int32))
    assert data.tolist() == [7, 8]
    look = run(make("atomic_poll", (pointer, I32)), batch, at, np.array([7], np.int32))
    assert look.dtype == np.bool_ and look.tolist() == [True, False]
