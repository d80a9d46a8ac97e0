"""Loops whose bounds and step differ in sign: the values are those of Python's `range`, or the loop is refused."""

import numpy as np
import pytest

from tests.lang.codegen_tools import mistake
from tests.lang.evaluation import launch
from tilewright.lang import language as tl
from tilewright.lang.errors.operations import MixedSignedness, NegativeWithUnsigned

UNSIGNED = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32}


def down(out, u, s):
    at = 0
    for i in range(u, 0, -2):
        tl.store(out + at, i)
        at += 1


def below_zero(out, u, s):
    at = 0
    for i in range(u, -1, -1):
        tl.store(out + at, i)
        at += 1


def by_a_runtime_step(out, u, s):
    at = 0
    for i in range(u, 0, s):
        tl.store(out + at, i)
        at += 1


def left_early(out, u, s):
    at = 0
    for i in range(u, 0, -1):
        if i == 2:
            break
        tl.store(out + at, i)
        at += 1


def up(out, u, s):
    at = 0
    for i in range(0, u):
        tl.store(out + at, i + 1)
        at += 1


EXPECTED = {
    down: [5, 3, 1], below_zero: [5, 4, 3, 2, 1, 0], by_a_runtime_step: [5, 3, 1], left_early: [5, 4, 3],
    up: [1, 2, 3, 4, 5],
}  # fmt: skip


@pytest.mark.parametrize("type_", UNSIGNED)
@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda kernel: kernel.__name__)
def test_an_unsigned_bound_counts_as_python_does(kernel, type_: str) -> None:
    out = np.full(8, 99, np.int32)
    launch(kernel, (1, 1, 1), {"out": ("*i32", out), "u": (type_, 5), "s": ("i32", -2)})
    expected = EXPECTED[kernel]
    assert out.tolist() == expected + [99] * (8 - len(expected))


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [(down, NegativeWithUnsigned), (below_zero, NegativeWithUnsigned), (by_a_runtime_step, MixedSignedness)],
)
def test_what_no_type_can_count_is_refused(kernel, kind: type[Exception]) -> None:
    assert isinstance(mistake(kernel, out="*i32", u="u64"), kind)


def test_the_loop_variable_keeps_the_promoted_type() -> None:
    def kernel(u, s):
        for i in range(u, 0, s):
            tl.static_assert(i.dtype == tl.uint32)

    launch(kernel, (1, 1, 1), {"u": ("u32", 5), "s": ("i32", -1)})


def test_uint64_counts_up() -> None:
    out = np.full(8, 99, np.int32)
    launch(up, (1, 1, 1), {"out": ("*i32", out), "u": ("u64", 2), "s": ("i32", 1)})
    assert out.tolist() == [1, 2] + [99] * 6
