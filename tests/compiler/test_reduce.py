"""Reductions as compiled code: what comes out is, bit for bit, what the reference gives for the recorded bracketing."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.compiler.emulated import launch
from tests.compiler.kernels import Sample
from tests.compiler.test_passes import after, text_of
from tilewright import lang
from tilewright.compiler import TARGETS, Compiled, compile_module
from tilewright.compiler.passes.reductions import expand_reductions
from tilewright.compiler.passes.trees import record_trees
from tilewright.interpreter import Buffer, execute
from tilewright.lang import Module

WARPS = (1, 2, 4, 8, 16)
PLACED = "tile<8x64xf32, #linear<register=[[0, 1], [4, 0]], lane=[[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]], \
warp=[[2, 0], [0, 32]] -> [dim0:8, dim1:64]>>"
#: Tiles smaller than the block, as large, and larger, of one to three dimensions.
SHAPES = ((1,), (2,), (16,), (64,), (2048,), (4, 2), (8, 128), (128, 8), (64, 64), (2, 4, 8), (4, 32, 16))


@tilewright.jit
def then(a, b, c, d):
    """The map x -> a * x + b and then x -> c * x + d: a combination whose order counts."""
    return a * c, b * c + d


@tilewright.jit
def folds(x, y, totals, scales, shifts, SHAPE: tl.constexpr, AXIS: tl.constexpr, COUNT: tl.constexpr):
    places = tl.arange(0, COUNT)
    a, b = tl.reshape(tl.load(x + places), SHAPE), tl.reshape(tl.load(y + places), SHAPE)
    total = tl.sum(a, AXIS)
    scale, shift = tl.reduce((a, b), AXIS, then)
    LEFT: tl.constexpr = COUNT // SHAPE[AXIS]
    left = tl.arange(0, LEFT)
    if len(SHAPE) == 1:
        tl.store(totals, total)
        tl.store(scales, scale)
        tl.store(shifts, shift)
    else:
        tl.store(totals + left, tl.reshape(total, (LEFT,)))
        tl.store(scales + left, tl.reshape(scale, (LEFT,)))
        tl.store(shifts + left, tl.reshape(shift, (LEFT,)))


def fold_sample(shape: tuple[int, ...], axis: int) -> Sample:
    generator = np.random.default_rng(prod(shape) + axis)
    given = [generator.uniform(0.5, 1.5, prod(shape)).astype(np.float32) for _ in range(2)]
    results = [np.zeros(prod(shape) // shape[axis], np.float32) for _ in range(3)]
    return Sample(folds, (*given, *results), (1, 1, 1), {"SHAPE": shape, "AXIS": axis, "COUNT": prod(shape)})


def buffers(arguments: list[Any]) -> list[Any]:
    return [Buffer.of(f"a{i}", a) if isinstance(a, np.ndarray) else a for i, a in enumerate(arguments)]


def replayed(sample: Sample, compiled: Compiled) -> list[Any]:
    """What the reference makes of the GPU IR, read from its text."""
    arguments = sample.fresh()
    execute(lang.parse_module(str(compiled.stages["ttgir"])), buffers(arguments), sample.grid)
    return arguments


def emulated(sample: Sample, compiled: Compiled) -> list[Any]:
    arguments = sample.fresh()
    launch(compiled, buffers(arguments), sample.grid)
    return arguments


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_reference_replays_the_recorded_bracketing(shape: tuple[int, ...]) -> None:
    """A sum of f32, which may be taken in any order, and a function for which the order counts."""
    for axis in range(len(shape)):
        sample = fold_sample(shape, axis)
        num_warps = WARPS[(len(shape) + axis + prod(shape).bit_length()) % len(WARPS)]
        compiled = compile_module(sample.module(), "sm_90a", num_warps, until="ptx")
        wanted, got = replayed(sample, compiled), emulated(sample, compiled)
        for want, have in zip(wanted, got, strict=True):
            assert want.tobytes() == have.tobytes(), (axis, num_warps)
        assert len(compiled.metadata.trees) == 2
        for line, found, bits in compiled.metadata.trees:
            assert line > 0 and found == axis
            assert sorted(bits) == list(range(shape[axis].bit_length() - 1))


def test_a_launched_kernel_tells_its_bracketings() -> None:
    sample = fold_sample((4, 32), 1)
    kernel = folds.on("emulator:sm_90a")[(1,)](*sample.fresh(), **sample.constants, num_warps=4)
    (first, axis, bits), (second, *rest) = kernel.metadata.trees
    assert second == first + 1 and (axis, bits) == (1, (0, 1, 2, 3, 4)) == tuple(rest)


@pytest.mark.slow
@pytest.mark.parametrize("num_warps", [*WARPS, 32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_reference_replays_it_for_every_number_of_warps(shape: tuple[int, ...], num_warps: int) -> None:
    for axis in range(len(shape)):
        sample = fold_sample(shape, axis)
        compiled = compile_module(sample.module(), "sm_80", num_warps, until="ptx")
        for want, have in zip(replayed(sample, compiled), emulated(sample, compiled), strict=True):
            assert want.tobytes() == have.tobytes(), axis


def test_a_function_whose_order_counts_is_folded_in_order() -> None:
    """The composition of maps is associative but for rounding, so any bracketing is near the left fold; a pair out of
    order would not be."""
    sample = fold_sample((256,), 0)
    x, y = (array.astype(np.float64) for array in sample.arguments[:2])
    scale, shift = 1.0, 0.0
    for a, b in zip(x, y, strict=True):
        scale, shift = scale * a, shift * a + b
    for num_warps in (1, 8):
        got = emulated(sample, compile_module(sample.module(), "sm_90a", num_warps, until="ptx"))
        assert got[3][0] == pytest.approx(scale, rel=256 * 2.0**-23)
        assert got[4][0] == pytest.approx(shift, rel=256 * 2.0**-22)


# Passes


def test_fixed_reductions_become_regions() -> None:
    """A sum of narrow floats adds up in f32; an index comes along with a value."""
    lines, changed = after(expand_reductions, text_of("%p: ptr<f16>, %q: ptr<i32>, %x: tile<8xf16>, %y: tile<8xi32>",
    """
        %sum = reduce_add_f %x {axis = 0} : f16
        store %p, %sum
        %best, %at = argmax_s %y {axis = 0} : i32, i32
        store %q, %at
    """))  # fmt: skip
    assert changed
    start = lines.index("%0 = cast_f %x : tile<8xf32>")
    assert lines[start + 1 : start + 6] == [
        "%1 = reduce %0 {axis = 0, ordered = false, tree = (0, 1, 2)} : f32 {",
        "^combine(%2: f32, %3: f32):",
        "%4 = add_f %2, %3 : f32",
        "yield %4",
        "}",
    ]
    assert "%sum = cast_f %1 : f16" in lines
    index = next(line.split()[0] for line in lines if "arange {start = 0, end = 8}" in line)
    attributes = "{axis = 0, ordered = false, tree = (0, 1, 2)}"
    assert f"%best, %at = reduce %y, {index} {attributes} : i32, i32 {{" in lines
    assert not any("reduce_" in line or "argmax" in line for line in lines)


@pytest.mark.parametrize(("axis", "bits"), [(0, "(2, 0, 1)"), (1, "(0, 1, 2, 3, 4, 5)")])
def test_the_bracketing_is_the_order_of_registers_lanes_and_warps(axis: int, bits: str) -> None:
    body = f"""
        %r = reduce %x {{axis = {axis}, ordered = false}} : tile<{(64, 8)[axis]}xf32> {{
        ^combine(%a: f32, %b: f32):
          %c = add_f %a, %b : f32
          yield %c
        }}
    """
    lines, changed = after(record_trees, text_of(f"%x: {PLACED}", body))
    assert changed
    assert any(f"tree = {bits}" in line for line in lines)


# Special values


@tilewright.jit
def extremes(x, least, most, least_at, most_at, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(least + rows, tl.min(v, 1))
    tl.store(most + rows, tl.max(v, 1))
    tl.store(least_at + rows, tl.argmin(v, 1))
    tl.store(most_at + rows, tl.argmax(v, 1))


@pytest.mark.parametrize("num_warps", [1, 4, 16])
def test_zeros_nan_and_ties(num_warps: int) -> None:
    generator = np.random.default_rng(7)
    x = generator.choice(np.array([-0.0, 0.0, np.nan, 1.0, -1.0, np.inf], np.float32), (32, 128))
    x[0], x[1] = np.nan, -0.0
    x[2] = np.where(np.arange(128) % 3 == 0, np.float32(0.0), np.float32(-0.0))
    results = [np.zeros(32, np.float32), np.zeros(32, np.float32), np.zeros(32, np.int32), np.zeros(32, np.int32)]
    sample = Sample(extremes, (x, *results), (1, 1, 1), {"M": 32, "N": 128})
    wanted = sample.fresh()
    execute(sample.module(), buffers(wanted), sample.grid)
    got = emulated(sample, compile_module(sample.module(), "sm_90a", num_warps, until="ptx"))
    for want, have in zip(wanted, got, strict=True):
        assert np.array_equal(want, have, equal_nan=want.dtype.kind == "f")
        assert np.array_equal(np.signbit(want[want == 0]), np.signbit(have[want == 0]))


# Instructions


@tilewright.jit
def integer_folds(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.sum(v, 0))
    tl.store(out + 1, tl.max(v, 0))
    tl.store(out + 2, tl.xor_sum(v, 0))


def integer_module(x: np.ndarray[Any, Any]) -> tuple[Sample, Module]:
    sample = Sample(integer_folds, (x, np.zeros(3, x.dtype)), (1, 1, 1), {"N": len(x)})
    return sample, sample.module()


@pytest.mark.parametrize("target", TARGETS)
def test_a_warp_folds_integers_of_32_bits_by_one_instruction(target: str) -> None:
    sample, module = integer_module(np.arange(-500, 524, dtype=np.int32) * 7_654_321)
    compiled = compile_module(module, target, 4, until="ptx")
    ptx = str(compiled.stages["ptx"])
    for name in ("redux.sync.add.s32", "redux.sync.max.s32", "redux.sync.xor.b32"):
        assert ptx.count(name) == 1
    assert "shfl" not in ptx
    wanted = sample.fresh()
    execute(module, buffers(wanted), sample.grid)
    assert np.array_equal(wanted[1], emulated(sample, compiled)[1])


def test_other_types_and_partial_warps_take_shuffles() -> None:
    for x in (np.arange(1024, dtype=np.int64), np.arange(16, dtype=np.int32)):
        _, module = integer_module(x)
        ptx = str(compile_module(module, "sm_90a", 4, until="ptx").stages["ptx"])
        assert "redux" not in ptx and "shfl.sync.bfly.b32" in ptx


@tilewright.jit
def row_sums(x, out, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tl.store(out + rows, tl.sum(tl.load(x + rows[:, None] * N + columns[None, :]), 1))


def test_shared_memory_is_used_only_across_warps() -> None:
    """A row of 128 f32 is 4 elements in each lane of a warp."""
    x = np.ones((16, 128), np.float32)
    sample = Sample(row_sums, (x, np.zeros(16, np.float32)), (1, 1, 1), {"M": 16, "N": 128})
    ptx = str(compile_module(sample.module(), "sm_90a", 4, until="ptx").stages["ptx"])
    assert ptx.count("shfl.sync") == 5 * 4
    assert np.array_equal(
        emulated(sample, compile_module(sample.module(), "sm_90a", 4, until="ptx"))[1], np.full(16, 128, np.float32)
    )


@pytest.mark.parametrize(("num_warps", "exchanges"), [(2, 0), (4, 0), (8, 1), (16, 2), (32, 3)])
def test_what_many_warps_found_is_read_by_all_lanes_together(num_warps: int, exchanges: int) -> None:
    """A lane reads one vector of at most 16 bytes; lanes exchange the rest, in the recorded order."""
    x = np.random.default_rng(3).standard_normal((1, 8192)).astype(np.float32)
    given = Sample(row_sums, (x, np.zeros(1, np.float32)), (1, 1, 1), {"M": 1, "N": 8192})
    compiled = compile_module(given.module(), "sm_90a", num_warps)
    ptx = str(compiled.stages["ptx"])
    assert ptx.count("ld.shared") == 1 and f"ld.shared.v{min(4, num_warps)}.b32" in ptx
    assert ptx.count("shfl.sync") == 5 + exchanges
    assert [r.tobytes() for r in emulated(given, compiled)] == [r.tobytes() for r in replayed(given, compiled)]
