"""The instructions of a kernel's PTX that order its threads, spread its banks or guard its accesses, one by one.

    bar.sync 0;                    barrier, and so is `bar.warp.sync`
    cp.async.wait_group 1;         wait, and so are those of bulk copies and `wgmma`
    mbarrier.try_wait... %p, ...   wait, which a mutant has over at once; an arrival is a barrier
    cp.async.commit_group;         commit
    fence.acq_rel.gpu;             fence, and so are `membar` and `wgmma.fence`
    xor.b32 %r3, %r1, %r2;         swizzle, where an address in shared memory is made of it
    @%p1 ld.global.b32 ...         mask, and so is the number of bytes that a `cp.async` reads

Read as LLVM prints it: an instruction a line, those of inline PTX too, and blocks of `.loc` lines between them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

BARRIER, WAIT, COMMIT, FENCE, SWIZZLE, MASK = "barrier", "wait", "commit", "fence", "swizzle", "mask"
KINDS = (BARRIER, WAIT, COMMIT, FENCE, SWIZZLE, MASK)
#: What orders accesses. Without one of these a kernel does the same work, sooner.
ORDERING = (BARRIER, WAIT, COMMIT, FENCE)

_LINE = re.compile(r"\s*(?:(@!?%\w+)\s+)?([a-z][\w.:]*)(?:\s+([^;]*))?;")
_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)\s+(\d+)")
_REGISTER = re.compile(r"%[a-z]+\d+")
_ADDRESS = re.compile(r"\[([^\]]*)\]")
_ORDERS = (
    (BARRIER, re.compile(r"bar\.|barrier\.|mbarrier\.arrive")),
    (WAIT, re.compile(r"(cp\.async(\.bulk)?|wgmma)\.wait_|mbarrier\.(try|test)_wait")),
    (COMMIT, re.compile(r"(cp\.async(\.bulk)?|wgmma)\.commit_")),
    (FENCE, re.compile(r"fence\.|membar\.|wgmma\.fence")),
)
_POLLS = re.compile(r"mbarrier\.(try|test)_wait")
#: What makes an address out of numbers; an address that is loaded or shuffled is no swizzle.
_ARITHMETIC = frozenset(
    ("mov", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "not", "cvt", "cvta", "lop3", "bfe", "bfi",
     "prmt", "shf", "selp", "min", "max")
)  # fmt: skip
ACCESSES = frozenset(("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix"))


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction at a line of the PTX (from 0 on), and what a mutant has in its place ("" for nothing).

    source: the line of the kernel's source that it was made for, 0 where none is known.
    """

    kind: str
    line: int
    text: str
    instead: str
    source: int

    def __str__(self) -> str:
        return f"{self.kind} of line {self.source}: {self.text}{f' -> {self.instead}' if self.instead else ''}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction at a line of the PTX, for a line of the source, in parts: `guard` is "@%p1", "@!%p1" or ""."""

    line: int
    source: int
    guard: str
    opcode: str
    operands: str

    @property
    def base(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def text(self) -> str:
        return f"{self.guard} {self.unguarded}".strip()

    @property
    def unguarded(self) -> str:
        return f"{self.opcode} {self.operands}".strip() + ";"


def sites_of(ptx: str) -> list[Site]:
    """Every site of a module, in the order of the text. An XOR of two registers is two sites: each may be left out."""
    instructions = list(instructions_of(ptx))
    mixed = _in_shared_addresses(instructions)
    return [site for each in instructions for site in _sites(each, each.line in mixed)]


def replaced(ptx: str, site: Site) -> str:
    """The module with something else in the place of a site."""
    lines = ptx.split("\n")
    lines[site.line] = site.instead
    return "\n".join(lines)


def instructions_of(ptx: str) -> Iterator[Instruction]:
    """The instructions of a module, in the order of the text."""
    source = 0
    for number, line in enumerate(ptx.split("\n")):
        if found := _LOC.match(line):
            source = int(found[1]) or source
        elif found := _LINE.match(line):
            operands = re.sub(r"\s+", " ", (found[3] or "").strip())
            yield Instruction(number, source, found[1] or "", found[2], operands)


def _sites(each: Instruction, mixed: bool) -> Iterator[Site]:
    for kind, pattern in _ORDERS:
        if pattern.match(each.opcode):
            done = each.operands.partition(",")[0].partition("|")[0]
            over = f"setp.eq.u32 {done}, 0, 0;" if _POLLS.match(each.opcode) else ""
            yield Site(kind, each.line, each.text, over, each.source)
            return
    if mixed and each.base == "xor":
        target, *parts = each.operands.split(", ")
        width = each.opcode.partition(".")[2]
        for part in parts:
            if part.startswith("%"):
                yield Site(SWIZZLE, each.line, each.text, f"mov.{width} {target}, {part};", each.source)
    if each.base in ACCESSES and each.guard:
        yield Site(MASK, each.line, each.text, each.unguarded, each.source)
    if each.opcode.startswith("cp.async.c") and each.operands.count(", ") == 3:
        whole, _, _ = each.unguarded.rpartition(", ")
        yield Site(MASK, each.line, each.text, f"{each.guard} {whole};".strip(), each.source)


def _in_shared_addresses(instructions: Sequence[Instruction]) -> set[int]:
    """The lines of the arithmetic that addresses in shared memory are made by."""
    makers: dict[str, list[Instruction]] = defaultdict(list)
    for each in instructions:
        if each.base in _ARITHMETIC:
            makers[each.operands.partition(",")[0]].append(each)
    queue = [register for each in instructions for register in _shared_address(each)]
    return _reached(makers, queue)


def _shared_address(each: Instruction) -> list[str]:
    """The registers of the address in shared memory that an instruction accesses, which is its first one."""
    parts = each.opcode.split(".")
    shared = each.base in ACCESSES and ("shared" in parts or "ldmatrix" in parts or "stmatrix" in parts)
    found = _ADDRESS.search(each.operands)
    return _REGISTER.findall(found[1]) if shared and found else []


def _reached(makers: Mapping[str, Sequence[Instruction]], queue: list[str]) -> set[int]:
    seen: set[str] = set()
    lines: set[int] = set()
    while queue:
        register = queue.pop()
        if register in seen:
            continue
        seen.add(register)
        for maker in makers.get(register, ()):
            lines.add(maker.line)
            queue += _REGISTER.findall(maker.operands)
    return lines
