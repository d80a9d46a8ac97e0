"""Races by the book: straight-line programs of threads that touch a few bytes and meet, and vector clocks for each.

A program is a list of steps that all threads of a block come to in order. This is the slow and plain twin of what the
emulator does with records of the last accesses: it keeps every access, and the whole clock of every thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

THREADS = 64
EVERY = (1 << THREADS) - 1


@dataclass(frozen=True)
class Touch:
    """The threads of `mask` (bits) access `width` bytes of shared memory, each at its `address`.

    kind: `ld`, `st`, `atom` or `peek` (a relaxed load).
    """

    kind: str
    mask: int
    width: int
    stride: int
    first: int
    span: int

    def address(self, thread: int) -> int:
        """Where a thread's access begins."""
        return self.width * ((thread * self.stride + self.first) % self.span)


@dataclass(frozen=True)
class Meet:
    """Threads meet: `sync` wait, `arrive` go on at once. kind: `bar` (all), `named` (whole warps) or `warp` (lanes)."""

    kind: str
    sync: int
    arrive: int = 0


Step = Touch | Meet


def members(mask: int) -> list[int]:
    """The threads of a mask."""
    return [t for t in range(THREADS) if mask >> t & 1]


def racing(program: Sequence[Step]) -> set[tuple[int, int]]:
    """The pairs of steps (earlier first) that race."""
    clocks = [[0] * THREADS for _ in range(THREADS)]
    for t in range(THREADS):
        clocks[t][t] = 1
    done: list[tuple[int, Touch, int, list[int]]] = []
    for number, step in enumerate(program):
        if isinstance(step, Meet):
            _meet(clocks, step)
        else:
            done += [(number, step, t, list(clocks[t])) for t in members(step.mask)]
    return {
        (a[0], b[0])
        for a, b in combinations(done, 2)
        if a[2] != b[2] and _overlap(a, b) and _conflict(a[1].kind, b[1].kind) and b[3][a[2]] < a[3][a[2]]
    }


def _meet(clocks: list[list[int]], step: Meet) -> None:
    everybody = members(step.sync | step.arrive)
    joined = [max(clocks[t][u] for t in everybody) for u in range(THREADS)]
    for t in members(step.sync):
        clocks[t] = list(joined)
    for t in everybody:
        clocks[t][t] += 1


def _overlap(a: tuple[int, Touch, int, list[int]], b: tuple[int, Touch, int, list[int]]) -> bool:
    low, high = a[1].address(a[2]), b[1].address(b[2])
    return low < high + b[1].width and high < low + a[1].width


def _conflict(first: str, second: str) -> bool:
    kinds = {first, second}
    if kinds <= {"ld", "peek"} or kinds <= {"atom", "peek"}:
        return False
    return True


def ptx(program: Sequence[Step]) -> str:
    """The body that executes a program of one block; step `n` is line `n + 1`."""
    return "\n".join(_text(number, step) for number, step in enumerate(program))


def _guard(mask: int) -> str:
    low, high = mask & 0xFFFF_FFFF, mask >> 32
    return f"selp.b32 %x, {low:#x}, {high:#x}, %q; shr.u32 %x, %x, %y; and.b32 %x, %x, 1; setp.ne.u32 %p, %x, 0;"


def _text(number: int, step: Step) -> str:
    if isinstance(step, Meet):
        return _meeting(step)
    place = (
        f"mul.lo.u32 %z, %t, {step.stride}; add.u32 %z, %z, {step.first}; rem.u32 %z, %z, {step.span};"
        f"mul.lo.u32 %z, %z, {step.width}; add.u32 %z, %z, %s0; mad.lo.u32 %w, %t, 100, {number + 1};"
    )
    bits = 8 * step.width
    access = {
        "ld": f"ld.shared.b{bits} %w, [%z];",
        "peek": f"ld.relaxed.cta.shared.b{bits} %w, [%z];",
        "st": f"st.shared.b{bits} [%z], %w;",
        "atom": f"red.shared.add.u{bits} [%z], %w;",
    }[step.kind]
    return f"{_guard(step.mask)} {place} @%p {access}"


def _meeting(step: Meet) -> str:
    if step.kind == "bar":
        return "bar.sync 0;"
    if step.kind == "named":
        count = len(members(step.sync | step.arrive))
        arrive = f"{_guard(step.arrive)} @%p bar.arrive 1, {count};" if step.arrive else ""
        return f"{arrive} {_guard(step.sync)} @%p bar.sync 1, {count};"
    low, high = step.sync & 0xFFFF_FFFF, step.sync >> 32
    return f"{_guard(step.sync)} selp.b32 %x, {low:#x}, {high:#x}, %q; @%p bar.warp.sync %x;"
