"""`wgmma` as data: shapes, types, how operands lie in shared memory; and a kernel for each that multiplies many tiles.

Where the elements of an operand are, and which register holds which, is what the emulator says: a machine that has it
otherwise gives other results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.fragments import accumulator, left
from tilewright.interpreter.ptx.hopper.descriptors import SWIZZLES, Descriptor, addresses
from tilewright.interpreter.ptx.products import width

Array = NDArray[Any]

ROWS, THREADS = 64, 128
_WIDE = {"none": 1, "32B": 2, "64B": 4, "128B": 8}
"""16-byte pieces in a row of a swizzle's pattern."""


@dataclass(frozen=True, slots=True)
class Lie:
    """How an operand lies in shared memory.

    apart: 1 if core matrices follow one another, 2 if the descriptor's offsets are twice as large. start: bytes from
    the beginning of the operand's region. base: the descriptor's field of that name.
    """

    swizzle: str = "128B"
    transposed: bool = False
    apart: int = 1
    start: int = 0
    base: int = 0

    def offsets(self, rows: int, depth: int, itemsize: int) -> tuple[int, int]:
        """Leading and stride offset, of core matrices along the rows first and then along k."""
        wide = _WIDE[self.swizzle]
        if not self.transposed:
            return (128 * rows // 8 * self.apart, 128 * self.apart) if wide == 1 else (16, 128 * wide * self.apart)
        along = max(1, rows * itemsize // (16 * wide))
        pair = (128 * along, 128) if wide == 1 else (128 * wide * (depth // 8), 128 * wide)
        return pair[0] * self.apart, pair[1] * self.apart

    def descriptor(self, at: int, rows: int, depth: int, itemsize: int) -> Descriptor:
        """Its fields, the region beginning at an address."""
        leading, stride = self.offsets(rows, depth, itemsize)
        return Descriptor(at + self.start, leading, stride, self.base, self.swizzle, 0)

    @property
    def label(self) -> str:
        """The fields that are not as usual."""
        more = [f"x{self.apart}"] * (self.apart > 1) + [f"+{self.start}"] * bool(self.start)
        return "".join([self.swizzle, "t" * self.transposed, *more, f"@{self.base}" * bool(self.base)])


@dataclass(frozen=True, slots=True)
class Group:
    """One `wgmma.mma_async`: N, the types of a, b and accumulator, how a (None: in registers) and b lie, the flags."""

    columns: int
    a: str
    b: str
    c: str
    left: Lie | None = Lie()
    right: Lie = Lie()
    adds: bool = True
    negative: tuple[bool, bool] = (False, False)
    satfinite: bool = False

    @property
    def rows(self) -> int:
        """M."""
        return ROWS

    @property
    def depth(self) -> int:
        """K."""
        return 256 // width(self.a)

    @property
    def registers(self) -> int:
        """Registers of the accumulators, a thread."""
        return self.columns // (4 if self.c == "f16" else 2)

    @property
    def types(self) -> str:
        """What it is by type."""
        return f"k{self.depth}.{self.c}.{self.a}.{self.b}"

    @property
    def label(self) -> str:
        """All of it, as data and reports call it."""
        flags = [".satfinite"] * self.satfinite + ["" if self.adds else " d=ab"]
        flags += [f" -{name}" for name, flip in zip("ab", self.negative, strict=True) if flip]
        lies = f"{self.left.label if self.left else 'registers'}/{self.right.label}"
        return f"n{self.columns}{self.types} {lies}{''.join(flags)}"

    @property
    def opcode(self) -> str:
        """As PTX writes it."""
        sat = ".satfinite" * self.satfinite
        return f"wgmma.mma_async.sync.aligned.m64n{self.columns}k{self.depth}{sat}.{self.c}.{self.a}.{self.b}"

    @property
    def flags(self) -> str:
        """What follows the predicate."""
        if self.c == "s32":
            return ""
        given = [-1 if flip else 1 for flip in self.negative]
        if width(self.a) == 16:
            given += [] if self.left is None else [int(self.left.transposed)]
            given += [int(self.right.transposed)]
        return "".join(f", {flag}" for flag in given)

    def places(self) -> tuple[tuple[Descriptor, Array] | None, tuple[Descriptor, Array]]:
        """The descriptor of a and b with the addresses of their elements, [64, K] and [N, K]."""
        itemsize = width(self.a) // 8

        def place(lie: Lie, at: int, rows: int) -> tuple[Descriptor, Array]:
            descriptor = lie.descriptor(at, rows, self.depth, itemsize)
            return descriptor, addresses(descriptor, rows, self.depth, itemsize, lie.transposed)

        a = None if self.left is None else place(self.left, 0, ROWS)
        end = 0 if a is None else int(a[1].max()) + itemsize
        return a, place(self.right, -(-end // 1024) * 1024, self.columns)


# --- operands as a kernel takes them ---


def images(group: Group, a: Array, b: Array) -> Array:
    """Shared memory [tiles, bytes] with the operands a [tiles, 64, K] and b [tiles, K, N] in it."""
    itemsize = a.dtype.itemsize
    places = [(place[1], x) for place, x in zip(group.places(), (a, b.transpose(0, 2, 1)), strict=True) if place]
    nbytes = -(-max(int(at.max()) + itemsize for at, _ in places) // 16) * 16
    out = np.zeros((len(a), nbytes // itemsize), a.dtype)
    for at, x in places:
        out[:, at.reshape(-1) // itemsize] = x.reshape(len(x), -1)
    return out.view(np.uint8)


def left_registers(group: Group, a: Array) -> Array:
    """The registers [tiles, 4, 128] of a left operand."""
    found = left(16, group.depth, width(group.a)).spread(np.ascontiguousarray(a).reshape(-1, 16, group.depth))
    return np.ascontiguousarray(found.reshape(len(a), 4, 4, 32).transpose(0, 2, 1, 3)).reshape(len(a), 4, THREADS)


def registers(group: Group, c: Array) -> Array:
    """The accumulators [tiles, registers, 128] of matrices [tiles, 64, N]."""
    tiles = c.reshape(len(c), 4, 16, -1, 8).transpose(0, 1, 3, 2, 4).reshape(-1, 16, 8)
    found = accumulator(16, width(group.c)).spread(np.ascontiguousarray(tiles))
    found = found.reshape(len(c), 4, group.registers, 32).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(found).reshape(len(c), group.registers, THREADS)


def matrices(group: Group, found: Array) -> Array:
    """The matrices of accumulators."""
    fragment, count = accumulator(16, width(group.c)), len(found)
    lanes = found.reshape(count, group.registers, 4, 32).transpose(0, 2, 1, 3).reshape(-1, fragment.registers, 32)
    tiles = fragment.matrices(np.ascontiguousarray(lanes)).reshape(count, 4, -1, 16, 8)
    return np.ascontiguousarray(tiles.transpose(0, 1, 3, 2, 4)).reshape(count, ROWS, group.columns)


def kernel_text(group: Group, target: str, nbytes: int) -> str:
    """A module with the entry `k(a, b, c, d)`: block w multiplies the operands of tile w.

    a: the images of shared memory, of so many bytes; b: the registers of left operands; c and d: accumulators.
    """
    count, (left_, right_) = group.registers, group.places()
    acc = ", ".join(f"%d{n}" for n in range(count))
    a = "{%a0, %a1, %a2, %a3}" if left_ is None else "%da"
    lines = [
        f".version 8.8\n.target {target}\n.address_size 64",
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)",
        f".reqntid {THREADS}, 1, 1\n{{",
        f".shared .align 1024 .b8 s[{nbytes}];",
        f".reg .b32 %t, %w, %i, %x, %y, %s, %a<4>; .reg .{'b32' if group.c == 'f16' else group.c} %d<{count}>;",
        ".reg .b64 %pa, %pb, %pc, %pd, %da, %db, %o; .reg .pred %q, %z;",
        "mov.u32 %t, %tid.x; mov.u32 %w, %ctaid.x; mov.u32 %s, s; mov.u32 %i, %t;",
        "ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; ld.param.u64 %pd, [d];",
        f"mad.wide.u32 %pa, %w, {nbytes}, %pa;",
        "L: mul.wide.u32 %o, %i, 16; add.u64 %o, %o, %pa; shl.b32 %x, %i, 4; add.u32 %x, %x, %s;",
        "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%o]; st.shared.v4.u32 [%x], {%a0, %a1, %a2, %a3};",
        f"add.u32 %i, %i, {THREADS}; setp.lt.u32 %q, %i, {nbytes // 16}; @%q bra L;",
        f"mul.wide.u32 %o, %w, {4 * count * THREADS}; add.u64 %pc, %pc, %o; add.u64 %pd, %pd, %o;",
        "mul.wide.u32 %o, %t, 4; add.u64 %pc, %pc, %o; add.u64 %pd, %pd, %o; add.u64 %pb, %pb, %o;",
    ]
    if left_ is None:
        lines.append(f"mul.wide.u32 %o, %w, {16 * THREADS}; add.u64 %pb, %pb, %o;")
        lines += [f"ld.global.b32 %a{n}, [%pb+{4 * THREADS * n}];" for n in range(4)]
    type_ = "b32" if group.c == "f16" else group.c
    return "\n".join([
        *lines,
        *(f"ld.global.{type_} %d{n}, [%pc+{4 * THREADS * n}];" for n in range(count)),
        *_descriptor("%da", left_[0] if left_ else None), *_descriptor("%db", right_[0]),
        f"setp.{'lt' if group.adds else 'ge'}.u32 %z, %t, {THREADS};",
        "fence.proxy.async.shared::cta; bar.sync 0;",
        "wgmma.fence.sync.aligned;",
        f"{group.opcode} {{{acc}}}, {a}, %db, %z{group.flags};",
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
        *(f"st.global.{type_} [%pd+{4 * THREADS * n}], %d{n};" for n in range(count)),
        "ret;\n}\n",
    ])  # fmt: skip


def _descriptor(register: str, descriptor: Descriptor | None) -> list[str]:
    """Code that makes a descriptor, whose start is counted from that of shared memory."""
    if descriptor is None:
        return []
    mode = SWIZZLES.index(descriptor.swizzle)
    rest = descriptor.leading >> 4 << 16 | descriptor.stride >> 4 << 32 | descriptor.base << 49 | mode << 62
    return [
        f"add.u32 %y, %s, {descriptor.start}; and.b32 %y, %y, 0x3ffff; shr.u32 %y, %y, 4; cvt.u64.u32 {register}, %y;",
        f"or.b64 {register}, {register}, {rest:#x};",
    ]


# --- what is probed ---

_EIGHT = ("e4m3", "e5m2")
TYPES: tuple[tuple[str, str, str], ...] = (
    ("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("e4m3", "e4m3", "f32"),
    ("e5m2", "e5m2", "f32"), ("e4m3", "e5m2", "f32"), ("e5m2", "e4m3", "f32"), ("f16", "f16", "f16"),
    *((a, b, "f16") for a, b in product(_EIGHT, _EIGHT)),
    *((a, b, "s32") for a, b in product(("s8", "u8"), ("s8", "u8"))),
)  # fmt: skip
"""a, b and the accumulator; the first five are those that most tiles are multiplied of."""
FOREMOST = 5


def _everywhere(a: str, b: str, c: str) -> Iterator[Group]:
    """Some widths, layouts and flags of every type."""
    for number, swizzle in enumerate(SWIZZLES):
        lie = Lie(swizzle)
        yield Group(64, a, b, c, lie if number % 2 else None, lie)
        yield Group((8, 24, 128, 192)[number], a, b, c, lie, Lie(SWIZZLES[number - 1]))
    yield Group(32, a, b, c, adds=False)
    if c == "s32":
        yield from (Group(32, a, b, c, satfinite=True), Group(240, a, b, c, None))
    else:
        yield from (Group(16, a, b, c, negative=signs) for signs in ((True, False), (False, True), (True, True)))
        yield Group(248, a, b, c, None, negative=(True, False))


def _turned(a: str, c: str) -> Iterator[Group]:
    """Operands whose rows, not k, run along the 16 bytes, in every swizzle."""
    for swizzle, turned in product(SWIZZLES, ((True, False), (False, True), (True, True))):
        yield Group(64, a, a, c, Lie(swizzle, turned[0]), Lie(swizzle, turned[1]))
    yield Group(128, a, a, c, None, Lie("128B", True))


def _apart() -> Iterator[Group]:
    """Descriptors with larger offsets, that begin within a row of the pattern, or a few rows late."""
    lies = [Lie(swizzle, turned, apart=2) for swizzle, turned in product(SWIZZLES, (False, True))]
    lies += [Lie(swizzle, start=start) for swizzle, start in (("128B", 32), ("128B", 96), ("64B", 32), ("none", 128))]
    lies += [Lie(s, turned, start=128, base=1) for s, turned in product(("128B", "64B", "32B"), (False, True))]
    yield from (Group(64, "f16", "f16", "f32", lie, lie) for lie in lies)


MAIN = tuple(Group(256, a, b, c, Lie("32B"), Lie("32B")) for a, b, c in TYPES)
"""Each type once, at full width, with operands that leave no gaps."""
GROUPS: tuple[Group, ...] = (
    *MAIN, *(group for types in TYPES for group in _everywhere(*types)),
    *_turned("f16", "f32"), *_turned("bf16", "f32"), *_turned("f16", "f16"), *_apart(),
)  # fmt: skip
"""All that is probed."""


def narrow(group: Group) -> Group:
    """A group of `MAIN` at a width whose results are soon replayed."""
    return replace(group, columns=32)
