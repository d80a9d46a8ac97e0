"""Typing and construction of operations, as plain functions on values: what operators, `tl` and the frontend share."""

from .casts import cast_tensor as cast
from .core import (
    broadcast_to,
    common_shape,
    constant,
    convert,
    splat,
    to_tensor,
    together,
)
from .operators import (
    binary,
    compare,
    invert,
    logical_and,
    logical_not,
    logical_or,
    loop_bounds,
    negate,
    select,
    to_condition,
    where,
)

__all__ = [
    "binary",
    "broadcast_to",
    "cast",
    "common_shape",
    "compare",
    "constant",
    "convert",
    "invert",
    "logical_and",
    "logical_not",
    "logical_or",
    "loop_bounds",
    "negate",
    "select",
    "splat",
    "to_condition",
    "to_tensor",
    "together",
    "where",
]
