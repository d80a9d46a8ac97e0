"""Scopes and widths of strong accesses: whom they reach, and which accesses they leave out.

A strong access with a scope of one block (`cta`) or cluster is an ordinary one for the threads of others, and so is any
beside one to some of its bytes, or to more. How far an ordering reaches is the business of `messages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .access import GRID
from .shadow import ENGINE, SHIFT, STAMPS, THREAD, Clock, Records

if TYPE_CHECKING:
    from .access import Access
    from .frame import Frame


def left_out(
    frame: Frame, clock: Clock, access: Access, threads: NDArray[np.intp], records: Records
) -> NDArray[np.bool_]:
    """Which records are of threads that the access does not reach from the threads beside them, or the other way round,
    or of other widths.

    Whatever their scopes, two read-modify-writes are let pass: PTX does not, but languages (Triton's, ours) have scopes
    say how far an ordering reaches, and count on atomics to be indivisible between blocks whatever their scope.
    """
    if access.object:  # an mbarrier is indivisible for everybody
        return np.zeros(len(threads), np.bool_)
    spans = np.array((frame.threads, frame.threads * frame.cluster, 0))
    stamps, inverse = np.unique(records >> SHIFT & STAMPS, return_inverse=True)
    found = [clock.access(stamp) for stamp in stamps.tolist()]
    theirs = spans[np.array([other.reach for other in found], np.intp)][inverse]
    passes = np.array([access.updates and other.updates or other.object for other in found], np.bool_)[inverse]
    others = (records & THREAD) - frame.first * frame.threads
    apart = _apart(threads, others, spans[access.reach]) | _apart(threads, others, theirs)
    wide = np.array([of_other_width(access, other) for other in found], np.bool_)[inverse]
    return (apart & ~passes | wide) & (records < ENGINE)


def stores(clock: Clock, records: Records) -> NDArray[np.bool_]:
    """Which records are of accesses that only write."""
    stamps, inverse = np.unique(records >> SHIFT & STAMPS, return_inverse=True)
    found = [clock.access(stamp) for stamp in stamps.tolist()]
    return np.array([each.writes and not each.updates for each in found], np.bool_)[inverse]


def of_other_width(one: Access, other: Access) -> bool:
    """Whether strong accesses that meet do so in part only: they are aligned, so that it is enough to know the units.

    `volatile` ones are let pass: compilers read several numbers at once by them.
    """
    return one.unit != other.unit and one.unit > 0 < other.unit


def leaves_out(accesses: list[Access]) -> bool:
    """Whether any of a program's accesses may leave another one out."""
    return (
        any(access.reach < GRID and not access.object for access in accesses)
        or len({access.unit for access in accesses} - {0}) > 1
    )


def _apart(threads: NDArray[np.intp], others: Records, span: NDArray[Any]) -> NDArray[np.bool_]:
    """Which pairs are not in the same run of so many threads, none of them for a span of 0."""
    each = np.maximum(span, 1)
    return (span > 0) & (threads // each != others // each)
