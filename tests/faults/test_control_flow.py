"""Reports of branches and loops that compiled to something else than they say."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.faults.levels import COMPILED, DEEP, Level, deep
from tilewright.compiler import TARGETS, backend
from tilewright.lang import CompilationError, knobs

I32 = np.iinfo(np.int32)


# --- branches that must have no effect on what stands beside them ---


@tilewright.jit
def product_after_branches(flags, a, x, y, scratch, N: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    first, second = tl.split(tl.load(flags + tl.arange(0, 2)))
    if first != 0:
        tl.store(scratch + i, tl.load(x + i), mask=(i < N) & (row == 0))
    if second != 0:
        tl.store(scratch + row * N + i, tl.load(x + i) + 1)
        return
    products = tl.load(a + row * N + i, mask=i < N, other=0.0) * tl.load(x + i)
    tl.store(y + row, tl.sum(products, axis=0))


@pytest.mark.parametrize("size", [4, 128, *deep(32)])
@pytest.mark.parametrize("flags", [(1, 0), (0, 0), (1, 1)])
def test_a_sum_behind_branches_is_that_of_every_program(level: Level, size: int, flags: tuple[int, int]) -> None:
    a, x = np.ones((size, size), np.float32), np.ones(size, np.float32)
    y, scratch = np.full(size, -1, np.float32), np.zeros((size, size), np.float32)
    level.run(product_after_branches, (size,), np.array(flags, np.int32), a, x, y, scratch, N=size)
    assert (y == (-1 if flags[1] else size)).all()
    assert (scratch[0] == (2 if flags[1] else flags[0])).all() and (scratch[1:] == 2 * flags[1]).all()


@tilewright.jit
def sums_in_both_arms(x, flag, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + i[:, None] * N + j[None, :])
    if tl.load(flag + tl.program_id(0)) != 0:
        value = tl.sum(tile, axis=1)
    else:
        value = tl.sum(tl.trans(tile), axis=0)
    tl.store(out + tl.program_id(0) * M + i, value)


def test_what_threads_do_together_stands_in_both_arms_of_a_branch(level: Level) -> None:
    x = np.arange(16 * 32, dtype=np.int32).reshape(16, 32)
    out = np.zeros((2, 16), np.int32)
    level.run(sums_in_both_arms, (2,), x, np.array([0, 1], np.int32), out, M=16, N=32)
    assert (out == x.sum(axis=1)).all()


@tilewright.jit
def product_and_maximum(x, flag, out, M: tl.constexpr, N: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + k[None, :]).to(tl.float16)
    b = tl.load(x + j[None, :] * N + k[:, None]).to(tl.float16)
    if tl.load(flag) != 0:
        tl.store(out + i, tl.max(tl.dot(a, b), axis=1).to(tl.int32))
    else:
        tl.store(out + i, tl.sum(tl.load(x + i[:, None] * N + k[None, :]), axis=1))


TOGETHER = re.compile(r"@llvm\.nvvm\.(?:bar|shfl|redux|ldmatrix|stmatrix)|asm [^\n]*\.sync")


def calls_made_together(module: Any) -> int:
    """How many calls all threads make together. Each is convergent, by its declaration or, inline, by itself."""
    text = str(module)
    marked = set(re.findall(r"^attributes (#\d+) = \{[^}]*\bconvergent\b", text, re.MULTILINE))
    lines = [line for line in text.splitlines() if TOGETHER.search(line)]
    told = [re.findall(r"#\d+", line) for line in lines if line.startswith("declare") or "asm" in line]
    assert told and all(groups and groups[-1] in marked for groups in told)
    return sum("call" in line for line in lines)


@pytest.mark.parametrize("kernel", [sums_in_both_arms, product_and_maximum], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("place", (*COMPILED, *DEEP), ids=lambda place: place.name)
def test_what_threads_do_together_is_convergent_and_never_copied(kernel: Any, place: Level) -> None:
    """Barriers, shuffles, matrix instructions: LLVM knows the target, and puts none into two arms of a branch."""
    with knobs.scope(cache_max_bytes=0):
        made = kernel.on(place.device).warmup(*[np.int32] * 3, M=16, N=32, num_warps=place.num_warps)
    target = TARGETS[place.device.partition(":")[2]]
    module = backend.parse(made.asm["llir"], target)
    assert module.triple == backend.TRIPLE
    written = calls_made_together(module)
    backend.optimise(module, target)
    left = calls_made_together(module)
    assert left <= written
    assert left == len(re.findall(r"^\s.*(?:\.sync|barrier)", backend.emit(module, target), re.MULTILINE))


# --- loops whose bounds run the wrong way ---


@tilewright.jit
def counts_rounds(bounds, out, OUTER: tl.constexpr, FLATTEN: tl.constexpr):
    low, high, step = tl.load(bounds), tl.load(bounds + 1), tl.load(bounds + 2)
    rounds = tl.cast(0, tl.int64)
    total = tl.cast(0, tl.int64)
    for i in tl.range(0, OUTER, flatten=FLATTEN):
        for j in tl.range(low, high, step):
            rounds += 1
            total += j.to(tl.int64) * (i + 1)
    tl.store(out, rounds)
    tl.store(out + 1, total)


BOUNDS = [(5, 3, 1), (3, 3, 1), (3, 5, 1), (-2, 3, 2), (-2, -9, 3), (0, 7, 3), (7, 0, -2), (I32.min, I32.min + 3, 1)]
UNSIGNED = [(5, 3, 1), (0, 3, 2), (2**32 - 3, 2**32 - 1, 1), (2**32 - 1, 2, 1), (2**31 - 1, 2**31 + 2, 1)]


@pytest.mark.parametrize("flatten", [True, False])
def test_nested_loops_run_as_often_as_their_bounds_say(level: Level, flatten: bool) -> None:
    for dtype, cases in ((np.int32, BOUNDS), (np.int64, BOUNDS), (np.uint32, UNSIGNED)):
        for bounds in cases:
            out = np.full(2, -1, np.int64)
            level.run(counts_rounds, (1,), np.array(bounds, dtype), out, OUTER=4, FLATTEN=flatten)
            trips = list(range(*bounds))
            assert list(out) == [4 * len(trips), 10 * sum(trips)], (dtype, bounds)


@tilewright.jit
def bound_from_memory(limits, out, outer):
    total = 0
    for i in range(outer):
        for j in range(tl.load(limits)):
            total += i + j
    tl.store(out, total)


@pytest.mark.parametrize("outer", [0, 3])
def test_the_bound_of_an_inner_loop_is_not_read_where_the_outer_never_runs(level: Level, outer: int) -> None:
    """Nothing of the array may be read where there is nothing in it: any access at all is an error."""
    limits, out = np.array([5] * bool(outer), np.int32), np.full(1, -1, np.int32)
    if level.device == "cuda:0" and not outer:
        limits = np.array([1 << 30], np.int32)  # on a GPU a read shows only in the time it takes
    level.run(bound_from_memory, (1,), limits, out, outer)
    assert out[0] == sum(i + j for i in range(outer) for j in range(5))


@tilewright.jit
def a_for_beside_a_while(out, n, start):
    total = 0
    for i in tl.range(0, 3, flatten=True):
        w = start
        while w > 0:
            total += w
            w -= 1
        last = 100 * i
        for j in range(n):
            last += j
        total += last
    tl.store(out, total)


@pytest.mark.parametrize(("n", "start"), [(4, 0), (0, 0), (2, 3), (0, -5)])
def test_loops_of_both_kinds_beside_each_other(level: Level, n: int, start: int) -> None:
    out = np.zeros(1, np.int32)
    level.run(a_for_beside_a_while, (1,), out, n, start)
    assert out[0] == sum(sum(range(1, start + 1)) + 100 * i + sum(range(n)) for i in range(3))


# --- names after loops and branches ---


@tilewright.jit
def last_index(out, n, m):
    i = -7
    inner = -7
    for i in range(2, n, 3):  # noqa: B007
        for inner in range(m):  # noqa: B007
            pass
    tl.store(out, i)
    tl.store(out + 1, inner)


@tilewright.jit
def last_static_index(out, N: tl.constexpr):
    i = -7
    for i in tl.static_range(N):  # noqa: B007
        pass
    tl.store(out, i)


@pytest.mark.parametrize(("n", "m"), [(9, 3), (2, 3), (9, 0), (-1, -1), (3, 1)])
def test_a_loop_variable_keeps_its_last_value_or_the_one_from_before(level: Level, n: int, m: int) -> None:
    out, static = np.zeros(2, np.int32), np.zeros(1, np.int32)
    level.run(last_index, (1,), out, n, m)
    level.run(last_static_index, (1,), static, N=n)
    trips = list(range(2, n, 3))
    assert list(out) == [trips[-1] if trips else -7, m - 1 if trips and m > 0 else -7]
    assert static[0] == (n - 1 if n > 0 else -7)


@tilewright.jit
def index_of_a_loop_that_may_be_empty(out, n):
    for i in range(n):  # noqa: B007
        pass
    tl.store(out, i)


@tilewright.jit
def bound_in_a_loop(out):
    for _ in range(1):
        x = 3.0
    tl.store(out, x)


@tilewright.jit
def bound_in_a_static_loop(out):
    for _ in tl.static_range(1):
        x = 3.0
    tl.store(out, x)


@tilewright.jit
def bound_in_one_branch(out, n):
    if n > 3:
        x = 3.0
    tl.store(out, x)


@pytest.mark.parametrize(
    ("kernel", "arguments", "name"),
    [(index_of_a_loop_that_may_be_empty, (4,), "i"), (bound_in_a_loop, (), "x"), (bound_in_one_branch, (4,), "x")],
)
def test_a_name_that_may_have_no_value_is_refused_everywhere(
    level: Level, kernel: Any, arguments: tuple[int, ...], name: str
) -> None:
    with pytest.raises(CompilationError, match=f"`{name}` is not defined here") as caught:
        level.run(kernel, (1,), np.zeros(1, np.float32), *arguments)
    assert "tl.store(out" in str(caught.value)


def test_a_name_from_a_loop_that_is_unrolled_has_its_value(level: Level) -> None:
    out = np.zeros(1, np.float32)
    level.run(bound_in_a_static_loop, (1,), out)
    assert out[0] == 3


# --- returns ---


@tilewright.jit
def returns_before_dead_code(out, EARLY: tl.constexpr):
    if EARLY:
        tl.store(out, 1)
        return
    tl.store(out, tl.no_such_function(2))
    return


@tilewright.jit
def returns_from_a_for(x, out, n):
    for i in range(n):
        if tl.load(x + i) == 7:
            tl.store(out, i)
            return
    tl.store(out, -1)


@tilewright.jit
def returns_from_a_while(x, out, n):
    i = 0
    while i < n:
        if tl.load(x + i) == 7:
            tl.store(out, i)
            return
        i += 1
    tl.store(out, -1)


@tilewright.jit
def doubled(x):
    return x * 2


@tilewright.jit
def ignores_what_a_helper_returns(x, out, n):
    for i in range(n):
        if i > 1:
            doubled(i)
            tl.store(out, i)


def test_code_behind_a_return_that_is_taken_is_not_looked_at(level: Level) -> None:
    out = np.zeros(1, np.int32)
    level.run(returns_before_dead_code, (1,), out, EARLY=True)
    assert out[0] == 1


@pytest.mark.parametrize("kernel", [returns_from_a_for, returns_from_a_while])
@pytest.mark.parametrize("where", [0, 5, 9, None])
def test_a_return_in_a_loop_ends_the_program(level: Level, kernel: Any, where: int | None) -> None:
    x, out = np.zeros(10, np.int32), np.full(1, 99, np.int32)
    if where is not None:
        x[where] = 7
    level.run(kernel, (1,), x, out, 10)
    assert out[0] == (-1 if where is None else where)


def test_what_a_helper_returns_may_be_ignored_in_a_loop(level: Level) -> None:
    out = np.full(1, -1, np.int32)
    level.run(ignores_what_a_helper_returns, (1,), np.zeros(1, np.int32), out, 4)
    assert out[0] == 3


# --- types that change round a loop ---


@tilewright.jit
def accumulates_in_a_narrower_type(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    acc = tl.zeros((N,), tl.float16)
    for at in range(n):
        acc += tl.load(x + at * N + i)
    tl.store(out + i, acc)


@pytest.mark.parametrize(("dtype", "found"), [(np.float32, "float32"), (np.float64, "float64")])
def test_an_accumulator_that_changes_its_type_is_refused_with_both(level: Level, dtype: Any, found: str) -> None:
    x, out = np.ones((2, 16), dtype), np.zeros(16, np.float32)
    with pytest.raises(CompilationError) as caught:
        level.run(accumulates_in_a_narrower_type, (1,), x, out, 2, N=16)
    assert "acc" in str(caught.value) and "float16" in str(caught.value) and found in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_an_accumulator_that_keeps_its_type_is_carried(level: Level, dtype: Any) -> None:
    x, out = np.arange(32).reshape(2, 16).astype(dtype), np.zeros(16, np.float32)
    level.run(accumulates_in_a_narrower_type, (1,), x, out, 2, N=16)
    assert (out == x.astype(np.float32).sum(axis=0)).all()
