"""The memory that kernels see: the arguments' buffers at their real addresses, and nothing else.

A buffer is the byte range of one argument. An access whose pointer is known to come from an argument must stay in that
argument's buffer; any other access must lie in some buffer. Nothing here reads or writes an address before the range
has been checked: typed views are cut out of the buffer's own bytes, and NumPy checks them once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

Array = NDArray[Any]


class Root(NamedTuple):
    """Where a pointer comes from: a parameter of a function, by their names."""

    function: str
    parameter: str


class _Raw:
    """Bytes at an address, as NumPy's array interface describes them."""

    def __init__(self, address: int, nbytes: int, readonly: bool) -> None:
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, readonly), "version": 3}


def raw_bytes(address: int, nbytes: int, readonly: bool) -> NDArray[np.uint8]:
    """The bytes at an address as an array. Whoever calls this keeps the memory alive."""
    if nbytes == 0:
        empty = np.empty(0, np.uint8)
        empty.flags.writeable = not readonly
        return empty
    return np.asarray(_Raw(address, nbytes, readonly))


@dataclass(slots=True, eq=False)
class Buffer:
    """The bytes of one argument: `nbytes` of them from `start`.

    `keepalive` owns the memory. `shape` and `dtype` describe the argument in messages. `origin` is the
    address that the argument itself holds, `start` unless given (it differs for negative strides). `bytes` is made
    from the address unless it is given.
    """

    name: str
    start: int
    nbytes: int
    readonly: bool = False
    keepalive: object = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    origin: int | None = None
    bytes: NDArray[np.uint8] = field(default=None, repr=False)  # type: ignore[assignment]
    _views: dict[np.dtype[Any], tuple[Array, int]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.bytes is None:  # pyright: ignore[reportUnnecessaryComparison]
            self.bytes = raw_bytes(self.start, self.nbytes, self.readonly)

    @classmethod
    def of(cls, name: str, array: Array, readonly: bool | None = None) -> Buffer:
        """The buffer of an array: the byte range that its elements span, strided views included.

        `readonly` None takes the array's own flag.
        """
        start, end = byte_bounds(array) if array.size else (array.ctypes.data, array.ctypes.data)
        sealed = not array.flags.writeable if readonly is None else readonly
        return cls(name, int(start), int(end - start), sealed, array, array.shape, str(array.dtype), array.ctypes.data)

    @property
    def end(self) -> int:
        """The first address after the buffer."""
        return self.start + self.nbytes

    def typed(self, dtype: np.dtype[Any]) -> tuple[Array, int]:
        """All whole elements of a dtype at aligned addresses, as a vector, and the address of the first."""
        found = self._views.get(dtype)
        if found is None:
            skip = -self.start % dtype.itemsize
            count = max(0, self.nbytes - skip) // dtype.itemsize
            view = self.bytes[skip : skip + count * dtype.itemsize].view(dtype)
            found = self._views[dtype] = (view, self.start + skip)
        return found

    def strided(self, dtype: np.dtype[Any], address: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
        """A view of elements at `address` plus multiples of byte `strides`. Raises ValueError outside the buffer."""
        return np.ndarray(shape, dtype, self.bytes, address - self.start, strides)

    def describe(self) -> str:
        """The argument, its shape and dtype, for a message."""
        if self.shape is None:
            return f"{self.name} ({self.nbytes} bytes)"
        return f"{self.name} ({self.dtype}, shape {self.shape})"


class Memory:
    """All buffers of a launch. `version` grows with every write, so that a waiting program can tell nothing changed.

    `kernel` names the function whose parameters the buffers are; a buffer has its parameter's name. Without it no
    pointer is held to one argument, and an access may touch any buffer.
    """

    def __init__(self, buffers: Iterable[Buffer] = (), kernel: str = "") -> None:
        self.buffers = tuple(buffers)
        self.kernel = kernel
        self.version = 0
        self._by_name = {buffer.name: buffer for buffer in self.buffers}
        self.extents = _extents(self.buffers)
        self._starts = np.array([extent.start for extent in self.extents], np.int64)

    def argument(self, root: Root | None) -> Buffer | None:
        """The buffer of a parameter of the kernel; None for any other root, and for a parameter without a buffer."""
        return None if root is None or root.function != self.kernel else self._by_name.get(root.parameter)

    def locate(self, addresses: NDArray[np.int64]) -> NDArray[np.intp]:
        """For each address the extent that could hold it (the last one that starts at or below), -1 for none."""
        return np.asarray(np.searchsorted(self._starts, addresses, side="right") - 1)

    def holding(self, low: int, high: int) -> Buffer | None:
        """The extent that contains all addresses from `low` up to, but not including, `high`."""
        if not self.extents:
            return None
        index = int(np.searchsorted(self._starts, low, side="right")) - 1
        extent = self.extents[index]
        return extent if index >= 0 and low >= extent.start and high <= extent.end else None

    def nearest(self, address: int) -> Buffer | None:
        """The buffer closest to an address, for messages."""
        return min(self.buffers, key=lambda b: max(b.start - address, address - b.end + 1, 0), default=None)


def _extents(buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """The buffers by address, those that overlap (views of one array) merged into one that spans them."""
    merged: list[Buffer] = []
    for buffer in sorted((b for b in buffers if b.nbytes), key=lambda b: (b.start, -b.nbytes)):
        last = merged[-1] if merged else None
        if last is None or buffer.start >= last.end:
            merged.append(buffer)
            continue
        nbytes = max(last.end, buffer.end) - last.start
        name = f"{last.name}, {buffer.name}"
        merged[-1] = Buffer(name, last.start, nbytes, last.readonly and buffer.readonly, (last, buffer))
    return tuple(merged)
