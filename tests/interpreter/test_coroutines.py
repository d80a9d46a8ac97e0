"""Programs that wait for one another: locks, flags and polls end, and what cannot end is reported with its lines."""

import pickle
from typing import Any

import numpy as np
import pytest

from tilewright.interpreter import (
    Buffer,
    DeadlockError,
    MemoryAccessError,
    Options,
    OutOfFuelError,
    execute,
)
from tilewright.lang import Module, parse_module, verify

SEEDS = range(6)


def module_of(text: str) -> Module:
    """A verified module from the text of its functions."""
    module = parse_module("module {\n" + text + "\n}")
    verify(module)
    return module


def launch(text: str, programs: int, *arguments: Any, **options: Any) -> None:
    """Execute on a grid along x, with arrays as buffers named like the parameters."""
    given = [Buffer.of("array", a) if isinstance(a, np.ndarray) else a for a in arguments]
    execute(module_of(text), given, (programs, 1, 1), Options(**options))


def ints(*values: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(values, np.int32)


LOCKED = """
kernel @locked(%lock: ptr<i32>, %total: ptr<i32>, %log: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  call %lock {callee = "acquire"}
  %count = load %total : i32
  %one = constant {value = 1} : i32
  %entry = add_ptr %log, %count : ptr<i32>
  store %entry, %pid
  %more = add_i %count, %one : i32
  store %total, %more
  %zero = constant {value = 0} : i32
  %old = atomic_rmw %lock, %zero {kind = "xchg"} : i32
  return
}
func @acquire(%lock: ptr<i32>) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  while loc("mod.acquire":3:5) {
  ^before:
    %old = atomic_cas %lock, %zero, %one : i32 loc("mod.acquire":3:11)
    %taken = cmp_ne_i %old, %zero : i1
    condition %taken
  ^after:
    yield
  }
  return
}
"""


def test_a_lock_protects_a_sum_in_every_order() -> None:
    """The sum is the same for all seeds; the order in which programs got the lock, which the log shows, is not."""
    orders = set[tuple[int, ...]]()
    for seed in SEEDS:
        lock, total, log = ints(0), ints(0), np.full(12, -1, np.int32)
        launch(LOCKED, 12, lock, total, log, seed=seed)
        assert (lock[0], total[0]) == (0, 12)
        assert sorted(log.tolist()) == list(range(12))
        orders.add(tuple(log.tolist()))
    assert tuple(range(12)) in orders
    assert len(orders) > len(SEEDS) // 2


def test_a_seed_gives_the_same_order_each_time() -> None:
    logs = [np.full(12, -1, np.int32) for _ in range(2)]
    for log in logs:
        launch(LOCKED, 12, ints(0), ints(0), log, seed=3)
    assert logs[0].tolist() == logs[1].tolist() != list(range(12))


def test_a_lock_that_nobody_frees_is_a_deadlock_at_the_line_that_wants_it() -> None:
    with pytest.raises(DeadlockError) as caught:
        launch(LOCKED, 5, ints(1), ints(0), np.zeros(5, np.int32))
    assert str(caught.value) == (
        "mod.acquire:3:11: deadlock: every program waits, and nothing can change any more\n"
        "  mod.acquire:3:11: 5 programs wait in atomic_cas on lock[0], for example program (0, 0, 0)"
    )


CHAIN = """
kernel @chain(%flags: ptr<i32>, %order: ptr<i32>, %counter: ptr<i32>, %step: i32) {
  %pid = program_id {axis = 0} : i32
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %next = add_i %pid, %step : i32
  %theirs = add_ptr %flags, %next : ptr<i32>
  while {
  ^before:
    %flag = load %theirs {volatile = true} : i32
    %unset = cmp_eq_i %flag, %zero : i1
    condition %unset
  ^after:
    yield
  }
  %place = atomic_rmw %counter, %one {kind = "add_i"} : i32
  %entry = add_ptr %order, %pid : ptr<i32>
  store %entry, %place
  %mine = add_ptr %flags, %pid : ptr<i32>
  atomic_store %mine, %one
  return
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_may_wait_for_a_higher_one(seed: int) -> None:
    """Program i waits for the flag of program i + 1; the flag past the last one is set from the start."""
    flags, order = np.zeros(41, np.int32), np.full(40, -1, np.int32)
    flags[40] = 1
    launch(CHAIN, 40, flags, order, ints(0), 1, seed=seed)
    assert order.tolist() == list(range(39, -1, -1))


CYCLE = """
kernel @cycle(%flags: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %low = and %pid, %one : i32
  %odd = cmp_eq_i %low, %one : i1
  if %odd {
  ^then:
    call %flags, %zero {callee = "wait"} loc("mod.cycle":7:5)
    yield
  ^else:
    %far = add_ptr %flags, %one : ptr<i32>
    %ok = atomic_poll %far, %one : i1 loc("mod.cycle":9:9)
    yield
  }
  %mine = add_ptr %flags, %pid : ptr<i32>
  atomic_store %mine, %one
  return
}
func @wait(%flags: ptr<i32>, %which: i32) {
  %zero = constant {value = 0} : i32
  %p = add_ptr %flags, %which : ptr<i32>
  %start = atomic_load %p : i32
  %last = while %start : i32 {
  ^before(%f: i32):
    %unset = cmp_eq_i %f, %zero : i1
    condition %unset, %f
  ^after(%f: i32):
    %again = atomic_load %p : i32 loc("mod.wait":4:13)
    yield %again
  }
  return
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cycle_is_reported_with_every_line_waited_on(seed: int) -> None:
    with pytest.raises(DeadlockError) as caught:
        launch(CYCLE, 5, ints(0, 0, 0, 0, 0), seed=seed)
    assert str(caught.value).splitlines()[1:] == [
        "  mod.cycle:9:9: 3 programs wait in atomic_poll on flags[1], for example program (0, 0, 0)",
        "  mod.wait:4:13: 2 programs wait in atomic_load on flags[0], for example program (1, 0, 0)",
    ]


POLL = """
kernel @poll(%flags: ptr<i32>, %out: ptr<i32>, %timeout: i64) {
  %pid = program_id {axis = 0} : i32
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %seven = constant {value = 7} : i32
  %mine = add_ptr %flags, %pid : ptr<i32>
  %first = cmp_eq_i %pid, %zero : i1
  if %first {
  ^then:
    %next = add_ptr %flags, %one : ptr<i32>
    %ok = atomic_poll %next, %seven, %timeout : i1
    %seen = ext_u %ok : i32
    store %out, %seen
    yield
  ^else:
    %half = call %flags {callee = "work"} : i32
    atomic_store %mine, %half
    yield
  }
  return
}
func @work(%flags: ptr<i32>) -> (i32) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %end = constant {value = 507} : i32
  %start = constant {value = 7} : i32
  %down = constant {value = -1} : i32
  %count = for %end, %start, %down, %end : i32 {
  ^body(%i: i32, %c: i32):
    %x = atomic_load %flags : i32
    %d = sub_i %c, %one : i32
    yield %d
  }
  return %count
}
"""


@pytest.mark.parametrize(("timeout", "seen"), [(10**15, 1), (1000, 0), (0, 0), (-5, 0)])
def test_a_poll_sees_the_value_or_times_out(timeout: int, seen: int) -> None:
    """The other program stores 7 after 500 looks, which take 100 ns each."""
    flags, out = ints(0, 0), ints(-1)
    launch(POLL, 2, flags, out, timeout)
    assert (out[0], flags[1]) == (seen, 7)


def test_a_poll_with_a_timeout_is_no_deadlock_when_nobody_is_left() -> None:
    """The clock jumps: this would be 10^13 looks."""
    out = ints(-1)
    launch(POLL, 1, ints(0, 0), out, 10**15)
    assert out[0] == 0


def test_a_tile_of_polls_waits_for_each_element() -> None:
    text = """
kernel @poll(%flags: ptr<i32>, %out: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %first = cmp_eq_i %pid, %zero : i1
  if %first {
  ^then:
    %i = arange {start = 0, end = 4} : tile<4xi32>
    %base = splat %flags {shape = (4,)} : tile<4xptr<i32>>
    %p = add_ptr %base, %i : tile<4xptr<i32>>
    %want = constant {value = 1} : tile<4xi32>
    %ok = atomic_poll %p, %want : tile<4xi1>
    %wide = ext_u %ok : tile<4xi32>
    %n = reduce_add_i %wide {axis = 0} : i32
    store %out, %n
    yield
  ^else:
    %k = sub_i %pid, %one : i32
    %mine = add_ptr %flags, %k : ptr<i32>
    atomic_store %mine, %one
    yield
  }
  return
}"""
    for seed in SEEDS:
        out = ints(-1)
        launch(text, 5, ints(0, 0, 0, 0), out, seed=seed)
        assert out[0] == 4


def test_a_poll_remembers_the_elements_that_it_has_seen() -> None:
    """Element 0 has the expected value for 200 looks of the other program only, element 1 from then on."""
    text = """
kernel @poll(%flags: ptr<i32>, %out: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %first = cmp_eq_i %pid, %zero : i1
  if %first {
  ^then:
    %i = arange {start = 0, end = 2} : tile<2xi32>
    %base = splat %flags {shape = (2,)} : tile<2xptr<i32>>
    %p = add_ptr %base, %i : tile<2xptr<i32>>
    %want = constant {value = 1} : tile<2xi32>
    %ok = atomic_poll %p, %want : tile<2xi1>
    store %out, %one
    yield
  ^else:
    %n = constant {value = 200} : i32
    atomic_store %flags, %one
    for %zero, %n, %one {
    ^body(%k: i32):
      %x = atomic_load %flags : i32
      yield
    }
    atomic_store %flags, %zero
    %other = add_ptr %flags, %one : ptr<i32>
    atomic_store %other, %one
    yield
  }
  return
}"""
    flags, out = ints(0, 0), ints(0)
    launch(text, 2, flags, out)
    assert (out[0], flags.tolist()) == (1, [0, 1])


@pytest.mark.parametrize("seed", range(20))
def test_a_change_between_two_looks_of_one_round_is_not_lost(seed: int) -> None:
    """Program 1 looks at two flags a round and leaves for the first, which may be set just after that look."""
    text = """
kernel @two(%flags: ptr<i32>, %out: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %other = add_ptr %flags, %one : ptr<i32>
  %setter = cmp_eq_i %pid, %zero : i1
  if %setter {
  ^then:
    %x = atomic_load %other : i32
    atomic_store %flags, %one
    yield
  ^else:
    while {
    ^before:
      %a = atomic_load %flags : i32
      %b = atomic_load %other : i32
      %unset = cmp_eq_i %a, %zero : i1
      condition %unset
    ^after:
      yield
    }
    %old = atomic_rmw %out, %one {kind = "add_i"} : i32
    yield
  }
  return
}"""
    out = ints(0)
    launch(text, 2, ints(0, 0), out, seed=seed)
    assert out[0] == 1


SPIN = """
kernel @spin(%x: ptr<i32>) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %n = while %zero : i32 loc("mod.spin":4:5) {
  ^before(%n: i32):
    %flag = BODY
    %unset = cmp_ge_s %flag, %zero : i1
    condition %unset, %n
  ^after(%n: i32):
    %m = add_i %n, %one : i32
    yield %m
  }
  return
}
"""


def test_programs_that_count_their_spins_are_found_out_by_patience() -> None:
    text = SPIN.replace("BODY", 'atomic_load %x : i32 loc("mod.spin":5:9)')
    with pytest.raises(DeadlockError) as caught:
        launch(text, 3, ints(0), patience=20)
    assert str(caught.value) == (
        "mod.spin:5:9: no progress: every program spins, and memory has not changed in 21 rounds\n"
        "  mod.spin:5:9: 3 programs wait in atomic_load on x[0], for example program (0, 0, 0)"
    )


def test_programs_that_change_memory_for_ever_run_out_of_fuel_at_the_loop() -> None:
    text = SPIN.replace("BODY", 'atomic_rmw %x, %one {kind = "add_i"} : i32')
    with pytest.raises(OutOfFuelError, match="^mod.spin:4:5: still running after 500 iterations"):
        launch(text, 3, ints(0), fuel=500)


def test_a_long_loop_that_only_reads_is_neither() -> None:
    text = """
kernel @read(%x: ptr<i32>, %out: ptr<i32>, %n: i32) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  %sum = for %zero, %n, %one, %zero : i32 {
  ^body(%i: i32, %s: i32):
    %v = load %x {volatile = true} : i32
    %t = add_i %s, %v : i32
    yield %t
  }
  store %out, %sum
  return
}"""
    out = ints(0)
    launch(text, 2, ints(3), out, 4000, patience=2)
    assert out[0] == 12000


@pytest.mark.parametrize("grid", [(33, 1, 1), (3, 4, 1), (2, 3, 4)])
@pytest.mark.parametrize("chunk_bytes", [8, 16, 40, 56, 150, 1 << 20])
def test_atomics_outside_loops_keep_the_order_of_programs(grid: tuple[int, int, int], chunk_bytes: int) -> None:
    text = """
kernel @ticket(%counter: ptr<i32>, %out: ptr<i32>) {
  %x = program_id {axis = 0} : i32
  %y = program_id {axis = 1} : i32
  %z = program_id {axis = 2} : i32
  %gx = num_programs {axis = 0} : i32
  %gy = num_programs {axis = 1} : i32
  %plane = mul_i %z, %gy : i32
  %row = add_i %plane, %y : i32
  %before = mul_i %row, %gx : i32
  %pid = add_i %before, %x : i32
  %one = constant {value = 1} : i32
  %mine = atomic_rmw %counter, %one {kind = "add_i"} : i32
  %p = add_ptr %out, %pid : ptr<i32>
  store %p, %mine
  return
}"""
    out = np.full(grid[0] * grid[1] * grid[2], -1, np.int32)
    buffers = [Buffer.of("counter", ints(0)), Buffer.of("out", out)]
    execute(module_of(text), buffers, grid, Options(chunk_bytes=chunk_bytes))
    assert out.tolist() == list(range(len(out)))


def test_an_error_in_a_coroutine_names_program_line_and_calls() -> None:
    text = """
kernel @k(%x: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  call %x, %pid {callee = "visit"} loc("mod.k":3:3)
  return
}
func @visit(%x: ptr<i32>, %n: i32) {
  %zero = constant {value = 0} : i32
  %one = constant {value = 1} : i32
  for %zero, %n, %one {
  ^body(%i: i32):
    %p = add_ptr %x, %i : ptr<i32>
    %old = atomic_rmw %p, %one {kind = "add_i"} : i32 loc("mod.visit":6:9)
    yield
  }
  return
}"""
    with pytest.raises(MemoryAccessError) as caught:
        launch(text, 9, ints(0, 0, 0))
    assert str(caught.value).startswith("mod.visit:6:9: ")
    assert str(caught.value).endswith(" (program (4, 0, 0))\n  called from mod.k:3:3")


def test_errors_survive_the_way_between_processes() -> None:
    with pytest.raises(DeadlockError) as caught:
        launch(LOCKED, 5, ints(1), ints(0), np.zeros(5, np.int32))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, DeadlockError)
    assert (str(copy), copy.waiting, copy.calls) == (str(caught.value), caught.value.waiting, caught.value.calls)
