"""Atomics that meet at an address: is there an order of them that explains what memory holds and what each found?

An atomic that found the value u and left v is an edge from u to v of a graph of values. Some order explains a set of
them exactly when the edges form one trail from the value at the beginning to the value at the end: every value is
entered as often as it is left (the ends aside), and all edges hang together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

Edge = tuple[int, int]


def some_order_explains(first: int, last: int, edges: Sequence[Edge]) -> bool:
    """Whether the edges can be walked, each once, from `first` to `last` (Euler's condition for a directed graph)."""
    balance: Counter[int] = Counter()
    for source, target in edges:
        balance[source] -= 1
        balance[target] += 1
    balance[first] += 1
    balance[last] -= 1
    return not any(balance.values()) and _hang_together(first, edges)


def _hang_together(first: int, edges: Sequence[Edge]) -> bool:
    """Whether every edge can be reached from `first`; direction does not matter once the degrees are right."""
    beside: defaultdict[int, set[int]] = defaultdict(set)
    for source, target in edges:
        beside[source].add(target)
        beside[target].add(source)
    reached, front = {first}, [first]
    while front:
        new = beside[front.pop()] - reached
        reached |= new
        front += new
    return reached >= beside.keys()
