"""Where values that nobody wrote may go, by kind of instruction, and where not: the first are told, the others pass."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest

from tests.interpreter.ptx.groups import run_group
from tests.interpreter.ptx.programs import HEADER, run
from tests.interpreter.ptx.test_wgmma import a_group, operands
from tilewright.interpreter import Options, UninitializedError
from tilewright.interpreter.ptx import load_ptx, run_ptx

HEAD = """.shared .align 16 .b8 s[4096]; .local .align 8 .b8 l[64]; .reg .b16 %h<2>; .reg .f32 %f<4>; .reg .b32 %none;
.reg .b32 %t, %v, %d, %e, %at, %row, %x<4>; .reg .b64 %p, %o, %la, %sa, %z; .reg .pred %q, %r, %true, %low, %pnone;
mov.u32 %t, %tid.x; shl.b32 %at, %t, 2; mov.u32 %d, s; add.u32 %at, %at, %d; shl.b32 %row, %t, 4;
add.u32 %row, %row, %d; ld.param.u64 %p, [a]; mul.wide.u32 %o, %t, 4; add.u64 %o, %p, %o; mov.u64 %la, l;
cvt.u64.u32 %sa, %at; cvta.shared.u64 %sa, %sa; mov.u32 %d, 0; mov.u32 %e, 1; setp.lt.u32 %low, %t, 16;
setp.eq.u32 %true, %e, 1; ld.shared.b32 %v, [%at]; setp.eq.u32 %q, %v, 0; bra NEXT; NEXT:
"""  # %v and %q are unwritten
TAIL = "\nst.global.b32 [%o], %d; st.global.b32 [%o+128], 77; ret;"
SQUARE = """.func (.param .b32 r) square (.param .b32 x)
{ .reg .b32 %v; ld.param.u32 %v, [x]; mul.lo.u32 %v, %v, %v; st.param.u32 [r], %v; ret; }
"""


def cases(text: str) -> list[str]:
    """One on each line, with what is indented below it."""
    return [line for line in re.sub(r"\n +", " ", text).strip().splitlines() if not line.startswith("//")]


MATTERS = cases("""
// choices
selp.b32 %d, 1, 2, %q;
selp.b32 %d, %v, 2, %true;
slct.u32.s32 %d, 1, 2, %v;
@%q mov.u32 %d, 1;
@!%q add.u32 %d, %d, %e;
@%q ld.global.b32 %d, [%o];
setp.eq.and.u32 %r, %e, 1, %q; selp.b32 %d, 1, 2, %r;
setp.eq.and.u32 %r|%low, %e, 1, !%q; selp.b32 %d, 1, 2, %low;
setp.eq.and.u32 %r, %v, 1, %true; selp.b32 %d, 1, 2, %r;
setp.eq.or.u32 %r, %v, 1, !%true; selp.b32 %d, 1, 2, %r;
setp.eq.xor.u32 %r, %v, 1, %true; selp.b32 %d, 1, 2, %r;
and.pred %r, %true, %q; selp.b32 %d, 1, 2, %r;
not.pred %r, %q; selp.b32 %d, 1, 2, %r;
prmt.b32 %d, %e, %t, %v;
xor.b32 %d, %v, %e;
and.b32 %x0, %v, 14; setp.eq.u32 %r, %x0, 2; selp.b32 %d, 1, 2, %r;
shl.b32 %x0, %v, 3; add.u32 %x0, %x0, 5; and.b32 %d, %x0, 8;
shl.b32 %d, %e, %v;
bfe.u32 %d, %t, %v, 3;
bfi.b32 %d, %t, %e, 3, %v;
bfi.b32 %d, %e, %v, 0, 4; and.b32 %d, %d, 0xff;
add.cc.u32 %x0, %v, %e; addc.u32 %d, %e, %e;
mov.b32 {%h0, %h1}, %v; setp.eq.f16x2 %low|%r, %v, %t; selp.b32 %d, 1, 2, %r;
setp.eq.f16x2 %r, %v, %t; selp.b32 %d, 1, 2, %r;
set.eq.f16x2.f16x2 %d, %v, %t;
set.eq.and.f16x2.f16x2 %d, %t, %t, %q;
set.eq.or.u32.bf16x2 %d, %t, %t, !%q;
dp2a.lo.u32.s32 %d, %t, %v, %t;
szext.wrap.s32 %d, %t, %v;
@%low setp.eq.u32 %r, %e, 1; @!%low setp.eq.u32 %r, %v, 1; selp.b32 %d, 1, 2, %r;
// registers that nothing writes
mov.b32 %d, %none;
selp.b32 %d, 1, 2, %pnone;
@%pnone st.global.b32 [%o], %e;
// atomics
atom.global.add.u32 %d, [%o], %v;
red.global.add.u32 [%o], %v;
atom.global.cas.b32 %d, [%o], %v, 1;
atom.global.cas.b32 %d, [%o], 5, %v;
atom.global.exch.b32 %x0, [%o], %v;
atom.shared.exch.b32 %d, [%at+2048], 5;
atom.exch.b32 %d, [%sa+2048], 5;
atom.shared.cas.b32 %d, [%at+2048], 5, 4;
@%q red.global.add.u32 [%o], %e;
// loads
ld.volatile.shared.b32 %d, [%at+1024];
ld.relaxed.cta.shared.b32 %d, [%at+1024];
ld.b32 %d, [%sa+1024];
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d}, [%row+1024];
and.b32 %v, %v, 1; shl.b32 %v, %v, 4; add.u32 %v, %v, %row; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d}, [%v];
// lanes
shfl.sync.idx.b32 %d, %v, 0, 31, -1;
shfl.sync.idx.b32 %d, %t, %v, 31, -1;
shfl.sync.up.b32 %d|%r, 5, %v, 0, -1;
shfl.sync.idx.b32 %d, %t, 0, %v, -1;
shfl.sync.idx.b32 %d, %e, 0, 31, %v;
vote.sync.ballot.b32 %d, %q, -1;
shfl.sync.idx.b32 %x0|%r, %t, %v, 31, -1; selp.b32 %d, 1, 2, %r;
vote.sync.ballot.b32 %d, %true, %v;
vote.sync.any.pred %r, %q, -1; selp.b32 %d, 1, 2, %r;
match.any.sync.b32 %d, %v, -1;
match.any.sync.b32 %d, %e, %v;
match.all.sync.b32 %x0|%r, %v, -1; selp.b32 %d, 1, 2, %r;
redux.sync.add.u32 %d, %v, -1;
redux.sync.add.u32 %d, 1, %v;
elect.sync %d|%r, %v;
bar.warp.sync %v;
@%q redux.sync.add.u32 %d, %e, -1;
movmatrix.sync.aligned.m8n8.trans.b16 %d, %v;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%e, %v, %e, %e}, {%e, %e},
    {0f00000000, 0f00000000, 0f00000000, 0f00000000}; mov.b32 %d, %f0;
// barriers, branches and what waits
and.b32 %v, %v, 1; bar.sync %v;
bar.sync 1, %v;
bar.arrive 1, %v;
@%q bra L; mov.u32 %d, 3; L:
@%q exit;
@%q trap;
T: .branchtargets A, B; brx.idx %v, T; A: mov.u32 %d, 1; B:
nanosleep.u32 %v;
elect.sync _|%r, -1; @%r mbarrier.init.shared.b64 [%at+1024], %v;
// addresses and copies
cvt.u64.u32 %z, %v; add.u64 %z, %o, %z; ld.global.b32 %d, [%z];
cvt.u64.u32 %z, %v; prefetch.global.L1 [%z];
cp.async.cg.shared.global [%row], [%p], 16, %v;
cp.async.cg.shared.global [%row], [%p], 16, %q;
cvt.u64.u32 %z, %v; fence.proxy.tensormap::generic.acquire.gpu [%z], 128;
// stores
st.global.v2.b32 [%p], {%e, %v};
st.volatile.global.b32 [%o], %v;
st.shared.b32 [%at+1024], %v;
st.b32 [%sa], %v;
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%row+1024], {%v};
// local memory
ld.local.b32 %d, [%la];
cvta.local.u64 %z, %la; ld.b32 %d, [%z+8];
st.local.b16 [%la], 5; ld.local.b32 %d, [%la];
and.b32 %x0, %v, -2; st.local.b32 [%la], %x0; ld.local.b32 %d, [%la]; and.b32 %d, %d, 3;
.reg .b128 %w; .reg .b64 %y; mov.u64 %z, 7; cvt.u64.u32 %y, %v; mov.b128 %w, {%y, %z}; cvt.u32.u64 %d, %w;
szext.clamp.u32 %d, %e, %v;
ld.volatile.local.b32 %d, [%la];
st.local.b32 [%la], %v; ld.local.b32 %d, [%la];
st.local.v2.b32 [%la], {%e, %v}; ld.local.b32 %d, [%la+4];
cvta.local.u64 %z, %la; st.b32 [%z], %v; ld.local.b32 %d, [%la];
ld.local.b32 %x0, [%la+4]; and.b32 %x0, %x0, 4; cvt.u64.u32 %z, %x0; add.u64 %z, %la, %z; st.local.b32 [%z], 1;
@%low st.local.b32 [%la], 5; ld.local.b32 %d, [%la];
@%q st.local.b32 [%la], 5;
{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %v; call.uni (r0), square, (p0); ld.param.b32 %d, [r0]; }
""")

HARMLESS = cases("""
// choices that written values make
selp.b32 %d, 1, %v, %true;
@%q mov.u32 %e, 7;
@%q mov.u32 %d, 7; mov.u32 %d, 1;
setp.eq.u32 %r, %e, 2; and.pred %low, %r, %q; selp.b32 %d, 1, 2, %low;
or.pred %low, %q, %true; selp.b32 %d, 1, 2, %low;
setp.eq.and.u32 %r, %v, 1, !%true; selp.b32 %d, 1, 2, %r;
setp.eq.or.u32 %r|%low, %v, 1, %true; selp.b32 %d, 1, 2, %r;
setp.eq.u32 %r, %e, 2; setp.eq.and.u32 %r, %v, 1, %r; selp.b32 %d, 1, 2, %r;
lop3.b32 %d, %v, %e, %t, 0xaa;
prmt.b32 %d, %v, %e, 0x7654;
// bits that are dropped
and.b32 %d, %v, 0;
mov.b32 %x0, 0; and.b32 %d, %v, %x0;
or.b32 %d, %v, -1;
mul.lo.u32 %d, %v, 0;
mov.b32 %x0, 0; mad.lo.u32 %d, %v, %x0, 5;
mul.wide.u32 %z, %v, 0; cvt.u32.u64 %d, %z;
shr.u32 %d, %v, 32;
xor.b32 %d, %v, %v;
sub.u32 %d, %v, %v;
setp.eq.u32 %r, %v, %v; selp.b32 %d, 1, 2, %r;
mov.b32 %x0, 32; shl.b32 %d, %v, %x0;
mov.b32 %x0, 0x7654; prmt.b32 %d, %v, %e, %x0;
mov.b32 %x0, 0xcc; lop3.b32 %d, %v, %e, %t, %x0;
mov.b32 %x0, 8; bfi.b32 %d, %t, %v, %x0, 24; shr.u32 %d, %d, %x0;
and.b32 %x0, %v, 14; setp.eq.u32 %r, %x0, 1; selp.b32 %d, 1, 2, %r;
and.b32 %x0, %v, 0xf00; or.b32 %x0, %x0, 0x1000; setp.gt.u32 %r, %x0, 0xfff; selp.b32 %d, 1, 2, %r;
// bits below carries
shl.b32 %x0, %v, 3; add.u32 %x0, %x0, 5; and.b32 %d, %x0, 7;
shl.b32 %x0, %v, 3; mad.lo.u32 %x0, %x0, 2, 5; and.b32 %d, %x0, 15;
st.shared.b8 [%at+1024], %e; ld.shared.b32 %x0, [%at+1024]; bfe.u32 %d, %x0, 0, 8;
bfi.b32 %d, %e, %v, 0, 32;
st.shared.b8 [%at+1024], %e; ld.shared.b32 %x0, [%at+1024]; cvt.u32.u8 %d, %x0;
atom.shared.exch.b32 %x0, [%at+2048], 5; ld.shared.b32 %d, [%at+2048];
// lanes that take no part
@!%low bra E; mov.b32 %v, 1; redux.sync.add.u32 %d, %v, 0xffff; E:
@!%low bra E; shfl.sync.bfly.b32 %d, %e, 1, 31, 0xffff; E:
@%low mov.b32 %v, 1; setp.eq.u32 %r, %v, 1; @%low vote.sync.ballot.b32 %d, %r, 0xffff;
shfl.sync.idx.b32 %x0|%r, %v, 0, 31, -1; selp.b32 %d, 1, 2, %r;
mov.u32 %x0, s; atom.shared.exch.b32 %x1, [%x0+2048], %t; setp.ne.u32 %r, %t, 0; @%r mov.b32 %d, %x1;
// local memory
st.local.b32 [%la], 5; ld.local.b32 %d, [%la];
st.local.b32 [%la], %v; ld.local.b32 %x0, [%la];
st.local.b32 [%la], 5; ld.local.b64 %z, [%la]; st.local.b64 [%la+8], %z; ld.local.b32 %d, [%la+8];
st.local.b32 [%la], %v; st.local.b32 [%la], 5; ld.local.b32 %d, [%la];
st.local.b16 [%la], 5; ld.local.b32 %d, [%la];and.b32 %d, %d, 0xffff;
@%low st.local.b32 [%la], 5; @!%low st.local.b32 [%la], 6; ld.local.b32 %d, [%la];
{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %t; call.uni (r0), square, (p0); ld.param.b32 %d, [r0]; }
cvta.local.u64 %z, %la; st.b32 [%z], %e; ld.b32 %d, [%z];
cvta.local.u64 %z, %la; st.b32 [%z], %v; ld.b32 %x0, [%z];
st.local.b8 [%la], 5; ld.local.s8 %d, [%la];
ld.local.u8 %x0, [%la]; and.b32 %x0, %x0, 0xf0; or.b32 %x0, %x0, 3; st.local.u8 [%la], %x0; ld.local.u8 %x0, [%la];
    and.b32 %x0, %x0, 0x0f; or.b32 %x0, %x0, 0x20; st.local.u8 [%la], %x0; ld.local.u8 %d, [%la];
and.b32 %x0, %v, -2; st.local.b32 [%la], %x0; ld.local.b32 %d, [%la]; and.b32 %d, %d, 1;
.reg .b128 %w; mov.u64 %z, 7; mov.b128 %w, {%z, %z}; cvt.u32.u64 %d, %w;
.reg .b128 %w; .reg .b64 %y; mov.u64 %z, 7; cvt.u64.u32 %y, %v; mov.b128 %w, {%z, %y}; cvt.u32.u64 %d, %w;
cvt.u64.u32 %z, %v; mov.b64 {%x0, %d}, %z;
shl.b32 %x0, %v, 8; szext.clamp.u32 %x0, %x0, 8; mov.b32 %d, %x0;
// a register that is written on all ways, and later something else is found unwritten
@%low mov.b32 %none, 1; @!%low mov.b32 %none, 2; mov.b32 %v, 0; setp.eq.u32 %q, %v, 0; bra M;
    M: ld.shared.b32 %x0, [%at];mov.b32 %d, %none;
""")


def launch(body: str) -> np.ndarray[Any, Any]:
    """What the threads leave at the end: a number, and 77 as a sign that they came there."""
    out = np.zeros(64, np.uint32)
    run(HEAD + body + TAIL, out, before=SQUARE, options=Options(fuel=10_000))
    return out


@pytest.mark.parametrize("body", MATTERS)
def test_what_depends_on_an_unwritten_value_is_told(body: str) -> None:
    with pytest.raises(UninitializedError):
        launch(body)


@pytest.mark.parametrize("body", HARMLESS)
def test_what_does_not_depend_on_it_passes(body: str) -> None:
    assert (launch(body)[32:] == 77).all()


@pytest.mark.parametrize("load", ["ld.shared.b32 %d, [%row+1024];", "ld.volatile.shared.b32 %d, [%row+1024];"])
@pytest.mark.parametrize("what", ["b32 [%row+1024], %e;", "v2.b32 [%row+1024], {%e, %e};"])
@pytest.mark.parametrize("how", ["", ".volatile", ".relaxed.cta", ".relaxed.gpu", ".release.cta"])
def test_strong_stores_write_as_others_do(how: str, what: str, load: str) -> None:
    if "v2" not in what or how in ("", ".volatile"):
        launch(f"st{how}.shared.{what} {load}")
    launch(f"cvt.u64.u32 %z, %row; cvta.shared.u64 %z, %z; st{how}.{what.replace('%row', '%z')} {load}")
    with pytest.raises(UninitializedError):
        launch(f"st{how}.shared.{what.replace('+1024', '+1032')} {load}")


def test_local_memory_is_told_by_its_name() -> None:
    with pytest.raises(UninitializedError) as caught:
        launch(".loc 1 4 2\nld.local.v2.b16 {%h0, %h1}, [%la]; mov.b32 %d, {%h1, %h0};\n.loc 1 5 2")
    assert str(caught.value) == (
        "?:5:2: `st.global.b32` depends on local memory that nobody wrote a value to, from the load of 4 bytes at "
        "?:4:2; thread (0, 0, 0) (program (0, 0, 0))"
    )


@pytest.mark.parametrize("given", [4, 8])
def test_what_is_printed(given: int) -> None:
    text = f"""{HEADER}.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
        .global .align 1 .b8 text[] = {{37, 100, 37, 100, 10, 0}};
        .visible .entry k() {{ .local .align 8 .b8 l[8]; .reg .b64 %l, %g; .reg .b32 %r; .reg .pred %q;
        mov.b64 %l, l; st.local.b{8 * given} [%l], 7; cvta.local.u64 %l, %l; mov.b64 %g, text; cvta.global.u64 %g, %g;
        {{ .param .b64 p0; .param .b64 p1; .param .b32 r0; st.param.b64 [p0], %g; st.param.b64 [p1], %l;
          call.uni (r0), vprintf, (p0, p1); ld.param.b32 %r, [r0]; }} setp.eq.u32 %q, %r, 2; @%q exit; trap; }}
    """
    out = io.StringIO()
    if given == 8:
        run_ptx(load_ptx(text), "k", (1,), (1,), [], stdout=out)
        assert out.getvalue() == "70\n"
        return
    with pytest.raises(UninitializedError, match="load of 4 bytes of local memory that nobody wrote a value to"):
        run_ptx(load_ptx(text), "k", (1,), (1,), [], stdout=out)


@pytest.mark.parametrize(("adds", "test"), [(True, "eq"), (False, "ne")])
def test_products_that_add_to_nothing(adds: bool, test: str) -> None:
    """An accumulator that was never written: added to always, or by a predicate."""
    group = a_group("f32", "f16", "f16", 16, "64B")
    a, b, c = operands(group)

    def changed(text: str) -> str:
        return text.replace("ld.global.u32 %d3, [%p2+12];", "").replace("setp.eq.u32 %z,", f"setp.{test}.u32 %z,")

    with pytest.raises(UninitializedError, match="depends on `%d3`"):
        run_group(group, a, b, c, adds=adds, change=changed)


def test_products_that_do_not_add_write_their_accumulators() -> None:
    group = a_group("f32", "f16", "f16", 16, "64B")
    a, b, c = operands(group)
    found = run_group(group, a, b, c, adds=False, change=lambda text: text.replace("ld.global.u32 %d3, [%p2+12];", ""))
    assert np.array_equal(found, a.astype(np.float32) @ b.astype(np.float32).T)
