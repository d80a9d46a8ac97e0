"""Asynchronous copies: what they copy, when they are done, and what must not happen meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.kernels import START
from tests.interpreter.ptx.programs import HEADER, module_text, run
from tilewright.compiler import assemble
from tilewright.interpreter import Buffer, MemoryAccessError, Options
from tilewright.interpreter.ptx import PtxError, RaceError, UninitializedError, load_ptx, run_ptx

PLACES = START + """
.shared .align 16 .b8 s[2048]; ld.param.u64 %a, [a]; ld.param.u64 %c, [b]; mov.u32 %s0, s;
shl.b32 %s1, %t, 4; add.u32 %s2, %s0, %s1; mul.wide.u32 %o0, %i, 16; add.u64 %o1, %a, %o0; add.u64 %o2, %c, %o0;
"""  # fmt: skip
"""Thread t: 16 bytes of shared memory at %s2, of the array a at %o1, of b at %o2."""

COPY = "cp.async.cg.shared.global [%s2], [%o1], 16;"
STORE = "ld.shared.v4.u32 {%w, %x, %y, %z}, [%s2]; st.global.v4.u32 [%o2], {%w, %x, %y, %z};"
ZERO = "st.shared.v4.u32 [%s2], {0, 0, 0, 0};"
DONE = "cp.async.wait_all; bar.sync 0;"


def source(block: int = 64) -> np.ndarray:
    """Different bytes, all of them."""
    return np.arange(16 * block, dtype=np.uint32).astype(np.uint8).reshape(block, 16) + 1


def copied(body: str, block: int = 64, options: Options | None = None, checks: bool = True) -> np.ndarray:
    """What a body leaves in the array `b`, given `source` in `a`."""
    given, out = source(block), np.full((block, 16), 0xEE, np.uint8)
    run(PLACES + body, given, out, block=block, options=options, checks=checks)
    assert np.array_equal(given, source(block))
    return out


def race(body: str, seed: int = 0) -> str:
    """The race that a body has, without its place."""
    with pytest.raises(RaceError) as caught:
        copied(body, options=Options(seed=seed))
    return str(caught.value)


@pytest.mark.parametrize(
    ("operation", "nbytes"),
    [
        ("cp.async.ca.shared.global [%s2], [%o1], 4;", 4),
        ("cp.async.ca.shared::cta.global.L2::128B [%s2], [%o1], 8;", 8),
        ("cp.async.ca.shared.global.L2::64B [%s2], [%o1], 16;", 16),
        ("cp.async.cg.shared::cta.global.L2::256B [%s2], [%o1], 16;", 16),
        ("mov.u32 %k, 16; cp.async.cg.shared.global [%s2], [%o1], 16, %k;", 16),
        ("createpolicy.fractional.L2::evict_last.b64 %d; "
         "cp.async.cg.shared.global.L2::cache_hint [%s2], [%o1], 16, %d;", 16),
        ("createpolicy.fractional.L2::evict_last.b64 %d; mov.u32 %k, 16; "
         "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%s2], [%o1], 16, %k, %d;", 16),
    ],
)  # fmt: skip
def test_sizes_and_hints(operation: str, nbytes: int) -> None:
    out = copied(f"{ZERO} {operation} {DONE} {STORE}")
    assert np.array_equal(out[:, :nbytes], source()[:, :nbytes]) and not out[:, nbytes:].any()
    assert assemble("k", module_text(f"{PLACES} {operation} {DONE}", "ab"), "sm_90a").cubin


@pytest.mark.parametrize("size", [4, 8, 16])
def test_bytes_beyond_the_source_size_are_zeros(size: int) -> None:
    """Thread t reads t modulo (size + 1) bytes; memory that is not read need not be there."""
    body = f"rem.u32 %k, %t, {size + 1}; cp.async.ca.shared.global [%s2], [%o1], {size}, %k; {DONE} {STORE}"
    out = copied(ZERO + body)
    keep = np.arange(64)[:, None] % (size + 1) > np.arange(16)
    assert np.array_equal(out, np.where(keep, source(), 0))
    shifted = f"rem.u32 %k, %t, {size + 1}; min.u32 %k, %k, {size}; add.u64 %o1, %o1, 1020; setp.ne.u32 %p, %t, 0;"
    tail = f"@%p mov.u32 %k, 0; cp.async.ca.shared.global [%s2], [%o1], {size}, %k; {DONE} {STORE}"
    if size == 4:
        assert not copied(ZERO + shifted + tail)[1:].any()


def test_an_ignored_source_is_not_touched() -> None:
    body = "and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 1; @%p mov.u64 %o1, 0;"
    out = copied(f"{body} cp.async.cg.shared.global [%s2], [%o1], 16, %p; {DONE} {STORE}")
    assert np.array_equal(out[::2], source()[::2]) and not out[1::2].any()
    text = module_text(f"{PLACES}{body} cp.async.cg.shared.global [%s2], [%o1], 16, %p;", "ab")
    assert assemble("k", text, "sm_90a").cubin


def test_guarded_copies() -> None:
    out = copied(f"{ZERO} setp.lt.u32 %p, %t, 9; @%p {COPY} {DONE} {STORE}")
    assert np.array_equal(out, np.where(np.arange(64)[:, None] < 9, source(), 0))


def test_groups_are_waited_for_in_order() -> None:
    """Each thread copies three pieces in three groups and waits for all but the last one, and then for that."""
    body = "".join(
        f"cp.async.ca.shared.global [%s2+{4 * k}], [%o1+{4 * k}], 4; cp.async.commit_group;" for k in range(3)
    )
    reads = ["ld.shared.v2.u32 {%w, %x}, [%s2];", "ld.shared.u32 %y, [%s2+8];"]
    store = "st.global.v4.u32 [%o2], {%w, %x, %y, 7};"
    out = copied(f"{body} cp.async.wait_group 1; {reads[0]} cp.async.wait_group 0; {reads[1]} {store}")
    assert np.array_equal(out[:, :12], source()[:, :12])
    assert "without a wait for the copy of 4 bytes" in race(f"{body} cp.async.wait_group 1; {reads[0]} {reads[1]}")
    assert "without a wait for the copy of 4 bytes" in race(f"{body} cp.async.wait_group 2; {reads[0]}")


def test_threads_have_groups_of_their_own() -> None:
    """Half of the threads commit an empty group, which pushes their copy out of the last one."""
    more = "setp.lt.u32 %p, %t, 32; @%p bra GO; cp.async.commit_group; GO: mov.u32 %x, 0;"
    body = f"{COPY} cp.async.commit_group; {more} cp.async.wait_group 1;"
    assert "by thread (0, 0, 0)" in race(f"{body} ld.shared.u32 %x, [%s2];")
    assert np.array_equal(copied(f"{body} @%p cp.async.wait_group 0; bar.sync 0; {STORE}"), source())


def test_waiting_for_groups_leaves_what_was_not_committed() -> None:
    read = "ld.shared.u32 %x, [%s2];"
    assert "without a wait" in race(f"{COPY} cp.async.wait_group 0; {read}")
    assert np.array_equal(copied(f"{COPY} cp.async.wait_all; {STORE}"), source())


@pytest.mark.parametrize("seed", range(4))
def test_others_need_a_barrier_behind_the_wait(seed: int) -> None:
    other = "xor.b32 %s3, %s1, 16; add.u32 %s3, %s0, %s3; ld.shared.u32 %x, [%s3];"
    assert "not ordered with the copy of 16 bytes" in race(f"{COPY} cp.async.wait_all; {other}", seed)
    assert "without a wait for the copy" in race(f"{COPY} bar.sync 0; {other}", seed)
    assert "not ordered with the copy" in race(f"{COPY} bar.sync 0; cp.async.wait_all; {other}", seed)
    copied(f"{COPY} {DONE} {other}", options=Options(seed=seed))


def test_nobody_may_touch_what_a_copy_is_going_to_write() -> None:
    assert "store of 16 bytes" in race(f"{COPY} {ZERO} cp.async.wait_all;")
    assert "copy of 16 bytes at shared address 0x0" in race(f"{COPY} {COPY} cp.async.wait_all;")
    assert "atomic access to 4 bytes" in race(f"{ZERO} {COPY} red.shared.add.u32 [%s2], 1;")
    other = "xor.b32 %s3, %s1, 16; add.u32 %s3, %s0, %s3;"
    assert "not ordered with the store" in race(f"{other} st.shared.v4.u32 [%s3], {{%t, %t, %t, %t}}; {COPY}")
    assert "not ordered with the load" in race(f"{ZERO} {other} bar.sync 0; ld.shared.u32 %x, [%s3]; {COPY}")


def test_nobody_may_write_what_a_copy_is_going_to_read() -> None:
    change = "st.global.u32 [%o1+8], %t;"
    found = race(f"{COPY} {change} cp.async.wait_all;")
    assert "store of 4 bytes at element 8 of a (uint8" in found and "without a wait for the copy of 16 bytes" in found
    assert "not ordered with the copy" in race(
        f"{COPY} cp.async.wait_all; xor.b32 %x, %t, 1; mul.wide.u32 %o3, %x, 16;"
        "add.u64 %o3, %a, %o3; st.global.u32 [%o3], %t;"
    )
    given, out = source(), np.zeros((64, 16), np.uint8)
    run(f"{PLACES} {COPY} cp.async.wait_all; {change}", given, out, block=64)
    assert np.array_equal(given.view(np.uint32)[:, 2], np.arange(64))


def test_copies_that_read_the_same_may_write_the_same() -> None:
    both = "shr.u32 %x, %t, 1; shl.b32 %x, %x, 4; add.u32 %s2, %s0, %x; cvt.u64.u32 %o3, %x; add.u64 %o1, %a, %o3;"
    assert np.array_equal(copied(f"{both} {COPY} {DONE} {STORE}"), source()[np.arange(64) // 2])
    assert "copy of 16 bytes" in race(f"shr.u32 %x, %t, 1; shl.b32 %x, %x, 4; add.u32 %s2, %s0, %x; {COPY}")


def test_a_copy_is_done_at_the_wait_or_by_luck_before() -> None:
    """Without checks the forbidden look at the target shows when: with seed 0 as late as can be."""
    body = f"{ZERO} {COPY} bra NEXT; NEXT: mov.u32 %k, 0; LOOP: add.u32 %k, %k, 1; setp.lt.u32 %p, %k, 3; @%p bra LOOP;"
    early = [copied(body + STORE, options=Options(seed=seed), checks=False).any() for seed in range(12)]
    assert not early[0] and any(early) and not all(early[1:])
    assert all(np.array_equal(copied(f"{body}{DONE}{STORE}", options=Options(seed=s)), source()) for s in range(5))


def test_what_a_copy_has_written_is_initialised() -> None:
    assert np.array_equal(copied(f"{COPY} {DONE} {STORE}"), source())
    with pytest.raises(UninitializedError):
        copied(f"setp.ne.u32 %p, %t, 5; @%p {COPY} {DONE} {STORE}")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("cp.async.cg.shared.global [%s2], [%o1+4], 16;", "misaligned"),
        ("cp.async.ca.shared.global [%s2+2], [%o1], 4;", "copy of 4 bytes at shared address 0x2: misaligned"),
        ("cp.async.cg.shared.global [%s2+1040], [%o1], 16;", "shared address 0x800, out of bounds"),
        ("cp.async.cg.shared.global [%s2], [%o1+1024], 16;", "copy of 16 bytes at byte address"),
        ("cp.async.ca.shared.global [%s2], [%o1+1024], 8, 3;", "copy of 1 bytes at byte address"),
        ("mov.u32 %k, 9; cp.async.ca.shared.global [%s2], [%o1], 8, %k;", "of 8 bytes reads 9"),
    ],
)
def test_bad_addresses(body: str, what: str) -> None:
    with pytest.raises(MemoryAccessError, match=what):
        copied(body)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("cp.async.cg.shared.global [%s2], [%o1], 8;", "copies 16 bytes, found 8"),
        ("cp.async.ca.shared.global [%s2], [%o1], 12;", "copies 4 or 8 or 16 bytes, found 12"),
        ("cp.async.ca.shared.global [%s2], [%o1], %x;", "needs a constant as operand 3"),
        ("cp.async.wait_group %x;", "needs a constant as operand 1"),
        ("cp.async.wait_group;", "takes 1 operands, found 0"),
        ("cp.async.commit;", "unknown modifier `.commit` of `cp`"),
    ],
)
def test_what_is_not_ptx_is_refused(body: str, what: str) -> None:
    with pytest.raises(PtxError, match=what):
        load_ptx(module_text(PLACES + body, "ab"))


def test_older_targets_have_none() -> None:
    text = module_text(PLACES + COPY, "ab").replace(HEADER, HEADER.replace("sm_90a", "sm_75"))
    with pytest.raises(PtxError, match="`cp.async.cg.shared.global` needs sm_80, the module is for sm_75"):
        load_ptx(text)


def test_copies_may_be_in_flight_at_the_end() -> None:
    given = [Buffer.of("a", source()), Buffer.of("b", source())]
    module = load_ptx(module_text(PLACES + COPY + " st.global.u32 [%o2], %t;", "ab"))
    counters = run_ptx(module, "k", (3,), (16,), given, Options(chunk_bytes=1))
    assert counters.warps["async"] == 3
