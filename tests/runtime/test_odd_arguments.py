"""Arguments that are tuples, const pointers, annotated arrays, NumPy scalars; grids that fail; what a kernel keeps."""

import gc
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright import CompilationError
from tilewright.runtime import ArgumentError, GridError


class Pair(NamedTuple):
    scale: Any
    offset: Any


@tilewright.jit
def by_tuple(out_ptr, pair, named, nothing):
    tl.store(out_ptr, pair[0] * 10 + pair[1])
    tl.store(out_ptr + 1, named.scale * 10 + named.offset)
    if nothing[0] is None:
        tl.store(out_ptr + 2, 7)


@pytest.mark.parametrize("pair", [(1, 2), (3, 1), (16, 1), (2, 3)])
def test_tuples_of_numbers_ones_and_none(pair: tuple[int, int]) -> None:
    out = np.zeros(3, np.int32)
    by_tuple[(1,)](out, pair, Pair(*pair), (None, 1))
    value = pair[0] * 10 + pair[1]
    assert out.tolist() == [value, value, 7]


@tilewright.jit
def writes_const(x_ptr: tl.const):
    tl.store(x_ptr, 1)


@tilewright.jit
def writes_const_by_name(x_ptr: "tl.const"):
    tl.atomic_add(x_ptr, 1)


@pytest.mark.parametrize("kernel", [writes_const, writes_const_by_name])
def test_a_const_pointer_is_not_written_through(kernel: Any) -> None:
    with pytest.raises(CompilationError, match="const"):
        kernel[(1,)](np.zeros(4, np.int32))


@tilewright.jit
def reinterprets(x_ptr: tl.pointer_type(tl.int32), out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


def test_an_annotated_array_is_reinterpreted_at_its_own_width_only() -> None:
    out = np.zeros(1, np.int32)
    reinterprets[(1,)](np.ones(1, np.float32), out)
    assert out[0] == 0x3F800000
    with pytest.raises(ArgumentError) as caught:
        reinterprets[(1,)](np.ones(1, np.float16), out)
    assert str(caught.value) == (
        "reinterprets: argument x_ptr: an array of fp16 was passed where pointer<int32> is annotated\n"
        "hint: leave the annotation out, or pass array.view(...) of that type"
    )


@tilewright.jit
def fills(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), 1)


def test_numpy_scalars_are_constexprs() -> None:
    out = np.zeros(8, np.int32)
    assert fills[(1,)](out, np.int64(8)) is fills[(1,)](out, 8)
    assert out.all()


def test_a_value_that_no_key_holds_is_blamed_on_its_argument() -> None:
    with pytest.raises(ArgumentError, match="fills: argument BLOCK: a object can't be a compile-time value"):
        fills[(1,)](np.zeros(8, np.int32), object())


@pytest.mark.parametrize(
    "grid, text",
    [
        (lambda meta: (meta["BLOKC"],), "the grid asks for 'BLOKC', which is no argument\nhint: did you mean BLOCK?"),
        (
            lambda: (1,),
            "the grid could not be called: test_odd_arguments.<lambda>() takes 0 positional arguments but 1 was given\n"
            "hint: a grid takes one mapping: name -> argument",
        ),
    ],
)
def test_grids_that_fail(grid: Any, text: str) -> None:
    with pytest.raises(GridError) as caught:
        fills[grid](np.zeros(8, np.int32), 8)
    assert str(caught.value).replace("test_odd_arguments.", "") == text.replace("test_odd_arguments.", "")


def test_errors_inside_a_grid_are_the_users() -> None:
    def grid(meta: Any) -> tuple[int]:
        return ({}["missing"],)

    with pytest.raises(KeyError):
        fills[grid](np.zeros(8, np.int32), 8)


def test_a_compiled_kernel_shows_what_it_is_for_and_keeps_no_data() -> None:
    out = np.zeros(8, np.int32)
    kernel = fills[(1,)](out, 8)
    assert repr(kernel) == "<CompiledKernel fills(out_ptr: *i32:16, BLOCK: constexpr 8) on interpreter>"
    gone = weakref.ref(out)
    del out
    gc.collect()
    assert gone() is None
