"""A whole product of matrices by ldmatrix and mma, bit by bit, in both arithmetics."""

from typing import Literal

import numpy as np
import pytest

from tests.interpreter.ptx.matmul import matmul
from tilewright.interpreter import Buffer, Options
from tilewright.interpreter.numerics import dot
from tilewright.interpreter.ptx import load_ptx, run_ptx
from tilewright.interpreter.ptx.tensor_cores import multiply, unit_of
from tilewright.interpreter.ptx.types import TYPES


@pytest.mark.parametrize("chunk_bytes", [1 << 21, 1 << 13])
@pytest.mark.parametrize("mode", ["exact", "hardware"])
def test_product_of_matrices(mode: Literal["exact", "hardware"], chunk_bytes: int) -> None:
    """Each instruction adds 16 products; blocks together or one after the other give the same."""
    rng = np.random.default_rng(0)
    n, kernel = 128, matmul(128)
    a, b = (rng.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    c, want = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
    buffers = [Buffer.of(name, x) for name, x in zip("abc", (a, b, c), strict=True)]
    options = Options(mma=mode, chunk_bytes=chunk_bytes)
    counters = run_ptx(load_ptx(kernel.text), "k", (kernel.grid,), (kernel.block,), buffers, options)
    unit = unit_of(90, TYPES["f16"], "f32")
    for first in range(0, n, 16):
        part = slice(first, first + 16)
        if mode == "exact":
            want = dot(a[:, part], b[part], want, "f16")
        else:
            want = multiply(unit, a[None, :, part], b[None, part], want[None], ("f16", "f16"), "f32")[0]
    assert (c.view(np.uint32) == want.view(np.uint32)).all()
    assert counters.warps["mma"] == n**3 // (16 * 8 * 16)
