"""mbarriers: phases, states, counts and bytes, what they order, what goes wrong with them; and deadlocks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.programs import Array, module_text, run
from tilewright.compiler import assemble
from tilewright.interpreter import InterpreterError, Options, OutOfFuelError
from tilewright.interpreter.ptx import BarrierError, PtxError, RaceError, load_ptx

HEAD = """
.shared .align 8 .b8 bars[64]; .shared .align 16 .b8 s[4096];
.reg .b32 %t, %x, %y, %k, %b, %s0, %s1, %s2; .reg .b64 %a, %o, %st, %st2, %g; .reg .pred %p, %q, %r;
mov.u32 %t, %tid.x; mov.u32 %b, bars; mov.u32 %s0, s; ld.param.u64 %a, [a];
mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; shl.b32 %x, %t, 2; add.u32 %s1, %s0, %x;
xor.b32 %x, %x, 124; add.u32 %s2, %s0, %x; mov.u32 %y, 0; setp.eq.u32 %p, %t, 0;
"""
"""Thread t: its word of shared memory at %s1, that of another lane at %s2, of the array `a` at %a; %p for thread 0."""

STORE = "st.global.u32 [%a], %y;"


def init(count: int, at: int = 0) -> str:
    return f"@%p mbarrier.init.shared::cta.b64 [%b+{at}], {count}; bar.sync 0;"


def wait(parity: str, name: str, at: int = 0) -> str:
    return f"{name}: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b+{at}], {parity}; @!%q bra {name};"


def result(body: str, block: int = 64, seed: int = 0, checks: bool = True) -> Array:
    """What a body leaves in `a`."""
    out = np.zeros(block, np.uint32)
    run(HEAD + body, out, block=block, options=Options(seed=seed), checks=checks)
    return out


def error(body: str, block: int = 64, seed: int = 0) -> str:
    with pytest.raises(InterpreterError) as caught:
        result(body, block, seed)
    assert isinstance(caught.value, (BarrierError, RaceError)) or "MemoryAccess" in type(caught.value).__name__
    return str(caught.value)


EXCHANGE = (
    f"{init(64)} st.shared.u32 [%s1], %t; mbarrier.arrive.shared::cta.b64 _, [%b];"
    f"{wait('0', 'W')} ld.shared.u32 %y, [%s2]; {STORE}"
)
REVERSED = np.arange(64) ^ 31


@pytest.mark.parametrize("seed", range(5))
def test_arrivals_come_before_what_waits_for_the_phase(seed: int) -> None:
    assert np.array_equal(result(EXCHANGE, seed=seed), REVERSED)
    assert np.array_equal(result(EXCHANGE, seed=seed, checks=False), REVERSED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (wait("0", "W"), ""),
        (wait("0", "W"), wait("1", "W")),
        ("arrive.shared", "arrive.relaxed.cta.shared"),
        ("try_wait.parity.shared", "try_wait.parity.relaxed.cta.shared"),
        ("arrive.shared::cta.b64 _, [%b];", "arrive.shared::cta.b64 _, [%b+8];"),
    ],
)
def test_what_is_missing_is_a_race(old: str, new: str) -> None:
    assert old in EXCHANGE
    more = EXCHANGE.replace(old, new).replace(init(64), init(64) + init(64, 8))
    found = error(more)
    assert "not ordered with the store of 4 bytes" in found or "every thread that has not exited" in found


def test_an_mbarrier_must_be_made_before_others_use_it() -> None:
    assert "not ordered with the `mbarrier.init" in error(EXCHANGE.replace("bar.sync 0;", ""))
    assert "where no mbarrier is" in error("mbarrier.arrive.shared::cta.b64 _, [%b];")
    assert "where no mbarrier is" in error(f"{init(1)} {wait('0', 'W', 8)}")


def test_states_and_the_pending_count() -> None:
    """Thread 0 arrives three times at an mbarrier of four; states hold the counts before."""
    body = f"""{init(4)} @!%p bra END;
    mbarrier.arrive.shared::cta.b64 %st, [%b]; mbarrier.pending_count.b64 %y, %st; st.global.u32 [%a], %y;
    mbarrier.arrive.shared::cta.b64 %st, [%b], 2; mbarrier.pending_count.b64 %y, %st; st.global.u32 [%a+4], %y;
    mbarrier.test_wait.shared::cta.b64 %q, [%b], %st; selp.u32 %y, 1, 0, %q; st.global.u32 [%a+8], %y;
    mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %st2, [%b+8], 1; mbarrier.pending_count.b64 %y, %st2;
    st.global.u32 [%a+12], %y;
    mbarrier.arrive.shared::cta.b64 _, [%b];
    mbarrier.test_wait.shared::cta.b64 %q, [%b], %st; selp.u32 %y, 1, 0, %q; st.global.u32 [%a+16], %y;
    mbarrier.try_wait.shared::cta.b64 %q, [%b], %st, 1000; selp.u32 %y, 1, 0, %q; st.global.u32 [%a+20], %y;
    END: ret;"""
    body = body.replace(init(4), init(4) + init(9, 8))
    assert result(body)[:6].tolist() == [4, 3, 0, 9, 1, 1]
    assert assemble("k", module_text(HEAD + body, "a"), "sm_90a").cubin
    late = body.replace("END: ret;", "mbarrier.arrive.shared::cta.b64 _, [%b], 4; END: ret;")
    stale = late.replace("END: ret;", "mbarrier.test_wait.shared::cta.b64 %q, [%b], %st; END: ret;")
    assert "for the state of phase 0, but it is in phase 2" in error(stale)


def test_dropping_out_makes_later_phases_smaller() -> None:
    """Half of the threads drop out in the first phase; the others complete the second one alone."""
    body = f"""{init(64)} setp.lt.u32 %r, %t, 32; @%r bra STAY;
    mbarrier.arrive_drop.shared::cta.b64 _, [%b]; bra END;
    STAY: mbarrier.arrive.shared::cta.b64 %st, [%b]; {wait("0", "W0")}
    mbarrier.arrive.shared::cta.b64 %st, [%b]; mbarrier.pending_count.b64 %y, %st; {wait("1", "W1")} {STORE}
    END: ret;"""
    found = result(body)
    assert found[:32].max() == 32 and not found[32:].any()


def test_bytes_hold_a_phase_back() -> None:
    body = f"""{init(1)} @!%p bra REST;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 48;
    mbarrier.test_wait.parity.shared::cta.b64 %q, [%b], 0; selp.u32 %y, 1, 0, %q; st.global.u32 [%a], %y;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 16;
    mbarrier.complete_tx.shared::cta.b64 [%b], 32; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 32;
    mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %q, [%b], 0; selp.u32 %y, 3, 0, %q; st.global.u32 [%a+4], %y;
    REST: {wait("0", "W")}"""
    assert result(body)[:2].tolist() == [0, 3]
    assert assemble("k", module_text(HEAD + body, "a"), "sm_90a").cubin


def test_bytes_may_come_before_they_are_expected() -> None:
    body = f"""{init(1)} @%p mbarrier.complete_tx.shared::cta.b64 [%b], 16;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 16; {wait("0", "W")} mov.u32 %y, 1; {STORE}"""
    assert result(body).all()


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (init(0), "with a count of 0, which is 1 to 1048575"),
        (init(1 << 20), "with a count of 1048576"),
        (init(1) + init(1), "where one is already, without `mbarrier.inval`"),
        (init(2) + "@%p mbarrier.arrive.shared::cta.b64 _, [%b], 3;", "which has 2 of 2 arrivals pending"),
        (init(1) + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 16;", "and 16 bytes outstanding: underflow"),
        (init(1) + "@%p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 1048576;", "overflow"),
        (init(1) + "@%p mbarrier.complete_tx.shared::cta.b64 [%b], 1048576;", "-1048576 bytes outstanding: overflow"),
        (init(2) + "@%p mbarrier.arrive.noComplete.shared::cta.b64 %st, [%b], 2;", "would complete the phase"),
        (init(1) + "@%p mbarrier.inval.shared::cta.b64 [%b]; @%p mbarrier.inval.shared::cta.b64 [%b];", "no mbarrier"),
        ("mbarrier.init.shared::cta.b64 [%b+4], 1;", "misaligned"),
        (init(1) + "mbarrier.arrive.b64 _, [%a];", "which is not in shared memory"),
        (init(1) + "st.shared.u32 [%b+4], %t;", "store of 4 bytes at shared address 0x4, where an mbarrier is"),
        (init(1) + "ld.shared.u32 %y, [%b];", "load of 4 bytes at shared address 0x0, where an mbarrier is"),
    ],
)  # fmt: skip
def test_mistakes(body: str, what: str) -> None:
    assert what in error(body)


def test_memory_may_be_used_again_after_inval() -> None:
    body = f"""{init(1)} @%p mbarrier.inval.shared::cta.b64 [%b]; bar.sync 0; @%p st.shared.u32 [%b], 7;
    bar.sync 0; ld.shared.u32 %y, [%b]; {STORE} bar.sync 0; {init(3)}"""
    assert (result(body) == 7).all()


def test_generic_addresses() -> None:
    body = f"""{init(64)} cvt.u64.u32 %g, %b; cvta.shared.u64 %g, %g; mbarrier.arrive.release.cta.b64 %st, [%g];
    W: mbarrier.try_wait.acquire.cta.b64 %q, [%g], %st; @!%q bra W; mov.u32 %y, 5; {STORE}"""
    assert (result(body) == 5).all()
    assert assemble("k", module_text(HEAD + body, "a"), "sm_90a").cubin


def test_waiting_without_a_loop_may_return_at_any_time() -> None:
    """`try_wait` is no promise: with some seed it returns although the phase is not complete."""
    slow = (
        "setp.lt.u32 %q, %t, 32; @%q bra B; mov.u32 %k, 0; L: add.u32 %k, %k, 1; setp.lt.u32 %q, %k, 9; @%q bra L; B:"
    )
    body = EXCHANGE.replace("@!%q bra W;", "").replace(init(64), init(64) + slow)
    right = [not _fails(body, seed) for seed in range(24)]
    assert right[0] and not all(right)


def _fails(body: str, seed: int) -> bool:
    try:
        result(body, seed=seed)
    except RaceError:
        return True
    return False


# --- deadlocks ---


def test_a_deadlock_is_told_at_once_with_what_is_missing() -> None:
    with pytest.raises(BarrierError) as caught:
        run(
            HEAD + EXCHANGE.replace(init(64), init(65)), np.zeros(64, np.uint32), block=64, options=Options(fuel=10_000)
        )
    assert "64 threads wait in `mbarrier.try_wait.parity.shared::cta.b64`" in str(caught.value)
    assert "the mbarrier at shared address 0x0 is in phase 0, 1 of 65 arrivals and 0 bytes short" in str(caught.value)
    assert caught.value.location.line > 0


def test_two_groups_that_wait_for_each_other() -> None:
    low = "setp.lt.u32 %r, %t, 32; @%r bra LOW;"
    found = error(f"{init(32)} {low} {wait('0', 'H')} bra END; LOW: bar.sync 0; END: ret;")
    assert "32 threads wait in `bar.sync`" in found and "32 threads wait in `mbarrier.try_wait" in found


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "poll",
    [
        f"{init(65)} mbarrier.arrive.shared::cta.b64 _, [%b];"
        "W: mbarrier.test_wait.parity.shared::cta.b64 %q, [%b], 0; @!%q bra W;",
        "W: ld.volatile.global.u32 %y, [%a]; setp.eq.u32 %q, %y, 0; @%q bra W;",
        "W: ld.acquire.gpu.global.u32 %y, [%a]; nanosleep.u32 100; setp.eq.u32 %q, %y, 0; @%q bra W;",
        "W: atom.global.cas.b32 %y, [%a], 1, 2; setp.ne.u32 %q, %y, 1; @%q bra W;",
        "W: atom.global.exch.b32 %y, [%a], 0; setp.eq.u32 %q, %y, 0; @%q bra W;",
        "@%p bra END; bra W; W: ld.volatile.global.u32 %y, [%a]; setp.eq.u32 %q, %y, 0; @%q bra W; END: bar.sync 0;",
    ],
)
def test_polling_for_what_nobody_is_left_to_do_is_a_deadlock(poll: str, seed: int) -> None:
    found = error(poll, seed=seed)
    assert "every thread that has not exited waits for others" in found


def test_polling_for_what_somebody_does_is_none() -> None:
    """One thread counts for long, in registers alone, before it sets what the others poll."""
    body = f"""@!%p bra W; mov.u32 %k, 0; L: add.u32 %k, %k, 1; setp.lt.u32 %q, %k, 4000; @%q bra L;
    st.release.gpu.global.u32 [%a], 1; bra END;
    W: sub.u64 %g, %a, %o; V: ld.acquire.gpu.global.u32 %y, [%g]; setp.eq.u32 %q, %y, 0; @%q bra V; {STORE}
    END: ret;"""
    assert result(body).all()


def test_loops_that_poll_nothing_end_with_the_budget() -> None:
    with pytest.raises(OutOfFuelError):
        run(HEAD + "L: bra L;", np.zeros(32, np.uint32), options=Options(fuel=5_000))
    counting = "mov.u32 %k, 0; L: ld.global.u32 %y, [%a]; add.u32 %k, %k, 1; bra L;"
    with pytest.raises(OutOfFuelError):
        run(HEAD + counting, np.zeros(32, np.uint32), options=Options(fuel=5_000))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("mbarrier.init.shared::cta.b64 [%b];", "takes 2 operands, found 1"),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b];", "takes 3 operands, found 2"),
        ("mbarrier.arrive.noComplete.shared::cta.b64 %st, [%b];", "takes 3 operands, found 2"),
        ("mbarrier.swap.shared.b64 [%b], 1;", "unknown modifier `.swap` of `mbarrier`"),
        ("mbarrier.test_wait.parity.shared.b64 %y, [%b], 0;", "needs 1"),
    ],
)
def test_what_is_not_ptx_is_refused(body: str, what: str) -> None:
    with pytest.raises(PtxError, match=what):
        load_ptx(module_text(HEAD + body, "a"))


def test_older_targets_have_none() -> None:
    text = module_text(HEAD + init(1) + wait("0", "W"), "a").replace("sm_90a", "sm_80")
    with pytest.raises(PtxError, match="needs sm_90, the module is for sm_80"):
        load_ptx(text)


# --- with cp.async ---

COPIES = (
    """ld.param.u64 %g, [b]; mul.wide.u32 %o, %t, 4; add.u64 %g, %g, %o; cp.async.ca.shared.global [%s1], [%g], 4;"""
)


@pytest.mark.parametrize("noinc", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_copies_of_threads_arrive_when_they_are_done(noinc: bool, seed: int) -> None:
    """Without `.noinc` the threads' own arrivals are expected besides."""
    given, out = np.arange(64, dtype=np.uint32) * 3, np.zeros(64, np.uint32)
    arrive = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%b];"
    if not noinc:
        arrive = "cp.async.mbarrier.arrive.shared::cta.b64 [%b]; mbarrier.arrive.shared::cta.b64 _, [%b];"
    body = f"{init(64)} {COPIES} {arrive} {wait('0', 'W')} ld.shared.u32 %y, [%s2]; {STORE}"
    run(HEAD + body, out, given, block=64, options=Options(seed=seed))
    assert np.array_equal(out, given[REVERSED])
    assert assemble("k", module_text(HEAD + body, "ab"), "sm_90a").cubin
    with pytest.raises(RaceError, match="without a wait for the copy of 4 bytes"):
        run(HEAD + body.replace(wait("0", "W"), ""), out, given, block=64)
