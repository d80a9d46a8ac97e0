"""128 bits at once: registers taken apart and put together, memory, atomics, and what is checked of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.programs import Array, aligned, module_text, run
from tilewright.compiler import AssemblerError, assemble
from tilewright.interpreter import BarrierError, MemoryAccessError, RaceError, UninitializedError
from tilewright.interpreter.ptx import PtxError, load_ptx
from tools.probes import moves as probe
from tools.probes.machines import Emulator
from tools.probes.move_wide import wide_cases

EMULATOR = Emulator("sm_90a")
HEAD = """.reg .b128 %q<6>; .reg .b64 %a, %b, %z, %d<8>; .reg .b32 %t, %s, %c, %x<8>; .reg .b16 %h<8>; .reg .pred %p;
.shared .align 16 .b8 s[1024]; .local .align 16 .b8 l[32]; .const .align 16 .b8 k[16] = {1}; mov.u32 %t, %tid.x;
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mul.wide.u32 %z, %t, 16; add.u64 %a, %a, %z; add.u64 %b, %b, %z;
mov.u32 %c, l; mov.u32 %s, s; shl.b32 %x0, %t, 4; add.u32 %s, %s, %x0;
"""


def launch(body: str) -> tuple[Array, Array]:
    """Run a body on 32 threads, 16 bytes each: what they read, and what they have written."""
    words = np.arange(64, dtype=np.uint64).reshape(32, 2) * np.uint64(0x0123_4567_89AB_CDEF)
    given, out = aligned(words), aligned(np.zeros((32, 2), np.uint64))
    run(f"{HEAD}{body}\nret;", given, out)
    return given, out


@pytest.mark.parametrize("start", range(4))
def test_all_cases_leave_what_numpy_says(start: int) -> None:
    cases = [*wide_cases()][start::4]
    assert len(cases) > 60
    for move in cases:
        want = probe.expected(move)
        assert want is not None and np.array_equal(probe.left_by(EMULATOR, move), want), move.name


def test_some_threads_write_a_register() -> None:
    body = "mov.b128 %q0, 7; setp.lt.u32 %p, %t, 5; @%p ld.global.b128 %q0, [%a]; st.global.b128 [%b], %q0;"
    given, out = launch(body)
    assert np.array_equal(out[:5], given[:5]) and np.array_equal(out[5:], np.tile(np.array([7, 0], np.uint64), (27, 1)))


def test_a_parameter_of_a_function_has_128_bits() -> None:
    before = """.func (.reg .b128 r) swap (.param .b128 x) { .reg .b128 %q; .reg .b64 %l, %h;
        ld.param.b128 %q, [x]; mov.b128 {%l, %h}, %q; mov.b128 r, {%h, %l}; ret; }"""
    body = f"""{HEAD} ld.global.b128 %q0, [%a]; {{ .param .b128 x; st.param.b128 [x], %q0;
        call (%q1), swap, (x); }} st.global.b128 [%b], %q1; ret;"""
    given, out = aligned(np.arange(64, dtype=np.uint64)), aligned(np.zeros(64, np.uint64))
    run(body, given, out, before=before)
    assert np.array_equal(out.reshape(32, 2), given.reshape(32, 2)[:, ::-1])


def test_all_threads_change_one_cell() -> None:
    """Compare and swap of both halves: a sum, and the XOR of all; one thread after the other."""
    body = """ld.param.u64 %b, [b]; ld.global.b64 %d4, [%a]; ld.volatile.global.b128 %q0, [%b];
    AGAIN: mov.b128 {%d0, %d1}, %q0; add.u64 %d2, %d0, %d4; xor.b64 %d3, %d1, %d4; mov.b128 %q1, {%d2, %d3};
    atom.relaxed.gpu.global.cas.b128 %q2, [%b], %q0, %q1; mov.b128 {%d5, %d6}, %q2; mov.b128 %q0, %q2;
    setp.eq.u64 %p, %d5, %d0; setp.eq.and.u64 %p, %d6, %d1, %p; @!%p bra AGAIN;"""
    given, out = launch(body)
    own = given[:, 0]
    assert out[0].tolist() == [int(own.sum()), int(np.bitwise_xor.reduce(own))]


WRONG = {
    "ld.global.b128 %q0, [%a+8];": "load of 16 bytes at .* misaligned, .* is no multiple of 16",
    "st.shared.b128 [%s+8], %q0;": "store of 16 bytes at shared address 0x8: misaligned, it needs a multiple of 16",
    "atom.global.exch.b128 %q1, [%a+4], %q0;": "atomic access to 16 bytes at .* misaligned",
    "ld.b128 %q0, [%a+16];": "load of 16 bytes at .* in no argument",
    "st.local.b128 [%c+32], %q0;": "store of 16 bytes at local address 0x20, out of bounds",
    "mov.u64 %z, k; cvta.const.u64 %z, %z; st.b128 [%z], %q0;": "read-only",
}


@pytest.mark.parametrize("line", WRONG)
def test_where_an_access_may_not_be(line: str) -> None:
    with pytest.raises(MemoryAccessError, match=WRONG[line]):
        launch(f"mov.b128 %q0, 0; {line}")


OTHERS = "mov.u32 %x1, s; xor.b32 %x2, %t, 1; shl.b32 %x2, %x2, 4; add.u32 %x1, %x1, %x2; ld.shared.b128 %q1, [%x1];"
PASSED = f"ld.global.b128 %q0, [%a]; st.shared.b128 [%s], %q0; bar.sync 0; {OTHERS} st.global.b128 [%b], %q1;"


def test_who_reads_what_others_write_waits_for_them() -> None:
    given, out = launch(PASSED)
    assert np.array_equal(out, given[np.arange(32) ^ 1])
    with pytest.raises(RaceError, match="16 bytes"):
        launch(PASSED.replace("bar.sync 0;", ""))
    meet = "mov.b128 %q0, {%d0, %d1}; ld.param.u64 %b, [b]; st.global.b128 [%b], %q0;"
    launch(f"mov.u64 %d0, 5; mov.u64 %d1, 6; {meet}")
    with pytest.raises(RaceError):  # of the high halves alone
        launch(f"mov.u64 %d0, 5; cvt.u64.u32 %d1, %t; {meet}")
    launch(f"mov.u64 %d0, 5; cvt.u64.u32 %d1, %t; {meet.replace('st', 'st.relaxed.gpu')}")


HALF = "st.shared.b64 [%s], %z; ld.shared.b128 %q0, [%s];"
UNWRITTEN = {
    "shared": HALF,
    "copied": f"{HALF} mov.b128 %q1, %q0; mov.b128 %q0, %q1;",
    "put together": ".reg .b64 %none; mov.b128 %q0, {%z, %none};",
    "of four": ".reg .b32 %none; mov.b128 %q0, {%x0, %t, %x0, %none};",
    "local": "st.local.b64 [%c], %z; ld.local.b128 %q0, [%c];",
    "kept in local memory": f"{HALF} st.local.b128 [%c], %q0; mov.b128 %q0, 0; ld.local.b128 %q0, [%c];",
    "exchanged": "st.shared.b64 [%s], %z; mov.b128 %q1, 0; atom.shared.exch.b128 %q0, [%s], %q1;",
}


@pytest.mark.parametrize("body", UNWRITTEN.values(), ids=UNWRITTEN)
def test_halves_that_nobody_wrote(body: str) -> None:
    launch(f"{body} mov.b128 {{%d0, %d1}}, %q0; st.global.b64 [%b], %d0;")
    launch(f"{body} st.global.b64 [%b], %q0;")
    launch(f"{body} mov.b128 {{%x1, %x2, %x3, %x4}}, %q0; st.global.v2.b32 [%b], {{%x1, %x2}};")
    for store in ("mov.b128 {%d0, %d1}, %q0; st.global.b64 [%b], %d1;", "st.global.b128 [%b], %q0;",
                  "mov.b128 {%x1, %x2, %x3, %x4}, %q0; st.global.b32 [%b], %x4;"):  # fmt: skip
        with pytest.raises(UninitializedError):
            launch(f"{body} {store}")


def test_nothing_is_compared_with_what_nobody_wrote() -> None:
    with pytest.raises(UninitializedError, match="atomic access to 16 bytes of shared memory that nobody wrote"):
        launch("st.shared.b64 [%s], %z; mov.b128 %q1, 0; atom.shared.cas.b128 %q0, [%s], %q1, %q1;")


def test_a_lock_that_nobody_opens_is_a_deadlock() -> None:
    body = """mov.b128 %q0, 0; mov.b128 %q1, 1; ld.param.u64 %b, [b];
    AGAIN: atom.acquire.gpu.global.cas.b128 %q2, [%b], %q0, %q1; mov.b128 {%d0, %d1}, %q2;
    setp.ne.u64 %p, %d0, 0; @%p bra AGAIN;"""
    with pytest.raises(BarrierError, match="31 threads poll by `atom.acquire.gpu.global.cas.b128`"):
        launch(body)


REFUSED = (
    "mov.b128 %q0, %d0;", "mov.b128 %d0, %q0;", "mov.b128 %q0, {%d0};", "mov.b128 %q0, {%d0, %d1, %d2};",
    "mov.b128 %q0, {%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7};", "mov.b128 %q0, {%x0, %x1};", "mov.b64 %d0, %q0;",
    "mov.b128 %q0, 0d3FF0000000000000;", "mov.b128 %q0, %tid.x;", "ld.global.b128 %d0, [%a];",
    "st.global.b128 [%a], %d0;", "ld.global.v2.b128 {%q0, %q1}, [%a];", "ld.global.u128 %q0, [%a];",
    "and.b128 %q0, %q1, %q2;", "selp.b128 %q0, %q1, %q2, %p;", "setp.eq.b128 %p, %q0, %q1;",
    "shfl.sync.idx.b128 %q0, %q1, 0, 31, -1;", "atom.global.add.b128 %q0, [%a], %q1;",
    "atom.global.cas.L2::cache_hint.b128 %q0, [%a], %q1, %q2, %d0;", "atom.global.exch.b128 %d0, [%a], %q1;",
    "atom.local.exch.b128 %q0, [%c], %q1;", "red.global.exch.b128 [%a], %q0;",
)  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_what_the_assembler_refuses(line: str) -> None:
    text = module_text(f"{HEAD}{line} ret;", "ab")
    with pytest.raises(AssemblerError):
        assemble("k", text, "sm_90a")
    with pytest.raises(PtxError):
        run(f"{HEAD}{line} ret;", *(np.zeros(64, np.uint64),) * 2)


def test_constants_and_variables() -> None:
    text = """.global .align 16 .b128 pair[2]; """
    body = f"{HEAD} mov.b128 %q0, 0x8000000000000000; mov.b128 {{%d0, %d1}}, %q0; st.global.v2.b64 [%b], {{%d0, %d1}};"
    body += " mov.u64 %z, pair; st.global.b128 [%z+16], %q0; ret;"
    assert assemble("k", module_text(body, "ab", text), "sm_90a").cubin
    assert load_ptx(module_text(body, "ab", text)).variables["pair"].size == 32
    out = aligned(np.zeros(64, np.uint64))
    run(body, out, out, before=text)
    assert out.reshape(32, 2)[0].tolist() == [1 << 63, 0]
