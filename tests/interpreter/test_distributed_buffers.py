"""Shared memory in the distributed executor: copies land when they are waited for, and threads wait for one another."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.placing import blocked, both, loaded, module_of, pointers, ran, stored, tile
from tilewright.interpreter import DistributionError, execute, execute_distributed
from tilewright.lang import I1, LinearLayout, Module, TileType

X = np.random.default_rng(4).integers(-(2**31), 2**31, 4096).astype(np.int32)
SHAPE = (64,)
#: Two registers a thread, neighbours or 32 apart; so each thread reads what another wrote.
WRITES, READS = blocked(SHAPE, (2,), (32,), (1,)), blocked(SHAPE, (1,), (32,), (1,))


def buffer(stages: int, swizzle: int = 0) -> str:
    """The type of a buffer of 64 elements a stage, neighbours XORed."""
    slots = 1 << (stages - 1).bit_length()
    bases = [(0, 1 << bit) for bit in range(6)] + [(1 << bit, 0) for bit in range(slots.bit_length() - 1)]
    bases[4] = (0, 16 ^ swizzle)
    return tile((slots, 64), "i32", LinearLayout.from_bases({"offset": bases}, {"dim0": slots, "dim1": 64}))


def kernel(*lines: str, stages: int = 2, shared: int = 512, scratch: int = 0) -> Module:
    """A kernel with a buffer `%b`, pointers `%p` to copy from, and numbers; `%t`, if made, is stored."""
    body = "\n".join(lines)
    start = f"""
  %zero = constant {{value = 0}} : i32
  %one = constant {{value = 1}} : i32
  %yes = constant {{value = 1}} : i1
  %b = local_alloc {{stages = {stages}, scratch = {scratch}}} : {buffer(stages, 3)}"""
    end = stored("t", SHAPE, READS) if "%t =" in body else ""
    return module_of(start, pointers("p", "x", SHAPE, WRITES), body, end, shared=shared)


def copy(into: str, buffer_: str, stage: str = "zero", enabled: str = "yes") -> str:
    return f"  %{into} = async_copy %p, %{buffer_}, %{stage}, %{enabled} : {buffer(2, 3)}"


def wait(into: str, buffer_: str, pending: int = 0) -> str:
    return f"  %{into} = async_wait %{buffer_} {{pending = {pending}}} : {buffer(2, 3)}"


def read(buffer_: str, stage: str = "zero", into: str = "t") -> str:
    return f"  %{into} = local_load %{buffer_}, %{stage} : {tile(SHAPE, 'i32', READS)}"


COMMIT, BARRIER = "  async_commit", "  barrier"


def fault(module: Module, what: str) -> None:
    with pytest.raises(DistributionError, match=what):
        ran(execute_distributed, module, X, 64)


def test_what_is_copied_is_there_after_the_wait_and_a_barrier() -> None:
    module = kernel(copy("c", "b"), COMMIT, wait("w", "c"), BARRIER, read("w"))
    assert (both(module, X, 64) == X[:64]).all()


def test_what_is_stored_is_there_after_a_barrier() -> None:
    store = f"{loaded('v', SHAPE, WRITES)}\n  %c = local_store %b, %one, %v : {buffer(2, 3)}"
    assert (both(kernel(store, BARRIER, read("c", "one")), X, 64) == X[:64]).all()
    fault(kernel(store, read("c", "one")), "local_load of %c: read, with no barrier since another thread wrote it")
    fault(kernel(store, BARRIER, read("c")), "local_load of %c: read, but never written")


def test_a_thread_may_read_what_it_wrote() -> None:
    store = f"{loaded('v', SHAPE, READS)}\n  %c = local_store %b, %one, %v : {buffer(2, 3)}"
    assert (both(kernel(store, read("c", "one")), X, 64) == X[:64]).all()


def test_a_copy_is_not_there_before_its_wait() -> None:
    early = "local_load of %c: read before the copy into it was waited for; at element 0"
    fault(kernel(copy("c", "b"), COMMIT, BARRIER, read("c")), early)
    fault(kernel(copy("c", "b"), wait("w", "c"), BARRIER, read("c")), early)  # of no group
    fault(kernel(copy("c", "b"), COMMIT, wait("w", "c", 1), BARRIER, read("c")), early)
    fault(kernel(copy("c", "b"), COMMIT, wait("w", "c"), read("w")), "no barrier since another thread wrote it")


def test_groups_are_waited_for_in_order() -> None:
    two = [copy("c", "b"), COMMIT, copy("d", "c", "one"), COMMIT, wait("w", "d", 1), BARRIER]
    rest = [read("w"), wait("v", "w")]
    assert (both(kernel(*two, *rest), X, 64) == X[:64]).all()
    fault(kernel(*two, read("w", "one"), wait("v", "w")), "read before the copy into it was waited for")
    fault(kernel(*two, read("w")), "async_copy: the program ends, and has not waited for this copy")


def test_a_copy_reads_as_late_as_it_may() -> None:
    """What is stored between a copy and its wait may be copied, or not; here it is."""
    change = f"{pointers('q', 'x', SHAPE, WRITES)}\n  %n = splat %one {{shape = (64,)}} : {tile(SHAPE, 'i32', WRITES)}"
    lines = [copy("c", "b"), COMMIT, change, "  store %q, %n", wait("w", "c"), BARRIER, read("w")]
    assert (ran(execute_distributed, kernel(*lines), X, 64) == 1).all()
    assert (ran(execute, kernel(*lines), X, 64) == X[:64]).all()


def test_a_copy_that_is_not_enabled_is_none() -> None:
    """What was there stays. A stage that was to be filled or not may be read, by whoever does not use it then: a loop
    loads ahead of its last round too."""
    no = "  %no = constant {value = 0} : i1"
    rest = [copy("d", "w", "zero", "no"), COMMIT, wait("v", "d")]
    kept = kernel(no, copy("c", "b"), COMMIT, wait("w", "c"), *rest, BARRIER, read("v"))
    assert (both(kept, X, 64) == X[:64]).all()
    lines = [no, copy("c", "b", "zero", "no"), COMMIT, wait("w", "c"), BARRIER]
    ran(execute_distributed, kernel(*lines, read("w")), X, 64)
    fault(kernel(*lines, read("w", "one")), "read, but never written")


def test_masked_off_elements_are_zeros() -> None:
    mask = f"""
  %h = constant {{value = 40}} : i32
  %hh = splat %h {{shape = (64,)}} : {tile(SHAPE, "i32", WRITES)}
  %m = cmp_lt_s %p_at, %hh : {tile(SHAPE, "i1", WRITES)}
  %c = async_copy %p, %b, %zero, %yes, %m : {buffer(2, 3)}"""
    lines = mask, COMMIT, wait("w", "c"), BARRIER, read("w")
    got = both(kernel(*lines), X, 64)
    assert (got[:40] == X[:40]).all() and not got[40:].any()
    module = kernel(*lines)
    (compare,) = (each for each in module.kernel.walk() if each.name == "cmp_lt_s")
    compare.result.type = TileType(SHAPE, I1, READS)
    fault(module, "meet, but lie in other places")


def test_a_stage_is_not_overwritten_while_it_is_in_use() -> None:
    filled = [copy("c", "b"), COMMIT, wait("w", "c"), BARRIER, read("w")]
    again = [copy("d", "w"), COMMIT, wait("v", "d")]
    fault(kernel(*filled, *again), "async_copy of %w: written, with no barrier since another thread read it")
    both(kernel(*filled, BARRIER, *again), X, 64)
    both(kernel(*filled, copy("d", "w", "one"), COMMIT, wait("v", "d")), X, 64)
    fault(kernel(copy("c", "b"), copy("d", "c")), "async_copy of %c: written, while a copy into it is on its way")


def test_the_last_version_is_the_one_to_use() -> None:
    lines = [copy("c", "b"), COMMIT, wait("w", "c"), BARRIER, read("b")]
    fault(kernel(*lines), "local_load of %b: an older version than the last one is used")


def test_stages_that_do_not_exist() -> None:
    fault(kernel("  %three = constant {value = 3} : i32", read("b", "three"), stages=2), "there is no such stage")
    fault(kernel(shared=256), "local_alloc: bytes 0 to 512 of 256 of shared memory")
    fault(kernel(scratch=-1), "the buffer has no place in shared memory")
    fault(kernel(shared=0), "local_alloc: byte 0 of 0 bytes of shared memory")


def exchanged(*lines: str) -> Module:
    """A kernel that fills a stage, reads it, and then converts a tile through the same memory, with `lines` between."""
    turned = blocked(SHAPE, (1,), (32,), (1,))
    convert = f"{loaded('v', SHAPE, WRITES)}\n  %u = convert_layout %v {{scratch = 0}} : {tile(SHAPE, 'i32', turned)}"
    return kernel(copy("c", "b"), COMMIT, wait("w", "c"), BARRIER, read("w"), *lines, convert)


def test_an_exchange_waits_for_what_was_there_before() -> None:
    both(exchanged(BARRIER), X, 64)
    fault(exchanged(), r"convert_layout: its shared memory was used with no barrier since \(byte 0\)")
    fault(exchanged(BARRIER, copy("d", "w"), COMMIT), "convert_layout: a copy is on its way to its shared memory")


def test_an_exchange_leaves_nothing_of_a_buffer() -> None:
    again = f"  %u2 = local_load %w, %zero : {tile(SHAPE, 'i32', READS)}"
    module = exchanged(BARRIER)
    lines = [copy("c", "b"), COMMIT, wait("w", "c"), BARRIER]
    convert = f"{loaded('v', SHAPE, WRITES)}\n  %u = convert_layout %v {{scratch = 0}} : {tile(SHAPE, 'i32', READS)}"
    fault(kernel(*lines, convert, again), "used with no barrier since|never written")
    both(module, X, 64)


def test_programs_that_part_wait_for_their_own_copies() -> None:
    """Odd programs copy and wait, and so do even ones, later."""
    lines = f"""
  %pid = program_id {{axis = 0}} : i32
  %bit = and %pid, %one : i32
  %odd = cmp_eq_i %bit, %one : i1
  %even = cmp_ne_i %bit, %one : i1
  %c = async_copy %p, %b, %zero, %odd : {buffer(2, 3)}
  async_commit
  %d = async_copy %p, %c, %one, %even : {buffer(2, 3)}
  async_commit
  %w = if %odd : {buffer(2, 3)} {{
  ^then:
    %w1 = async_wait %d {{pending = 1}} : {buffer(2, 3)}
    yield %w1
  ^else:
    %w2 = async_wait %d {{pending = 0}} : {buffer(2, 3)}
    yield %w2
  }}
  barrier"""
    stage = f"  %s = select %odd, %zero, %one : i32\n{read('w', 's')}"
    assert (both(kernel(lines, stage), X, 64, programs=4) == X[:64]).all()
