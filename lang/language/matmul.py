"""The matrix product."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import semantic
from ..constants import unwrap
from ..context import current, current_options
from ..dtypes import (
    FP8,
    bfloat16,
    dtype,
    float8e4b15,
    float16,
    float32,
    float64,
    int8,
    int32,
    show,
)
from ..errors.operations import DotImprecise, DotPrecision, DotRank, DotResult, DotShapes, DotTypes
from ..ops.reduce import DOT
from ..semantic.core import constant
from ..values import describe, tensor, with_article
from .arguments import choice, element_dtype, flag, integer, tile
from .builtin import builtin
from .shape import reshape

PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
#: Result types by operand type; the first is the default.
RESULTS: dict[dtype, tuple[dtype, ...]] = {
    int8: (int32,),
    float16: (float32, float16),
    bfloat16: (float32,),
    float32: (float32,),
    float64: (float64,),
    **dict.fromkeys(FP8, (float32, float16)),
}


@builtin
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
) -> tensor:
    """`acc + input @ other`, of tiles (M, K) and (K, N), or of batches of them; `acc` is 0 where it is not given.

    Operands have both an 8-bit float type, or both the same of int8, float16, bfloat16, float32 and float64. The
    result is int32 for int8, float64 for float64, float32 for others; for float16 and 8-bit floats `out_dtype` (or
    the accumulator) may say float16. `input_precision` (tf32, tf32x3, ieee, bf16x3, bf16x6) is how compiled code may
    split or truncate float32 operands; `allow_tf32` is its older form. `max_num_imprecise_acc` bounds, for 8-bit
    floats, how many products may be added with fewer bits. Extents may be as small as 1: a target may ask for more.
    Raises DotRank, DotShapes, DotTypes, DotResult, DotPrecision, DotImprecise, BadChoice.
    """
    a, b = tile("dot", "input", input), tile("dot", "other", other)
    _check_operands(a, b)
    result = _result_type(a, acc, out_dtype)
    precision = _precision(a.dtype, input_precision, allow_tf32)
    imprecise = _imprecise(a, max_num_imprecise_acc)
    if float8e4b15 in (a.dtype, b.dtype):  # no target multiplies it; float16 holds its values exactly
        a, b = semantic.cast(a, float16), semantic.cast(b, float16)
    shape = (*a.shape[:-1], b.shape[-1])
    total = constant(0, result, shape) if acc is None else _accumulator(acc, result, shape)
    x, y, z = (_batched(each) for each in (a, b, total))
    handles = [each.handle for each in (x, y, z)]
    attributes = {"precision": precision, "max_imprecise": imprecise}
    return reshape(tensor(current().value(DOT, handles, attributes), result), shape)


def _batched(x: tensor) -> tensor:
    """Several batch dimensions as one, which is what the op takes."""
    if len(x.shape) <= 3:
        return x
    return reshape(x, (prod(x.shape[:-2]), *x.shape[-2:]))


def _check_operands(a: tensor, b: tensor) -> None:
    if len(a.shape) != len(b.shape) or len(a.shape) < 2:
        raise DotRank(a=describe(a), b=describe(b))
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise DotShapes(a=a.shape, b=b.shape)
    if a.dtype not in RESULTS or (a.dtype != b.dtype and not (a.dtype.is_fp8() and b.dtype.is_fp8())):
        raise DotTypes(a=show(a.dtype), b=show(b.dtype), hint=_dot_cast(a, b))


def _dot_cast(a: tensor, b: tensor) -> str:
    """How operands become ones that multiply: one cast to the type of the other, or both."""
    if b.dtype in RESULTS:
        return "cast one of them: `a.to(b.dtype)`"
    return "cast one of them: `b.to(a.dtype)`" if a.dtype in RESULTS else "cast both, for example `a.to(tl.float16)`"


def _result_type(a: tensor, acc: Any, out_dtype: Any) -> dtype:
    allowed = RESULTS[a.dtype]
    asked = None if unwrap(out_dtype) is None else element_dtype("dot", "out_dtype", out_dtype)
    if asked is None and acc is not None:
        asked = tile("dot", "acc", acc).dtype
    if asked is not None and asked not in allowed:
        what = "the accumulator" if unwrap(out_dtype) is None else "out_dtype"
        expected = " or ".join(map(show, allowed))
        raise DotResult(what=what, found=show(asked), operands=show(a.dtype), expected=expected)
    return asked or allowed[0]


def _accumulator(acc: Any, result: dtype, shape: tuple[int, ...]) -> tensor:
    given = tile("dot", "acc", acc)
    if given.dtype != result or given.shape != shape:
        expected = with_article(f"{show(result)} tile of shape {shape}")
        raise DotResult(
            what="the accumulator", found=describe(given), operands="these types and shapes", expected=expected
        )
    return given


def _precision(type_: dtype, input_precision: Any, allow_tf32: Any) -> str:
    if input_precision is not None and allow_tf32 is not None:
        raise DotPrecision()
    if allow_tf32 is not None:
        word: Any = "tf32" if flag("dot", "allow_tf32", allow_tf32) else "ieee"
    else:
        word = current_options().input_precision if input_precision is None else input_precision
    chosen = choice("dot", "input_precision", word.lower() if isinstance(word, str) else word, PRECISIONS)
    return chosen if type_ == float32 else "ieee"


def _imprecise(a: tensor, value: Any) -> int:
    if unwrap(value) is None:
        return 0
    count, k = integer("dot", "max_num_imprecise_acc", value), a.shape[-1]
    if not a.dtype.is_fp8() and count:
        raise DotImprecise(value=count, problem=f"with operands of {show(a.dtype)}", k=k)
    if not 0 <= count <= k:
        raise DotImprecise(value=count, problem="is out of range", k=k)
    return count
