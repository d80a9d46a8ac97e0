"""Branches, loops, exits, calls and budgets: every thread must end as scalar Python says."""

import io

import numpy as np
import pytest

from tests.interpreter.ptx.programs import HEADER, module_text, run
from tilewright.interpreter import Buffer, DeviceAssertError, Options, OutOfFuelError
from tilewright.interpreter.ptx import BarrierError, TrapError, UninitializedError, load_ptx, run_ptx

# The global thread number in %i, the address of out[i] in %at.
START = """
.reg .b32 %i, %n, %x, %y, %k; .reg .b64 %at, %off; .reg .pred %p, %q;
mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %i, %i, %n, %n; mov.u32 %n, %tid.x;
add.u32 %i, %i, %n; mov.u32 %n, %ntid.x; sub.u32 %i, %i, %n;
ld.param.u64 %at, [a]; mul.wide.u32 %off, %i, 4; add.u64 %at, %at, %off;
"""


def outputs(body: str, grid: int = 3, block: int = 64, options: Options | None = None) -> list[int]:
    out = np.full(grid * block, 0xDEAD, np.uint32)
    run(START + body, out, grid=grid, block=block, options=options)
    return out.tolist()


def test_nested_branches() -> None:
    body = """
        and.b32 %x, %i, 1; setp.eq.u32 %p, %x, 0; @%p bra EVEN;
        and.b32 %x, %i, 2; setp.eq.u32 %p, %x, 0; @!%p bra ODD2;
        mov.u32 %y, 10; bra JOIN1;
    ODD2:
        mov.u32 %y, 20;
    JOIN1:
        add.u32 %y, %y, 1; bra.uni JOIN;
    EVEN:
        mov.u32 %y, 30;
    JOIN:
        add.u32 %y, %y, %i; st.global.u32 [%at], %y; ret;
    """
    want = [(30 if i % 2 == 0 else 11 if i & 2 == 0 else 21) + i for i in range(192)]
    assert outputs(body) == want


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps


def test_loops_with_different_trip_counts_and_an_inner_branch() -> None:
    body = """
        add.u32 %x, %i, 1; mov.u32 %y, 0;
    HEAD:
        setp.eq.u32 %p, %x, 1; @%p bra DONE;
        and.b32 %n, %x, 1; setp.ne.u32 %q, %n, 0;
        @%q bra ODD;
        shr.u32 %x, %x, 1; bra NEXT;
    ODD:
        mad.lo.u32 %x, %x, 3, 1;
    NEXT:
        add.u32 %y, %y, 1; bra HEAD;
    DONE:
        st.global.u32 [%at], %y; ret;
    """
    assert outputs(body) == [collatz(i + 1) for i in range(192)]


def test_nested_loops_and_early_exits() -> None:
    body = """
        mov.u32 %y, 0; rem.u32 %k, %i, 7;
    OUTER:
        setp.eq.u32 %p, %k, 0; @%p bra STORE;
        mov.u32 %x, 0;
    INNER:
        add.u32 %y, %y, %k; add.u32 %x, %x, 1;
        setp.gt.u32 %q, %y, 60; @%q exit;
        setp.lt.u32 %p, %x, %i; @%p bra INNER;
        sub.u32 %k, %k, 1; bra OUTER;
    STORE:
        st.global.u32 [%at], %y;
    """

    def scalar(i: int) -> int:
        y, k = 0, i % 7
        while k:
            x = 0
            while True:
                y, x = y + k, x + 1
                if y > 60:
                    return 0xDEAD
                if x >= i:
                    break
            k -= 1
        return y

    assert outputs(body) == [scalar(i) for i in range(192)]


def test_threads_meet_again_behind_a_loop() -> None:
    body = """
        mov.u32 %x, 0;
    LOOP:
        add.u32 %x, %x, 1; setp.le.u32 %p, %x, %i; @%p bra LOOP;
        activemask.b32 %y; st.global.u32 [%at], %y;
    """
    assert outputs(body, grid=1) == [0xFFFF_FFFF] * 64


def test_guarded_instructions_keep_old_values() -> None:
    body = """
        mov.u32 %x, 5; and.b32 %y, %i, 3; setp.eq.u32 %p, %y, 0;
        @%p mov.u32 %x, 7; @!%p add.u32 %x, %x, 1; @%p st.global.u32 [%at], %x; @!%p st.global.u32 [%at], %i;
    """
    assert outputs(body) == [7 if i % 4 == 0 else i for i in range(192)]


def test_branch_table() -> None:
    body = """
        and.b32 %x, %i, 3; min.u32 %x, %x, 2;
        T: .branchtargets A, B, C;
        brx.idx %x, T;
    A:  mov.u32 %y, 100; bra S;
    B:  mov.u32 %y, 200; bra S;
    C:  mov.u32 %y, 300;
    S:  st.global.u32 [%at], %y;
    """
    assert outputs(body) == [(100, 200, 300, 300)[i % 4] for i in range(192)]


def test_labels_of_nested_scopes() -> None:
    scope = (
        "{ .reg .b32 %t; mov.u32 %t, %y; L: add.u32 %t, %t, 1; setp.lt.u32 %p, %t, LIMIT; @%p bra L; mov.u32 %y, %t; }"
    )
    body = "mov.u32 %y, 0;" + scope.replace("LIMIT", "4") + scope.replace("LIMIT", "9") + "st.global.u32 [%at], %y;"
    assert outputs(body, grid=1) == [9] * 64


FUNCTIONS = """
.func (.param .b32 r) square (.param .b32 x)
{ .reg .b32 %v; .reg .pred %p; ld.param.u32 %v, [x]; setp.gt.u32 %p, %v, 50; @%p bra BIG;
  mul.lo.u32 %v, %v, %v; st.param.u32 [r], %v; ret;
BIG: st.param.u32 [r], 1; ret; }
.func (.reg .b32 %r) twice (.reg .b32 %x)
{ add.u32 %r, %x, %x; ret; }
"""


def test_calls() -> None:
    body = START + """
        { .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %i; call.uni (r0), square, (p0); ld.param.b32 %x, [r0]; }
        call (%y), twice, (%x);
        st.global.u32 [%at], %y;
    """  # fmt: skip
    out = np.zeros(64, np.uint32)
    run(body, out, block=64, before=FUNCTIONS)
    assert out.tolist() == [2 * (i * i if i <= 50 else 1) for i in range(64)]


def test_budget() -> None:
    with pytest.raises(OutOfFuelError) as caught:
        outputs(".loc 1 7 3\nL: bra L;", options=Options(fuel=1000))
    assert str(caught.value) == (
        "?:7:3: still running after 1000 instructions, each counted once for all threads that run it together: "
        "the budget of the launch (TILEWRIGHT_FUEL) (program (0, 0, 0))"
    )


def test_a_spinning_thread_does_not_starve_the_others() -> None:
    """Threads 1 to 63 wait, at a place before it in the text, for what thread 0 stores."""
    body = """
        ld.param.u64 %off, [a]; setp.eq.u32 %p, %i, 0; @%p bra LAST;
    SPIN:
        ld.volatile.global.u32 %x, [%off]; setp.eq.u32 %q, %x, 0xDEAD; @%q bra SPIN;
        st.global.u32 [%at], %x; exit;
    LAST:
        st.volatile.global.u32 [%off], 77;
    """
    assert outputs(body, grid=1, options=Options(fuel=100_000)) == [77] * 64


def test_uninitialized_registers() -> None:
    with pytest.raises(UninitializedError) as caught:
        outputs("setp.lt.u32 %p, %i, 70; @%p mov.u32 %x, 1; add.u32 %y, %x, 1;\n.loc 1 12 9\nst.global.u32 [%at], %y;")
    assert str(caught.value) == (
        "?:12:9: `st.global.u32` depends on `%x`, which was never written; thread (6, 0, 0) (program (1, 0, 0))"
    )
    with pytest.raises(UninitializedError, match="depends on `%x`, which was never written"):
        outputs("mov.u32 %y, %x; st.global.u32 [%at], %y;")
    # Written on every path that reads it, by guards the analysis cannot see through.
    body = "setp.lt.u32 %p, %i, 70; @%p mov.u32 %x, 1; @!%p mov.u32 %x, 2; st.global.u32 [%at], %x;"
    assert outputs(body) == [1 if i < 70 else 2 for i in range(192)]
    assert outputs("mov.u32 %y, %x; mov.u32 %y, 3; st.global.u32 [%at], %y;") == [3] * 192
    # Never written, and nothing depends on it.
    assert outputs("add.u32 %y, %x, %k; setp.eq.u32 %q, %y, 1; st.global.u32 [%at], 3;") == [3] * 192


def test_traps() -> None:
    with pytest.raises(TrapError, match=r"the kernel executed `trap`; thread \(5, 0, 0\) \(program \(1, 0, 0\)\)"):
        outputs("setp.eq.u32 %p, %i, 69; @%p trap;")


def test_printf() -> None:
    before = """
        .extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
        .global .align 1 .b8 text[] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 32,
            37, 108, 108, 120, 32, 37, 117, 37, 37, 10, 0};
        .global .align 1 .b8 word[3] = {104, 105, 0};
    """  # "%d %.2f %s %llx %u%%\n"
    body = """
        .local .align 8 .b8 depot[40]; .reg .b64 %l, %g, %s; .reg .b32 %i; .reg .pred %p;
        mov.u32 %i, %tid.x; setp.ne.u32 %p, %i, 1; @%p exit;
        mov.b64 %l, depot; st.local.u32 [%l], -5; st.local.f64 [%l+8], 0d4004000000000000;
        mov.b64 %s, word; cvta.global.u64 %s, %s; st.local.u64 [%l+16], %s; st.local.u64 [%l+24], 0xABCDEF0123;
        st.local.u32 [%l+32], %i;
        cvta.local.u64 %l, %l; mov.b64 %g, text; cvta.global.u64 %g, %g;
        { .param .b64 p0; .param .b64 p1; .param .b32 r0; st.param.b64 [p0], %g; st.param.b64 [p1], %l;
          call.uni (r0), vprintf, (p0, p1); ld.param.b32 %i, [r0]; }
    """
    out = io.StringIO()
    run_ptx(load_ptx(module_text(body, (), before)), "k", (2,), (32,), [], stdout=out)
    assert out.getvalue() == "-5 2.50 hi abcdef0123 1%\n" * 2


def test_assertfail() -> None:
    before = """
        .extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
        .global .align 1 .b8 word[3] = {104, 105, 0};
    """
    body = """
        .reg .b64 %s; mov.b64 %s, word; cvta.global.u64 %s, %s;
        { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
          st.param.b64 [p0], %s; st.param.b64 [p1], %s; st.param.b32 [p2], 9; st.param.b64 [p3], %s;
          st.param.b64 [p4], 1;
          call.uni __assertfail, (p0, p1, p2, p3, p4); }
    """
    with pytest.raises(DeviceAssertError, match=r"device assertion failed: hi \(hi:9, in hi\); thread \(0, 0, 0\)"):
        run_ptx(load_ptx(module_text(body, (), before)), "k", (1,), (32,), [])


def test_special_registers() -> None:
    names = ["%tid.y", "%ctaid.z", "%nctaid.y", "%ntid.z", "%laneid", "%warpid", "%lanemask_lt", "%lanemask_ge"]
    text = HEADER + ".visible .entry k(.param .u64 p, .param .u32 w) { .reg .b32 %x, %i, %y, %n; .reg .b64 %at, %o;\n"
    text += """
        mov.u32 %i, %ctaid.z; mov.u32 %y, %nctaid.y; mul.lo.u32 %i, %i, %y; mov.u32 %y, %ctaid.y; add.u32 %i, %i, %y;
        mov.u32 %y, %nctaid.x; mul.lo.u32 %i, %i, %y; mov.u32 %y, %ctaid.x; add.u32 %i, %i, %y;
        mov.u32 %y, %ntid.z; mul.lo.u32 %i, %i, %y; mov.u32 %y, %tid.z; add.u32 %i, %i, %y;
        mov.u32 %y, %ntid.y; mul.lo.u32 %i, %i, %y; mov.u32 %y, %tid.y; add.u32 %i, %i, %y;
        mov.u32 %y, %ntid.x; mul.lo.u32 %i, %i, %y; mov.u32 %y, %tid.x; add.u32 %i, %i, %y;
        ld.param.u64 %at, [p]; mul.wide.u32 %o, %i, 32; add.u64 %at, %at, %o;
    """
    text += "".join(f"mov.u32 %x, {name}; st.global.u32 [%at+{4 * k}], %x;\n" for k, name in enumerate(names)) + "}"
    grid, block = (2, 3, 2), (8, 4, 2)
    out = np.zeros((2, 3, 2, 2, 4, 8, len(names)), np.uint32)
    run_ptx(load_ptx(text), "k", grid, block, [Buffer.of("p", out), 0])
    for cz, _, _, tz, ty, tx in np.ndindex(out.shape[:-1]):
        inside = (tz * 4 + ty) * 8 + tx
        lane = inside % 32
        want = [ty, cz, 3, 2, lane, inside // 32, (1 << lane) - 1, 0xFFFF_FFFF << lane & 0xFFFF_FFFF]
        assert out[cz, 0, 0, tz, ty, tx].tolist() == want


def test_deadlock_names_the_places() -> None:
    body = """
        .loc 1 3 1
        setp.lt.u32 %p, %i, 32; @%p bra A;
        .loc 1 5 1
        bar.sync 1, 64; bra E;
    A:
        .loc 1 8 1
        bar.sync 2, 64;
    E: ret;
    """
    with pytest.raises(BarrierError) as caught:
        outputs(body, grid=1)
    assert str(caught.value) == (
        "?:5:1: every thread that has not exited waits for others\n"
        "  ?:5:1: 32 threads wait in `bar.sync`, for example thread (32, 0, 0) of block (0, 0, 0); "
        "barrier 1 has 32 of 64 arrivals\n"
        "  ?:8:1: 32 threads wait in `bar.sync`, for example thread (0, 0, 0) of block (0, 0, 0); "
        "barrier 2 has 32 of 64 arrivals"
    )
