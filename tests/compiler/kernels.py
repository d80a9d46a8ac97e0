"""Kernels in source for the compiler's tests, each with arguments to run it on: elementwise work, loops, shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright
import tilewright.language as tl
from tilewright import lang
from tilewright.lang import Module
from tilewright.runtime import JITFunction


@dataclass(frozen=True, slots=True)
class Sample:
    """A kernel, the arrays and numbers to run it on, its constants, and the grid."""

    kernel: JITFunction
    arguments: tuple[Any, ...]
    grid: tuple[int, int, int]
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def module(self) -> Module:
        """The kernel's IR under the assumptions that these arguments lead to."""
        bound = self.kernel.bind_launch(self.arguments, dict(self.constants))
        chosen = self.kernel.specialize(bound)
        return lang.generate(self.kernel, chosen.signature, chosen.constants, chosen.attributes, lang.FrontendOptions())

    def fresh(self) -> list[Any]:
        """The arguments that are passed at run time, arrays copied."""
        bound = self.kernel.bind_launch(self.arguments, dict(self.constants))
        chosen = self.kernel.specialize(bound)
        values = [bound[name] for name in chosen.signature]
        return [value.copy() if isinstance(value, np.ndarray) else value for value in values]


@tilewright.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)


@tilewright.jit
def half_of(x):
    return x * 0.5


@tilewright.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    v = tl.load(x + offsets, mask=inside)
    tl.store(out + offsets, half_of(v) * (1 + tl.erf(v * 0.7071067811865476)), mask=inside)


@tilewright.jit
def bits(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    v = tl.load(x + offsets, mask=inside, other=7)
    v = (v ^ (v >> 3)) * 40503 + (v << 5)
    tl.store(out + offsets, (v & 0xFFFF) // 3 + v % 7, mask=inside)


@tilewright.jit
def outer(x, y, out, stride, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    product = tl.load(x + rows)[:, None] * tl.load(y + columns)[None, :]
    tl.store(out + rows[:, None] * stride + columns[None, :], product)


@tilewright.jit
def transposed(x, out, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(out + columns[:, None] * M + rows[None, :], tl.trans(tile) + 1)


@tilewright.jit
def pairs(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    both = tl.load(x + i).reshape(N // 2, 2)
    a, b = tl.split(both)
    again = tl.join(b, a + b).reshape(N)
    tl.store(out + i, again)


@tilewright.jit
def rows_in_a_loop(x, out, rows, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, rows):
        total += tl.load(x + row * stride + i)
    tl.store(out + i, total)


@tilewright.jit
def steps(out, n):
    count = 0
    for i in range(n, -3, -2):
        count += i
    for j in tl.range(0, 7, 3):
        count = count * 10 + j
    tl.store(out, count)


@tilewright.jit
def collatz(out, n, LIMIT: tl.constexpr):
    pid = tl.program_id(0)
    value = pid + n
    length = 0
    while value != 1 and length < LIMIT:
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        length += 1
    tl.store(out + pid, length)


@tilewright.jit
def branch_on_program(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offsets)
    if tl.program_id(0) % 2 == 0:
        v = v + 1
    else:
        v = v * 2
        tl.store(out + offsets, v)
    tl.store(out + offsets, v + tl.load(out + offsets))


@tilewright.jit
def shifted_in_place(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(x + (i + 1) % BLOCK, v)
    w = tl.load(x + i)
    tl.store(x + i, w * 2)


@tilewright.jit
def counted(x, total, seen, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    v = tl.load(x + offsets, mask=inside, other=0)
    old = tl.atomic_add(total + v, 1, mask=inside)
    tl.store(seen + offsets, (old >= 0).to(tl.int32), mask=inside)


def f32(n: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def i32(n: int, low: int = -(2**31), high: int = 2**31, seed: int = 2) -> Any:
    return np.random.default_rng(seed).integers(low, high, n).astype(np.int32)


def zeros(n: int, dtype: Any = np.float32) -> Any:
    return np.zeros(n, dtype)


SAMPLES: dict[str, Callable[[], Sample]] = {
    "add": lambda: Sample(add, (f32(1000), f32(1000, 2), zeros(1000), 1000), (4, 1, 1), {"BLOCK": 256}),
    "add, aligned": lambda: Sample(add, (f32(1024), f32(1024, 2), zeros(1024), 1024), (1, 1, 1), {"BLOCK": 1024}),
    "add, small": lambda: Sample(add, (f32(99), f32(99, 2), zeros(99), 99), (7, 1, 1), {"BLOCK": 16}),
    "add, f16": lambda: Sample(
        add, (f32(999).astype(np.float16), f32(999, 2).astype(np.float16), zeros(999, np.float16), 999), (1, 1, 1),
        {"BLOCK": 1024},
    ),
    "gelu": lambda: Sample(gelu, (f32(1000) * 3, zeros(1000), 1000), (2, 1, 1), {"BLOCK": 512}),
    "bits": lambda: Sample(bits, (i32(1000), zeros(1000, np.int32), 1000), (4, 1, 1), {"BLOCK": 256}),
    "outer": lambda: Sample(outer, (f32(32), f32(64, 2), zeros(2048), 64), (1, 1, 1), {"M": 32, "N": 64}),
    "transposed": lambda: Sample(transposed, (f32(512), zeros(512)), (1, 1, 1), {"M": 16, "N": 32}),
    "pairs": lambda: Sample(pairs, (f32(256), zeros(256)), (1, 1, 1), {"N": 256}),
    "rows_in_a_loop": lambda: Sample(rows_in_a_loop, (f32(5 * 128), zeros(128), 5, 128), (1, 1, 1), {"BLOCK": 128}),
    "steps": lambda: Sample(steps, (zeros(1, np.int32), 9), (1, 1, 1)),
    "collatz": lambda: Sample(collatz, (zeros(8, np.int32), 6), (8, 1, 1), {"LIMIT": 50}),
    "branch_on_program": lambda: Sample(branch_on_program, (f32(256), f32(256, 3)), (2, 1, 1), {"BLOCK": 128}),
    "shifted_in_place": lambda: Sample(shifted_in_place, (f32(256),), (1, 1, 1), {"BLOCK": 256}),
    "counted": lambda: Sample(
        counted, (i32(500, 0, 7), zeros(8, np.int32), zeros(500, np.int32), 500), (4, 1, 1), {"BLOCK": 128}
    ),
}  # fmt: skip
