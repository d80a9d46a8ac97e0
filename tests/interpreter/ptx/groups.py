"""Products of warp groups for tests: operands laid out as the ISA's canonical layouts say, and a kernel for one.

The layouts are evaluated here as CuTe writes them, shape and stride of each mode, independently of the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.interpreter.ptx.programs import HEADER
from tilewright.interpreter import Buffer, Options, load_ptx, run_ptx

Array = NDArray[Any]

DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "f32": np.float32, "s32": np.int32,
}  # fmt: skip
MODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
WIDTH = {"none": 1, "32B": 2, "64B": 4, "128B": 8}
"""16-byte pieces in a row of the pattern."""


def descriptor(start: int, leading: int, stride: int, swizzle: str, base: int = 0) -> int:
    """The 64 bits of a matrix descriptor."""
    low = start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32
    return low | base << 49 | MODES[swizzle] << 62


@dataclass(frozen=True)
class Layout:
    """How an operand of `rows` (of a, or columns of b) by `depth` elements lies in shared memory."""

    rows: int
    depth: int
    itemsize: int
    swizzle: str
    transposed: bool

    @property
    def offsets(self) -> tuple[int, int]:
        """Leading and stride offset: core matrices one behind the other, rows of the pattern first, then k."""
        width = WIDTH[self.swizzle]
        if not self.transposed:
            pattern = 128 * width
            return (128 * (self.rows // 8), 128) if width == 1 else (16, pattern)
        along = self.rows * self.itemsize // (16 * width)
        if width == 1:
            return 128 * along, 128
        return 128 * width * (self.depth // 8), 128 * width

    def addresses(self) -> Array:
        """Byte offsets [rows, depth], from a start that the pattern begins at."""
        leading, stride = self.offsets
        t, w, size = 16 // self.itemsize, WIDTH[self.swizzle], self.itemsize
        i, k = np.arange(self.rows)[:, None], np.arange(self.depth)[None]
        if not self.transposed and w == 1:  # ((8,m),(T,2)):((1T,SBO),(1,LBO))
            at = i % 8 * 16 + i // 8 * stride + k % t * size + k // t * leading
        elif not self.transposed:  # Swizzle o ((8,m),(T,2)):((wT,SBO),(1,T))
            at = i % 8 * 16 * w + i // 8 * stride + k % t * size + k // t * 16
        elif w == 1:  # ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
            at = i % t * size + i // t * stride + k % 8 * 16 + k // 8 * leading
        else:  # Swizzle o ((T,w,m),(8,k)):((1,T,LBO),(wT,SBO))
            at = i % t * size + i // t % w * 16 + i // t // w * leading + k % 8 * 16 * w + k // 8 * stride
        return at ^ (at >> 7 & w - 1) << 4

    def image(self, values: Array) -> Array:
        """The bytes of shared memory that hold values [rows, depth]."""
        at = _addresses(self)
        out = np.zeros(int(at.max()) + self.itemsize, np.uint8)
        flat = np.ascontiguousarray(values).view(np.uint8).reshape(-1, self.itemsize)
        out[at.reshape(-1)[:, None] + np.arange(self.itemsize)] = flat
        return out


@cache
def _addresses(layout: Layout) -> Array:
    return layout.addresses()


@dataclass(frozen=True)
class Group:
    """A product: N, the types, how a (None for registers) and b lie, and the flags."""

    columns: int
    d: str
    a: str
    b: str
    left: Layout | None
    right: Layout
    negative: tuple[bool, bool] = (False, False)
    satfinite: bool = False

    @property
    def depth(self) -> int:
        """K."""
        return 32 // np.dtype(DTYPES[self.a]).itemsize

    @property
    def opcode(self) -> str:
        """The instruction with its modifiers."""
        sat = ".satfinite" if self.satfinite else ""
        return f"wgmma.mma_async.sync.aligned.m64n{self.columns}k{self.depth}{sat}.{self.d}.{self.a}.{self.b}"

    @property
    def registers(self) -> int:
        """Registers of the accumulators."""
        return self.columns // (4 if self.d == "f16" else 2)

    def flags(self) -> str:
        """What follows the predicate."""
        if self.d == "s32":
            return ""
        given = [-1 if flip else 1 for flip in self.negative]
        if self.a in ("f16", "bf16"):
            given += [] if self.left is None else [int(self.left.transposed)]
            given += [int(self.right.transposed)]
        return "".join(f", {flag}" for flag in given)


def kernel(group: Group, *, adds: bool = True, before: str = "", after: str = "") -> str:
    """A kernel: the image of shared memory comes from `image`, a's registers from `regs`, c from and d to `acc`.

    The descriptors are parameters. `before` and `after` stand around the product.
    """
    count, acc = group.registers, ", ".join(f"%d{n}" for n in range(group.registers))
    left = "%da" if group.left is not None else "{%a0, %a1, %a2, %a3}"
    lines = [
        f"{HEADER}.visible .entry k("
        ".param .u64 image, .param .u64 regs, .param .u64 acc, .param .u32 words, "
        ".param .u64 da, .param .u64 db) {",
        ".shared .align 1024 .b8 s[65536];",
        f".reg .b32 %t, %n, %i, %x, %s0, %d<{count}>, %a<4>; .reg .b64 %p0, %p1, %p2, %da, %db, %o; .reg .pred %q, %z;",
        "ld.param.u64 %p0, [image]; ld.param.u64 %p1, [regs]; ld.param.u64 %p2, [acc]; ld.param.u32 %n, [words];",
        "mov.u32 %t, %tid.x; mov.u32 %s0, s; mov.u32 %i, %t;",
        "L: mul.wide.u32 %o, %i, 4; add.u64 %o, %o, %p0; ld.global.u32 %x, [%o]; shl.b32 %a0, %i, 2;",
        "add.u32 %a0, %a0, %s0; st.shared.u32 [%a0], %x; add.u32 %i, %i, 128; setp.lt.u32 %q, %i, %n; @%q bra L;",
        f"mul.wide.u32 %o, %t, 16; add.u64 %p1, %p1, %o; mul.wide.u32 %o, %t, {4 * count}; add.u64 %p2, %p2, %o;",
        "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%p1];",
        *(f"ld.global.u32 %d{n}, [%p2+{4 * n}];" for n in range(count)),
        "ld.param.u64 %da, [da]; ld.param.u64 %db, [db]; setp.eq.u32 %z, %t, 5000;",
        "fence.proxy.async.shared::cta; bar.sync 0;",
        "wgmma.fence.sync.aligned;",
        before,
        f"{group.opcode} {{{acc}}}, {left}, %db, {'1' if adds else '%z'}{group.flags()};",
        "wgmma.commit_group.sync.aligned;",
        after,
        "wgmma.wait_group.sync.aligned 0;",
        *(f"st.global.u32 [%p2+{4 * n}], %d{n};" for n in range(count)),
        "ret; }",
    ]
    return "\n".join(lines)


@cache
def _places(columns: int) -> tuple[Array, Array]:
    """The row and column of each accumulator element of each thread, as the ISA draws them."""
    t, n = np.arange(128)[:, None], np.arange(columns // 2)[None]
    return 16 * (t // 32) + t % 32 // 4 + 8 * (n // 2 % 2), 8 * (n // 4) + 2 * (t % 4) + n % 2


def spread(matrix: Array, d: str) -> Array:
    """The accumulator registers [128, registers] of a matrix [64, columns]."""
    bits = matrix.view(np.uint16 if d == "f16" else np.uint32)
    return np.ascontiguousarray(bits[_places(matrix.shape[1])]).view(np.uint32)


def gathered(registers: Array, columns: int, d: str) -> Array:
    """The matrix of accumulator registers."""
    out = np.zeros((64, columns), DTYPES[d])
    out[_places(columns)] = registers.view(DTYPES[d])
    return out


def left_registers(a: Array) -> Array:
    """The registers [128, 4] of a left operand [64, depth]."""
    part = 4 // a.itemsize
    t, r, e = np.ogrid[:128, :4, :part]
    rows, columns = 16 * (t // 32) + t % 32 // 4 + 8 * (r % 2), t % 4 * part + e + 4 * part * (r // 2)
    return np.ascontiguousarray(a[rows, columns]).reshape(128, -1).view(np.uint32)


def run_group(
    group: Group, a: Array, b: Array, c: Array, *, adds: bool = True, options: Options | None = None,
    base: int = 0, before: str = "", after: str = "", change: Callable[[str], str] = str,
) -> Array:  # fmt: skip
    """d for a [64, K], b [N, K] and c [64, N], on the emulator; `change` is made to the text of the kernel."""
    image = np.zeros(65536, np.uint8)
    starts = [base, base]
    if group.left is not None:
        part = group.left.image(a)
        image[base : base + len(part)] = part
        starts[1] = base + -(-len(part) // 1024) * 1024
    part = group.right.image(b)
    image[starts[1] : starts[1] + len(part)] = part
    at = [
        0 if layout is None else descriptor(start, *layout.offsets, layout.swizzle)
        for start, layout in zip(starts, (group.left, group.right), strict=True)
    ]
    regs = left_registers(a) if group.left is None else np.zeros((128, 4), np.uint32)
    acc = spread(c, group.d).copy()
    words = (starts[1] + len(part)) // 4
    names = ("image", "regs", "acc")
    buffers = [Buffer.of(name, array) for name, array in zip(names, (image, regs, acc), strict=True)]
    text = change(kernel(group, adds=adds, before=before, after=after))
    run_ptx(load_ptx(text), "k", (1,), (128,), [*buffers, words, *at], options)
    return gathered(acc, group.columns, group.d)
