"""Library functions written in the language itself; the frontend compiles them as it does a user's."""

# Kernel code: annotations say what is known at compile time, which Python's type checkers read otherwise.
# pyright: reportAssignmentType=false
from __future__ import annotations

from typing import Any

from ..constants import constexpr
from ..frontend.function import device_function
from ..values import MEMBERS
from .elementwise import exp, fdiv, minimum
from .reductions import max, sum


@device_function
def cdiv(x: Any, div: Any) -> Any:
    """`x / div` of integers, rounded up (both positive)."""
    return (x + (div - 1)) // div


@device_function
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)). Of float32 and float64; raises BadOperand for others."""
    return 1 / (1 + exp(-x))


@device_function
def softmax(x: Any, dim: Any = None, *, keep_dims: Any = None, ieee_rounding: Any = False) -> Any:
    """exp(x) / sum(exp(x)) along `dim` (0 when it is not given), computed from x - max(x).

    `keep_dims` is accepted and ignored. `ieee_rounding` divides with `div_rn`. Of float32 and float64.
    """
    axis: constexpr = 0 if dim is None else dim
    powers = exp(x - max(x, axis, keep_dims=True))
    return fdiv(powers, sum(powers, axis, keep_dims=True), ieee_rounding)


@device_function
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """The place of (i, j) when a size_i by size_j grid is walked in groups of size_g rows, column by column in each.

    Programs that run together then share rows and columns of the operands. The last group may have fewer rows.
    """
    index = i * size_j + j
    group = index // (size_g * size_j)
    first = group * size_g
    rows = minimum(size_i - first, size_g)
    inside = index % (size_g * size_j)
    return first + inside % rows, inside // rows


MEMBERS.update({"cdiv": cdiv, "sigmoid": sigmoid, "softmax": softmax})
