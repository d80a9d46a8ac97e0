"""Threads that poll: what nobody is left to do is a deadlock, what somebody may yet do is none."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.programs import run
from tilewright.interpreter import Options, OutOfFuelError
from tilewright.interpreter.ptx import BarrierError, Counters

HEAD = """.shared .align 8 .b8 s[16]; .local .align 4 .b8 l[4]; .reg .b32 %t, %b, %v, %w, %at, %n, %m;
.reg .b64 %p, %c; .reg .pred %one, %q; ld.param.u64 %p, [a]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %at, s;
mov.u32 %n, 0; mov.u32 %m, 0; setp.eq.u32 %one, %t, 0; @%one st.shared.u32 [%at], 0;
"""
ROUND = """AGAIN: bar.sync 0; @%one ld.acquire.gpu.global.u32 %v, [%p]; @%one st.shared.u32 [%at], %v; bar.sync 0;
ld.shared.u32 %v, [%at]; {more} setp.eq.u32 %q, %v, 0; @%q bra AGAIN; ret;
"""
STUCK = "every thread that has not exited waits for others"

FOREVER = {
    "told to the block": ROUND.format(more=""),
    "by way of one place for two things": ROUND.format(
        more="bar.sync 0; @%one ld.acquire.gpu.global.u32 %w, [%p+4]; @%one st.shared.u32 [%at], %w; bar.sync 0;"
        "ld.shared.u32 %w, [%at]; add.u32 %v, %v, %w; sub.u32 %v, %v, 7;"),
    "told to a warp in another place": "setp.ge.u32 %q, %t, 32; @%q bra M;"
        "L: bar.sync 0; ld.relaxed.gpu.global.u32 %v, [%p]; @%one st.shared.u32 [%at], %v; bar.sync 0;"
        "setp.eq.u32 %q, %v, 0; @%q bra L; ret;"
        "M: bar.sync 0; bar.sync 0; ld.shared.u32 %v, [%at]; setp.eq.u32 %q, %v, 0; @%q bra M; ret;",
    "with the same in local memory": ROUND.format(more="st.local.u32 [l], %v; ld.local.u32 %v, [l];"),
    "with a longer and longer pause": "mov.u32 %n, 8; L: nanosleep.u32 %n; shl.b32 %n, %n, 1; min.u32 %n, %n, 4096;"
        "ld.relaxed.gpu.global.u32 %v, [%p]; setp.eq.u32 %q, %v, 0; @%q bra L; ret;",
    "with a counter that wraps": "L: add.u32 %n, %n, 1; and.b32 %n, %n, 255;"
        "ld.volatile.global.u32 %v, [%p]; setp.eq.u32 %q, %v, 0; @%q bra L; ret;",
    "for a lock that one who waits for them holds": "@!%one bra L; st.release.gpu.global.u32 [%p], 1; bar.sync 0;"
        "L: atom.acquire.gpu.global.cas.b32 %v, [%p], 0, 1; setp.ne.u32 %q, %v, 0; @%q bra L; bar.sync 0; ret;",
    "in warps out of step": "shr.u32 %n, %t, 5; L: add.u32 %n, %n, 1; and.b32 %n, %n, 3;"
        "setp.eq.u32 %q, %n, 0; @%q bra L; ld.relaxed.gpu.global.u32 %v, [%p]; setp.eq.u32 %q, %v, 0; @%q bra L; ret;",
    "in clusters": "L: barrier.cluster.arrive; barrier.cluster.wait; ld.relaxed.gpu.global.u32 %v, [%p];"
        "setp.eq.u32 %q, %v, 0; @%q bra L; ret;",
    "and says what is there already": "L: st.relaxed.gpu.global.u32 [%p+4], 7; st.volatile.shared.u32 [%at], 0;"
        "ld.acquire.gpu.global.u32 %v, [%p]; setp.eq.u32 %q, %v, 0; @%q bra L; ret;",
    "and exchanges a number for itself": "L: atom.relaxed.gpu.global.exch.b32 %w, [%p+4], 7;"
        "red.relaxed.gpu.global.or.b32 [%p+4], 1; atom.relaxed.gpu.global.add.u32 %v, [%p], 0;"
        "setp.eq.u32 %q, %v, 0; @%q bra L; ret;",
    "and stores what it has found": "L: ld.relaxed.gpu.global.u32 %v, [%p]; st.release.gpu.global.u32 [%p], %v;"
        "setp.eq.u32 %q, %v, 0; @%q bra L; ret;",
    "beside one who tries to wait": "@!%one bra L; mbarrier.init.shared.b64 [%at], 1;"
        "W: mbarrier.try_wait.parity.shared.b64 %q, [%at], 0; @!%q bra W; ret;"
        "L: ld.relaxed.gpu.global.u32 %v, [%p]; setp.eq.u32 %q, %v, 0; @%q bra L; ret;",
}  # fmt: skip
SET = "st.release.gpu.global.u32 [%p], 1; ret;"
PAUSE = "P: add.u32 %n, %n, 1; and.b32 %n, %n, 15; setp.ne.u32 %q, %n, 0; @%q bra P;"
ASK = "ld.acquire.gpu.global.u32 %v, [%p]; setp.eq.u32 %q, %v, 0; @%q bra L; ret;"
FINITE = {
    "300 rounds that change a register": ROUND.format(
        more="add.u32 %n, %n, 1; setp.ge.u32 %q, %n, 300; selp.u32 %v, 1, 0, %q;"),
    "a long way to what is polled for":
        f"@%one bra W; L: {ASK} W: add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 400; @%q bra W; {SET}",
    "one that waits for a barrier of those that poll": f"@%one bra W; setp.eq.u32 %q, %t, 32; @%q bra W; L: {ASK}"
        f" W: bar.warp.sync 1; add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 400; @%q bra W; {SET}",
    "a counter in local memory": "st.local.u32 [l], 0; L: ld.local.u32 %n, [l]; add.u32 %n, %n, 1;"
        "st.local.u32 [l], %n; ld.volatile.global.u32 %v, [%p]; mov.u32 %w, %n; mov.u32 %n, 0;"
        "setp.lt.u32 %q, %w, 400; mov.u32 %w, 0; @%q bra L; ret;",
    "a counter in shared memory": "@!%one ret; L: ld.shared.u32 %w, [%at]; add.u32 %w, %w, 1; st.shared.u32 [%at], %w;"
    "ld.volatile.global.u32 %v, [%p]; setp.lt.u32 %q, %w, 400; mov.u32 %w, 0; @%q bra L; ret;",
    "a counter in global memory": "setp.ne.or.u32 %q, %b, 0, !%one; @%q ret; L: ld.global.u32 %w, [%p+4];"
    "add.u32 %w, %w, 1; st.global.u32 [%p+4], %w; ld.volatile.global.u32 %v, [%p];"
    "setp.lt.u32 %q, %w, 400; mov.u32 %w, 0; @%q bra L; ret;",
    "one who goes from barrier to barrier": f"setp.lt.u32 %q, %t, 32; @%q bra W; L: {PAUSE} bar.sync 1; {ASK}"
    f"W: {'bar.sync 1;' * 30} {SET}",
    "a barrier that fills up": f"setp.lt.u32 %q, %t, 32; @%q bra W; L: {PAUSE} bar.arrive 1, 1024; {ASK}"
    f"W: bar.sync 1, 1024; {SET}",
    "a counter that ends where it wraps": "L: add.u32 %n, %n, 1; and.b32 %n, %n, 511; ld.volatile.global.u32 %v, [%p];"
        "setp.ne.u32 %q, %n, 0; @%q bra L; ret;",
    "a time that is up": "L: ld.volatile.global.u32 %v, [%p]; mov.u64 %c, %globaltimer; shr.u64 %c, %c, 13;"
        "setp.eq.u64 %q, %c, 0; @%q bra L; ret;",
    "tries that end": f"@%one bra M; L: {ASK} M: mbarrier.init.shared.b64 [%at], 1;"
        "W: mbarrier.try_wait.parity.shared.b64 %q, [%at], 0, 1000; add.u32 %n, %n, 1; setp.lt.and.u32 %q, %n, 9, !%q;"
        f"@%q bra W; {SET}",
    "tries alone": "@!%one ret; mbarrier.init.shared.b64 [%at], 1; W: mbarrier.try_wait.parity.shared.b64 %q, [%at], 0;"
        "add.u32 %n, %n, 1; setp.lt.and.u32 %q, %n, 9, !%q; @%q bra W; ret;",
    "locks with pauses": "@!%one ret; mov.u32 %n, 8; L: nanosleep.u32 %n; shl.b32 %n, %n, 1; min.u32 %n, %n, 64;"
        "atom.acquire.gpu.global.cas.b32 %v, [%p], 0, 1; setp.ne.u32 %q, %v, 0; @%q bra L;"
        "W: add.u32 %m, %m, 1; setp.lt.u32 %q, %m, 300; @%q bra W; st.release.gpu.global.u32 [%p], 0; ret;",
    "turns": "@!%one ret; L: ld.acquire.gpu.global.u32 %v, [%p]; setp.ne.u32 %q, %v, %b; @%q bra L; mov.u32 %m, 0;"
        "W: add.u32 %m, %m, 1; setp.lt.u32 %q, %m, 150; @%q bra W; add.u32 %v, %b, 1; and.b32 %v, %v, 1;"
        "st.release.gpu.global.u32 [%p], %v; add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 3; @%q bra L; ret;",
    "a count that others reach": "setp.eq.u32 %q, %b, 1; @%q bra L; W: add.u32 %n, %n, 1;"
        "red.release.gpu.global.add.u32 [%p], 1; setp.lt.u32 %q, %n, 50; @%q bra W; ret;"
        "L: ld.acquire.gpu.global.u32 %v, [%p]; setp.lt.u32 %q, %v, 3200; @%q bra L; ret;",
}  # fmt: skip


def launch(body: str, seed: int) -> Counters:
    return run(HEAD + body, np.array([0, 7], np.uint32), block=64, grid=2, cluster=(2,) if "cluster" in body else None,
               options=Options(fuel=100_000, seed=seed))  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", FOREVER)
def test_polls_for_what_nobody_does(case: str, seed: int) -> None:
    with pytest.raises(BarrierError, match=STUCK):
        launch(FOREVER[case], seed)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", FINITE)
def test_what_comes_to_an_end(case: str, seed: int) -> None:
    """All 128 threads get to a `ret`, and within the budget."""
    counters = launch(FINITE[case], seed)
    assert counters.threads["control"] >= 128 and counters.issued < 100_000


@pytest.mark.parametrize(
    "body", ["L: bra L;", "L: ld.param.u64 %p, [a]; st.local.u32 [l], 1; ld.local.u32 %v, [l]; bra L;"]
)
def test_loops_that_ask_nothing_end_with_the_budget(body: str) -> None:
    with pytest.raises(OutOfFuelError):
        run(HEAD + body, np.zeros(2, np.uint32), options=Options(fuel=8_000))


BLINK = """bar.sync 0; setp.eq.u32 %q, %t, 32; @%q bra B; @!%one ret; bra A;
A: st.volatile.shared.u32 [%at], 1; bra C; C: st.volatile.shared.u32 [%at], 0; ld.volatile.global.u32 %v, [%p];
setp.eq.u32 %q, %v, 0; @%q bra A; ret;
B: ld.volatile.shared.u32 %v, [%at]; setp.eq.u32 %q, %v, 0; bra D; D: @%q bra B; st.volatile.global.u32 [%p], 1; ret;
"""


def signal(says: str) -> str:
    """Threads 0 and 1 say something in one instruction; thread 32 waits for what does not stay, and tells them."""
    return f"""bar.sync 0; setp.eq.u32 %q, %t, 32; @%q bra B; setp.gt.u32 %q, %t, 1; @%q ret; bra A;
A: {says} ld.volatile.global.u32 %v, [%p]; setp.eq.u32 %q, %v, 0; @%q bra A; ret;
B: ld.volatile.shared.u32 %v, [%at]; setp.eq.u32 %q, %v, 1; @%q bra B; st.volatile.global.u32 [%p], 1; ret;
"""


@pytest.mark.parametrize(
    "says",
    [
        "st.volatile.shared.u32 [%at], %t;",
        "atom.shared.exch.b32 %w, [%at], %t;",
        "setp.eq.u32 %q, %t, 0; selp.u32 %w, -1, 1, %q; red.shared.add.u32 [%at], %w;",
    ],
)
def test_a_signal_that_no_schedule_of_ours_shows_is_no_deadlock(says: str) -> None:
    """In the end all is as it was, but hardware may show what was there in between."""
    start = "setp.eq.u32 %q, %t, 32; @%q st.shared.u32 [%at], 1;" + signal(says)
    with pytest.raises(OutOfFuelError):
        run(f"{HEAD} bar.sync 0; {start}", np.zeros(2, np.uint32), block=64, options=Options(fuel=8_000))


def test_a_signal_that_one_schedule_never_shows_is_no_deadlock() -> None:
    """Step by step the second thread always looks when it is down."""
    with pytest.raises(OutOfFuelError):
        run(HEAD + BLINK, np.zeros(2, np.uint32), block=64, options=Options(fuel=8_000))
    run(HEAD + BLINK, np.zeros(2, np.uint32), block=64, options=Options(fuel=8_000, seed=1))
