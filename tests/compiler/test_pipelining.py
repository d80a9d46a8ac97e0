"""Pipelined loops: which are, what they look like, and that they compute the same, to the bit, for all trip counts."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.compiler.emulated import launch
from tests.compiler.kernels import Sample
from tests.compiler.pipelined import COLUMNS, KERNELS, ROWS, STEP, sample
from tests.compiler.test_dot import product_sample
from tilewright import lang
from tilewright.bench import cases
from tilewright.bench.sources import load_kernels
from tilewright.compiler import TARGETS, SharedMemoryExceeded, compile_module
from tilewright.compiler.analysis.buffers import copied_layout
from tilewright.compiler.analysis.dot_layouts import INSTRUCTIONS, Share, operand_layout
from tilewright.compiler.analysis.placement import layout_of
from tilewright.compiler.analysis.shared_accesses import exchange_wavefronts
from tilewright.interpreter import Buffer, execute
from tilewright.lang import F16, F32, I8, Module, Operation, tile_layouts

#: What the loads of a round of these kernels take.
STAGE_BYTES = 2 * STEP * (ROWS + COLUMNS)
PIPELINED = sorted(set(KERNELS) - {"storing"})


def buffers(arguments: list[Any]) -> list[Any]:
    return [Buffer.of(f"a{i}", v) if isinstance(v, np.ndarray) else v for i, v in enumerate(arguments)]


@cache
def gpu_ir(name: str, stages: int, other: str = "0.0") -> Module:
    """What becomes of a kernel, which is the same for all bounds; its loops are as they were for one stage."""
    return stage_of(sample(name, 3, **constants(name, other)).module(), stages)


def stage_of(module: Module, stages: int) -> Module:
    text = compile_module(module, "sm_90a", 4, num_stages=stages, until="ttgir").stages["ttgir"]
    made = lang.parse_module(str(text))
    lang.verify(made)
    return made


def constants(name: str, other: str = "0.0") -> dict[str, Any]:
    """The constants of a kernel beside the extents of its tiles. `other` is text: a cache takes -0.0 for 0.0."""
    return {"OTHER": float(other)} if name == "masked" else {}


def results(module: Module, case: Sample) -> list[bytes]:
    given = case.fresh()
    execute(module, buffers(given), case.grid)
    return [value.tobytes() for value in given if isinstance(value, np.ndarray)]


def loop_of(module: Module) -> Operation:
    """The innermost loop."""
    return [operation for operation in module.kernel.walk() if operation.name == "for"][-1]


def body_of(module: Module) -> list[str]:
    """The operations on buffers, dots and barriers of the innermost loop, in order."""
    kept = ("async_wait", "barrier", "async_copy", "async_commit", "local_load", "dot", "load", "convert_layout")
    return [inner.name for inner in loop_of(module).regions[0].walk() if inner.name in kept]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("stages", (2, 3, 4, 5))
def test_every_trip_count_gives_the_same_bits(name: str, stages: int) -> None:
    for rounds in sorted({-1, 0, 1, stages - 1, stages, stages + 1, 7}):
        case = sample(name, rounds, **constants(name))
        assert results(gpu_ir(name, stages), case) == results(gpu_ir(name, 1), case), rounds


@pytest.mark.parametrize(("other", "selects"), [("0.0", 0), ("-0.0", 2), ("1.0", 2)])
def test_what_a_mask_leaves_out_is_other(other: str, selects: int) -> None:
    case, after = sample("masked", 6, **constants("masked", other)), gpu_ir("masked", 3, other)
    assert results(after, case) == results(gpu_ir("masked", 1, other), case)
    made = [inner for inner in loop_of(after).walk() if inner.name == "select" and lang.shape_of(inner.result.type)]
    assert len(made) == selects


@pytest.mark.parametrize("name", PIPELINED)
def test_loads_that_feed_a_dot_are_copied_ahead(name: str) -> None:
    names = body_of(gpu_ir(name, 3))
    assert "async_copy" in names and names.count("barrier") == names.count("async_wait") == 1
    assert ("load" in names) == (name == "gather")


def test_one_wait_and_one_barrier_a_round() -> None:
    after = gpu_ir("plain", 3)
    assert body_of(after) == [
        *("async_copy", "async_copy", "async_commit", "async_wait", "barrier", "local_load", "local_load", "dot"),
    ]
    (wait,) = [inner for inner in loop_of(after).walk() if inner.name == "async_wait"]
    assert wait.attributes["pending"] == 1


def test_what_threads_copy_for_themselves_needs_no_barrier() -> None:
    """Operands that are transposed in registers are read in the layout of the copies."""
    case = product_sample(np.float32, np.float32, (32, 32, 64), 16, "tf32", "ab")
    assert body_of(stage_of(case.module(), 3)) == [
        *("async_wait", "async_copy", "async_copy", "async_commit"),
        *("local_load", "convert_layout", "local_load", "convert_layout", "dot"),
    ]


def test_the_first_rounds_of_a_known_number_are_not_asked_about() -> None:
    """Two rounds of four that exist are copied without a predicate, the third not at all; the loop asks."""
    case = product_sample(np.float16, np.float32, (32, 32, 64), 32)
    ptx = str(compile_module(case.module(), "sm_90a", 4, num_stages=4, until="ptx").stages["ptx"])
    first, _, inside = ptx.partition("cp.async.wait_group")
    copies = [[line.split()[0] for line in part.splitlines() if "cp.async.c" in line] for part in (first, inside)]
    assert [word for word in copies[0] if word != "cp.async.commit_group;"] == ["cp.async.cg.shared.global"] * 4
    assert [word[0] for word in copies[1] if word != "cp.async.commit_group;"] == ["@"] * 2
    assert copies[0].count("cp.async.commit_group;") == 3


def test_a_stage_that_is_read_as_it_is_copied_has_no_swizzle() -> None:
    """What a mask leaves out is put in by the threads that copied."""
    made = [inner for inner in gpu_ir("masked", 3, "1.0").kernel.walk() if inner.name == "local_alloc"]
    assert len(made) == 2
    for buffer in made:
        layout = layout_of(buffer.result.type)
        assert layout is not None and all(sum(map(bool, vector)) == 1 for vector in layout.bases["offset"])


def test_loops_that_write_memory_are_left_alone() -> None:
    assert "async_copy" not in body_of(gpu_ir("storing", 3))


def test_one_stage_is_no_pipelining() -> None:
    assert "async_copy" not in body_of(gpu_ir("plain", 1))


def test_a_loop_carries_no_pointer_twice() -> None:
    carried = [str(lang.element_of(result.type)) for result in loop_of(gpu_ir("masked", 3)).results]
    # Two buffers, the sum, the stages, the pointer of b, and what the dot of the next round takes.
    assert sorted(carried) == ["f16", "f16", "f16", "f16", "f32", "i32", "i32", "ptr<f16>"]


@pytest.mark.parametrize("name", PIPELINED)
@pytest.mark.parametrize(("target", "stages", "rounds"), [("sm_80", 2, 1), ("sm_120a", 3, 7), ("sm_90a", 3, 7)])
def test_compiled_loops_do_what_the_reference_does(
    name: str, target: str, stages: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_room_for(stages * STAGE_BYTES - 1, monkeypatch)
    case = sample(name, rounds, **constants(name))
    want, got = case.fresh(), case.fresh()
    execute(case.module(), buffers(want), case.grid)
    compiled = compile_module(case.module(), target, 4, num_stages=stages, until="ptx")
    assert "cp.async" in compiled.stages["ptx"]
    launch(compiled, buffers(got), case.grid)
    for mine, reference in zip(got, want, strict=True):
        if isinstance(mine, np.ndarray):
            assert mine.tobytes() == reference.tobytes()  # small integers: every sum is exact


def matmul(bm: int, bn: int, bk: int) -> Module:
    """The matrix product with block pointers, all of whose accesses are 16 bytes wide."""
    case = cases.matmul(256, 256, 256, bm, bn, bk, blocks=True)
    kernel = getattr(load_kernels(case.family, tilewright, tilewright.language), case.kernel)
    return Sample(kernel, case.arguments, (1, 1, 1), case.constants).module()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_a_matrix_product_copies_16_bytes_at_a_time_and_waits_once_a_round(target: str) -> None:
    ptx = str(compile_module(matmul(128, 128, 32), target, 4, num_stages=3, until="ptx").stages["ptx"])
    inside = ptx[ptx.index("ldmatrix", ptx.index("$L__BB0_2:")) : ptx.rindex("mma.sync")]
    assert len(re.findall(r"cp\.async\.cg\.shared\.global \[[^\]]*\], \[[^\]]*\], 16, ", ptx)) == 3 * 8
    assert inside.count("bar.sync") == inside.count("cp.async.wait_group") == inside.count("commit_group") == 1
    assert inside.count("ldmatrix") == 16 and "cp.async.ca" not in ptx and "ld.global" not in ptx


def test_matrix_instructions_begin_before_all_is_loaded_and_copies_come_in_between() -> None:
    """The fragments of two steps along K, the copies of the next round, and then step by step."""
    ptx = str(compile_module(matmul(128, 128, 64), "sm_90a", 4, num_stages=3, until="ptx").stages["ptx"])
    inside = ptx[ptx.index("cp.async.wait_group") : ptx.rindex("mma.sync")]
    order = re.findall(r"ldmatrix|cp\.async\.(?:cg|commit)|mma\.sync", inside)
    runs = [(name, len(list(run))) for name, run in itertools.groupby(order)]
    assert runs[:4] == [("ldmatrix", 16), ("cp.async.cg", 16), ("cp.async.commit", 1), ("mma.sync", 32)]
    assert runs[4:] == [("ldmatrix", 8), ("mma.sync", 32), ("ldmatrix", 8), ("mma.sync", 2 * 32 - 1)]


@pytest.mark.parametrize(("tile", "num_warps"), [((128, 128, 32), 4), ((128, 256, 64), 8)])
def test_a_matrix_product_spills_nothing(tile: tuple[int, int, int], num_warps: int) -> None:
    used = compile_module(matmul(*tile), "sm_90a", num_warps, num_stages=3).metadata
    assert (used.stack, used.spills) == (0, 0)
    bm, bn, bk = tile
    assert used.shared == 3 * 2 * bk * (bm + bn)  # what the result needs on its way out goes where these were


def test_one_buffer_less_where_so_many_do_not_fit() -> None:
    """3 stages of 48 KB are more than the 99 KB of sm_89, which 2 are not."""
    compiled = compile_module(matmul(128, 256, 64), "sm_89", 8, num_stages=3, until="ptx")
    assert compiled.metadata.shared == 98_304
    assert body_of(lang.parse_module(compiled.stages["ttgir"])) == [
        *("async_wait", "barrier", "local_load", "local_load", "dot"),
        *("barrier", "async_copy", "async_copy", "async_commit"),
    ]


@pytest.mark.parametrize("name", PIPELINED)
@pytest.mark.parametrize("stages", [2, 4])
def test_one_buffer_less_gives_the_same_bits(name: str, stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = gpu_ir(name, 1)
    leave_room_for(stages * STAGE_BYTES - 1, monkeypatch)
    after = stage_of(sample(name, 3, **constants(name)).module(), stages)
    assert {inner.attributes["stages"] for inner in after.kernel.walk() if inner.name == "local_alloc"} == {stages - 1}
    for rounds in (-1, 0, 1, stages, 7):
        case = sample(name, rounds, **constants(name))
        assert results(after, case) == results(before, case), rounds


def leave_room_for(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take shared memory away from a target."""
    monkeypatch.setitem(TARGETS, "sm_90a", replace(TARGETS["sm_90a"], shared_bytes=size))


def test_a_loop_says_how_many_stages_it_wants() -> None:
    module = sample("plain", 3).module()
    loop_of(module).attributes["num_stages"] = 5
    made = stage_of(module, 2)
    assert {inner.attributes["stages"] for inner in made.kernel.walk() if inner.name == "local_alloc"} == {5}


def test_too_many_stages_are_refused_with_the_figures() -> None:
    with pytest.raises(SharedMemoryExceeded) as raised:
        compile_module(matmul(128, 128, 64), "sm_90a", 4, num_stages=9)
    message = str(raised.value)
    assert "a block of sm_90a has 232,448" in message and "lower num_stages" in message
    assert message.count("131,072  8 rounds of a loop's loads, ") == 2


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("row", [64, 128, 256])
def test_the_halves_of_a_sector_of_global_memory_stay_neighbours(size: int, row: int) -> None:
    """32 bytes of a row that two lanes copy are 32 bytes of the buffer; and there is no bank conflict all the same."""
    shape, own = (128, row // size), 16 // size
    lanes = [32 * 16 // row, row // 16]
    source = tile_layouts.blocked((1, own), lanes, (4, 1), (1, 0), shape)
    target = operand_layout(shape, 0, INSTRUCTIONS[{1: I8, 2: F16, 4: F32}[size]], Share(m=2, n=2))
    memory = copied_layout(source, own, target, size)
    places = [memory.apply({"offset": offset}) for offset in range(2 * own)]
    (start, *_), columns = {place["dim0"] for place in places}, sorted(place["dim1"] for place in places)
    assert len({place["dim0"] for place in places}) == 1 and columns == list(range(columns[0], columns[0] + 2 * own))
    assert columns[0] % (2 * own) == 0 and start == 0
    assert exchange_wavefronts(memory, source, target, size, stmatrix=False)[1] == prod(shape) * size * 2 // 128
