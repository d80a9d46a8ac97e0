"""The decisions that make a test case, behind one small interface with two back ends.

Whoever generates a case draws every decision from a `Choices`: the case is a function of them. All decisions come
down to one primitive, an integer in a range, in which the low end is the simplest. `HypothesisChoices` lets
hypothesis draw and shrink; `RecordedChoices` draws from a generator of our own, so that a seed means the same case on
every machine and in every version of Python and NumPy, and keeps the list of what it drew, from which `replay` makes
the case again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TypeVar

from ._lazy import hypothesis_strategies

T = TypeVar("T")
_WORD = 1 << 64


class SplitMix64:
    """The generator of Steele, Lea and Flood (OOPSLA 2014): 64 bits of state, 64 bits a step, the same everywhere."""

    __slots__ = ("state",)

    def __init__(self, seed: int) -> None:
        self.state = seed % _WORD

    def next(self) -> int:
        """The next 64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) % _WORD
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % _WORD
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """An integer in [0, bound), each with a probability within 2**-64 of 1 / bound. `bound` is at least 1."""
        bits = bound.bit_length() + 64
        drawn = 0
        for _ in range(0, bits, 64):
            drawn = drawn << 64 | self.next()
        return drawn % bound

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 cases."""
        return self.below(100) < percent


class Choices(ABC):
    """A source of decisions. The low end of a range, `False` and the first of a sequence are the simplest."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""

    def boolean(self, percent: int = 50) -> bool:
        """True in about `percent` of 100 cases."""
        return self.integer(0, 99) >= 100 - percent

    def sample(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[self.integer(0, len(options) - 1)]

    def weighted(self, options: Sequence[tuple[T, int]]) -> T:
        """One of the options, given with their positive weights."""
        at = self.integer(0, sum(weight for _, weight in options) - 1)
        for option, weight in options:
            if at < weight:
                return option
            at -= weight
        raise AssertionError("the weights add up to more than was drawn")

    def repeat(self, most: int, percent: int) -> Iterator[int]:
        """Numbers from 0: as long as it comes out true with a probability of `percent`, and `most` at most.

        Each round is a decision of its own, so that what is drawn in it can be left out for itself (`span`).
        """
        for number in range(most):
            with self.span():
                if not self.boolean(percent):
                    return
                yield number

    def span(self) -> AbstractContextManager[None]:
        """Decisions drawn while this is open belong together: 0 for the first and none of the others is simplest."""
        return nullcontext()

    def permutation(self, count: int) -> tuple[int, ...]:
        """An order of the numbers below `count`."""
        left = list(range(count))
        return tuple(left.pop(self.integer(0, len(left) - 1)) for _ in range(count))

    def stream(self) -> SplitMix64:
        """A generator for bulk data, from one decision."""
        return SplitMix64(self.integer(0, _WORD - 1))


class _Drawing(Protocol):
    """What hypothesis gives to a test that asks for `st.data()`."""

    def draw(self, strategy: object) -> int: ...


class HypothesisChoices(Choices):
    """Decisions drawn by hypothesis, from the object that `st.data()` gives a test."""

    def __init__(self, data: _Drawing) -> None:
        self._data = data
        self._integers = hypothesis_strategies().integers

    def integer(self, low: int, high: int) -> int:
        return low if low == high else self._data.draw(self._integers(low, high))


class RecordedChoices(Choices):
    """Decisions from a seed, kept in `drawn`; or, by `replay`, those of a list."""

    def __init__(self, seed: int = 0) -> None:
        self._source = SplitMix64(seed)
        self._given: Sequence[int] | None = None
        self.drawn: list[int] = []
        #: Which decisions belong together: from the first to behind the last.
        self.spans: list[tuple[int, int]] = []

    @classmethod
    def replay(cls, drawn: Sequence[int]) -> RecordedChoices:
        """The decisions of a list: each moved into the range asked for, and the low end when the list has ended.

        So any list of integers is a case, and one that was recorded gives the same case again.
        """
        choices = cls()
        choices._given = tuple(drawn)
        return choices

    @contextmanager
    def span(self) -> Generator[None]:
        start = len(self.drawn)
        try:
            yield
        finally:
            self.spans.append((start, len(self.drawn)))

    def integer(self, low: int, high: int) -> int:
        if self._given is None:
            value = low + self._source.below(high - low + 1)
        else:
            at = len(self.drawn)
            value = min(max(self._given[at], low), high) if at < len(self._given) else low
        self.drawn.append(value)
        return value
