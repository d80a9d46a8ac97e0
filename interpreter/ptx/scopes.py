"""Scopes of strong accesses and fences: whom they reach, and which accesses they leave out.

A strong access with a scope of one block (`cta`) or cluster is an ordinary one for the threads of others. How far an
ordering reaches is the business of `messages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .shadow import ENGINE, SHIFT, STAMPS, THREAD, Clock, Records

if TYPE_CHECKING:
    from .access import Access
    from .frame import Frame


def left_out(
    frame: Frame, clock: Clock, access: Access, threads: NDArray[np.intp], records: Records
) -> NDArray[np.bool_]:
    """Which records are of threads that the access does not reach from the threads beside them, or the other way round.

    Two read-modify-writes are let pass: PTX does not, but languages (Triton's, ours) have scopes say how far an
    ordering reaches, and count on atomics to be indivisible between blocks whatever their scope.
    """
    spans = np.array((frame.threads, frame.threads * frame.cluster, 0))
    stamps, inverse = np.unique(records >> SHIFT & STAMPS, return_inverse=True)
    found = [clock.access(stamp) for stamp in stamps.tolist()]
    theirs = spans[np.array([other.reach for other in found], np.intp)][inverse]
    passes = np.array([access.updates and other.updates for other in found], np.bool_)[inverse]
    others = (records & THREAD) - frame.first * frame.threads
    apart = _apart(threads, others, spans[access.reach]) | _apart(threads, others, theirs)
    return apart & ~passes & (records < ENGINE)


def _apart(threads: NDArray[np.intp], others: Records, span: NDArray[Any]) -> NDArray[np.bool_]:
    """Which pairs are not in the same run of so many threads, none of them for a span of 0."""
    each = np.maximum(span, 1)
    return (span > 0) & (threads // each != others // each)
