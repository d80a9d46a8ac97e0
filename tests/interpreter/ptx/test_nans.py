"""Which NaNs come out, where it is not always the canonical one: as an H200 gave them."""

import numpy as np
import pytest

from tests.interpreter.ptx.programs import evaluate

A, B, C = 0x7FF8_0000_0000_0001, 0xFFF0_0000_0000_0002, 0x7FF0_0000_0000_0003
"""NaNs of f64, two of them signaling."""
QUIET_B, QUIET_C = 0xFFF8_0000_0000_0002, 0x7FF8_0000_0000_0003
ONE, INF, MINUS_INF, INVALID = 0x3FF << 52, 0x7FF << 52, 0xFFF << 52, 0xFFF8 << 48


@pytest.mark.parametrize(
    ("opcode", "operands", "want"),
    [
        ("add.f64", (A, B), QUIET_B), ("add.f64", (A, ONE), A), ("add.rz.f64", (INF, MINUS_INF), INVALID),
        ("sub.f64", (A, B), QUIET_B), ("sub.f64", (ONE, A), A), ("sub.f64", (INF, INF), INVALID),
        ("mul.f64", (C, A), A), ("mul.rm.f64", (0, INF), INVALID),
        ("fma.rn.f64", (A, B, C), QUIET_B), ("fma.rn.f64", (A, ONE, C), QUIET_C), ("fma.rp.f64", (A, ONE, ONE), A),
        ("fma.rn.f64", (0, INF, C), QUIET_C), ("div.rn.f64", (A, B), A), ("div.rn.f64", (0, 0), INVALID),
        ("sqrt.rn.f64", (B,), QUIET_B), ("sqrt.rn.f64", (ONE | 1 << 63,), INVALID), ("rcp.rn.f64", (C,), QUIET_C),
        ("min.f64", (A, C), QUIET_C), ("min.f64", (A, ONE), ONE), ("max.f64", (C, A), A),
        ("neg.f64", (C,), QUIET_C), ("abs.f64", (B,), QUIET_B), ("cvt.rni.f64.f64", (B,), QUIET_B),
        ("cvt.f64.f64", (B,), B),
    ],
)  # fmt: skip
def test_a_nan_of_f64_is_that_of_an_operand_made_quiet(opcode: str, operands: tuple[int, ...], want: int) -> None:
    columns = [np.array([x], np.uint64) for x in operands]
    names = ", ".join(f"%a{n}" for n in range(len(columns)))
    (got,) = evaluate(f"{opcode} %d0, {names};", *columns, results=[np.uint64])
    assert f"{int(got[0]):x}" == f"{want:x}"


@pytest.mark.parametrize(
    ("types", "source", "want"),
    [
        ("f64.f32", np.uint32(0xFF80_0001), np.uint64(0xFFF8_0000_2000_0000)),
        ("ftz.f64.f32", np.uint32(0xFF80_0001), np.uint64(0x7FFF_FFFF_E000_0000)),
        ("f64.f16", np.uint16(0xFC01), np.uint64(0xFFF8_0400_0000_0000)),
        ("rn.f32.f64", np.uint64(0xFFF1_2345_6789_ABCD), np.uint32(0xFFC9_1A2B)),
        ("rz.f16.f64", np.uint64(0x7FF1_2345_6789_ABCD), np.uint16(0x7E48)),
        ("rn.bf16.f64", np.uint64(0x7FF1_2345_6789_ABCD), np.uint16(0x7FC9)),
        ("f32.bf16", np.uint16(0xFF81), np.uint32(0xFF81_0000)),
        ("f32.f16", np.uint16(0xFC01), np.uint32(0x7FFF_FFFF)),
        ("f16.f16", np.uint16(0xFC01), np.uint16(0x7FFF)),
        ("rna.satfinite.tf32.f32", np.uint32(0x7FC0_0000), np.uint32(0x7FBF_E000)),
    ],
)
def test_conversions_keep_what_fits_of_a_nan(types: str, source: np.generic, want: np.generic) -> None:
    (got,) = evaluate(f"cvt.{types} %d0, %a0;", np.array([source]), results=[want.dtype])
    assert f"{int(got[0]):x}" == f"{int(want):x}"
