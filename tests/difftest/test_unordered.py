"""The judge of atomics that meet: what hardware may do and the reference does not."""

from dataclasses import replace

import numpy as np

from tilewright.difftest import LEVELS, STRATEGIES, Case, RecordedChoices, check
from tilewright.lang import F64


def is_sum(case: Case) -> bool:
    adds = any(each.attributes.get("kind") == "add_f" for each in case.module.walk())
    return adds and case.elements[0] == F64 and not LEVELS["ttir"](case).stopped


def test_sums_that_meet_in_a_nan_are_explained_whatever_its_bits() -> None:
    """Hardware makes a NaN with a sign where the reference makes one without."""
    cases = (STRATEGIES["atomic_rmw"](RecordedChoices(seed)) for seed in range(1000))
    case = next(filter(is_sum, cases))
    case = replace(case, arguments=(np.full_like(case.arguments[0], np.nan), *case.arguments[1:]))
    outcome = LEVELS["ttir"](case)
    assert check(case, outcome, strict=False) == []
    assert any(np.isnan(result).any() for result in outcome.results if result.dtype == np.float64)
    for result in outcome.results:
        if result.dtype == np.float64:
            result[np.isnan(result)] = -np.nan
    assert check(case, outcome, strict=False) == []
    outcome.results[0][...] = 1.0
    assert check(case, outcome, strict=False) != []
