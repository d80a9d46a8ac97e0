"""Compiled functions of one float at the points that are hard for them, by their contracts; and what they are made of:
the polynomials, and the digits of pi."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from tests.compiler.emulated import run_emulated
from tilewright.compiler.lower import math, math_f64, trigonometry
from tilewright.difftest import Case, check
from tilewright.lang import F32, F64, FloatType, parse_module
from tools.coefficients import FITS, lost_bits

Array = np.ndarray[Any, Any]
ROWS = ("sin", "cos", "tanh", "erf", "exp", "exp2", "log", "log2", "rsqrt")
#: Where the lowerings change their way.
EDGES = (0.625, 0.75, 0.9, 1.0, 4.0, 6.0, 10.0, 20.0, 88.7, 709.7, 2.0**16, 2.0**30)
#: The f64 and the f32 whose rests by quarter turns are the smallest of all (J.-M. Muller, "Elementary Functions").
NEAREST = (6381956970095103 * 2.0**797, 16367173 * 2.0**72)
EXTENT = 128


def hard_points(format_: FloatType, count: int, seed: int) -> Array:
    """Numbers of all sizes and signs, close to multiples of pi/2, to edges, to 0 and 1, and the special ones."""
    draw = np.random.default_rng(seed)
    dtype, bits = (np.float32, np.uint32) if format_ == F32 else (np.float64, np.uint64)
    raw = draw.integers(0, 1 << format_.width, count, np.uint64).astype(bits).view(dtype)
    turns = np.concatenate([np.arange(1, 40), draw.integers(1, 2**15, count), draw.integers(1, 2**29, count)])
    with np.errstate(over="ignore"):
        points = np.concatenate([turns * (np.pi / 2), EDGES, NEAREST, draw.uniform(0, 25, count)]).astype(dtype)
    beside = [np.nextafter(points, dtype(0)), points, np.nextafter(points, dtype(np.inf))]
    special = np.array([0.0, 1.0, np.inf, np.nan, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal], dtype)
    values = np.concatenate([raw, *beside, special])
    values = np.concatenate([values, -values])
    return np.resize(values, (-(-len(values) // EXTENT), EXTENT))


def problems(row: str, format_: FloatType, count: int, seed: int, target: str) -> list[str]:
    """What the contract does not allow."""
    kind = f"tile<{EXTENT}x{format_}>"
    module = parse_module(
        f"module {{\nkernel @unused() {{ return }}\n"
        f"func @f(%a: {kind}) -> ({kind}) {{\n%r = {row} %a : {kind}\nreturn %r\n}}\n}}"
    )
    case = Case(row, module, (hard_points(format_, count, seed),), function="f")
    return [str(each) for each in check(case, run_emulated(case, target, 2), strict=False)]


@pytest.mark.parametrize("format_", [F32, F64], ids=str)
@pytest.mark.parametrize("row", ROWS)
def test_functions_keep_their_contracts_at_hard_points(row: str, format_: FloatType) -> None:
    assert problems(row, format_, 40, 1, "sm_90a") == []


@pytest.mark.slow
@pytest.mark.parametrize("format_", [F32, F64], ids=str)
@pytest.mark.parametrize("row", ROWS)
def test_functions_keep_their_contracts_at_many_points(row: str, format_: FloatType) -> None:
    assert problems(row, format_, 400, 2, "sm_80") == []


#: The coefficients in use, by the name of the fit that they are.
USED = {
    "f32 EXP": math.EXP[2:],
    "f32 TANH": math.TANH,
    "f32 ERF_SMALL": math.ERF_SMALL,
    "f32 ERF_LARGE": math.ERF_LARGE,
    "f32 SIN": trigonometry.SIN,
    "f32 COS": trigonometry.COS,
    "f64 SIN": trigonometry.SIN_F64,
    "f64 COS": trigonometry.COS_F64,
    "f64 TANH": math_f64.TANH,
    "f64 ERF_SMALL": math_f64.ERF_SMALL,
    "f64 ERF_LARGE": math_f64.ERF_LARGE,
}


@pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit.name.replace(" ", "_"))
def test_the_polynomials_in_use_are_as_close_as_said(fit: Any) -> None:
    coefficients = USED[fit.name]
    assert len(coefficients) == fit.terms
    if fit.format == "f32":
        assert [float(np.float32(c)) for c in coefficients] == list(coefficients)
    assert lost_bits(fit, coefficients) >= fit.bits


def test_every_fit_is_in_use() -> None:
    assert {fit.name for fit in FITS} == set(USED)


def test_the_digits_of_pi_are_right() -> None:
    with mpmath.workprec(1400):
        assert trigonometry.TWO_OVER_PI == int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** 1216))
        words = (0, *(trigonometry.TWO_OVER_PI >> 64 * (18 - i) & 0xFFFF_FFFF_FFFF_FFFF for i in range(19)))
        assert words == trigonometry.WORDS
        for name, dtype in (("f32", np.float32), ("f64", np.float64)):
            left = mpmath.pi / 2
            for part in trigonometry.HALF_PI[name]:
                assert part == float(dtype(float(left)))
                left -= mpmath.mpf(part)
