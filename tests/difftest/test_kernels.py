"""Random kernels at every level: IR after each pass, PTX on the emulator and, where there is one, a GPU."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.compiler import compile_module
from tilewright.difftest import (
    TARGETS,
    GeneratedKernel,
    HypothesisChoices,
    RecordedChoices,
    Row,
    Task,
    argument,
    examine_launch,
    examine_task,
    generate_kernel,
    launched,
    reproducer,
)
from tilewright.difftest.generator.numbers import IN_MEMORY, NUMBERS, meet
from tilewright.interpreter import execute
from tilewright.lang import OPS, knobs

ROOT = Path(__file__).parent.parent.parent
#: Kernels that the always-run tests examine, and the share that may be refused or stay undecided.
SEEDS = range(28)
DEEP = range(1000, 1400)
ON_GPU, CHUNK = range(5000, 5600), 25
LET_THROUGH = 0.03
#: Elementwise rows that kernels rarely or never reach from the source: pointers as numbers, and a function that `tl`
#: does not have.
RARE = frozenset(("ptr_to_int", "int_to_ptr", "mulhi_s", "abs_f"))
OTHERS = (
    "for", "while", "if", "call", "load", "store", "atomic_rmw", "atomic_cas", "broadcast", "expand_dims", "reshape",
    "permute", "join", "split", "splat", "arange", "program_id", "num_programs", "hint", "assume", "barrier",
    "reduce", "dot", "print", "reduce_add_f", "reduce_add_i", "reduce_minnum", "reduce_maxnum", "reduce_min_s",
    "reduce_max_s", "reduce_xor", "reduce_or", "argmin_s", "argmax_s", "argmin_f", "argmax_f",
)  # fmt: skip


def examined(seeds: range, device: str = "") -> list[Row]:
    """What came of some seeds; fails with the kernel of the first finding."""
    rows: list[Row] = []
    for seed in seeds:
        row = examine_task(Task(seed, None, device))
        if row.state == "finding":
            kernel = generate_kernel(RecordedChoices(seed))
            text = reproducer(kernel, seed, row.decisions, Task(seed).target, row.problems[0], device)
            pytest.fail(f"seed {seed}: {row.level}: {row.problems}\n{text}")
        rows.append(row)
    return rows


def test_kernels_agree_at_every_level() -> None:
    rows = examined(SEEDS)
    states = Counter(row.state for row in rows)
    assert states["agrees"] >= (1 - LET_THROUGH) * len(SEEDS), states
    reached = {name for row in rows for name in row.operations}
    assert len(reached) > 50


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_is_drawn_is_a_kernel_on_which_all_levels_agree(data: st.DataObject) -> None:
    """Decisions from hypothesis, which shrinks what it finds."""
    with launched(generate_kernel(HypothesisChoices(data))) as launch:
        found = examine_launch(launch, TARGETS[0])
        assert not found.level, f"{found.level}: {found.problems}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_kernels_agree_at_every_level(part: int) -> None:
    seeds = range(DEEP.start + part, DEEP.stop, 4)
    states = Counter(row.state for row in examined(seeds))
    assert states["agrees"] >= (1 - LET_THROUGH) * len(seeds), states


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(ON_GPU.start, ON_GPU.stop, CHUNK))
def test_kernels_agree_on_the_gpu(first: int) -> None:
    with knobs.scope(cache_max_bytes=0):
        examined(range(first, first + CHUNK), "cuda")


def test_the_runtime_launches_what_the_harness_compiles() -> None:
    """The way to a GPU, on a device that is always there."""
    with knobs.scope(cache_max_bytes=0):
        rows = examined(range(6), "emulator:sm_90a")
    assert Counter(row.state for row in rows)["agrees"] >= 5


# --- the generator ---


@cache
def kernel_of(seed: int) -> GeneratedKernel:
    return generate_kernel(RecordedChoices(seed))


def kernels(count: int) -> list[GeneratedKernel]:
    return [kernel_of(seed) for seed in range(count)]


def test_a_seed_is_a_kernel_and_its_decisions_make_it_again() -> None:
    for seed in range(20):
        choices = RecordedChoices(seed)
        first = generate_kernel(choices)
        again = generate_kernel(RecordedChoices.replay(choices.drawn))
        assert (first.source, first.grid, first.options) == (again.source, again.grid, again.options)
        assert [p.codes for p in first.parameters] == [p.codes for p in again.parameters]


def test_any_list_of_numbers_is_a_kernel_and_zeros_make_a_small_one() -> None:
    smallest = generate_kernel(RecordedChoices.replay([]))
    assert len(smallest.source.splitlines()) < 20
    for numbers in ([7] * 50, list(range(200)), [10**9] * 300):
        ast.parse(generate_kernel(RecordedChoices.replay(numbers)).source)


def test_the_generator_reaches_nearly_every_row_that_it_may() -> None:
    reached: set[str] = set()
    for kernel in kernels(160):
        with launched(kernel) as launch:
            reached |= {operation.name for operation in launch.module.walk()}
    wanted = {name for name, row in OPS.items() if row.is_elementwise} | set(OTHERS)
    assert len(wanted - reached - RARE) <= 4, wanted - reached - RARE


def test_kernels_differ_in_all_that_they_may_differ_in() -> None:
    made = kernels(200)
    assert {3 - k.grid.count(1) for k in made} == {0, 1, 2, 3}
    assert {len(k.constants) for k in made} == {1, 2, 3}
    assert {k.options["num_warps"] for k in made} == {1, 2, 4, 8, 16}
    types = {p.type for k in made for p in k.parameters if p.is_array}
    assert types == {type_ for type_, _ in IN_MEMORY}
    source = "\n".join(k.source for k in made)
    for word in (
        "for ", "while ", "if ", "elif ", "else:", "break", "continue", "return\n", "tl.static_range", "tl.constexpr",
        "@tilewright.jit\ndef f0", "make_block_ptr", "atomic_add", "scratch", "num_programs", "eviction_policy",
        "@tilewright.jit\ndef fold0", "keep_dims=True", "return_indices=True", "num_stages=", "input_precision=",
        "out_dtype=tl.float16", "max_num_imprecise_acc", "tl.trans(", "tl.permute(", "device_print", "tl.argm",
    ):  # fmt: skip
        assert word in source, word


def test_every_program_keeps_to_its_arrays() -> None:
    """The interpreter checks bounds; that masks are needed shows on arrays that end where they must."""
    for kernel in kernels(40):
        with launched(kernel) as launch:
            execute(launch.module, launch.buffers(launch.values()), launch.grid)


def test_types_meet_as_the_language_says() -> None:
    """The generator's own account against the frontend's, by the type of `a + b`."""
    lines = ["import tilewright", "import tilewright.language as tl", "", "", "@tilewright.jit", "def kernel(x):"]
    for a, b in [(a, b) for a in NUMBERS for b in NUMBERS]:
        if (type_ := meet(a, b)) is not None:
            lines.append(f"    tl.static_assert((tl.full((), 1, {a}) + tl.full((), 1, {b})).dtype == {type_})")
    parameter = argument("x", "int32", "0")
    with launched(GeneratedKernel("\n".join(lines) + "\n", (parameter,), {}, (1, 1, 1), {"num_warps": 1})) as launch:
        assert len(launch.module.kernel.arguments) == 1
    assert len(lines) > 200


# --- reproducers ---


def test_a_reproducer_runs_alone(tmp_path: Path) -> None:
    seed = 3
    choices = RecordedChoices(seed)
    kernel = generate_kernel(choices)
    path = tmp_path / "repro.py"
    path.write_text(reproducer(kernel, seed, choices.drawn, "sm_80", "nothing is wrong"))
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "no difference\n", "")


def test_arguments_come_back_from_their_text() -> None:
    """The arrays of a reproducer hold the bits of the finding's, and lie at addresses as aligned as theirs."""
    seen = 0
    for seed, kernel in enumerate(kernels(12)):
        names: dict[str, object] = {}
        source = reproducer(kernel, seed, [], "sm_80", "")
        exec(source.partition("sys.exit")[0].partition("ARGUMENTS = ")[0].replace(kernel.source.rstrip(), ""), names)
        again = eval(source.partition("ARGUMENTS = ")[2].partition("\nsys.exit")[0], names)
        assert [(p.name, p.type, p.codes, p.skipped, p.within, p.start) for p in again] == [
            (p.name, p.type, p.codes, p.skipped, p.within, p.start) for p in kernel.parameters
        ]
        arrays = [p.array() for p in kernel.parameters if p.is_array]
        skips = [p.skipped for p in kernel.parameters if p.is_array]
        assert all((array.ctypes.data - s * array.itemsize) % 64 == 0 for array, s in zip(arrays, skips, strict=True))
        seen += len(arrays)
    assert seen > 30


def test_compiled_text_is_the_same_for_the_same_kernel() -> None:
    kernel = generate_kernel(RecordedChoices(5))
    texts: list[object] = []
    for _ in range(2):
        with launched(kernel) as launch:
            texts.append(compile_module(launch.module, "sm_90a", launch.num_warps, until="ptx").stages["ptx"])
    assert texts[0] == texts[1]
