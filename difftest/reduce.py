"""Smaller lists of decisions that still show the same fault: greedy, and blind to what the decisions mean.

Any list of integers is a case (`RecordedChoices.replay`), and smaller numbers and shorter lists make simpler ones. So
it is enough to leave out what belongs together, then runs of decisions, and to lower those that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

Decisions = tuple[int, ...]
#: Of a list that still shows the fault the decisions that were taken (moved into their ranges, none too many); or None.
Test = Callable[[Decisions], Decisions | None]
#: Which decisions of a list belong together, as (first, behind the last).
Spans = Callable[[Decisions], Sequence[tuple[int, int]]]
#: From a list to one that may be simpler.
Step = Callable[[Decisions], Decisions | None]


def reduce_decisions(drawn: Sequence[int], shows: Test, attempts: int = 300, spans: Spans = lambda _: ()) -> Decisions:
    """A simpler list that still shows the fault that `drawn` does; `shows` is asked `attempts` times at most.

    First whole spans are left out, which leaves the others what they are, then runs of any length.
    """
    best, tried = tuple(drawn), set[Decisions]()
    before: Decisions | None = None
    while best != before:
        before = best
        for step in chain(_without_spans(best, spans), _passes(best)):
            current = step(best)
            if current is None or current in tried or _order(current) >= _order(best):
                continue
            if len(tried) >= attempts:
                return best
            tried.add(current)
            if (taken := shows(current)) is not None:
                best = min(taken, current, key=_order)
    return best


def _without_spans(drawn: Decisions, spans: Spans) -> Iterator[Step]:
    """Leave out what belongs together, or put its simplest form there; from the end on, so that the rest stays put."""
    for start, end in sorted(spans(drawn), key=lambda span: (-span[0], span[1])):
        yield lambda best, start=start, end=end: _without(best, start, end - start)
        yield lambda best, start=start, end=end: _without(_with(best, start, 0) or best, start + 1, end - start - 1)


def _order(drawn: Decisions) -> tuple[int, Decisions]:
    """Shorter lists are simpler, of equally long ones those that are smaller where they first differ."""
    return len(drawn), drawn


def _passes(drawn: Decisions) -> Iterator[Step]:
    """The steps to try, from the coarse to the fine; each gets the best list so far."""
    size = len(drawn) // 2
    while size:
        for start in range(len(drawn) - size, -1, -size):
            yield lambda best, start=start, size=size: _without(best, start, size)
        size //= 2
    for at in range(len(drawn)):
        yield lambda best, at=at: _with(best, at, 0)
    for at in range(len(drawn)):
        yield lambda best, at=at: _with(best, at, best[at] // 2) if at < len(best) else None
        yield lambda best, at=at: _with(best, at, best[at] - 1) if at < len(best) else None


def _without(drawn: Decisions, start: int, size: int) -> Decisions | None:
    return drawn[:start] + drawn[start + size :] if start < len(drawn) else None


def _with(drawn: Decisions, at: int, value: int) -> Decisions | None:
    if at >= len(drawn) or not 0 <= value < drawn[at]:
        return None
    return (*drawn[:at], value, *drawn[at + 1 :])
