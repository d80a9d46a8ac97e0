"""Special registers: who a thread is, where, and when.

`%clock`, `%clock64` and `%globaltimer` count the instructions that the chunk has issued, so that runs repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .types import Array

if TYPE_CHECKING:
    from .frame import Frame, Index

Rule = Callable[["Frame"], Array]


def _number_in_block(frame: Frame) -> Array:
    return frame.number % frame.threads


def _tid(axis: int) -> Rule:
    def rule(frame: Frame) -> Array:
        x, y, _ = frame.launch.block
        inside = _number_in_block(frame)
        return (inside % x, inside // x % y, inside // (x * y))[axis]

    return rule


def _ctaid(axis: int) -> Rule:
    def rule(frame: Frame) -> Array:
        if frame.cluster == 1:
            return _along(_block(frame), frame.launch.grid)[axis]
        cluster, inside = _in_cluster(axis)(frame), _in_grid(axis)(frame)
        return inside * frame.launch.cluster[axis] + cluster

    return rule


def _in_cluster(axis: int) -> Rule:
    """The index of a block in its cluster."""
    return lambda frame: _along(_rank(frame), frame.launch.cluster)[axis]


def _in_grid(axis: int) -> Rule:
    """The index of a cluster in the grid."""
    return lambda frame: _along(_block(frame) // frame.cluster, frame.launch.clusters)[axis]


def _block(frame: Frame) -> Array:
    return frame.first + frame.number // frame.threads


def _rank(frame: Frame) -> Array:
    return _block(frame) % frame.cluster


def _along(number: Array, extent: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    x, y, _ = extent
    return number % x, number // x % y, number // (x * y)


def _one(value: Callable[[Frame], int]) -> Rule:
    return lambda frame: np.array([value(frame)])


def _laneid(frame: Frame) -> Array:
    return _number_in_block(frame) & 31


def _lane_mask(rule: Callable[[Array], Array]) -> Rule:
    return lambda frame: rule(np.left_shift(np.int64(1), _laneid(frame).astype(np.int64))) & 0xFFFF_FFFF


def _axes(name: str, rule: Callable[[int], Rule]) -> dict[str, Rule]:
    return {f"%{name}.{axis}": rule(number) for number, axis in enumerate("xyz")}


CONSTANT: dict[str, Rule] = {
    **_axes("tid", _tid),
    **_axes("ntid", lambda axis: _one(lambda frame: frame.launch.block[axis])),
    **_axes("ctaid", _ctaid),
    **_axes("nctaid", lambda axis: _one(lambda frame: frame.launch.grid[axis])),
    **_axes("clusterid", _in_grid),
    **_axes("nclusterid", lambda axis: _one(lambda frame: frame.launch.clusters[axis])),
    **_axes("cluster_ctaid", _in_cluster),
    **_axes("cluster_nctaid", lambda axis: _one(lambda frame: frame.launch.cluster[axis])),
    "%cluster_ctarank": _rank,
    "%cluster_nctarank": _one(lambda frame: frame.cluster),
    "%is_explicit_cluster": _one(lambda frame: int(frame.launch.explicit_cluster)),
    "%laneid": _laneid,
    "%warpid": lambda frame: _number_in_block(frame) >> 5,
    "%nwarpid": _one(lambda frame: -(-frame.threads // 32)),
    "%smid": lambda frame: frame.first + frame.number // frame.threads,
    "%nsmid": _one(lambda frame: frame.launch.grid[0] * frame.launch.grid[1] * frame.launch.grid[2]),
    "%gridid": _one(lambda frame: 0),
    "%lanemask_eq": _lane_mask(lambda bit: bit),
    "%lanemask_lt": _lane_mask(lambda bit: bit - 1),
    "%lanemask_le": _lane_mask(lambda bit: 2 * bit - 1),
    "%lanemask_gt": _lane_mask(lambda bit: -2 * bit),
    "%lanemask_ge": _lane_mask(lambda bit: -bit),
    "%dynamic_smem_size": _one(lambda frame: frame.launch.dynamic_shared),
    "%total_smem_size": _one(lambda frame: frame.launch.shared_bytes),
    "WARP_SZ": _one(lambda frame: 32),
}
"""Registers that keep their value while a thread runs, each as int64 for all threads or one for all."""

CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")

SPECIALS = frozenset((*CONSTANT, *CLOCKS))
"""Every special register."""


def value_of(frame: Frame, name: str) -> Array:
    """A constant special register as bits, 64 wide."""
    return CONSTANT[name](frame).astype(np.int64).view(np.uint64)


def reader_of(name: str) -> Callable[[Frame, Index], Array]:
    """How to read a special register, as 64 bits."""
    if name in CLOCKS:
        shift = np.uint64(32 if name.endswith("_hi") else 0)

        def clock(frame: Frame, index: Index) -> Array:
            frame.changes += 1  # whoever reads the time may wait for it
            return np.array([frame.launch.issued], np.uint64) >> shift

        return clock

    def read(frame: Frame, index: Index) -> Array:
        bits = frame.special(name)
        return bits if index is None or len(bits) == 1 else bits[index]

    return read
