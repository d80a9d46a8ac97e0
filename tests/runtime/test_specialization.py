"""Specialization: what each kind of argument becomes, cell by cell of Triton's table."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.lang import constexpr, float16, float32, float64, int1, int8, int32, int64, parse_type, uint8, uint64
from tilewright.runtime import ArgumentError, specialize
from tilewright.runtime.annotations import annotated_type
from tilewright.runtime.specialization import Rules, Specialization, describe

ALIGNED = np.zeros(64, np.float32)


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    "value, text",
    [
        (2, "i32"), (16, "i32:16"), (0, "i32:16"), (-16, "i32:16"), (1, "constexpr 1"), (-1, "i32"),
        (2**31 - 1, "i32"), (2**31, "i64:16"), (2**31 + 1, "i64"), (-(2**31) - 1, "i64"), (2**63 - 1, "i64"),
        (2**63, "u64:16"), (2**64 - 1, "u64"), (True, "i1"), (False, "i1"), (1.0, "fp32"), (16.0, "fp32"),
        (float("nan"), "fp32"), (None, "constexpr None"), (constexpr(5), "constexpr 5"),
        (np.int64(2), "i32"), (np.int8(1), "constexpr 1"), (np.float64(2), "fp32"), (np.bool_(True), "i1"),
        (ALIGNED, "*fp32:16"), (ALIGNED[1:], "*fp32"), (ALIGNED.view(np.uint8), "*u8:16"), (ALIGNED[4:8], "*fp32:16"),
        ((1, 16, 2.0), "(constexpr 1, i32:16, fp32)"), ((), "()"), (Pair(3, (ALIGNED,)), "(i32, (*fp32:16))"),
    ],
)  # fmt: skip
def test_every_kind_of_argument(value: Any, text: str) -> None:
    assert describe(specialize(value, None, Rules())) == text


@pytest.mark.parametrize(
    "value, rules, text",
    [
        (16, Rules(alignment=False), "i32"), (1, Rules(alignment=False), "constexpr 1"),
        (1, Rules(False, False), "i32"), (16, Rules(False, False), "i32"), (ALIGNED, Rules(alignment=False), "*fp32"),
        ((16, 1), Rules(False, False), "(i32:16, constexpr 1)"),
    ],
)  # fmt: skip
def test_parameters_that_are_not_specialized(value: Any, rules: Rules, text: str) -> None:
    assert describe(specialize(value, None, rules)) == text


@pytest.mark.parametrize(
    "value, annotation, text",
    [
        (1, int64, "i64"), (16, int64, "i64:16"), (255, uint8, "u8"), (3, float64, "fp64"), (2.5, float16, "fp16"),
        (True, int32, "i32"), (ALIGNED, parse_type("*i32"), "*i32:16"), (ALIGNED, parse_type("*kfp32"), "*kfp32:16"),
        (4096, parse_type("*fp32"), "*fp32:16"), (1, int1, "i1"), (2**63, uint64, "u64:16"),
    ],
)  # fmt: skip
def test_annotations_force_the_type(value: Any, annotation: Any, text: str) -> None:
    assert describe(specialize(value, annotation, Rules())) == text


@pytest.mark.parametrize(
    "value, annotation, message",
    [
        (2**64, None, "18446744073709551616 fits no integer type of 64 bits"),
        (300, int8, "300 does not fit the annotated int8"),
        (1.5, int32, "1.5 was passed where int32 is annotated"),
        (1.5, parse_type("*fp32"), "a number was passed where pointer<fp32> is annotated"),
        (ALIGNED, parse_type("*fp16"), "an array of fp32 was passed where pointer<fp16> is annotated"),
        (ALIGNED, int32, "an array of fp32 was passed where int32 is annotated"),
        (
            "x",
            None,
            "a str is no argument for a runtime parameter: 'x'\nhint: annotate the parameter with tl.constexpr",
        ),
        ([1], None, "a list is no argument for a runtime parameter: [1]"),
        (float32, None, "a dtype is no argument for a runtime parameter"),
        (np.float32, None, "a type is no argument for a runtime parameter: <class 'numpy.float32'>"),
        (1j, None, "a complex is no argument for a runtime parameter"),
    ],
)
def test_what_no_runtime_parameter_takes(value: Any, annotation: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        specialize(value, annotation, Rules())
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "annotation, type_",
    [
        (int64, int64), ("int64", int64), ("tl.int64", int64), ("'tl.int64'", int64), ("i64", int64),
        ("*fp32", parse_type("*fp32")), (int, None), ("int", None), ("torch.Tensor", None), (None, None),
        ("tl.pointer_type(tl.float32)", parse_type("*fp32")), ("np.float32", None), (np.float32, None),
        ("tl.tensor", None), ("nowhere.float32", None), ("np.no_such_name", None), ("list[", None), ("anything", None),
    ],
)  # fmt: skip
def test_annotations(annotation: Any, type_: Any) -> None:
    assert annotated_type(annotation, {"tl": tl, "np": np, "anything": 3}) == type_
    if annotation != "tl.pointer_type(tl.float32)":
        assert annotated_type(annotation, {}) == type_


@pytest.mark.parametrize("space", [{"tl": tl}, {}], ids=["the language is at hand", "nobody knows what tl is"])
def test_text_that_asks_the_language_for_what_it_has_not(space: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        annotated_type("tl.int23", space)
    assert str(caught.value) == "the annotation 'tl.int23' names no type\nhint: did you mean int32?"


@tilewright.jit
def misspelt(x_ptr, n: "tl.flaot32"):  # type: ignore[name-defined]  # noqa: F722
    tl.store(x_ptr, n)


def test_a_launch_tells_which_annotation_is_wrong() -> None:
    with pytest.raises(ArgumentError) as caught:
        misspelt[(1,)](ALIGNED, 3)
    assert str(caught.value) == (
        "misspelt: parameter n: the annotation 'tl.flaot32' names no type\nhint: did you mean float32?"
    )


def test_a_specialization_splits_into_types_constants_promises_and_payload() -> None:
    values = {"x": ALIGNED, "one": 1, "n": 32, "pair": (2, None), "flag": True}
    spec = Specialization({name: specialize(value, None, Rules()) for name, value in values.items()})
    assert list(spec.signature) == ["x", "n", "pair", "flag"]
    assert spec.signature["pair"][0] == int32 and spec.signature["pair"][1].value is None
    assert spec.constants == {"one": 1}
    assert spec.attributes == {"x": {"divisibility": 16}, "n": {"divisibility": 16}}
    assert [getattr(part, "address", part) for part in spec.payload] == [ALIGNED.ctypes.data, 32, 2, True]
