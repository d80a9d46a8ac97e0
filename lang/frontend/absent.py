"""Names that kernel authors look for in vain, and what to write instead: Python's own, and Triton's."""

from __future__ import annotations

_INDICES = "unroll over indices: `for i in tl.static_range(len(t))`"
_LIST = "use a list comprehension, which gives a tuple"
_TUPLE = "use a tuple or a named tuple"
_TEXT = "write the value itself, or format it inside of a @tilewright.constexpr_function"

#: What to do without a function of Python's that kernels lack.
BUILTIN_ADVICE: dict[str, str] = {
    "all": "reduce a tile by `tl.min(x)`, or join conditions by `and`",
    "any": "reduce a tile by `tl.reduce_or(x)`, or join conditions by `or`",
    "bin": _TEXT,
    "chr": _TEXT,
    "complex": "keep the real and the imaginary part in two tiles",
    "dict": _TUPLE,
    "divmod": "use `x // y` and `x % y`",
    "enumerate": _INDICES,
    "filter": _LIST,
    "format": "use an f-string of compile-time values",
    "frozenset": "use a tuple",
    "hex": _TEXT,
    "input": "pass it as a parameter",
    "iter": _INDICES,
    "map": _LIST,
    "next": _INDICES,
    "object": _TUPLE,
    "oct": _TEXT,
    "open": "read it on the host, and pass an array",
    "ord": _TEXT,
    "pow": "multiply, or write `tl.exp2(y * tl.log2(x))`; of constexprs `x**y`",
    "repr": _TEXT,
    "reversed": "unroll over indices: `for i in tl.static_range(len(t) - 1, -1, -1)`",
    "round": "write `tl.floor(x + 0.5)`",
    "set": "use a tuple",
    "setattr": "values do not change; make a new one",
    "slice": "write `t[a:b]`",
    "sorted": "sort compile-time values inside of a @tilewright.constexpr_function",
    "sum": "use `tl.sum(x, axis)` of a tile; add the parts of a tuple in a loop",
    "type": "use `x.dtype`, or `isinstance`",
    "zip": _INDICES,
}
#: What to do with any other Python code.
AT_COMPILE_TIME = "call it inside of a function decorated with @tilewright.constexpr_function, or on the host"

_DESCRIPTORS = "use pointers with masks, or `tl.make_block_ptr`"
_SCAN = "scan in a loop, or as a product of matrices with `tl.dot`"
_LIBDEVICE = "`tl` and `tl.math` have exp, exp2, log, log2, sqrt, rsqrt, sin, cos, tanh, erf, floor and ceil"

#: What to do without a function of Triton's that this version lacks.
TRITON_ADVICE: dict[str, str] = {
    "aggregate": _TUPLE,
    "associative_scan": _SCAN,
    "bitonic_merge": "",
    "cumprod": _SCAN,
    "cumsum": _SCAN,
    "dot_scaled": "scale the operands, and use `tl.dot`",
    "expect_zero": "",
    "extra": _LIBDEVICE,
    "flip": "load with reversed offsets",
    "gather": "store to memory, and load with the indices as offsets",
    "histogram": "count in memory with `tl.atomic_add`",
    "inline_asm_elementwise": "",
    "libdevice": _LIBDEVICE,
    "load_tensor_descriptor": _DESCRIPTORS,
    "make_tensor_descriptor": _DESCRIPTORS,
    "map_elementwise": "use `tl.where`",
    "sort": "",
    "store_tensor_descriptor": _DESCRIPTORS,
    "target_info": "",
    "tensor_descriptor": _DESCRIPTORS,
    "tensor_descriptor_type": _DESCRIPTORS,
    "topk": "find one after the other by `tl.max(x, axis, return_indices=True)`",
}
