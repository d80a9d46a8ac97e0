"""The numbers of the language, bit by bit: pure functions on NumPy arrays, with no IR in sight.

Arrays are *storage*: np.bool_ for i1, np.int8 to np.int64 for signless integers, np.float16/32/64, the `ml_dtypes` type
for bf16 and the 8-bit formats, and np.uint8 for f8e4m3b15. Formats are named by strings ("f16", "bf16", "f32", ...);
`FORMATS` describes them. Every float result is the real result rounded once to its format (8-bit formats: the f32
result, cast), independent of the CPU, of NumPy's vector code and of the BLAS. The modules state the rules:

- `casts`: conversions between formats and to and from integers;
- `elementwise`: + - * / fma sqrt, remainders, minima and maxima, comparisons;
- `functions`: exp, log, sin and the like (`multiprecision` decides the hard cases);
- `sums`, `dots`: sums along an axis and matrix products (`factors`: bounds of their operands);
- `integers`: division, shifts and high products without undefined cases.
"""

from .casts import cast, decode, float_to_int, int_to_float, round_tf32, round_to
from .dots import dot, dot_int
from .elementwise import (
    abs_,
    add,
    ceil,
    compare,
    div,
    floor,
    fma,
    maximum,
    maxnum,
    minimum,
    minnum,
    mul,
    neg,
    rem,
    sqrt,
    sub,
)
from .formats import FORMATS, FloatFormat
from .functions import cos, erf, exp, exp2, log, log2, rsqrt, sin, tanh
from .integers import (
    div_s,
    div_u,
    max_s,
    max_u,
    min_s,
    min_u,
    mulhi_s,
    mulhi_u,
    rem_s,
    rem_u,
    shl,
    shr_s,
    shr_u,
)
from .sums import sum_along

__all__ = [
    "FORMATS",
    "FloatFormat",
    "abs_",
    "add",
    "cast",
    "ceil",
    "compare",
    "cos",
    "decode",
    "div",
    "div_s",
    "div_u",
    "dot",
    "dot_int",
    "erf",
    "exp",
    "exp2",
    "float_to_int",
    "floor",
    "fma",
    "int_to_float",
    "log",
    "log2",
    "max_s",
    "max_u",
    "maximum",
    "maxnum",
    "min_s",
    "min_u",
    "minimum",
    "minnum",
    "mul",
    "mulhi_s",
    "mulhi_u",
    "neg",
    "rem",
    "rem_s",
    "rem_u",
    "round_tf32",
    "round_to",
    "rsqrt",
    "shl",
    "shr_s",
    "shr_u",
    "sin",
    "sqrt",
    "sub",
    "sum_along",
    "tanh",
]
