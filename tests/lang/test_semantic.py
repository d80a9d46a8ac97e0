"""How operations are built: casts, literals, broadcasting, conditions, loop bounds; and values taken apart."""

import math
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lang.sandbox import Sandbox, sandbox
from tilewright.lang import Block, Builder, semantic, shape_of
from tilewright.lang import language as tl
from tilewright.lang.constants import constexpr
from tilewright.lang.context import Options, building, current, current_generator
from tilewright.lang.dtypes import FLOATS, NUMBERS, dtype, ir_scalar, pointer_type
from tilewright.lang.errors.operations import (
    BadChoice,
    BadOperand,
    BadOperands,
    BitcastWidths,
    CannotBroadcast,
    CannotCast,
    IncompatibleShapes,
    LiteralOutOfRange,
    MismatchedTypes,
    RoundingNotAllowed,
)
from tilewright.lang.language.block_pointers import block_pointer
from tilewright.lang.semantic.core import convert
from tilewright.lang.values import Branch, ConstantLeaf, TensorLeaf, describe, flatten, tensor_leaves, unflatten

POINTER = pointer_type(tl.float32)


# --- casts ---


def rows_of_cast(source: dtype, target: dtype) -> list[str]:
    """The operations of a cast between number types, by the rules."""
    if source == target:
        return []
    if target.is_bool():
        return ["constant", "cmp_ne_f" if source.is_floating() else "cmp_ne_i"]
    if source.is_floating():
        return ["cast_f"] if target.is_floating() else ["f_to_s" if target.is_int_signed() else "f_to_u"]
    sign = "s" if source.is_int_signed() else "u"
    if target.is_floating():
        return [f"{sign}_to_f"]
    widths = source.primitive_bitwidth, target.primitive_bitwidth
    if widths[0] == widths[1]:
        return []
    return ["trunc_i"] if widths[1] < widths[0] else [f"ext_{sign}"]


@pytest.mark.parametrize("target", NUMBERS, ids=str)
@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_casts_between_numbers(source: dtype, target: dtype) -> None:
    with sandbox() as box:
        result = box.tile(source, 4).to(target)
        assert result.dtype == target and result.shape == (4,)
        assert box.names == rows_of_cast(source, target)


@pytest.mark.parametrize("target", NUMBERS, ids=str)
@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_bitcasts_between_numbers(source: dtype, target: dtype) -> None:
    with sandbox() as box:
        x = box.tile(source, 4)
        if source.primitive_bitwidth != target.primitive_bitwidth:
            with pytest.raises(BitcastWidths):
                tl.cast(x, target, bitcast=True)
            return
        assert tl.cast(x, target, bitcast=True).dtype == target
        assert box.names == (["bitcast"] if ir_scalar(source) != ir_scalar(target) else [])


@pytest.mark.parametrize("target", NUMBERS, ids=str)
def test_casts_of_pointers(target: dtype) -> None:
    with sandbox() as box:
        p = box.tile(POINTER, 4)
        if target.is_bool():
            assert p.to(target).dtype == target and box.names == ["ptr_to_int", "constant", "cmp_ne_i"]
        elif target.is_int() and target.int_bitwidth == 64:
            assert p.to(target).dtype == target and box.names == ["ptr_to_int"]
        else:
            with pytest.raises(CannotCast):
                p.to(target)


@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_casts_to_pointers(source: dtype) -> None:
    with sandbox() as box:
        x = box.tile(source, 4)
        if source.is_floating() or source.is_bool():
            with pytest.raises(CannotCast):
                x.to(POINTER)
            return
        widening = [] if source.int_bitwidth == 64 else [f"ext_{'s' if source.is_int_signed() else 'u'}"]
        assert x.to(POINTER, bitcast=True).dtype == POINTER
        assert box.names == [*widening, "int_to_ptr"]


def test_pointers_cast_to_pointers() -> None:
    with sandbox() as box:
        p = box.tile(POINTER, 4)
        assert p.to(pointer_type(tl.float32, const=True)).dtype.is_const() and box.names == []
        assert p.to(pointer_type(tl.int8)).dtype == pointer_type(tl.int8) and box.names == ["bitcast"]


@pytest.mark.parametrize("target", NUMBERS, ids=str)
@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_rounding_goes_with_narrowing_floats_only(source: dtype, target: dtype) -> None:
    narrows = source in FLOATS and target in FLOATS and target.primitive_bitwidth < source.primitive_bitwidth
    with sandbox() as box:
        x = box.tile(source, 4)
        if narrows:
            x.to(target, fp_downcast_rounding="rtz")
            assert box.last.attributes == {"rounding": "rtz"}
            x.to(target)
            assert box.last.attributes == {"rounding": "rtne"}
        else:
            with pytest.raises(RoundingNotAllowed):
                x.to(target, fp_downcast_rounding="rtne")


def test_only_known_roundings() -> None:
    with sandbox() as box, pytest.raises(BadChoice):
        box.tile(tl.float32).to(tl.float16, fp_downcast_rounding="rs")


# --- numbers as values ---


def made_constant(box: Sandbox) -> Any:
    assert box.names == ["constant"]
    return box.last.attributes["value"]


@pytest.mark.parametrize(("value", "type_", "expected"), [
    (3, tl.int8, 3), (True, tl.int32, 1), (200, tl.uint8, 200), (2, tl.float16, 2.0), (0.5, tl.bfloat16, 0.5),
    (-math.inf, tl.float8e5, -math.inf), (0.1, tl.float32, 0.1), (1e300, tl.float64, 1e300), (-0.0, tl.float16, -0.0),
])  # fmt: skip
def test_fills_that_no_cast_changes_are_one_constant(value: Any, type_: dtype, expected: Any) -> None:
    with sandbox() as box:
        result = convert(value, type_, (4,))
        assert (result.dtype, result.shape) == (type_, (4,))
        constant = made_constant(box)
        assert constant == expected and math.copysign(1, constant) == math.copysign(1, expected)


@pytest.mark.parametrize(("value", "type_", "names"), [
    (0.1, tl.float64, ["constant", "cast_f", "splat"]), (0.1, tl.float16, ["constant", "cast_f", "splat"]),
    (300, tl.int8, ["constant", "trunc_i", "splat"]), (-1, tl.uint16, ["constant", "trunc_i", "splat"]),
    (1.5, tl.int32, ["constant", "f_to_s", "splat"]), (-1, tl.uint32, ["constant", "splat"]),
])  # fmt: skip
def test_other_fills_cast_as_the_literal_would(value: Any, type_: dtype, names: list[str]) -> None:
    with sandbox() as box:
        result = convert(value, type_, (4,))
        assert (result.dtype, result.shape, box.names) == (type_, (4,), names)


def test_large_integers_round_to_floats_once() -> None:
    with sandbox() as box:
        semantic.constant(2**53 + 1, tl.float32)
        assert box.names == ["constant", "s_to_f"]
    with sandbox() as box:
        semantic.constant(2**64 - 1, tl.float16, (4,))
        assert box.names == ["constant", "u_to_f"] and shape_of(box.last.result.type) == (4,)


# --- shapes ---


@pytest.mark.parametrize(("a", "b", "expected"), [
    ((), (), ()), ((4,), (), (4,)), ((1,), (4,), (4,)), ((4, 1), (1, 8), (4, 8)), ((8,), (4, 8), (4, 8)),
    ((2, 1, 4), (8, 1), (2, 8, 4)), ((1, 1), (1,), (1, 1)),
])  # fmt: skip
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...], expected: tuple[int, ...]) -> None:
    for first, second in ((a, b), (b, a)):
        with sandbox() as box:
            x, y = tl.broadcast(box.tile(tl.int8, *first), box.tile(tl.float32, *second))
            assert x.shape == y.shape == expected
            assert (x.dtype, y.dtype) == (tl.int8, tl.float32)


extents = st.sampled_from([1, 2, 4])


@given(st.lists(extents, max_size=3), st.lists(extents, max_size=3))
def test_broadcasting_is_numpys(a: list[int], b: list[int]) -> None:
    try:
        expected: tuple[int, ...] | None = np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        expected = None
    with sandbox() as box:
        x, y = box.tile(tl.int32, *a), box.tile(tl.int32, *b)
        if expected is None:
            with pytest.raises(IncompatibleShapes):
                _ = x + y
        else:
            assert (x + y).shape == expected


def test_broadcast_to_keeps_the_rank() -> None:
    with sandbox() as box:
        assert semantic.broadcast_to(box.tile(tl.int8), (2, 4)).shape == (2, 4)
        assert semantic.broadcast_to(box.tile(tl.int8, 2, 1), (2, 4)).shape == (2, 4)
        for shape in ((4,), (2, 2), (1, 2, 4)):
            with pytest.raises(CannotBroadcast):
                semantic.broadcast_to(box.tile(tl.int8, 4, 4), shape)


def test_the_error_of_shapes_names_the_first_dimension_that_differs() -> None:
    with sandbox() as box, pytest.raises(IncompatibleShapes) as caught:
        _ = box.tile(tl.int8, 2, 4) + box.tile(tl.int8, 8, 4)
    assert caught.value.facts | {"a": 0, "b": 0} == {"function": "+", "a": 0, "b": 0, "axis": 0, "x": 2, "y": 8}


# --- conditions, choices, loops ---


@pytest.mark.parametrize("type_", [*NUMBERS, POINTER], ids=str)
def test_conditions(type_: dtype) -> None:
    with sandbox() as box:
        x = box.tile(type_, 4)
        for result in (semantic.to_condition(x), semantic.logical_not(x), semantic.logical_and(x, x)):
            assert (result.dtype, result.shape) == (tl.int1, (4,))
        assert semantic.logical_or(x, box.tile(tl.int1)).shape == (4,)


def test_select_wants_one_type() -> None:
    with sandbox() as box:
        flag, x = box.tile(tl.int1), box.tile(tl.int8, 4)
        assert semantic.select(flag, x, box.tile(tl.int8)).shape == (4,)
        with pytest.raises(MismatchedTypes):
            semantic.select(flag, x, box.tile(tl.uint8))


def test_loop_bounds_promote_as_integers() -> None:
    with sandbox() as box:
        for start, stop, step, expected in (
            (0, 10, 1, tl.int32), (0, box.tile(tl.int64), 1, tl.int64), (box.tile(tl.uint32), 8, 1, tl.uint32),
            (box.tile(tl.int8), box.tile(tl.int8), box.tile(tl.int16), tl.int16), (box.tile(tl.uint8), 8, 1, tl.int32),
        ):  # fmt: skip
            *bounds, index = semantic.loop_bounds(start, stop, step)
            assert [bound.dtype for bound in bounds] == [expected] * 3 and index == expected
        for wrong in (0.5, box.tile(tl.float32), box.tile(tl.int32, 4)):
            with pytest.raises(BadOperand):
                semantic.loop_bounds(0, wrong, 1)


def test_operands_are_tensors_or_numbers() -> None:
    with sandbox() as box:
        x = box.tile(tl.int32, 4)
        for wrong in (None, "a", (1, 2), tl.int32):
            with pytest.raises(BadOperands):
                semantic.binary("+", x, wrong)
            with pytest.raises(BadOperands):
                semantic.compare("==", wrong, x)


def test_constexpr_operands_are_weak() -> None:
    with sandbox() as box:
        assert (box.tile(tl.int8, 4) + constexpr(2)).dtype == tl.int8


def test_right_shift_follows_its_tensor() -> None:
    with sandbox() as box:
        signed, unsigned = box.tile(tl.int32, 4), box.tile(tl.uint32, 4)
        cases = [(signed, 1, "s"), (unsigned, 1, "u"), (1, signed, "s"), (1, unsigned, "u"), (signed, unsigned, "s")]
        for a, b, sign in [*cases, (unsigned, box.tile(tl.int64, 4), "u")]:
            semantic.binary(">>", a, b)
            assert box.last.name == f"shr_{sign}"


# --- overflow asserts ---


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_debug_builds_assert_that_narrow_integers_do_not_overflow(type_: dtype) -> None:
    watched = type_.is_int() and 1 < type_.int_bitwidth < 64
    for symbol, named in (("+", tl.add), ("-", tl.sub), ("*", tl.mul)):
        with sandbox(Options(debug=True)) as box:
            x = box.tile(type_, 4)
            semantic.binary(symbol, x, x)
            assert ("assert" in box.names) == watched
        with sandbox(Options(debug=True)) as box:
            named(box.tile(type_, 4), 1, sanitize_overflow=False)
            assert "assert" not in box.names
    for options in (Options(), Options(debug=True, sanitize_overflow=False)):
        with sandbox(options) as box:
            _ = box.tile(type_, 4) + box.tile(type_, 4)
            assert len(box.names) == 1


# --- values apart and together ---

Pair = namedtuple("Pair", "left right")


def test_flatten_and_unflatten() -> None:
    with sandbox() as box:
        x, y, z = box.tile(tl.uint8, 4), box.tile(POINTER), box.tile(tl.float16)
        value = (x, 3, Pair(y, ("text", z)), None, tl.int8)
        leaves, tree = flatten(value)
        assert leaves[0] is x and leaves[1] is y and leaves[2] is z and len(leaves) == 3
        again = unflatten(tree, [leaf.handle for leaf in reversed(leaves)][::-1])
        assert isinstance(again[2], Pair) and again[1] == 3 and again[3] is None and again[4] is tl.int8
        assert again[0].handle is x.handle and again[0].dtype == tl.uint8 and again[2].right[1].dtype == tl.float16
        assert [leaf.dtype for leaf in tensor_leaves(tree)] == [tl.uint8, POINTER, tl.float16]
        assert [leaf.ir_type for leaf in tensor_leaves(tree)] == [leaf.handle.type for leaf in leaves]
        for handles in ([], [*(leaf.handle for leaf in leaves), x.handle]):
            with pytest.raises(ValueError):
                unflatten(tree, handles)


def test_trees_compare_by_type_and_bits() -> None:
    equal = [(0.0, 0.0), (math.nan, math.nan), (1, 1), ("a", "a"), (None, None), (tl.int8, tl.int8), ((1,), (1,))]
    unequal = [(0.0, -0.0), (1, True), (1, 1.0), (1, 2), ((1,), (1, 1)), ((1, 2), Pair(1, 2)), (None, 0)]
    for a, b in equal:
        assert flatten(a)[1] == flatten(b)[1] and hash(flatten(a)[1]) == hash(flatten(b)[1])
    for a, b in unequal:
        assert flatten(a)[1] != flatten(b)[1]
    assert flatten(constexpr(3))[1] == ConstantLeaf(3)
    with sandbox() as box:
        assert flatten(box.tile(tl.int8, 4))[1] == TensorLeaf(tl.int8, (4,)) != flatten(box.tile(tl.uint8, 4))[1]


def test_block_pointers_are_carried() -> None:
    with sandbox() as box:
        size = box.tile(tl.int32)
        block = tl.make_block_ptr(box.tile(POINTER), (size, 8), (8, 1), (0, 0), (4, 8), (1, 0))
        leaves, tree = flatten(block)
        assert [leaf.dtype for leaf in leaves] == [POINTER, tl.int64, tl.int32, tl.int32]
        assert isinstance(tree, Branch) and tree.kind is block_pointer
        moved = unflatten(tree, [leaf.handle for leaf in leaves])
        assert isinstance(moved, block_pointer) and moved.block_shape == (4, 8) and moved.strides == (8, 1)
        assert flatten(moved)[1] == tree == flatten(tl.advance(block, (4, 0)))[1]


def test_descriptions() -> None:
    with sandbox() as box:
        x = box.tile(tl.int32, 4, 8)
        described = {
            "an int32 tile of shape (4, 8)": x, "a bfloat16 scalar": box.tile(tl.bfloat16), "an empty tuple": (),
            "the constexpr 3": constexpr(3),
            "a const pointer<float32> scalar": box.tile(pointer_type(tl.float32, const=True)), "the constexpr 'a'": "a",
            "None": None, "the type float16": tl.float16, "the function load": tl.load, "the class dtype": dtype,
            "a tuple of (the constexpr 1, an int32 tile of shape (4, 8))": (1, x),
            "a value of type object": object(),
            "the module math": math,
        }  # fmt: skip
        for words, value in described.items():
            assert describe(value) == words
        assert str(flatten(x)[1]) == describe(x) and repr(x) == "<int32 tile of shape (4, 8)>"


def test_tensors_have_members_and_say_what_they_lack() -> None:
    with sandbox() as box:
        x = box.tile(tl.float32, 4, 8)
        assert (x.shape, x.numel, x.dtype, str(x.type)) == ((4, 8), 32, tl.float32, "<[4, 8], fp32>")
        assert x.T.shape == (8, 4) and x.sum(0).shape == (8,)
        assert "sum" in dir(x) and "shape" in dir(x)
        with pytest.raises(AttributeError):
            _ = x.median
        with pytest.raises(TypeError):
            bool(x == x)


def test_there_is_no_builder_outside_of_kernels() -> None:
    with pytest.raises(RuntimeError):
        current()
    with building(Builder(Block())), pytest.raises(RuntimeError):
        current_generator()


def test_numbers_must_fit_where_they_are_weak() -> None:
    with sandbox() as box, pytest.raises(LiteralOutOfRange):
        _ = box.tile(tl.int8, 4) + 300
