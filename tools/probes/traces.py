"""Where the numbered pieces of a copy came from, told in a few words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .copies import Copy

Array = NDArray[Any]

PIECE = 16
"""Bytes of a piece, which a copy moves as a whole."""
_RUNS = 40
"""How many runs of pieces are told."""
_FILLS = {0: "zeros", 0x7FF7_7FF7: "nans"}


def trace(copy: Copy, left: Array, before: Array) -> str:
    """What one box has left, beside what was there: of each run of pieces that were written, where it lies, and where
    its first piece came from, how far the next ones are apart there, and how many there are.

    Places are in bytes from where the box starts in shared memory, and from where the array does.
    """
    loads = "load" in copy.action
    to, origin = (copy.start, 0) if loads else (0, copy.start)
    words, kept = (x[: len(x) // PIECE * PIECE].view(np.uint32).reshape(-1, PIECE // 4) for x in (left, before))
    runs: list[list[Any]] = []
    for piece in np.flatnonzero((words != kept).any(1)).tolist():
        place, source = piece * PIECE - to, _source(words[piece], origin)
        last = runs[-1] if runs else None
        if last is not None and place == last[0] + PIECE * last[3] and _follows(last, source):
            last[3] += 1
        else:
            runs.append([place, source, None, 1])
    told = [f"@{place} {source}{'' if step is None else f'{step:+}'}x{count}" for place, source, step, count in runs]
    return " ".join(told[:_RUNS]) + (f" and {len(told) - _RUNS} more" if len(told) > _RUNS else "")


def _source(words: Array, origin: int) -> int | str:
    """Where a piece came from, or what it is instead."""
    first = int(words[0])
    if (words == first).all() and first in _FILLS:
        return _FILLS[first]
    if (words == first + np.arange(PIECE // 4, dtype=np.uint32)).all():
        return (first & 0xFFF_FFFF) * 4 - origin
    return words.astype("<u4").tobytes().hex()


def _follows(run: list[Any], source: int | str) -> bool:
    """Whether a source goes on with a run, whose step it sets if it is the second of it."""
    _, first, step, count = run
    if isinstance(first, str) or isinstance(source, str):
        return first == source
    if step is None:
        run[2] = source - first
    return source == first + run[2] * count
