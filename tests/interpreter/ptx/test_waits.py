"""Random warps that set flags, poll for them and meet at barriers: the emulator ends where some schedule does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.ptx.programs import run
from tilewright.interpreter import Options
from tilewright.interpreter.ptx import BarrierError

WARPS, BLOCKS, FLAGS = 3, 2, 3
HEAD = """.shared .align 8 .b8 s[64]; .local .align 4 .b8 l[4]; .reg .b32 %t, %b, %w, %v, %n, %at, %x; .reg .b64 %p;
.reg .pred %q, %one; ld.param.u64 %p, [a]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; shr.u32 %w, %t, 5; mov.u32 %n, 0;
and.b32 %x, %t, 31; setp.eq.u32 %one, %x, 0; shl.b32 %at, %w, 2; mov.u32 %x, s; add.u32 %at, %at, %x;
mad.lo.u32 %b, %b, 3, %w; T: .branchtargets W0, W1, W2, W3, W4, W5; brx.idx %b, T;
"""
ENDS = "setp.eq.u32 %q, %v, 0; @%q bra {label}; bar.warp.sync -1;"
POLLS = (
    "{label}: ld.acquire.gpu.global.u32 %v, [%p+{flag}];" + ENDS,
    "{label}: nanosleep.u32 20; atom.acquire.gpu.global.or.b32 %v, [%p+{flag}], 0;" + ENDS,
    "mov.u32 %n, 1; {label}: shl.b32 %n, %n, 1; min.u32 %n, %n, 64; ld.volatile.global.u32 %v, [%p+{flag}];" + ENDS,
    "{label}: @%one ld.acquire.gpu.global.u32 %v, [%p+{flag}]; @%one st.shared.u32 [%at], %v; bar.warp.sync -1;"
    "ld.shared.u32 %v, [%at]; bar.warp.sync -1;" + ENDS,
    "{label}: st.local.u32 [l], %b; ld.acquire.gpu.global.u32 %v, [%p+{flag}];" + ENDS,
)
DELAY = "mov.u32 %n, 0; {label}: add.u32 %n, %n, 1; setp.lt.u32 %q, %n, {many}; @%q bra {label}; mov.u32 %n, 0;"

Step = tuple[str, int, int]
steps = st.one_of(
    st.tuples(st.just("set"), st.integers(0, FLAGS - 1), st.just(0)),
    st.tuples(st.just("poll"), st.integers(0, FLAGS - 1), st.integers(0, len(POLLS) - 1)),
    st.tuples(st.just("delay"), st.sampled_from([3, 50, 400]), st.just(0)),
    st.tuples(st.just("meet"), st.just(0), st.just(0)),
)
scripts = st.lists(st.lists(steps, max_size=4), min_size=WARPS * BLOCKS, max_size=WARPS * BLOCKS)


def ends(programs: list[list[Step]]) -> bool:
    """Whether all come to their end: flags are set once and for all, so that the order does not matter."""
    at, flags, moved = [0] * len(programs), set[int](), True
    while moved:
        moved = False
        for number, program in enumerate(programs):
            block = range(number // WARPS * WARPS, (number // WARPS + 1) * WARPS)
            if at[number] == len(program):
                continue
            kind, value, _ = program[at[number]]
            if kind == "meet":
                here = [n for n in block if at[n] < len(programs[n])]
                if all(programs[n][at[n]][0] == "meet" for n in here):
                    moved = True
                    for n in here:
                        at[n] += 1
            elif kind != "poll" or value in flags:
                moved = True
                at[number] += 1
                flags |= {value} if kind == "set" else set()
    return all(place == len(program) for place, program in zip(at, programs, strict=True))


def code(number: int, program: list[Step]) -> str:
    lines = [f"W{number}:"]
    for at, (kind, value, how) in enumerate(program):
        label = f"L{number}_{at}"
        lines.append({
            "set": f"st.release.gpu.global.u32 [%p+{4 * value}], 1;",
            "poll": POLLS[how].format(label=label, flag=4 * value),
            "delay": DELAY.format(label=label, many=value),
            "meet": "bar.sync 0;",
        }[kind])  # fmt: skip
    return "\n".join([*lines, "ret;"])


@settings(max_examples=6)
@given(scripts, st.integers(0, 2))
def test_what_ends_and_what_does_not(programs: list[list[Step]], seed: int) -> None:
    body = HEAD + "\n".join(code(number, program) for number, program in enumerate(programs))
    try:
        run(body, np.zeros(FLAGS, np.uint32), grid=BLOCKS, block=32 * WARPS, options=Options(fuel=400_000, seed=seed))
    except BarrierError as error:
        assert "every thread that has not exited waits for others" in str(error)
        assert not ends(programs)
    else:
        assert ends(programs)
