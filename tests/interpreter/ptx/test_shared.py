"""Shared memory that nobody wrote, and barriers that not all threads come to."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.kernels import START
from tests.interpreter.ptx.programs import module_text, run
from tilewright.interpreter import Options
from tilewright.interpreter.ptx import BarrierError, RaceError, UninitializedError, load_ptx

HEAD = START + """
.shared .align 16 .b8 s[1024]; ld.param.u64 %a, [a]; mul.wide.u32 %o0, %i, 4; add.u64 %o1, %a, %o0;
mov.u32 %s0, s; .reg .b16 %g, %h; shl.b32 %s1, %t, 2; add.u32 %s1, %s0, %s1; setp.lt.u32 %p, %t, 32; mov.u32 %k, 77;
"""  # fmt: skip
OUT = "st.global.u32 [%o1], %x;"


def outputs(body: str, block: int = 64, seed: int = 0) -> list[int]:
    out = np.zeros(block, np.uint32)
    run(HEAD + body, out, block=block, options=Options(seed=seed, fuel=10_000))
    return out.tolist()


HARMLESS = {
    "dropped": ("ld.shared.u32 %x, [%s1]; mov.u32 %x, %k;", 77),
    "not chosen": ("ld.shared.u32 %x, [%s1]; setp.gt.u32 %q, %t, 99; selp.u32 %x, %x, %k, %q;", 77),
    "overwritten under a guard": (
        "@%p st.shared.u32 [%s1], %k; ld.shared.u32 %x, [%s1]; @!%p mov.u32 %x, 77;", 77),
    "not loaded under a guard": ("mov.u32 %x, %k; @!%p ld.shared.u32 %x, [%s1]; @!%p mov.u32 %x, 77;", 77),
    "the other half of a vector": (
        "shl.b32 %y, %t, 3; add.u32 %y, %s0, %y; st.shared.u32 [%y], %k; ld.shared.v2.u32 {%x, %z}, [%y];", 77),
    "an element that is dropped": (
        "shl.b32 %y, %t, 3; add.u32 %y, %s0, %y; st.shared.u32 [%y+4], %k; ld.shared.v2.u32 {_, %x}, [%y];", 77),
    "used, but to no end": ("ld.shared.u32 %x, [%s1]; add.u32 %y, %x, 1; mul.lo.u32 %y, %y, %y; mov.u32 %x, %k;", 77),
    "a lane that nobody reads": (
        "@%p st.shared.u32 [%s1], %k; ld.shared.u32 %x, [%s1]; shfl.sync.idx.b32 %x|%q, %x, 0, 31, -1;"
        "selp.b32 %x, %x, 77, %p;", 77),
    "written by an exchange": ("atom.shared.exch.b32 %x, [%s1], %k; ld.shared.u32 %x, [%s1];", 77),
    "the half that is used was written": (
        "st.shared.u16 [%s1], %k; ld.shared.u32 %x, [%s1]; mov.b32 {%h, %g}, %x; cvt.u32.u16 %x, %h;", 77),
    "packed, and only the other half used": (
        "ld.shared.u16 %g, [%s1]; cvt.u16.u32 %h, %k; mov.b32 %x, {%h, %g}; cvt.u32.u16 %x, %h;", 77),
    "the other lane of packed arithmetic": (
        "ld.shared.u16 %g, [%s1]; mov.u16 %h, 77; mov.b32 %x, {%h, %g}; add.u16x2 %x, %x, 0; mov.b32 {%h, _}, %x;"
        "cvt.u32.u16 %x, %h;", 77),
    "stored only in part": (
        "ld.shared.u16 %g, [%s1]; mov.u16 %h, 77; mov.b32 %x, {%h, %g}; st.shared.u16 [%s1], %x; mov.u32 %x, 0;"
        "ld.shared.u16 %x, [%s1];", 77),
    "dropped in a loop": (
        "mov.u32 %y, 0; L: ld.shared.u32 %x, [%s1]; add.u32 %y, %y, 1; setp.lt.u32 %q, %y, 5; @%q bra L;"
        "mov.u32 %x, %k;", 77),
}  # fmt: skip


@pytest.mark.parametrize("case", HARMLESS)
def test_reading_what_nobody_wrote_is_harmless_while_nothing_depends_on_it(case: str) -> None:
    body, value = HARMLESS[case]
    assert outputs(f"{body} {OUT}") == [value] * 64


MATTERS = {
    "stored": ("ld.shared.u32 %x, [%s1];\n{}", "st.global.u32", OUT),
    "stored to shared memory": ("ld.shared.u32 %x, [%s1];\n{}", "st.shared.u32", "st.shared.u32 [%s1], %x;"),
    "computed with": ("ld.shared.u32 %x, [%s1]; add.u32 %x, %x, 1; cvt.u64.u32 %o2, %x; cvt.u32.u64 %x, %o2;\n{}",
                      "st.global.u32", OUT),
    "the half that was not written": (
        "st.shared.u16 [%s1], %k; ld.shared.u32 %x, [%s1]; mov.b32 {{%h, %g}}, %x; cvt.u32.u16 %x, %g;\n{}",
        "st.global.u32", OUT),
    "that lane of packed arithmetic": (
        "st.shared.u16 [%s1], %k;\n.loc 1 4 2\nld.shared.u32 %x, [%s1]; add.u16x2 %x, %x, 0; shr.u32 %x, %x, 16;\n{}",
        "st.global.u32", OUT),
    "the sign of a byte": ("st.shared.u8 [%s1], %k;\n.loc 1 4 2\nld.shared.s16 %x, [%s1]; shr.u32 %x, %x, 24;\n{}",
                           "st.global.u32", OUT),
    "an address": ("ld.shared.u32 %x, [%s1]; and.b32 %x, %x, 28; add.u32 %x, %s0, %x;\n{}", "ld.shared.u32",
                   "ld.shared.u32 %y, [%x];"),
    "a branch": ("ld.shared.u32 %x, [%s1]; setp.gt.u32 %q, %x, 9;\n{} E: ret;", "bra", "@%q bra E;"),
    "a barrier": ("ld.shared.u32 %x, [%s1]; and.b32 %x, %x, 1;\n{}", "bar.sync", "bar.sync %x;"),
    "a guarded store": ("ld.shared.u32 %x, [%s1]; setp.gt.u32 %q, %x, 9;\n{}", "st.global.u32",
                        "@%q st.global.u32 [%o1], %k;"),
    "a lane that is read": ("@!%p st.shared.u32 [%s1], %k; ld.shared.u32 %x, [%s1];"
                            "shfl.sync.bfly.b32 %x, %x, 1, 31, -1;\n{}", "st.global.u32", OUT),
    "an operand of the whole warp": ("ld.shared.u32 %x, [%s1]; redux.sync.add.u32 %x, %x, -1;\n{}", "st.global.u32",
                                     OUT),
    "an atomic": ("ld.shared.u32 %x, [%s1];\n{}", "red.global.add.u32", "red.global.add.u32 [%a], %x;"),
    "the source of a copy": ("ld.shared.u32 %x, [%s1]; cvt.u64.u32 %o2, %x; add.u64 %o2, %a, %o2;\n{}",
                             "cp.async.ca.shared.global", "cp.async.ca.shared.global [%s1], [%o2], 4;"),
}  # fmt: skip


@pytest.mark.parametrize("case", MATTERS)
def test_what_depends_on_unwritten_memory_is_told(case: str) -> None:
    body, opcode, at_fault = MATTERS[case]
    size = 2 if "s16" in body else 4
    with pytest.raises(UninitializedError) as caught:
        outputs(".loc 1 4 2\n" + body.format(f".loc 1 6 3\n{at_fault}"))
    assert str(caught.value) == (
        f"?:6:3: `{opcode}` depends on shared memory that nobody wrote, from the load of {size} bytes at ?:4:2; "
        "thread (0, 0, 0) (program (0, 0, 0))"
    )


def test_only_the_threads_that_used_it_are_at_fault() -> None:
    with pytest.raises(UninitializedError, match=r"thread \(33, 0, 0\)"):
        outputs("setp.ne.u32 %q, %t, 33; @%q st.shared.u32 [%s1], %k; ld.shared.u32 %x, [%s1];" + OUT)


def test_matrix_loads_fill_the_registers_of_all_lanes() -> None:
    body = """
        shl.b32 %y, %t, 4; add.u32 %y, %s0, %y; setp.ne.u32 %q, %t, 5;
        @%q st.shared.v4.u32 [%y], {%k, %k, %k, %k}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x}, [%y];
    """
    with pytest.raises(UninitializedError, match="from the load of 16 bytes"):
        outputs(body + OUT, block=32)
    assert outputs(body.replace("%t, 5;", "%t, 9;") + OUT, block=32) == [77] * 32


def test_a_matrix_load_tells_its_matrices_apart() -> None:
    body = """
        shl.b32 %y, %t, 4; add.u32 %y, %s0, %y; setp.lt.u32 %q, %t, 8;
        @%q st.shared.v4.u32 [%y], {%k, %k, %k, %k}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%x, %z}, [%y];
    """
    assert outputs(body + OUT, block=32) == [77] * 32
    with pytest.raises(UninitializedError, match="from the load of 16 bytes"):
        outputs(body + "st.global.u32 [%o1], %z;", block=32)


def test_atomics_on_unwritten_memory() -> None:
    with pytest.raises(UninitializedError, match="atomic access to 4 bytes of shared memory that nobody wrote; thread"):
        outputs("red.shared.add.u32 [%s1], 1;")
    assert (
        outputs("st.shared.u32 [%s1], 3; atom.shared.add.u32 %x, [%s1], 1; ld.shared.u32 %x, [%s1];" + OUT) == [4] * 64
    )


def test_a_write_in_another_block_initialises_nothing_here() -> None:
    body = HEAD + "setp.eq.u32 %q, %b, 0; @%q st.shared.u32 [%s1], %k; ld.shared.u32 %x, [%s1];" + OUT
    with pytest.raises(UninitializedError, match=r"\(program \(1, 0, 0\)\)"):
        run(body, np.zeros(128, np.uint32), grid=2, block=64)


# --- barriers ---


@pytest.mark.parametrize("seed", range(3))
def test_three_warps_in_a_ring_of_named_barriers(seed: int) -> None:
    """Warp w writes, tells warp w + 1 through barrier w + 1, and reads what warp w - 1 wrote."""
    body = """
        shr.u32 %w, %t, 5; st.shared.u32 [%s1], %t; add.u32 %x, %w, 1; add.u32 %y, %w, 2; setp.eq.u32 %q, %w, 2;
        selp.u32 %y, 1, %y, %q;
        bar.arrive %y, 64;
        bar.sync %x, 64;
        add.u32 %z, %t, 64; rem.u32 %z, %z, 96; shl.b32 %z, %z, 2; add.u32 %z, %s0, %z; ld.shared.u32 %x, [%z];
    """
    assert outputs(body + OUT, block=96, seed=seed) == [(t + 64) % 96 for t in range(96)]
    with pytest.raises(RaceError, match="load of 4 bytes at shared address 0x"):
        outputs(body.replace("add.u32 %z, %t, 64;", "add.u32 %z, %t, 32;") + OUT, block=96, seed=seed)


def test_a_barrier_of_two_warps_says_nothing_to_the_third() -> None:
    body = """
        setp.ge.u32 %q, %t, 64; @%q bra READ;
        st.shared.u32 [%s1], %t;
        bar.sync 1, 64;
        READ: xor.b32 %y, %t, {}; shl.b32 %y, %y, 2; add.u32 %y, %s0, %y; {} ld.shared.u32 %x, [%y];
    """
    assert outputs(body.format(32, "@!%q") + "@!%q " + OUT, block=96)[:64] == [t ^ 32 for t in range(64)]
    with pytest.raises(RaceError, match=r"by thread \(64, 0, 0\) .* not ordered with the store"):
        outputs(body.format(64, "@%q"), block=96)


def test_threads_that_have_exited_are_named() -> None:
    with pytest.raises(BarrierError) as caught:
        outputs(".loc 1 3 1\n@%p exit;\n.loc 1 4 1\nbar.sync 1, 64;")
    assert str(caught.value) == (
        "?:4:1: every thread that has not exited waits for others\n"
        "  ?:4:1: 32 threads wait in `bar.sync`, for example thread (32, 0, 0) of block (0, 0, 0); "
        "barrier 1 has 32 of 64 arrivals, and 32 threads of the block have exited"
    )


def test_threads_that_wait_at_another_barrier_are_named() -> None:
    with pytest.raises(BarrierError) as caught:
        outputs("@%p bra A;\n.loc 1 4 1\nbar.sync 0; bra E;\n.loc 1 6 1\nA: bar.sync 1;\nE: ret;")
    lines = str(caught.value).splitlines()
    assert "?:4:1: 32 threads wait in `bar.sync`" in lines[1] and "barrier 0 has 32 of 64 arrivals" in lines[1]
    assert "?:6:1: 32 threads wait in `bar.sync`" in lines[2] and "barrier 1 has 32 of 64 arrivals" in lines[2]


def test_a_barrier_in_one_arm_of_a_branch_within_a_warp() -> None:
    with pytest.raises(BarrierError, match="barrier divergence: only 10 of the 32 threads of a warp are at `bar.sync`"):
        outputs("setp.lt.u32 %q, %t, 10; @!%q bra E; bar.sync 0; E: bar.sync 0;")


def test_places_without_source_lines_are_those_of_the_ptx() -> None:
    text = module_text(HEAD + "\nbar.sync 0;", "a")
    program = load_ptx(text).programs["k"]
    last = program.blocks[-2].instructions[-1][0]
    where = program.location_of(last)
    assert (where.source, text.splitlines()[where.line - 1][where.column - 1 :]) == ("PTX", "bar.sync 0;")
