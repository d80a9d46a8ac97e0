"""A matrix product as a compiler writes it: asynchronous copies into swizzled tiles, ldmatrix, mma.

Square f16 matrices, f32 sums. A block of four warps makes a tile of 64 by 64, each warp a quarter of it; a turn of the
loop is 32 deep and its tiles are copied one turn ahead. 16-byte chunks of a row are permuted by an XOR with the row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.interpreter.ptx.kernels import Kernel

_TILES = 8192
"""Bytes of both tiles of a turn: 64 rows of 64 bytes, then 32 rows of 128."""


def matmul(n: int) -> Kernel:
    """The product of `n` by `n` matrices, `n` a multiple of 64."""

    def arrays(rng: np.random.Generator) -> list[np.ndarray]:
        return [*rng.integers(-4, 5, (2, n, n)).astype(np.float16), np.zeros((n, n), np.float32)]

    body = "\n".join(_body(n))
    grid = (n // 64) ** 2
    return Kernel("matmul", body, grid, 128, arrays, lambda a, b, c: [a, b, a.astype(np.float32) @ b])


def _body(n: int) -> Iterator[str]:
    yield ".shared .align 128 .b8 tile[16384]; .reg .b32 %a<4>, %e<4>, %r<8>, %m<32>; .reg .f32 %f<32>;"
    yield f"mov.u32 %s0, tile; rem.u32 %x, %b, {n // 64}; div.u32 %y, %b, {n // 64};"
    yield "shl.b32 %x, %x, 6; shl.b32 %y, %y, 6;"
    yield from _places(n)
    yield " ".join(f"mov.f32 %f{k}, 0f00000000;" for k in range(32)) + " mov.u32 %k, 0; mov.u32 %w, 0;"
    yield from _copies(n)
    yield "cp.async.commit_group;"
    yield f"LOOP: add.u32 %k, %k, 32; setp.ge.u32 %p, %k, {n}; xor.b32 %z, %w, {_TILES}; @%p bra WAIT;"
    yield from _copies(n, "%z")
    yield "WAIT: mov.u32 %i, 0;"
    yield "cp.async.commit_group;"
    yield "cp.async.wait_group 1;"
    yield "bar.sync 0;"
    for step in range(2):
        yield from _products(step)
    yield "mov.u32 %w, %z;"
    yield "bar.sync 0;"
    yield f"setp.lt.u32 %p, %k, {n}; @%p bra LOOP;"
    yield from _results(n)


def _places(n: int) -> Iterator[str]:
    """Where a thread copies from and to: %a, %c and %s1, %s2; where its warp reads: %s3, %s4, and the lane %s5, %s6."""
    yield (
        f"ld.param.u64 %a, [a]; shr.u32 %i, %t, 2; and.b32 %n, %t, 3; add.u32 %z, %y, %i; mul.lo.u32 %z, %z, {2 * n};"
        "shl.b32 %k, %n, 4; add.u32 %z, %z, %k; cvt.u64.u32 %o0, %z; add.u64 %a, %a, %o0;"
        "shr.u32 %k, %i, 1; xor.b32 %k, %k, %n; and.b32 %k, %k, 3; shl.b32 %k, %k, 4; shl.b32 %z, %i, 6;"
        "add.u32 %s1, %z, %k; add.u32 %s1, %s1, %s0;"
    )
    yield (
        f"ld.param.u64 %c, [b]; shr.u32 %i, %t, 3; and.b32 %n, %t, 7; mul.lo.u32 %z, %i, {2 * n}; shl.b32 %k, %x, 1;"
        "add.u32 %z, %z, %k; shl.b32 %k, %n, 4; add.u32 %z, %z, %k; cvt.u64.u32 %o1, %z; add.u64 %c, %c, %o1;"
        "xor.b32 %k, %i, %n; and.b32 %k, %k, 7; shl.b32 %k, %k, 4; shl.b32 %z, %i, 7; add.u32 %s2, %z, %k;"
        "add.u32 %s2, %s2, %s0; add.u32 %s2, %s2, 4096;"
    )
    yield (
        "shr.u32 %i, %t, 6; shl.b32 %s3, %i, 5; shr.u32 %i, %t, 5; and.b32 %i, %i, 1; shl.b32 %s4, %i, 5;"
        "and.b32 %s5, %t, 15; shr.u32 %s6, %t, 4; and.b32 %s6, %s6, 1;"
    )


def _copies(n: int, buffer: str = "") -> Iterator[str]:
    """Start the copies of a turn, into the buffer at an offset, and step on."""
    for address, source in (("%s1", "%a"), ("%s2", "%c")):
        rows = (32, 2048) if source == "%a" else (16, 2048)
        place = address if not buffer else "%n"
        before = f"add.u32 %n, {address}, {buffer}; " if buffer else ""
        yield f"{before}cp.async.cg.shared.global [{place}], [{source}], 16;"
        yield f"cp.async.cg.shared.global [{place}+{rows[1]}], [{source}+{rows[0] * 2 * n}], 16;"
    yield f"add.u64 %a, %a, 64; add.u64 %c, %c, {64 * n};"


def _products(step: int) -> Iterator[str]:
    """16 of the 32 elements of depth: two rows of fragments of A, two pairs of fragments of B, eight products."""
    for half, registers in enumerate(("%a", "%e")):
        yield (
            f"add.u32 %i, %s3, %s5; add.u32 %i, %i, {16 * half}; shr.u32 %n, %i, 1; add.u32 %m0, %s6, {2 * step};"
            "xor.b32 %n, %n, %m0; and.b32 %n, %n, 3; shl.b32 %n, %n, 4; shl.b32 %i, %i, 6; add.u32 %i, %i, %n;"
            "add.u32 %i, %i, %s0; add.u32 %i, %i, %w;"
        )
        listed = ", ".join(f"{registers}{k}" for k in range(4))
        yield f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{listed}}}, [%i];"
    for half in range(2):
        yield (
            f"add.u32 %i, %s5, {16 * step}; shr.u32 %n, %s4, 3; add.u32 %n, %n, {2 * half}; add.u32 %n, %n, %s6;"
            "xor.b32 %n, %n, %i; and.b32 %n, %n, 7; shl.b32 %n, %n, 4; shl.b32 %i, %i, 7; add.u32 %i, %i, %n;"
            "add.u32 %i, %i, %s0; add.u32 %i, %i, %w; add.u32 %i, %i, 4096;"
        )
        listed = ", ".join(f"%r{4 * half + k}" for k in range(4))
        yield f"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{listed}}}, [%i];"
    for row, registers in enumerate(("%a", "%e")):
        for column in range(4):
            sums = ", ".join(f"%f{16 * row + 4 * column + k}" for k in range(4))
            left = ", ".join(f"{registers}{k}" for k in range(4))
            right = f"%r{2 * column}, %r{2 * column + 1}"
            yield f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{sums}}}, {{{left}}}, {{{right}}}, {{{sums}}};"


def _results(n: int) -> Iterator[str]:
    """Each lane stores pairs of neighbours: row lane / 4, columns 2 * (lane % 4) of a fragment, and 8 rows below."""
    yield (
        "ld.param.u64 %d, [c]; and.b32 %i, %t, 31; shr.u32 %n, %i, 2; and.b32 %i, %i, 3; shl.b32 %i, %i, 1;"
        f"add.u32 %y, %y, %s3; add.u32 %y, %y, %n; add.u32 %x, %x, %s4; add.u32 %x, %x, %i;"
        f"mad.lo.u32 %y, %y, {n}, %x; mul.wide.u32 %o2, %y, 4; add.u64 %d, %d, %o2;"
    )
    for row in range(2):
        for column in range(4):
            for low in range(2):
                at, first = 4 * ((16 * row + 8 * low) * n + 8 * column), 16 * row + 4 * column + 2 * low
                yield f"st.global.v2.f32 [%d+{at}], {{%f{first}, %f{first + 1}}};"
