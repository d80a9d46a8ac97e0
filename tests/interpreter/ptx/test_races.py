"""Races: kernels whose threads talk run without a word when right; each missing barrier, wait and fence is told."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.ptx.happens_before import EVERY, Meet, Step, Touch, ptx, racing
from tests.interpreter.ptx.kernels import KERNELS, START, Kernel
from tests.interpreter.ptx.matmul import matmul
from tests.interpreter.ptx.programs import run
from tilewright.compiler import assemble
from tilewright.interpreter import MemoryAccessError, Options, OutOfFuelError
from tilewright.interpreter.ptx import BarrierError, RaceError
from tilewright.lang import TilewrightError

RIGHT = {**KERNELS, "matmul": matmul(128)}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_run_under_every_schedule(name: str, seed: int) -> None:
    after, want, _ = RIGHT[name].run(RIGHT[name].text, seed)
    for got, expected in zip(after, want, strict=True):
        assert np.array_equal(got, expected.astype(got.dtype).reshape(got.shape))


@pytest.mark.parametrize("name", RIGHT)
def test_the_assembler_takes_them(name: str) -> None:
    assert assemble("k", RIGHT[name].text, "sm_90a").cubin


MISSING: dict[str, dict[int, set[tuple[int, int]] | int]] = {
    "tree": {5: {(4, 7)}, 10: {(7, 8), (8, 12)}},
    "warps": {9: {(8, 10)}, 11: {(8, 10)}},
    "pipeline": {
        5: {(4, 8), (4, 14)}, 9: {(4, 8), (4, 14), (8, 8), (8, 14)}, 10: {(4, 8), (4, 14), (8, 8), (8, 14)},
        11: {(4, 14), (8, 14)}, 16: {(8, 14)},
    },
    "stages": {
        5: {(4, 14)}, 7: {(4, 14), (6, 14)}, 9: {(4, 11), (4, 14), (6, 11), (6, 14), (11, 11), (11, 14)},
        10: {(4, 14), (6, 14), (11, 14)}, 12: {(6, 11), (6, 14), (11, 11), (11, 14)},
    },
    "producer": {7: 14, 10: 7, 14: {(9, 15)}, 17: 7},
    "lanes": {5: {(4, 6)}, 7: {(6, 9)}, 10: {(9, 11)}},
    "last": {5: {(4, 16)}, 7: {(4, 16)}, 9: {(4, 16)}, 12: {(4, 16), (10, 13)}},
    "flags": {4: {(3, 12)}, 10: {(3, 12)}},
}  # fmt: skip
"""For each line of a kernel that orders threads what is told when it is deleted: the pairs of lines that race, or the
line of the barrier where the kernel then stands still."""


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_every_deletion_is_reported_with_its_lines(name: str, seed: int) -> None:
    kernel = KERNELS[name]
    assert list(MISSING[name]) == kernel.orders
    for line, expected in MISSING[name].items():
        if isinstance(expected, int):
            with pytest.raises(BarrierError) as stuck:
                kernel.run(kernel.without(line), seed)
            assert (stuck.value.location.source, stuck.value.location.line) == ("k", expected)
            continue
        with pytest.raises(RaceError) as caught:
            kernel.run(kernel.without(line), seed)
        assert pairs(caught.value) == expected
        assert len(caught.value.races) == len(expected)


def pairs(error: RaceError) -> set[tuple[int, int]]:
    """The pairs of lines of a report, the lower first."""
    ends = [(race.first.location.line, race.second.location.line) for race in error.races]
    return {(min(a, b), max(a, b)) for a, b in ends}


def test_every_deletion_in_a_matrix_product_is_reported() -> None:
    kernel = matmul(128)
    copies, loads = (
        {number for number, line in enumerate(kernel.lines, 1) if word in line} for word in ("cp.async.cg", "ldmatrix")
    )
    assert len(kernel.orders) == 5 and len(copies) == 8 and len(loads) == 8
    for line in kernel.orders:
        with pytest.raises(RaceError) as caught:
            kernel.run(kernel.without(line))
        assert all({a, b} <= copies | loads and {a, b} & copies for a, b in pairs(caught.value))


def test_a_report_says_who_did_what_where() -> None:
    kernel = KERNELS["warps"]
    with pytest.raises(RaceError) as caught:
        kernel.run(kernel.without(9))
    (race,) = caught.value.races
    assert str(caught.value) == (
        "k:10:1: race: load of 16 bytes at shared address 0x4 by thread (0, 0, 0) of block (0, 0, 0), not ordered with "
        "the store of 4 bytes at k:8:1 by thread (32, 0, 0) of block (0, 0, 0) (program (0, 0, 0))"
    )
    assert pickle.loads(pickle.dumps(caught.value)).races == (race,)
    assert (race.address, race.first.thread, race.second.block) == ("shared address 0x4", (32, 0, 0), (0, 0, 0))


def test_the_first_at_a_place_has_acquired_from_nobody() -> None:
    """Thread t adds at place t modulo 4, then stores at place 4 + t of the same array, where others have added."""
    body = """
        .reg .b64 %a, %b; .reg .b32 %t, %m, %d; .reg .pred %p;
        ld.param.u64 %a, [a];
        mov.u32 %t, %tid.x; and.b32 %m, %t, 3; mad.wide.u32 %b, %m, 4, %a;
        atom.acq_rel.gpu.global.add.u32 %d, [%b], 1;
        setp.ge.u32 %p, %t, 4; @%p exit;
        xor.b32 %m, %t, 1; mad.wide.u32 %b, %m, 4, %a;
        st.global.u32 [%b], %t;"""
    with pytest.raises(RaceError, match="not ordered with the atomic access"):
        run(body, np.zeros(8, np.uint32))
    waits = body.replace("setp.ge", "bar.sync 0; setp.ge")
    run(waits, places := np.zeros(8, np.uint32))
    assert places.tolist() == [1, 0, 3, 2, 0, 0, 0, 0]


# --- against vector clocks ---

_HALVES = (0xFFFF_FFFF, 0xFFFF_FFFF << 32)
_MASKS = st.one_of(
    st.sampled_from([EVERY, *_HALVES, *(0xFFFF << 16 * k for k in range(4))]),
    st.integers(0, 63).map(lambda t: 1 << t),
    st.integers(1, EVERY),
)
_TOUCHES = st.builds(
    lambda kind, mask, width, stride, first, span: Touch(
        kind, mask, 4 if kind == "atom" else width, stride, first, span
    ),
    st.sampled_from(["ld", "ld", "st", "st", "atom", "peek"]), _MASKS, st.sampled_from([1, 2, 4, 4]),
    st.sampled_from([0, 1, 2, 3, 33, 63]), st.integers(0, 7), st.sampled_from([1, 2, 8, 64]),
)  # fmt: skip
_MEETINGS = st.one_of(
    st.just(Meet("bar", EVERY)),
    st.sampled_from([_HALVES, _HALVES[::-1], (EVERY, 0), (_HALVES[0], 0)]).map(lambda two: Meet("named", *two)),
    st.builds(
        lambda mask, half: Meet("warp", mask << 32 * half),
        st.sampled_from([0xFFFF_FFFF, 0xFFFF, 0xFF, 0xFFFF00, 1 << 31 | 1]), st.integers(0, 1),
    ),
)  # fmt: skip
_FILL: list[Step] = [Touch("st", EVERY, 4, 1, 0, 64), Meet("bar", EVERY)]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(_TOUCHES, _TOUCHES, _MEETINGS), min_size=2, max_size=8), st.integers(0, 3))
def test_races_are_those_of_happens_before(steps: list[Step], seed: int) -> None:
    """What is reported races by vector clocks, and where anything does, something is reported: at every schedule."""
    program = _FILL + steps
    head = ".shared .align 16 .b8 tile[256]; mov.u32 %s0, tile; setp.lt.u32 %q, %t, 32; and.b32 %y, %t, 31;\n"
    kernel = Kernel("book", head + ptx(program), 1, 64, lambda rng: [np.zeros(1, np.uint32)], lambda x: [x])
    found: set[tuple[int, int]] = set()
    try:
        kernel.run(kernel.text, seed)
    except RaceError as error:
        found = {(a - 2, b - 2) for a, b in pairs(error)}
    expected = racing(program)
    assert found <= expected and bool(found) == bool(expected)


# --- what else is one, and what is none ---

TALK = START + """
.reg .b64 %e; .shared .align 16 .b8 s[1024]; ld.param.u64 %a, [a]; mul.wide.u32 %o0, %i, 4; add.u64 %o1, %a, %o0;
mov.u32 %s0, s; shl.b32 %s1, %t, 2; add.u32 %s1, %s0, %s1;
"""  # fmt: skip


def report(body: str, grid: int = 1, block: int = 64, cells: int = 256) -> str:
    """The race of a body with the array `a`; "" if it has none."""
    try:
        run(TALK + body, np.zeros(cells, np.uint32), grid=grid, block=block)
    except RaceError as error:
        return str(error)
    return ""


def test_lanes_that_run_together_are_not_ordered_by_that() -> None:
    body = "setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [s], %t; {} setp.eq.u32 %p, %t, 1; @%p ld.shared.u32 %x, [s];"
    assert "by thread (1, 0, 0) of block (0, 0, 0), not ordered with the store of 4 bytes" in report(body.format(""))
    assert "not ordered" in report(body.format("shfl.sync.bfly.b32 %y, %t, 1, 31, -1;"))
    assert report(body.format("bar.warp.sync -1;")) == ""


def test_one_value_may_be_stored_by_many_but_two_may_not() -> None:
    assert report("st.shared.u32 [s], 7; bar.sync 0; st.shared.u32 [s], 7;") == ""
    assert "by thread (63, 0, 0)" in report("st.shared.u32 [s], %t;")
    assert "store of 4 bytes" in report("st.shared.u32 [s], 7;\nsetp.eq.u32 %p, %t, 3; @%p st.shared.u32 [s], 8;")
    assert report("st.global.u32 [%a], 7;", grid=3) == ""
    assert "at element 0 of a" in report("st.global.u32 [%a], %b;", grid=3)


def test_neighbouring_bytes_of_one_word_are_no_race() -> None:
    place = "add.u32 %x, %s0, %t;"
    assert report(place + "st.shared.u8 [%x], %t; bar.sync 0; ld.shared.u32 %y, [%s1];", block=32) == ""
    assert report(place + "st.shared.u8 [%x], %t; ld.shared.u8 %y, [%x];") == ""
    assert "load of 4 bytes at shared address" in report(place + "st.shared.u8 [%x], %t; ld.shared.u32 %y, [s];")


def test_an_earlier_reader_is_not_forgotten_for_a_later_one() -> None:
    """Threads 0 and 40 read, then 40 again; then 40 writes."""
    body = """
        st.shared.u32 [s], 1; bar.sync 0; setp.eq.u32 %p, %t, 40; setp.eq.u32 %q, %t, 0;
        @%q ld.shared.u32 %x, [s];
        @%p ld.shared.u32 %x, [s];
        @%p ld.shared.u32 %y, [s];
        @%p st.shared.u32 [s], 2;
    """
    assert re.search(r"not ordered with the load of 4 bytes at PTX:\d+:\d+ by thread \(0, 0, 0\)", report(body))
    assert report(body.replace("@%q ld", "@%p ld")) == ""


def test_global_memory_between_threads_of_a_block() -> None:
    body = "st.global.u32 [%o1], %t; {} xor.b32 %x, %t, 63; mul.wide.u32 %o2, %x, 4; add.u64 %o2, %a, %o2;"
    body += "ld.global.u32 %y, [%o2];"
    assert "load of 4 bytes at element 63 of a (uint32, shape (256,)) by thread (0, 0, 0)" in report(body.format(""))
    assert report(body.format("bar.sync 0;")) == ""


def test_a_barrier_orders_nothing_between_blocks() -> None:
    body = "xor.b32 %x, %i, 64; mul.wide.u32 %o2, %x, 4; add.u64 %o2, %a, %o2; ld.global.u32 %y, [%o2]; bar.sync 0;"
    body += "st.global.u32 [%o1], %t;"
    found = report(body, grid=2)
    assert "store of 4 bytes at element 0" in found and "of block (0, 0, 0), not ordered with the load" in found
    assert found.endswith("by thread (0, 0, 0) of block (1, 0, 0) (program (0, 0, 0))")


def test_blocks_that_run_in_different_chunks_race_all_the_same() -> None:
    body = TALK + "setp.eq.u32 %p, %t, 0; @%p st.global.u32 [%a], %b;"
    with pytest.raises(RaceError, match="by thread .0, 0, 0. of block .1, 0, 0., not ordered with the store"):
        run(body, np.zeros(256, np.uint32), grid=3, block=64, options=Options(chunk_bytes=1))


def test_strong_accesses_do_not_race_with_each_other() -> None:
    assert report("atom.global.add.u32 %x, [%a], 1; ld.relaxed.gpu.global.u32 %y, [%a];", grid=3) == ""
    assert "atomic access to 4 bytes" in report("st.global.u32 [%o1], 1; atom.global.add.u32 %x, [%a+8], 1;")
    assert "not ordered with the atomic access" in report("red.global.add.u32 [%a], 1; ld.global.u32 %y, [%a];")


def test_read_only_loads_must_not_see_what_the_launch_wrote() -> None:
    found = report("st.global.u32 [%o1], %t; bar.sync 0; ld.global.nc.u32 %y, [%o1];")
    assert "whose bytes must not change in this launch, beside the store of 4 bytes" in found
    assert report("ld.global.nc.u32 %y, [%o1]; bar.sync 0; st.global.u32 [%o1], %t;") == ""


def test_matrix_rows_belong_to_the_whole_warp() -> None:
    """A lane stores the row whose address it gives: the other lanes read it."""
    body = """
        shl.b32 %x, %t, 4; add.u32 %x, %s0, %x;
        st.shared.v4.u32 [%x], {%t, %t, %t, %t};
        ORDER
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%y, %z, %k, %w}, [%x];
    """
    assert "load of 16 bytes" in report(body.replace("ORDER", ""), block=32)
    assert report(body.replace("ORDER", "bar.warp.sync -1;"), block=32) == ""
    body = body.replace("st.shared.v4.u32 [%x]", "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%x]")
    assert "not ordered with the store of 16 bytes" in report(body.replace("ORDER", ""), block=32)
    assert report(body.replace("ORDER", "bar.warp.sync -1;"), block=32) == ""


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        ("ld.shared.u32 %x, [s+4096];", MemoryAccessError),
        ("L: bra L;", OutOfFuelError),
        ("setp.eq.u32 %p, %t, 0; @%p bar.sync 1, 64;", BarrierError),
    ],
)
def test_what_goes_wrong_after_a_race_is_told_as_the_race(after: str, cause: type[TilewrightError]) -> None:
    body = "st.shared.u32 [%s1], %t; xor.b32 %x, %s1, 4; ld.shared.u32 %y, [%x];"
    with pytest.raises(RaceError) as caught:
        run(TALK + body + after, np.zeros(256, np.uint32), block=64, options=Options(fuel=5000))
    assert isinstance(caught.value.__cause__, cause)


def test_each_pair_of_lines_is_reported_once_and_many_end_the_launch() -> None:
    loop = "mov.u32 %k, 0; L: st.shared.u32 [s], %t; add.u32 %k, %k, 1; setp.lt.u32 %p, %k, 9; @%p bra L;"
    assert len(re.findall("not ordered", report(loop))) == 1
    many = "\n".join("st.shared.u32 [s], %t;" for _ in range(30))
    assert len(re.findall("not ordered", report(many))) == 20


def test_without_checks_nothing_is_looked_for() -> None:
    counters = run(TALK + "st.shared.u32 [s], %t;", np.zeros(256, np.uint32), checks=False)
    assert counters.warps["store"] == 1 and counters.total.shared_requests == 0
