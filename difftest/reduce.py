"""Smaller lists of decisions that still show the same fault: greedy, and blind to what the decisions mean.

Any list of integers is a case (`RecordedChoices.replay`), and smaller numbers and shorter lists make simpler ones. So
it is enough to leave out runs of decisions, long ones first, and to lower those that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

Decisions = tuple[int, ...]
#: Of a list that still shows the fault the decisions that were taken (moved into their ranges, none too many); or None.
Test = Callable[[Decisions], Decisions | None]


def reduce_decisions(drawn: Sequence[int], shows: Test, attempts: int = 300) -> Decisions:
    """A simpler list that still shows the fault that `drawn` does; `shows` is asked `attempts` times at most."""
    best, left = tuple(drawn), attempts
    while left > 0:
        before = best
        for candidate in _passes(best):
            current = candidate(best)
            if current is None or _order(current) >= _order(best):
                continue
            left -= 1
            if (taken := shows(current)) is not None:
                best = min(taken, current, key=_order)
            if left <= 0:
                return best
        if best == before:
            return best
    return best


def _order(drawn: Decisions) -> tuple[int, Decisions]:
    """Shorter lists are simpler, of equally long ones those that are smaller where they first differ."""
    return len(drawn), drawn


def _passes(drawn: Decisions) -> Iterator[Callable[[Decisions], Decisions | None]]:
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
