"""Local memory, which has nothing to do with other threads: which of its bytes hold no value that was written.

Those are the bytes that nobody has stored to, and those that got an unwritten value: compilers keep registers here, and
copy structures with the gaps between their fields. So a store marks bytes, and a load takes the marks along.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .access import Access
from .errors import UninitializedError
from .frame import Frame, Index
from .taint import Holes

if TYPE_CHECKING:
    from .spaces import Cells

Threads = NDArray[np.intp]


class Stack:
    """The local memory of a frame's threads."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._bare = np.full(len(frame.local.bytes), 0xFF, np.uint8)

    def forget(self, threads: Threads, start: Threads, count: Threads) -> None:
        """So many bytes of local memory from an address on, of each thread, hold nothing from now on."""
        where = np.arange(int(count.max(initial=0)))
        first = threads * self._frame.local.stride + start
        self._bare[(first[:, None] + where)[where < count[:, None]]] = 0xFF

    def load(self, access: Access, cells: list[Cells], index: Index) -> None:
        """Tell the frame which bytes of a load hold nothing."""
        for threads, where in self._octets(access, cells, index):
            octets = self._bare[where]
            rows = octets.any(1)
            if rows.any():
                self._frame.holes.append(Holes(access, "local", threads[rows], octets[rows]))

    def store(self, access: Access, cells: list[Cells], index: Index) -> None:
        """Bytes get values, or what is marked in the registers that are stored."""
        taint = self._frame.taint
        for threads, where in self._octets(access, cells, index):
            self._bare[where] = 0 if taint is None else taint.stored(access, threads)

    def require(self, access: Access, cells: list[Cells], index: Index) -> None:
        """Raise an UninitializedError where a function of the runtime reads bytes that hold nothing."""
        for threads, where in self._octets(access, cells, index):
            bare = self._bare[where].any(1)
            if bare.any():
                what = f"{access.what} of local memory that nobody wrote a value to"
                raise access.site.fault(UninitializedError, what, self._frame, int(threads[np.argmax(bare)]))

    def _octets(self, access: Access, cells: list[Cells], index: Index) -> Iterator[tuple[Threads, Threads]]:
        """The threads that touch local memory, and the bytes that each does: a row each."""
        for part in cells:
            if part.home is self._frame.local:
                threads = self._frame.indices(index)
                first = part.position * access.dtype.itemsize
                yield threads if part.chosen is None else threads[part.chosen], first[:, None] + np.arange(access.size)
