"""Bulk copies: what they copy and combine, when they are done, what must not happen meanwhile, and bad operands."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interpreter.ptx.programs import Array, aligned, module_text, run
from tilewright.compiler import assemble
from tilewright.interpreter import InterpreterError, MemoryAccessError, Options
from tilewright.interpreter.ptx import BarrierError, PtxError, RaceError, load_ptx

HEAD = """
.shared .align 128 .b8 s[4096]; .shared .align 8 .b8 bars[64];
.reg .b32 %t, %x, %y, %b, %s0, %s1, %n; .reg .b64 %a, %c, %o, %a1, %c1, %d; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %b, bars; mov.u32 %s0, s; ld.param.u64 %a, [a]; ld.param.u64 %c, [b];
mul.wide.u32 %o, %t, 4; add.u64 %a1, %a, %o; add.u64 %c1, %c, %o; shl.b32 %x, %t, 2; add.u32 %s1, %s0, %x;
setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [%b], 1; bar.sync 0;
"""
"""Thread t: its word of shared memory at %s1, of the arrays a and b at %a1 and %c1; %p for thread 0; an mbarrier."""

NBYTES = 256
INTO = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
OUT = "cp.async.bulk.global.shared::cta.bulk_group"
EXPECT = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {NBYTES};"
LOAD = f"@!%p bra GO; {EXPECT} {INTO} [%s0], [%a], {NBYTES}, [%b]; GO:"
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0; @!%q bra W;"
TAKE = "ld.shared.u32 %y, [%s1]; st.global.u32 [%c1], %y;"
PUT = "st.shared.u32 [%s1], %t; fence.proxy.async.shared::cta; bar.sync 0;"
STORE = f"@!%p bra END; {OUT} [%c], [%s0], {NBYTES}; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END: ret;"


def source() -> Array:
    return aligned(np.arange(1, 65, dtype=np.uint32))


def copied(body: str, seed: int = 0, checks: bool = True, cluster: tuple[int, ...] | None = None) -> Array:
    """What 64 threads leave in `b`, given `source` in `a`."""
    given, out = source(), aligned(np.full(64, 0xEEEE, np.uint32))
    run(HEAD + body, given, out, block=64, options=Options(seed=seed), checks=checks, cluster=cluster)
    assert np.array_equal(given, source())
    return out


def error(body: str, seed: int = 0) -> str:
    with pytest.raises(InterpreterError) as caught:
        copied(body, seed)
    return str(caught.value)


@pytest.mark.parametrize("seed", range(5))
def test_into_shared_memory_and_out_of_it(seed: int) -> None:
    assert np.array_equal(copied(LOAD + WAIT + TAKE, seed), source())
    assert np.array_equal(copied(PUT + STORE, seed), np.arange(64))
    assert np.array_equal(copied(LOAD + WAIT + STORE, seed, checks=False), source())
    assert np.array_equal(copied(LOAD + WAIT + STORE, seed), source())


@pytest.mark.parametrize(
    "copy",
    [
        f"{INTO} [%s0], [%a], 16, [%b];",
        f"{INTO}.L2::cache_hint [%s0], [%a], 16, [%b], %d;",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%s0], [%a], 16, [%b];",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%s0+64], [%s0], 16, [%b];",
    ],
)
def test_forms_into_shared_memory(copy: str) -> None:
    expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 16;"
    body = f"{PUT} mov.u64 %d, 0; @!%p bra GO; {expect} {copy} GO: {WAIT} {TAKE}"
    want = np.arange(64)
    if "[%s0+64]" in copy:
        want[16:20] = want[:4]
    else:
        want[:4] = source()[:4]
    assert np.array_equal(copied(body, cluster=(1,)), want)
    assert assemble("k", module_text(HEAD + body, "ab"), "sm_90a").cubin


def test_hints_prefetches_and_other_forms() -> None:
    body = f"""{PUT} mov.u64 %d, 0; @!%p bra END; cp.async.bulk.prefetch.L2.global [%a], 64;
    cp.async.bulk.prefetch.L2.global.L2::cache_hint [%a], 64, %d; {OUT}.L2::cache_hint [%c], [%s0], 256, %d;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 1; cp.async.bulk.wait_group.read 0; END: ret;"""
    assert np.array_equal(copied(body), np.arange(64))
    assert assemble("k", module_text(HEAD + body, "ab"), "sm_90a").cubin


REDUCTIONS: list[tuple[str, str, Any, Any]] = [
    ("add", "u32", np.uint32, np.add), ("add", "s32", np.int32, np.add), ("add", "u64", np.uint64, np.add),
    ("min", "u32", np.uint32, np.minimum), ("max", "s32", np.int32, np.maximum), ("min", "s64", np.int64, np.minimum),
    ("max", "u64", np.uint64, np.maximum), ("and", "b32", np.uint32, np.bitwise_and),
    ("or", "b64", np.uint64, np.bitwise_or), ("xor", "b32", np.uint32, np.bitwise_xor),
    ("inc", "u32", np.uint32, lambda old, x: np.where(old >= x, 0, old + 1)),
    ("dec", "u32", np.uint32, lambda old, x: np.where((old == 0) | (old > x), x, old - 1)),
    ("add", "f32", np.float32, np.add), ("add", "f64", np.float64, np.add),
    ("add.noftz", "f16", np.float16, np.add), ("add.noftz", "bf16", ml_dtypes.bfloat16, np.add),
    ("min", "f16", np.float16, np.minimum), ("max", "bf16", ml_dtypes.bfloat16, np.maximum),
]  # fmt: skip


@pytest.mark.parametrize(("op", "type_", "dtype", "want"), REDUCTIONS)
def test_reductions(op: str, type_: str, dtype: Any, want: Any) -> None:
    rng = np.random.default_rng(1)
    given, out = (aligned(rng.integers(0, 9, 256 // np.dtype(dtype).itemsize).astype(dtype)) for _ in range(2))
    before = out.copy()
    reduce = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{type_} [%c], [%s0], 256;"
    body = f"""ld.global.u32 %y, [%a1]; st.shared.u32 [%s1], %y; fence.proxy.async; bar.sync 0; @!%p bra END;
    {reduce} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END: ret;"""
    run(HEAD + body, given, out, block=64)
    assert np.array_equal(out.astype(np.float64), want(before, given).astype(dtype).astype(np.float64))
    assert assemble("k", module_text(HEAD + body, "ab"), "sm_90a").cubin


def test_reduction_into_shared_memory() -> None:
    reduce = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
    body = f"""{PUT} @!%p bra GO; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 64;
    {reduce} [%s0+64], [%s0], 64, [%b]; GO: {WAIT} {TAKE}"""
    want = np.arange(64)
    want[16:32] += want[:16]
    assert np.array_equal(copied(body, cluster=(1,)), want)
    with pytest.raises(MemoryAccessError, match="launched without clusters, where hardware has no such copy"):
        copied(body)
    assert assemble("k", module_text(HEAD + body, "ab"), "sm_90a").cubin


def test_a_copy_is_done_when_somebody_waits_or_by_luck_before() -> None:
    zero = "st.shared.u32 [%s1], 0; fence.proxy.async; bar.sync 0;"
    idle = "mov.u32 %n, 0; L: add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 3; @%q bra L;"
    early = [copied(zero + LOAD + idle + TAKE + WAIT, seed, checks=False).any() for seed in range(12)]
    assert not early[0] and any(early) and not all(early[1:])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (LOAD + TAKE + WAIT, "load of 4 bytes at shared address 0x0 by thread (0, 0, 0) of block (0, 0, 0), without"),
        (LOAD + "st.shared.u32 [%s1], 1;" + WAIT, "without a wait for the write of a bulk copy"),
        (LOAD + "@%p st.global.u32 [%a1], 1;" + WAIT, "without a wait for the read of a bulk copy"),
        ("st.shared.u32 [%s1], %t; bar.sync 0;" + STORE, "with no `fence.proxy.async` behind the store of 4 bytes"),
        ("st.shared.u32 [%s1], %t; fence.proxy.async;" + STORE, "not ordered with the store of 4 bytes"),
        ("st.shared.u32 [%s1], %t; bar.sync 0;" + LOAD + WAIT, "with no `fence.proxy.async` behind the store"),
        (PUT + STORE.replace("END: ret;", "END: st.shared.u32 [%s1], 1;"), "not ordered with the read of a bulk copy"),
        (PUT + STORE.replace("wait_group 0;", "wait_group 1; st.shared.u32 [%s0], 9;"), "without a wait for the"),
        (PUT + STORE.replace("wait_group 0;", "wait_group.read 0; ld.global.u32 %y, [%c];"), "without a wait for the"),
        (STORE, "shared address 0x0, which nobody wrote"),
        (PUT + STORE.replace("cp.async.bulk.wait_group 0;", ""), "still in flight when its block ends"),
        (PUT + STORE.replace("cp.async.bulk.commit_group;", ""), "still in flight when its block ends"),
        (LOAD, "still in flight when its block ends"),
        (PUT + f"{INTO} [%s0], [%a], 16, [%b];", "without a wait for the write of a bulk copy"),
    ],
)  # fmt: skip
def test_what_must_not_happen_meanwhile(body: str, what: str) -> None:
    assert what in error(body)


def test_the_fence_may_stand_behind_the_barrier() -> None:
    fenced = "st.shared.u32 [%s1], %t; bar.sync 0; fence.proxy.async.shared::cta;" + STORE
    assert np.array_equal(copied(fenced), np.arange(64))


def test_whoever_waits_may_write_what_the_copy_has_read_or_written() -> None:
    body = LOAD + WAIT + "ld.shared.u32 %y, [%s1]; st.shared.u32 [%s1], 1; st.global.u32 [%a1], %y;" + TAKE
    assert (copied(body) == 1).all()


def test_only_those_that_waited_know() -> None:
    flag = "@%p st.shared.u32 [%s0+2048], 0; bar.sync 0;"
    some = f"setp.lt.u32 %q, %t, 32; @!%q bra REST; {WAIT} @%p st.{{0}}.cta.shared.u32 [%s0+2048], 1; bra ON;"
    rest = "REST: ld.{1}.cta.shared.u32 %y, [%s0+2048]; setp.eq.u32 %q, %y, 0; @%q bra REST; ON:"
    wrong = (flag + LOAD + some + rest + TAKE).format("relaxed", "relaxed")
    assert "not ordered with the write of a bulk copy" in error(wrong)
    right = (flag + LOAD + some + rest + TAKE).format("release", "acquire")
    assert np.array_equal(copied(right), source())


@pytest.mark.parametrize(
    ("copy", "what"),
    [
        (f"{INTO} [%s0+8], [%a], 16, [%b];", "shared address 0x8 is no multiple of 16"),
        (f"{INTO} [%s0], [%a+4], 16, [%b];", "is no multiple of 16"),
        (f"{INTO} [%s0], [%a], 24, [%b];", "a size of 24 bytes, which is no multiple of 16"),
        (f"{INTO} [%s0], [%a], 0, [%b];", "a size of 0 bytes"),
        (f"{INTO} [%s0+4096], [%a], 128, [%b];", "128 bytes at shared address 0x1000, out of bounds"),
        (f"{INTO} [%s0], [%a], 272, [%b];", "read of a bulk copy at"),
        (f"{INTO} [%s0], [%a], 16, [%b+8];", "where no mbarrier is"),
        (f"{INTO} [%s0], [%a], 16, [%b+4];", "no mbarrier can be at shared address"),
        (f"{OUT} [%c], [%b], 16;", "where an mbarrier is"),
        (f"{OUT} [%c+128], [%s0], 256;", "write of a bulk copy at"),
    ],
)
def test_bad_operands(copy: str, what: str) -> None:
    assert what in error(f"{PUT} @%p {copy}")


def test_constants_are_not_written() -> None:
    given, out = source(), aligned(np.zeros(64, np.uint32))
    out.flags.writeable = False
    with pytest.raises(InterpreterError, match="read-only"):
        run(HEAD + PUT + STORE, given, out, block=64)


@pytest.mark.parametrize(
    ("copy", "what"),
    [
        (f"{INTO} [%s0], [%a], 16;", "needs more operands, found 3"),
        (f"{INTO} [%s0], [%a], 16, [%b], %d;", "has 1 operands too many"),
        (f"{INTO} [%s0], %a, 16, [%b];", "needs an address in brackets"),
        ("cp.async.bulk.wait_group %t;", "needs a constant as operand 1"),
        (f"{OUT} [%c, {{%t}}], [%s0], 16;", "needs an address in brackets"),
        ("ld.global.u32 %y, [%c, {%t}];", "needs an address in brackets"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%c], [%s0], 16;", "is not a form of `cp`"),
    ],
)
def test_what_is_not_ptx_is_refused(copy: str, what: str) -> None:
    with pytest.raises(PtxError, match=what):
        load_ptx(module_text(HEAD + copy, "ab"))


def test_errors_are_of_the_right_kind() -> None:
    for body, kind in ((LOAD + TAKE, RaceError), (LOAD.replace("], 256;", "], 272;") + WAIT, BarrierError)):
        with pytest.raises(kind):
            copied(body)
