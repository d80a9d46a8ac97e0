"""Local memory that threads ask for while they run, and give back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.programs import Array, aligned, module_text, run
from tilewright.compiler import AssemblerError, assemble
from tilewright.interpreter import MemoryAccessError, UninitializedError
from tilewright.interpreter.ptx import PtxError
from tools.probes import moves as probe
from tools.probes.machines import Emulator
from tools.probes.move_stack import stack_cases

HEAD = """.reg .b64 %a, %d, %p, %q, %s; .reg .b32 %t, %n, %x, %y; .reg .pred %u; .local .align 4 .b8 own[12];
mov.u32 %t, %tid.x; mul.wide.u32 %d, %t, 4; ld.param.u64 %a, [a]; add.u64 %a, %a, %d; mov.u32 %y, 0;
"""
FUNCTION = """.func (.param .b32 r) f(.param .b32 n)
{ .reg .b32 %n, %x; .reg .b64 %p; .reg .pred %u; ld.param.b32 %n, [n]; alloca.u64 %p, 512; st.local.b32 [%p], %n;
  ld.local.b32 %x, [%p]; add.u32 %x, %x, %x; st.param.b32 [r], %x; setp.eq.u32 %u, %n, 7; @%u ret;
  add.u32 %x, %x, 1; st.param.b32 [r], %x; ret; }"""


def launch(body: str, before: str = "") -> Array:
    """What 64 threads leave, a word each."""
    text = f"{HEAD}{body}\nst.global.b32 [%a], %y; ret;"
    assert assemble("k", module_text(text, "a", before), "sm_90a").cubin
    out = aligned(np.zeros(64, np.uint32))
    run(text, out, block=64, before=before)
    return out


def test_all_cases_leave_what_numpy_says() -> None:
    for move in stack_cases():
        want = probe.expected(move)
        assert want is not None and np.array_equal(probe.left_by(Emulator("sm_90a"), move), want), move.name


def test_threads_ask_for_as_much_as_each_needs() -> None:
    """A table of a thread's own length, filled and added up; variables and other requests are left alone."""
    out = launch("""st.local.u32 [own], 1000; add.u32 %n, %t, 1; shl.b32 %x, %n, 2; cvt.u64.u32 %s, %x;
    alloca.u64 %p, %s, 4; alloca.u64 %q, 8, 4; st.local.u32 [%q], 500; mov.u32 %x, 0; mov.b64 %d, %p;
    FILL: st.local.u32 [%d], %x; add.u64 %d, %d, 4; add.u32 %x, %x, 1; setp.lt.u32 %u, %x, %n; @%u bra FILL;
    ADD: sub.u64 %d, %d, 4; ld.local.u32 %x, [%d]; add.u32 %y, %y, %x; setp.ne.u64 %u, %d, %p; @%u bra ADD;
    ld.local.u32 %x, [own]; add.u32 %y, %y, %x; ld.local.u32 %x, [%q]; add.u32 %y, %y, %x;""")
    assert out.tolist() == [1500 + t * (t + 1) // 2 for t in range(64)]


def test_a_function_gives_back_what_it_took() -> None:
    """Wherever it returns; the caller's own stays."""
    out = launch("""alloca.u64 %p, 256; st.local.u32 [%p+252], %t; mov.u32 %n, 0;
    LOOP: { .param .b32 n; .param .b32 r; add.u32 %x, %n, %t; st.param.b32 [n], %x; call.uni (r), f, (n);
    ld.param.b32 %x, [r]; } add.u32 %y, %y, %x; add.u32 %n, %n, 1; setp.lt.u32 %u, %n, 20; @%u bra LOOP;
    ld.local.u32 %x, [%p+252]; add.u32 %y, %y, %x;""", FUNCTION)  # fmt: skip
    want = [t + sum(2 * (t + n) + (t + n != 7) for n in range(20)) for t in range(64)]
    assert out.tolist() == want


WRONG = {
    "alloca.u64 %p, 1000; alloca.u64 %q, 25, 1;": "`alloca.u64` of 25 bytes: the stack has 1024, 1000 of them in use",
    "alloca.u64 %p, 0xffffffffffffffff;": "the stack has 1024, 0 of them in use",
    "alloca.u64 %p, 24; alloca.u64 %q, 512, 1024;": "512 bytes: the stack has 1024, 24 of them in use",
    "AGAIN: alloca.u32 %x, 8; setp.ne.u32 %u, %x, 0; @%u bra AGAIN;": "8 bytes: the stack has 1024, 1024 of them",
    "stacksave.u64 %s; add.u64 %s, %s, 16; stackrestore.u64 %s;": "`stackrestore.u64` of 0x20, which is not in use",
    "mov.u64 %s, 0; stackrestore.u64 %s;": "`stackrestore.u64` of 0x0, which is not in use",
    "alloca.u64 %p, 16; st.local.b32 [%p+1024], %t;": "out of bounds",
}


@pytest.mark.parametrize("body", WRONG)
def test_what_does_not_fit(body: str) -> None:
    with pytest.raises(MemoryAccessError, match=WRONG[body]):
        launch(body)


UNWRITTEN = (
    "alloca.u64 %p, 16; ld.local.b32 %y, [%p+8];",
    "stacksave.u64 %s; alloca.u64 %p, 16; st.local.b32 [%p+8], %t; stackrestore.u64 %s; alloca.u64 %p, 16;"
    " ld.local.b32 %y, [%p+8];",
    "ld.local.u32 %n, [own]; cvt.u64.u32 %s, %n; and.b64 %s, %s, 15; alloca.u64 %p, %s; st.local.b32 [%p], %t;",
    "ld.local.u32 %n, [own]; and.b32 %n, %n, 0; setp.eq.u32 %u, %n, 0; stacksave.u64 %s; ld.local.u32 %n, [own];"
    " cvt.u64.u32 %d, %n; and.b64 %d, %d, 1; sub.u64 %s, %s, %d; stackrestore.u64 %s;",
)


@pytest.mark.parametrize("body", UNWRITTEN)
def test_what_nobody_wrote(body: str) -> None:
    with pytest.raises(UninitializedError):
        launch(body)


def test_what_is_written_again_is_known() -> None:
    out = launch("""stacksave.u64 %s; alloca.u64 %p, 16; st.local.b32 [%p+8], %t; stackrestore.u64 %s;
    alloca.u64 %p, 16; st.local.b32 [%p+8], 5; ld.local.b32 %y, [%p+8];""")
    assert out.tolist() == [5] * 64


@pytest.mark.parametrize("line", [
    "alloca.u64 %p, 16, 12;", "alloca.u64 %p, 16, 0;", "alloca.u64 %p, 16, %t;", "alloca.b64 %p, 16;",
    "alloca.u64 %x, 16;", "alloca.u64 %p, %x;", "alloca.u64 %p;", "stacksave.b64 %p;", "stacksave.u64 %x;",
    "stackrestore.u64 5;", "stackrestore.u32 %p;", "stackrestore.u64;",
])  # fmt: skip
def test_what_the_assembler_refuses(line: str) -> None:
    with pytest.raises(AssemblerError):
        assemble("k", module_text(f"{HEAD}{line} ret;", "a"), "sm_90a")
    with pytest.raises(PtxError):
        run(f"{HEAD}{line} ret;", np.zeros(64, np.uint32))
