"""Prefetched dots: which are, what their loops look like, and that they compute the same, to the bit."""

from __future__ import annotations

import io
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from llvmlite import binding

import tilewright
import tilewright.language as tl
from tests.compiler.emulated import launch
from tests.compiler.kernels import Sample
from tests.compiler.test_distributed import agrees, broken, gpu_ir, left
from tests.compiler.test_dot import buffers, emulated, product_sample, ptx_of
from tests.compiler.test_pipelining import body_of, loop_of, stage_of
from tilewright import lang
from tilewright.bench import cases
from tilewright.bench.sources import load_kernels
from tilewright.compiler import compile_module
from tilewright.compiler.analysis.stages import differ
from tilewright.interpreter import DistributionError, Options, execute, execute_distributed
from tilewright.lang import Module, Operation, shape_of


@tilewright.jit
def talking(a, b, out, rounds):
    i, j, k = tl.arange(0, 16), tl.arange(0, 16), tl.arange(0, 32)
    acc = tl.zeros((16, 16), tl.float32)
    for r in range(rounds):
        x = tl.load(a + i[:, None] * 128 + (r * 32 + k)[None, :])
        y = tl.load(b + (r * 32 + k)[:, None] * 16 + j[None, :])
        tl.device_print("begin", r)
        acc = tl.dot(x, y, acc)
        tl.device_print("acc", tl.sum(tl.sum(acc, axis=1), axis=0))
        tl.device_print("end", r)
    tl.store(out + i[:, None] * 16 + j[None, :], acc)


@tilewright.jit
def asserting(a, b, out, rounds):
    i, j, k = tl.arange(0, 16), tl.arange(0, 16), tl.arange(0, 32)
    acc = tl.zeros((16, 16), tl.float32)
    for r in range(rounds):
        x = tl.load(a + i[:, None] * 128 + (r * 32 + k)[None, :])
        y = tl.load(b + (r * 32 + k)[:, None] * 16 + j[None, :])
        acc = tl.dot(x, y, acc)
        tl.device_assert(tl.sum(tl.sum(acc, axis=1), axis=0) > 1e9, "first: acc")
        tl.device_assert(r < 0, "second: r")
    tl.store(out + i[:, None] * 16 + j[None, :], acc)


@tilewright.jit
def carrying(a, b, out, rounds):
    i, j, k = tl.arange(0, 2), tl.arange(0, 16), tl.arange(0, 8)
    acc = tl.zeros((2, 16), tl.int32)
    x, y = tl.load(a + i[:, None] * 16 + k[None, :]), tl.load(b + k[:, None] * 16 + j[None, :])
    for _ in range(rounds):
        acc = tl.dot(x, y, acc, out_dtype=tl.int32)
        x, y = tl.load(a + i[:, None] * 16 + (8 + k)[None, :]), tl.load(b + (8 + k)[:, None] * 16 + j[None, :])
    tl.store(out + i[:, None] * 16 + j[None, :], acc)


def talking_sample(kernel: Any) -> Sample:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((16, 128), (128, 16)))
    return Sample(kernel, (a, b, np.zeros((16, 16), np.float32), 4), (1, 1, 1), {})


@tilewright.jit
def columns(a, b, c, K: tl.constexpr, STEP: tl.constexpr):
    """`c = a @ b`, in steps along K, `b` with its columns one behind the other."""
    i, j, k = tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, STEP)
    acc = tl.zeros((32, 32), c.dtype.element_ty)
    for r in range(0, K, STEP):
        x = tl.load(a + i[:, None] * K + (r + k)[None, :])
        y = tl.load(b + (r + k)[:, None] + j[None, :] * K)
        acc = tl.dot(x, y, acc, out_dtype=c.dtype.element_ty)
    tl.store(c + i[:, None] * 32 + j[None, :], acc)


def product_by_columns(kind: Any, result: Any, depth: int, step: int) -> Sample:
    a, b, c = product_sample(kind, result, (32, 32, depth), step).arguments
    return Sample(columns, (a, b.T.copy(), c), (1, 1, 1), {"K": depth, "STEP": step})


#: (type of the operands, of the result, elements of K in an instruction, precision).
ROWS = (
    (np.float16, np.float32, 16, "ieee"),
    (np.float16, np.float16, 16, "ieee"),
    (ml_dtypes.bfloat16, np.float32, 16, "ieee"),
    (np.float32, np.float32, 8, "tf32"),
    (np.float64, np.float64, 4, "ieee"),
    (np.int8, np.int32, 32, "ieee"),
    (ml_dtypes.float8_e4m3fn, np.float32, 32, "ieee"),
)


def loads_of(module: Module) -> list[Operation]:
    return [operation for operation in module.kernel.walk() if operation.name == "local_load"]


def is_prefetched(module: Module) -> bool:
    """Whether the loop loads parts of its stages."""
    found = {bool(load.attributes["first"]) for load in loads_of(module)}
    assert len(found) == 1  # all of them or none
    return found.pop()


def test_each_step_is_loaded_one_step_ahead() -> None:
    """And the first of the next round behind the wait, in front of the last dot."""
    module = stage_of(product_sample(np.float16, np.float32, (32, 32, 192), 48 + 16).module(), 3)
    assert body_of(module) == [
        *("async_copy", "async_copy", "async_commit", "local_load", "local_load", "dot"),
        *("local_load", "local_load", "dot", "local_load", "local_load", "dot"),
        *("async_wait", "barrier", "local_load", "local_load", "dot"),
    ]
    firsts = [load.attributes["first"] for load in loads_of(module)[2:]]
    assert firsts == [*((0, 16), (16, 0), (0, 32), (32, 0), (0, 48), (48, 0)), *((0, 0), (0, 0))]
    assert {shape_of(load.result.type) for load in loads_of(module)} == {(32, 16), (16, 32)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{np.dtype(row[0])}-{np.dtype(row[1])}")
def test_every_trip_count_and_number_of_steps_gives_the_same_bits(row: tuple[Any, Any, int, str]) -> None:
    kind, result, depth, precision = row
    for steps, stages, rounds in ((1, 3, 4), (2, 2, 1), (2, 3, 2), (2, 4, 3), (4, 3, 5), (4, 2, 4)):
        step = depth * steps
        if kind is np.int8:  # whose rows are loaded byte by byte
            case = product_by_columns(kind, result, rounds * step, step)
        else:
            case = product_sample(kind, result, (32, 32, rounds * step), step, precision)
        made = emulated(case, "sm_90a", 4, stages)
        assert made.tobytes() == emulated(case, "sm_90a", 4, 1).tobytes(), (steps, stages, rounds)
        assert is_prefetched(stage_of(case.module(), stages))


@pytest.mark.parametrize("kind, result", [(np.int8, np.int32), (ml_dtypes.float8_e5m2, np.float32)])
def test_integers_that_are_loaded_byte_by_byte_are_left_alone(kind: Any, result: Any) -> None:
    """Rows of 8 bits are no words along K, columns are; of floats the assembler makes 16 bits, which takes its time."""
    rows, by_columns = product_sample(kind, result, (32, 32, 128), 64), product_by_columns(kind, result, 128, 64)
    assert is_prefetched(stage_of(by_columns.module(), 3))
    assert is_prefetched(stage_of(rows.module(), 3)) == (kind is not np.int8)
    assert emulated(rows, "sm_90a", 4, 3).tobytes() == emulated(by_columns, "sm_90a", 4, 3).tobytes()
    if kind is np.int8:
        a, b, _ = rows.arguments
        assert np.array_equal(emulated(rows, "sm_90a", 4, 3), a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("num_warps", [1, 2, 8])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_threads_and_registers_leave_the_same_bits(steps: int, num_warps: int) -> None:
    case = product_sample(np.float16, np.float32, (64, 32, 5 * 16 * steps), 16 * steps)
    module = gpu_ir(case.module(), num_warps)
    assert is_prefetched(module) and agrees(module, case)


def test_waits_commits_and_barriers_are_all_needed() -> None:
    case = product_sample(np.float16, np.float32, (32, 32, 6 * 32), 32)
    module = gpu_ir(case.module(), 4)
    want, found = left(execute, module, case), 0
    for fault, wrong in broken(module):
        assert left(execute, wrong, case) == want
        try:
            left(execute_distributed, wrong, case)
        except DistributionError as error:
            assert re.search("before the copy|no barrier since", str(error))
            found += 1
        else:
            assert fault.name == "barrier" and not fault.looped  # what the result needs, after the loop
    assert found == 10  # two commits and a wait twice, a barrier before the loop; the same in it with one commit


def test_what_a_loop_holds_for_the_next_round_is_not_taken_apart() -> None:
    """16-bit operands go round as the words that instructions take."""
    ptx = ptx_of(product_sample(np.float16, np.float32, (64, 64, 128), 32), num_stages=3)
    inside = ptx[ptx.index("ldmatrix", ptx.index("mma.sync")) : ptx.rindex("mma.sync")]
    assert "mov.b32 \t{" not in inside and "prmt" not in inside and "ldmatrix" in inside


def product(tile: tuple[int, int, int], blocks: bool) -> Module:
    """A product whose loop carries its addresses, or with block pointers, which computes them anew in each round."""
    case = cases.matmul(4096, 4096, 4096, *tile, blocks=blocks)
    kernel = getattr(load_kernels("matmul", tilewright, tl), case.kernel)
    return Sample(kernel, case.arguments, (1, 1, 1), case.constants).module()


@pytest.mark.parametrize(
    ("tile", "num_warps", "blocks", "wanted"),
    [
        ((128, 128, 32), 4, False, True),
        ((128, 128, 64), 4, False, True),
        ((128, 256, 32), 8, False, True),
        ((128, 256, 64), 8, False, True),
        ((256, 128, 64), 8, False, True),
        ((128, 128, 128), 4, False, False),
        ((128, 128, 32), 4, True, True),
        ((128, 256, 32), 8, True, True),
        ((128, 128, 64), 4, True, False),
        ((64, 64, 32), 1, True, False),
    ],
)
def test_a_loop_that_needs_too_many_registers_is_left_alone(
    tile: tuple[int, int, int], num_warps: int, blocks: bool, wanted: bool
) -> None:
    """What is prefetched has them all: nothing is spilled."""
    module = product(tile, blocks)
    made = compile_module(module, "sm_90a", num_warps, num_stages=3, until="cubin" if wanted else "ttgir")
    ttgir = lang.parse_module(str(made.stages["ttgir"]))
    assert is_prefetched(ttgir) == wanted and ("keep_addresses" in ttgir.attributes) == (wanted and not blocks)
    assert made.metadata.spills == 0


def test_addresses_of_the_next_round_come_behind_this_rounds_copies_and_in_their_registers() -> None:
    case = cases.matmul(256, 256, 256, 128, 128, 64)
    kernel = load_kernels("matmul", tilewright, tl).matmul_kernel
    made = kernel.warmup(*case.arguments, grid=case.grid, device="emulator:sm_90a", **case.constants).asm
    (loop,) = [o for o in lang.parse_module(str(made["ttgir"])).kernel.walk() if o.name == "for"]
    names = [operation.name for operation in loop.regions[0].operations]
    assert names.index("async_commit") < names.index("dot")
    assert names[-3:] == ["add_ptr", "add_ptr", "yield"]
    last_part = re.split(r"cp\.async\.wait_group|\bbra\b", made["ptx"])[-2]
    assert len(re.findall(r"add\.s64 \t(%rd\d+), \1, 128;", last_part)) == 8 and "mov.b64" not in last_part


NATIVE = """
define void @f(ptr %p, i64 %n, i64 %step) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %at = mul i64 %i, %step
  %q = getelementptr double, ptr %p, i64 %at
  store double 1.0, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}"""


def test_loops_of_others_in_the_process_are_compiled_as_ever() -> None:
    """Strength reduction is off while the PTX of some products is made, and no longer; other PTX is made without."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()

    def native() -> str:
        machine = binding.Target.from_default_triple().create_target_machine(opt=3)
        return str(machine.emit_assembly(binding.parse_assembly(NATIVE)))

    before = native()
    binding.set_option("", "-disable-lsr")
    assert native() != before
    binding.set_option("", "-disable-lsr=0")
    modules = product((64, 64, 32), True), product((64, 64, 32), False)

    def made(number: int) -> str:
        return str(compile_module(modules[number % 2], "sm_90a", 4, num_stages=3, until="ptx").stages["ptx"])

    alone = made(0), made(1)
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(made, range(16))] == [*alone] * 8
    assert native() == before


@pytest.mark.parametrize(
    ("target", "kind", "precision"),
    [("sm_90a", np.float32, "tf32x3"), ("sm_90a", np.float32, "bf16x6"), ("sm_89", ml_dtypes.float8_e4m3fn, "ieee")],
)
def test_sums_that_are_made_apart_are_left_alone(target: str, kind: Any, precision: str) -> None:
    case = product_sample(kind, np.float32, (32, 32, 256), 64, precision)
    made = compile_module(case.module(), target, 4, num_stages=3, until="ttgir").stages["ttgir"]
    assert not is_prefetched(lang.parse_module(str(made)))
    assert emulated(case, target, 4, 3).tobytes() == emulated(case, target, 4, 1).tobytes()


def test_what_is_printed_and_asserted_stays_in_order() -> None:
    """What does not need the dot goes in front of it, unless it says something after what does."""
    case = talking_sample(talking)
    want = io.StringIO()
    execute(case.module(), buffers(case.fresh()), case.grid, Options(stdout=want))
    for stages in (1, 3):
        compiled = compile_module(case.module(), "sm_90a", 4, num_stages=stages, until="ptx")
        assert stages == 1 or is_prefetched(lang.parse_module(str(compiled.stages["ttgir"])))
        printed = launch(compiled, buffers(case.fresh()), case.grid)
        words = [re.findall(r"begin|acc|end", text) for text in (printed, want.getvalue())]
        assert words[0] == words[1] == ["begin", "acc", "end"] * 4


def test_the_first_assertion_that_fails_is_told() -> None:
    for device in ("interpreter", "emulator:sm_90a"):
        with tilewright.knobs.scope(debug=True), pytest.raises(tilewright.TilewrightError, match="first: acc"):
            asserting.on(device)[(1,)](*talking_sample(asserting).fresh(), num_stages=3)


def test_a_tile_that_is_carried_for_plain_multiply_adds_is_not_packed() -> None:
    """What LLVM makes of words for one round has bits in it that nothing wrote."""
    given = np.ones((2, 16), np.int8), np.ones((16, 16), np.int8), np.zeros((2, 16), np.int32), 1
    case = Sample(carrying, given, (1, 1, 1), {})
    compiled = compile_module(case.module(), "sm_90a", 4, until="ptx")
    got, want = case.fresh(), case.fresh()
    launch(compiled, buffers(got), case.grid)
    execute(case.module(), buffers(want), case.grid)
    assert got[2].tobytes() == want[2].tobytes()


# --- numbers of stages ---

#: A stage is written in every fourth round, and read in the second one after it.
FAR = """module {
kernel @k(%p: ptr<i32> {divisibility = 16}, %out: ptr<i32> {divisibility = 16}, %n: i32) {
  %i = arange {start = 0, end = 128} : tile<128xi32>
  %h = arange {start = 0, end = 64} : tile<64xi32>
  %0 = splat %p {shape = (128,)} : tile<128xptr<i32>>
  %1 = add_ptr %0, %i : tile<128xptr<i32>>
  %x = load %1 : tile<128xi32>
  %acc = constant {value = 0} : tile<64xi32>
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %two = constant {value = 2} : i32
  %four = constant {value = 4} : i32
  %b = local_alloc {stages = 2} : tile<2x128xi32>
  %e0 = local_alloc {stages = 2} : tile<2x64xi32>
  %e1 = local_store %e0, %zero, %acc : tile<2x64xi32>
  %e = local_store %e1, %one, %acc : tile<2x64xi32>
  barrier
  %br, %accr, %oldr, %nowr = for %zero, %n, %one, %b, %acc, %one, %zero : tile<2x128xi32>, tile<64xi32>, i32, i32 {
  ^body(%r: i32, %b1: tile<2x128xi32>, %acc1: tile<64xi32>, %old: i32, %now: i32):
    %dull = local_load %e, %old : tile<64xi32>
    %m = rem_s %r, %four : i32
    %c = cmp_eq_i %m, %zero : i1
    %d = cmp_eq_i %m, %two : i1
    %b3, %acc3 = if %c : tile<2x128xi32>, tile<64xi32> {
    ^then:
      %s = splat %r {shape = (128,)} : tile<128xi32>
      %xs = add_i %x, %s : tile<128xi32>
      %b2 = local_store %b1, %now, %xs : tile<2x128xi32>
      yield %b2, %acc1
    ^else:
      %acc4 = if %d : tile<64xi32> {
      ^then:
        %y = local_load %b1, %now {first = (64,)} : tile<64xi32>
        %acc2 = add_i %acc1, %y : tile<64xi32>
        yield %acc2
      ^else:
        yield %acc1
      }
      yield %b1, %acc4
    }
    %acc5 = add_i %acc3, %dull : tile<64xi32>
    %more = add_i %now, %one : i32
    %w = cmp_eq_i %more, %two : i1
    %next = select %w, %zero, %more : i32
    yield %b3, %acc5, %now, %next
  }
  %o = splat %out {shape = (64,)} : tile<64xptr<i32>>
  %o1 = add_ptr %o, %h : tile<64xptr<i32>>
  store %o1, %accr
  return
}
}
"""


def test_accesses_two_rounds_apart_have_a_barrier_between_them() -> None:
    made = gpu_ir(lang.parse_module(FAR), 4)
    (loop,) = [operation for operation in made.kernel.walk() if operation.name == "for"]
    assert sum(operation.name == "barrier" for operation in loop.walk()) == 2
    case = np.arange(128, dtype=np.int32), np.zeros(64, np.int32), 9
    results: list[bytes] = []
    for run in (execute, execute_distributed):
        given = [np.copy(each) if isinstance(each, np.ndarray) else each for each in case]
        run(made, buffers(given), (1, 1, 1))
        results.append(np.asarray(given[1]).tobytes())
    assert results[0] == results[1]


COUNTING = """module {{
kernel @k(%n: i32) {{
  %zero = constant {{value = 0}} : i32
  %one = constant {{value = 1}} : i32
  %first = constant {{value = {first}}} : i32
  %before = constant {{value = {before}}} : i32
  %end = constant {{value = {end}}} : i32
  %r, %q = for %zero, %n, %one, %before, %first : i32, i32 {{
  ^body(%i: i32, %old: i32, %now: i32):
    %more = add_i %now, %{step} : i32
    %wraps = cmp_eq_i %more, %end : i1
    %next = select %wraps, %zero, %more : i32
    yield %{kept}, %next
  }}
  return
}}
}}
"""


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, True),
        ({"end": 2, "before": 1}, True),
        ({"first": 2, "before": 0}, True),
        ({"before": -7}, True),
        ({"before": 0}, False),  # the same in the first round
        ({"end": 1}, False),  # 0, 0, 0, ...
        ({"first": 3}, False),  # starts where it never comes again, and goes on from there
        ({"first": -1}, False),
        ({"step": "zero"}, False),
        ({"kept": "next"}, False),
        ({"kept": "old"}, False),
    ],
)
def test_numbers_of_stages_that_differ(change: dict[str, Any], wanted: bool) -> None:
    values = {"first": 0, "before": 2, "end": 3, "step": "one", "kept": "now"} | change
    module = lang.parse_module(COUNTING.format(**values))
    lang.verify(module)
    (body,) = loop_of(module).regions
    _, old, now = body.arguments
    assert differ(old, now) == differ(now, old) == wanted
    assert not differ(now, now)


def test_numbers_that_are_known_differ_if_they_do() -> None:
    module = lang.parse_module(COUNTING.format(first=0, before=2, end=3, step="one", kept="now"))
    zero, one, first, *_ = (operation.results[0] for operation in module.kernel.body.operations[:-1])
    assert differ(zero, one) and not differ(zero, first)
