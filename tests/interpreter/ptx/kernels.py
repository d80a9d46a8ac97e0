"""Hand-written kernels whose threads talk: through shared memory, asynchronous copies, named barriers and flags.

Line `n` of a kernel's body is line `n` of a source called `k`, so that reports can be checked; what orders the threads
stands on lines of its own. Each kernel checks its own result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.interpreter.ptx.programs import HEADER, aligned
from tilewright.interpreter import Buffer, Options
from tilewright.interpreter.ptx import Counters, load_ptx, run_ptx

Array = NDArray[Any]

ORDERING = re.compile(r"(?:@!?%\w+ )?(?:bar|barrier|membar|fence|cp\.async\.(?:wait|commit))[._][^;]*;")
"""An instruction that orders threads, or waits."""

START = (
    ".reg .b32 %t, %b, %i, %n, %x, %y, %z, %k, %w, %s<10>; .reg .b64 %a, %c, %d, %o<6>; .reg .pred %p, %q, %u;"
    "mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %i, %b, %n, %t;"
)


@dataclass(frozen=True)
class Kernel:
    """A body, one `.u64` parameter for each array, the launch, arrays from a generator, and the result they must give.

    `outcome` returns the arrays after a correct run, given those before it.
    """

    name: str
    body: str
    grid: int
    block: int
    arrays: Callable[[np.random.Generator], Sequence[Array]]
    outcome: Callable[..., Sequence[Array]]
    before: str = ""
    target: str = "sm_90a"

    @property
    def text(self) -> str:
        """The module."""
        return module_of(self, self.body)

    @property
    def orders(self) -> list[int]:
        """The lines of the instructions that order threads."""
        return [number for number, line in enumerate(self.lines, 1) if ORDERING.search(line)]

    @property
    def lines(self) -> list[str]:
        """The lines of the body."""
        return self.body.strip().splitlines()

    def without(self, line: int) -> str:
        """The module with the ordering instruction of a line deleted."""
        lines = self.lines
        lines[line - 1] = ORDERING.sub("", lines[line - 1], count=1)
        return module_of(self, "\n".join(lines))

    def run(self, text: str, seed: int = 0) -> tuple[list[Array], list[Array], Counters]:
        """Run a module on fresh arrays: the arrays after it, what they should be, and what was counted."""
        before = [aligned(x) for x in self.arrays(np.random.default_rng(seed))]
        want = [np.array(x) for x in self.outcome(*(x.copy() for x in before))]
        buffers = [Buffer.of(name, x) for name, x in zip("abcdef", before, strict=False)]
        counters = run_ptx(load_ptx(text), "k", (self.grid,), (self.block,), buffers, Options(seed=seed, fuel=200_000))
        return before, want, counters


def module_of(kernel: Kernel, body: str) -> str:
    """A module whose entry `k` has a body, every line of it marked as that line of the source."""
    count = len(kernel.arrays(np.random.default_rng(0)))
    listed = ", ".join(f".param .u64 {name}" for name in "abcdef"[:count])
    marked = "\n".join(f".loc 1 {n} 1\n{line}" for n, line in enumerate(body.strip().splitlines(), 1))
    header = HEADER.replace("sm_90a", kernel.target)
    return f'{header}.file 1 "k"\n{kernel.before}\n.visible .entry k({listed})\n{{\n{START}\n{marked}\nret;\n}}\n'


def _floats(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Sequence[Array]]:
    """Small whole numbers, whose sums are exact in any order."""
    return lambda rng: [rng.integers(-8, 9, shape).astype(np.float32) for shape in shapes]


TREE = Kernel(
    "tree",
    """
    .shared .align 16 .b8 tile[512]; .reg .f32 %f, %g;
    mul.wide.u32 %o0, %i, 4; ld.param.u64 %a, [a]; add.u64 %a, %a, %o0; ld.global.f32 %f, [%a];
    mov.u32 %s0, tile; shl.b32 %s1, %t, 2; add.u32 %s1, %s0, %s1; mov.u32 %k, 64;
    st.shared.f32 [%s1], %f;
    bar.sync 0;
    LOOP: setp.ge.u32 %p, %t, %k; @%p bra NEXT; shl.b32 %s2, %k, 2; add.u32 %s2, %s1, %s2;
    ld.shared.f32 %g, [%s2];
    add.rn.f32 %f, %f, %g; st.shared.f32 [%s1], %f;
    NEXT: shr.u32 %k, %k, 1;
    bar.sync 0;
    setp.gt.u32 %p, %k, 0; @%p bra LOOP;
    ld.shared.f32 %f, [tile];
    ld.param.u64 %c, [b]; mul.wide.u32 %o1, %i, 4; add.u64 %c, %c, %o1; st.global.f32 [%c], %f;
    """,
    3, 128, _floats((3, 128), (3, 128)),
    lambda x, out: [x, np.repeat(x.sum(1, keepdims=True), 128, 1)],
)  # fmt: skip
"""Each block adds up its numbers by a tree in shared memory."""

WARPS = Kernel(
    "warps",
    """
    .shared .align 16 .b8 tile[32]; .reg .f32 %f, %g, %h<4>; .reg .b32 %r;
    mul.wide.u32 %o0, %i, 4; ld.param.u64 %a, [a]; add.u64 %a, %a, %o0; ld.global.f32 %f, [%a]; mov.u32 %k, 0;
    LOOP: mov.u32 %w, 16;
    STEP: mov.b32 %r, %f; shfl.sync.bfly.b32 %r, %r, %w, 31, -1; mov.b32 %g, %r; add.rn.f32 %f, %f, %g;
    shr.u32 %w, %w, 1; setp.gt.u32 %p, %w, 0; @%p bra STEP;
    and.b32 %x, %t, 31; setp.eq.u32 %q, %x, 0; shr.u32 %y, %t, 5; shl.b32 %y, %y, 2; mov.u32 %s0, tile;
    add.u32 %s1, %s0, %y;
    @%q st.shared.f32 [%s1], %f;
    bar.sync 0;
    ld.shared.v4.f32 {%h0, %h1, %h2, %h3}, [tile];
    bar.sync 0;
    add.rn.f32 %h0, %h0, %h1; add.rn.f32 %h2, %h2, %h3; add.rn.f32 %f, %h0, %h2; mul.rn.f32 %f, %f, 0f3C000000;
    add.u32 %k, %k, 1; setp.lt.u32 %p, %k, 2; @%p bra LOOP;
    ld.param.u64 %c, [b]; mul.wide.u32 %o1, %i, 4; add.u64 %c, %c, %o1; st.global.f32 [%c], %f;
    """,
    2, 128, _floats((2, 128), (2, 128)),
    lambda x, out: [x, np.repeat(x.sum(1, keepdims=True) / 128, 128, 1)],
)  # fmt: skip
"""Two rounds of a reduction by shuffles, with one number of each warp through shared memory."""

PIPELINE = Kernel(
    "pipeline",
    """
    .shared .align 16 .b8 tile[4096]; .reg .f32 %f<4>;
    mul.wide.u32 %o0, %i, 16; ld.param.u64 %a, [a]; add.u64 %a, %a, %o0; ld.param.u64 %c, [b]; add.u64 %c, %c, %o0;
    mov.u32 %s0, tile; shl.b32 %s1, %t, 4; add.u32 %s1, %s0, %s1; mov.u32 %k, 0;
    cp.async.cg.shared.global [%s1], [%a], 16;
    cp.async.commit_group;
    LOOP: add.u32 %x, %k, 1; and.b32 %y, %x, 1; shl.b32 %y, %y, 11; add.u32 %s2, %s1, %y; add.u64 %a, %a, 4096;
    setp.lt.u32 %p, %x, 5; selp.u32 %z, 16, 0, %p;
    cp.async.cg.shared.global [%s2], [%a], 16, %z;
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    and.b32 %y, %k, 1; shl.b32 %y, %y, 11; xor.b32 %w, %t, 127; shl.b32 %w, %w, 4; add.u32 %s3, %s0, %y;
    add.u32 %s3, %s3, %w;
    ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%s3];
    st.global.v4.f32 [%c], {%f3, %f2, %f1, %f0}; add.u64 %c, %c, 4096; add.u32 %k, %k, 1;
    bar.sync 0;
    setp.lt.u32 %p, %k, 5; @%p bra LOOP;
    """,
    2, 128, _floats((5, 2, 512), (5, 2, 512)),
    lambda x, out: [x, x[:, :, ::-1]],
)  # fmt: skip
"""Copies global to shared memory two tiles deep, and reverses each tile on the way back."""

STAGES = Kernel(
    "stages",
    """
    .shared .align 16 .b8 tile[3072]; .reg .f32 %f, %g, %h;
    mul.wide.u32 %o0, %i, 8; ld.param.u64 %a, [a]; add.u64 %a, %a, %o0; mov.u32 %s0, tile; shl.b32 %s1, %t, 3;
    add.u32 %s1, %s0, %s1; mov.f32 %h, 0f00000000; mov.u32 %k, 0; mov.u32 %s4, 0; mov.u32 %s5, 2048;
    cp.async.ca.shared.global [%s1], [%a], 8;
    cp.async.commit_group;
    cp.async.ca.shared.global [%s1+1024], [%a+2048], 8;
    cp.async.commit_group;
    LOOP: add.u64 %a, %a, 2048; add.u32 %x, %k, 2; setp.ge.u32 %p, %x, 7; add.u32 %s2, %s1, %s5;
    cp.async.wait_group 1;
    bar.sync 0;
    @!%p cp.async.ca.shared.global [%s2], [%a+2048], 8;
    cp.async.commit_group;
    xor.b32 %w, %t, 127; shl.b32 %w, %w, 3; add.u32 %s3, %s0, %s4; add.u32 %s3, %s3, %w;
    ld.shared.v2.f32 {%f, %g}, [%s3];
    add.rn.f32 %h, %h, %f; add.rn.f32 %h, %h, %g; add.u32 %s4, %s4, 1024; setp.eq.u32 %q, %s4, 3072;
    selp.u32 %s4, 0, %s4, %q; add.u32 %s5, %s5, 1024; setp.eq.u32 %q, %s5, 3072; selp.u32 %s5, 0, %s5, %q;
    add.u32 %k, %k, 1; setp.lt.u32 %p, %k, 7; @%p bra LOOP;
    ld.param.u64 %c, [b]; mul.wide.u32 %o1, %i, 4; add.u64 %c, %c, %o1; st.global.f32 [%c], %h;
    """,
    2, 128, _floats((7, 2, 256), (2, 128)),
    lambda x, out: [x, x.sum(0).reshape(2, 128, 2).sum(2)[:, ::-1]],
)  # fmt: skip
"""A pipeline of three stages with one barrier a turn, as compilers write it."""

PRODUCER = Kernel(
    "producer",
    """
    .shared .align 16 .b8 tile[512]; .reg .f32 %f;
    mov.u32 %s0, tile; and.b32 %x, %t, 63; shl.b32 %s1, %x, 2; add.u32 %s1, %s0, %s1; mov.u32 %k, 0;
    mad.lo.u32 %y, %b, 64, %x; mul.wide.u32 %o0, %y, 4; ld.param.u64 %a, [a]; add.u64 %a, %a, %o0;
    ld.param.u64 %c, [b]; setp.ge.u32 %p, %t, 64; @%p bra CONSUME;
    MAKE: and.b32 %z, %k, 1; add.u32 %y, %z, 3; shl.b32 %w, %z, 8; add.u32 %s2, %s1, %w; setp.lt.u32 %p, %k, 2;
    ld.global.f32 %f, [%a]; add.u64 %a, %a, 512; @%p bra FILL;
    barrier.sync.aligned %y, 128;
    FILL: add.u32 %y, %z, 1;
    st.shared.f32 [%s2], %f;
    bar.arrive %y, 128;
    add.u32 %k, %k, 1; setp.lt.u32 %p, %k, 6; @%p bra MAKE; bra END;
    CONSUME: xor.b32 %s3, %x, 37; shl.b32 %s3, %s3, 2; add.u32 %s3, %s0, %s3; add.u64 %c, %c, %o0;
    TAKE: and.b32 %z, %k, 1; add.u32 %y, %z, 1; shl.b32 %w, %z, 8; add.u32 %s2, %s3, %w;
    bar.sync %y, 128;
    ld.shared.f32 %f, [%s2];
    st.global.f32 [%c], %f; add.u64 %c, %c, 512; setp.ge.u32 %p, %k, 4; add.u32 %y, %z, 3; @%p bra LAST;
    bar.arrive %y, 128;
    LAST: add.u32 %k, %k, 1; setp.lt.u32 %p, %k, 6; @%p bra TAKE;
    END: mov.u32 %x, 0;
    """,
    2, 128, _floats((6, 2, 64), (6, 2, 64)),
    lambda x, out: [x, x[:, :, np.arange(64) ^ 37]],
)  # fmt: skip
"""Two warps make tiles, two warps take them, two tiles deep: barriers 1 and 2 say full, 3 and 4 empty."""

LANES = Kernel(
    "lanes",
    """
    .shared .align 16 .b8 tile[512]; .reg .f32 %f, %g;
    mul.wide.u32 %o0, %i, 4; ld.param.u64 %a, [a]; add.u64 %a, %a, %o0; ld.global.f32 %f, [%a];
    mov.u32 %s0, tile; shl.b32 %s1, %t, 2; add.u32 %s1, %s0, %s1; xor.b32 %s2, %s1, 124; xor.b32 %s3, %s1, 36;
    st.shared.f32 [%s1], %f;
    bar.warp.sync -1;
    ld.shared.f32 %f, [%s2];
    bar.warp.sync 0xffffffff;
    and.b32 %x, %t, 16; setp.eq.u32 %p, %x, 0; selp.b32 %y, 0xffff, 0xffff0000, %p;
    st.shared.f32 [%s1], %f;
    bar.warp.sync %y;
    ld.shared.f32 %g, [%s3];
    ld.param.u64 %c, [b]; mul.wide.u32 %o1, %i, 4; add.u64 %c, %c, %o1; st.global.f32 [%c], %g;
    """,
    2, 128, _floats((2, 128), (2, 128)),
    lambda x, out: [x, x.reshape(-1, 32)[:, (np.arange(32) ^ 9) ^ 31].reshape(2, 128)],
)  # fmt: skip
"""Lanes of a warp exchange numbers: the whole warp, then each half of it by itself."""

LAST = Kernel(
    "last",
    """
    .shared .align 4 .b32 chosen; .reg .f32 %f, %g;
    ld.param.u64 %a, [a]; ld.param.u64 %c, [b]; ld.param.u64 %d, [c]; mul.wide.u32 %o0, %i, 4; add.u64 %o1, %a, %o0;
    add.u64 %o2, %c, %o0; ld.global.f32 %f, [%o1]; setp.ne.u32 %p, %t, 0;
    st.global.f32 [%o2], %f;
    bar.sync 0;
    @%p bra WAIT;
    membar.gl;
    atom.global.add.u32 %x, [%d], 1; setp.eq.u32 %q, %x, 3; selp.u32 %y, 1, 0, %q;
    fence.acq_rel.gpu;
    st.shared.u32 [chosen], %y;
    WAIT: mov.u32 %k, 0;
    bar.sync 0;
    ld.shared.u32 %y, [chosen];
    setp.eq.u32 %q, %y, 0; @%q bra END; mov.f32 %f, 0f00000000; mul.wide.u32 %o3, %t, 4; add.u64 %o4, %c, %o3;
    SUM: mul.wide.u32 %o5, %k, 256; add.u64 %o5, %o4, %o5;
    ld.global.f32 %g, [%o5];
    add.rn.f32 %f, %f, %g; add.u32 %k, %k, 1; setp.lt.u32 %u, %k, 4; @%u bra SUM;
    add.u64 %o5, %d, %o3; st.global.f32 [%o5+4], %f;
    END: mov.u32 %x, 0;
    """,
    4, 64, lambda rng: [rng.integers(-8, 9, (4, 64)).astype(np.float32), np.zeros((4, 64), np.float32),
                        np.zeros(65, np.float32)],
    lambda x, out, total: [x, x, np.concatenate([np.array([4], np.uint32).view(np.float32), x.sum(0)])],
)  # fmt: skip
"""The last of four blocks adds up what all of them have written."""

FLAGS = Kernel(
    "flags",
    """
    ld.param.u64 %a, [a]; ld.param.u64 %c, [b]; ld.param.u64 %d, [c]; mul.wide.u32 %o0, %t, 4; setp.eq.u32 %p, %t, 0;
    add.u64 %o1, %a, %o0; add.u64 %o2, %d, %o0; setp.ne.u32 %q, %b, 0; @%q bra TAKE;
    add.u32 %x, %t, 100; st.global.u32 [%o1], %x;
    bar.sync 0;
    @%p st.release.gpu.global.u32 [%c], 1;
    bra END;
    TAKE: @!%p bra READ;
    SPIN: ld.acquire.gpu.global.u32 %y, [%c]; setp.eq.u32 %u, %y, 0; @%u bra SPIN;
    READ: mov.u32 %z, 0;
    bar.sync 0;
    xor.b32 %z, %t, 63; mul.wide.u32 %o3, %z, 4; add.u64 %o4, %a, %o3;
    ld.global.u32 %x, [%o4];
    st.global.u32 [%o2], %x;
    END: mov.u32 %x, 0;
    """,
    2, 64, lambda rng: [np.zeros(64, np.uint32), np.zeros(1, np.uint32), np.zeros(64, np.uint32)],
    lambda x, flag, out: [np.arange(64) + 100, np.ones(1), 163 - np.arange(64)],
)  # fmt: skip
"""The first block writes and raises a flag, the second one waits for it and reads."""

KERNELS = {kernel.name: kernel for kernel in (TREE, WARPS, PIPELINE, STAGES, PRODUCER, LANES, LAST, FLAGS)}
