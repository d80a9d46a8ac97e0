"""What a compilation does more than once, by counting; time is measured by `tilewright.bench.compile_time`."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import pytest

import tilewright
import tilewright.language as tl
from tests.compiler.building import Kernel
from tests.compiler.kernels import Sample, f32, rows_in_a_loop, zeros
from tilewright import lang
from tilewright.compiler import backend, compile_module
from tilewright.compiler.analysis import axis
from tilewright.compiler.analysis.coalesce import blocked
from tilewright.compiler.passes.dce import dce
from tilewright.compiler.targets import target_named
from tilewright.lang import I32, CompilerBug, Module, knobs, layout_dims, tile_layouts

TARGET = "sm_90a"


def sample() -> Sample:
    """A kernel with a loop."""
    return Sample(rows_in_a_loop, (f32(256), zeros(256), 4, 64), (1, 1, 1), {"BLOCK": 64})


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Counter[Any]:
    """How often the rule of each operation is asked by axis analysis."""
    counted: Counter[Any] = Counter()
    real = axis.computed

    def counting(operation: Any, infos: Any) -> Any:
        counted[operation] += 1
        return real(operation, infos)

    monkeypatch.setattr(axis, "computed", counting)
    return counted


def test_axis_analysis_asks_again_only_where_facts_have_changed(computed: Counter[Any]) -> None:
    """What comes round starts as 0 and becomes a multiple of 4, so that what is made of it counts twice."""
    kernel = Kernel()
    x, n = kernel.number(I32, divisibility=16), kernel.number(I32)
    zero, one, four = kernel.constant(0), kernel.constant(1), kernel.constant(4)
    body = lang.Block([I32, I32])
    inside = lang.Builder(body)
    carried = body.arguments[1]
    stable = inside.value(lang.OPS["mul_i"], [x, four])
    moved = inside.value(lang.OPS["add_i"], [carried, four])
    inside.create(lang.OPS["yield"], [moved])
    attributes = {"unsigned": False}
    kernel.builder.create(lang.OPS["for"], [zero, n, one, zero], attributes, None, [body])
    module = kernel.module()
    axis.axis_analysis(module.kernel)
    assert computed[stable.producer] == 1 and computed[moved.producer] == 2
    assert set(computed.values()) == {1, 2}


def test_a_compilation_analyses_the_kernel_at_most_four_times(computed: Counter[Any]) -> None:
    """For layouts, for the pipeline, for barriers and for lowering; a loop at most twice each time."""
    compile_module(sample().module(), TARGET, until="llir")
    assert computed and max(computed.values()) <= 8
    computed.clear()
    compile_module(Sample(half_precision, (f32(64),), (1, 1, 1)).module(), TARGET, until="llir")
    assert set(computed.values()) <= {1, 2, 3}, "nothing to pipeline without a loop"


@tilewright.jit
def half_precision(x):
    at = tl.arange(0, 64)
    tl.store(x + at, tl.load(x + at).to(tl.float16).to(tl.float32))


@tilewright.jit
def many_calls(x):
    at = tl.arange(0, 64)
    for _ in tl.static_range(20):
        tl.store(x + at, tl.maximum(tl.load(x + at), 0.0))


def test_the_signature_of_a_function_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()
    real = inspect.signature

    def counting(function: Any, **options: Any) -> inspect.Signature:
        read[getattr(function, "__name__", "")] += 1
        return real(function, **options)

    monkeypatch.setattr(inspect, "signature", counting)
    Sample(many_calls, (f32(64),), (1, 1, 1)).module()
    assert all(read[name] <= 1 for name in ("load", "store", "maximum", "arange"))


def test_the_verifier_reads_the_knob_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module, read = sample().module(), Counter[str]()
    real = type(knobs).max_tile_numel.read
    monkeypatch.setattr(type(knobs).max_tile_numel, "read", lambda known: read.update(["numel"]) or real(known))
    lang.verify(module)
    assert read == {"numel": 1}


def test_a_layout_is_worked_out_once() -> None:
    layout = blocked((64, 64), 4, (1, 0), 4)
    assert blocked((64, 64), 4, (1, 0), 4) is layout and tile_layouts.sliced(layout, 0) is tile_layouts.sliced(
        layout, 0
    )
    _, _ = layout.bases, str(layout)
    before = layout_dims.images.cache_info().misses, layout_dims.show_map.cache_info().misses
    again = lang.parse_layout(str(layout))
    assert again.bases == layout.bases and str(again) == str(layout)
    assert (layout_dims.images.cache_info().misses, layout_dims.show_map.cache_info().misses) == before
    again.bases["register"] = ()
    assert layout.bases["register"] != (), "what is remembered is nobody's to change"


def test_llvm_is_set_up_once_for_a_target() -> None:
    target = target_named(TARGET)
    assert backend.machine(target) is backend.machine(target)


@pytest.mark.parametrize("used", [True, False])
def test_dead_code_elimination_says_whether_anything_went(used: bool) -> None:
    kernel = Kernel()
    pointer = kernel.pointer(I32)
    value = kernel.make("add_i", [kernel.constant(1), kernel.constant(2)])
    kernel.do("store", [pointer, value if used else kernel.constant(0)])
    module: Module = kernel.module()
    assert dce(module) is not used and not dce(module)


def test_an_intrinsic_that_does_not_exist_is_found_in_the_ptx() -> None:
    target = target_named(TARGET)
    declared = "declare i32 @llvm.nvvm.no.such.thing()\n"
    call = declared + "define ptx_kernel void @k(ptr addrspace(1) %p) {{\n{body}  ret void\n}}"
    body = "  %v = call i32 @llvm.nvvm.no.such.thing()\n  store i32 %v, ptr addrspace(1) %p, align 4\n"
    assert "ret;" in backend.emit(backend.parse(call.format(body=""), target), target)
    with pytest.raises(CompilerBug, match=r"names an LLVM intrinsic: .*llvm\.nvvm\.no\.such\.thing"):
        backend.emit(backend.parse(call.format(body=body), target), target)
