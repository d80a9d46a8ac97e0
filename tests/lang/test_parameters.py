"""Parameters: what `tl.const` forbids, the numbers that constexprs may be given, and the names of arguments in IR."""

from collections import namedtuple
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.lang.codegen_tools import compile_kernel, mistake
from tilewright.lang import CompilationError, DeviceFunction
from tilewright.lang import language as tl
from tilewright.lang.constants import constexpr
from tilewright.lang.dtypes import pointer_type
from tilewright.lang.errors.memory import StoreThroughConst
from tilewright.lang.frontend import device_function

POINTER = pointer_type(tl.float32)


def stores(x: tl.const):
    tl.store(x, 1.0)


def stores_by_name(x: "tl.const"):
    tl.store(x + tl.arange(0, 8), 1.0)


def quoted_twice(x: "'tl.const'"):  # what a quoted annotation is under `from __future__ import annotations`
    tl.store(x, 1.0)


def adds(x: tl.const):
    tl.atomic_add(x, 1.0)


def stores_into_one_of(xs: tl.const):
    tl.store(xs[1], 1.0)


@device_function
def reads(x: tl.const):
    return tl.load(x)


@device_function
def writes(x: tl.const):
    tl.store(x, 1.0)


def calls(x):
    tl.store(x, reads(x))


def hands_on(x):
    writes(x)


@pytest.mark.parametrize("kernel", [stores, stores_by_name, quoted_twice, adds, hands_on], ids=lambda k: k.__name__)
def test_nothing_is_stored_through_a_const_parameter(kernel: Any) -> None:
    assert isinstance(mistake(kernel, x=POINTER), StoreThroughConst)


def test_a_const_tuple_holds_const_pointers() -> None:
    assert isinstance(mistake(stores_into_one_of, xs=(tl.int32, POINTER)), StoreThroughConst)


def test_a_const_parameter_is_read_and_the_caller_keeps_its_pointer() -> None:
    assert [op.name for op in compile_kernel(calls, x=POINTER).kernel.walk()] == ["call", "store", "return"]


def test_a_constexpr_annotation_is_not_const() -> None:
    def kernel(a: tl.constexpr, b: "tl.const", c: tl.const, d: "tl.constexpr", e):
        pass

    assert [p.is_const for p in DeviceFunction(kernel).parameters] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (np.int64(8), 8), (np.uint8(8), 8), (np.float32(0.5), 0.5), (np.float64(0.1), 0.1), (np.bool_(True), True),
        ((np.int8(1), (np.int16(2), "a")), (1, (2, "a"))), (True, True), (7, 7), (Fraction(1, 2), Fraction(1, 2)),
    ],
    ids=repr,
)  # fmt: skip
def test_numbers_of_numpy_are_python_numbers(given: Any, value: Any) -> None:
    held = constexpr(given).value
    assert held == value and type(held) is type(value)


def test_a_constexpr_parameter_takes_a_number_of_numpy() -> None:
    def kernel(x, size: tl.constexpr):
        tl.store(x + tl.arange(0, size), 1.0)

    assert compile_kernel(kernel, {"size": np.int64(8)}, x=POINTER).kernel.body.arguments[0].name == "x"


def names(kernel: Any, **types: Any) -> list[str]:
    return [argument.name for argument in compile_kernel(kernel, **types).kernel.body.arguments]


def test_arguments_of_a_tuple_have_names_of_their_own() -> None:
    """Bounds are known by the name of the argument, so that two arrays must never share one."""

    def kernel(xs, xs_1, one):
        pass

    pair = namedtuple("pair", "a b")
    assert names(kernel, xs=(POINTER, (tl.int32, POINTER))) == ["xs_0", "xs_1_", "xs_2", "xs_1", "one"]
    assert names(kernel, xs=pair(POINTER, POINTER), one=(POINTER,)) == ["xs_0", "xs_1_", "xs_1", "one_0"]


def test_a_device_function_says_where_it_failed_in_the_kernel_not_in_the_language() -> None:
    def kernel(n):
        tl.softmax(n)

    error = mistake(kernel)
    assert isinstance(error, CompilationError)
    assert [span.text.strip() for span in error.spans] == ["tl.softmax(n)"]
    assert "error: in `tl.softmax`: " in str(error)
