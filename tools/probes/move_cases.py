"""Instructions that move or order data, as data: each with a kernel around it and what NumPy says it must leave."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.interpreter.ptx.types import TYPES

from .patterns import hashed

Octets = NDArray[np.uint8]

THREADS, BLOCKS = 64, 2
SPAN = 64
"""Bytes of a thread: of the array it reads, of the one it writes, of shared, local and constant memory."""
CONSTANTS = hashed(5, SPAN // 8).view(np.uint8)
"""What constant memory holds."""

Want = Callable[[Octets, Octets], None]
"""Changes rows of the array that threads write into what they must be, given those that they read: [threads, SPAN]."""


@dataclass(frozen=True, slots=True)
class Move:
    """One instruction: its opcode, what else tells it apart, and PTX that executes it.

    In `body` %t is the thread, %w the block, %i both, %l the lane; %a and %o are the thread's bytes of the array that
    is read and of the one that is written, %s those in shared memory and %c those in local memory, which hold what %a
    has; %z is 0 and no constant for the assembler. There are registers %h0.., %x0.., %d0.., %q0.. of 16, 32, 64 and 128
    bits and predicates %p0... `needs` adds variables: `tensor` the parameter m, a tensor map. `cluster` is the blocks
    of one. `before` stands before the entry. `want` is None where nothing but hardware says what comes out.
    """

    opcode: str
    body: str
    want: Want | None
    note: str = ""
    before: str = ""
    threads: int = THREADS
    cluster: int = 0
    needs: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What the case is called in reports and data."""
        return f"{self.opcode} {self.note}".rstrip()

    @property
    def count(self) -> int:
        """Threads of the grid."""
        return self.threads * BLOCKS

    def text(self, target: str) -> str:
        """A module with the entry `k(a, o)`, or `k(m, a, o)`."""
        return "\n".join([*_head(self, target), *_setup(self), self.body, "ret;", "}", ""])


class Arrays:
    """What the kernels of a number of threads read, and what they find where they write."""

    def __init__(self, count: int) -> None:
        words = count * SPAN // 8
        self._read, self._written = (hashed(stream, words).view(np.uint8).reshape(count, SPAN) for stream in (3, 4))

    @property
    def read(self) -> Octets:
        """Bits at random."""
        return self._read.copy()

    @property
    def written(self) -> Octets:
        """Others, which show what is not written."""
        return self._written.copy()


def _head(move: Move, target: str) -> list[str]:
    parameters = [".param .align 64 .b8 m[128]"] * ("tensor" in move.needs) + [".param .u64 a", ".param .u64 o"]
    lines = [".version 8.8", f".target {target}", ".address_size 64"]
    if "constant" in move.needs:
        octets = ", ".join(map(str, [*CONSTANTS.tolist()] * 2))  # as many as a tensor map has, which one case asks for
        lines += [f".const .align 128 .b8 table[{2 * SPAN}] = {{{octets}}};"]
    lines += [move.before, f".visible .entry k({', '.join(parameters)})", f".reqntid {move.threads}, 1, 1"]
    return [*lines, f".reqnctapercluster {move.cluster}, 1, 1" if move.cluster else "", "{"]


_REGISTERS = (
    ".reg .b16 %h<16>; .reg .b32 %x<24>, %t, %w, %i, %l, %s, %b, %c, %z; .reg .b64 %d<24>, %a, %o; .reg .pred %p<8>;"
    " .reg .b128 %q<4>;"
)
_PLACES = (
    f"mov.u32 %t, %tid.x; mov.u32 %w, %ctaid.x; mov.u32 %i, %ntid.x; mad.lo.u32 %i, %w, %i, %t; and.b32 %l, %t, 31;"
    f" shr.u32 %z, %i, 20; ld.param.u64 %a, [a]; ld.param.u64 %o, [o]; mul.wide.u32 %d0, %i, {SPAN};"
    " add.u64 %a, %a, %d0; add.u64 %o, %o, %d0;"
)
_BUFFERS = {"shared": ("s", "%s"), "local": ("c", "%c")}


def _setup(move: Move) -> list[str]:
    lines = [_REGISTERS, _PLACES]
    for space, (name, register) in _BUFFERS.items():
        if not re.search(rf"{register}\b", move.body):
            continue
        size = SPAN * (move.threads if space == "shared" else 1)
        lines += [f".{space} .align 128 .b8 {name}[{size}]; mov.u32 {register}, {name};"]
        lines += [f"mad.lo.u32 {register}, %t, {SPAN}, {register};"] * (space == "shared")
        lines += [
            f"ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%a+{at}]; st.{space}.v4.b32 [{register}+{at}], "
            "{%x0, %x1, %x2, %x3};" for at in range(0, SPAN, 16)
        ]  # fmt: skip
    if re.search(r"%b\b", move.body):  # an mbarrier, or two
        lines += [".shared .align 8 .b8 bars[16]; mov.u32 %b, bars;"]
    return [*lines, "bar.sync 0;"]


def taken(space: str, register: str) -> str:
    """PTX that writes the thread's bytes of a state space to %o."""
    return " ".join(
        f"ld.{space}.v4.b32 {{%x0, %x1, %x2, %x3}}, [{register}+{at}]; st.global.v4.b32 [%o+{at}], "
        "{%x0, %x1, %x2, %x3};" for at in range(0, SPAN, 16)
    )  # fmt: skip


def put(*registers: str, first: int = 0) -> str:
    """PTX that writes registers to %o, 8 bytes apart."""
    width = {"h": 16, "d": 64}
    return " ".join(
        f"st.global.b{width.get(register[1], 32)} [%o+{8 * (first + n)}], {register};"
        for n, register in enumerate(registers)
    )


def bits_of(type_: str) -> int:
    """The width of a type."""
    return TYPES[type_].bits
