"""Integers with more digits than Python prints: usable at compile time, and told by their length in messages."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.lang import CompilationError, CompilerBug, shown
from tilewright.runtime import GridError, LaunchError

HUGE = 10**5000
N = tl.constexpr(HUGE)
BITS = f"an integer of {HUGE.bit_length()} bits"


@tilewright.jit
def computes(out_ptr, C: tl.constexpr):
    tl.static_print(C)
    tl.store(out_ptr, C % 7 + N % 5 + 10**5000 % 3)


@tilewright.jit
def stores(out_ptr):
    tl.store(out_ptr, N)


@tilewright.jit
def tiles(out_ptr):
    tl.store(out_ptr, tl.full((N,), 1, tl.int32))


@tilewright.jit
def ranges(out_ptr):
    tl.store(out_ptr, tl.arange(0, N))


@tilewright.jit
def casts(out_ptr):
    tl.store(out_ptr, tl.load(out_ptr).to(N))


@tilewright.jit
def prints(out_ptr):
    tl.static_assert(N == 3, f"{N}")


@tilewright.jit
def takes(out_ptr, n):
    tl.store(out_ptr, n)


OUT = np.zeros(1, np.int64)


def test_they_are_values_like_others(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = computes[(1,)](OUT, HUGE)
    assert OUT[0] == HUGE % 7 + HUGE % 5 + HUGE % 3
    assert BITS in capsys.readouterr().out
    assert kernel.assumptions["C"] == f"constexpr {BITS}"
    assert computes[(1,)](OUT, HUGE + 1) is not kernel


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: stores[(1,)](OUT), CompilationError, f"{BITS} fits no integer type"),
        (lambda: tiles[(1,)](OUT), CompilationError, f"a tile of shape ({BITS},)"),
        (lambda: ranges[(1,)](OUT), CompilationError, f"arange(0, {BITS}): the bounds do not fit int32"),
        (lambda: casts[(1,)](OUT), CompilationError, f"`dtype` is the constexpr {BITS}"),
        (lambda: prints[(1,)](OUT), CompilationError, "the f-string failed at compile time: ValueError"),
        (lambda: takes[(1,)](OUT, HUGE), LaunchError, f"argument n: {BITS} fits no integer type of 64 bits"),
        (lambda: stores[(HUGE,)](OUT), GridError, f"extent 0 of the grid is {BITS}"),
        (lambda: stores[(1,)](OUT, num_warps=HUGE), LaunchError, f"option num_warps={BITS}"),
    ],
)
def test_mistakes_tell_their_length(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value) and not isinstance(caught.value, CompilerBug)


def test_only_what_nobody_would_read_is_told_by_its_length() -> None:
    assert shown(3) == 3 and shown((1, "a")) == (1, "a") and shown(True) is True
    assert repr(shown(-HUGE)) == BITS and repr(shown([1, (HUGE,)])) == f"[1, ({BITS},)]"
    assert repr(shown(1 << 1023)) == repr(1 << 1023)
