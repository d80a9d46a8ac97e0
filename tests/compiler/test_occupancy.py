"""How many blocks fit, with how many registers more would, and which kernels are assembled with fewer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright
import tilewright.language as tl
from tilewright.bench import cases
from tilewright.bench.cases import Case
from tilewright.bench.sources import load_kernels
from tilewright.compiler import TARGETS, assemble, assemble_kernel, occupancy, resources
from tilewright.compiler.occupancy import FEW_BLOCKS, LEAST, UNIT, register_limits, resident_blocks
from tilewright.lang import BF16


@pytest.mark.parametrize(
    "target, threads, registers, shared, blocks",
    [
        ("sm_90a", 256, 32, 0, 8),  # all 2048 threads
        ("sm_86", 256, 40, 0, 6),  # all 1536
        ("sm_90a", 256, 33, 0, 6),  # 40 registers: 12 warps in each of four partitions
        ("sm_90a", 256, 64, 0, 4),
        ("sm_90a", 256, 65, 0, 3),  # 72: 7 warps in each
        ("sm_80", 128, 255, 0, 2),  # 256: 2 warps in each
        ("sm_90a", 128, 200, 0, 2),  # 2.56 blocks of registers, if warps could lie anywhere
        ("sm_90a", 1024, 64, 0, 1),
        ("sm_90a", 512, 255, 0, 0),
        ("sm_90a", 32, 16, 0, 32),
        ("sm_86", 32, 16, 0, 16),
        ("sm_89", 32, 16, 0, 24),
        ("sm_120a", 1, 16, 0, 24),
        ("sm_90a", 128, 32, 232_448, 1),
        ("sm_90a", 128, 32, 115_712, 2),
        ("sm_90a", 128, 32, 115_713, 1),
        ("sm_80", 128, 32, 32_768, 4),
        ("sm_90a", 128, 0, 0, 16),
    ],
)
def test_what_a_multiprocessor_has_room_for(
    target: str, threads: int, registers: int, shared: int, blocks: int
) -> None:
    assert resident_blocks(TARGETS[target], threads, registers, shared) == blocks


@given(
    st.sampled_from(sorted(TARGETS)), st.sampled_from([32 << n for n in range(6)]), st.integers(1, 255),
    st.sampled_from([0, 256, 8192, 50_000]),
)  # fmt: skip
def test_each_limit_is_the_most_with_which_another_block_fits(
    target: str, threads: int, registers: int, shared: int
) -> None:
    def blocks(limit: int) -> int:
        return resident_blocks(TARGETS[target], threads, limit, shared)

    limits = register_limits(TARGETS[target], threads, registers, shared)
    if blocks(registers) > FEW_BLOCKS:
        assert limits == []
        return
    assert limits == sorted(limits) and all(LEAST * registers <= limit < registers for limit in limits)
    found = [blocks(limit) for limit in [*limits, registers]]
    assert all(fewer > more for fewer, more in zip(found, found[1:], strict=False))
    assert all(blocks(limit + 1) < blocks(limit) for limit in limits)
    least = min(n for n in range(1, registers + 1) if n >= LEAST * registers and n % UNIT == 0 or n == registers)
    assert blocks(least) == found[0]  # nothing between has more


def made_of(case: Case, **options: Any) -> tuple[str, str, bool]:
    """A kernel's name, PTX, and whether its warps wait for each other."""
    kernel = getattr(load_kernels(case.family, tilewright, tl), case.kernel)
    made = kernel.warmup(*case.arguments, grid=case.grid, device="emulator:sm_90a", **case.constants, **options)
    return case.kernel, made.asm["ptx"], made.artifact.facts["waits"]


def plain(name: str, ptx: str, waits: bool) -> tuple[bytes, Any]:
    made = assemble(name, ptx, "sm_90a")
    return made.cubin, resources(made.cubin, name, made.log)


@pytest.mark.parametrize("num_warps", [4, 8, 16])
def test_rows_of_a_normalisation_get_room_for_more_blocks(num_warps: int) -> None:
    name, ptx, waits = made_of(cases.layernorm(64, 8192, element=BF16), num_warps=num_warps)
    _, free = plain(name, ptx, waits)
    cubin, held = assemble_kernel(name, ptx, "sm_90a", 256, waits)
    before, after = (resident_blocks(TARGETS["sm_90a"], 32 * num_warps, x.registers, 256) for x in (free, held))
    assert after > before and held.spills == free.spills == held.stack == 0
    assert resources(cubin, name).registers == held.registers


def test_a_limit_that_spills_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of softmax with 4 warps the fewest registers would spill; the next are taken, and where none do, its own."""
    name, ptx, waits = made_of(cases.softmax(64, 8192, programs=64, element=BF16), num_warps=4)
    cubin, free = plain(name, ptx, waits)
    first, second = register_limits(TARGETS["sm_90a"], 128, free.registers, 256)
    _, held = assemble_kernel(name, ptx, "sm_90a", 256, waits)
    assert first < held.registers <= second and held.spills == free.spills == 0
    monkeypatch.setattr(occupancy, "TRIES", 1)
    assert assemble_kernel(name, ptx, "sm_90a", 256, waits) == (cubin, free)


def test_what_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """No room in shared memory, a limit of its own, no number of threads, and too much code to do it twice."""
    norm = cases.layernorm(64, 8192, element=BF16)
    made = name, ptx, waits = made_of(norm, num_warps=8)
    assert assemble_kernel(name, ptx, "sm_90a", 100_000, waits) == plain(*made)
    held = made_of(norm, num_warps=8, maxnreg=80)
    assert waits and held[2] and plain(*held)[1].registers == 80
    assert assemble_kernel(*held[:2], "sm_90a", 0, True) == plain(*held)
    no_threads = ptx.replace(".reqntid 256, 1, 1", "")
    assert no_threads != ptx and assemble_kernel(name, no_threads, "sm_90a", 0, True) == plain(name, no_threads, True)
    monkeypatch.setattr(occupancy, "MOST_CODE", 1000)
    assert assemble_kernel(name, ptx, "sm_90a", 0, True) == plain(*made)


@tilewright.jit
def normalised(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + tl.program_id(0) * N + i).to(tl.float32)
    centred = value - tl.sum(value, axis=0) / N
    tl.store(out + tl.program_id(0) * N + i, centred * tl.rsqrt(tl.sum(centred * centred, axis=0) / N))


@tilewright.jit
def plain_product(a, b, out):
    i, k = tl.arange(0, 32), tl.arange(0, 32)
    x = tl.load(a + i[:, None] * 32 + k[None, :])
    y = tl.load(b + k[:, None] * 32 + i[None, :])
    total = tl.dot(x, y, input_precision="ieee")
    total -= tl.max(tl.max(total, axis=1), axis=0)
    tl.store(out + i[:, None] * 32 + i[None, :], total)


def test_whose_warps_wait_for_each_other() -> None:
    """In two reductions or more over several warps, and none of them a dot's."""

    def waits(kernel: Any, *arguments: Any, **options: Any) -> bool:
        made = kernel.warmup(*arguments, grid=(1,), device="emulator:sm_90a", **options)
        return bool(made.artifact.facts["waits"])

    x, square = np.zeros(4096, np.float32), np.zeros((32, 32), np.float32)
    assert waits(normalised, x, x, N=4096) and not waits(normalised, x, x, N=4096, num_warps=1)
    assert not waits(plain_product, square, square, square)
    assert not made_of(cases.rmsnorm(64, 8192, element=BF16))[2]
    name, ptx, some = made_of(cases.rmsnorm(64, 8192, element=BF16), num_warps=8)
    assert register_limits(TARGETS["sm_90a"], 256, plain(name, ptx, some)[1].registers, 256)
    assert assemble_kernel(name, ptx, "sm_90a", 256, some) == plain(name, ptx, some)
