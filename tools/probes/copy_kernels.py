"""The kernels of the probes of copies, as PTX."""

from __future__ import annotations

from .copies import Copy

SIZE, THREADS = 16384, 128
"""Shared memory that is looked at, and the threads of a block."""
STATUS = 16
"""Bytes behind the image of shared memory, of which the first four say how many times 16 bytes a load was short."""
_SIGNAL = "mbarrier::complete_tx::bytes"


def action_of(copy: Copy) -> tuple[str, bool]:
    """The instruction, and whether it signals the mbarrier."""
    words, rank = copy.action.split(), len(copy.shape)
    names = ", ".join(f"%c{n}" for n in range(rank))
    if words[0] == "bulk":
        what, near = words[-1], "near" in words
        if near:
            reduces = f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_SIGNAL}.{what}"
            opcode = f"cp.async.bulk.shared::cluster.shared::cta.{_SIGNAL}" if what == "near" else reduces
            return f"{opcode} [%x], [%s+{SIZE // 2}], %nb, [%b];", True
        if what == "load":
            return f"cp.async.bulk.shared::cluster.global.{_SIGNAL} [%x], [%pm], %nb, [%b];", True
        opcode = "cp.async.bulk.global.shared::cta.bulk_group"
        if what != "store":
            opcode = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{what}"
        return f"{opcode} [%pm], [%x], %nb;", False
    mode, what = ("im2col" if copy.corners else "tile", words[0]) if len(words) == 1 else words
    offsets = ", ".join(f"%f{n}" for n in range(rank - 2))
    more = f", {{{offsets}}}" if mode == "im2col" else ""
    if what == "load":
        opcode = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.{_SIGNAL}"
        return f"{opcode} [%x], [%pm, {{{names}}}], [%b]{more};", True
    if what == "prefetch":
        return f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.{mode} [%pm, {{{names}}}]{more};", False
    mode = mode.replace("im2col", "im2col_no_offs")
    opcode = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.{mode}.bulk_group"
    if what != "store":
        opcode = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{what}.{mode}.bulk_group"
    return f"{opcode} [%pm, {{{names}}}], [%x];", False


def kernel_text(copy: Copy, target: str) -> str:
    """A module with the entry `k(m, a, b, c)`: block w makes the copy of row w of a.

    m: the tensor map, or the array of a bulk copy; a: coordinates, from word 5 on bytes and start, from word 8 on
    offsets; b: what shared memory holds at first; c: for loads what it holds afterwards, with a status, else the
    array. A load that is not done after a while is short of bytes: they are counted until it is.
    """
    instruction, signals = action_of(copy)
    bulk, near = copy.action.startswith("bulk"), copy.action.startswith("bulk near")
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k({".param .u64 m" if bulk else ".param .align 64 .b8 m[128]"},
    .param .u64 a, .param .u64 b, .param .u64 c)
.reqntid {THREADS}, 1, 1 {".reqnctapercluster 1, 1, 1" if near else ""}
{{
.shared .align 1024 .b8 s[{SIZE}]; .shared .align 8 .b8 bar[8];
.reg .b32 %t, %w, %i, %x, %y, %s, %b, %n, %nb, %v<4>, {", ".join(f"%c{n}" for n in range(5))};
.reg .b16 %f<3>; .reg .b64 %pm, %pa, %pb, %pc, %o; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %w, %ctaid.x; mov.u32 %s, s; mov.u32 %b, bar; setp.ne.u32 %p, %t, 0;
{"ld.param.u64 %pm, [m];" if bulk else "mov.b64 %pm, m; cvta.param.u64 %pm, %pm;"}
ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; mad.wide.u32 %pa, %w, 64, %pa;
{" ".join(f"ld.global.b32 %c{n}, [%pa+{4 * n}];" for n in range(5))}
{" ".join(f"ld.global.b16 %f{n}, [%pa+{32 + 4 * n}];" for n in range(3))}
ld.global.b32 %nb, [%pa+20]; ld.global.b32 %y, [%pa+24];
{"cvt.u64.u32 %o, %c0; add.u64 %pm, %pm, %o;" if bulk else ""}
mov.u32 %i, %t;
FILL: mul.wide.u32 %o, %i, 16; add.u64 %o, %o, %pb; ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%o];
shl.b32 %x, %i, 4; add.u32 %x, %x, %s; st.shared.v4.b32 [%x], {{%v0, %v1, %v2, %v3}};
add.u32 %i, %i, {THREADS}; setp.lt.u32 %q, %i, {SIZE // 16}; @%q bra FILL;
@%p bra READY; mbarrier.init.shared::cta.b64 [%b], 1;
READY: fence.proxy.async; bar.sync 0; add.u32 %x, %s, %y; mov.u32 %n, 0;
@%p bra {"LOADED" if signals else "END"};
{_loaded(instruction, copy) if signals else f"{instruction} {_STORED}"}
END: ret;
}}
"""


_STORED = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


def _loaded(instruction: str, copy: Copy) -> str:
    """A load, what waits for it, and the bytes afterwards."""
    return f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %nb;
{instruction}
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0, 1000; @%q bra DONE;
add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 5000; @%q bra WAIT;
mov.u32 %n, 0;
SHORT: mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16; add.u32 %n, %n, 1;
mbarrier.test_wait.parity.shared::cta.b64 %q, [%b], 0; @%q bra TOLD; setp.lt.u32 %q, %n, 4096; @%q bra SHORT;
bra TOLD;
DONE: mov.u32 %n, 0;
TOLD:
LOADED: bar.sync 0; mul.wide.u32 %o, %w, {SIZE + STATUS}; add.u64 %pc, %pc, %o;
@!%p st.global.b32 [%pc+{SIZE}], %n; mov.u32 %i, %t;
TAKE: shl.b32 %x, %i, 4; add.u32 %x, %x, %s; ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%x];
mul.wide.u32 %o, %i, 16; add.u64 %o, %o, %pc; st.global.v4.b32 [%o], {{%v0, %v1, %v2, %v3}};
add.u32 %i, %i, {THREADS}; setp.lt.u32 %q, %i, {SIZE // 16}; @%q bra TAKE;"""
