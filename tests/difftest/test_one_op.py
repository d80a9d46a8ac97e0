"""Every op row: fuzzed cases run in the interpreter and from their text, and are checked by exact arithmetic."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.difftest import (
    STRATEGIES,
    CaseText,
    HypothesisChoices,
    RecordedChoices,
    examine,
    run_campaign,
)
from tilewright.lang import OPS, verify

EXAMPLES = 12
DEEP = 200
#: Programs that may fail may also all fail; everything else must mostly run to its end.
MAY_STOP = {"assert": 0.7, "load": 0.25, "store": 0.25, "atomic_load": 0.25, "atomic_store": 0.25, "for": 0.1}


def test_every_row_has_a_strategy() -> None:
    assert STRATEGIES.keys() == OPS.keys()


@pytest.mark.parametrize("row", STRATEGIES)
def test_a_row_means_what_it_says(row: str) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        case = STRATEGIES[row](HypothesisChoices(data))
        verify(case.module)
        level, _, problems = examine(case)
        assert not level, f"{level}: {problems}\n{CaseText.of(case)}"

    run()


@pytest.mark.parametrize("row", STRATEGIES)
def test_a_strategy_makes_cases_of_its_row(row: str) -> None:
    names = {operation.name for seed in range(3) for operation in STRATEGIES[row](RecordedChoices(seed)).module.walk()}
    assert row in names


@pytest.mark.slow
@pytest.mark.parametrize("row", STRATEGIES)
def test_a_campaign_finds_nothing(row: str) -> None:
    report = run_campaign(range(DEEP), [row])
    assert report.findings == [], report
    assert 1 - report.validity <= MAY_STOP.get(row, 0), report
