"""Matrices of 8 by 8 16-bit elements between shared memory and the registers of a warp: ldmatrix, stmatrix, movmatrix.

A row is 16 bytes of shared memory; lane `8 * n + r` gives the address of row `r` of matrix `n`, and lanes beyond the
last matrix give none. Register `n` of a lane holds two neighbours of a row of matrix `n`, or with `.trans` of a column.
"""

from __future__ import annotations

import numpy as np

from ..access import access_of
from ..collective import aligned_gate, vector, warps_of
from ..fragments import Fragment, accumulator, transposed
from ..frame import WARP, Frame, Index, spread
from ..site import Site
from ..spaces import in_shared, load, store
from ..table import Step, gated
from ..targets import needs
from ..types import TYPES, Array
from .memory import address_operand, address_reader

_U32 = TYPES["b32"]
_ROW = accumulator(8, 16)
_COUNT = {"x1": 1, "x2": 2, "x4": 4}
_SPACE = "[.<space:shared::cta|shared>]"


def _fragment(site: Site) -> Fragment:
    """How the lanes hold a matrix."""
    return transposed(_ROW) if site.modifiers["trans"] else _ROW


class _Rows:
    """The rows of all matrices of an instruction in shared memory, warp by warp, and the access to them."""

    def __init__(self, site: Site, at: int, verb: str, writes: bool) -> None:
        self.site = site
        self.space = site.modifiers["space"].partition("::")[0] or "generic"
        self.lanes = 8 * _COUNT[site.modifiers["num"]]
        self.address = address_reader(site, address_operand(site, at), self.space)
        self.access = access_of(site, "shared", np.dtype(np.uint32), 4, verb, writes, collective=True)

    def load(self, frame: Frame, index: Index) -> Array:
        """The four words of each row."""
        return np.stack(load(self.access, frame, *self._places(frame, index)), axis=1)

    def store(self, frame: Frame, index: Index, words: Array) -> None:
        """Write the four words of each row."""
        store(self.access, frame, *self._places(frame, index), list(words.T))

    def _places(self, frame: Frame, index: Index) -> tuple[Index, Array]:
        """The threads that give addresses, and the addresses in shared memory."""
        addresses = spread(self.address(frame, index), frame.size(index))
        if self.lanes < WARP:
            index, addresses = (
                x.reshape(-1, WARP)[:, : self.lanes].reshape(-1) for x in (frame.indices(index), addresses)
            )
        if self.space == "generic":
            addresses = in_shared(self.site, frame, index, addresses)
        return index, addresses


@gated(f"ldmatrix.sync.aligned.m8n8.<num:x1|x2|x4>[.trans]{_SPACE}.b16", "load", aligned_gate)
def ldmatrix(site: Site) -> Step:
    site.arity(2)
    needs(site, 75)
    count, fragment = _COUNT[site.modifiers["num"]], _fragment(site)
    writes = [site.write(op, _U32) for op in vector(site, site.operands[0], count, 32, "result")]
    rows = _Rows(site, 1, "load of", writes=False)

    def run(frame: Frame, index: Index) -> None:
        matrices = rows.load(frame, index).view(np.uint16).reshape(-1, 8, 8)
        registers = fragment.spread(matrices).reshape(-1, count, WARP)
        for number, write in enumerate(writes):
            write(frame, index, registers[:, number].reshape(-1))

    return run


@gated(f"stmatrix.sync.aligned.m8n8.<num:x1|x2|x4>[.trans]{_SPACE}.b16", "store", aligned_gate)
def stmatrix(site: Site) -> Step:
    """Where rows meet, that of the later lane stays."""
    site.arity(2)
    needs(site, 90)
    count, fragment = _COUNT[site.modifiers["num"]], _fragment(site)
    reads = [site.read_bits(op, _U32) for op in vector(site, site.operands[1], count, 32, "source")]
    rows = _Rows(site, 0, "store of", writes=True)

    def run(frame: Frame, index: Index) -> None:
        registers = warps_of([read(frame, index) for read in reads], frame.size(index))
        matrices = fragment.matrices(registers.reshape(-1, 1, WARP))
        rows.store(frame, index, matrices.view(np.uint32).reshape(-1, 4))

    return run


@gated("movmatrix.sync.aligned.m8n8.trans.b16", "warp", aligned_gate)
def movmatrix(site: Site) -> Step:
    """The transposed matrix, held in the same way."""
    site.arity(2)
    needs(site, 75)
    write, read = site.write(site.operands[0], _U32), site.read_bits(site.operands[1], _U32)

    def run(frame: Frame, index: Index) -> None:
        matrices = _ROW.matrices(warps_of([read(frame, index)], frame.size(index)))
        write(frame, index, transposed(_ROW).spread(matrices).reshape(-1))

    return run
