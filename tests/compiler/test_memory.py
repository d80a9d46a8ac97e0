"""Vectors of every element type through compiled loads and stores: whole, cut off by a mask, and filled up."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.compiler.building import Kernel
from tests.compiler.emulated import launch
from tilewright.compiler import TARGETS, compile_module
from tilewright.difftest.storage import to_array
from tilewright.interpreter import Buffer, execute
from tilewright.lang import I1, NUMBERS, FloatType, IntType, Module, TileType, Value, byte_width

EXTENT = 1024
FILLINGS = ("no mask", "nothing", "zero", "a number", "a tile")


def filled(element: IntType | FloatType, filling: str) -> Module:
    """out[i] = x[i] for i below n, a multiple of 16, and what the filling says beyond, on one tile."""
    kernel = Kernel()
    x, y, out = (kernel.pointer(element) for _ in range(3))
    count = kernel.number(IntType(32), "n", 16)
    offsets = kernel.offsets(EXTENT)
    inside = kernel.make("cmp_lt_s", [offsets, kernel.splat(count, (EXTENT,))])
    operands = [kernel.at(x, offsets), *([] if filling == "no mask" else [inside]), *other(kernel, element, filling, y)]
    value = kernel.make("load", operands)
    mask = [inside] if filling == "nothing" else []  # what is read beyond must not matter
    kernel.do("store", [kernel.at(out, offsets), value, *mask])
    return kernel.module()


def other(kernel: Kernel, element: IntType | FloatType, filling: str, y: Value) -> list[Value]:
    number: Any = 1 if isinstance(element, IntType) else -1.5
    if filling == "a tile":
        return [kernel.make("load", [kernel.at(y, kernel.offsets(EXTENT))])]
    if filling in ("zero", "a number"):
        literal = number if filling == "a number" else 0 if isinstance(element, IntType) else 0.0
        return [kernel.constant(literal, TileType((EXTENT,), element))]
    return []


def numbers(element: IntType | FloatType, seed: int) -> Any:
    """Any codes; NaNs keep theirs, since bits only move."""
    draw = np.random.default_rng(seed)
    width = 1 if element == I1 else 8 * byte_width(element)
    return to_array([int(code) for code in draw.integers(0, 1 << width, EXTENT, np.uint64)], element, (EXTENT,))


@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_bits_arrive_as_they_left(element: IntType | FloatType, filling: str) -> None:
    module = filled(element, filling)
    given = [numbers(element, 1), numbers(element, 2)]
    results = [numbers(element, 3) for _ in range(3)]
    execute(module, [Buffer.of(f"a{i}", a) for i, a in enumerate([*given, results[0]])] + [512], (1, 1, 1))
    target = list(TARGETS)[(len(filling) + byte_width(element)) % len(TARGETS)]
    for result, num_warps in zip(results[1:], (1, 4), strict=True):
        compiled = compile_module(module, target, num_warps, until="ptx")
        launch(compiled, [*(Buffer.of(f"a{i}", a) for i, a in enumerate([*given, result])), 512], (1, 1, 1))
        if byte_width(element) > 1:  # 8 elements a thread, or 32: at 8 bytes and more in vectors, however it is sliced
            assert re.search(r"ld\.global\.v[24]\.b(32|64)", str(compiled.stages["ptx"]))
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


@tilewright.jit
def meets_itself(p, out, N: tl.constexpr, LATER: tl.constexpr):
    """Elements of one tile of pointers have the same address along each diagonal."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    q = p + i + j
    first = (i == 0) | (j == N - 1)
    if LATER:
        before = tl.load(q)
        tl.store(q, before * 100 + 1, mask=first)
        tl.store(out + i * N + j, before)
    else:
        tl.store(q, (i + j) * 10.0, mask=first)
        tl.store(out + i * N + j, tl.load(q))


@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("later", [False, True])
def test_a_tile_of_pointers_that_meets_itself_is_no_proof_of_order(num_warps: int, later: bool) -> None:
    size = 32
    given = np.arange(2 * size - 1, dtype=np.float32)
    diagonal = np.add.outer(np.arange(size), np.arange(size))
    out = np.zeros((size, size), np.float32)
    meets_itself.on("emulator:sm_90a")[(1,)](given, out, N=size, LATER=later, num_warps=num_warps)
    assert np.array_equal(out, diagonal if later else 10 * diagonal)
    changed = np.arange(2 * size - 1)
    assert np.array_equal(given, 100 * changed + 1 if later else 10 * changed)
