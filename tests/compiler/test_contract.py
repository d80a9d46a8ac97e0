"""Contraction: which multiplications and additions are fused, and that fused and unfused code are both as allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.compiler.building import Kernel
from tests.compiler.emulated import launch
from tests.compiler.test_passes import after, text_of
from tilewright.compiler import ROUNDING_PASSES, TARGETS, compile_module
from tilewright.compiler.passes.contract import contract
from tilewright.difftest.storage import dtype_of
from tilewright.interpreter import Bounded, Buffer, execute
from tilewright.lang import BF16, F8E5M2, F16, F32, F64, FloatType, Module, Value

Array = np.ndarray[Any, Any]
EXTENT = 256
#: Builds a float from the operands a, b, c and d.
Formula: TypeAlias = Callable[[Kernel, Value, Value, Value, Value], Value]
FORMULAS: dict[str, Formula] = {
    "a * b + c": lambda k, a, b, c, d: k.make("add_f", [k.make("mul_f", [a, b]), c]),
    "c + a * b": lambda k, a, b, c, d: k.make("add_f", [c, k.make("mul_f", [a, b])]),
    "a * b - c": lambda k, a, b, c, d: k.make("sub_f", [k.make("mul_f", [a, b]), c]),
    "c - a * b": lambda k, a, b, c, d: k.make("sub_f", [c, k.make("mul_f", [a, b])]),
    "a * b - -c": lambda k, a, b, c, d: k.make("sub_f", [k.make("mul_f", [a, b]), k.make("neg_f", [c])]),
    "a * b - c * d": lambda k, a, b, c, d: k.make("sub_f", [k.make("mul_f", [a, b]), k.make("mul_f", [c, d])]),
}
BOUNDS: dict[str, Callable[..., Bounded]] = {
    "a * b + c": lambda a, b, c, d: a * b + c,
    "c + a * b": lambda a, b, c, d: c + a * b,
    "a * b - c": lambda a, b, c, d: a * b - c,
    "c - a * b": lambda a, b, c, d: c - a * b,
    "a * b - -c": lambda a, b, c, d: a * b + c,
    "a * b - c * d": lambda a, b, c, d: a * b - c * d,
}


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("%r = add_f %m, %c : f32", ["%r = fma %a, %b, %c : f32"]),
        ("%r = add_f %c, %m : f32", ["%r = fma %a, %b, %c : f32"]),
        ("%r = sub_f %m, %c : f32", ["%0 = neg_f %c : f32", "%r = fma %a, %b, %0 : f32"]),
        ("%r = sub_f %c, %m : f32", ["%0 = neg_f %a : f32", "%r = fma %0, %b, %c : f32"]),
    ],
)
def test_a_product_goes_into_the_sum_that_uses_it(written: str, wanted: list[str]) -> None:
    lines, changed = after(contract, text_of("%p: ptr<f32>, %a: f32, %b: f32, %c: f32", f"""
        %m = mul_f %a, %b : f32
        {written}
        store %p, %r
    """))  # fmt: skip
    assert changed and lines[2:-3] == [*wanted, "store %p, %r"]


def test_the_sign_of_a_constant_and_of_a_negation_is_changed_in_place() -> None:
    lines, _ = after(contract, text_of("%p: ptr<f32>, %a: f32, %c: f32", """
        %half = constant {value = 0.5} : f32
        %m = mul_f %a, %half : f32
        %r = sub_f %c, %m : f32
        store %p, %r
        %n = neg_f %c : f32
        %q = mul_f %a, %a : f32
        %s = sub_f %q, %n : f32
        store %p, %s
    """))  # fmt: skip
    assert "%0 = constant {value = -0.5} : f32" in lines and "%r = fma %a, %0, %c : f32" in lines
    assert "%s = fma %a, %a, %c : f32" in lines


@pytest.mark.parametrize(
    ("element", "body"),
    [
        ("f32", "%m = mul_f %a, %b : f32\n%r = add_f %m, %m : f32"),
        ("f32", "%m = mul_f %a, %b : f32\n%s = add_f %m, %a : f32\n%r = add_f %m, %s : f32"),
        ("f8e5m2", "%m = mul_f %a, %b : f8e5m2\n%r = add_f %m, %a : f8e5m2"),
        ("f32", "%m = div_rn %a, %b : f32\n%r = add_f %m, %a : f32"),
    ],
    ids=["two uses in one sum", "two sums", "8 bits", "no product"],
)
def test_what_is_not_fused(element: str, body: str) -> None:
    lines, changed = after(
        contract, text_of(f"%p: ptr<{element}>, %a: {element}, %b: {element}", f"{body}\nstore %p, %r")
    )
    assert not changed and not any("fma" in line for line in lines)


def test_a_product_outside_of_a_loop_stays_there() -> None:
    lines, changed = after(contract, text_of("%p: ptr<f32>, %n: i32, %a: f32", """
        %zero = constant {value = 0} : i32
        %one = constant {value = 1} : i32
        %m = mul_f %a, %a : f32
        %r = for %zero, %n, %one, %a : f32 {
        ^body(%i: i32, %s: f32):
          %t = add_f %s, %m : f32
          yield %t
        }
        store %p, %r
    """))  # fmt: skip
    assert not changed and "%m = mul_f %a, %a : f32" in lines


def test_the_pass_says_that_it_changes_rounding_and_can_be_left_out() -> None:
    seen: dict[bool, list[str]] = {}
    for fp_fusion in (True, False):
        names: list[str] = []
        compile_module(
            formula("a * b + c", F32), "sm_80", until="ttir", fp_fusion=fp_fusion,
            hook=lambda name, module, names=names: names.append(name),
        )  # fmt: skip
        seen[fp_fusion] = names
    assert frozenset(("contract", "expand_reductions", "prefetch", "record_trees")) == ROUNDING_PASSES
    assert [name for name in seen[True] if name not in ROUNDING_PASSES] == seen[False] != seen[True]


def formula(name: str, element: FloatType) -> Module:
    """A kernel that stores a formula of what it loads."""
    kernel = Kernel()
    pointers = [kernel.pointer(element) for _ in range(5)]
    offsets = kernel.offsets(EXTENT)
    operands = [kernel.make("load", [kernel.at(pointer, offsets)]) for pointer in pointers[:4]]
    kernel.do("store", [kernel.at(pointers[4], offsets), FORMULAS[name](kernel, *operands)])
    return kernel.module()


def operands(element: FloatType) -> list[Array]:
    """a, b, c and d; c cancels much of a * b in every second place, and all of it in some."""
    draw = np.random.default_rng(7)
    a, b, c, d = (draw.standard_normal(2 * EXTENT) for _ in range(4))
    dtype = dtype_of(element)
    a, b = a.astype(dtype), b.astype(dtype)
    product = a.astype(np.float64) * b.astype(np.float64)
    c[::2] = -product[::2] * (1 + draw.integers(-2, 3, EXTENT) * 2.0**-element.mantissa)
    return [a, b, c.astype(dtype), d.astype(dtype)]


@pytest.mark.parametrize("element", [F16, BF16, F32, F64], ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_unfused_code_is_the_reference_bit_for_bit_and_fused_code_within_the_contracts(
    name: str, element: FloatType
) -> None:
    given = operands(element)
    module, results = formula(name, element), [np.zeros_like(given[0]) for _ in range(3)]
    execute(module, [Buffer.of(f"a{i}", a) for i, a in enumerate([*given, results[0]])], (2, 1, 1))
    target = list(TARGETS)[(len(name) + element.width) % len(TARGETS)]
    for result, fp_fusion in zip(results[1:], (False, True), strict=True):
        compiled = compile_module(module, target, 2, until="ptx", fp_fusion=fp_fusion)
        launch(compiled, [Buffer.of(f"a{i}", a) for i, a in enumerate([*given, result])], (2, 1, 1))
        assert ("fma" in str(compiled.stages["ttir"])) == fp_fusion
    assert results[0].tobytes() == results[1].tobytes()
    assert results[0].tobytes() != results[2].tobytes()
    if element != F64:  # a bound in float64 is none for float64
        bound = BOUNDS[name](*(Bounded.exact(array.astype(np.float64), element) for array in given))
        assert bound.utilisation(results[0]) <= 1 and bound.utilisation(results[2]) <= 1


def test_8_bit_floats_are_the_same_with_and_without() -> None:
    given = operands(F8E5M2)
    results = [np.zeros_like(given[0]) for _ in range(2)]
    for result, fp_fusion in zip(results, (False, True), strict=True):
        compiled = compile_module(formula("a * b + c", F8E5M2), "sm_90a", 2, until="ptx", fp_fusion=fp_fusion)
        launch(compiled, [Buffer.of(f"a{i}", a) for i, a in enumerate([*given, result])], (2, 1, 1))
    assert results[0].tobytes() == results[1].tobytes()
