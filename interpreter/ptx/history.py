"""What a launch remembers: who last touched which byte of global memory, what blocks published, and the races."""

from __future__ import annotations

from ..memory import Buffer
from .access import Access
from .messages import Published
from .races import Races
from .scopes import leaves_out
from .shadow import Clock, Shadow, granule_bits


class History:
    """What a launch remembers of global memory, of the races in it, and of time.

    copies: the access of each one ever in flight. issuers: by stamp, the thread an engine worked for. narrow: whether
    strong accesses may leave others out.
    """

    def __init__(self, accesses: list[Access], blocks: int) -> None:
        self.published = Published(blocks)
        self.clock = Clock(accesses)
        self.races = Races()
        self.bits = {space: granule_bits(accesses, space) for space in ("shared", "global")}
        self.narrow = leaves_out(accesses)
        self.copies: list[Access] = []
        self.issuers: dict[int, int] = {}
        self._buffers: dict[int, Shadow] = {}

    def shadow(self, buffer: Buffer) -> Shadow:
        """The records of a buffer of global memory, from the last multiple of 16 at or below its start on."""
        found = self._buffers.get(id(buffer))
        if found is None:
            found = self._buffers[id(buffer)] = Shadow(buffer.nbytes + buffer.start % 16, self.bits["global"], False)
        return found
