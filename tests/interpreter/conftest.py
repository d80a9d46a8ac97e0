"""Every test draws the same numbers, whichever ran before it."""

import pytest

from tests.interpreter import oracles

START = oracles.RNG.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    oracles.RNG.bit_generator.state = START
