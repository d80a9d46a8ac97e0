"""Every dense `mma.sync` as data, and a kernel for each that multiplies many fragments by one instruction."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.fragments import Fragment
from tilewright.interpreter.ptx.products import Shape

Array = NDArray[Any]
WARP = 32
WARPS_PER_BLOCK = 4


@dataclass(frozen=True, slots=True)
class Mma:
    """One `mma.sync.aligned.m{rows}n8k{depth}.row.col`: operand types, and that of accumulator and result.

    `modifiers` stand before the types, `suffix` behind them. `least` is the compute capability times ten it needs.
    """

    rows: int
    depth: int
    a: str
    b: str
    c: str
    least: int
    modifiers: str = ""
    suffix: str = ""

    @property
    def columns(self) -> int:
        """N."""
        return 8

    @property
    def opcode(self) -> str:
        """As PTX writes it."""
        types = f"{self.c}.{self.a}.{self.b}.{self.c}{self.suffix}"
        return f"mma.sync.aligned.m{self.rows}n8k{self.depth}.row.col{self.modifiers}.{types}"

    @property
    def label(self) -> str:
        """The opcode without what all of them share."""
        return self.opcode.removeprefix("mma.sync.aligned.").replace(".row.col", "")

    @property
    def fragments(self) -> tuple[Fragment, Fragment, Fragment]:
        """The layouts of a, b and the accumulator."""
        return Shape(self.rows, self.depth, self.a, self.b, self.c).fragments


def _floats() -> list[Mma]:
    found = [Mma(16, 8, "f16", "f16", c, 75) for c in ("f32", "f16")]
    found += [Mma(16, 16, "f16", "f16", c, 80) for c in ("f32", "f16")]
    found += [Mma(16, k, "bf16", "bf16", "f32", 80) for k in (8, 16)]
    found += [Mma(16, k, "tf32", "tf32", "f32", 80) for k in (4, 8)]
    eight = ("e4m3", "e5m2")
    found += [Mma(16, k, a, b, c, 89) for k, a, b, c in product((16, 32), eight, eight, ("f32", "f16"))]
    found += [Mma(8, 4, "f64", "f64", "f64", 80, rounding) for rounding in ("", ".rn", ".rz", ".rm", ".rp")]
    found += [Mma(16, k, "f64", "f64", "f64", 90, r) for k, r in product((4, 8, 16), ("", ".rn", ".rz", ".rm", ".rp"))]
    return found


def _integers() -> list[Mma]:
    found: list[Mma] = []
    for types, shapes in (
        (("s8", "u8"), ((8, 16, 75), (16, 16, 80), (16, 32, 80))),
        (("s4", "u4"), ((8, 32, 75), (16, 32, 80), (16, 64, 80))),
    ):
        for (rows, depth, least), a, b, satfinite in product(shapes, types, types, ("", ".satfinite")):
            found.append(Mma(rows, depth, a, b, "s32", least, satfinite))
    for (rows, depth), bit in product(((8, 128), (16, 128), (16, 256)), ("xor", "and")):
        found.append(Mma(rows, depth, "b1", "b1", "s32", 80, suffix=f".{bit}.popc"))
    return found


PRODUCTS: tuple[Mma, ...] = (*_floats(), *_integers())
"""Every dense product, of sm_75 and later."""


def kernel_text(mma: Mma, target: str) -> str:
    """A module with the entry `k(a, b, c, d)`: warp w of the grid multiplies fragment w.

    The arguments are registers as bits, [warps, registers, lanes].
    """
    c = mma.fragments[2]
    lines = [f".reg .{_register_type(n)} %{r}<{f.registers}>;" for r, n, f in _operands(mma)]
    loads = [f"ld.global.{_register_type(n)} %{r}{i}, [%p{r}+{_step(f) * i}];"
             for r, n, f in _operands(mma)[:3] for i in range(f.registers)]  # fmt: skip
    stores = [f"st.global.{_register_type(mma.c)} [%pd+{_step(c) * i}], %d{i};" for i in range(c.registers)]
    listed = [f"{{{', '.join(f'%{r}{i}' for i in range(f.registers))}}}" for r, _, f in _operands(mma)]
    bases = [
        f"ld.param.u64 %p{r}, [{r}]; mad.wide.u32 %p{r}, %w, {_step(f) * f.registers}, %p{r};"
        f" mad.wide.u32 %p{r}, %l, {f.bits // 8}, %p{r};"
        for r, _, f in _operands(mma)
    ]
    body = "\n".join([*lines, *bases, *loads, f"{mma.opcode} {listed[3]}, {listed[0]}, {listed[1]}, {listed[2]};"])
    return f""".version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
.reqntid {WARP * WARPS_PER_BLOCK}, 1, 1
{{
.reg .b64 %pa, %pb, %pc, %pd; .reg .b32 %w, %l, %t;
mov.u32 %l, %tid.x; shr.u32 %t, %l, 5; and.b32 %l, %l, 31;
mov.u32 %w, %ctaid.x; mad.lo.u32 %w, %w, {WARPS_PER_BLOCK}, %t;
{body}
{" ".join(stores)}
ret;
}}
"""


def _operands(mma: Mma) -> list[tuple[str, str, Fragment]]:
    a, b, c = mma.fragments
    return [("a", mma.a, a), ("b", mma.b, b), ("c", mma.c, c), ("d", mma.c, c)]


def _register_type(name: str) -> str:
    return name if name in ("f32", "f64") else "b32"


def _step(fragment: Fragment) -> int:
    """The bytes of one register of a warp."""
    return WARP * fragment.bits // 8


def packed(fragment: Fragment, matrices: Array) -> Array:
    """Matrices of bits (one byte each for elements narrower than that) as registers [warps, registers, lanes]."""
    if fragment.width >= 8:
        return fragment.spread(matrices)
    elements = matrices.reshape(len(matrices), -1)[:, fragment.places.reshape(-1)]
    if fragment.width == 4:
        octets = elements[:, ::2] | elements[:, 1::2] << np.uint8(4)
    else:
        octets = np.packbits(elements, axis=1, bitorder="little")
    return np.ascontiguousarray(octets).view(np.uint32).reshape(len(matrices), fragment.registers, WARP)
