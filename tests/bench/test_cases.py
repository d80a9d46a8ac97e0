"""The kernels of the demo and the benchmarks: right by their contracts, and the check can tell wrong from right."""

from collections.abc import Callable

import numpy as np
import pytest

import tilewright
from examples import demo
from tilewright import bench, language
from tilewright.bench import Case, cases, load_kernels

SMALL: dict[str, Callable[[], Case]] = {
    "add": lambda: cases.add(3_000),
    "dropout": lambda: cases.dropout(3_000),
    "softmax": lambda: cases.softmax(37, 100, programs=5),
    "layernorm": lambda: cases.layernorm(9, 300),
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
    for index in case.reference():
        output = case.arguments[index].reshape(-1)
        place = int(np.argmax(np.abs(output)))
        kept = output[place]
        output[place] = kept * output.dtype.type(1.03)
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


def test_the_demo_says_whether_all_are_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "CASES", [cases.add(500), cases.matmul(32, 32, 32, 16, 16, 16)])
    assert demo.main() == 0
    assert "2 of 2 kernels right" in capsys.readouterr().out
    wrong = cases.add(500)
    monkeypatch.setattr(demo, "CASES", [Case(**{f: getattr(wrong, f) for f in Case.__slots__} | {"grid": (0,)})])
    assert demo.main() == 1
    assert "WRONG" in capsys.readouterr().out
