"""All cases of instructions that move or order data, in the order of the table's families."""

from __future__ import annotations

from functools import cache

from .move_addresses import address_cases
from .move_async import async_cases
from .move_atomics import atomic_cases
from .move_cases import Move
from .move_memory import memory_cases
from .move_stack import stack_cases
from .move_tensormap import tensormap_cases
from .move_threads import thread_cases
from .move_wide import wide_cases

_PARTS = (
    memory_cases, atomic_cases, thread_cases, address_cases, async_cases, wide_cases, stack_cases, tensormap_cases,
)  # fmt: skip


@cache
def moves() -> tuple[Move, ...]:
    """All of them, each name once."""
    found: dict[str, Move] = {}
    for move in (move for part in _PARTS for move in part()):
        found.setdefault(move.name, move)
    return tuple(found.values())
