"""How many blocks fit, with how many registers more would, and which kernels are assembled with fewer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright
import tilewright.language as tl
from tilewright.bench import cases
from tilewright.bench.cases import Case
from tilewright.bench.sources import load_kernels
from tilewright.compiler import TARGETS, assemble, assemble_kernel, occupancy, resources
from tilewright.compiler.occupancy import LEAST, UNIT, register_limits, resident_blocks
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
    assert limits == sorted(limits) and all(LEAST * registers <= limit < registers for limit in limits)
    found = [blocks(limit) for limit in [*limits, registers]]
    assert all(fewer > more for fewer, more in zip(found, found[1:], strict=False))
    assert all(blocks(limit + 1) < blocks(limit) for limit in limits)
    least = min(n for n in range(1, registers + 1) if n >= LEAST * registers and n % UNIT == 0 or n == registers)
    assert blocks(least) == found[0]  # nothing between has more


def ptx_of(case: Case, **options: Any) -> tuple[str, str]:
    kernel = getattr(load_kernels(case.family, tilewright, tl), case.kernel)
    made = kernel.warmup(*case.arguments, grid=case.grid, device="emulator:sm_90a", **case.constants, **options)
    return case.kernel, made.asm["ptx"]


def plain(name: str, ptx: str) -> tuple[bytes, Any]:
    made = assemble(name, ptx, "sm_90a")
    return made.cubin, resources(made.cubin, name, made.log)


@pytest.mark.parametrize("num_warps", [4, 8, 16])
def test_rows_of_a_normalisation_get_room_for_more_blocks(num_warps: int) -> None:
    name, ptx = ptx_of(cases.layernorm(64, 8192, element=BF16), num_warps=num_warps)
    _, free = plain(name, ptx)
    cubin, held = assemble_kernel(name, ptx, "sm_90a", 256)
    before, after = (resident_blocks(TARGETS["sm_90a"], 32 * num_warps, x.registers, 256) for x in (free, held))
    assert after > before and held.spills == free.spills == held.stack == 0
    assert resources(cubin, name).registers == held.registers


def test_a_limit_that_spills_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of softmax with 4 warps the fewest registers would spill; the next are taken, and where none do, its own."""
    name, ptx = ptx_of(cases.softmax(64, 8192, programs=64, element=BF16), num_warps=4)
    cubin, free = plain(name, ptx)
    first, second = register_limits(TARGETS["sm_90a"], 128, free.registers, 256)
    _, held = assemble_kernel(name, ptx, "sm_90a", 256)
    assert first < held.registers <= second and held.spills == free.spills == 0
    monkeypatch.setattr(occupancy, "TRIES", 1)
    assert assemble_kernel(name, ptx, "sm_90a", 256) == (cubin, free)


def test_shared_memory_that_leaves_no_room_leaves_the_registers() -> None:
    name, ptx = ptx_of(cases.layernorm(64, 8192, element=BF16), num_warps=8)
    assert assemble_kernel(name, ptx, "sm_90a", 100_000) == plain(name, ptx)


def test_few_barriers_matrices_and_what_is_held_already_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    norm = cases.layernorm(64, 8192, element=BF16)
    one = ptx_of(cases.rmsnorm(64, 8192, element=BF16), num_warps=8)
    assert register_limits(TARGETS["sm_90a"], 256, plain(*one)[1].registers, 256)
    product = ptx_of(cases.matmul(128, 128, 128, 64, 64, 32), num_warps=2)
    assert register_limits(TARGETS["sm_90a"], 64, plain(*product)[1].registers, 0)
    held = ptx_of(norm, num_warps=8, maxnreg=80)
    assert plain(*held)[1].registers == 80
    for name, ptx in (one, product, held):
        assert assemble_kernel(name, ptx, "sm_90a", 0) == plain(name, ptx)
    name, ptx = ptx_of(norm, num_warps=8)
    no_threads = ptx.replace(".reqntid 256, 1, 1", "")
    assert no_threads != ptx and assemble_kernel(name, no_threads, "sm_90a", 0) == plain(name, no_threads)
    monkeypatch.setattr(occupancy, "MOST_CODE", 1000)
    assert assemble_kernel(name, ptx, "sm_90a", 0) == plain(name, ptx)
