"""`Bounded`, which judges the demo and the benchmarks: right results lie inside, slightly wrong ones do not."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tilewright.interpreter import Bounded
from tilewright.interpreter.bounded import allowed, floor_of, unit
from tilewright.lang import BF16, F16, F32, F64, OPS, Ulp

MODERATE = st.floats(-1e6, 1e6, width=32)
TILES = hnp.arrays(np.float32, (6,), elements=MODERATE)
NONZERO = hnp.arrays(np.float32, (6,), elements=MODERATE.filter(lambda x: abs(x) > 1e-3))
RNG = np.random.default_rng(5)


def exact(x: Any) -> Bounded:
    return Bounded.exact(x, F32)


@given(TILES, TILES)
def test_rounded_sums_differences_and_products_lie_inside(a: Any, b: Any) -> None:
    assert (exact(a) + exact(b)).utilisation(a + b) <= 1
    assert (exact(a) - exact(b)).utilisation(a - b) <= 1
    assert (exact(a) * exact(b)).utilisation(a * b) <= 1


@given(TILES, NONZERO, TILES)
def test_chains_lie_inside_fused_or_not(a: Any, b: Any, c: Any) -> None:
    chain = exact(a) * exact(b) + exact(c)
    assert chain.utilisation(a * b + c) <= 1
    fused = [
        np.float32(float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert chain.utilisation(np.array(fused)) <= 1
    assert (exact(a) / exact(b)).utilisation(a / b) <= 1


@pytest.mark.parametrize("fmt, step", [(F32, 2.0**-23), (F16, 2.0**-10), (BF16, 2.0**-7)])
def test_the_bound_of_one_rounding_is_half_a_unit(fmt: Any, step: float) -> None:
    one = Bounded.exact([1.5], fmt) + Bounded.exact([0.0], fmt)
    assert one.utilisation([1.5 + 0.37 * step]) <= 1 < one.utilisation([1.5 + step])
    assert unit(fmt) == step / 2


def test_subnormals_are_held_to_the_smallest_number() -> None:
    smallest = 2.0**-149
    product = exact([2.0**-100]) * exact([2.0**-49.0])
    assert floor_of(F32) == smallest / 2
    assert product.utilisation([smallest]) <= 1 < product.utilisation([3 * smallest])


@pytest.mark.parametrize("name, function", [("exp", np.exp), ("exp2", np.exp2), ("sqrt", np.sqrt)])
def test_functions_allow_their_contract_and_little_more(name: str, function: Callable[..., Any]) -> None:
    x = RNG.uniform(0.1, 20.0, 400).astype(np.float32)
    bound: Bounded = getattr(exact(x), name)()
    real = function(x.astype(np.float64))
    contract = OPS[name].contracts
    assert contract is not None and isinstance(contract.of(F32), Ulp)
    units = contract.of(F32)
    ulp = np.spacing(real.astype(np.float32)).astype(np.float64)
    limit = (units.units + units.growth * x) * ulp  # type: ignore[union-attr]
    assert bound.utilisation(real + limit) <= 1
    # An ulp is between u and 2u of the value, so the bound is at most twice as wide, and half an ulp of rounding.
    assert all(bound[i].utilisation(real[i] + 2 * limit[i] + 1.5 * ulp[i]) > 1 for i in range(len(x)))


@pytest.mark.parametrize("length", [1, 7, 64, 1000])
def test_sums_in_any_order_lie_inside_and_a_lost_term_does_not(length: int) -> None:
    x = RNG.standard_normal((4, length)).astype(np.float32)
    bound = exact(x).sum(1)
    for order in (x, x[:, ::-1], np.sort(x, axis=1)):
        total = np.zeros(4, np.float32)
        for column in order.T:
            total = total + column
        assert bound.utilisation(total) <= 1
    assert bound.utilisation(x[:, 1:].sum(1, dtype=np.float64)) > 1


@pytest.mark.parametrize("fmt", [F16, BF16])
def test_products_by_matrix_units_lie_inside_and_a_lost_term_does_not(fmt: Any) -> None:
    a, b = RNG.standard_normal((2, 16, 64)).astype(np.float16)
    c = RNG.standard_normal((16, 16)).astype(np.float32)
    bound = Bounded.exact(a, fmt).dot(Bounded.exact(b.T, fmt), exact(c))
    real = c + a.astype(np.float64) @ b.T.astype(np.float64)
    assert bound.utilisation(real.astype(np.float32)) <= 1
    truncated = c.copy()
    for k in range(0, 64, 16):  # blocks of 16, each cut toward zero
        block = truncated + a[:, k : k + 16].astype(np.float64) @ b.T[k : k + 16].astype(np.float64)
        near = block.astype(np.float32)
        truncated = np.where(np.abs(near) > np.abs(block), np.nextafter(near, np.float32(0)), near)
    assert bound.utilisation(truncated) <= 1
    assert bound.utilisation(c + a[:, 1:].astype(np.float64) @ b.T[1:].astype(np.float64)) > 1
    # Not wider than a few hundred units of the accumulator on terms of this size.
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.T.astype(np.float64)) + np.abs(c)
    assert (bound.error < 512 * unit(F32) * sizes).all()


def test_casts_widen_exactly_and_round_once() -> None:
    x = Bounded.exact([1 / 3], F64)
    assert x.cast(F64).error[0] == 0 == Bounded.exact([0.5], F16).cast(F32).error[0]
    assert (
        x.cast(F16).utilisation(np.float16(1 / 3)) <= 1 < x.cast(F16).utilisation(np.float16(1 / 3) * np.float16(1.002))
    )


def test_choices_and_maxima_keep_the_errors_of_what_they_choose() -> None:
    a, b = (
        Bounded(np.array([1.0, 5.0]), np.array([0.1, 0.2]), F32),
        Bounded(np.array([2.0, 3.0]), np.array([0.3, 0.0]), F32),
    )
    assert a.maximum(b).value.tolist() == [2.0, 5.0] and a.maximum(b).error.tolist() == [0.3, 0.2]
    assert a.where(np.array([True, False]), b).error.tolist() == [0.1, 0.0]
    assert a.max(0).value == 5.0 and a.max(0).error == 0.2


def test_a_nan_or_infinity_is_right_only_if_it_is_wanted() -> None:
    bound = Bounded(np.array([1.0, np.inf, np.nan]), np.array([1e-6, 0.0, 0.0]), F32)
    assert bound.utilisation([1.0, np.inf, np.nan]) == 0
    for wrong in ([np.nan, np.inf, np.nan], [1.0, -np.inf, np.nan], [1.0, np.inf, 2.0], [np.inf, np.inf, np.nan]):
        assert bound.utilisation(wrong) > 1


def test_contracts_that_bound_no_single_rounding_are_refused() -> None:
    with pytest.raises(ValueError, match="is no bound on one rounding"):
        allowed("reduce_add_f", np.ones(1), F32)
