"""Counters: what a warp's accesses cost by plain counting, and what a launch's instructions add up to."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.ptx.kernels import KERNELS, START
from tests.interpreter.ptx.matmul import matmul
from tests.interpreter.ptx.programs import aligned, run
from tilewright.interpreter.ptx import Counters
from tilewright.interpreter.ptx.traffic import wavefronts
from tilewright.lang import Location

HEAD = START + """
.shared .align 16 .b8 s[16384]; .reg .b64 %v; mov.b64 %v, 1; mov.u32 %s0, s; ld.param.u64 %a, [a];
"""  # fmt: skip
STORES = {
    1: "st.shared.u8 [%z], %t;", 2: "st.shared.u16 [%z], %t;", 4: "st.shared.u32 [%z], %t;",
    8: "st.shared.v2.u32 [%z], {%t, %t};", 16: "st.shared.v4.u32 [%z], {%t, %t, %t, %t};",
}  # fmt: skip


def shared(stride: int, size: int, block: int = 32, grid: int = 1, guard: str = "") -> tuple[int, int, int]:
    """Requests, wavefronts and conflicts of a store by each thread t at `stride * t`."""
    place = f"mul.lo.u32 %z, %t, {stride}; add.u32 %z, %z, %s0;"
    counters = run(HEAD + place + guard + STORES[size], np.zeros(4, np.uint32), block=block, grid=grid)
    total = counters.total
    return total.shared_requests, total.wavefronts, total.conflicts


@pytest.mark.parametrize(
    ("stride", "size", "expected"),
    [
        (4, 4, (1, 1, 0)), (8, 4, (1, 2, 1)), (16, 4, (1, 4, 3)), (128, 4, (1, 32, 31)), (132, 4, (1, 1, 0)),
        (12, 4, (1, 1, 0)), (1, 1, (1, 1, 0)), (2, 2, (1, 1, 0)), (4, 1, (1, 1, 0)), (64, 2, (1, 16, 15)),
        (8, 8, (1, 2, 0)), (16, 8, (1, 4, 2)), (128, 8, (1, 32, 30)), (136, 8, (1, 2, 0)),
        (16, 16, (1, 4, 0)), (32, 16, (1, 8, 4)), (128, 16, (1, 32, 28)), (144, 16, (1, 4, 0)),
    ],
)  # fmt: skip
def test_strides(stride: int, size: int, expected: tuple[int, int, int]) -> None:
    assert shared(stride, size) == expected


def test_all_warps_of_all_blocks_are_counted_and_lanes_that_do_not_take_part_are_not() -> None:
    assert shared(4, 4, block=128, grid=3) == (12, 12, 0)
    assert shared(8, 4, block=128, grid=3) == (12, 24, 12)
    assert shared(8, 4, block=80, grid=2) == (6, 10, 4)  # the last warp has 16 lanes: one wavefront
    odd = "and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 1; @%p "
    assert shared(4, 4, block=64, guard=odd) == (2, 2, 0)
    assert shared(64, 4, block=64, guard=odd) == (2, 32, 30)
    assert shared(4, 4, block=64, guard="setp.ge.u32 %p, %t, 32; @%p ") == (1, 1, 0)


def test_a_word_goes_to_any_number_of_lanes_at_once() -> None:
    body = (
        HEAD + "shl.b32 %z, %t, 2; add.u32 %z, %z, %s0; st.shared.u32 [%z], %t; bar.sync 0; {} ld.shared.u32 %x, [%z];"
    )
    for place in ("mov.u32 %z, %s0;", "and.b32 %z, %t, 24; shl.b32 %z, %z, 2; add.u32 %z, %z, %s0;"):
        total = run(body.format(place), np.zeros(4, np.uint32)).total
        assert (total.shared_requests, total.wavefronts) == (2, 2)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 3), st.data())
def test_wavefronts_by_plain_counting(size: int, requests: int, data: st.DataObject) -> None:
    places = st.lists(st.one_of(st.none(), st.integers(0, 255)), min_size=32, max_size=32)
    lanes = [[-1 if p is None else p * size for p in data.draw(places)] for _ in range(requests)]
    expected = phases = 0
    each = 32 // max(1, size // 4)
    for row in lanes:
        for first in range(0, 32, each):
            banks: dict[int, set[int]] = defaultdict(set)
            for address in row[first : first + each]:
                for word in range(address // 4, address // 4 + max(1, size // 4)) if address >= 0 else ():
                    banks[word % 32].add(word)
            expected += max(map(len, banks.values()), default=0)
            phases += bool(banks)
    assert wavefronts(size, np.array(lanes)) == (expected, phases)


def sectors(place: str, operation: str = "ld.global.u32 %x, [%o1];", block: int = 32) -> tuple[int, int]:
    """Requests and sectors of an access."""
    total = run(
        HEAD + place + "add.u64 %o1, %a, %o1;" + operation, aligned(np.zeros(4096, np.uint32)), block=block
    ).total
    return total.global_requests, total.sectors


@pytest.mark.parametrize(
    ("stride", "size", "expected"),
    [(4, 4, (1, 4)), (0, 4, (1, 1)), (8, 4, (1, 8)), (32, 4, (1, 32)), (1, 1, (1, 1)), (8, 8, (1, 8)),
     (16, 16, (1, 16)), (64, 16, (1, 32)), (36, 4, (1, 32))],
)  # fmt: skip
def test_sectors(stride: int, size: int, expected: tuple[int, int]) -> None:
    operation = STORES[size].replace("shared", "global").replace("%z", "%o1").replace("%t", "%b")
    assert sectors(f"mul.wide.u32 %o1, %t, {stride};", operation) == expected


def test_sectors_in_any_order_and_of_one_address_for_all() -> None:
    assert sectors("xor.b32 %x, %t, 21; mul.wide.u32 %o1, %x, 4;") == (1, 4)
    assert sectors("mul.lo.u32 %x, %t, 5; and.b32 %x, %x, 31; mul.wide.u32 %o1, %x, 4;", block=64) == (2, 8)
    assert sectors("mov.u64 %o1, 8;", block=96) == (3, 3)
    assert sectors("mul.wide.u32 %o1, %t, 4; add.u64 %o1, %o1, 16;") == (1, 5)


def line(counters: Counters, number: int) -> dict[str, int]:
    """The counts of a line of a kernel, but for zeros."""
    row = counters.lines[Location("k", number, 0)]
    return {name: getattr(row, name) for name in row.__slots__ if getattr(row, name)}


def test_lines() -> None:
    *_, counters = KERNELS["warps"].run(KERNELS["warps"].text)
    assert line(counters, 8) == {"threads": 512, "warps": 16, "shared_requests": 16, "wavefronts": 16, "lanes": 16}
    assert line(counters, 9) == {"threads": 512, "warps": 16, "waits": 16}
    assert line(counters, 10) == {"threads": 512, "warps": 16, "shared_requests": 16, "wavefronts": 64, "lanes": 512}
    stored = {"global_requests": 8, "sectors": 32, "store_requests": 8, "store_sectors": 32}
    assert line(counters, 14) == {"threads": 256 * 5, "warps": 8 * 5, "lanes": 256} | stored
    assert [where.line for where in counters.lines if where.source == "k"] == list(range(2, 15))


def test_a_swizzled_matrix_product_has_no_conflicts() -> None:
    kernel = matmul(128)
    *_, counters = kernel.run(kernel.text)
    total = counters.total
    assert total.conflicts == 0
    assert total.tensor == counters.warps["mma"] == 128**3 // (16 * 8 * 16)
    warps, turns = 4 * 4, 4
    copies, loads, stores = warps * turns * 4, warps * turns * 8, warps * 16
    assert (total.shared_requests, total.wavefronts) == (copies + loads, 4 * (copies + loads))
    assert (total.global_requests, total.waits) == (copies + stores, warps * turns * 2)
    unswizzled = kernel.text.replace("xor.b32 %k, %k, %n; and.b32 %k, %k, 3", "mov.u32 %k, %n; and.b32 %k, %k, 3")
    assert unswizzled != kernel.text
    *_, counters = kernel.run(unswizzled.replace("xor.b32 %n, %n, %m0;", "mov.u32 %n, %m0;"))
    assert counters.total.conflicts > 0


def test_named_barriers_count_waits_but_not_arrivals() -> None:
    *_, counters = KERNELS["producer"].run(KERNELS["producer"].text)
    assert (line(counters, 14)["waits"], line(counters, 7)["waits"]) == (2 * 2 * 6, 2 * 2 * 4)
    assert "waits" not in line(counters, 10)


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", 1),
        ("bar.arrive 1, 64; bar.sync 0;", 1),
        ("barrier.sync 2; fence.acq_rel.cta; membar.gl;", 1),
        ("@%p mbarrier.init.shared::cta.b64 [s], 64; bar.sync 0; mbarrier.arrive.shared::cta.b64 %v, [s];"
         "W: mbarrier.try_wait.shared::cta.b64 %q, [s], %v; @!%q bra W;", 2),
    ],
)  # fmt: skip
def test_what_waits_for_others(body: str, waits: int) -> None:
    counters = run(f"{HEAD} setp.eq.u32 %p, %t, 0; {body}", np.zeros(4, np.uint32), block=64, grid=2)
    assert counters.total.waits == 2 * 2 * waits


@pytest.mark.parametrize(
    ("operation", "requests"),
    [
        ("ld.global.u32 %x, [%a];", (1, 0, 0)),
        ("st.global.u32 [%a], 1;", (1, 1, 0)),
        ("red.relaxed.gpu.global.add.u32 [%a], 1;", (1, 1, 0)),
        ("atom.relaxed.gpu.global.exch.b32 %x, [%a], %t;", (1, 1, 0)),
        ("cp.async.ca.shared.global [%s0], [%a], 4; cp.async.wait_all;", (1, 0, 1)),
    ],
)
def test_stores_among_the_requests(operation: str, requests: tuple[int, int, int]) -> None:
    total = run(f"{HEAD} setp.eq.u32 %p, %t, 0; @%p {operation}", aligned(np.zeros(4, np.uint32))).total
    assert (total.global_requests, total.store_requests, total.shared_requests) == requests
    assert (total.sectors, total.store_sectors) == requests[:2]


def test_the_table() -> None:
    body = START + ".loc 1 7 1\nld.param.u64 %a, [a]; mul.wide.u32 %o0, %t, 4; add.u64 %a, %a, %o0;\n"
    body += ".loc 1 9 1\nld.global.u32 %x, [%a];\n.loc 1 10 1\nbar.sync 0; st.global.u32 [%a], %x;"
    counters = run(body.replace("mov.u32 %t", ".loc 1 2 1\nmov.u32 %t", 1), aligned(np.zeros(80, np.uint32)), block=64)
    assert counters.table().splitlines() == [
        "line  warps  global  sectors  per request  shared  wavefronts  conflicts  tensor  waits",
        "?:2       8",
        "?:7       6",
        "?:9       2       2        8         4.00",
        "?:10      4       2        8         4.00                                             2",
        "all      20       4       16         4.00                                             2",
    ]


def test_classes() -> None:
    *_, counters = KERNELS["stages"].run(KERNELS["stages"].text)
    assert counters.threads["async"] == 256 * (4 + 7 * 3) and counters.warps["async"] == 8 * (4 + 7 * 3)
    assert counters.warps["barrier"] == 8 * 7 == counters.total.waits
    assert counters.total.threads == sum(counters.threads.values())
