"""A matrix product for Hopper, written by hand: tensor copies, mbarriers and `wgmma`, one producer and two consumers.

c = a @ b.T of f16, summed in f32: a is [M, K], b is [N, K], c is [M, N]. A block makes 128 by 256 elements of c. Its
first warp group loads 64 columns of a and b at a time into one of `STAGES` buffers; each of the other two multiplies 64
rows of a by all of b with `wgmma` of 64x256x16 and stores its rows of c through shared memory. `full` mbarriers say
that a buffer is loaded, `empty` ones that both consumers are done with it.
"""

from __future__ import annotations

from dataclasses import dataclass

ENTRY, TARGET = "gemm", "sm_90a"
ROWS, COLUMNS, DEPTH = 128, 256, 64
"""Of a block's tile, and of a step along K."""
STAGES = 3
THREADS = 384
SWIZZLE = 128
"""Bytes that the swizzle mixes, which are a row of every box."""

_A_BYTES, _B_BYTES, _C_BYTES = ROWS * DEPTH * 2, COLUMNS * DEPTH * 2, 64 * COLUMNS * 2
_B_AT = STAGES * _A_BYTES
_C_AT = _B_AT + STAGES * _B_BYTES
FULL = _C_AT + 2 * _C_BYTES
EMPTY = FULL + 8 * STAGES
SHARED_BYTES = EMPTY + 8 * STAGES
"""Dynamic shared memory of a block."""
_BOX = 64
"""Columns of a box of c, whose rows have 128 bytes."""
DESCRIPTOR = 1 << 62 | (8 * SWIZZLE >> 4) << 32 | 1 << 16
"""Of a K-major operand with the 128-byte swizzle: 1,024 bytes from eight rows to the next eight."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix that a tensor map describes: its box, columns first, as a tensor map has it."""

    name: str
    box: tuple[int, int]


OPERANDS = (Operand("a", (DEPTH, ROWS)), Operand("b", (DEPTH, COLUMNS)), Operand("c", (_BOX, _BOX)))
"""The operands, in the order of the kernel's parameters; all are f16 with the 128-byte swizzle."""


def grid(m: int, n: int) -> tuple[int, int]:
    """The blocks of a product. Raises ValueError for sizes that the tiles do not divide."""
    if m % ROWS or n % COLUMNS:
        raise ValueError(f"M is a multiple of {ROWS} and N of {COLUMNS}, found {m} and {n}")
    return n // COLUMNS, m // ROWS


def text(target: str = TARGET) -> str:
    """The PTX: parameters are the tensor maps of a, b and c, and how many steps of 64 there are along K."""
    return "\n".join([*_head(target), *_setup(), *_producer(), *_consumer(), *_epilogue(), "DONE:", "ret;", "}", ""])


def _head(target: str) -> list[str]:
    maps = ", ".join(f".param .align 64 .b8 map_{operand.name}[128]" for operand in OPERANDS)
    return [
        ".version 8.8", f".target {target}", ".address_size 64",
        ".extern .shared .align 1024 .b8 smem[];",
        f".visible .entry {ENTRY}({maps}, .param .u32 steps)",
        f".reqntid {THREADS}, 1, 1", ".minnctapersm 1",
        "{",
        ".reg .pred %p, %done, %adds, %more, %one;",
        ".reg .b32 %thread, %lane, %warp, %group, %smem, %m, %n, %k, %steps, %i, %stage, %phase, %x, %y, %z;",
        ".reg .b32 %full, %empty, %last, %to_a, %to_b, %out, %at<8>, %h;",
        ".reg .b64 %map_a, %map_b, %map_c, %da, %db, %a0, %b0, %w;",
        ".reg .f32 %d<128>;",
    ]  # fmt: skip


def _setup() -> list[str]:
    """Who a thread is; the mbarriers."""
    lines = [f"mov.b64 %map_{o.name}, map_{o.name}; cvta.param.u64 %map_{o.name}, %map_{o.name};" for o in OPERANDS]
    lines += [
        "mov.u32 %smem, smem;",
        "mov.u32 %thread, %tid.x;",
        "shr.u32 %group, %thread, 7;",
        f"mov.u32 %n, %ctaid.x; mul.lo.u32 %n, %n, {COLUMNS};",
        f"mov.u32 %m, %ctaid.y; mul.lo.u32 %m, %m, {ROWS};",
        "ld.param.u32 %steps, [steps];",
        "setp.ne.u32 %p, %thread, 0;",
        "@%p bra READY;",
    ]
    for stage in range(STAGES):
        lines.append(f"mbarrier.init.shared::cta.b64 [%smem+{FULL + 8 * stage}], 1;")
        lines.append(f"mbarrier.init.shared::cta.b64 [%smem+{EMPTY + 8 * stage}], 2;")
    return [*lines, "fence.mbarrier_init.release.cluster;", "fence.proxy.async;", "READY:", "bar.sync 0;",
            "mov.u32 %i, 0; mov.u32 %stage, 0; mov.u32 %phase, 0;",
            "setp.ne.u32 %p, %group, 0;", "@%p bra CONSUMER;"]  # fmt: skip


def _wait(barrier: str, parity: str, label: str) -> list[str]:
    return [
        f"{label}:",
        f"mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %done, [{barrier}], {parity};",
        f"@!%done bra {label};",
    ]


def _next_stage() -> list[str]:
    """On to the next buffer; the phase changes when it is the first one again."""
    return [
        "add.u32 %stage, %stage, 1;",
        f"setp.eq.u32 %p, %stage, {STAGES};",
        "@%p mov.u32 %stage, 0;",
        "@%p xor.b32 %phase, %phase, 1;",
        "add.u32 %i, %i, 1;",
        "setp.lt.u32 %more, %i, %steps;",
    ]


def _producer() -> list[str]:
    """One thread loads; a buffer is free at first, which the other parity says."""
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    return [
        "setmaxnreg.dec.sync.aligned.u32 40;",
        "setp.ge.u32 %p, %thread, 32;",
        "@%p bra DONE;",
        "elect.sync _|%one, 0xffffffff;",
        "@!%one bra DONE;",
        "LOAD:",
        f"shl.b32 %x, %stage, 3; add.u32 %full, %smem, %x; add.u32 %empty, %full, {EMPTY}; "
        f"add.u32 %full, %full, {FULL};",
        "xor.b32 %y, %phase, 1;",
        *_wait("%empty", "%y", "FREE"),
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {_A_BYTES + _B_BYTES};",
        f"mul.lo.u32 %k, %i, {DEPTH};",
        f"mul.lo.u32 %to_a, %stage, {_A_BYTES}; add.u32 %to_a, %to_a, %smem;",
        f"mul.lo.u32 %to_b, %stage, {_B_BYTES}; add.u32 %to_b, %to_b, %smem; add.u32 %to_b, %to_b, {_B_AT};",
        f"{load} [%to_a], [%map_a, {{%k, %m}}], [%full];",
        f"{load} [%to_b], [%map_b, {{%k, %n}}], [%full];",
        *_next_stage(),
        "@%more bra LOAD;",
        "bra DONE;",
    ]


def _consumer() -> list[str]:
    """Four products a step; one step's stay in flight while the next one's start, and then their buffer is free."""
    lines = [
        "CONSUMER:",
        "setmaxnreg.inc.sync.aligned.u32 232;",
        "sub.u32 %group, %group, 1;",
        "and.b32 %x, %thread, 127; setp.eq.u32 %one, %x, 0;",
        f"mul.lo.u32 %x, %group, {64 * DEPTH * 2}; add.u32 %x, %x, %smem; shr.u32 %x, %x, 4; cvt.u64.u32 %a0, %x;",
        f"add.u32 %x, %smem, {_B_AT}; shr.u32 %x, %x, 4; cvt.u64.u32 %b0, %x;",
        f"or.b64 %a0, %a0, {DESCRIPTOR}; or.b64 %b0, %b0, {DESCRIPTOR};",
        "setp.ne.u32 %adds, %steps, %steps;",
        "mov.u32 %last, 0;",
        "STEP:",
        f"shl.b32 %x, %stage, 3; add.u32 %full, %smem, %x; add.u32 %empty, %full, {EMPTY}; "
        f"add.u32 %full, %full, {FULL};",
        *_wait("%full", "%phase", "LOADED"),
        f"mul.wide.u32 %w, %stage, {_A_BYTES >> 4}; add.u64 %da, %a0, %w;",
        f"mul.wide.u32 %w, %stage, {_B_BYTES >> 4}; add.u64 %db, %b0, %w;",
        "wgmma.fence.sync.aligned;",
    ]
    registers = ", ".join(f"%d{n}" for n in range(128))
    for _ in range(DEPTH // 16):
        lines += [
            f"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {{{registers}}}, %da, %db, %adds, 1, 1, 0, 0;",
            "setp.eq.u32 %adds, %steps, %steps;",
            "add.u64 %da, %da, 2; add.u64 %db, %db, 2;",
        ]
    return [
        *lines,
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 1;",
        "setp.ne.u32 %p, %i, 0;",
        "and.pred %p, %p, %one;",
        "@%p mbarrier.arrive.release.cta.shared::cta.b64 _, [%last];",
        "mov.u32 %last, %empty;",
        *_next_stage(),
        "@%more bra STEP;",
        "wgmma.wait_group.sync.aligned 0;",
    ]


def _epilogue() -> list[str]:
    """Rounded to f16 into shared memory, swizzled as the boxes of c are, and stored from there."""
    lines = [
        "and.b32 %lane, %thread, 31; shr.u32 %warp, %thread, 5; and.b32 %warp, %warp, 3;",
        "shr.u32 %y, %lane, 2; and.b32 %z, %lane, 3; shl.b32 %z, %z, 2;",
        f"mul.lo.u32 %out, %group, {_C_BYTES}; add.u32 %out, %out, %smem; add.u32 %out, %out, {_C_AT};",
        "shl.b32 %x, %warp, 4; add.u32 %x, %x, %y; shl.b32 %x, %x, 7; add.u32 %x, %x, %out; add.u32 %x, %x, %z;",
        "shl.b32 %y, %y, 4;",
    ]
    lines += [f"xor.b32 %at{piece}, %y, {16 * piece}; add.u32 %at{piece}, %at{piece}, %x;" for piece in range(8)]
    for number in range(0, 128, 2):
        box, piece = divmod(number // 4, 8)
        place = box * _BOX * SWIZZLE + (8 * SWIZZLE if number & 2 else 0)
        lines.append(f"cvt.rn.f16x2.f32 %h, %d{number + 1}, %d{number}; st.shared.b32 [%at{piece}+{place}], %h;")
    lines += [
        "fence.proxy.async.shared::cta;",
        "add.u32 %y, %group, 1;",
        "bar.sync %y, 128;",
        "@!%one bra DONE;",
        "shl.b32 %x, %group, 6; add.u32 %m, %m, %x;",
    ]
    for _ in range(COLUMNS // _BOX):
        lines.append("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map_c, {%n, %m}], [%out];")
        lines.append(f"add.u32 %n, %n, {_BOX}; add.u32 %out, %out, {_BOX * SWIZZLE};")
    return [*lines, "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"]
