"""Text that is no PTX, kernels that never end, launches larger than memory: an error that says what, and no crash."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.interpreter.ptx.programs import HEADER
from tilewright.interpreter import Buffer, LaunchError, MemoryAccessError, Options, OutOfFuelError, PtxError, run_ptx
from tilewright.interpreter import load_ptx as load

MOST = 5000
"""Characters of a message, whatever the text."""
BODY = HEADER + ".entry k() { .reg .b32 %r; .reg .pred %p; "
_random = random.Random(0)

JUNK = {
    "nothing": "",
    "zeros": "\0" * 1000,
    "bytes": bytes(_random.randrange(256) for _ in range(1000)).decode("latin1"),
    "bytes behind a header": HEADER + bytes(_random.randrange(256) for _ in range(1000)).decode("latin1"),
    "ten megabytes without an end of line": HEADER + "a" * 10_000_000,
    "a comment without an end": HEADER + "/*" + "x" * 10_000_000,
    "a string without an end": HEADER + '.file 1 "' + "x" * 10_000_000,
    "a number of ten megabytes": HEADER + ".global .u32 x = " + "9" * 10_000_000 + ";",
    "a number that is not octal": HEADER + ".global .u32 x = 0189;",
    "the number of a file": HEADER + ".file " + "9" * 5000 + ' "x"',
    "blocks in blocks": BODY + "{" * 50_000,
    "vectors in vectors": BODY + "mov.b32 %r, " + "{" * 50_000,
    "signs before signs": BODY + "mov.b32 %r, " + "-" * 50_000,
    "negations": BODY + "mov.pred %p, " + "!" * 50_000,
    "initial values": HEADER + ".global .u32 x[2] = " + "{" * 50_000,
    "guards": BODY + "@%p " * 10_000,
    "too many registers": BODY + ".reg .b32 %x<2000000000>; ret; }",
    "fewer registers than none": BODY + ".reg .b32 %x<-5>; ret; }",
    "an array larger than any memory": HEADER + ".global .b8 x[1000000][1000000][1000000];",
    "an array of less than nothing": HEADER + ".shared .b8 x[-1];",
    "a parameter larger than any memory": HEADER + ".entry k(.param .b8 x[1000000000000]) { ret; }",
}


@pytest.mark.parametrize("case", JUNK)
def test_junk_is_an_error_with_a_place(case: str) -> None:
    with pytest.raises(PtxError) as caught:
        load(JUNK[case])
    assert str(caught.value).startswith("PTX line ") and len(str(caught.value)) < MOST


def test_every_cut_and_every_changed_character_is_an_error_or_none() -> None:
    """Nothing else is raised, whatever one character is."""
    text = BODY + "mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 0x10; @%p bra L; add.s32 %r, %r, {1, 2}; L: ret; }"
    for at in range(len(HEADER), len(text)):
        for new in ("", "{", ";", "\0", "9", "-"):
            try:
                load(text[:at] + new + text[at + 1 :])
            except PtxError as error:
                assert str(error).startswith("PTX line ")


def test_a_kernel_that_never_ends_says_where() -> None:
    module = load(BODY + "mov.u32 %r, 0;\nL: add.u32 %r, %r, 1;\nbra L; }")
    with pytest.raises(OutOfFuelError, match="still running after 10000 instructions") as caught:
        run_ptx(module, "k", (2,), (32,), [], Options(fuel=10_000))
    assert caught.value.location.line in (5, 6)


def test_a_grid_of_most_blocks_ends_with_its_fuel() -> None:
    """2^31 blocks that do nothing, and as many that would need more memory than there is to check them all."""
    module = load(BODY + "mov.u32 %r, 0; ret; }")
    with pytest.raises(OutOfFuelError):
        run_ptx(module, "k", (2**31 - 1,), (32,), [], Options(fuel=100))


def test_a_launch_larger_than_memory_is_refused() -> None:
    text = HEADER + (
        ".entry k(.param .u64 p) { .local .b8 x[4000000000]; .reg .b64 %a, %b; .reg .b32 %r; ld.param.u64 %a, [p]; "
        "mov.b64 %b, x; ld.local.b32 %r, [%b]; st.global.b32 [%a], %r; ret; }"
    )
    array = np.zeros(4, np.uint32)
    out = Buffer.of("out", array)
    with pytest.raises(LaunchError, match="more memory than there is, for a grid of"):
        run_ptx(load(text), "k", (1 << 14, 64), (1024,), [out])
    with pytest.raises(LaunchError, match="bytes of shared memory; the largest is"):
        run_ptx(load(text), "k", (1,), (32,), [out], shared_bytes=1 << 40)
    with pytest.raises(LaunchError, match="a block has 1 to 1024 threads"):
        run_ptx(load(text), "k", (1,), (1 << 40,), [out])
    store = load(HEADER + ".entry k(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.global.b32 [%a], 7; ret; }")
    run_ptx(store, "k", (1,), (1,), [out])
    assert array[0] == 7
    with pytest.raises(MemoryAccessError):
        run_ptx(store, "k", (1,), (1,), [2**40])
