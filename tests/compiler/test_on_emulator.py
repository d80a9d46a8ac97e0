"""Compiled code, executed by the PTX emulator, against the reference: every row by its contract, and whole kernels."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tests.compiler.building import row_kernel
from tests.compiler.emulated import launch, run_emulated
from tests.compiler.kernels import SAMPLES, Sample
from tilewright import lang
from tilewright.bench.cases import gelu_reference
from tilewright.compiler import NOT_LOWERED, TARGETS, compile_module
from tilewright.compiler.lower.formats import FORMATS
from tilewright.difftest import LEVELS, STRATEGIES, Case, CaseText, RecordedChoices, check
from tilewright.difftest.storage import to_array
from tilewright.interpreter import Bounded, Buffer, DeviceAssertError, Options, execute
from tilewright.lang import BF16, F64, FP8, I32, I64, FloatType, Module, ScalarType

ROWS = sorted(set(STRATEGIES) - NOT_LOWERED - {"print"})
WARPS = (1, 2, 4, 8)
QUICK, DEEP = 2, 40


def setting(seed: int) -> tuple[str, int]:
    """A target and a number of warps; in seven times four seeds each pair has its turn."""
    return list(TARGETS)[seed % len(TARGETS)], WARPS[seed % len(WARPS)]


def problems(case: Case, seed: int) -> str:
    """What is wrong with the compiled code of a case: "" if nothing is, or if the reference stops."""
    if LEVELS["ttir"](case).stopped:
        return ""
    target, num_warps = setting(seed)
    wrong = check(case, run_emulated(case, target, num_warps), strict=False)
    return "\n".join([f"{target}, {num_warps} warps", *map(str, wrong), str(CaseText.of(case))]) if wrong else ""


@pytest.mark.parametrize("row", ROWS)
def test_a_row_does_what_its_contract_allows(row: str) -> None:
    for seed in range(QUICK):
        assert problems(STRATEGIES[row](RecordedChoices(seed)), seed) == ""


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_a_row_does_what_its_contract_allows_deep(row: str) -> None:
    for seed in range(QUICK, DEEP):
        assert problems(STRATEGIES[row](RecordedChoices(seed)), seed) == ""


#: Which argument of a kernel holds a result that may differ from the reference's, and its bound by the contracts.
BOUNDS: dict[str, Callable[[Sample], tuple[int, Bounded]]] = {
    "gelu": lambda sample: (1, gelu_reference(sample.arguments[0])),
}


@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_kernel_gives_what_the_reference_gives(name: str, num_warps: int) -> None:
    """Bit for bit, but for the kernels of BOUNDS, whose ops' contracts leave room."""
    sample = SAMPLES[name]()
    module = sample.module()
    wanted, got = sample.fresh(), sample.fresh()
    execute(module, buffers(wanted), sample.grid)
    target = list(TARGETS)[num_warps % len(TARGETS)]
    launch(compile_module(module, target, num_warps, until="ptx"), buffers(got), sample.grid)
    if name in BOUNDS:
        index, bound = BOUNDS[name](sample)
        assert bound.utilisation(wanted.pop(index)) <= 1
        assert bound.utilisation(got.pop(index)) <= 1
    for want, have in zip(wanted, got, strict=True):
        if isinstance(want, np.ndarray):
            assert want.tobytes() == have.tobytes()


def buffers(arguments: list[Any]) -> list[Any]:
    return [Buffer.of(f"a{i}", a) if isinstance(a, np.ndarray) else a for i, a in enumerate(arguments)]


# Rounding once


def ties(format_: FloatType) -> list[Fraction]:
    """The points halfway between neighbouring finite numbers of a format (for bf16 some of them), and the largest."""
    facts = FORMATS[format_.name]
    codes = range(0, facts.largest) if format_.is_fp8 else range(0x3F00, 0x5F80, 97)
    return [(exact(code, format_) + exact(code + 1, format_)) / 2 for code in codes] + [exact(facts.largest, format_)]


def exact(code: int, format_: FloatType) -> Fraction:
    """The number that a finite code without sign stands for."""
    field, fraction = code >> format_.mantissa, code & (1 << format_.mantissa) - 1
    whole = fraction + (1 << format_.mantissa if field else 0)
    return Fraction(whole) * Fraction(2) ** (max(field, 1) - FORMATS[format_.name].bias - format_.mantissa)


def near(points: list[Fraction], source: ScalarType) -> np.ndarray[Any, Any]:
    """Each point and what lies just beside it, of either sign, as far as the source has it."""
    values: list[Any] = []
    for point in points:
        if source == F64:
            middle = float(point)
            values += [middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0.0)]
        elif 0 < point < 2 ** (source.width - 1) - 2:  # type: ignore[union-attr]
            values += [int(point) - 1, int(point), int(point) + 1]
    kind = np.float64 if source == F64 else np.int32 if source == I32 else np.int64
    return np.array([*values, *(-value for value in values)], kind)


@pytest.mark.parametrize("source", [I32, I64, F64], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_wide_numbers_round_once_to_narrow_formats(target: str, source: ScalarType) -> None:
    name = "cast_f" if source == F64 else "s_to_f"
    for format_ in (BF16, *FP8):
        given = near(ties(format_), source)
        if not len(given):
            continue
        wanted, got = (to_array([0] * len(given), format_, (len(given),)) for _ in range(2))
        module = row_kernel(name, [((source,), format_)], 256)
        grid = (-(-len(given) // 256), 1, 1)
        execute(module, [Buffer.of("x", given.copy()), Buffer.of("y", wanted), len(given)], grid)
        compiled = compile_module(module, target, 4, until="ptx")
        launch(compiled, [Buffer.of("x", given.copy()), Buffer.of("y", got), len(given)], grid)
        assert wanted.tobytes() == got.tobytes(), format_


# Prints and asserts


@tilewright.jit
def talk(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.device_print("here")
    tl.device_print("values", v, i > 3)
    tl.device_print("bits", v, hex=True)
    tl.device_print("total 100%", tl.program_id(0))
    tl.device_assert(v < 5, "too big")


def debug_module(sample: Sample) -> Module:
    bound = sample.kernel.bind_launch(sample.arguments, dict(sample.constants))
    chosen = sample.kernel.specialize(bound)
    options = lang.FrontendOptions(debug=True)
    return lang.generate(sample.kernel, chosen.signature, chosen.constants, chosen.attributes, options)


@pytest.mark.parametrize("num_warps", [1, 4])
def test_prints_write_each_element_once(num_warps: int) -> None:
    """The lines are those of the reference, whatever their order; 8 elements in 32 or 128 threads."""
    sample = Sample(talk, (np.arange(-4, 4, dtype=np.int32),), (2, 1, 1), {"BLOCK": 8})
    module = debug_module(sample)
    said = io.StringIO()
    execute(module, buffers(sample.fresh()), sample.grid, Options(stdout=said))
    printed = launch(compile_module(module, "sm_90a", num_warps, until="ptx"), buffers(sample.fresh()), sample.grid)
    assert sorted(printed.splitlines()) == sorted(said.getvalue().splitlines())
    assert len(printed.splitlines()) == 2 * (1 + 16 + 8 + 1)


def test_a_failed_assert_stops_the_kernel_with_its_message() -> None:
    sample = Sample(talk, (np.arange(8, dtype=np.int32),), (1, 1, 1), {"BLOCK": 8})
    compiled = compile_module(debug_module(sample), "sm_90a", 4)
    assert compiled.stages["cubin"][:4] == b"\x7fELF"
    with pytest.raises(DeviceAssertError, match="too big"):
        launch(compiled, buffers(sample.fresh()), sample.grid, Options(debug=True))
