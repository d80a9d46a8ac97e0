"""Element-by-element work in blocks that fit the second-level cache, so that temporaries never reach memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

Kernel = Callable[..., None]
"""(out, *operands): fills `out` element by element."""

BLOCK = 1 << 16
"""Elements worked on at a time: large enough to hide the cost of a call, small enough for a handful of temporaries."""


def by_blocks(kernel: Kernel, operands: tuple[Array, ...], dtype: np.dtype[Any] | type[Any]) -> Array:
    """A new array of the operands' broadcast shape, filled by `kernel(out, *operands)` block by block.

    The kernel gets arrays of at least one axis that broadcast to the shape of its `out`, which is contiguous. It must
    work element by element. Operands of one shape are cut anywhere; those that broadcast along the first axis alone.
    """
    shape = operands[0].shape
    alike = all(x.shape == shape for x in operands)
    result = np.empty(shape if alike else np.broadcast_shapes(*(x.shape for x in operands)), dtype)
    parts, out = operands, result
    if not result.ndim or (alike and result.ndim > 1 and all(x.flags.c_contiguous for x in operands)):
        parts, out = tuple(x.reshape(-1) for x in operands), result.reshape(-1)
    if result.size <= BLOCK:
        kernel(out, *parts)
        return result
    rows = max(1, BLOCK // (out.size // len(out)))
    repeated = [x.ndim < out.ndim or x.shape[0] == 1 for x in parts]
    for start in range(0, len(out), rows):
        part = slice(start, start + rows)
        kernel(out[part], *(x if whole else x[part] for x, whole in zip(parts, repeated, strict=True)))
    return result
