"""Arithmetic of narrow operands with an f32 one, which LLVM emits for sm_100 and later."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.interpreter import Buffer, load_ptx, run_ptx

TEXT = """.version 8.8
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .b16 %h<4>;
    .reg .f32 %f<6>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    ld.global.b16 %h1, [%rd1];
    ld.global.f32 %f1, [%rd1+4];
    add.rn.f32.{narrow} %f2, %h1, %f1;
    sub.f32.{narrow} %f3, %h1, %f1;
    fma.rn.f32.{narrow} %f4, %h1, %h1, %f1;
    st.global.f32 [%rd1+8], %f2;
    st.global.f32 [%rd1+12], %f3;
    st.global.f32 [%rd1+16], %f4;
    ret;
}}
"""


@pytest.mark.parametrize("narrow, dtype", [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize(
    "a, c", [(1.5, 0.25), (3.140625, 1e-7), (-0.0, 0.0), (float("inf"), 1.0), (2.0**-14, -(2.0**-28))]
)
def test_sums_and_products_are_rounded_once(narrow: str, dtype: Any, a: float, c: float) -> None:
    words = np.zeros(5, np.float32)
    words[:1].view(dtype)[0] = a
    words[1] = c
    run_ptx(load_ptx(TEXT.format(narrow=narrow)), "k", (1, 1, 1), (1, 1, 1), [Buffer.of("p", words)])
    wide = np.float64(np.asarray(a, dtype).astype(np.float64))
    full = np.float64(np.float32(c))
    wanted = np.array([wide + full, wide - full, wide * wide + full]).astype(np.float32)
    assert words[2:].tobytes() == wanted.tobytes()
