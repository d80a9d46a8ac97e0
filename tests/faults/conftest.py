"""Where each kernel of a report runs: in the reference, as PTX of two targets, and on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.levels import COMPILED, DEEP, GPU, INTERPRETER, Level
from tilewright.lang import knobs

EVERY = [
    *(pytest.param(each, id=each.name) for each in (INTERPRETER, *COMPILED)),
    *(pytest.param(each, id=each.name, marks=pytest.mark.slow) for each in DEEP),
    *(pytest.param(each, id=each.name, marks=pytest.mark.gpu) for each in GPU),
]


@pytest.fixture(params=EVERY)
def level(request: pytest.FixtureRequest) -> Iterator[Level]:
    """Each place in turn. Nothing is kept on disk, so that what is tested is what the compiler makes now."""
    with knobs.scope(cache_max_bytes=0):
        yield request.param


@pytest.fixture(params=EVERY[1:])
def compiled(request: pytest.FixtureRequest) -> Iterator[Level]:
    """The places that run compiled code."""
    with knobs.scope(cache_max_bytes=0):
        yield request.param


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a GPU everything runs: what is `slow` is so in an emulator."""
    for item in items:
        if item.get_closest_marker("gpu") and Path(__file__).parent in item.path.parents:
            item.own_markers = [mark for mark in item.own_markers if mark.name != "slow"]
