"""What is told about a deadlock, and of a budget that is spent: who waits where for what, and what may help."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.ptx.programs import run
from tilewright.interpreter import Options, OutOfFuelError
from tilewright.interpreter.ptx import BarrierError

HEAD = """.shared .align 8 .b8 s[16]; .reg .b32 %t, %b, %v, %n, %at; .reg .b64 %p; .reg .pred %one, %q;
ld.param.u64 %p, [a]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, 0; mov.u32 %at, s; setp.eq.u32 %one, %t, 0;
.loc 1 2 1
"""
STUCK = "every thread that has not exited waits for others\n"


def told(body: str, grid: int = 1, block: int = 64, chunk_bytes: int = 1 << 21, dtype: type = np.int32) -> str:
    options = Options(fuel=4_000, chunk_bytes=chunk_bytes)
    with pytest.raises((BarrierError, OutOfFuelError)) as caught:
        run(HEAD + body, np.zeros(4, dtype), grid=grid, block=block, options=options)
    return str(caught.value)


def test_one_thread_and_those_that_have_exited() -> None:
    body = (
        "setp.lt.u32 %q, %t, 3; @!%q exit;\n.loc 1 4 1\nsetp.eq.u32 %q, %t, 1; @%q bar.warp.sync 3; @%q bar.sync 1, 64;"
    )
    assert told(
        body + "\n.loc 1 5 1\n@%one bar.sync 1, 64; setp.eq.u32 %q, %t, 2; @%q exit; bar.warp.sync 3;", block=4
    ) == (
        f"?:4:1: {STUCK}"
        "  ?:4:1: 1 thread waits in `bar.warp.sync`: thread (1, 0, 0) of block (0, 0, 0)\n"
        "  ?:5:1: 1 thread waits in `bar.sync`: thread (0, 0, 0) of block (0, 0, 0); barrier 1 has 1 of 64 arrivals, "
        "and 2 threads of the block have exited"
    )
    assert "1 of 4 arrivals, and 1 thread of the block has exited" in told(
        "setp.eq.u32 %q, %t, 3; @%q exit; @%one bar.sync 1, 4; bar.sync 2, 4;", block=4
    )


def test_polls_are_named_with_what_they_find() -> None:
    body = """@!%one bra W;
        .loc 1 7 5
        L: add.u32 %n, %n, 1; and.b32 %n, %n, 3; setp.ne.u32 %q, %n, 0; @%q bra L;
        .loc 1 8 5
        ld.acquire.gpu.global.u32 %v, [%p+8]; setp.eq.u32 %q, %v, 0;
        .loc 1 9 5
        @%q bra L;
        W: bar.sync 0; ret;
    """
    assert told(body, grid=3) == (
        f"?:8:5: {STUCK}"
        "  ?:8:5: 3 threads of 3 blocks poll by `ld.acquire.gpu.global.u32`, for example thread (0, 0, 0) of block "
        "(0, 0, 0); element 2 of a (int32, shape (4,)) is 0\n"
        "  ?:9:5: 189 threads of 3 blocks wait in `bar.sync`, for example thread (1, 0, 0) of block (0, 0, 0); "
        "barrier 0 has 63 of 64 arrivals"
    )
    assert "element 2 of a (float32, shape (4,)) is 0.0" in told(body, dtype=np.float32)


def test_who_polls_for_the_others() -> None:
    body = "L: bar.sync 0; @%one ld.relaxed.gpu.global.u32 %v, [%p]; @%one st.shared.u32 [%at], %v; bar.sync 0;"
    lines = told(body + "ld.shared.u32 %v, [%at]; setp.eq.u32 %q, %v, 0; @%q bra L; ret;").splitlines()
    assert [line.split(":1: ", 1)[1] for line in lines[1:]] == [
        "1 thread polls by `ld.relaxed.gpu.global.u32`: thread (0, 0, 0) of block (0, 0, 0); element 0 of a (int32, "
        "shape (4,)) is 0",
        "63 threads go along with polls by `ld.relaxed.gpu.global.u32`, for example thread (1, 0, 0) of block "
        "(0, 0, 0)",
    ]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("mbarrier.init.shared.b64 [%at], 1; L: mbarrier.test_wait.parity.shared.b64 %q, [%at], 0;",
         "polls by `mbarrier.test_wait.parity.shared.b64`: thread (0, 0, 0) of block (0, 0, 0); the mbarrier at shared "
         "address 0x0 is in phase 0, 1 of 1 arrivals and 0 bytes short"),
        ("st.shared.u32 [%at+4], 6; L: ld.volatile.shared.u32 %v, [%at+4]; setp.ne.u32 %q, %v, 6;",
         "polls by `ld.volatile.shared.u32`: thread (0, 0, 0) of block (0, 0, 0); what is at shared address 0x4 is 6"),
        ("st.global.u32 [%p], 1; L: atom.acquire.gpu.global.cas.b32 %v, [%p], 0, 1; setp.eq.u32 %q, %v, 0;",
         "polls by `atom.acquire.gpu.global.cas.b32`: thread (0, 0, 0) of block (0, 0, 0); element 0 of a (int32, "
         "shape (4,)) is 1"),
    ],
)  # fmt: skip
def test_other_polls(body: str, what: str) -> None:
    assert what in told(f"{body} @!%q bra L; ret;", block=1)


LATER = (
    "setp.eq.u32 %q, %b, 3; @%q st.release.gpu.global.u32 [%p], 1; @%q exit; L: {} ld.acquire.gpu.global.u32 %v, [%p];"
)
LATER += "setp.eq.u32 %q, %v, 0; @%q bra L; ret;"


@pytest.mark.parametrize("counts", ["", "add.u32 %n, %n, 1;"], ids=["deadlock", "budget"])
def test_blocks_that_have_not_begun_are_told(counts: str) -> None:
    body = LATER.format(counts)
    found = told(body, grid=4, chunk_bytes=3 * 64 * 64)
    assert found.splitlines()[-1].removesuffix(" (program (0, 0, 0))") == (
        "hint: 1 of the grid's 4 blocks has not begun. The emulator runs 3 at once (all with "
        "TILEWRIGHT_CHUNK_BYTES=16384), a GPU as many as fit: where blocks wait for later ones, a GPU may hang as well"
    )
    run(HEAD + body, np.zeros(4, np.int32), grid=4, block=64, options=Options(chunk_bytes=16384))
    assert "2 of the grid's 4 blocks have not begun" in told(body, grid=4, chunk_bytes=2 * 64 * 64)
    assert "hint" not in told(body.replace("%b, 3", "%b, 9"), grid=4)


def test_blocks_that_no_knob_lets_run_at_once() -> None:
    """What threads and engines know of each other is kept for all pairs of a block's threads."""
    body = "@%one mbarrier.init.shared.b64 [%at], 1; " + LATER.format("")
    found = told(body.replace("%b, 3", "%b, 299"), grid=300, block=256, chunk_bytes=1 << 26)
    assert "at once (not all, whatever TILEWRIGHT_CHUNK_BYTES), a GPU" in found
