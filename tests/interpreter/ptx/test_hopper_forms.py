"""The emulator takes exactly those forms of Hopper's asynchronous instructions that the assembler takes."""

from __future__ import annotations

from itertools import product

import pytest

from tests.interpreter.ptx.programs import module_text
from tilewright.compiler import assemble
from tilewright.interpreter.ptx import PtxError, load_ptx
from tilewright.lang import TilewrightError

HEAD = """.shared .align 128 .b8 s[4096]; .shared .align 8 .b8 bars[64];
.reg .b16 %h; .reg .b32 %t, %x, %s, %b; .reg .b64 %a, %c, %d; .reg .pred %p;
mov.u16 %h, 1; mov.u32 %t, %tid.x; mov.u32 %s, s; mov.u32 %b, bars; ld.param.u64 %a, [a]; ld.param.u64 %c, [b];
mov.u64 %d, %a;
"""

MBARRIERS = """
mbarrier.init.b64 [%a], 1
mbarrier.init.shared.b64 [%b], 1
mbarrier.init.shared::cluster.b64 [%b], 1
mbarrier.inval.b64 [%a]
mbarrier.inval.shared::cta.b64 [%b]
mbarrier.arrive.b64 %d, [%a]
mbarrier.arrive.shared.b64 %d, [%b], %t
mbarrier.arrive.shared::cluster.b64 _, [%b]
mbarrier.arrive.shared::cluster.b64 %d, [%b]
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%b], 2
mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%b]
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 16
mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%b], 2
mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%b], 2
mbarrier.arrive.noComplete.shared.b64 %d, [%b], 1
mbarrier.arrive.noComplete.release.cta.shared.b64 %d, [%b], 1
mbarrier.arrive.noComplete.shared::cluster.b64 _, [%b], 1
mbarrier.arrive_drop.shared.b64 %d, [%b]
mbarrier.arrive_drop.noComplete.shared.b64 %d, [%b], 1
mbarrier.arrive_drop.expect_tx.shared.b64 %d, [%b], 1
mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%b], 1
mbarrier.pending_count.b64 %x, %d
mbarrier.test_wait.b64 %p, [%a], %d
mbarrier.test_wait.acquire.cluster.shared::cta.b64 %p, [%b], %d
mbarrier.test_wait.shared::cluster.b64 %p, [%b], %d
mbarrier.test_wait.parity.relaxed.cta.shared::cta.b64 %p, [%b], %t
mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], %t, %x
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%b], %t
mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], %t, %x
mbarrier.try_wait.relaxed.cta.shared::cta.b64 %p, [%b], %d
mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%b], 16
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 16
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%b], 16
cp.async.mbarrier.arrive.b64 [%a]
cp.async.mbarrier.arrive.noinc.shared.b64 [%b]
"""

OTHERS = """
fence.proxy.async
fence.proxy.async.global
fence.proxy.async.shared::cta
fence.proxy.async.shared::cluster
fence.proxy.async.local
fence.proxy.tensormap::generic.acquire.gpu [%a], 128
fence.proxy.tensormap::generic.release.gpu
fence.mbarrier_init.release.cluster
fence.mbarrier_init.release.cta
barrier.cluster.arrive
barrier.cluster.arrive.release.aligned
barrier.cluster.arrive.relaxed
barrier.cluster.arrive.acquire
barrier.cluster.wait
barrier.cluster.wait.acquire.aligned
barrier.cluster.wait.aligned
barrier.cluster.wait.relaxed
mapa.shared::cluster.u32 %x, %b, 1
mapa.u64 %d, %a, %t
mapa.shared::cluster.u64 %d, %a, %t
mapa.shared::cta.u32 %x, %b, 1
getctarank.shared::cluster.u32 %x, %b
getctarank.u64 %x, %a
mov.u32 %x, %cluster_ctarank
mov.u32 %x, %cluster_nctarank
mov.u32 %x, %cluster_nctaid.x
mov.u32 %x, %clusterid.y
mov.pred %p, %is_explicit_cluster
isspacep.shared::cluster %p, %a
isspacep.shared::cta %p, %a
cvta.shared::cluster.u64 %d, %a
cvta.to.shared::cta.u64 %d, %a
elect.sync _|%p, -1
elect.sync %x|%p, -1
ld.shared::cluster.u32 %x, [%b]
st.shared::cluster.u32 [%b], %t
atom.shared::cluster.add.u32 %x, [%b], 1
red.release.cluster.shared::cluster.add.u32 [%b], 1
st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%s], %t, [%b]
st.async.mbarrier::complete_tx::bytes.u32 [%s], %t, [%b]
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%s], {%t, %t, %t, %t}, [%b]
st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f64 [%s], {%d, %d}, [%b]
st.async.shared::cluster.mbarrier::complete_tx::bytes.b16 [%s], %h, [%b]
st.async.shared::cta.mbarrier::complete_tx::bytes.u32 [%s], %t, [%b]
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%s], %t, [%b]
red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u64 [%s], %d, [%b]
red.async.relaxed.cluster.shared::cta.mbarrier::complete_tx::bytes.add.u64 [%s], %d, [%b]
red.async.relaxed.cluster.shared::cta.mbarrier::complete_tx::bytes.min.s64 [%s], %d, [%b]
red.async.relaxed.cluster.shared::cta.mbarrier::complete_tx::bytes.dec.s32 [%s], %t, [%b]
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32 [%s], %t, [%b]
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s64 [%s], %d, [%b]
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.and.b32 [%s], %t, [%b]
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.or.b64 [%s], %d, [%b]
red.async.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%s], %t, [%b]
griddepcontrol.wait
griddepcontrol.launch_dependents
prefetch.tensormap [%a]
prefetch.const.tensormap [%a]
"""

INTO = "mbarrier::complete_tx::bytes"
COPIES = f"""
cp.async.bulk.shared::cluster.global.{INTO} [%s], [%a], 16, [%b]
cp.async.bulk.shared::cta.global.{INTO} [%s], [%a], 16, [%b]
cp.async.bulk.shared::cta.global.{INTO}.L2::cache_hint [%s], [%a], 16, [%b], %d
cp.async.bulk.shared::cluster.global.{INTO}.multicast::cluster [%s], [%a], 16, [%b], %h
cp.async.bulk.shared::cluster.global.{INTO}.multicast::cluster.L2::cache_hint [%s], [%a], 16, [%b], %h, %d
cp.async.bulk.shared::cluster.shared::cta.{INTO} [%s], [%s], 16, [%b]
cp.async.bulk.shared::cta.shared::cta.{INTO} [%s], [%s], 16, [%b]
cp.async.bulk.global.shared::cta.bulk_group [%c], [%s], %t
cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%c], [%s], 16, %d
cp.async.bulk.global.shared::cta.{INTO} [%c], [%s], 16, [%b]
cp.async.bulk.prefetch.L2.global [%a], 64
cp.async.bulk.prefetch.L2.global.L2::cache_hint [%a], 64, %d
cp.async.bulk.commit_group
cp.async.bulk.wait_group 0
cp.async.bulk.wait_group.read 3
cp.async.bulk.tensor.1d.shared::cluster.global.{INTO} [%s], [%a, {{%t}}], [%b]
cp.async.bulk.tensor.2d.shared::cta.global.tile.{INTO} [%s], [%a, {{%t, %t}}], [%b]
cp.async.bulk.tensor.2d.shared::cluster.global.tile.{INTO}.multicast::cluster [%s], [%a, {{%t, %t}}], [%b], %h
cp.async.bulk.tensor.2d.shared::cluster.global.{INTO}.L2::cache_hint [%s], [%a, {{%t, %t}}], [%b], %d
cp.async.bulk.tensor.1d.shared::cluster.global.{INTO}.multicast::cluster.L2::cache_hint [%s], [%a, {{0}}], [%b], %h, %d
cp.async.bulk.tensor.5d.shared::cluster.global.{INTO} [%s], [%a, {{%t, %t, %t, 0, -1}}], [%b]
cp.async.bulk.tensor.6d.shared::cluster.global.{INTO} [%s], [%a, {{%t, %t, %t, 0, 1, 1}}], [%b]
cp.async.bulk.tensor.2d.shared::cluster.global.{INTO} [%s], [%a, {{%t}}], [%b]
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a, {{%t, %t}}], [%s]
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%a, {{%t, %t}}], [%s], %d
cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%a, {{%t, %t}}], [%s]
cp.reduce.async.bulk.tensor.3d.global.shared::cta.xor.tile.bulk_group.L2::cache_hint [%a, {{%t, %t, 0}}], [%s], %d
cp.reduce.async.bulk.tensor.2d.global.shared::cta.mul.bulk_group [%a, {{%t, %t}}], [%s]
cp.async.bulk.prefetch.tensor.2d.L2.global [%a, {{%t, %t}}]
cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint [%a, {{%t, %t}}], %d
"""

REDUCED = [
    f"cp.reduce.async.bulk.{form}.{op}.{type_} {operands}"
    for (form, operands), op, type_ in product(
        (
            ("global.shared::cta.bulk_group", "[%c], [%s], 16"),
            (f"shared::cluster.shared::cta.{INTO}", "[%s], [%s], 16, [%b]"),
        ),
        ("add", "add.noftz", "min", "max", "inc", "dec", "and", "or", "xor"),
        ("u32", "u64", "s64", "b64", "f32", "bf16"),
    )
]  # fmt: skip


def takes(instruction: str) -> tuple[bool, bool]:
    """Whether the assembler and the emulator take an instruction."""
    text = module_text(f"{HEAD}{instruction};", "ab")
    return _passes(lambda: assemble("k", text, "sm_90a")), _passes(lambda: load_ptx(text))


def _passes(action: object) -> bool:
    assert callable(action)
    try:
        action()
    except PtxError:
        return False
    except TilewrightError as error:
        assert "refused" in str(error)
        return False
    return True


@pytest.mark.parametrize("listed", [MBARRIERS, OTHERS, COPIES], ids=["mbarriers", "others", "copies"])
def test_forms(listed: str) -> None:
    found = {line: takes(line) for line in listed.strip().splitlines()}
    assert {line: pair for line, pair in found.items() if pair[0] != pair[1]} == {}
    assert any(assembles for assembles, _ in found.values())


def test_reductions() -> None:
    found = {line: takes(line) for line in REDUCED}
    assert {line: pair for line, pair in found.items() if pair[0] != pair[1]} == {}
    assert sum(assembles for assembles, _ in found.values()) > 12


@pytest.mark.parametrize(
    ("instruction", "what"),
    [
        (f"cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.{INTO} [%s], [%a, {{%t, %t, %t}}], [%b], {{%h, %h}};",
         r"im2col::w .* is not supported; tile and im2col are"),
        (f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.{INTO} [%s], [%a, {{%t, %t, %t, %t, %t}}], [%b];",
         "gather and scatter .* is not supported"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 32;", "`tcgen05` .* is not supported"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(instruction: str, what: str) -> None:
    with pytest.raises(PtxError, match=what):
        load_ptx(module_text(HEAD + instruction, "ab"))
