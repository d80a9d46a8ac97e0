"""What messages tell is passed on by barriers, mbarriers and copies, and back, as far as each of them reaches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.programs import module_text
from tilewright.interpreter import Buffer, Options, load_ptx, run_ptx
from tilewright.interpreter.ptx import RaceError

SEEDS = (1, 2, 3)

HEAD = """.shared .align 16 .b8 s[16]; .shared .align 8 .b8 bar[8];
.reg .b32 %t, %i, %y, %b, %s; .reg .b64 %a, %state; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; ld.param.u64 %a, [a]; mov.u32 %b, bar; mov.u32 %s, s;
"""


def talk(body: str, blocks: int = 1, threads: int = 64, cluster: int = 1) -> str:
    """What is told of a body of which lane 0 of each warp runs; all but that have gone."""
    told = set()
    text = f"{HEAD} and.b32 %y, %t, 31; setp.ne.u32 %p, %y, 0; @%p exit; {body} ret;"
    for seed in SEEDS:
        buffers, options = [Buffer.of("a", np.zeros(16, np.uint32))], Options(seed=seed, fuel=100_000)
        try:
            run_ptx(load_ptx(module_text(text, "a")), "k", (blocks,), (threads,), buffers, options, cluster=(cluster,))
            told.add("")
        except RaceError as error:
            told.add(error.races[0].second.what + " " + error.races[0].why)
    assert len(told) == 1
    return told.pop()


INIT = "setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [%b], 1; bar.sync 0;"
WAIT = "L{}: mbarrier.try_wait.parity{}.shared::cta.b64 %q, [%b], 0; @!%q bra L{}; {}"
MEET = "barrier.cluster.arrive.{}; barrier.cluster.wait;"
TAKE = "T: ld.acquire.gpu.global.u32 %y, [%a+4]; setp.eq.u32 %q, %y, 0; @%q bra T;"
COUNT = "red.{}.global.add.u32 [%a+{}], 1;"


def poll(how: str, place: int) -> str:
    """Wait for something at a place of the array, by exchanges."""
    return f"P{place}: atom.{how}.global.add.u32 %y, [%a+{place}], 0; setp.eq.u32 %q, %y, 0; @%q bra P{place};"


def test_an_exchange_passes_on_what_it_acquires() -> None:
    """Thread 1 waits and sends by one instruction: what it learns in its block goes out to another."""
    body = """setp.eq.u32 %p, %i, 0; @!%p bra W; setp.ne.u32 %p, %t, 0; @%p bra NEXT;
    st.global.u32 [%a], 7; fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%a+4], 1; ret;
    NEXT: atom.acq_rel.gpu.global.cas.b32 %y, [%a+4], 1, 2; setp.ne.u32 %q, %y, 1; @%q bra NEXT; ret;
    W: ld.acquire.gpu.global.u32 %y, [%a+4]; setp.ne.u32 %q, %y, 2; @%q bra W; ld.global.u32 %y, [%a];"""
    assert talk(body, 2) == ""
    assert talk(body.replace("acq_rel.gpu", "release.gpu"), 2) == "load of 4 bytes not ordered with"


def test_an_mbarrier_passes_on_a_message() -> None:
    """Block 0 tells the first warp of block 1, which tells the second one by an mbarrier."""
    body = f"""{INIT} setp.eq.u32 %q, %i, 0; @%q bra GIVE; @!%p bra SECOND; {TAKE}
    mbarrier.arrive.shared::cta.b64 %state, [%b]; ret;
    SECOND: {WAIT.format(1, "", 1, "")} ld.global.u32 %y, [%a]; ret;
    GIVE: @!%p exit; st.global.u32 [%a], 7; st.release.gpu.global.u32 [%a+4], 1;"""
    assert talk(body, 2) == ""
    assert talk(body.replace("st.release", "st.relaxed"), 2) == "load of 4 bytes not ordered with"


def test_an_mbarrier_passes_on_no_message_that_did_not_reach() -> None:
    """Block 1 tells nobody but itself; a warp of block 0 of its cluster reads the flag all the same."""
    body = f"""{INIT} setp.eq.u32 %q, %i, 1; @%q bra GIVE; @!%p bra SECOND;
    T: atom.acquire.cta.global.add.u32 %y, [%a+4], 0; setp.eq.u32 %q, %y, 0; @%q bra T;
    mbarrier.arrive.shared::cta.b64 %state, [%b]; ret;
    SECOND: {WAIT.format(1, "", 1, "")} ld.global.u32 %y, [%a]; ret;
    GIVE: @!%p exit; st.global.u32 [%a], 7; red.release.cta.global.add.u32 [%a+4], 1;"""
    assert talk(body, 2, 64, 2) == "load of 4 bytes not ordered with"
    assert talk(body.replace(".cta.global", ".cluster.global"), 2, 64, 2) == ""


def test_a_named_barrier_passes_on_a_message() -> None:
    body = """.reg .b32 %t, %i, %y; .reg .b64 %a; .reg .pred %p, %q;
    mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; ld.param.u64 %a, [a]; setp.lt.u32 %p, %t, 32;
    setp.eq.u32 %q, %i, 0; @%q bra GIVE; @!%p bra SECOND;
    T: ld.acquire.gpu.global.u32 %y, [%a+4]; setp.eq.u32 %q, %y, 0; @%q bra T; bar.arrive 1, 64; ret;
    SECOND: bar.sync 1, 64; ld.global.u32 %y, [%a]; ret;
    GIVE: setp.ne.u32 %p, %t, 0; @%p exit; st.global.u32 [%a], 7; st.release.gpu.global.u32 [%a+4], 1; ret;"""
    for seed in SEEDS:
        text, buffers = module_text(body, "a"), [Buffer.of("a", np.zeros(16, np.uint32))]
        run_ptx(load_ptx(text), "k", (2,), (64,), buffers, Options(seed=seed))
        with pytest.raises(RaceError, match="not ordered with the"):
            run_ptx(load_ptx(text.replace("acquire", "relaxed")), "k", (2,), (64,), buffers, Options(seed=seed))


@pytest.mark.parametrize(
    ("arrives", "waits", "races"),
    [
        ("{0}.release.cta{1}", WAIT.format(1, "", 1, ""), False),
        ("{0}.release.cluster{1}", WAIT.format(1, ".acquire.cluster", 1, ""), False),
        ("{0}.relaxed.cluster{1}", WAIT.format(1, "", 1, ""), True),
        ("fence.acq_rel.cta; {0}.relaxed.cluster{1}", WAIT.format(1, "", 1, ""), False),
        ("fence.acq_rel.gpu; {0}.relaxed.cluster{1}", WAIT.format(1, "", 1, ""), False),
        ("{0}.release.cluster{1}", WAIT.format(1, ".relaxed.cluster", 1, ""), True),
        ("{0}.release.cluster{1}", WAIT.format(1, ".relaxed.cluster", 1, "fence.acq_rel.cta;"), False),
    ],
)
def test_mbarriers_and_fences(arrives: str, waits: str, races: bool) -> None:
    arrive = arrives.format("mbarrier.arrive", ".shared::cta.b64 %state, [%b];")
    body = f"{INIT} @!%p bra SECOND; st.global.u32 [%a], 7; {arrive} ret; SECOND: {waits} ld.global.u32 %y, [%a];"
    assert talk(body) == ("load of 4 bytes not ordered with" if races else "")


@pytest.mark.parametrize("warp", [0, 1])
@pytest.mark.parametrize("again", ["st.global.u32 [%a+16], 5;", "COPY cp.async.bulk.wait_group 0;"])
def test_any_thread_may_tell_what_engines_have_done(warp: int, again: str) -> None:
    """A warp has a copy read global memory, waits and tells block 1, which writes there, itself or by a copy."""
    copy = "cp.async.bulk.global.shared::cta.bulk_group [%a+16], [%s], 16; cp.async.bulk.commit_group;"
    body = f"""{INIT} setp.eq.u32 %q, %i, 1; @%q bra FAR; setp.ne.u32 %p, %t, {32 * warp}; @%p exit;
    mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%b], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%a+16], 16, [%b];
    {WAIT.format(1, "", 1, "")} st.release.gpu.global.u32 [%a+4], 1; ret;
    FAR: @!%p exit; st.shared.v4.u32 [%s], {{1, 1, 1, 1}}; fence.proxy.async.shared::cta;
    {TAKE} {again.replace("COPY", copy)}"""
    assert talk(body, 2) == ""
    assert talk(body.replace("st.release", "st.relaxed"), 2).endswith("not ordered with")


def test_who_only_counts_bytes_tells_nothing() -> None:
    body = f"""{INIT} @!%p bra SECOND; st.global.u32 [%a], 7; fence.acq_rel.cta;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 16;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16; {COUNT.format("relaxed.cta", 4)} ret;
    SECOND: {poll("relaxed.cta", 4)} mbarrier.arrive.relaxed.cluster.shared::cta.b64 %state, [%b];
    {WAIT.format(1, "", 1, "")} ld.global.u32 %y, [%a];"""
    assert talk(body) == "load of 4 bytes not ordered with"


ARRIVALS = (("", ()), *((f".release.{scope}", (scope,)) for scope in ("cta", "cluster")), (".relaxed.cluster", None))
WAITS = (("", ()), *((f".acquire.{scope}", (scope,)) for scope in ("cta", "cluster")), (".relaxed.cluster", None))
FENCED = [(f".relaxed.{scope}", (scope, fence)) for scope in ("cta", "cluster") for fence in ("cta", "cluster", "gpu")]
"""How to arrive or wait, and the scopes that must contain both threads: none named is wide; None for no order at all.
The second of two is that of a fence."""
Way = tuple[str, tuple[str, ...] | None]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("waits", [*WAITS, *FENCED])
@pytest.mark.parametrize("arrives", [*ARRIVALS, *FENCED])
def test_an_mbarrier_orders_whom_all_scopes_contain(arrives: Way, waits: Way, far: bool) -> None:
    """A thread of another block of the cluster (`far`) or of the same one arrives."""
    fences = [f"fence.acq_rel.{scopes[1]};" if scopes and len(scopes) > 1 else "" for _, scopes in (arrives, waits)]
    who, ends = ("%i", f"; {MEET.format('release')}") if far else ("%t", "")
    body = f"""{INIT} {MEET.format("release")} setp.eq.u32 %p, {who}, 0; @!%p bra SECOND; st.global.u32 [%a], 7;
    mapa.shared::cluster.u32 %b, %b, {int(far)}; {fences[0]} mbarrier.arrive{arrives[0]}.shared::cluster.b64 _, [%b];
    bra END; SECOND: {WAIT.format(1, waits[0], 1, fences[1])} ld.global.u32 %y, [%a]; END: {ends}"""
    ways = (arrives[1], waits[1])
    orders = all(scopes is not None and not (far and "cta" in scopes) for scopes in ways)
    assert talk(body, 2 if far else 1, 32 if far else 64, 2 if far else 1) == (
        "" if orders else "load of 4 bytes not ordered with"
    )


def test_what_an_arrival_passes_on_comes_from_as_far_as_it_heard() -> None:
    """Block 0 tells a warp of block 1, which arrives, with its block as the scope, where the other one waits."""
    body = f"""{INIT} {MEET.format("release")} setp.eq.u32 %q, %i, 0; @%q bra GIVE; @!%p bra SECOND;
    {poll("acquire.cluster", 4)} mbarrier.arrive.release.cta.shared::cta.b64 %state, [%b]; bra END;
    SECOND: {WAIT.format(1, ".acquire.cta", 1, "")} ld.global.u32 %y, [%a]; bra END;
    GIVE: @!%p bra END; st.global.u32 [%a], 7; {COUNT.format("release.cluster", 4)} END: {MEET.format("release")}"""
    assert talk(body, 2, 64, 2) == ""
    assert talk(body.replace("release.cluster.global", "release.cta.global"), 2, 64, 2) != ""


@pytest.mark.parametrize(
    ("arrives", "races"),
    [
        (MEET.format("release"), False),
        (MEET.format("relaxed"), True),
        ("fence.acq_rel.cluster;" + MEET.format("relaxed"), False),
        ("fence.mbarrier_init.release.cluster;" + MEET.format("relaxed"), False),
        ("fence.acq_rel.cta;" + MEET.format("relaxed"), True),
    ],
)
def test_cluster_barriers_and_fences(arrives: str, races: bool) -> None:
    body = f"""setp.eq.u32 %p, %i, 0; @!%p bra SECOND; st.global.u32 [%a], 7; {arrives} ret;
    SECOND: {MEET.format("release")} ld.global.u32 %y, [%a];"""
    assert talk(body, 2, 32, 2) == ("load of 4 bytes not ordered with" if races else "")


@pytest.mark.parametrize("scope", ["cta", "cluster", "gpu"])
def test_a_copy_reads_what_a_message_has_told_of(scope: str) -> None:
    """One warp writes shared memory and raises a flag for the other, which has a copy read it."""
    copy = "cp.async.bulk.global.shared::cta.bulk_group [%a+16], [%s], 16; cp.async.bulk.commit_group;"
    body = f"""setp.eq.u32 %p, %t, 0; @!%p bra SECOND; st.shared.v4.u32 [%s], {{%t, %t, %t, %t}};
    fence.proxy.async.shared::cta; st.release.{scope}.global.u32 [%a+4], 1; ret;
    SECOND: {TAKE.replace("gpu", scope)} {copy} cp.async.bulk.wait_group 0;"""
    assert talk(body) == ""
    assert talk(body.replace("st.release", "st.relaxed")) == "read of a bulk copy not ordered with"
    assert "no `fence.proxy.async`" in talk(body.replace("fence.proxy.async.shared::cta;", ""))


@pytest.mark.parametrize("scope", ["cta", "cluster"])
def test_what_an_mbarrier_told_goes_as_far_as_who_heard_it_tells(scope: str) -> None:
    """In block 0 warp 0 tells warp 1, which tells others; warp 2 comes later, knows nothing, and tells block 1."""
    body = f"""{INIT} setp.eq.u32 %q, %i, 1; @%q bra FAR; @%p bra FIRST; setp.eq.u32 %q, %t, 64; @%q bra THIRD;
    {WAIT.format(1, "", 1, "")} {COUNT.format("release." + scope, 4)} {COUNT.format("relaxed.gpu", 12)} ret;
    FIRST: st.global.u32 [%a], 7; mbarrier.arrive.shared::cta.b64 %state, [%b]; ret;
    THIRD: {poll("relaxed.gpu", 12)} {COUNT.format("release.cluster", 8)} ret;
    FAR: @!%p exit; {poll("acquire.cluster", 8)} {poll("acquire." + scope, 4)} ld.global.u32 %y, [%a];"""
    assert talk(body, 2, 96, 2) == ("load of 4 bytes not ordered with" if scope == "cta" else "")


@pytest.mark.parametrize(
    ("tells", "passes_on", "hears", "races"),
    [
        (COUNT.format("release.cluster", 4), "", poll("acquire.cluster", 4), False),
        (COUNT.format("release.cta", 4), "", poll("acquire.cluster", 4), True),
        (COUNT.format("release.cluster", 4), "", poll("relaxed.cluster", 4) + "fence.acq_rel.cluster;", False),
        (COUNT.format("release.cluster", 8) + COUNT.format("relaxed.cluster", 4), "",
         poll("relaxed.cluster", 4) + "fence.acq_rel.cluster;", True),
        (COUNT.format("release.cta", 4), poll("relaxed.cta", 4) + COUNT.format("release.cluster", 8),
         poll("acquire.cluster", 8), True),
        (COUNT.format("release.cta", 4),
         poll("relaxed.cta", 4) + "fence.acq_rel.cluster;" + COUNT.format("relaxed.cluster", 8),
         poll("acquire.cluster", 8), False),
    ],
)  # fmt: skip
def test_what_a_copy_brought_is_told_as_far_as_messages_reach(
    tells: str, passes_on: str, hears: str, races: bool
) -> None:
    """A warp of block 0 waits for a copy and tells; a second one may pass that on; block 1 reads what was copied."""
    body = f"""{INIT} setp.eq.u32 %q, %i, 1; @%q bra FAR; @!%p bra SECOND;
    mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%b], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%a+16], 16, [%b];
    {WAIT.format(1, "", 1, "")} {tells} {MEET.format("release")} ret;
    SECOND: {passes_on} {MEET.format("release")} ret;
    FAR: @!%p bra LAST; {hears} mapa.shared::cluster.u32 %s, %s, 0; ld.shared::cluster.u32 %y, [%s];
    LAST: {MEET.format("release")}"""
    assert talk(body, 2, 64, 2) == ("load of 4 bytes not ordered with" if races else "")
