"""Single instructions as data, and a kernel for each that executes it on many operands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.interpreter.ptx.bounds import Bound
from tilewright.interpreter.ptx.types import TYPES, Array, PtxType

from .patterns import SWEEP, is_swept, operands, register

THREADS = 256
FEW = 1 << 12
"""Operands of an instruction that the emulator computes number by number, or of which there are very many."""
_FEW = re.compile(r"\.r[zmp]\.f64$|^fns|^redux|^match|^setp?\.\w+\.(and|or|xor)")


@dataclass(frozen=True, slots=True)
class Case:
    """One instruction: its name, the row that it belongs to, and the types of its results and operands.

    `body` is how PTX writes it where that is not `name results, operands;`. In it `{d0}`, `{d1}` are results, `{a0}`,
    `{a1}` operands, `{cell}` is the address of eight bytes in global memory that belong to the thread, and `{shared}`
    that of eight bytes in shared memory; %wide is a register of 128 bits. `narrowed` gives operands masks: not all of
    their bits may be set.
    """

    name: str
    row: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    body: str = ""
    bounds: tuple[Bound, ...] = ()
    narrowed: tuple[int, ...] = ()

    @property
    def swept(self) -> bool:
        """Whether it gets all of its inputs."""
        return is_swept(self.inputs)

    @property
    def count(self) -> int:
        """On how many operands it is executed."""
        return SWEEP if self.swept or not _FEW.search(self.name) else FEW

    @property
    def operands(self) -> tuple[Array, ...]:
        """Its operands as bits."""
        found = operands(self.inputs, self.count)
        if not self.narrowed:
            return found
        return tuple(x & x.dtype.type(mask) for x, mask in zip(found, self.narrowed, strict=True))

    @property
    def line(self) -> str:
        """The instruction with the registers of `text`."""
        names = {f"d{n}": f"%d{n}" for n in range(len(self.outputs))}
        names |= {f"a{n}": f"%a{n}" for n in range(len(self.inputs))}
        listed = ", ".join(f"{{{name}}}" for name in names)
        return (self.body or f"{self.name} {listed};").format(**names, cell="%cell", shared="%shared")


@dataclass(frozen=True)
class Result:
    """A result of a kernel: its type, and its place among the bytes that the kernel writes for `count` threads."""

    type: PtxType
    first: int
    count: int

    @cached_property
    def stored(self) -> np.dtype[np.unsignedinteger]:
        """What is written: the whole register; 32 bits for bytes and predicates."""
        return np.dtype(f"u{stored_bits(self.type) // 8}")

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.first + self.count * self.stored.itemsize

    def of(self, octets: Array) -> Array:
        """The result of every thread, as bits."""
        return octets[self.first : self.end].view(self.stored)


def stored_bits(type_: PtxType) -> int:
    """The width of the register that a result is in."""
    return 32 if type_.bits < 16 else type_.bits


def results(case: Case, count: int) -> list[Result]:
    """The results of a kernel of so many threads, which must be a multiple of 8, in the order of their places."""
    found, at = list[Result](), 0
    for name in case.outputs:
        found.append(Result(TYPES[name], at, count))
        at = found[-1].end
    return found


def octets_of(case: Case, count: int) -> Array:
    """Room for what the kernel writes: its results, and a cell of 8 bytes for each thread where it has one."""
    cells = 8 * count if "{cell}" in case.body else 0
    return np.zeros(results(case, count)[-1].end + cells, np.uint8)


def text(case: Case, target: str, count: int) -> str:
    """A module with the entry `k(a, b, ..., out)`: each thread executes the instruction on its operands."""
    parameters = [f"p{n}" for n in range(len(case.inputs))]
    where = results(case, count)
    lines = [".reg .b64 %p, %i, %cell; .reg .b32 %t, %shared, %flag; .reg .b16 %octet; .reg .b128 %wide;"]
    lines += [f".reg .{_register(TYPES[name], 16)} %a{n};" for n, name in enumerate(case.inputs)]
    lines += [f".reg .{_register(TYPES[name], 32)} %d{n};" for n, name in enumerate(case.outputs)]
    lines += [
        f"mov.u32 %flag, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %flag, %flag, {THREADS}, %t; cvt.u64.u32 %i, %flag;"
    ]
    if "{shared}" in case.body:
        lines += [f".shared .align 8 .b8 cells[{8 * THREADS}];", "mov.u32 %shared, cells;"]
        lines += ["mad.lo.u32 %shared, %t, 8, %shared;"]
    if "{cell}" in case.body:
        lines += [f"ld.param.u64 %p, [o]; mad.lo.u64 %cell, %i, 8, %p; add.u64 %cell, %cell, {where[-1].end};"]
    for n, (name, parameter) in enumerate(zip(case.inputs, parameters, strict=True)):
        lines += [f"ld.param.u64 %p, [{parameter}]; mad.lo.u64 %p, %i, {register(name).itemsize}, %p;"]
        lines += _load(TYPES[name], n)
    lines += [case.line, "ld.param.u64 %p, [o];"]
    for n, result in enumerate(where):
        lines += _store(result, n)
    return _module(target, [*parameters, "o"], lines)


def _register(type_: PtxType, least: int) -> str:
    return "pred" if type_.kind == "p" else f"b{max(type_.bits, least if type_.bits < 16 else 16)}"


def _load(type_: PtxType, number: int) -> list[str]:
    if type_.kind == "p":
        return [f"ld.global.u8 %octet, [%p]; setp.ne.u16 %a{number}, %octet, 0;"]
    return [f"ld.global.b{max(type_.bits, 16)} %a{number}, [%p];"]


def _store(result: Result, number: int) -> list[str]:
    size, value = result.stored.itemsize, f"%d{number}"
    lines = [f"mad.lo.u64 %cell, %i, {size}, %p;"]
    if result.type.kind == "p":
        lines, value = [*lines, f"selp.b32 %flag, 1, 0, {value};"], "%flag"
    return [*lines, f"st.global.b{8 * size} [%cell+{result.first}], {value};"]


def _module(target: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
    listed = ", ".join(f".param .u64 {name}" for name in parameters)
    head = f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k({listed})\n.reqntid {THREADS}, 1, 1\n"
    return "\n".join([head + "{", *lines, "ret;", "}", ""])
