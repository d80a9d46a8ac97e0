"""GPU IR of compiled kernels in threads and registers: the bits of the interpreter, and faults of order are found."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.compiler.emulated import run_case
from tests.compiler.kernels import SAMPLES, Sample
from tests.compiler.pipelined import KERNELS, sample
from tilewright import lang
from tilewright.bench import cases
from tilewright.bench.sources import load_kernels
from tilewright.compiler import compile_module
from tilewright.difftest import STRATEGIES, RecordedChoices
from tilewright.difftest.campaign import seed_of
from tilewright.interpreter import (
    Buffer,
    DistributionError,
    InterpreterError,
    MemoryAccessError,
    Options,
    execute,
    execute_distributed,
)
from tilewright.lang import Module, Operation

Run = Callable[..., None]
RUNS: tuple[Run, Run] = (execute, execute_distributed)


def gpu_ir(module: Module, num_warps: int, num_stages: int = 3, target: str = "sm_90a") -> Module:
    """The last IR that the compiler makes of a module."""
    made = compile_module(module, target, num_warps, num_stages=num_stages, until="ttgir")
    return lang.parse_module(str(made.stages["ttgir"]))


def left(run: Run, module: Module, case: Sample) -> list[bytes]:
    """What a kernel leaves in its arrays."""
    given = case.fresh()
    run(module, [Buffer.of(f"a{i}", v) if isinstance(v, np.ndarray) else v for i, v in enumerate(given)], case.grid)
    return [value.tobytes() for value in given if isinstance(value, np.ndarray)]


def agrees(module: Module, case: Sample) -> bool:
    return left(execute_distributed, module, case) == left(execute, module, case)


@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_leave_the_same_bits(name: str, num_warps: int) -> None:
    case = SAMPLES[name]()
    assert agrees(gpu_ir(case.module(), num_warps), case)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_pipelined_loops_leave_the_same_bits(name: str, stages: int) -> None:
    module = gpu_ir(loop(name, 3).module(), 4, stages)  # the same for all bounds
    for rounds in (-1, 0, 1, stages, 7):
        assert agrees(module, loop(name, rounds)), rounds


def loop(name: str, rounds: int) -> Sample:
    return sample(name, rounds, **({"OTHER": 1.0} if name == "masked" else {}))


BENCHED: dict[str, Callable[[], cases.Case]] = {
    "softmax": lambda: cases.softmax(2, 4096, 1),
    "layernorm": lambda: cases.layernorm(2, 1000),
    "matmul": lambda: cases.matmul(128, 128, 128, 64, 64, 32),
    "matmul, block pointers": lambda: cases.matmul(64, 64, 64, 64, 64, 32, blocks=True),
    "attention": lambda: cases.attention(1, 128, 64),
    "scale_shift": lambda: cases.scale_shift(40, 100),
    "dropout": lambda: cases.dropout(3000),
    "gelu": lambda: cases.gelu(3000),
}


@pytest.mark.parametrize("num_warps", [4, 8])
@pytest.mark.parametrize("name", BENCHED)
def test_benchmarks_leave_the_same_bits(name: str, num_warps: int) -> None:
    case = BENCHED[name]()
    kernel = getattr(load_kernels(case.family, tilewright, tilewright.language), case.kernel)
    x, y, z = (*case.grid, 1, 1)[:3]
    one = Sample(kernel, case.arguments, (x, y, z), case.constants)
    assert agrees(gpu_ir(one.module(), num_warps), one)


# --- every row ---


def rows_agree(seeds: range) -> Counter[str]:
    """Run one case of each row for each seed as GPU IR; how they ended: "" for well, or the error of both."""
    ends: Counter[str] = Counter()
    for row in STRATEGIES:
        for seed in seeds:
            case = STRATEGIES[row](RecordedChoices(seed_of(row, seed)))

            def both(module: Module, arrays: Any, grid: Any, warps: int = 1 << seed % 4, row: str = row) -> str:
                made = gpu_ir(module, warps)
                want, got = (ended(run, made, [each.copy() for each in arrays], grid) for run in RUNS)
                assert got == want, (row, warps)
                ends[want if isinstance(want, str) else ""] += 1
                return ""

            run_case(case, both)
    return ends


def ended(run: Run, module: Module, arrays: list[Any], grid: Any) -> str | list[bytes]:
    """What a kernel leaves behind, or the name of its error."""
    given = [Buffer.of(f"b{i}", each) if each.ndim else each.item() for i, each in enumerate(arrays)]
    try:
        run(module, given, grid, Options(stdout=io.StringIO()))
    except InterpreterError as error:
        return type(error).__name__
    return [each.tobytes() for each in arrays]


def test_every_row_leaves_the_same_bits() -> None:
    ends = rows_agree(range(1))
    assert ends[""] > 100 and DistributionError.__name__ not in ends


@pytest.mark.slow
def test_every_row_leaves_the_same_bits_often() -> None:
    assert rows_agree(range(1, 7))[MemoryAccessError.__name__] > 0


# --- faults of order ---


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to an op of some name, and whether it is in the loop."""

    name: str
    what: str
    looped: bool


def broken(module: Module) -> Iterator[tuple[Fault, Module]]:
    """The module with each wait, commit and barrier left out in turn, and with each wait for one group too few."""
    text = lang.print_module(module)
    for number, operation in enumerate(module.kernel.walk()):
        if operation.name not in ("async_wait", "async_commit", "barrier"):
            continue
        looped = isinstance(operation.block.parent, Operation)  # type: ignore[union-attr]
        for what in ("deleted", *(("early",) if operation.name == "async_wait" else ())):
            again = lang.parse_module(text)
            spoil(list(again.kernel.walk())[number], what)
            yield Fault(operation.name, what, looped), again


def spoil(operation: Operation, what: str) -> None:
    if what == "early":
        pending = operation.attributes["pending"]
        assert isinstance(pending, int)
        operation.attributes["pending"] = pending + 1
        return
    for result, operand in zip(operation.results, operation.operands, strict=True):
        result.replace_uses(operand)
    operation.erase()


@pytest.mark.parametrize("name", ["plain", "gather", "conditional", "nested"])
def test_waits_commits_and_barriers_of_a_pipelined_loop_are_all_needed(name: str) -> None:
    case = loop(name, 6)  # what the last round loads ahead is in the stage that the next loop fills first
    module = gpu_ir(case.module(), 4)
    want = left(execute, module, case)
    found: Counter[str] = Counter()
    for fault, wrong in broken(module):
        lang.verify(wrong)
        assert left(execute, wrong, case) == want  # as values nothing has changed
        if fault.name == "barrier" and not fault.looped:
            continue  # what these keep apart is global memory, or scratch memory from a buffer
        with pytest.raises(DistributionError, match="before the copy|no barrier since"):
            left(execute_distributed, wrong, case)
        found[fault.name] += 1
    assert set(found) == {"async_wait", "async_commit", "barrier"}


def test_a_conversion_that_is_left_out_is_found() -> None:
    case = SAMPLES["transposed"]()
    module = gpu_ir(case.module(), 4)
    (conversion,) = (operation for operation in module.kernel.walk() if operation.name == "convert_layout")
    conversion.result.replace_uses(conversion.operands[0])
    conversion.erase()
    with pytest.raises(DistributionError, match="meet, but lie in other places"):
        left(execute_distributed, module, case)
