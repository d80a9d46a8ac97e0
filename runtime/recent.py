"""A mapping with a bound: what was used longest ago makes room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def _one(value: object) -> int:
    return 1


class Recent(Generic[K, V]):
    """Values by key, whose sizes sum up to `bound` at most; the value used last stays, however large it is.

    Safe to share between threads.
    """

    def __init__(self, bound: int, size: Callable[[V], int] = _one) -> None:
        self.bound = bound
        self._size = size
        self._total = 0
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as a use; None where there is none."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of an older one of this key."""
        gone: list[V] = []  # let go of without the lock, for what ends with a value may come back here
        with self._lock:
            old = self._values.pop(key, None)
            if old is not None:
                self._total -= self._size(old)
                gone.append(old)
            self._values[key] = value
            self._total += self._size(value)
            while self._total > self.bound and len(self._values) > 1:
                gone.append(self._values.popitem(last=False)[1])
                self._total -= self._size(gone[-1])

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            gone, self._values, self._total = self._values, OrderedDict(), 0
        gone.clear()

    def __len__(self) -> int:
        return len(self._values)
