"""What `tl` functions give: dtypes and shapes through the builder, values through the reference against NumPy."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lang.evaluation import Array, evaluate, launch
from tests.lang.sandbox import sandbox
from tilewright.lang import language as tl
from tilewright.lang.constants import constexpr
from tilewright.lang.context import Options
from tilewright.lang.dtypes import FP8, NUMBERS, dtype, pointer_type
from tilewright.lang.errors.operations import BadArguments, NeedsConstexpr
from tilewright.lang.frontend import DeviceFunction, device_function
from tilewright.lang.ir import Operation
from tilewright.lang.language.builtin import is_builtin
from tilewright.lang.values import MEMBERS

I32, F32 = tl.int32, tl.float32


def counting(*shape: int) -> tuple[dtype, Array]:
    return I32, np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


def floats(*shape: int, seed: int = 0) -> tuple[dtype, Array]:
    return F32, np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- the surface ---


def test_the_surface_is_sorted_and_documented() -> None:
    assert tl.__all__ == sorted(set(tl.__all__))
    functions = [name for name in tl.__all__ if is_builtin(getattr(tl, name)) or name in DEVICE_FUNCTIONS]
    assert len(functions) > 90
    for name in functions:
        assert getattr(tl, name).__name__ == name
        assert getattr(tl, name).__doc__.strip().endswith((".", "`"))


DEVICE_FUNCTIONS = [name for name in tl.__all__ if isinstance(getattr(tl, name), DeviceFunction)]


def test_what_is_kernel_code() -> None:
    assert sorted(DEVICE_FUNCTIONS) == [
        "cdiv", "pair_uniform_to_normal", "philox", "philox_impl", "rand", "rand4x", "randint", "randint4x", "randn",
        "randn4x", "sigmoid", "softmax", "swizzle2d", "uint_to_uniform_float",
    ]  # fmt: skip


METHODS = """
abs advance argmax argmin atomic_add atomic_and atomic_cas atomic_load atomic_max atomic_min atomic_or atomic_poll
atomic_store atomic_xchg atomic_xor broadcast_to cast cdiv ceil cos erf exp exp2 expand_dims floor item log log2
logical_and logical_or max min permute ravel reduce reduce_or reshape rsqrt sigmoid sin softmax split sqrt sqrt_rn
store sum to trans view xor_sum
""".split()


def test_methods() -> None:
    assert set(METHODS) <= set(MEMBERS)
    for name in set(METHODS) & set(tl.__all__):
        assert MEMBERS[name] is getattr(tl, name)


def test_math_is_the_same_functions() -> None:
    for name in tl.math.__all__:
        assert getattr(tl.math, name) is getattr(tl, name)


def test_wrong_calls_show_the_signature() -> None:
    with sandbox() as box:
        for call in (lambda: tl.arange(0), lambda: tl.exp(box.tile(F32), 1), lambda: tl.dot(a=1)):
            with pytest.raises(BadArguments):
                call()


def test_type_errors_inside_a_correct_call_stay_what_they_are() -> None:
    with sandbox() as box, pytest.raises(TypeError, match="not known at compile time"):
        tl.static_print("x", flush=box.tile(I32) > 0)  # type: ignore[arg-type]


# --- creation ---


def test_program_ids() -> None:
    with sandbox() as box:
        for axis in (0, 1, 2):
            assert tl.program_id(axis).dtype == tl.num_programs(constexpr(axis)).dtype == I32
            assert box.last.attributes == {"axis": axis}
        with pytest.raises(NeedsConstexpr):
            tl.program_id(box.tile(I32))


@given(st.integers(-(2**31), 2**31 - 1025), st.integers(0, 10))
def test_arange(start: int, log: int) -> None:
    (result,) = evaluate(lambda: tl.arange(start, start + 2**log))
    assert np.array_equal(result, np.arange(start, start + 2**log))


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_full(type_: dtype) -> None:
    with sandbox() as box:
        assert tl.full((4, 8), 1, type_).shape == (4, 8)
        assert tl.full([4], 1, type_).dtype == tl.zeros((), type_).dtype == type_
        assert tl.full((), 1, type_).shape == () and tl.zeros(4, type_).shape == (4,)
        assert tl.full((4,), box.tile(F32, 1, 1), type_).dtype == type_
        assert tl.zeros_like(box.tile(type_, 2, 4)).shape == (2, 4)
        assert tl.full((4,), 0.0, type_).dtype == type_


def test_full_keeps_the_sign_of_zero() -> None:
    (result,) = evaluate(lambda: tl.full((2,), -0.0, F32))
    assert np.signbit(result).all()


def test_literal_tensors() -> None:
    assert [x.dtype.name for x in (np.asarray(a) for a in evaluate(lambda: (tl.to_tensor(3), tl.to_tensor(0.5))))] == [
        "int32", "float32",
    ]  # fmt: skip


# --- shapes ---

SHAPES: list[tuple[Any, Any, tuple[int, ...]]] = [
    (lambda x: x.reshape(8, 4), lambda a: a.reshape(8, 4), (4, 8)),
    (lambda x: tl.reshape(x, (2, 2, 8)), lambda a: a.reshape(2, 2, 8), (4, 8)),
    (lambda x: tl.view(x, [32]), lambda a: a.reshape(32), (4, 8)),
    (lambda x: x.ravel(), lambda a: a.ravel(), (4, 8)),
    (lambda x: tl.reshape(x, ()), lambda a: a.reshape(()), (1, 1)),
    (lambda x: x.item(), lambda a: a.reshape(()), (1, 1, 1)),
    (lambda x: tl.trans(x), lambda a: a.T, (4, 8)),
    (lambda x: x.T, lambda a: a.T, (4, 8)),
    (lambda x: tl.trans(x), lambda a: a.swapaxes(-1, -2), (2, 4, 8)),
    (lambda x: tl.permute(x, (2, 0, 1)), lambda a: a.transpose(2, 0, 1), (2, 4, 8)),
    (lambda x: x.permute(-1, 0, 1), lambda a: a.transpose(2, 0, 1), (2, 4, 8)),
    (lambda x: tl.trans(x, 1, 2, 0), lambda a: a.transpose(1, 2, 0), (2, 4, 8)),
    (lambda x: tl.expand_dims(x, 1), lambda a: a[:, None], (4, 8)),
    (lambda x: tl.expand_dims(x, (0, -1)), lambda a: a[None, :, :, None], (4, 8)),
    (lambda x: x.unsqueeze(-1), lambda a: a[..., None], (4, 8)),
    (lambda x: tl.squeeze(x, 1), lambda a: a[:, 0], (4, 1)),
    (lambda x: x[:, None], lambda a: a[:, None], (4,)),
    (lambda x: x[None, :], lambda a: a[None, :], (4,)),
    (lambda x: x[None, :, None, :], lambda a: a[None, :, None, :], (4, 8)),
    (lambda x: x[None], lambda a: a[None], (4, 8)),
    (lambda x: x[:], lambda a: a, (4, 8)),
    (lambda x: tl.broadcast_to(x, 4, 8), lambda a: np.broadcast_to(a, (4, 8)), (4, 1)),
    (lambda x: tl.broadcast_to(x, (4, 8)), lambda a: np.broadcast_to(a, (4, 8)), ()),
    (lambda x: tl.join(x, x + 100), lambda a: np.stack([a, a + 100], -1), (4, 8)),
    (lambda x: tl.join(x, 7), lambda a: np.stack([a, a * 0 + 7], -1), (4,)),
    (lambda x: tl.split(x)[0], lambda a: a[..., 0], (4, 2)),
    (lambda x: tl.split(x)[1], lambda a: a[..., 1], (2,)),
    (lambda x: tl.interleave(x, x + 100), lambda a: np.stack([a, a + 100], -1).reshape(4, 16), (4, 8)),
    (lambda x: tl.interleave(x, 7), lambda a: np.array([a, 7]), ()),
    (lambda x: tl.cat(x, x + 100), lambda a: np.concatenate([a, a + 100]), (4,)),
    (lambda x: tl.cat(x, x + 100, dim=0), lambda a: np.concatenate([a, a + 100], 0), (4, 8)),
    (lambda x: tl.cat(x, x + 100, dim=-1), lambda a: np.concatenate([a, a + 100], 1), (4, 8)),
    (lambda x: tl.cat(x, x + 100, can_reorder=True, dim=1), lambda a: np.concatenate([a, a + 100], 1), (2, 4, 2)),
]


@pytest.mark.parametrize(("function", "numpy", "shape"), SHAPES)
def test_shapes(function: Any, numpy: Any, shape: tuple[int, ...]) -> None:
    operand = counting(*shape)
    (result,) = evaluate(function, operand)
    expected = numpy(operand[1])
    assert result.shape == expected.shape and np.array_equal(result, expected)


# --- arithmetic ---


def test_where() -> None:
    x = counting(4, 8)
    (result,) = evaluate(lambda x: tl.where(x % 3, x[:, :], -1.0), x)
    assert np.array_equal(result, np.where(x[1] % 3, x[1], -1.0)) and result.dtype == np.float32


def test_integer_operators_truncate_wrap_and_choose_signs() -> None:
    a = np.array([7, -7, -8, 127], np.int8)
    b = np.array([2, 2, 3, 127], np.int8)
    operands = (tl.int8, a), (tl.int8, b)
    quotient, remainder, total, negated = evaluate(lambda x, y: (x // y, x % y, x + y, -x), *operands)
    assert quotient.tolist() == [3, -3, -2, 1] and remainder.tolist() == [1, -1, -2, 0]
    assert total.tolist() == [9, -5, -5, -2] and negated.tolist() == [-7, 7, 8, -127]
    (unsigned,) = evaluate(lambda x: x < 128, (tl.uint8, a))
    assert unsigned.tolist() == [True, False, False, True]


def test_negation_flips_the_sign_of_zero() -> None:
    (result,) = evaluate(lambda x: -x, (F32, np.array([0.0, -0.0], np.float32)))
    assert np.signbit(result).tolist() == [True, False]


NAN = float("nan")


@pytest.mark.parametrize(("propagate", "smaller", "larger"), [
    (tl.PropagateNan.NONE, [1.0, 1.0, -0.0, NAN], [1.0, 1.0, 0.0, NAN]),
    (tl.PropagateNan.ALL, [NAN, NAN, -0.0, NAN], [NAN, NAN, 0.0, NAN]),
])  # fmt: skip
def test_nan_and_zero_in_minimum_and_maximum(
    propagate: tl.PropagateNan, smaller: list[float], larger: list[float]
) -> None:
    a = F32, np.array([NAN, 1.0, 0.0, NAN], np.float32)
    b = F32, np.array([1.0, NAN, -0.0, NAN], np.float32)
    low, high = evaluate(lambda x, y: (tl.minimum(x, y, propagate), tl.maximum(x, y, propagate_nan=propagate)), a, b)
    for result, expected in ((low, smaller), (high, larger)):
        assert np.array_equal(result, np.array(expected, np.float32), equal_nan=True)
        assert np.array_equal(np.signbit(result[2]), np.signbit(np.float32(expected[2])))


def test_clamp() -> None:
    (ints,) = evaluate(lambda x: tl.clamp(x, 2, 5), counting(8))
    assert ints.tolist() == [2, 2, 2, 3, 4, 5, 5, 5]
    x = F32, np.array([NAN, -1.0, 0.5, 9.0], np.float32)
    numbers, nans = evaluate(lambda x: (tl.clamp(x, 0, 1), tl.clamp(x, 0.0, 1.0, tl.PropagateNan.ALL)), x)
    assert numbers.tolist() == [0.0, 0.0, 0.5, 1.0]
    assert np.array_equal(nans, np.array([NAN, 0.0, 0.5, 1.0], np.float32), equal_nan=True)


def test_fused_and_wide_products() -> None:
    x = F32, np.array([1 + 2.0**-12], np.float32)
    fused, apart = evaluate(lambda x: (tl.fma(x, x, -1.0), x * x - 1.0), x)
    assert fused[0] == np.float32((1 + 2.0**-12) ** 2 - 1) != apart[0]
    (high,) = evaluate(lambda x: tl.umulhi(x, 0xFFFFFFFF), (tl.uint32, np.array([-1, 2], np.int32)))
    assert high.view(np.uint32).tolist() == [0xFFFFFFFE, 1]


FUNCTIONS: list[tuple[str, Any]] = [
    ("exp", np.exp), ("exp2", np.exp2), ("log", np.log), ("log2", np.log2), ("sqrt", np.sqrt), ("sqrt_rn", np.sqrt),
    ("rsqrt", lambda x: 1 / np.sqrt(x)), ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh), ("floor", np.floor),
    ("ceil", np.ceil), ("abs", np.abs), ("erf", np.vectorize(math.erf)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "numpy"), FUNCTIONS)
def test_functions(name: str, numpy: Any) -> None:
    x = np.abs(floats(16)[1]) + np.float32(0.25)
    for type_, array, tolerance in ((F32, x, 1e-6), (tl.float64, x.astype(np.float64), 1e-14)):
        (result,) = evaluate(getattr(tl, name), (type_, array))
        assert result.dtype == array.dtype
        assert np.allclose(result, numpy(array.astype(np.float64)), rtol=tolerance, atol=tolerance)


def test_absolute_values() -> None:
    a = np.array([-128, -3, 3], np.int8)
    padded = np.append(a, np.int8(0))
    signed, unsigned = evaluate(lambda x, y: (tl.abs(x), tl.abs(y)), (tl.int8, padded), (tl.uint8, padded))
    assert signed.tolist() == [-128, 3, 3, 0] and unsigned.tolist() == padded.tolist()


def test_eight_bit_floats_compute_and_divide_in_float32() -> None:
    with sandbox() as box:
        for type_ in FP8:
            x = box.tile(type_, 4)
            assert (x + x).dtype == (x * 2).dtype == (-x).dtype == tl.abs(x).dtype == type_
            assert (x / x).dtype == (x / 2).dtype == F32


# --- reductions ---

REDUCTIONS: list[tuple[str, Any]] = [("sum", np.sum), ("max", np.max), ("min", np.min)]


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize(("name", "numpy"), REDUCTIONS)
def test_reductions(name: str, numpy: Any, axis: int | None, keep_dims: bool) -> None:
    x = np.random.default_rng(1).integers(-100, 100, (4, 8)).astype(np.int32)
    (result,) = evaluate(lambda x: getattr(tl, name)(x, axis, keep_dims=keep_dims), (I32, x))
    expected = numpy(x, axis=axis, keepdims=keep_dims)
    assert result.shape == expected.shape and np.array_equal(result, expected)


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_types_of_reductions(type_: dtype) -> None:
    def widened(narrow: dtype, wide: dtype) -> dtype:
        return wide if type_.primitive_bitwidth < 32 else narrow

    with sandbox() as box:
        x = box.tile(type_, 4, 8)
        total = type_ if type_.is_floating() else widened(type_, I32 if type_.is_int_signed() else tl.uint32)
        assert tl.sum(x, 0).dtype == total
        assert tl.sum(x, 0, dtype=tl.float64).dtype == tl.float64
        extreme = widened(type_, F32 if type_.is_floating() else I32)
        assert tl.max(x, 1).dtype == x.min().dtype == extreme
        value, index = tl.max(x, 1, return_indices=True)
        assert (value.dtype, index.dtype) == (type_, I32)
        assert tl.argmin(x, 0).dtype == x.argmax(-1, keep_dims=True).dtype == I32
        if type_.is_int():
            assert tl.xor_sum(x).dtype == tl.reduce_or(x, 1).dtype == type_


def test_unsigned_maxima_stay_unsigned() -> None:
    (result,) = evaluate(lambda x: tl.max(x), (tl.uint8, np.array([1, -1], np.int8)))
    assert result == 255


def test_indices_are_leftmost() -> None:
    x = F32, np.array([[3, NAN, 3, 1], [0.0, -0.0, NAN, -5]], np.float32)
    value, index, least = evaluate(lambda x: (*tl.max(x, 1, True), tl.argmin(x, axis=1, keep_dims=True)), x)
    assert value.tolist() == [3, 0] and index.tolist() == [0, 0] and least.tolist() == [[3], [3]]


def test_bitwise_reductions() -> None:
    x = np.random.default_rng(2).integers(0, 2**31, (4, 8)).astype(np.int32)
    xor, either = evaluate(lambda x: (x.xor_sum(1), tl.reduce_or(x, 0)), (I32, x))
    assert np.array_equal(xor, np.bitwise_xor.reduce(x, 1)) and np.array_equal(either, np.bitwise_or.reduce(x, 0))


@device_function
def product(a, b):  # noqa: ANN001, ANN201
    return a * b


@device_function
def later_of_the_largest(value1, index1, value2, index2):  # noqa: ANN001, ANN201
    take = value2 >= value1
    return tl.where(take, value2, value1), tl.where(take, index2, index1)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_reductions_by_a_function(axis: int | None) -> None:
    x = counting(2, 4)
    x[1][...] = [[1, 2, 3, 4], [5, 6, 7, 8]]
    result, kept = evaluate(lambda x: (tl.reduce(x, axis, product), x.reduce(axis, product, keep_dims=True)), x)
    assert np.array_equal(result, np.prod(x[1], axis)) and np.array_equal(kept, np.prod(x[1], axis, keepdims=True))


def test_reductions_of_several_tiles() -> None:
    x = np.array([3, 9, 9, 1], np.int8)
    value, index = evaluate(lambda x: tl.reduce((x, tl.arange(0, 4)), 0, later_of_the_largest), (tl.int8, x))
    assert (value, index, value.dtype) == (9, 2, np.int8)


def test_builtins_combine_too() -> None:
    (result,) = evaluate(lambda x: tl.reduce(x, 0, tl.maximum), counting(8))
    assert result == 7


# --- the matrix product ---


def test_dot() -> None:
    a, b, c = (np.random.default_rng(i).integers(-8, 8, (4, 4)).astype(np.float32) for i in range(3))
    plain, onto, int8 = evaluate(
        lambda x, y, z: (tl.dot(x, y), tl.dot(x, y, acc=z), tl.dot(x.to(tl.int8), y.to(tl.int8))),
        (F32, a), (F32, b), (F32, c),
    )  # fmt: skip
    assert np.array_equal(plain, a @ b) and np.array_equal(onto, c + a @ b)
    assert np.array_equal(int8, (a @ b).astype(np.int32)) and int8.dtype == np.int32


@pytest.mark.parametrize(("type_", "out", "expected"), [
    (tl.float16, None, F32), (tl.float16, tl.float16, tl.float16), (tl.bfloat16, None, F32), (F32, F32, F32),
    (tl.float64, None, tl.float64), (tl.int8, None, I32), (tl.float8e5, None, F32),
    (tl.float8e4nv, tl.float16, tl.float16),
])  # fmt: skip
def test_types_of_dot(type_: dtype, out: dtype | None, expected: dtype) -> None:
    with sandbox() as box:
        a, b = box.tile(type_, 4, 8), box.tile(type_, 8, 2)
        result = tl.dot(a, b, out_dtype=out)
        assert (result.dtype, result.shape) == (expected, (4, 2))
        assert tl.dot(a, b, tl.zeros((4, 2), expected)).dtype == expected


def chosen(dot: Operation) -> tuple[object, object]:
    """What a caller of `dot` chooses; the rest is the compiler's."""
    return dot.attributes["precision"], dot.attributes["max_imprecise"]


def test_batches_and_flavours_of_dot() -> None:
    with sandbox() as box:
        a, b = box.tile(F32, 2, 2, 4, 8), box.tile(F32, 2, 2, 8, 4)
        assert tl.dot(a, b).shape == (2, 2, 4, 4)
        x, y = box.tile(F32, 4, 8), box.tile(F32, 8, 4)
        flavours = [({}, "tf32"), ({"input_precision": "IEEE"}, "ieee"), ({"allow_tf32": False}, "ieee")]
        for keywords, precision in [
            *flavours,
            ({"allow_tf32": True}, "tf32"),
            ({"input_precision": "bf16x6"}, "bf16x6"),
        ]:
            tl.dot(x, y, **keywords)
            assert chosen(box.last) == (precision, 0)
        tl.dot(x.to(tl.float8e5), y.to(tl.float8e4nv), max_num_imprecise_acc=8)
        assert chosen(box.last) == ("ieee", 8)
        tl.dot(x.to(tl.float8e4b15), y.to(tl.float8e4b15))
        assert box.last.operands[0].type == box.tile(tl.float16, 4, 8).handle.type
    with sandbox(Options(input_precision="ieee")) as box:
        tl.dot(box.tile(F32, 1, 1), box.tile(F32, 1, 1))
        assert box.last.attributes["precision"] == "ieee"


# --- hints, prints and asserts ---


def test_hints() -> None:
    with sandbox() as box:
        x = box.tile(I32, 4, 8)
        for function, name in (
            (tl.multiple_of, "divisibility"), (tl.max_contiguous, "contiguity"), (tl.max_constancy, "constancy"),
        ):  # fmt: skip
            assert function(x, (2, 4)).shape == (4, 8)
            assert box.last.attributes[name] == (2, 4)
            assert function(box.tile(I32), 16).shape == () and box.last.attributes[name] == (16,)
        tl.assume(box.tile(I32) > 0)
        assert box.last.name == "assume"
        tl.debug_barrier()
        assert box.last.name == "barrier"


def test_device_print() -> None:
    with sandbox() as box:
        tl.device_print("x", box.tile(tl.uint8, 4), box.tile(tl.int8), 3, hex=True)
        assert box.last.attributes == {"prefix": "x", "hex": True, "signed": (False, True, True)}


def test_device_assert_needs_debug() -> None:
    with sandbox() as box:
        tl.device_assert(box.tile(I32, 4))
        assert box.names == []
    with sandbox(Options(debug=True)) as box:
        tl.device_assert(box.tile(I32, 4), "all set", mask=box.tile(tl.int1))
        assert box.last.name == "assert" and box.last.attributes == {"message": "all set"}
        assert len(box.last.operands) == 2


def test_static_print(capsys: pytest.CaptureFixture[str]) -> None:
    with sandbox() as box:
        tl.static_print("block", 16, box.tile(F32, 4), sep="|", end="!\n")
        tl.static_assert(True, "fine")
    assert capsys.readouterr().out == "block|16|<float32 tile of shape (4,)>!\n"


def test_loop_objects() -> None:
    loop = tl.range(4)
    assert (loop.start, loop.stop, loop.step, loop.num_stages, loop.flatten) == (0, 4, 1, None, False)
    loop = tl.range(1, constexpr(9), 2, num_stages=3, warp_specialize=True)
    assert (loop.start, loop.stop, loop.step, loop.num_stages, loop.warp_specialize) == (1, 9, 2, 3, True)
    assert list(tl.static_range(1, 9, 3)) == [1, 4, 7]
    assert tl.condition(constexpr(True), disable_licm=True).disable_licm is True


# --- the library ---


def test_sigmoid_and_softmax() -> None:
    x = floats(4, 8)
    wide = x[1].astype(np.float64)
    sigmoid, columns, rows, exact = evaluate(
        lambda x: (tl.sigmoid(x), tl.softmax(x), x.softmax(1), tl.softmax(x, -1, ieee_rounding=True)), x
    )
    assert np.allclose(sigmoid, 1 / (1 + np.exp(-wide)), rtol=1e-6)
    for result, axis in ((columns, 0), (rows, 1), (exact, 1)):
        expected = np.exp(wide) / np.exp(wide).sum(axis, keepdims=True)
        assert np.allclose(result, expected, rtol=1e-6)


def test_cdiv() -> None:
    (result,) = evaluate(lambda x: tl.cdiv(x, 4), counting(16))
    assert np.array_equal(result, -(-np.arange(16) // 4))
    assert evaluate(lambda x: x.cdiv(3), counting(4))[0].tolist() == [0, 1, 1, 1]
    mixed = ((tl.int16, np.array([4700], np.int16)), (tl.int8, np.array([-128], np.int8)))
    assert evaluate(lambda x, y: tl.cdiv(x, y), *mixed)[0].tolist() == [-37]  # `div - 1` wraps in its own width


def test_swizzle2d_visits_each_place_once_column_by_column_in_groups() -> None:
    rows, columns, group = 8, 4, 4
    i, j = (counting(rows * columns)[1] // columns, counting(rows * columns)[1] % columns)
    new_i, new_j = evaluate(lambda i, j: tl.swizzle2d(i, j, rows, columns, group), (I32, i), (I32, j))
    expected = [(g * group + r, c) for g in range(rows // group) for c in range(columns) for r in range(group)]
    assert list(zip(new_i.tolist(), new_j.tolist(), strict=True)) == expected


# --- random numbers ---

#: (width, counter, key, result) of Philox 4x32-10 and 4x64-10: the known-answer tests of Random123.
VECTORS = [
    (32, (0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (32, (2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (32, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
    (64, (0, 0, 0, 0), (0, 0), "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
    (64, (2**64 - 1,) * 4, (2**64 - 1,) * 2, "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"),
]  # fmt: skip


def words(values: tuple[int, ...], width: int) -> list[Array]:
    return [np.array(value, f"uint{width}").view(f"int{width}") for value in values]


@pytest.mark.parametrize(("width", "counter", "key", "expected"), VECTORS)
def test_philox_known_answers(width: int, counter: tuple[int, ...], key: tuple[int, ...], expected: str) -> None:
    type_ = dtype(f"uint{width}")
    operands = [(type_, word) for word in (*words(counter, width), *words(key, width))]
    results = evaluate(lambda *each: tl.philox_impl(*each, 10), *operands)
    assert [int(result.view(f"uint{width}")) for result in results] == [int(word, 16) for word in expected.split()]


def philox_32(counter: list[int], key: int) -> list[int]:
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


@settings(max_examples=10)
@given(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1))
def test_randint_splits_seed_and_offset(seed: int, offset: int) -> None:
    results = evaluate(lambda x: tl.randint4x(seed, x), (tl.int64, np.array([offset, 0])))
    place = offset % 2**64
    expected = philox_32([place % 2**32, place >> 32, 0, 0], seed)
    assert [int(result.view(np.uint32)[0]) for result in results] == expected


def test_uniform_numbers() -> None:
    (result,) = evaluate(lambda x: tl.rand(7, x), counting(4096))
    bits = np.array([philox_32([i, 0, 0, 0], 7)[0] for i in range(8)], np.uint32).view(np.int32)
    folded = np.where(bits < 0, ~bits, bits).astype(np.float32)
    assert np.array_equal(result[:8], folded * np.float32(4.6566127342e-10))
    assert result.dtype == np.float32 and 0 <= result.min() and result.max() < 1
    assert abs(result.mean() - 0.5) < 0.02 and abs(result.var() - 1 / 12) < 0.005


@pytest.mark.parametrize("type_", [tl.uint32, tl.int32, tl.uint64, tl.int64], ids=str)
def test_the_largest_words_stay_below_one(type_: dtype) -> None:
    width = type_.int_bitwidth
    least, greatest = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    x = np.array([0, -1, least, greatest], f"int{width}")
    (result,) = evaluate(tl.uint_to_uniform_float, (type_, x))
    assert result[0] == result[1] == 0 and result[2] == result[3]
    assert 0.9999 < result[2] < 1


def test_normal_numbers() -> None:
    (result,) = evaluate(lambda x: tl.randn(3, x), counting(4096))
    assert abs(result.mean()) < 0.05 and abs(result.var() - 1) < 0.06
    four = evaluate(lambda x: tl.randn4x(3, x), counting(4))
    assert np.array_equal(four[0], result[:4]) and len({each.tobytes() for each in four}) == 4


def test_random_numbers_do_not_trip_the_overflow_asserts() -> None:
    evaluate(lambda x: tl.rand(7, x), counting(4), options=Options(debug=True))


# --- memory, through kernels ---


def copy_masked(source, target, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + offsets, offsets < n, -1, cache_modifier=".ca", eviction_policy="evict_last", volatile=True)
    tl.store(target + offsets, x, mask=offsets < n + 2, cache_modifier="wt")


def test_masked_loads_and_stores() -> None:
    source, target = np.arange(16, dtype=np.float32), np.full(16, 100, np.float16)
    launch(
        copy_masked, (2, 1, 1), {"source": ("*fp32", source), "target": ("*fp16", target), "n": ("i32", 11)}, BLOCK=8
    )
    assert target.tolist() == [*range(11), -1, -1, 100, 100, 100]


def transpose_blocks(source, target, rows, columns, PADDING: tl.constexpr):  # noqa: ANN001, ANN201, N803
    block = tl.make_block_ptr(source, (rows, columns), (columns, 1), (0, tl.program_id(0) * 4), (2, 4), (1, 0))
    turned = tl.make_block_ptr(target, (columns, rows), (rows, 1), (tl.program_id(0) * 4, 0), (4, 2), (1, 0))
    for _ in range(0, rows + 1, 2):
        tile = tl.load(block, boundary_check=(0, 1), padding_option=PADDING)
        tl.store(turned, tl.trans(tile) + 1, boundary_check=(0, 1))
        block = tl.advance(block, (2, 0))
        turned = turned.advance((0, 2))


def test_block_pointers() -> None:
    source = np.arange(15, dtype=np.float32).reshape(3, 5)
    target = np.zeros((5, 3), np.float32)
    arguments = {"source": ("*fp32", source), "target": ("*fp32", target), "rows": ("i32", 3), "columns": ("i32", 5)}
    launch(transpose_blocks, (2, 1, 1), arguments, PADDING="nan")
    assert np.array_equal(target, source.T + 1)


def pad_blocks(source, target, n, PADDING: tl.constexpr):  # noqa: ANN001, ANN201, N803
    block = tl.make_block_ptr(source, (n,), (1,), (-1,), (8,), (0,))
    tl.store(target + tl.arange(0, 8), tl.load(block, boundary_check=(0,), padding_option=PADDING))


@pytest.mark.parametrize(("padding", "outside"), [("zero", 0.0), ("nan", NAN), ("", 0.0)])
def test_padding(padding: str, outside: float) -> None:
    source, target = np.array([5.0, 6.0], np.float32), np.ones(8, np.float32)
    launch(
        pad_blocks,
        (1, 1, 1),
        {"source": ("*fp32", source), "target": ("*fp32", target), "n": ("i32", 2)},
        PADDING=padding,
    )
    assert np.array_equal(target, np.array([outside, 5, 6] + [outside] * 5, np.float32), equal_nan=True)


ATOMICS: list[tuple[str, str, Any, Any]] = [
    ("atomic_add", "i32", 5, 105), ("atomic_max", "i32", -5, 100), ("atomic_min", "i32", -5, -5),
    ("atomic_max", "u32", -5 % 2**32, -5 % 2**32), ("atomic_min", "u32", -5 % 2**32, 100), ("atomic_and", "i32", 6, 4),
    ("atomic_or", "u64", 3, 103), ("atomic_xor", "i64", 3, 103), ("atomic_xchg", "fp32", 2.5, 2.5),
    ("atomic_add", "fp16", 0.5, 100.5), ("atomic_add", "fp64", 0.1, 100.1), ("atomic_max", "fp32", 101.0, 101.0),
    ("atomic_min", "fp64", -1.0, -1.0),
]  # fmt: skip
STORAGE = {
    "u32": np.uint32, "u64": np.uint64, "i32": np.int32, "i64": np.int64,
    "fp16": np.float16, "fp32": np.float32, "fp64": np.float64,
}  # fmt: skip


def update(target, old, value, KIND: tl.constexpr):  # noqa: ANN001, ANN201, N803
    tl.store(old, KIND(target, value, sem="relaxed", scope="cta"))


@pytest.mark.parametrize(("name", "type_", "value", "expected"), ATOMICS)
def test_atomics(name: str, type_: str, value: Any, expected: Any) -> None:
    target, old = np.array([100], STORAGE[type_]), np.zeros(1, STORAGE[type_])
    arguments = {"target": (f"*{type_}", target), "old": (f"*{type_}", old), "value": (type_, STORAGE[type_](value))}
    launch(update, (1, 1, 1), arguments, KIND=getattr(tl, name))
    assert old[0] == 100 and target[0] == STORAGE[type_](expected)


def lock_and_count(lock, count):  # noqa: ANN001, ANN201
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.store(count, tl.load(count) + 1)
    tl.atomic_store(lock, 0)


def test_a_spin_lock() -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int64)
    launch(lock_and_count, (9, 1, 1), {"lock": ("*i32", lock), "count": ("*i64", count)})
    assert (lock[0], count[0]) == (0, 9)


def hand_over(flag, value):  # noqa: ANN001, ANN201
    if tl.program_id(0) == 1:
        tl.store(value, 42)
        tl.atomic_store(flag, 1)
    elif tl.atomic_poll(flag, 1, timeout_ns=10**9):
        tl.store(value + 1, tl.atomic_load(value))


def test_polling_for_a_higher_program() -> None:
    flag, value = np.zeros(1, np.int32), np.zeros(2, np.int32)
    launch(hand_over, (2, 1, 1), {"flag": ("*i32", flag), "value": ("*i32", value)})
    assert value.tolist() == [42, 42]


def test_types_of_atomics() -> None:
    with sandbox() as box:
        flags = box.tile(tl.int1, 4)
        for name in ("add", "max", "min", "and", "or", "xor", "xchg"):
            p = box.tile(pointer_type(tl.uint32), 4)
            result = getattr(tl, f"atomic_{name}")(p, 1, flags)
            assert (result.dtype, result.shape) == (tl.uint32, (4,))
            assert box.last.attributes["sem"] == "acq_rel" and box.last.attributes["scope"] == "gpu"
            assert len(box.last.operands) == 3
        assert box.tile(pointer_type(tl.float16)).atomic_cas(0.0, 1.0).dtype == tl.float16
        assert tl.atomic_load(box.tile(pointer_type(tl.int1), 4), flags).dtype == tl.int1
        assert box.last.attributes["sem"] == "acquire"
        assert tl.atomic_poll(box.tile(pointer_type(tl.int16), 4), 3).dtype == tl.int1
