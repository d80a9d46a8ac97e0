"""The batched executor: control flow that diverges, merges and ends early agrees with loops program by program."""

import gc
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

from tilewright.interpreter import (
    Buffer,
    LaunchError,
    MemoryAccessError,
    Options,
    OutOfFuelError,
    ZeroStepError,
    execute,
    run_function,
)
from tilewright.lang import Module, parse_module, verify

Array = np.ndarray[Any, Any]
GRIDS = [(1, 1, 1), (7, 1, 1), (3, 4, 1), (2, 3, 4)]


def module_of(text: str) -> Module:
    """A verified module from the text of its functions."""
    module = parse_module("module {\n" + text + "\n}")
    verify(module)
    return module


def launch(module: Module, grid: tuple[int, int, int], *arguments: Any, **options: Any) -> None:
    """Execute, with arrays as buffers named like the parameters."""
    given = [Buffer.of("array", a) if isinstance(a, np.ndarray) else a for a in arguments]
    execute(module, given, grid, Options(**options))


def ids(grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    return [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]


WALK = """
kernel @walk(%x: ptr<i32>, %out: ptr<i32>, %n: i32) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %px = program_id {axis = 0} : i32
  %py = program_id {axis = 1} : i32
  %pz = program_id {axis = 2} : i32
  %gx = num_programs {axis = 0} : i32
  %gy = num_programs {axis = 1} : i32
  %plane = mul_i %pz, %gy : i32
  %row = add_i %plane, %py : i32
  %before = mul_i %row, %gx : i32
  %pid = add_i %before, %px : i32
  %from = add_ptr %x, %pid : ptr<i32>
  %start = load %from : i32
  %total, %rounds = while %start, %zero : i32, i32 {
  ^before(%v: i32, %c: i32):
    %big = cmp_gt_s %v, %one : i1
    condition %big, %v, %c
  ^after(%v: i32, %c: i32):
    %low = and %v, %one : i32
    %odd = cmp_eq_i %low, %one : i1
    %next = if %odd : i32 {
    ^then:
      %three = constant {value = 3} : i32
      %m = mul_i %v, %three : i32
      %up = add_i %m, %one : i32
      yield %up
    ^else:
      %half = shr_s %v, %one : i32
      yield %half
    }
    %inc = add_i %c, %one : i32
    yield %next, %inc
  }
  %sum = for %zero, %rounds, %n, %zero : i32 {
  ^body(%i: i32, %acc: i32):
    %term = mul_i %i, %start : i32
    %s = add_i %acc, %term : i32
    yield %s
  }
  %to = add_ptr %out, %pid : ptr<i32>
  %both = add_i %sum, %total : i32
  store %to, %both
  return
}
"""


def walk(v: int, n: int) -> int:
    """What a program of the kernel above stores, given its input."""
    start, rounds = v, 0
    while v > 1:
        v = 3 * v + 1 if v % 2 else v >> 1
        rounds += 1
    return sum(i * start for i in range(0, rounds, n)) + v


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("chunk_bytes", [1, 24, 56, 1 << 20])
def test_chunks_do_not_show(grid: tuple[int, int, int], chunk_bytes: int) -> None:
    x = np.arange(-1, len(ids(grid)) - 1, dtype=np.int32)
    out = np.full(len(x), -77, np.int32)
    launch(module_of(WALK), grid, x, out, 2, chunk_bytes=chunk_bytes)
    assert out.tolist() == [walk(v, 2) for v in x.tolist()]


def test_programs_run_in_order_within_and_between_chunks() -> None:
    """Where all programs store to one place the last one stays, chunk by chunk."""
    module = module_of("""
kernel @last(%out: ptr<i32>) {
  %x = program_id {axis = 0} : i32
  %y = program_id {axis = 1} : i32
  %ten = constant {value = 10} : i32
  %tens = mul_i %y, %ten : i32
  %pid = add_i %tens, %x : i32
  store %out, %pid
  return
}""")
    for chunk_bytes in (8, 16, 1 << 20):
        out = np.zeros(1, np.int32)
        launch(module, (3, 4, 1), out, chunk_bytes=chunk_bytes)
        assert out[0] == 32


FOR = """
kernel @k() {{
  return
}}
func @f(%start: {t}, %stop: {t}, %step: {t}) -> (i32, {t}) {{
  %zero = constant {{value = 0}} : i32
  %one = constant {{value = 1}} : i32
  %n, %last = for %start, %stop, %step, %zero, %start {{unsigned = {unsigned}}} : i32, {t} {{
  ^body(%i: {t}, %n: i32, %last: {t}):
    %m = add_i %n, %one : i32
    yield %m, %i
  }}
  return %n, %last
}}
"""


@pytest.mark.parametrize(
    ("dtype", "start", "stop", "step"),
    [
        (np.int32, [0, 5, 2, 3], [10, 5, -4, 9], [3, 1, -2, -1]),
        (np.int8, [120, -128, 127, 100], [127, 127, -128, -100], [100, 127, -128, -77]),
        (np.int64, [2**63 - 5, -(2**63), 2**63 - 1], [2**63 - 1, 2**63 - 1, -(2**63)], [3, 2**62, -(2**62)]),
        (np.int32, [2**31 - 2], [2**31 - 1], [2**31 - 1]),
    ],
)
def test_trip_counts_do_not_wrap(dtype: Any, start: list[int], stop: list[int], step: list[int]) -> None:
    module = module_of(FOR.format(t=f"i{np.dtype(dtype).itemsize * 8}", unsigned="false"))
    count, last = run_function(module, "f", [np.array(a, dtype) for a in (start, stop, step)])
    ranges = [range(*bounds) for bounds in zip(start, stop, step, strict=True)]
    assert count.tolist() == [len(r) for r in ranges]
    assert last.tolist() == [r[-1] if r else s for r, s in zip(ranges, start, strict=True)]


def test_unsigned_bounds_count_upwards_past_the_sign() -> None:
    module = module_of(FOR.format(t="i32", unsigned="true"))
    bounds = [
        np.array(a, np.uint32).view(np.int32) for a in ([2**31 - 1, 5, 0], [2**31 + 2, 3, 2**32 - 1], [1, 1, 2**31])
    ]
    count, last = run_function(module, "f", bounds)
    assert count.tolist() == [3, 0, 2]
    assert last.view(np.uint32).tolist() == [2**31 + 1, 5, 2**31]


def test_a_step_of_zero_is_an_error_of_the_program_that_has_it() -> None:
    module = module_of(FOR.format(t="i32", unsigned="false"))
    bounds = [np.array(a, np.int32) for a in ([0, 0, 0], [3, 3, 3], [1, 1, 0])]
    with pytest.raises(ZeroStepError) as caught:
        run_function(module, "f", bounds)
    assert caught.value.program == (2, 0, 0)


def test_early_exit_flags_stop_each_program_at_its_own_round() -> None:
    """A `break`, as the frontend writes it: a flag that is carried, and the rest of the body under an if."""
    module = module_of("""
kernel @k() {
  return
}
func @f(%limit: i32) -> (i32) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %hundred = constant {value = 100} : i32
  %go = constant {value = 1} : i1
  %stop = constant {value = 0} : i1
  %s, %f = for %zero, %hundred, %one, %zero, %go : i32, i1 {
  ^body(%i: i32, %s: i32, %f: i1):
    %s2, %f2 = if %f : i32, i1 {
    ^then:
      %t = add_i %s, %i : i32
      %over = cmp_gt_s %t, %limit : i1
      %s3, %f3 = if %over : i32, i1 {
      ^then:
        yield %t, %stop
      ^else:
        %u = add_i %t, %one : i32
        yield %u, %go
      }
      yield %s3, %f3
    ^else:
      yield %s, %f
    }
    yield %s2, %f2
  }
  return %s
}""")
    limits = [-1, 0, 3, 50, 50, 6000]
    expected = []
    for limit in limits:
        s = 0
        for i in range(100):
            s += i
            if s > limit:
                break
            s += 1
        expected.append(s)
    (result,) = run_function(module, "f", [np.array(limits, np.int32)])
    assert result.tolist() == expected


REDUCE = """
kernel @k() {
  return
}
func @combine(%a: i32, %b: i32) -> (i32) {
  %ten = constant {value = 10} : i32
  %m = mul_i %a, %ten : i32
  %s = add_i %m, %b : i32
  return %s
}
func @f(%x: tile<4x8xi32>, %scale: i32) -> (tile<4xi32>, tile<8xi32>) {
  %rows = reduce %x {axis = 1} : tile<4xi32> {
  ^combine(%a: i32, %b: i32):
    %t = call %a, %b {callee = "combine"} : i32
    yield %t
  }
  %columns = reduce %x {axis = 0} : tile<8xi32> {
  ^combine(%a: i32, %b: i32):
    %less = cmp_lt_s %a, %b : i1
    %t = if %less : i32 {
    ^then:
      %u = mul_i %a, %scale : i32
      %v = sub_i %u, %b : i32
      yield %v
    ^else:
      yield %b
    }
    yield %t
  }
  return %rows, %columns
}
"""


@pytest.mark.parametrize("uniform", [False, True])
def test_reduce_is_a_left_fold_in_index_order(uniform: bool) -> None:
    """The combining functions are neither associative nor commutative, one calls, one diverges and captures."""
    x = np.random.default_rng(1).integers(0, 9, (1 if uniform else 3, 4, 8)).astype(np.int32)
    scale = np.array([2, 3, 5], np.int32)
    rows, columns = run_function(module_of(REDUCE), "f", [x, scale])
    for p in range(3):
        tile = x[0 if uniform else p].tolist()
        for i in range(4):
            assert rows[p, i] == int("".join(map(str, tile[i])))
        for j in range(8):
            a = tile[0][j]
            for i in range(1, 4):
                a = a * int(scale[p]) - tile[i][j] if a < tile[i][j] else tile[i][j]
            assert columns[p, j] == a


def test_a_fold_of_pairs_keeps_them_together() -> None:
    module = module_of("""
kernel @k() {
  return
}
func @f(%v: tile<8xi32>, %i: tile<8xi32>) -> (i32, i32) {
  %best, %where = reduce %v, %i {axis = 0} : i32, i32 {
  ^combine(%a: i32, %ai: i32, %b: i32, %bi: i32):
    %keep = cmp_ge_s %a, %b : i1
    %m = select %keep, %a, %b : i32
    %mi = select %keep, %ai, %bi : i32
    yield %m, %mi
  }
  return %best, %where
}""")
    values = np.array([[3, 9, 9, 1, 0, 2, 9, 4], [7, 7, 7, 7, 7, 7, 7, 7]], np.int32)
    best, where = run_function(module, "f", [values, np.arange(8, dtype=np.int32)[None] * 10])
    assert (best.tolist(), where.tolist()) == ([9, 7], [10, 0])


def test_a_combining_function_may_tell_programs_apart() -> None:
    """The operand is the same for all programs, the results are not."""
    module = module_of("""
kernel @k(%out: ptr<i32>) {
  %x = arange {start = 0, end = 4} : tile<4xi32>
  %s = reduce %x {axis = 0} : i32 {
  ^combine(%a: i32, %b: i32):
    %scale = call {callee = "who"} : i32
    %m = mul_i %b, %scale : i32
    %t = add_i %a, %m : i32
    yield %t
  }
  %pid = program_id {axis = 0} : i32
  %p = add_ptr %out, %pid : ptr<i32>
  store %p, %s
  return
}
func @who() -> (i32) {
  %pid = program_id {axis = 0} : i32
  return %pid
}""")
    out = np.full(3, -1, np.int32)
    launch(module, (3, 1, 1), out)
    assert out.tolist() == [0, 6, 12]


TILE = "tile<65536xi32>"
CHAIN = [f"%a{i + 1} = add_i %a{i}, %a{i} : {TILE}" for i in range(30)]
BRANCHES = [
    f"""%a{i + 1} = if %flag : {TILE} {{
^then:
  %b{i} = add_i %a{i}, %a{i} : {TILE}
  yield %b{i}
^else:
  yield %a{i}
}}"""
    for i in range(30)
]
LOOP = [
    "%zero = constant {value = 0} : i32",
    "%one = constant {value = 1} : i32",
    f"%a30, %last = for %zero, %one, %one, %x, %x : {TILE}, {TILE} {{",
    f"^body(%i: i32, %a0: {TILE}, %unused: {TILE}):",
    *CHAIN,
    "yield %a30, %a29",
    "}",
]


@pytest.mark.parametrize(("name", "body"), [("%a0", CHAIN), ("%a0", BRANCHES), ("%x", LOOP)])
def test_values_go_when_nothing_needs_them_any_more(name: str, body: list[str]) -> None:
    """30 additions to a tile of 256 KB, one after the other, hold a few tiles at a time."""
    head = f"kernel @k() {{\nreturn\n}}\nfunc @f({name}: {TILE}, %flag: i1) -> ({TILE}) {{"
    module = module_of("\n".join([head, *body, "return %a30", "}"]))
    operands = [np.ones((1, 65536), np.int32), np.array([True])]
    run_function(module, "f", operands)
    tracemalloc.start()
    (result,) = run_function(module, "f", operands)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result[0, 0] == 1 << 30
    assert peak < 5 * result.nbytes


ENDLESS = """
kernel @spin(%x: ptr<i32>) {
  %go = constant {value = 1} : i1
  while loc("mod.spin":7:5) {
  ^before:
    condition %go
  ^after:
    yield
  }
  return
}
"""


def test_an_endless_loop_runs_out_of_fuel_at_its_line() -> None:
    with pytest.raises(OutOfFuelError) as caught:
        launch(module_of(ENDLESS), (4, 1, 1), np.zeros(1, np.int32), fuel=1000)
    assert str(caught.value) == (
        "mod.spin:7:5: still running after 1000 iterations, the budget of a launch (TILEWRIGHT_FUEL) "
        "(program (0, 0, 0))"
    )


BAD_STORE = """
kernel @k(%out: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %one = constant {value = 1} : i32
  %odd = and %pid, %one : i32
  %flag = cmp_eq_i %odd, %one : i1
  if %flag {
  ^then:
    call %out, %pid {callee = "put"} loc("mod.k":9:3)
    yield
  ^else:
    yield
  }
  return
}
func @put(%out: ptr<i32>, %i: i32) {
  %p = add_ptr %out, %i : ptr<i32>
  store %p, %i loc("mod.put":4:9)
  return
}
"""


def test_an_error_in_a_part_of_the_batch_names_its_program_its_line_and_the_calls() -> None:
    out = np.zeros(4, np.int32)
    with pytest.raises(MemoryAccessError) as caught:
        launch(module_of(BAD_STORE), (8, 1, 1), out)
    error = caught.value
    assert error.program == (5, 0, 0)
    assert str(error).startswith("mod.put:4:9: ")
    assert str(error).endswith(" (program (5, 0, 0))\n  called from mod.k:9:3")


def test_nothing_runs_on_an_empty_grid() -> None:
    out = np.zeros(4, np.int32)
    launch(module_of(BAD_STORE), (8, 0, 1), out)
    assert not out.any()


SCALARS = """
kernel @k(%out: ptr<f32>, %i: i8, %f: f32, %b: i1) {
  %s = s_to_f %i : f32
  %t = add_f %s, %f : f32
  %n = neg_f %t : f32
  %r = select %b, %t, %n : f32
  store %out, %r
  return
}
"""


@pytest.mark.parametrize(
    ("scalars", "expected"),
    [
        ((-128, 0.5, True), -127.5),
        ((255, 0.5, 1), -0.5),
        ((np.int8(3), np.float64(0.1), False), -(np.float32(0.1) + 3)),
    ],
)
def test_scalars_arrive_rounded_once_to_their_types(scalars: tuple[Any, ...], expected: float) -> None:
    out = np.zeros(1, np.float32)
    launch(module_of(SCALARS), (1, 1, 1), out, *scalars)
    assert out[0] == np.float32(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 2.0, True), "k: takes 4 arguments, not 3"),
        ((1, 1, 2.0, True), "k: argument out is a pointer and takes a Buffer, not 1"),
        ((np.zeros(1, np.float32), 256, 2.0, True), "k: argument i is 256, which does not fit i8"),
        ((np.zeros(1, np.float32), 1.5, 2.0, True), "k: argument i is i8 and does not take 1.5"),
        ((np.zeros(1, np.float32), 1, "2", True), "k: argument f is f32 and does not take '2'"),
        ((np.zeros(1, np.float32), 1, 2.0, 2), "k: argument b is 2, which does not fit i1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(module_of(SCALARS), (1, 1, 1), *arguments)
    assert caught.value.what == message


@pytest.mark.parametrize("grid", [(1, 1), (1, -1, 1), (1.0, 1, 1), (2**31, 1, 1)])
def test_grids_that_are_none_are_refused(grid: Any) -> None:
    with pytest.raises(LaunchError, match="a grid is three integers"):
        launch(module_of(BAD_STORE), grid, np.zeros(4, np.int32))


def test_operands_that_do_not_fit_are_refused() -> None:
    module = module_of(REDUCE)
    scale = np.zeros(1, np.int32)
    with pytest.raises(LaunchError, match=r"argument x must be int32 of shape \(1 or 2, 4, 8\), not int32 of shape"):
        run_function(module, "f", [np.zeros((2, 8, 4), np.int32), scale])
    with pytest.raises(LaunchError, match="takes 2 operands, not 1"):
        run_function(module, "f", [scale])


def test_a_rewritten_module_is_planned_anew() -> None:
    module = module_of(
        "kernel @k() {\nreturn\n}\nfunc @f(%a: i32, %b: i32) -> (i32) {\n%c = sub_i %a, %b : i32\nreturn %c\n}"
    )
    operands = [np.array([5], np.int32), np.array([3], np.int32)]
    assert run_function(module, "f", operands)[0][0] == 2
    (subtraction, _) = module.functions["f"].body.operations
    a, b = subtraction.operands
    subtraction.set_operand(0, b)
    subtraction.set_operand(1, a)
    assert run_function(module, "f", operands)[0][0] == -2


def test_a_plan_does_not_keep_its_module_alive() -> None:
    module = module_of(SCALARS)
    launch(module, (1, 1, 1), np.zeros(1, np.float32), 1, 1.0, True)
    dead = weakref.ref(module)
    del module
    gc.collect()
    assert dead() is None
