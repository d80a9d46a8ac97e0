"""Instructions among threads: barriers, shuffles, votes, and atomics."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interpreter.ptx.programs import evaluate, run
from tilewright.interpreter import Options, UninitializedError
from tilewright.interpreter.ptx import BarrierError

START = """
.reg .b32 %i, %t, %x, %y, %z, %m; .reg .b64 %a, %b, %o; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; mov.u32 %x, %ntid.x; mad.lo.u32 %i, %i, %x, %t;
ld.param.u64 %a, [a]; mul.wide.u32 %o, %i, 4; add.u64 %o, %a, %o;
"""
PUT = "st.global.u32 [%o], %x;"


def outputs(body: str, grid: int = 2, block: int = 64, seed: int = 0) -> list[int]:
    out = np.full(grid * block, 0xDEAD, np.uint32)
    run(START + body, out, grid=grid, block=block, options=Options(seed=seed))
    return out.tolist()


def lane_values(mode: str, b: int, c: int) -> list[tuple[int, bool]]:
    """For each lane the lane it reads and whether that is in range, as the ISA's pseudo code has it."""
    rows = []
    for lane in range(32):
        segment, clamp, step = c >> 8 & 31, c & 31, b & 31
        low, high = lane & segment, (lane & segment) | (clamp & ~segment & 31)
        source = {"up": lane - step, "down": lane + step, "bfly": lane ^ step, "idx": low | (step & ~segment & 31)}[
            mode
        ]
        good = source >= high if mode == "up" else source <= high
        rows.append((source if good else lane, good))
    return rows


WHOLE_WARP = [("up", 0), ("down", 31), ("bfly", 31), ("idx", 31)]
SEGMENTS = [("up", 0x1800), ("down", 0x181F), ("bfly", 0x181F), ("idx", 0x181F), ("idx", 0x0F)]


@pytest.mark.parametrize(("mode", "c"), WHOLE_WARP + SEGMENTS)
def test_shuffles(mode: str, c: int) -> None:
    for b in (0, 1, 5, 16, 31):
        body = f"shfl.sync.{mode}.b32 %x|%p, %i, {b}, {c}, 0xffffffff; selp.u32 %y, 1000, 0, %p; add.u32 %x, %x, %y;"
        want = [
            i - i % 32 + source + 1000 * good for i in range(128) for source, good in [lane_values(mode, b, c)[i % 32]]
        ]
        assert outputs(body + PUT) == want


def test_butterfly_sum() -> None:
    steps = "".join(f"shfl.sync.bfly.b32 %y, %x, {k}, 31, -1; add.u32 %x, %x, %y;" for k in (16, 8, 4, 2, 1))
    assert outputs("mov.u32 %x, %i;" + steps + PUT) == [sum(range(i // 32 * 32, i // 32 * 32 + 32)) for i in range(128)]


def test_shuffle_among_some_lanes_waits_for_them() -> None:
    """Lanes 0 to 15 reach the shuffle in two groups; the others never do."""
    body = """
        and.b32 %x, %t, 31; setp.ge.u32 %p, %x, 16; @%p bra END;
        setp.lt.u32 %q, %x, 3; @!%q bra GO; mov.u32 %y, 0; L: add.u32 %y, %y, 1; setp.lt.u32 %p, %y, 9; @%p bra L;
    GO: shfl.sync.bfly.b32 %x, %i, 15, 31, 0xffff; st.global.u32 [%o], %x;
    END: ret;
    """
    assert outputs(body) == [i ^ 15 if i % 32 < 16 else 0xDEAD for i in range(128)]


def test_votes() -> None:
    body = """
        setp.lt.u32 %p, %i, 70; vote.sync.ballot.b32 %x, %p, 0xffffffff; vote.sync.all.pred %q, %p, -1;
        selp.u32 %y, 1, 0, %q; vote.sync.any.pred %q, %p, -1; selp.u32 %z, 2, 0, %q; add.u32 %y, %y, %z;
        vote.sync.uni.pred %q, %p, -1; selp.u32 %z, 4, 0, %q; add.u32 %y, %y, %z; xor.b32 %x, %x, %y;
    """
    ballots = [0xFFFF_FFFF ^ 7, 0xFFFF_FFFF ^ 7, 0x3F ^ 2, 0 ^ 4]
    assert outputs(body + PUT) == [ballots[i // 32] for i in range(128)]


def test_match_redux_elect() -> None:
    body = "and.b32 %y, %i, 3; match.any.sync.b32 %x, %y, -1;" + PUT
    assert outputs(body) == [0x1111_1111 << i % 4 for i in range(128)]
    body = "shr.u32 %y, %i, 5; match.all.sync.b32 %x|%p, %y, -1; match.all.sync.b32 %y|%q, %i, -1; add.u32 %x, %x, %y;"
    assert outputs(body + PUT) == [0xFFFF_FFFF] * 128
    assert outputs("redux.sync.add.u32 %x, %i, -1;" + PUT)[::32] == [496 + 1024 * k for k in range(4)]
    assert outputs("neg.s32 %y, %i; redux.sync.min.s32 %x, %y, -1;" + PUT)[:1] == [2**32 - 31]
    assert outputs("redux.sync.xor.b32 %x, %i, -1;" + PUT)[:1] == [0]
    assert outputs("elect.sync _|%p, 0xffffffff; selp.u32 %x, 1, 0, %p;" + PUT) == [
        int(i % 32 == 0) for i in range(128)
    ]


def test_warp_faults() -> None:
    with pytest.raises(BarrierError, match="the mask 0x0000ffff does not name the thread itself; thread .16, 0, 0."):
        outputs("shfl.sync.bfly.b32 %x, %i, 1, 31, 0xffff;")
    with pytest.raises(BarrierError, match="the mask names threads that have exited"):
        outputs("setp.eq.u32 %p, %t, 40; @%p exit; shfl.sync.bfly.b32 %x, %i, 1, 31, -1;")
    with pytest.raises(BarrierError, match="reads lane 16, which does not take part; thread .15, 0, 0."):
        outputs("and.b32 %y, %t, 31; setp.ge.u32 %p, %y, 16; @%p exit; shfl.sync.down.b32 %x, %i, 1, 31, 0xffff;")


def test_barriers_order_what_blocks_do() -> None:
    """Warps arrive by different ways and at different times; each then reads what another one stored before."""
    body = """
        .shared .b32 s[128]; .reg .b32 %c;
        shr.u32 %y, %t, 5; mov.u32 %c, 0; mov.u32 %x, %i;
    WORK:
        setp.ge.u32 %p, %c, %y; @%p bra READY; add.u32 %c, %c, 1; add.u32 %x, %x, 1000; bra WORK;
    READY:
        shl.b32 %z, %t, 2; mov.u32 %m, s; add.u32 %z, %m, %z; st.shared.u32 [%z], %x;
        bar.sync 0;
        xor.b32 %z, %t, 127; shl.b32 %z, %z, 2; add.u32 %z, %m, %z; ld.shared.u32 %x, [%z];
    """
    want = [(i ^ 127) + 1000 * ((i ^ 127) % 128 // 32) for i in range(256)]
    assert outputs(body + PUT, block=128) == want


def test_named_barriers_with_counts() -> None:
    """The second half of each block produces and arrives; the first half waits and consumes."""
    body = """
        .shared .b32 s[64]; .reg .b32 %n; mov.u32 %n, 3; shl.b32 %z, %t, 2; mov.u32 %m, s; add.u32 %z, %m, %z;
        setp.lt.u32 %p, %t, 64; @%p bra CONSUME;
        st.shared.u32 [%z+-256], %i; bar.arrive 3, 128; ret;
    CONSUME:
        barrier.sync.aligned %n, 128; ld.shared.u32 %x, [%z]; st.global.u32 [%o], %x;
    """
    assert outputs(body, block=128) == [i + 64 if i % 128 < 64 else 0xDEAD for i in range(256)]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("base", ["bar", "barrier"])
def test_barriers_count_predicates(base: str, seed: int) -> None:
    """Of all threads of a block, though their warps come at different times; in the next round of others."""
    body = f"""
        .reg .b32 %c, %n, %all; .reg .pred %in, %some, %every; shr.u32 %y, %t, 5; mov.u32 %c, 0; mov.u32 %x, 0;
    WORK:
        setp.ge.u32 %p, %c, %y; @%p bra READY; add.u32 %c, %c, 1; bra WORK;
    READY:
        mov.u32 %c, 0;
    ROUND:
        setp.le.u32 %in, %t, %c;
        {base}.red.popc.u32 %n, 1, %in; {base}.cta.red.or.pred %some, 1, 128, !%in; {base}.red.and.pred %every, 1, %in;
        mad.lo.u32 %x, %x, 7, %n; selp.u32 %n, 3, 5, %some; add.u32 %x, %x, %n; selp.u32 %n, 11, 13, %every;
        add.u32 %x, %x, %n; add.u32 %c, %c, 63; setp.lt.u32 %p, %c, 190; @%p bra ROUND;
    """
    want = 0
    for last in (0, 63, 126, 189):
        holds = min(last + 1, 128)
        want = want * 7 + holds + (3 if holds < 128 else 5) + (11 if holds == 128 else 13)
    assert outputs(body + PUT, block=128, seed=seed) == [want] * 256


def test_barriers_that_count_some_threads() -> None:
    """Those that have exited bring nothing; of a number of threads these are counted; what is unwritten is told."""
    counted = "setp.ge.u32 %p, %t, 32; @%p exit; bar.red.popc.u32 %x, 0, !%p;" + PUT
    assert outputs(counted) == [32 if i % 64 < 32 else 0xDEAD for i in range(128)]
    halves = "shr.u32 %y, %t, 6; setp.ge.u32 %p, %t, 80; barrier.red.popc.u32 %x, %y, 64, %p;" + PUT
    assert outputs(halves, block=128) == [0 if i % 128 < 64 else 48 for i in range(256)]
    with pytest.raises(BarrierError, match="`bar.sync`, where others wait that bring predicates"):
        outputs("setp.lt.u32 %p, %t, 32; @%p bra A; bar.red.popc.u32 %x, 0, %p; bra E; A: bar.sync 0; E: ret;")
    with pytest.raises(UninitializedError):
        outputs(".reg .pred %none; bar.red.popc.u32 %x, 0, %none;" + PUT)
    with pytest.raises(BarrierError, match="every thread that has not exited waits"):
        outputs("bar.red.popc.u32 %x, 0, 96, 1;" + PUT)


def test_what_barriers_count_is_ordered() -> None:
    """What threads stored before is there behind."""
    body = """
        .shared .b32 s[128]; shl.b32 %z, %t, 2; mov.u32 %m, s; add.u32 %z, %m, %z; st.shared.u32 [%z], %i;
        setp.eq.u32 %p, %t, 5; bar.red.or.pred %p, 0, %p; @!%p exit;
        xor.b32 %z, %t, 127; shl.b32 %z, %z, 2; add.u32 %z, %m, %z; ld.shared.u32 %x, [%z];
    """
    assert outputs(body + PUT, block=128) == [i ^ 127 for i in range(256)]


def test_exited_threads_are_not_waited_for() -> None:
    body = "setp.ge.u32 %p, %t, 32; @%p exit; bar.sync 0; mov.u32 %x, 1;" + PUT
    assert outputs(body) == [1 if i % 64 < 32 else 0xDEAD for i in range(128)]


def test_barrier_divergence() -> None:
    body = """
        .loc 1 4 2
        setp.lt.u32 %p, %t, 10; @%p bra A; bar.sync 0; bra E;
        .loc 1 6 2
    A: bar.sync 0;
    E: ret;
    """
    with pytest.raises(BarrierError) as caught:
        outputs(body)
    assert str(caught.value) == (
        "?:4:2: barrier divergence: only 22 of the 32 threads of a warp are at `bar.sync`; thread (10, 0, 0) "
        "(program (0, 0, 0))"
    )
    with pytest.raises(BarrierError, match="`bar.sync` of barrier 16, but there are 16"):
        outputs("add.u32 %x, %t, 16; bar.sync %x;")


INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "min": min, "max": max, "exch": lambda a, b: b,
    "inc": lambda a, b: 0 if a >= b else a + 1, "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}  # fmt: skip
CASES = [("add", "u32"), ("add", "s32"), ("add", "u64"), ("and", "b32"), ("or", "b64"), ("xor", "b32"), ("min", "s32"),
         ("min", "u32"), ("max", "s64"), ("max", "u64"), ("exch", "b32"), ("exch", "b64"), 
         ("inc", "u32"), ("dec", "u32")]  # fmt: skip


@pytest.mark.parametrize("space", ["global", ""])
@pytest.mark.parametrize(("op", "kind"), CASES)
def test_integer_atomics(op: str, kind: str, space: str) -> None:
    """Many threads meet at five cells; each sees what those before it left."""
    width = int(kind[1:])
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{width // 8}")
    rng = np.random.default_rng(1)
    values = rng.integers(0, 9 if op in ("inc", "dec") else 1 << width - 1, 96).astype(dtype)
    cells, old = np.arange(5, dtype=dtype), np.zeros(96, dtype)
    reg = f".reg .b{width} %v, %w;"
    body = f"""
        .reg .b32 %i, %x, %k; .reg .b64 %a, %b, %c, %o; {reg} mov.u32 %i, %tid.x; rem.u32 %k, %i, 5;
        ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; mul.wide.u32 %o, %i, {width // 8};
        add.u64 %b, %b, %o; add.u64 %c, %c, %o; mul.wide.u32 %o, %k, {width // 8}; add.u64 %a, %a, %o;
        ld.global.b{width} %v, [%b]; atom.acq_rel.gpu{"." if space else ""}{space}.{op}.{kind} %w, [%a], %v;
        st.global.b{width} [%c], %w;
    """
    want, seen = cells.tolist(), []
    for i, value in enumerate(values.tolist()):
        seen.append(want[i % 5])
        want[i % 5] = int(np.array(INTEGER[op](want[i % 5], value) & (1 << width) - 1, f"u{width // 8}").view(dtype))
    run(body, cells, values, old, block=96)
    assert cells.tolist() == want
    assert old.tolist() == seen
    if op == "exch":
        return
    cells[:] = np.arange(5)
    without = body.replace("atom.acq_rel", "red.relaxed").replace("%w, [%a], %v", "[%a], %v").replace("st.global", "//")
    run(without, cells, values, old, block=96)
    assert cells.tolist() == want


@pytest.mark.parametrize("spelled", ["relaxed.gpu.global", "global.gpu.relaxed", "global.relaxed.gpu"])
def test_compare_and_swap_takes_turns(spelled: str) -> None:
    """Each thread adds its number to one cell by a loop of compare and swap."""
    body = """
        ld.relaxed.gpu.global.u32 %x, [%a];
    TRY:
        add.u32 %y, %x, %t; atom.relaxed.gpu.global.cas.b32 %z, [%a], %x, %y; setp.ne.u32 %p, %z, %x; mov.u32 %x, %z;
        @%p bra TRY;
    """
    out = np.zeros(64, np.uint32)
    run(START + body.replace("atom.relaxed.gpu.global", f"atom.{spelled}"), out, block=64)
    assert out[0] == sum(range(64))


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_float_atomics_round_each_time(kind: str) -> None:
    dtype: Any = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[kind]
    values = np.random.default_rng(2).standard_normal(64).astype(dtype)
    cells, noftz = np.zeros(2, dtype), ".noftz" if kind in ("f16", "bf16") else ""
    width = 8 * cells.itemsize
    body = f"""
        .reg .b32 %i, %k; .reg .b64 %a, %b, %o; .reg .b{width} %v; mov.u32 %i, %tid.x; and.b32 %k, %i, 1;
        ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mul.wide.u32 %o, %i, {width // 8}; add.u64 %b, %b, %o;
        mul.wide.u32 %o, %k, {width // 8}; add.u64 %a, %a, %o; ld.global.b{width} %v, [%b];
        red.relaxed.gpu.global.add{noftz}.{kind} [%a], %v;
    """
    want = np.zeros(2, dtype)
    for i, value in enumerate(values):
        want[i % 2] = dtype(want[i % 2] + value)
    run(body, cells, values, block=64)
    assert cells.view(f"u{width // 8}").tolist() == want.view(f"u{width // 8}").tolist()


def test_float_atomics_flush_in_global_memory_only() -> None:
    cells = np.full(2, 1e-40, np.float32)
    body = """
        .reg .b64 %a; .reg .b32 %x, %y; .shared .b32 s; ld.param.u64 %a, [a]; mov.b32 %x, 0f000116C2;
        st.shared.b32 [s], %x; red.global.add.f32 [%a], %x; atom.shared.add.f32 %y, [s], %x;
        ld.shared.b32 %y, [s]; st.global.b32 [%a+4], %y;
    """
    run(body, cells, block=1)
    assert cells[0] == 0 and cells.view(np.uint32)[1] == 2 * 0x000116C2


def test_vector_atomics() -> None:
    cells = np.arange(4, dtype=np.float32)
    body = "red.relaxed.gpu.global.add.v4.f32 [%a], {0f3F800000, 0f40000000, %x, %x};"
    out = np.zeros(32, np.float32)
    out[:4] = cells
    run(START + "mov.b32 %x, 0f00000000;" + body, out, block=32)
    assert out[:4].tolist() == [32.0, 65.0, 2.0, 3.0]


def test_activemask_counts_the_threads_that_are_here() -> None:
    (got,) = evaluate("activemask.b32 %d0;", np.zeros(40, np.uint32))
    assert got.tolist() == [0xFFFF_FFFF] * 32 + [0xFF] * 8
