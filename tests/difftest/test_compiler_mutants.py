"""The harness catches a wrong compiler: each seeded fault shows within a few kernels, and at the pass that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.difftest.mutants import MUTANTS, Mutant, hunt

ROOT = Path(__file__).parent.parent.parent
#: Faults that nearly every kernel shows, one of each kind; the others take longer.
QUICK = (
    "inline: arguments the wrong way round",
    "axis: any mask is constant along a vector",
    "lower: stores without their mask",
)
#: How many kernels a quick one may take.
FEW = 40


def caught(mutant: Mutant, kernels: int) -> None:
    row, count = hunt(mutant, 0, kernels)
    assert row is not None, f"{mutant.name}: {count} kernels agreed at every level"
    assert row.level.startswith(mutant.level), (mutant.name, row.level, row.problems)


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_shows_where_it_is(name: str) -> None:
    caught(MUTANTS[name], FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in QUICK])
def test_every_fault_shows_where_it_is(name: str) -> None:
    caught(MUTANTS[name], MUTANTS[name].within)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_has_its_place_in_the_compiler(name: str) -> None:
    mutant = MUTANTS[name]
    assert (ROOT / "compiler" / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new


def test_a_fault_without_a_place_is_told() -> None:
    lost = Mutant("nowhere", "passes/cse.py", "no such text", "", "pass cse")
    with pytest.raises(RuntimeError, match="has 0 times: no such text"):
        hunt(lost, 0, 1)
