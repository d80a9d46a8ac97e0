"""Litmus tests as data: what mbarriers count, what they order, copies that signal them, and the classic ones of fences.

A body is run some times by each block or cluster and leaves a few words, its outcome. Nothing in it waits for ever: who
gives up says so in one word more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

Words = tuple[int, ...]

LOCATION = 512
"""Bytes of global memory that each run of a body has, zeros at first."""


@dataclass(frozen=True, slots=True)
class Litmus:
    """A test. kind: what it is listed under. count: of the mbarrier that lasts, 0 for none. words: of an outcome.

    allowed: the outcomes that PTX's memory model allows; empty where the emulator's are all that there should be.
    runs: how often a block runs the body on a GPU.
    """

    kind: str
    name: str
    body: str
    words: int
    threads: int = 32
    blocks: int = 1
    count: int = 0
    allowed: frozenset[Words] = frozenset()
    runs: int = 4


def kernel_text(test: Litmus, target: str, runs: int) -> str:
    """A module with the entry `k(a, b)`: a holds the locations, b gets the outcomes with a word more, [groups, runs].

    In a body: thread %t, whether it is the first (%p), rank %r of the block, run %k and its parity %h; global memory
    at %a, the outcome at %o; shared memory at %s and an mbarrier at %b, the other block's at %fs and %fb.
    """
    cluster = test.blocks > 1
    meet = "barrier.cluster.arrive; barrier.cluster.wait;" if cluster else "barrier.sync 0;"
    init = f"@%p mbarrier.init.shared::cta.b64 [%b], {test.count};" if test.count else ""
    far = "xor.b32 %x, %r, 1; mapa.shared::cluster.u32 %fs, %s, %x; mapa.shared::cluster.u32 %fb, %b, %x;"
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
.reqntid {test.threads}, 1, 1 {f".reqnctapercluster {test.blocks}, 1, 1" if cluster else ""}
{{
.shared .align 128 .b8 s[1024]; .shared .align 8 .b8 bars[64];
.reg .b16 %mask; .reg .b32 %t, %w, %r, %k, %h, %n, %x, %y, %z, %i, %late, %s, %b, %fs, %fb;
.reg .b64 %a, %o, %g, %st, %st2; .reg .pred %p, %q, %e;
mov.u32 %t, %tid.x; mov.u32 %w, %ctaid.x; mov.u32 %s, s; mov.u32 %b, bars; setp.eq.u32 %p, %t, 0;
{f"mov.u32 %r, %cluster_ctarank; shr.u32 %w, %w, {test.blocks // 2}; {far}" if cluster else "mov.u32 %r, 0;"}
{init} fence.mbarrier_init.release.cluster; fence.proxy.async; {meet}
ld.param.u64 %a, [a]; ld.param.u64 %o, [b];
mad.wide.u32 %a, %w, {LOCATION * runs}, %a; mad.wide.u32 %o, %w, {4 * (test.words + 1) * runs}, %o;
mov.u32 %k, 0;
RUN: and.b32 %h, %k, 1; mov.u32 %late, 0;
{test.body}
setp.ne.u32 %q, %late, 0; @%q st.relaxed.gpu.global.u32 [%o+{4 * test.words}], 1;
{meet}
add.u64 %a, %a, {LOCATION}; add.u64 %o, %o, {4 * (test.words + 1)};
add.u32 %k, %k, 1; setp.lt.u32 %q, %k, {runs}; @%q bra RUN;
ret;
}}
"""


# --- pieces of bodies ---


def _wait(label: str, form: str = "", parity: str = "%h") -> str:
    """Try to wait, for a while."""
    return (
        f"mov.u32 %n, 0; {label}: mbarrier.try_wait.parity{form}.shared::cta.b64 %q, [%b], {parity}, 1000;"
        f"@%q bra {label}_DONE; add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 20000; @%q bra {label}; mov.u32 %late, 1;"
        f"{label}_DONE:"
    )


def _put(at: int, value: str = "%x") -> str:
    return f"st.global.u32 [%o+{4 * at}], {value};"


def _flag(at: int) -> str:
    """A predicate into the outcome."""
    return f"selp.u32 %x, 1, 0, %q; {_put(at)}"


def _test(at: int, parity: int) -> str:
    return f"mbarrier.test_wait.parity.shared::cta.b64 %q, [%b], {parity}; {_flag(at)}"


def _count(at: int, state: str = "%st") -> str:
    return f"mbarrier.pending_count.b64 %x, {state}; {_put(at)}"


def _init(count: int) -> str:
    return f"mbarrier.init.shared::cta.b64 [%b], {count};"


_ARRIVE = "mbarrier.arrive.shared::cta.b64 %st, [%b];"
_INVAL = "mbarrier.inval.shared::cta.b64 [%b];"


def _bytes(op: str, nbytes: int) -> str:
    return f"mbarrier.{op}_tx.relaxed.cta.shared::cta.b64 [%b], {nbytes};"


def _expect(nbytes: int) -> str:
    return f"mbarrier.arrive.expect_tx.shared::cta.b64 %st, [%b], {nbytes};"


# --- counts ---


_MORE = "mbarrier.arrive.shared::cta.b64 %st, [%b], "
_STATE = "mbarrier.test_wait.shared::cta.b64 %q, [%b], "
_PARTIAL = "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %st, [%b], 1;"
_DROP = "mbarrier.arrive_drop.shared::cta.b64 %st, [%b];"
_COUNTS: dict[str, tuple[str, int]] = {
    "pending counts and states": (
        f"{_init(4)} {_ARRIVE} {_count(0)} {_MORE} 2; {_count(1)} {_STATE} %st; {_flag(2)} {_ARRIVE} {_count(3)}"
        f"{_STATE} %st; {_flag(4)} {_ARRIVE} {_count(5)} {_STATE} %st; {_flag(6)}", 7),
    "parities of three phases": (
        _init(1) + "".join(f"{_test(2 * n, 0)} {_test(2 * n + 1, 1)} {_ARRIVE}" for n in range(3)), 6),
    "bytes hold a phase back": (
        f"{_init(1)} {_expect(48)} {_test(0, 0)} {_bytes('expect', 16)} {_bytes('complete', 32)} {_test(1, 0)}"
        f"{_bytes('complete', 32)} {_test(2, 0)}", 3),
    "bytes come before they are expected": (
        f"{_init(1)} {_bytes('complete', 16)} {_test(0, 0)} {_expect(16)} {_test(1, 0)} {_ARRIVE} {_count(2)}", 3),
    "bytes complete a phase": (
        f"{_init(2)} {_bytes('expect', 32)} {_ARRIVE} {_ARRIVE} {_test(0, 0)} {_bytes('complete', 16)}"
        f"{_test(1, 0)} {_bytes('complete', 16)} {_test(2, 0)} {_ARRIVE} {_count(3)}", 4),
    "bytes without an arrival": (
        f"{_init(1)} {_bytes('expect', 16)} {_bytes('complete', 16)} {_test(0, 0)} {_ARRIVE} {_test(1, 0)}", 2),
    "arrivals that do not complete": (
        f"{_init(3)} {_PARTIAL} {_count(0)} {_PARTIAL} {_count(1)} {_test(2, 0)} {_ARRIVE} {_count(3)} {_test(4, 0)}",
        5),
    "dropping out": (
        f"{_init(3)} {_DROP} {_count(0)} {_ARRIVE} {_ARRIVE} {_test(1, 0)} {_ARRIVE} {_count(2)} {_test(3, 1)}"
        f"{_ARRIVE} {_count(4)} {_test(5, 1)}", 6),
    "dropping out with bytes": (
        f"{_init(2)} mbarrier.arrive_drop.expect_tx.shared::cta.b64 %st, [%b], 16; {_count(0)} {_ARRIVE}"
        f"{_test(1, 0)} {_bytes('complete', 16)} {_test(2, 0)} {_ARRIVE} {_count(3)} {_test(4, 1)}", 5),
    "dropping out without completing": (
        f"{_init(3)} {_PARTIAL.replace('arrive', 'arrive_drop')} {_count(0)} {_MORE} 2; {_test(1, 0)} {_ARRIVE}"
        f"{_count(2)} {_ARRIVE} {_test(3, 1)}", 4),
    "made again": (
        f"{_init(1)} {_ARRIVE} {_INVAL} {_init(5)} {_ARRIVE} {_count(0)} {_test(1, 0)} {_test(2, 1)}", 3),
    "the most arrivals": (
        f"{_init(1048575)} {_ARRIVE} {_count(0)} {_MORE} 1048573; {_count(1)} {_test(2, 0)} {_ARRIVE} {_test(3, 0)}"
        f"{_ARRIVE} {_count(4)}", 5),
    "the most bytes": (
        f"{_init(1)} {_expect(1048575)} {_bytes('complete', 1048560)} {_test(0, 0)} {_bytes('complete', 15)}"
        f"{_test(1, 0)}", 2),
    "states of two phases": (
        f"{_init(1)} {_ARRIVE} {_STATE} %st; {_flag(0)} mbarrier.arrive.shared::cta.b64 %st2, [%b]; {_STATE} %st2;"
        f"{_flag(1)} {_test(2, 0)}", 3),
    "relaxed arrivals and waits": (
        f"{_init(2)} mbarrier.arrive.relaxed.cta.shared::cta.b64 %st, [%b]; {_count(0)}"
        f"mbarrier.test_wait.relaxed.cta.shared::cta.b64 %q, [%b], %st; {_flag(1)} {_ARRIVE}"
        f"mbarrier.try_wait.relaxed.cta.shared::cta.b64 %q, [%b], %st; {_flag(2)}", 3),
    "a wait whose time is up": (
        f"{_init(1)} mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0, 1000; {_flag(0)}", 1),
    "a wait for the phase before": (
        f"{_init(1)} mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 1; {_flag(0)}", 1),
    "memory again afterwards": (
        f"{_init(1)} {_INVAL} st.shared.u32 [%b], 7; ld.shared.u32 %x, [%b]; {_put(0)} {_init(1)}", 1),
}  # fmt: skip
"""What one thread does, and how many words it leaves."""


def _counts() -> Iterator[Litmus]:
    for name, (body, words) in _COUNTS.items():
        yield Litmus("counts", name, f"@!%p bra SKIP; {body} {_INVAL} SKIP:", words)
    lanes = f"@%p {_init(32)} barrier.sync 0; {_ARRIVE} {_STATE} %st; barrier.sync 0; {_STATE} %st;"
    lanes += "selp.u32 %x, 1, 0, %q; vote.sync.ballot.b32 %x, %q, 0xffffffff;"
    lanes += "mbarrier.pending_count.b64 %y, %st; redux.sync.add.u32 %y, %y, 0xffffffff;"
    lanes += f"barrier.sync 0; @!%p bra SKIP; {_put(0)}"
    yield Litmus("counts", "all lanes of a warp", f"{lanes} {_put(1, '%y')} {_INVAL} SKIP:", 2)


_TO_ONE, _THEN = "@!%p bra SKIP; setp.eq.u32 %q, %r, 1; @%q bra ONE;", "bra SKIP; ONE:"
"""Between them stands what the first thread of rank 0 does, behind them what that of rank 1 does."""


def _remote() -> Iterator[Litmus]:
    """A cluster of two blocks: the block of rank 0 does something to the other one's mbarrier."""
    mine = "mbarrier.arrive.release.cluster.shared::cta.b64 %st, [%b];"
    theirs = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%fb]"
    wait = _wait("W", ".acquire.cluster")
    both = f"@!%p bra SKIP; {mine} {theirs}; {wait}"
    yield Litmus("remote", "arrivals", f"{both} shl.b32 %x, %r, 2; cvt.u64.u32 %g, %x; add.u64 %g, %g, %o;"
                 "st.global.u32 [%g], 1; SKIP:", 2, blocks=2, count=2)  # fmt: skip
    for name, count, far, near in (
        ("arrivals by number", 4, f"{theirs}, 3;", mine),
        ("expected bytes", 1, "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%fb], 16;"
         "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%fb], 16;", ""),
        ("bytes of two kinds", 1, "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%fb], 32;"
         f"mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%fb], 32; {theirs};", ""),
        ("the default scope", 1, "mbarrier.arrive.shared::cluster.b64 _, [%fb];", ""),
    ):  # fmt: skip
        yield Litmus("remote", name, f"{_TO_ONE} {far} {_THEN} {near} {wait} {_put(0, '1')} SKIP:", 1, 32, 2, count)
    drop = "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%fb];"
    both = f"{_TO_ONE} setp.ne.u32 %q, %k, 0; @!%q {drop} {_THEN}"
    yield Litmus("remote", "dropping out", f"{both} {mine} {wait} {_count(0)} SKIP:", 1, 32, 2, 2)


def _sent() -> Iterator[Litmus]:
    """The block of rank 0 sends something to the other one, whose mbarrier counts the bytes; or to both."""
    signal, wait = "mbarrier::complete_tx::bytes", _wait("W", ".acquire.cluster")
    for name, nbytes, before, send in (
        ("st.async", 8, "", f"st.async.weak.shared::cluster.{signal}.v2.u32 [%fs], {{%k, 5}}, [%fb];"),
        ("red.async", 4, "", f"red.async.relaxed.cluster.shared::cluster.{signal}.add.u32 [%fs], 7, [%fb];"),
        ("a bulk copy", 64, "st.shared.u32 [%s+64], %k; fence.proxy.async;",
         f"cp.async.bulk.shared::cluster.shared::cta.{signal} [%fs], [%s+64], 64, [%fb];"),
    ):  # fmt: skip
        first = "add.u32 %x, %s, 64; mov.u32 %i, 0; Z: st.shared.u32 [%x], 0; add.u32 %x, %x, 4; add.u32 %i, %i, 1;"
        first += "setp.lt.u32 %q, %i, 16; @%q bra Z; st.shared.u32 [%s], 0; fence.proxy.async;"
        ready = "barrier.cluster.arrive; barrier.cluster.wait;"
        one = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {nbytes}; {wait} ld.shared.u32 %x, [%s]; {_put(0)}"
        body = f"@%p bra FILL; bra FILLED; FILL: {first} FILLED: {ready} {_TO_ONE} {before} {send} {_THEN} {one} SKIP:"
        yield Litmus("remote", name, body, 1, 32, 2, 1)
    cast = f"cp.async.bulk.shared::cluster.global.{signal}.multicast::cluster [%s], [%a], 64, [%b], %mask;"
    body = f"""@!%p bra HERE; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 64; setp.ne.u32 %q, %r, 0;
    @%q bra HERE; st.global.u32 [%a+60], 41; fence.proxy.async; mov.b16 %mask, 3; {cast}
    HERE: @!%p bra SKIP; {wait}
    ld.shared.u32 %y, [%s+60]; shl.b32 %x, %r, 2; cvt.u64.u32 %g, %x; add.u64 %g, %g, %o; st.global.u32 [%g], %y;
    SKIP: """
    yield Litmus("remote", "a multicast copy", body, 2, 32, 2, 1)


# --- what mbarriers order ---

_SIDES = "setp.eq.u32 %q, %t, 32; @%q bra READ; @!%p bra SKIP;"
"""Thread 0 goes on, thread 32 to READ."""
_VALUE = "add.u32 %z, %k, 1;"
_SAME = "setp.eq.u32 %q, %x, %z;"
EITHER = frozenset({(0,), (1,)})


def _messages() -> Iterator[Litmus]:
    """A value passed from one thread to another: 1 if it is found, 0 if the old one is."""
    send, plain = "mbarrier.arrive{}.shared::cta.b64 _, [%b];", _wait("W")
    shared = ("st.shared.u32 [%s+64], %z;", "ld.shared.u32 %x, [%s+64];")
    globally = ("st.global.u32 [%a], %z;", "ld.global.u32 %x, [%a];")
    strong = ("st.relaxed.cta.global.u32 [%a], %z;", "ld.relaxed.cta.global.u32 %x, [%a];")
    loose = ".relaxed.cta"
    for name, (store, load), arrive, wait, allowed in (
        ("shared memory", shared, "", plain, frozenset[Words]()),
        ("global memory", globally, "", plain, frozenset[Words]()),
        ("a relaxed arrival", shared, loose, plain, EITHER),
        ("a relaxed wait", shared, "", _wait("W", loose), EITHER),
        ("no wait", globally, "", "", EITHER),
        ("strong accesses, all relaxed", strong, loose, _wait("W", loose), EITHER),
    ):
        body = f"{_VALUE} {_SIDES} {store} {send.format(arrive)} bra SKIP; READ: {wait} {load} {_SAME} {_flag(0)} SKIP:"
        yield Litmus("messages", name, body, 1, 64, 1, 1, allowed, runs=64)
    sides = "setp.eq.u32 %q, %r, 1; @!%p bra SKIP; @%q bra READ;"
    far = ("st.shared::cluster.u32 [%fs+64], %z;", "ld.shared.u32 %x, [%s+64];")
    remote = "mbarrier.arrive{}.shared::cluster.b64 _, [%fb];"
    for name, (store, load), arrive, wait in (
        ("into another block", far, ".release.cluster", ".acquire.cluster"),
        ("between blocks, through global memory", globally, ".release.cluster", ".acquire.cluster"),
        ("into another block, by the default scope", far, "", ""),
    ):
        body = f"{_VALUE} {sides} {store} {remote.format(arrive)} bra SKIP; READ: {_wait('W', wait)} {load} {_SAME}"
        yield Litmus("messages", name, f"{body} {_flag(0)} SKIP:", 1, 32, 2, 1, runs=64)


def _copies() -> Iterator[Litmus]:
    """Copies between what threads write and read, with the proxy fences that they need, and without."""
    into = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%a], 64, [%b];"
    out = "cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 64; cp.async.bulk.commit_group;"
    fence, own = "fence.proxy.async;", f"@!%p bra SKIP; {_VALUE}"
    fill = "st.shared.v4.u32 [%s], {%z, %z, %z, %z}; st.shared.v4.u32 [%s+16], {%z, %z, %z, %z};"
    fill += fill.replace("%s+16", "%s+48").replace("[%s]", "[%s+32]")
    take, end = f"ld.global.u32 %x, [%a+60]; {_SAME} {_flag(0)}", "SKIP:"
    load = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 64; {into} {_wait('W')} ld.shared.u32 %x, [%s+60];"
    gone = "cp.async.bulk.wait_group 0;"
    zero = "st.shared.v4.u32 [%s+48], {%n, %n, %n, %n};"
    for name, body, allowed in (
        ("a load of what was just written", f"st.global.u32 [%a+60], %z; {fence} {load} {_SAME} {_flag(0)}", None),
        ("such a load without a proxy fence", f"st.global.u32 [%a+60], %z; {load} {_SAME} {_flag(0)}", EITHER),
        ("a store of what was just written", f"{fill} {fence} {out} {gone} {take}", None),
        ("such a store without a proxy fence", f"{fill} {out} {gone} {take}", EITHER),
        ("written again once it has been read", f"{fill} {fence} {out} cp.async.bulk.wait_group.read 0; mov.u32 %n, 0;"
         f"{zero} {gone} {take}", None),
        ("written again before it has been read", f"{fill} {fence} {out} mov.u32 %n, 0; {zero} {gone} {take}", EITHER),
    ):  # fmt: skip
        yield Litmus("copies", name, f"{own} {body} {end}", 1, 32, 1, 1, allowed or frozenset(), runs=16)
    for noinc in (".noinc", ""):
        mine = "" if noinc else "mbarrier.arrive.shared::cta.b64 _, [%b];"
        body = f"""{_VALUE} shl.b32 %x, %t, 2; cvt.u64.u32 %g, %x; add.u64 %g, %g, %a; add.u32 %y, %s, %x;
        add.u32 %i, %z, %t; st.global.u32 [%g], %i; cp.async.ca.shared.global [%y], [%g], 4;
        cp.async.mbarrier.arrive{noinc}.shared::cta.b64 [%b]; {mine} {_wait("W")}
        xor.b32 %x, %x, 124; add.u32 %y, %s, %x; ld.shared.u32 %x, [%y]; xor.b32 %i, %t, 31; add.u32 %i, %i, %z;
        setp.eq.u32 %q, %x, %i; vote.sync.ballot.b32 %x, %q, 0xffffffff; @!%p bra SKIP; {_put(0)} SKIP:"""
        yield Litmus("copies", f"cp.async.mbarrier.arrive{noinc}", body, 1, 32, 1, 32, runs=16)


# --- the classic ones ---

ALL = frozenset(product((0, 1), repeat=2))
_DELAY = """selp.u32 %y, 20, 0, %e; mad.lo.u32 %n, %k, %y, %y; mad.lo.u32 %n, %k, 11, %n; mad.lo.u32 %n, %w, 3, %n;
and.b32 %n, %n, 31; DELAY: setp.eq.u32 %q, %n, 0; @%q bra GO; sub.u32 %n, %n, 1; bra DELAY; GO:"""
"""Some turns of a loop, so that now the one and now the other thread (%e) is the first."""


def _classics() -> Iterator[Litmus]:
    """Two threads of a block, or of two blocks. Outcomes are what is read, in the order of the program."""
    for scope, blocks, threads in (("cta", 1, 64), ("cluster", 2, 32), ("gpu", 2, 32), ("cta", 2, 32)):
        role = "setp.ge.u32 %e, %t, 32; and.b32 %x, %t, 31; setp.ne.u32 %q, %x, 0; @%q bra SKIP;"
        role = role if blocks == 1 else "setp.ne.u32 %e, %r, 0; @!%p bra SKIP;"
        reaches = scope != "cta" or blocks == 1
        for name, one, two, without in _shapes(scope):
            body = f"{role} {_DELAY} @%e bra TWO; {one} bra SKIP; TWO: {two} SKIP:"
            name += f", {scope}" + ("" if reaches else ", between blocks")
            allowed = ALL - without if reaches else ALL
            yield Litmus("classics", name, body, 2, threads, blocks, 0, allowed, runs=64)


def _shapes(scope: str) -> Iterator[tuple[str, str, str, frozenset[Words]]]:
    """Each test of a scope: its name, what both threads do with the places x and y, what must not come out."""
    x, y, none = "[%a]", "[%a+256]", frozenset[Words]()
    strong, second = f".{scope}.global.u32", f"{_put(0)} {_put(1, '%y')}"
    for how, store, load, fence in (
        ("relaxed", "relaxed", "relaxed", ""), ("release, acquire", "release", "acquire", ""),
        ("fence.acq_rel", "relaxed", "relaxed", f"fence.acq_rel.{scope};"),
        ("fence.sc", "relaxed", "relaxed", f"fence.sc.{scope};"), ("weak", "weak", "weak", ""),
    ):  # fmt: skip
        kind = ".global.u32" if how == "weak" else strong
        loose = "weak" if how == "weak" else "relaxed"
        st, ld, st_loose, ld_loose = f"st.{store}{kind}", f"ld.{load}{kind}", f"st.{loose}{kind}", f"ld.{loose}{kind}"
        one, two = (f"{fence} {label}:" for label in ("ONE", "ALSO"))  # others may run at a label
        ordered = how not in ("relaxed", "weak")
        yield (
            f"MP {how}", f"{st_loose} {x}, 1; {one} {st} {y}, 1;", f"{ld} %x, {y}; {two} {ld_loose} %y, {x}; {second}",
            frozenset({(1, 0)}) if ordered else none,
        )  # fmt: skip
        yield (
            f"SB {how}", f"{st} {x}, 1; {one} {ld} %x, {y}; {_put(0)}", f"{st} {y}, 1; {two} {ld} %x, {x}; {_put(1)}",
            frozenset({(0, 0)}) if how == "fence.sc" else none,
        )  # fmt: skip
        yield (
            f"LB {how}", f"{ld} %x, {x}; {one} {st} {y}, 1; {_put(0)}", f"{ld} %x, {y}; {two} {st} {x}, 1; {_put(1)}",
            frozenset({(1, 1)}) if ordered else none,
        )  # fmt: skip
    read, add = f"ld.relaxed{strong}", f"atom.relaxed.{scope}.global.add.u32 %x, {x}, 1;"
    twice = f"{read} %x, {x}; ALSO: {read} %y, {x}; {second}"
    yield "one place read twice", f"st.relaxed{strong} {x}, 1;", twice, frozenset({(1, 0)})
    yield "two atomics", f"{add} {_put(0)}", f"{add} {_put(1)}", frozenset({(0, 0), (1, 1)})


TESTS: tuple[Litmus, ...] = (*_counts(), *_remote(), *_sent(), *_messages(), *_copies(), *_classics())
"""All litmus tests."""
