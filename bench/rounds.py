"""Taking samples side by side, so that what disturbs a machine disturbs every contender alike.

>>> interleaved({"a": lambda: 1.0, "b": lambda: 2.0}, rounds=3, warm_up=1)
{'a': [1.0, 1.0, 1.0], 'b': [2.0, 2.0, 2.0]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

Sample = TypeVar("Sample")


def interleaved(takers: Mapping[str, Callable[[], Sample]], rounds: int, warm_up: int = 0) -> dict[str, list[Sample]]:
    """The samples of each contender, one a round; those of the first `warm_up` rounds are dropped.

    Every round has a turn of each, and begins with another one: drift and a neighbour's heat favour nobody.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in takers}
    names = list(takers)
    for turn in range(-warm_up, rounds):
        first = turn % len(names) if names else 0
        for name in names[first:] + names[:first]:
            sample = takers[name]()
            if turn >= 0:
                samples[name].append(sample)
    return samples
