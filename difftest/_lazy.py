"""The late imports of this room: hypothesis, which only its back end of `Choices` needs."""

from __future__ import annotations

from types import ModuleType


def hypothesis_strategies() -> ModuleType:
    """The module `hypothesis.strategies`. Raises ImportError where the extra `difftest` is not installed."""
    import hypothesis.strategies

    return hypothesis.strategies
