"""Clusters: who is where, shared memory of other blocks, barriers, multicast; and registers that move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.interpreter.ptx.programs import HEADER, Array, aligned
from tilewright.compiler import assemble
from tilewright.interpreter import Buffer, InterpreterError, LaunchError, Options, load_ptx, run_ptx
from tilewright.interpreter.ptx import BarrierError, PtxError, RaceError, encode_tensor_map

SETUP = """
.shared .align 128 .b8 s[1024]; .shared .align 8 .b8 bars[16];
.reg .b16 %h; .reg .b32 %t, %r, %n, %x, %y, %i, %s, %s1, %b, %far; .reg .b64 %a, %o, %g, %m; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %r, %cluster_ctarank; mov.u32 %n, %cluster_nctarank; mov.u32 %i, %ctaid.x;
mad.lo.u32 %i, %i, 32, %t; ld.param.u64 %a, [a]; mul.wide.u32 %o, %i, 4; add.u64 %o, %a, %o;
mov.u32 %s, s; mov.u32 %b, bars; shl.b32 %x, %t, 2; add.u32 %s1, %s, %x; setp.eq.u32 %p, %t, 0;
"""
"""Thread t of 32: its word of shared memory at %s1, of the array `a` at %o; %r is the rank of the block of %n."""

MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
NEXT = "add.u32 %x, %r, 1; rem.u32 %x, %x, %n; mapa.shared::cluster.u32 %far, %s1, %x;"
"""%far: the thread's word in the next block of the cluster."""


def text(body: str, attributes: str = ".reqnctapercluster 2, 1, 1", parameters: str = "") -> str:
    return f"{HEADER}.visible .entry k(.param .u64 a{parameters})\n{attributes} {{\n{SETUP}\n{body}\nret; }}\n"


def result(
    body: str, blocks: int = 4, seed: int = 0, cluster: Sequence[int] | None = (2,), attributes: str = "",
    checks: bool = True, chunk: int = 1 << 21,
) -> Array:  # fmt: skip
    """What a body leaves in `a`: [blocks, 32]."""
    out = np.zeros((blocks, 32), np.uint32)
    options = Options(seed=seed, chunk_bytes=chunk)
    run_ptx(load_ptx(text(body, attributes)), "k", (blocks,), (32,), [Buffer.of("a", out)], options, checks=checks,
            cluster=cluster)  # fmt: skip
    return out


def error(body: str, **given: Any) -> str:
    with pytest.raises(InterpreterError) as caught:
        result(body, **given)
    return str(caught.value)


RING = f"""mad.lo.u32 %y, %r, 100, %t; st.shared.u32 [%s1], %y; {MEET} {NEXT} ld.shared::cluster.u32 %y, [%far];
st.global.u32 [%o], %y; {MEET}"""


@pytest.mark.parametrize("chunk", [1 << 21, 1])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1, 2, 4])
def test_shared_memory_of_another_block(size: int, seed: int, chunk: int) -> None:
    found = result(RING, 8, seed, (size,), chunk=chunk)
    rank = (np.arange(8) % size + 1) % size
    assert np.array_equal(found, 100 * rank[:, None] + np.arange(32))
    assert assemble("k", text(RING), "sm_90a").cubin


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (MEET + " add", " add", "not ordered with the store of 4 bytes"),
        ("arrive.aligned", "arrive.relaxed.aligned", "not ordered with the store of 4 bytes"),
        ("barrier.cluster.wait.aligned;", "", "not ordered with the store of 4 bytes"),
        ("barrier.cluster.arrive.aligned;", "", "without `barrier.cluster.arrive`"),
        ("ld.shared::cluster", "ld.shared::cta", "which is in no block that it may touch"),
    ],
)
def test_what_goes_wrong_between_blocks(old: str, new: str, what: str) -> None:
    assert old in RING and what in error(RING.replace(old, new))


def test_a_block_must_not_end_before_others_are_done_with_its_memory() -> None:
    early = RING.removesuffix(MEET)
    assert early != RING and "end of the block at shared address 0x0" in error(early)
    assert "twice without `barrier.cluster.wait`" in error("barrier.cluster.arrive; barrier.cluster.arrive;")


def test_a_block_that_has_ended_has_no_memory() -> None:
    ended = "setp.eq.u32 %q, %r, 1; @%q exit; mov.u32 %x, 0; L: add.u32 %x, %x, 1; setp.lt.u32 %q, %x, 99; @%q bra L;"
    body = f"st.shared.u32 [%s1], %t; {MEET} {ended} {NEXT} ld.shared::cluster.u32 %y, [%far];"
    assert "in a block that has ended" in error(body)


def test_generic_addresses_and_ranks() -> None:
    body = f"""st.shared.u32 [%s1], %t; {MEET} cvt.u64.u32 %g, %s1; cvta.shared.u64 %g, %g; xor.b32 %x, %r, 1;
    mapa.u64 %m, %g, %x; st.u32 [%m], %i; getctarank.u64 %x, %m; isspacep.shared::cluster %q, %m;
    selp.u32 %y, 10, 0, %q;
    isspacep.shared::cta %q, %m; selp.u32 %n, 100, 0, %q; add.u32 %x, %x, %y; add.u32 %x, %x, %n;
    isspacep.shared::cta %q, %g; selp.u32 %n, 1000, 0, %q; add.u32 %x, %x, %n;
    {MEET} ld.shared.u32 %y, [%s1]; mad.lo.u32 %y, %y, 10000, %x; st.global.u32 [%o], %y;"""
    rank = np.arange(4) % 2 ^ 1
    other = (np.arange(4) ^ 1)[:, None] * 32 + np.arange(32)
    assert np.array_equal(result(body), other * 10_000 + (1010 + rank)[:, None])
    assert assemble("k", text(body), "sm_90a").cubin


def test_atomics_on_another_block() -> None:
    body = f"""st.shared.u32 [%s1], 0; {MEET} mapa.shared::cluster.u32 %far, %s, 0;
    atom.relaxed.cluster.shared::cluster.add.u32 %y, [%far], 1; red.shared::cluster.add.u32 [%far+4], 2;
    {MEET} ld.shared.u32 %y, [%s1]; st.global.u32 [%o], %y;"""
    assert result(body)[:, :2].tolist() == [[64, 128], [0, 0]] * 2


def test_who_is_where() -> None:
    """A grid of 4 by 6 blocks in clusters of 2 by 3."""
    names = ("cluster_ctaid.x", "cluster_ctaid.y", "cluster_nctaid.x", "cluster_nctaid.y", "clusterid.x", "clusterid.y",
             "nclusterid.x", "nclusterid.y", "cluster_ctarank", "cluster_nctarank", "ctaid.x", "ctaid.y")  # fmt: skip
    body = "mov.u32 %x, %ctaid.y; mov.u32 %y, %ctaid.x; mad.lo.u32 %x, %x, 4, %y; mul.wide.u32 %o, %x, 128;"
    body += "add.u64 %o, %a, %o;"
    body += "".join(f"mov.u32 %y, %{name}; st.global.u32 [%o+{4 * n}], %y;" for n, name in enumerate(names))
    body += "mov.pred %q, %is_explicit_cluster; selp.u32 %y, 1, 0, %q; st.global.u32 [%o+48], %y;"
    out = np.zeros((24, 32), np.uint32)
    run_ptx(load_ptx(text(body, "")), "k", (4, 6), (1,), [Buffer.of("a", out)], cluster=(2, 3))
    for block in range(24):
        x, y = block % 4, block // 4
        want = [x % 2, y % 3, 2, 3, x // 2, y // 3, 2, 2, x % 2 + y % 3 * 2, 6, x, y, 1]
        assert out[block, :13].tolist() == want


@pytest.mark.parametrize(
    ("attributes", "cluster", "what"),
    [
        ("", (3,), "a grid of .4, 1, 1. blocks is no whole number of clusters of .3, 1, 1."),
        ("", (32,), "a cluster of .32, 1, 1. blocks: `k` takes 1 to 16"),
        (".maxclusterrank 1", (2,), "takes 1 to 1"),
        (".reqnctapercluster 2, 1, 1", (4,), "`k` needs clusters of .2, 1, 1. blocks, found .4, 1, 1."),
        (".explicitcluster", None, "`k` must be launched in clusters"),
    ],
)
def test_launches_that_cannot_be(attributes: str, cluster: tuple[int, ...] | None, what: str) -> None:
    with pytest.raises(LaunchError, match=what):
        result("", attributes=attributes, cluster=cluster)


def test_exited_threads_have_arrived() -> None:
    body = "setp.eq.u32 %q, %r, 1; @%q exit; barrier.cluster.arrive; barrier.cluster.wait; st.global.u32 [%o], 1;"
    assert result(body)[::2].all()
    assert "every thread that has not exited waits" in error("setp.eq.u32 %q, %r, 1; @%q bra M; barrier.cluster.arrive;"
                                                            "barrier.cluster.wait; M: bar.sync 0, 64;")  # fmt: skip


def test_a_block_of_another_rank_is_refused() -> None:
    assert "of block 2 of a cluster of 2" in error("mov.u32 %x, 2; mapa.shared::cluster.u32 %far, %s1, %x;")


REMOTE = f"""@%p mbarrier.init.shared::cta.b64 [%b], 32; fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.relaxed; barrier.cluster.wait; {NEXT} st.shared::cluster.u32 [%far], %i;
add.u32 %x, %r, 1; rem.u32 %x, %x, %n; mapa.shared::cluster.u32 %far, %b, %x;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%b], 0; @!%q bra W;
ld.shared.u32 %y, [%s1]; st.global.u32 [%o], %y; {MEET}"""


@pytest.mark.parametrize("seed", range(4))
def test_arriving_at_the_mbarrier_of_another_block(seed: int) -> None:
    other = (np.arange(4) ^ 1)[:, None] * 32 + np.arange(32)
    assert np.array_equal(result(REMOTE, seed=seed), other)
    assert assemble("k", text(REMOTE), "sm_90a").cubin


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("fence.mbarrier_init.release.cluster;", "", "not ordered with the `mbarrier.init"),
        ("arrive.release.cluster.shared", "arrive.relaxed.cluster.shared", "not ordered with the store of 4 bytes"),
        ("[%b], 32;", "[%b], 33;", "1 of 33 arrivals"),
    ],
)
def test_what_goes_wrong_with_mbarriers_of_other_blocks(old: str, new: str, what: str) -> None:
    assert old in REMOTE and what in error(REMOTE.replace(old, new))


CAST = """@%p mbarrier.init.shared::cta.b64 [%b], 1; fence.mbarrier_init.release.cluster; barrier.cluster.arrive;
barrier.cluster.wait; @!%p bra GO; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 128;
setp.ne.u32 %q, %r, 0; @%q bra GO; mov.u16 %h, 3; {}
GO: W: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0; @!%q bra W;
ld.shared.u32 %y, [%s1]; st.global.u32 [%o], %y;""" + MEET  # fmt: skip


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_multicast(tensor: bool, seed: int) -> None:
    bulk = ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%s], [%g], 128, [%b], %h;")  # fmt: skip
    boxes = ("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
             "[%s], [%m, {0}], [%b], %h;")  # fmt: skip
    body = "ld.param.u64 %g, [src]; mov.b64 %m, map; cvta.param.u64 %m, %m;" + CAST.replace(
        "{}", boxes if tensor else bulk
    )
    given, out = aligned(np.arange(7, 39, dtype=np.uint32), 128), np.zeros((2, 32), np.uint32)
    tensor_map = encode_tensor_map("uint32", given.ctypes.data, (32,), (), (32,))
    module = text(body, parameters=", .param .u64 src, .param .align 64 .b8 map[128]")
    arguments = [Buffer.of("a", out), Buffer.of("src", given), tensor_map]
    run_ptx(load_ptx(module), "k", (2,), (32,), arguments, Options(seed=seed))
    assert np.array_equal(out, [given, given])
    assert assemble("k", module, "sm_90a").cubin
    with pytest.raises(InterpreterError, match="the mask 0x7 of a cluster of 2 blocks"):
        run_ptx(load_ptx(module.replace("mov.u16 %h, 3;", "mov.u16 %h, 7;")), "k", (2,), (32,), arguments)
    hasty = module.replace("GO: W:", "GO: setp.eq.u32 %q, %r, 1; @%q bra V; W:").replace("bra W;", "bra W; V:")
    with pytest.raises(RaceError, match="without a wait"):
        run_ptx(load_ptx(hasty), "k", (2,), (32,), arguments)


def test_copies_between_blocks() -> None:
    """Each block sends its words to the other one, whose mbarrier counts them."""
    body = f"""@%p mbarrier.init.shared::cta.b64 [%b], 1; st.shared.u32 [%s1], %i; fence.proxy.async; {MEET}
    @!%p bra GO; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 128; xor.b32 %x, %r, 1;
    mapa.shared::cluster.u32 %far, %s, %x; mapa.shared::cluster.u32 %y, %b, %x;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%far+512], [%s], 128, [%y];
    GO: W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%b], 0; @!%q bra W;
    ld.shared.u32 %y, [%s1+512]; st.global.u32 [%o], %y; {MEET}"""
    other = (np.arange(4) ^ 1)[:, None] * 32 + np.arange(32)
    for seed in range(3):
        assert np.array_equal(result(body, seed=seed), other)
    assert "without a wait for the read of a bulk copy" in error(
        body.replace("GO: W:", "st.shared.u32 [%s], 0; GO: W:")
    )


SEND = f"""@%p mbarrier.init.shared::cta.b64 [%b], 1; st.shared.u32 [%s1+512], 1; fence.proxy.async; bar.sync 0;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 256; {MEET} xor.b32 %x, %r, 1;
mapa.shared::cluster.u32 %far, %s1, %x; mapa.shared::cluster.u32 %y, %b, %x;
st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%far], %i, [%y];
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%far+512], 7, [%y];
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%b], 0; @!%q bra W;
ld.shared.u32 %x, [%s1]; ld.shared.u32 %y, [%s1+512]; mad.lo.u32 %y, %y, 10000, %x; st.global.u32 [%o], %y; {MEET}"""


@pytest.mark.parametrize("seed", range(3))
def test_remote_stores_and_reductions(seed: int) -> None:
    other = (np.arange(4) ^ 1)[:, None] * 32 + np.arange(32)
    assert np.array_equal(result(SEND, seed=seed), other + 80_000)
    assert assemble("k", text(SEND), "sm_90a").cubin
    hasty = SEND[: SEND.index("W:")] + SEND[SEND.index("ld.shared") :]
    assert "without a wait for the write of a remote store" in error(hasty)
    assert "and 4 bytes short" in error(SEND.replace("[%b], 256;", "[%b], 260;"))


# --- setmaxnreg ---


def registers(first: str, second: str, cap: str = ".reqntid 256, 1, 1") -> str:
    """Two warp groups, each with a body."""
    return text(f"setp.ge.u32 %q, %t, 128; @%q bra B; {first} bra END; B: {second} END:", cap)


def launch(module: str) -> None:
    run_ptx(load_ptx(module), "k", (1,), (256,), [Buffer.of("a", np.zeros(512, np.uint32))])


def test_registers_move_between_warp_groups() -> None:
    """One waits for what the other gives away: 248 a thread at first, so 8 more need 8 less."""
    module = registers("setmaxnreg.inc.sync.aligned.u32 256;", "setmaxnreg.dec.sync.aligned.u32 240;")
    launch(module)
    assert assemble("k", module, "sm_90a").cubin


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ("setmaxnreg.inc.sync.aligned.u32 256;", "bar.sync 0;", "128 threads wait in `setmaxnreg.inc"),
        ("setmaxnreg.inc.sync.aligned.u32 64;", "", "to 64 registers, the warp group has 248"),
        ("setmaxnreg.dec.sync.aligned.u32 256;", "", "to 256 registers, the warp group has 248"),
        ("setp.lt.u32 %p, %t, 32; @%p bra END; setmaxnreg.dec.sync.aligned.u32 64;", "", "96 threads wait in"),
    ],
)
def test_registers_that_are_not_there(first: str, second: str, what: str) -> None:
    with pytest.raises(BarrierError, match=what):
        launch(registers(first, second))


@pytest.mark.parametrize("count", [20, 25, 264])
def test_register_counts(count: int) -> None:
    with pytest.raises(PtxError, match="needs a constant multiple of 8 from 24 to 256"):
        load_ptx(registers(f"setmaxnreg.dec.sync.aligned.u32 {count};", ""))
    with pytest.raises(PtxError, match="needs `.maxnreg`, or the size of a block"):
        load_ptx(registers("setmaxnreg.dec.sync.aligned.u32 24;", "", ""))
