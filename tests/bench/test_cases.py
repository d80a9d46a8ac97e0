"""The work of the demo and the benchmarks: right by the ops' contracts, and the check can tell wrong from right."""

from collections.abc import Callable

import numpy as np
import pytest

import tilewright
from tilewright import bench, language
from tilewright.bench import Case, cases, load_kernels
from tilewright.lang import BF16

SMALL: dict[str, Callable[[], Case]] = {
    "add": lambda: cases.add(3_000),
    "gelu": lambda: cases.gelu(3_000),
    "dropout": lambda: cases.dropout(3_000),
    "hash": lambda: cases.hash_bits(3_000),
    "scale and shift": lambda: cases.scale_shift(37, 100, 8, 32),
    "softmax": lambda: cases.softmax(37, 100, programs=5),
    "softmax of bf16": lambda: cases.softmax(7, 100, programs=5, element=BF16),
    "layernorm": lambda: cases.layernorm(9, 300),
    "layernorm of bf16": lambda: cases.layernorm(5, 300, element=BF16),
    "rmsnorm": lambda: cases.rmsnorm(9, 300),
    "rmsnorm of bf16": lambda: cases.rmsnorm(5, 300, element=BF16),
    "matmul": lambda: cases.matmul(100, 70, 90, 32, 32, 16),
    "matmul with block pointers": lambda: cases.matmul(100, 70, 90, 32, 32, 16, blocks=True),
    "attention": lambda: cases.attention(2, 64, 16, 16, 16, causal=False),
    "causal attention": lambda: cases.attention(2, 64, 16, 16, 16, causal=True),
}


def run(case: Case) -> None:
    kernel = getattr(load_kernels(case.family, tilewright, language), case.kernel)
    kernel[case.grid](*case.arguments, **case.constants)


@pytest.mark.parametrize("name", SMALL)
def test_the_reference_is_right_by_contract_and_a_wrong_element_is_seen(name: str) -> None:
    case = SMALL[name]()
    assert case.check() > 1  # before the kernel has run, its outputs are zeros
    run(case)
    assert case.check() <= 1
    for index in case.outputs:
        output = case.arguments[index].reshape(-1)
        place = int(np.argmax(np.abs(output)))
        kept = output[place]
        output[place] = kept * 1.03 if output.dtype.kind in "fV" else kept ^ 1
        assert case.check() > 1
        output[place] = kept
    assert case.check() <= 1


def test_a_missing_family_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no kernels named sorting"):
        load_kernels("sorting", tilewright, language)


def test_sources_leave_no_trace_in_the_process() -> None:
    import sys

    before = sys.modules.get("triton")
    module = bench.load_kernels("matmul", tilewright, language)
    assert sys.modules.get("triton") is before and module.triton is tilewright


def test_an_error_in_any_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks go part by part, and parts need not divide the whole."""
    monkeypatch.setattr(cases, "PART", 512)
    for case in (cases.add(3_000), cases.hash_bits(3_000), cases.layernorm(9, 300)):
        run(case)
        assert case.check() <= 1
        for index in case.outputs:
            for place in (0, -1):
                arguments = case.fresh()
                arguments[index].reshape(-1)[place] += 1
                assert case.check(arguments) > 1
                assert case.check({i: arguments[i] for i in case.outputs}) > 1
        assert case.check() <= 1


def test_the_parts_of_a_reference_are_those_of_the_whole() -> None:
    for case in (cases.matmul(100, 70, 90), cases.attention(3, 64, 16, 16, 16), cases.softmax(37, 100)):
        whole, part = case.reference(slice(None)), case.reference(slice(1, 3))
        for index in case.outputs:
            assert np.array_equal(whole[index].error[1:3], part[index].error)


def test_fresh_arguments_are_copies_of_what_the_case_holds() -> None:
    case = cases.scale_shift(20, 30)
    copies = case.fresh()
    assert all(np.array_equal(a, b) for a, b in zip(case.arguments, copies, strict=True))
    assert not any(np.shares_memory(a, b) for a, b in zip(case.arguments, copies, strict=True) if np.ndim(a))


def test_work_is_counted() -> None:
    add = cases.add(1000)
    assert (add.bytes, add.flops, add.programs) == (12_000, 0, 1)
    product = cases.matmul(128, 64, 32, 64, 64, 32, blocks=True)
    assert (product.bytes, product.flops, product.programs) == (
        2 * (128 * 32 + 32 * 64 + 128 * 64),
        2 * 128 * 64 * 32,
        2,
    )
    assert cases.attention(2, 64, 16, 16, 16).flops == 4 * 2 * 64 * 64 * 16 // 2
